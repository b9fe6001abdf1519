"""The documentation is true: its code runs, the site builds without a warning, every link leads somewhere."""

from __future__ import annotations

import ast
import doctest
import inspect
import operator
import os
import pydoc
import re
import shlex
import shutil
import subprocess
import sys
from dataclasses import fields
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest
from numpydoc.docscrape import NumpyDocString
from studies import DOCS, ROOT
from typer.main import get_command

import diffdag
from diffdag import __main__ as cli
from diffdag.__main__ import commands
from diffdag.results.records import Edge, Node

pytestmark = pytest.mark.docs
PAGES = sorted(path.relative_to(DOCS).as_posix() for path in DOCS.rglob("*.md"))
PYTHON = re.compile(r"^```python\n(.*?)^```", re.MULTILINE | re.DOTALL)
ONE_PROCESS = ("LOKY_MAX_CPU_COUNT", "1")  # small fits: starting workers would take longer than the work
MEANT_FOR_OTHERS = {"cluster.md", "trust.md"}  # need a cluster, or tables of the reader's


def code_only(text):
    """Blocks of Python at their places, everything else blank: line numbers stay those of the page."""
    kept = [""] * len(text.splitlines())
    for block in PYTHON.finditer(text):
        start = text[: block.start(1)].count("\n")
        lines = block[1].splitlines()
        kept[start : start + len(lines)] = lines
    return "\n".join(kept) + "\n"


