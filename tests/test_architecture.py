"""The house keeps its walls: which room may import from which, how large it is, and what it promises.

Imports are read from the source, wherever they stand: at the top of a file, inside a function, or under
``if TYPE_CHECKING``.
"""

from __future__ import annotations

import ast
import itertools
import re
import subprocess
import sys
from functools import cache
from graphlib import CycleError, TopologicalSorter
from typing import NamedTuple

import pytest
from studies import ROOT

import diffdag

SOURCE = ROOT / "src" / "diffdag"
# Each room may import from itself and from those before it; "top" are the files beside the rooms.
ROOMS = (
    "_base", "tables", "model", "precision", "results", "ordersearch", "paper", "trust", "report", "top", "app",
    "reproduce",
)  # fmt: skip
DOORS = {"__init__.py", "__main__.py"}  # open everything, and nobody imports from them but for the version
FILES = sorted(path.relative_to(SOURCE).as_posix() for path in SOURCE.rglob("*.py"))
LINES = 41_660
LONGEST_COPY = 12


class Import(NamedTuple):
    """One file imports another: where, and whether when it is itself imported."""

    origin: str
    target: str
    line: int
    at_once: bool

    def __str__(self) -> str:
        return f"{self.origin}:{self.line} imports {self.target}"


def file_of(module: str, name: str | None = None) -> str:
    """The file behind a dotted module of diffdag, or behind a name imported from it if that is a module."""
    path = "/".join(module.split(".")[1:])
    if name is not None:
        below = f"{path}/{name}".lstrip("/")
        if (SOURCE / f"{below}.py").exists() or (SOURCE / below).is_dir():
            path = below
    return f"{path}.py" if path and (SOURCE / f"{path}.py").exists() else f"{path}/__init__.py".lstrip("/")


def room_of(file: str) -> str:
    return file.split("/", maxsplit=1)[0] if "/" in file else "top"


def typing_only(node: ast.AST) -> bool:
    return isinstance(node, ast.If) and ast.unparse(node.test).endswith("TYPE_CHECKING")


def targets(node: ast.AST, package: list[str]) -> list[str]:
    """Files of diffdag that an import statement names."""
    if isinstance(node, ast.Import):
        return [file_of(alias.name) for alias in node.names if alias.name.split(".")[0] == "diffdag"]
    if not isinstance(node, ast.ImportFrom):
        return []
    base = package[: len(package) - node.level + 1] if node.level else []
    module = ".".join([*base, *filter(None, [node.module])])
    if module.split(".")[0] != "diffdag":
        return []
    return [file_of(module, alias.name) for alias in node.names if alias.name != "__version__"]


@cache
def imports() -> tuple[Import, ...]:
    """All imports between files of diffdag."""
    found = []
    for file in FILES:
        package = ["diffdag", *file.split("/")[:-1]]
        tree = ast.parse((SOURCE / file).read_text(encoding="utf-8"))
        deferred = {
            id(inner)
            for node in ast.walk(tree)
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda) or typing_only(node)
            for inner in ast.walk(node)
        }
        for node in ast.walk(tree):
            for target in targets(node, package):
                found.append(Import(file, target, getattr(node, "lineno", 0), id(node) not in deferred))
    return tuple(found)


@pytest.mark.slow
def test_the_reader_of_imports_sees_all_kinds():
    kinds = {(item.at_once, room_of(item.origin) != room_of(item.target)) for item in imports()}
    assert kinds == set(itertools.product((True, False), repeat=2))
    package = ["diffdag", "report", "html"]
    for text, expected in (
        ("import diffdag.tables.moments, os", ["tables/moments.py"]),
        ("from diffdag.tables import moments", ["tables/moments.py"]),
        ("from diffdag.tables.moments import Moments", ["tables/moments.py"]),
        ("from diffdag import Moments", ["__init__.py"]),
        ("from diffdag import __version__", []),
        ("from .. import text", ["report/text.py"]),
        ("from .page import render_page", ["report/html/page.py"]),
        ("from numpy import tables", []),
    ):
        assert targets(ast.parse(text).body[0], package) == expected


def test_every_folder_is_a_room():
    folders = {room_of(file) for file in FILES}
    assert folders == set(ROOMS)


@pytest.mark.parametrize("room", ROOMS)
def test_rooms_import_from_rooms_before_them(room):
    """All imports count, so the rooms form a directed acyclic graph."""
    before = ROOMS[: ROOMS.index(room) + 1]
    wrong = [
        str(item)
        for item in imports()
        if room_of(item.origin) == room
        and item.origin not in DOORS
        and (item.target in DOORS or room_of(item.target) not in before)
    ]
    assert wrong == []


def test_files_do_not_import_each_other_in_circles():
    graph: dict[str, set[str]] = {file: set() for file in FILES}
    for item in imports():
        if item.at_once and item.origin not in DOORS:
            graph[item.origin].add(item.target)
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        pytest.fail(" -> ".join(error.args[1]))


def test_few_files_stand_in_the_hall():
    assert len(list(SOURCE.glob("*.py"))) <= 7


def test_few_names_are_public():
    assert len(diffdag.__all__) <= 16


