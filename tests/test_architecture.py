"""ARCHITECTURE.md is true, and what it promises holds."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from pathlib import Path

import pytest

import diffdag

ROOT = Path(__file__).resolve().parents[1]
SOURCE = ROOT / "src" / "diffdag"
LISTED = re.findall(
    r"^\| `([\w/]+\.py)` \|", (ROOT / "ARCHITECTURE.md").read_text(encoding="utf-8"), re.MULTILINE
)
FILES = sorted(path.relative_to(SOURCE).as_posix() for path in SOURCE.rglob("*.py"))


def file_of(module):
    """The source file of a dotted module name inside diffdag."""
    path = "/".join(module.split(".")[1:])
    return f"{path}.py" if (SOURCE / f"{path}.py").exists() else f"{path}/__init__.py".lstrip("/")


def imports_at_the_top(name):
    tree = ast.parse((SOURCE / name).read_text(encoding="utf-8"))
    for node in tree.body:
        if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "diffdag":
            yield file_of(node.module)


def test_every_file_is_listed_once():
    assert sorted(LISTED) == FILES


@pytest.mark.parametrize("name", [name for name in LISTED if name != "__init__.py"])
def test_imports_point_upwards(name):
    folder = Path(name).parent.as_posix()
    for imported in imports_at_the_top(name):
        beside = folder != "." and Path(imported).parent.as_posix() == folder
        assert beside or LISTED.index(imported) < LISTED.index(name), f"{name} imports {imported}"


@pytest.mark.parametrize("name", FILES)
def test_files_have_one_idea(name):
    assert len((SOURCE / name).read_text(encoding="utf-8").splitlines()) <= 450


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


def test_the_gate_calls_the_readmes_command():
    assert "make test" in (ROOT / ".ci" / "run").read_text(encoding="utf-8")
