"""What is imported, and when: packages that take long to load are left to what needs them."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

import diffdag as dd
from diffdag import InputError
from diffdag import __main__ as cli
from diffdag._base.errors import DiffDagWarning

# What few need.
RARE = {"matplotlib", "networkx", "starlette", "uvicorn", "dask", "anndata", "causallearn", "polars", "numba"}
HEAVY = RARE | {"scipy.stats", "scipy.optimize", "highspy", "joblib", "rich"}
COMMAND = """
import sys
from diffdag.__main__ import run
code = run(sys.argv[1:])
print(code, *sys.modules)
"""


def loaded(code: str, *arguments: object) -> list[str]:
    """The last line that a program prints in a process of its own, word by word."""
    command = [sys.executable, "-c", code, *map(str, arguments)]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    return done.stdout.splitlines()[-1].split()


@pytest.fixture(scope="module")
def tables(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    folder = tmp_path_factory.mktemp("tables")
    pair = dd.simulate_pair(10, neighbours=3, changes=2, rng=1)
    for name, model in (("a", pair.first), ("b", pair.second)):
        lines = [
            ",".join(f"v{k}" for k in range(10)),
            *(",".join(map(str, row)) for row in model.sample(300, rng=2)),
        ]
        (folder / f"{name}.csv").write_text("\n".join(lines) + "\n", encoding="utf-8")
    return folder / "a.csv", folder / "b.csv"


def test_the_package_alone_loads_nothing_but_python():
    modules = loaded("import sys, diffdag; print(*sys.modules)")
    assert not {*HEAVY, "numpy", "pandas", "scipy", "pyarrow", "typer", "jinja2"}.intersection(modules)


def test_a_fit_with_its_report_loads_no_more_than_it_needs(tables, tmp_path):
    code, *modules = loaded(COMMAND, "fit", *tables, "--out", tmp_path / "out")
    assert code == "0"
    assert (tmp_path / "out" / "report.html").exists()
    assert "pandas" in modules
    assert not HEAVY.intersection(modules)


def test_a_file_that_is_missing_loads_no_more_than_a_glance_needs(tables):
    code, *modules = loaded(COMMAND, "fit", tables[0].with_name("none.csv"), tables[1])
    assert code == "2"
    assert not (HEAVY | {"jinja2", "pandas", "scipy.special", "diffdag.pipeline"}).intersection(modules)


def test_text_in_a_column_is_refused_before_the_search_is_loaded(tables, tmp_path):
    first, *rest = tables[0].read_text(encoding="utf-8").splitlines()
    (tmp_path / "text.csv").write_text("\n".join([first, f"x{rest[0]}", *rest[1:]]) + "\n", encoding="utf-8")
    code, *modules = loaded(COMMAND, "fit", tmp_path / "text.csv", tables[1])
    assert code == "2"
    assert not (HEAVY | {"jinja2", "scipy.special", "diffdag.pipeline"}).intersection(modules)


@pytest.fixture(scope="module")
def result():
    pair = dd.simulate_pair(4, neighbours=2, changes=2, rng=1)
    return dd.DifferenceDAG().fit(pair.first.sample(300, rng=2), pair.second.sample(300, rng=3)).result_


def drawing() -> dict[str, ModuleType]:
    """Modules of diffdag that are loaded and import what extras bring."""
    ours = ("diffdag.report.plots", "diffdag.app.serve", "diffdag.reproduce.experiments")
    return {name: module for name, module in sys.modules.items() if name.startswith(ours)}


@pytest.fixture
def _bare():
    """An environment without what extras bring; afterwards all modules are the same as before."""
    before = drawing()
    with pytest.MonkeyPatch.context() as patch:
        for name in RARE:
            patch.setitem(sys.modules, name, None)
        for name in before:
            del sys.modules[name]
        yield
        for name in drawing():
            del sys.modules[name]
    sys.modules.update(before)
    for name, module in before.items():
        package, _, own = name.rpartition(".")
        setattr(sys.modules[package], own, module)


@pytest.mark.usefixtures("_bare")
class TestWithoutAnExtra:
    """What is missing is named, with the extra that brings it."""

    def test_pictures(self, result):
        for draw in (result.plot, result.plot_precision):
            with pytest.raises(InputError, match=r"^matplotlib is not installed; .* 'diffdag\[plots\]'$"):
                draw()

    @pytest.mark.parametrize("ending", ["pdf", "png", "svg"])
    def test_figures_of_a_saved_result(self, result, ending, tmp_path, capsys):
        result.save(tmp_path)
        assert cli.run(["export", str(tmp_path), str(tmp_path / f"figure.{ending}")]) == 2
        assert "matplotlib is not installed; pip install 'diffdag[plots]'" in capsys.readouterr().err
        assert not (tmp_path / f"figure.{ending}").exists()

    def test_graphs(self, result):
        for make in (result.to_networkx, result.to_dowhy):
            with pytest.raises(InputError, match=r"^networkx is not installed; .* 'diffdag\[graphs\]'$"):
                make()

    @pytest.mark.parametrize(
        ("command", "extra"),
        [(["serve", "--no-browser"], "serve"), (["reproduce", "figure2", "--quick"], "plots")],
    )
    def test_commands(self, command, extra, capsys):
        assert cli.run(command) == 2
        assert f"pip install 'diffdag[{extra}]'" in capsys.readouterr().err

    def test_a_study_can_be_planned(self, capsys):
        assert cli.run(["plan", "--p", "20", "--changes", "3"]) == 0
        assert "half of the default method's results are exact" in " ".join(capsys.readouterr().out.split())

    def test_a_result_is_saved_whole(self, result, tmp_path):
        places = {name: (10.0 * k, 0.0, 0.0) for k, name in enumerate(result.variables)}
        files = result.save(tmp_path, coordinates=places)
        assert [path.name for path in files] == [
            "result.json",
            "edges.csv",
            "nodes.csv",
            "graph.graphml",
            "report.html",
        ]
        assert "diffdag[plots]" in (tmp_path / "report.html").read_text(encoding="utf-8")

    def test_several_conditions_are_saved_without_their_picture(self, tmp_path, capsys):
        pair = dd.simulate_pair(4, neighbours=2, changes=2, rng=1)
        models = {"a": pair.first, "b": pair.second, "c": pair.first}
        found = dd.fit_conditions({name: model.sample(200, rng=4) for name, model in models.items()})
        with pytest.warns(DiffDagWarning, match=r"no picture.svg: matplotlib is .*diffdag\[plots\]"):
            files = {path.name for path in found.save(tmp_path)}
        assert "report.html" in files
        assert "picture.svg" not in files
        for ending in ("pdf", "png", "svg"):
            assert cli.run(["export", str(tmp_path), str(tmp_path / f"all.{ending}")]) == 2
            assert "pip install 'diffdag[plots]'" in capsys.readouterr().err

    def test_the_page_offers_no_picture(self, tables, tmp_path):
        from diffdag.app.serve.options import DEFAULTS  # noqa: PLC0415
        from diffdag.app.serve.worker import TASKS  # noqa: PLC0415

        for path in tables:
            (tmp_path / path.name).write_bytes(path.read_bytes())
        task = {"options": DEFAULTS, "tables": [{"file": path.name, "label": path.stem} for path in tables]}
        answer = TASKS["fit"](tmp_path, task, lambda *_: None)
        assert answer["without"] == ["picture.svg"]
        assert {"report.html", "graph.cyjs"} <= {path.name for path in (tmp_path / "answer").iterdir()}