def test_the_house_is_small():
    lines = sum(len((SOURCE / file).read_text(encoding="utf-8").splitlines()) for file in FILES)
    assert lines <= LINES, (
        f"{lines - LINES} lines too many: delete what nothing uses; what is needed may raise LINES"
    )


def copies(texts: dict[str, str], longest: int) -> list[str]:
    """Runs of more than `longest` lines that stand twice; indentation, comments and blank lines do not count.

    Lines of brackets alone say nothing, and a run of imports is no copy of anything.
    """
    seen: dict[tuple[str, ...], tuple[str, int]] = {}
    found, reported = [], {}
    for name, text in texts.items():
        lines = [
            (number, line)
            for number, line in enumerate(map(str.strip, text.splitlines()), 1)
            if len(line) > 3 and not line.startswith(("#", "import ", "from "))
        ]
        for k in range(len(lines) - longest):
            run = lines[k : k + longest + 1]
            here, key = (name, run[0][0]), tuple(line for _, line in run)
            there = seen.setdefault(key, here)
            if there != here:
                if reported.get((name, there[0])) != k - 1:  # not the same run, one line on
                    found.append(f"{here[0]}:{here[1]} repeats {there[0]}:{there[1]}")
                reported[name, there[0]] = k
    return found


def test_nothing_stands_twice():
    assert copies({file: (SOURCE / file).read_text(encoding="utf-8") for file in FILES}, LONGEST_COPY) == []


def test_copies_are_found():
    run = [f"statement_{k} = {k}" for k in range(13)]
    other = ["    " + line for line in run]
    assert copies({"a": "\n".join(run), "b": "\n\n".join(["first = 1", *other])}, 12) == ["b:3 repeats a:1"]
    assert copies({"a": "\n".join(run[:12]), "b": "\n".join(other[:12])}, 12) == []


def reads_settings(node: ast.AST) -> bool:
    """Whether an expression looks something up by name in the `settings` of an object."""
    if isinstance(node, ast.Subscript) and isinstance(node.slice, ast.Constant):
        looked_up, by_name = node.value, isinstance(node.slice.value, str)
    elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
        looked_up, by_name = node.func.value, node.func.attr == "get"
    else:
        return False
    return by_name and isinstance(looked_up, ast.Attribute) and looked_up.attr == "settings"


def test_no_code_reads_a_fit_back_from_its_settings():
    """`settings` of a result is for people, who see it in a report; code takes the typed fit."""
    for text in ("result.settings['penalty']", "self.result_.settings.get('noise')"):
        assert any(map(reads_settings, ast.walk(ast.parse(text))))
    for text in ("path.settings[0]", "settings['p']", "path.settings[path.chosen]"):
        assert not any(map(reads_settings, ast.walk(ast.parse(text))))
    wrong = [
        f"{file}:{getattr(node, 'lineno', 0)}: {ast.unparse(node)}"
        for file in FILES
        if room_of(file) != "report"
        for node in ast.walk(ast.parse((SOURCE / file).read_text(encoding="utf-8")))
        if reads_settings(node)
    ]
    assert wrong == []


@pytest.mark.parametrize("room", [room for room in ROOMS if room != "top"])
def test_the_page_says_of_every_room_what_it_is_for(room):
    """One line of ARCHITECTURE.md names it first and describes it."""
    page = (ROOT / "ARCHITECTURE.md").read_text(encoding="utf-8")
    assert re.search(rf"^[-|\s]*\**`{room}/?`\**\W+\w+(\W+\w+){{3}}", page, re.MULTILINE)


def test_import_is_quick_and_loads_nothing_heavy():
    script = (
        "import sys, time; start = time.perf_counter(); import diffdag; taken = time.perf_counter() - start; "
        "print(taken, *[name for name in ('numpy', 'pandas', 'scipy', 'matplotlib') if name in sys.modules])"
    )
    taken, *heavy = subprocess.check_output([sys.executable, "-c", script], text=True).split()
    assert float(taken) < 0.5
    assert heavy == []


def test_public_names_exist_and_say_what_they_are():
    for name in diffdag.__all__:
        assert getattr(diffdag, name).__doc__
    assert set(diffdag.__all__) <= set(dir(diffdag))
    with pytest.raises(AttributeError, match="no attribute 'nonsense'"):
        diffdag.nonsense  # noqa: B018


def test_the_readme_shows_the_two_commands_and_its_picture_exists():
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    assert "make demo" in readme
    assert "make test" in readme
    for picture in re.findall(r"!\[[^\]]*\]\(([^)]+)\)", readme):
        assert (ROOT / picture).exists(), picture


def test_each_other_python_has_an_environment_of_its_own():
    """Also where it is called by its path, which ends in the same word for all of them."""
    planned = ["make", "--dry-run", "other", f"PYTHON={sys.executable}"]
    done = subprocess.run(planned, cwd=ROOT, capture_output=True, text=True, check=True)
    assert f"-m venv build/python{sys.version_info[0]}.{sys.version_info[1]}\n" in done.stdout


def test_the_gate_runs_everything_and_the_quick_tests_once_more_on_another_processor():
    gate = (ROOT / ".ci" / "run").read_text(encoding="utf-8")
    assert re.search(r"^make test$", gate, re.MULTILINE)
    assert re.search(r"OPENBLAS_CORETYPE=\S+ make quick", gate)
