"""What is released: one version everywhere, complete archives, types that users see, true lists."""

from __future__ import annotations

import json
import re
import shutil
import site
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from importlib import metadata
from pathlib import Path

import pytest
from studies import ROOT

import diffdag
from diffdag import __main__ as cli

pytestmark = pytest.mark.docs
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
SOURCE = ROOT / "src" / "diffdag"
# Everything a user needs besides Python: templates, styles, scripts, the embedded data, the mark of types.
NEEDED = {".css", ".csv", ".gz", ".html", ".j2", ".js", ".md", ".pyi", ".typed"}
# What is written in C++, without the end of the name, which depends on the platform; and what it is made from.
COMPILED = {"diffdag/ordersearch/core/_core", "diffdag/precision/_descent"}
SOURCES, LIBRARIES = (".cpp", ".h"), (".so", ".pyd")
USES_TYPES = """
import diffdag

result = diffdag.DifferenceDAG().fit(*diffdag.load_sachs_pair("u0126")).result_
reveal_type(result)
result.no_such_thing
"""
WITHOUT_SOURCE = (
    "import diffdag.__main__",
    "assert diffdag.__main__.run(['report', 'answer']) == 0",
    "from diffdag.model.datasets import load_sachs; assert load_sachs().shape == (7466, 12)",
    "assert diffdag.DifferenceDAG().fit(*diffdag.load_sachs_pair('u0126')).result_.edge_list",
    "print(diffdag.__file__)",
)


def text(name):
    return (ROOT / name).read_text(encoding="utf-8")


def released(folder):
    """Every file of the package that belongs in a release, by its path below `src`."""
    found = (path for path in SOURCE.rglob("*") if path.is_file() and "__pycache__" not in path.parts)
    return {path.relative_to(folder).as_posix() for path in found if path.suffix not in SOURCES + LIBRARIES}


def built(kind, source, out, **settings):
    settings = {"build-dir": str(out / "build"), **settings}
    build = f"build.build_{kind}({str(out)!r}, {settings!r})"
    command = [sys.executable, "-c", f"from scikit_build_core import build; {build}"]
    subprocess.run(command, cwd=source, check=True, capture_output=True)
    (archive,) = out.glob("*.whl" if kind == "wheel" else "*.tar.gz")
    return archive


@pytest.fixture(scope="module")
def unpacked(tmp_path_factory):
    """The folder of an unpacked sdist."""
    folder = tmp_path_factory.mktemp("sdist")
    with tarfile.open(built("sdist", ROOT, folder)) as archive:
        archive.extractall(folder, filter="data")
    return folder / f"diffdag-{PROJECT['version']}"


@pytest.fixture(scope="module")
def wheel(unpacked, tmp_path_factory):
    """Built from the sdist, as `make dist` does."""
    return built("wheel", unpacked, tmp_path_factory.mktemp("wheel"))


@pytest.fixture(scope="module")
def answer():
    pair = diffdag.simulate_pair(4, neighbours=2, changes=1, rng=880_100)
    tables = [model.sample(200, rng=seed) for seed, model in enumerate((pair.first, pair.second))]
    return diffdag.DifferenceDAG().fit(*tables).result_


def test_all_places_agree_on_the_version(capsys):
    version = PROJECT["version"]
    assert metadata.version("diffdag") == version, "set the environment up again: make"
    assert diffdag.__version__ == version
    assert cli.run(["--version"]) == 0
    assert capsys.readouterr().out == f"diffdag {version}\n"
    newest, day = re.search(r"^## (\S+), (\d{4}-\d\d-\d\d)$", text("CHANGELOG.md"), re.MULTILINE).groups()
    assert newest == version
    citation = text("CITATION.cff")
    assert re.search(r"^version: (.*)$", citation, re.MULTILINE)[1] == version
    assert re.search(r"^date-released: (.*)$", citation, re.MULTILINE)[1] == day


def test_an_answer_names_the_version(answer):
    assert json.loads(answer.to_json())["diffdag"] == PROJECT["version"]