@pytest.mark.parametrize("name", PAGES)
def test_sessions_on_a_page_say_what_it_shows(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv(*ONE_PROCESS)
    text = code_only((DOCS / name).read_text(encoding="utf-8"))
    test = doctest.DocTestParser().get_doctest(text, {"__name__": "page"}, name, str(DOCS / name), 0)
    said = []
    runner = doctest.DocTestRunner(verbose=False, optionflags=doctest.NORMALIZE_WHITESPACE)
    runner.run(test, out=said.append)
    assert runner.failures == 0, "".join(said)


@pytest.mark.parametrize("name", PAGES)
def test_code_on_a_page_is_python(name):
    for block in PYTHON.findall((DOCS / name).read_text(encoding="utf-8")):
        if ">>>" not in block:
            assert name in MEANT_FOR_OTHERS, "write it as a session, so that it is run"
            ast.parse(block)


def test_python_in_the_readme_runs(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv(*ONE_PROCESS)
    blocks = PYTHON.findall((ROOT / "README.md").read_text(encoding="utf-8"))
    assert blocks
    for block in blocks:
        quicker = block.replace("resamples=200", "resamples=20, permutations=99")
        exec(compile(quicker, "README.md", "exec"), {})  # noqa: S102
    assert (tmp_path / "answer" / "report.html").exists()


R = re.compile(r"^```r\n(.*?)^```\n(?:\n```text\n(.*?)^```)?", re.MULTILINE | re.DOTALL)


@pytest.mark.skipif(shutil.which("Rscript") is None, reason="needs R")
def test_r_says_what_its_page_shows(tmp_path):
    there = subprocess.run(["Rscript", "-e", "library(jsonlite)"], capture_output=True, check=False)
    if there.returncode:
        pytest.skip("needs jsonlite")
    blocks = R.findall((DOCS / "howto" / "r.md").read_text(encoding="utf-8"))
    assert len(blocks) == 6
    shutil.copy(ROOT / "examples" / "diffdag.R", tmp_path)
    (tmp_path / "page.R").write_text('cat("<end>\\n")\n'.join(code for code, _ in blocks), encoding="utf-8")
    program = Path(sys.executable).with_name("diffdag")
    alone = {**os.environ, **dict([ONE_PROCESS]), "DIFFDAG": str(program), "LC_ALL": "C.UTF-8"}
    done = subprocess.run(
        ["Rscript", "page.R"], cwd=tmp_path, env=alone, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    said = [part.split() for part in done.stdout.split("<end>\n")]
    assert said == [shown.split() for _, shown in blocks]


@pytest.fixture
def comparison(tmp_path, monkeypatch):
    """A folder as workflows expect it, with a comparison whose name needs quotes."""
    monkeypatch.chdir(tmp_path)
    folder = tmp_path / "data" / "a drug"
    folder.mkdir(parents=True)
    pair = diffdag.simulate_pair(4, neighbours=2, changes=1, rng=880_200)
    for seed, (name, model) in enumerate({"control": pair.first, "treated": pair.second}.items()):
        rows = (
            ",".join(model.names)
            + "\n"
            + "\n".join(",".join(map(str, row)) for row in model.sample(300, rng=seed))
        )
        (folder / f"{name}.csv").write_text(rows, encoding="utf-8")
    return folder


@pytest.mark.parametrize(
    ("name", "places"),
    [
        ("Snakefile", ("{input.first:q}", "{input.second:q}", "{threads}", "{wildcards.name:q}")),
        ("diffdag.nf", ("${first}", "${second}", "${task.cpus}", "'${name}'")),
    ],
)
def test_rules_of_workflows_call_the_program_as_it_is(name, places, comparison, tmp_path):
    text = (ROOT / "examples" / name).read_text(encoding="utf-8")
    command = re.search(r"diffdag fit .*?--out \S+", text, re.DOTALL)[0].replace('"\n        "', "")
    values = (comparison / "control.csv", comparison / "treated.csv", 1, "out put")
    for place, value in zip(places, values, strict=True):
        assert place in command
        command = command.replace(place, shlex.quote(str(value)))
    assert cli.run(shlex.split(command)[1:]) == 0
    outputs = re.findall(r'"answers/\{name\}/(.*)",\n', text) or ["result.json"]
    (written,) = tmp_path.rglob("out put")
    assert {*outputs} <= {path.name for path in written.iterdir()}


@pytest.mark.skipif(shutil.which("snakemake") is None, reason="needs Snakemake")
def test_snakemake_runs_its_example(comparison, tmp_path):
    shutil.copy(ROOT / "examples" / "Snakefile", tmp_path)
    found = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    done = subprocess.run(
        ["snakemake", "--cores", "1"],
        env={**os.environ, "PATH": found},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "figures" / f"{comparison.name}.pdf").is_file()


MARKDOWN = sorted(path.relative_to(ROOT).as_posix() for path in (*ROOT.glob("*.md"), *DOCS.rglob("*.md")))
NO_PROSE = re.compile(r"\s*(\||#|<|\$\$)|    \S")  # a table, a heading, a comment, a formula, code
FOREIGN = re.compile(r"`[^`]+`|(?<=\])\([^)]*\)|\$[^$]+\$")  # inline code, where a link leads, a formula
TITLE = re.compile(r"\s*(?:[-*]\s+|\d+\.\s+)?(?:\*{1,2}[^*]+[.?!]\*{1,2}\s+)?")  # "- **Ranges.** "
SENTENCE_END = re.compile(r"""(.*?)[.?!][)"*_\]']*\s+(?=[("*_\[]*[A-Z0-9~])""")
ABBREVIATION = re.compile(r"\b(e\.g|i\.e|et al|cf|vs|no|vol|pp|[A-Z])$")


def prose(text):
    """The lines of a page that hold prose, with their numbers."""
    fence = ""
    for number, line in enumerate(text.splitlines(), 1):
        mark = re.match(r"\s*(`{3,})", line)
        if mark:
            fence = "" if line.strip() == fence else fence or mark[1]
        elif not fence and not NO_PROSE.match(line):
            yield number, line


def sentences(line):
    """How many sentences a line holds; a title in bold at its beginning is none."""
    plain = FOREIGN.sub("~", line)
    plain = plain[TITLE.match(plain).end() :]
    return 1 + sum(not ABBREVIATION.search(found[1]) for found in SENTENCE_END.finditer(plain))


@pytest.mark.parametrize("name", MARKDOWN)
def test_a_line_holds_one_sentence(name):
    lines = prose((ROOT / name).read_text(encoding="utf-8"))
    assert [f"{name}:{number}" for number, line in lines if sentences(line) > 1] == []


@pytest.mark.parametrize(
    ("line", "count"),
    [
        ("One. Two.", 2),
        ("Is it so? `fit` says it. (And *this*.)", 3),
        ("- **Ranges.** One sentence.", 1),
        ("1. One sentence of Sachs et al. (2005), e.g. A. Ghoshal, with 0.5 and `a. B`.", 1),
        ("See [what. Why](a.md). Then this.", 3),
    ],
)
def test_sentences_are_counted(line, count):
    assert sentences(line) == count


class Page(HTMLParser):
    """What a page links to, what it loads, and the anchors it has."""

    def __init__(self, path):
        super().__init__()
        self.links, self.loads, self.anchors, self.formulas = [], [], set(), 0
        self.feed(path.read_text(encoding="utf-8"))

    def handle_starttag(self, tag, attrs):
        given = dict(attrs)
        self.anchors |= {given[key] for key in ("id", "name") if given.get(key)}
        self.formulas += tag == "math"
        if tag == "a" and "href" in given:
            self.links.append(given["href"])
        elif tag == "link" and given.get("rel") not in ("canonical", "prev", "next", "search", "index"):
            self.loads.append(given.get("href", ""))
        elif tag in ("script", "img", "iframe", "source", "object", "embed", "video"):
            self.loads += [given[key] for key in ("src", "srcset", "data") if given.get(key)]


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """The whole site, built from a copy of its sources: the build writes among them."""
    place = tmp_path_factory.mktemp("site")
    unwanted = shutil.ignore_patterns("gallery", "_build", "__pycache__")
    for name in ("docs", "examples"):
        shutil.copytree(ROOT / name, place / name, ignore=unwanted)
    for path in (*ROOT.glob("*.md"), ROOT / "CITATION.cff"):  # pages link to them
        shutil.copy(path, place)
    command = [sys.executable, "-m", "sphinx", "-W", "--keep-going", "-q", "-b", "html", "docs", "html"]
    alone = {**os.environ, **dict([ONE_PROCESS]), "MPLBACKEND": "agg", "OPENBLAS_NUM_THREADS": "1"}
    done = subprocess.run(command, cwd=place, env=alone, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return place / "html"


@pytest.fixture(scope="module")
def pages(site):
    return {path.relative_to(site).as_posix(): Page(path) for path in site.rglob("*.html")}


def target(name, link):
    """The page that a link on a page leads to, and the anchor there; None if it leaves the site."""
    parts = urlsplit(link)
    if parts.scheme or parts.netloc:
        return None
    path = os.path.normpath(Path(name).parent / unquote(parts.path)) if parts.path else name
    return Path(path).as_posix(), unquote(parts.fragment)


def test_every_link_and_anchor_leads_somewhere(site, pages):
    broken = []
    for name, page in pages.items():
        for link in page.links:
            found = target(name, link)
            if found is None:
                continue
            path, anchor = found
            known = path in pages or (site / path).is_file()
            if not known or (anchor and path in pages and anchor not in pages[path].anchors):
                broken.append(f"{name}: {link}")
    assert broken == []


def test_every_page_can_be_reached(pages):
    seen, todo = set(), ["index.html"]
    while todo:
        name = todo.pop()
        if name in seen or name not in pages:
            continue
        seen.add(name)
        todo += [found[0] for link in pages[name].links if (found := target(name, link))]
    assert set(pages) - seen - {"genindex.html", "search.html", "py-modindex.html"} == set()


def test_nothing_is_fetched(site, pages):
    for name, page in pages.items():
        outside = [part for part in page.loads if "//" in part and not part.startswith("data:")]
        assert outside == [], name
        for part in page.loads:
            for one in part.split(","):
                found = target(name, one.split()[0]) if one.strip() and not one.startswith("data:") else None
                assert found is None or (site / found[0]).is_file(), f"{name}: {one}"
    for style in site.rglob("*.css"):
        assert not re.search(r"(@import|url\()\s*[\"']?(https?:)?//", style.read_text(encoding="utf-8")), style


def test_formulas_are_mathml(pages):
    assert pages["howitworks.html"].formulas >= 10
    assert "$$" not in "".join(pages["howitworks.html"].links)


def test_the_reference_has_every_public_name_and_every_command(pages):
    anchors = set().union(*(page.anchors for name, page in pages.items() if name.startswith("api/")))
    assert {f"diffdag.{name}" for name in diffdag.__all__} <= anchors
    assert {f"diffdag-{name}" for name in get_command(commands()).commands} <= anchors


MADE_BY_FITS = {"ConditionsResult", "DifferenceResult"}  # their fields are documented as attributes
METHODS = [
    f"{name}.{method}"
    for name in diffdag.__all__
    for method, call in inspect.getmembers(getattr(diffdag, name), inspect.isroutine)
    if not method.startswith("_") and "\nParameters\n" in (inspect.getdoc(call) or "")
]


def public(name):
    return operator.attrgetter(name)(diffdag)


def undocumented(call):
    """Parameters of a callable whose line in its docstring is missing, or does not say their default."""
    told = {
        name.lstrip("*"): parameter.type
        for parameter in NumpyDocString(inspect.getdoc(call))["Parameters"]
        for name in parameter.name.split(", ")
    }
    for name, parameter in inspect.signature(call).parameters.items():
        default = parameter.default
        if name == "self" or (default is parameter.empty and name in told):
            continue
        plain = isinstance(default, str | int | float) or (isinstance(default, tuple) and default)
        said = f"default {default!r}".replace("'", '"') if plain else "optional"
        if not told.get(name, "").endswith(said):
            yield f"{name}: {said if name in told else 'nothing about it'}"


@pytest.mark.parametrize("name", sorted({*diffdag.__all__, *METHODS} - MADE_BY_FITS - {"DiffDagWarning"}))
def test_docstrings_tell_every_parameter_and_its_default(name):
    assert list(undocumented(public(name))) == []


def test_methods_say_what_each_parameter_is_for():
    """In a section of its own (see above), or in a sentence; a renderer's own `result` is the object itself."""
    silent = []
    for name in diffdag.__all__:
        for method, call in inspect.getmembers(public(name), inspect.isroutine):
            text = inspect.getdoc(call) or ""
            ours = hasattr(call, "__code__") and not method.startswith("_")
            if not ours or f"{name}.{method}" in METHODS:
                continue
            given = set(inspect.signature(call).parameters) - {"self", "result"}
            silent += [f"{name}.{method}: {own}" for own in sorted(given) if f"`{own}`" not in text]
    assert silent == []


@pytest.mark.parametrize(("table", "record"), [("edges", Edge), ("nodes", Node)])
def test_the_glossary_has_every_column(table, record):
    glossary = (DOCS / "glossary.md").read_text(encoding="utf-8")
    told = glossary.partition(f"## Columns of `result.{table}`\n")[2].partition("\n## ")[0]
    columns = {name for row in re.findall(r"^\| (`.*?) \|", told, re.MULTILINE) for name in row.split(", ")}
    assert columns == {f"`{field.name}`" for field in fields(record)}


@pytest.mark.parametrize("name", diffdag.__all__)
def test_docstrings_say_what_else_to_see_and_show_it(name):
    told = NumpyDocString(inspect.getdoc(public(name)))
    assert told["See Also"]
    for function, _ in (entry for group, _ in told["See Also"] for entry in group):
        assert resolved(function) is not None, function
    assert told["Examples"] or name == "DiffDagWarning"
    if inspect.isfunction(public(name)):
        assert told["Returns"]


def resolved(name):
    """What a name in a docstring stands for: a public name, a method of one, or something in a room."""
    try:
        return public(name.removeprefix("diffdag."))
    except AttributeError:
        return pydoc.locate(name)


@pytest.mark.parametrize("width", [1280, 390])
def test_pages_work_from_disk(site, visit, width):
    visit.page.set_viewport_size({"width": width, "height": 844})
    for name in ("index", "tutorial", "howitworks", "trust", "api/commands", "gallery/index"):
        visit.page.goto((site / f"{name}.html").as_uri())
        assert visit.page.evaluate("document.documentElement.scrollWidth") <= width, name
        broken = "Array.from(document.images).filter(i => i.complete && !i.naturalWidth).map(i => i.src)"
        assert visit.page.evaluate(broken) == [], name
    assert visit.complaints == []
    assert all(request.startswith(("file:", "data:")) for request in visit.requests)


def test_search_works_from_disk(site, visit):
    visit.page.goto((site / "search.html").as_uri() + "?q=winsorised")
    visit.page.wait_for_selector("ul.search li a")
    assert visit.page.locator("ul.search li").count() >= 3