def test_the_wheel_has_every_file_of_the_package_and_nothing_else(wheel):
    with zipfile.ZipFile(wheel) as archive:
        names = {name for name in archive.namelist() if ".dist-info/" not in name}
    libraries = {name for name in names if name.endswith(LIBRARIES)}
    assert {name.split(".")[0] for name in libraries} == COMPILED
    assert len(libraries) == len(COMPILED)
    assert names - libraries == released(ROOT / "src")
    assert {Path(name).suffix for name in names - libraries} == NEEDED | {".py"}


def test_the_repository_gives_the_same_wheel(wheel, tmp_path):
    """But for what is compiled, which is made once: from the same sources, see below."""
    direct = built("wheel", ROOT, tmp_path, **{"wheel.cmake": "false", "wheel.py-api": "py3"})
    contents = []
    for path in (wheel, direct):
        with zipfile.ZipFile(path) as archive:
            kept = (name for name in archive.namelist() if not name.endswith((*LIBRARIES, "/RECORD", "/WHEEL")))
            contents.append({name: archive.read(name) for name in kept})
    assert contents[0] == contents[1]


def test_the_sdist_has_what_a_repository_has(unpacked):
    """So that its tests can be run and its documentation built."""
    expected = {path.name for path in ROOT.glob("*.md")} | {
        "LICENSE",
        "CITATION.cff",
        "CMakeLists.txt",
        "Makefile",
        "pyproject.toml",
    }
    assert expected < {path.name for path in unpacked.iterdir()}
    for folder in ("tests", "docs", "examples", "benchmarks"):
        there = {path.relative_to(unpacked) for path in (unpacked / folder).rglob("*.py")}
        here = (path for path in (ROOT / folder).rglob("*.py") if "gallery" not in path.parts)
        assert there == {path.relative_to(ROOT) for path in here}
    build = ("CMakeLists.txt", "pyproject.toml")
    sources = [
        {p.relative_to(root): p.read_bytes() for p in (root / "src").rglob("*") if p.suffix in SOURCES}
        | {Path(name): (root / name).read_bytes() for name in build}
        for root in (ROOT, unpacked)
    ]
    assert len(sources[0]) > len(build)
    assert sources[0] == sources[1]
    left = [path.name for path in unpacked.rglob("*") if path.suffix in (".pyc", *LIBRARIES)]
    assert left == []


def test_the_wheel_works_without_the_source(wheel, answer, tmp_path):
    """A report needs templates, styles and scripts, a fit what is compiled."""
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(tmp_path / "installed")  # noqa: S202 - built a moment ago
    answer.save(tmp_path / "answer")
    (tmp_path / "answer" / "report.html").unlink()
    places = [str(tmp_path / "installed"), *site.getsitepackages()]
    program = [f"import sys; sys.path += {places!r}", *WITHOUT_SOURCE]
    # Without the files that are read at every start: an editable installation is found through one of them.
    command = [sys.executable, "-S", "-c", "\n".join(program)]
    done = subprocess.run(command, cwd=tmp_path, check=True, capture_output=True, text=True)
    assert Path(done.stdout.splitlines()[-1]).is_relative_to(tmp_path)
    assert (tmp_path / "answer" / "report.html").stat().st_size > 50_000


def test_types_are_seen_from_outside(tmp_path):
    (tmp_path / "uses.py").write_text(USES_TYPES, encoding="utf-8")
    if (ROOT / ".mypy_cache").exists():  # left by the check of types, and worth a minute
        shutil.copytree(ROOT / ".mypy_cache", tmp_path / "cache")
    options = ["--config-file", str(ROOT / "pyproject.toml"), "--cache-dir", "cache", "uses.py"]
    done = subprocess.run(
        [sys.executable, "-m", "mypy", *options], cwd=tmp_path, check=False, capture_output=True, text=True
    )
    assert 'Revealed type is "diffdag.result.DifferenceResult"' in done.stdout
    assert '"DifferenceResult" has no attribute "no_such_thing"' in done.stdout


def test_tools_test_the_extras_that_users_can_install():
    optional = PROJECT["optional-dependencies"]
    for extra in set(optional) - {"dev"}:
        assert set(optional[extra]) <= set(optional["dev"])
