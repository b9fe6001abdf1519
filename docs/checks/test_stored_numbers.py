"""Pages agree with the tables of finished runs, and those runs are what the pages say of them.

`make docs` runs this. No change of code can break these checks, only a change of a page or of a stored table;
so they are no part of the test suite.
"""

from __future__ import annotations

import dataclasses
import gzip
import importlib.util
import json
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pandas as pd
import pytest

from diffdag.reproduce.experiments import NAMES, NEED_DATA, experiment
from diffdag.reproduce.experiments.chambers.experiment import METHODS, cells
from diffdag.reproduce.experiments.runner import Experiment, run
from diffdag.reproduce.experiments.trial import crossed
from diffdag.reproduce.methods import all_methods
from diffdag.reproduce.planning import measured_text

DOCS = Path(__file__).resolve().parents[1]
ROOT = DOCS.parent
RUNS = DOCS / "reproduction"
PRIVATE = re.compile(r"/(home|root|work|tmp)/")  # folders of the machine that measured


def text(name):
    return (DOCS / name).read_text(encoding="utf-8")


def loaded(name):
    """One of the scripts that fill pages, as a module."""
    spec = importlib.util.spec_from_file_location(name, DOCS / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    before = list(sys.path)
    try:
        spec.loader.exec_module(module)
    finally:
        sys.path[:] = before
    return module


@pytest.fixture(scope="module")
def attacks():
    return loaded("make_attacks")


@pytest.fixture(scope="module")
def benchmarks():
    return loaded("make_benchmarks")


@pytest.fixture(scope="module")
def chambers():
    return loaded("make_chambers")


@pytest.fixture(scope="module")
def neighbours():
    return loaded("make_neighbours")


@pytest.fixture(scope="module")
def nodes():
    return loaded("make_nodes")


@pytest.fixture(scope="module")
def promises():
    return loaded("make_promises")


@pytest.fixture(scope="module")
def reproduction():
    return loaded("make_reproduction")


@pytest.fixture(scope="module")
def trust():
    return loaded("make_trust")


def blocks(page):
    return set(re.findall(r"<!-- begin ([^>]+) -->", page))


def column(run, name):
    place = run["columns"].index(name)
    return [row[place] for row in run["rows"]]


class TestPages:
    """Every table on a page is that of the newest run."""

    def test_attacks(self, attacks):
        page = text("dev/attacks.md")
        assert attacks.filled(page) == page, "run docs/make_attacks.py"
        assert len(blocks(page)) >= 3

    def test_trust(self, trust):
        page, runs = text("dev/trust_measured.md"), trust.newest()
        assert trust.filled(page, runs) == page, "run docs/make_trust.py"
        assert blocks(page) <= set(runs), "some table was never measured"
        assert trust.digest(runs) in trust.PICTURE.read_text(encoding="utf-8"), "run docs/make_trust.py"

    def test_benchmarks(self, benchmarks):
        page, runs = text("benchmarks.md"), benchmarks.newest()
        assert benchmarks.filled(page, runs) == page, "run docs/make_benchmarks.py"
        assert "Not measured yet" not in page
        assert blocks(page) == set(benchmarks.BLOCKS)
        assert set(runs) == {section for sections in benchmarks.BLOCKS.values() for section in sections}
        for name in re.findall(r"\]\(benchmarks/([^)]+)\.svg\)", page):
            assert benchmarks.digest(name, runs) in text(f"benchmarks/{name}.svg"), (
                "run docs/make_benchmarks.py"
            )

    def test_reproduction(self, reproduction):
        page = text("reproduction.md")
        assert reproduction.filled(page) == page, "run docs/make_reproduction.py"
        assert blocks(page) == set(reproduction.BLOCKS)
        for picture in re.findall(r"!\[[^\]]*\]\(([^)]+)\)", page):
            assert (DOCS / picture).exists(), picture

    def test_chambers(self, chambers):
        page = text("chambers.md")
        assert chambers.filled(page) == page, "run docs/make_chambers.py"
        assert blocks(page) == set(chambers.BLOCKS)
        assert (RUNS / "chambers.svg").exists()

    def test_neighbours(self, neighbours):
        page = text("neighbours.md")
        assert neighbours.filled(page) == page, "run docs/make_neighbours.py"
        assert blocks(page) == set(neighbours.BLOCKS)
        for picture in re.findall(r"!\[[^\]]*\]\(([^)]+)\)", page):
            assert (DOCS / picture).exists(), picture

    def test_nodes(self, nodes):
        page = text("nodes_compared.md")
        assert nodes.filled(page) == page, "run docs/make_nodes.py"
        assert blocks(page) == set(nodes.BLOCKS)
        assert (RUNS / "nodes.svg").exists()

    def test_promises(self, promises):
        page = text("promises.md")
        assert promises.filled(page) == page, "run docs/make_promises.py"
        assert blocks(page) == set(promises.BLOCKS)
        assert promises.section(page) == promises.SECTION.read_text(encoding="utf-8"), (
            "run docs/make_promises.py"
        )

    def test_readme(self):
        assert len((ROOT / "README.md").read_text(encoding="utf-8").splitlines()) <= 100, "a page, not a book"

    def test_readme_shows_the_demo(self, tmp_path):
        words = [sys.executable, "-m", "diffdag", "demo"]
        printed = subprocess.run(words, cwd=tmp_path, capture_output=True, text=True, check=True).stdout
        readme = (ROOT / "README.md").read_text(encoding="utf-8")
        (excerpt,) = re.findall(r"```\n(edge  .*?)```", readme, re.DOTALL)
        assert [line for line in excerpt.splitlines() if line not in printed.splitlines()] == []

    def test_packages(self):
        """The page of packages lists what is asked for, with its bounds."""
        page = text("dev/supply.md")
        project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
        optional = project["optional-dependencies"]
        extras = [line for name, lines in optional.items() if name != "dev" for line in lines]
        for line in [*project["dependencies"], *extras]:
            name, bounds = re.fullmatch(r"([\w-]+)(?:\[.*\])?(.*)", line).groups()
            row = re.search(rf"^\| \*\*{name}\*\* \| (.*?) \|", page, re.MULTILINE)
            assert row is not None, f"{name} is new: run docs/make_supply.py"
            assert f"diffdag {bounds}" in row[1], f"{name} has other bounds: run docs/make_supply.py"


class TestRuns:
    """The runs behind the pages are complete, and say what the pages claim."""

    def test_killed_runs_end_as_undisturbed_ones(self, attacks):
        run = attacks.newest("kills")
        assert sum(column(run, "kills")) >= 50
        for share in column(run, "identical in the end"):
            same, of, runs = share.split()
            assert (same, of) == (runs, "of")
        for name in ("rows lost", "partial outputs", "stray files"):
            assert set(column(run, name)) == {0}, name

    def test_the_compiled_code_takes_a_million_inputs(self, attacks):
        run = attacks.newest("core_fuzz")
        *targets, whole = column(run, "executions")
        assert min(targets) >= 200_000
        assert whole == sum(targets) >= 1_000_000
        assert set(column(run, "reports")) == {0}

    def test_tests_reach_the_lines_of_the_compiled_code(self, attacks):
        assert column(attacks.newest("core_lines"), "%")[-1] >= 95

    def test_four_of_five_mutants_are_caught(self, attacks):
        """Equivalent ones counted as survivors."""
        run = attacks.newest("mutants")
        counts = zip(*(column(run, name) for name in ("killed", "timed out", "tried")), strict=True)
        assert all(killed + late >= 0.8 * tried for killed, late, tried in counts)

    @pytest.mark.parametrize(
        "name", [name for name in NAMES if (RUNS / f"{name}-summary.csv").exists() and name not in NEED_DATA]
    )
    def test_experiments_are_of_full_size(self, name):
        chosen = experiment(name)
        rows = pd.read_csv(RUNS / f"{name}.csv.gz", keep_default_na=False)
        assert len(rows) == len(chosen.cells(chosen.full))
        assert rows[list(chosen.key)].astype(str).agg("|".join, axis=1).is_unique

    def test_the_machine_was_run_in_full(self):
        settings = json.loads(text("reproduction/chambers.json"))["settings"]
        rows = pd.read_csv(RUNS / "chambers.csv.gz", keep_default_na=False)
        assert list(rows["environment"]) == [cell["environment"] for cell in cells(settings)]
        assert (settings["methods"], len(settings["blocks"])) == (METHODS["full"], 20)
        assert set(settings["environments"].values()) == {"exposure", "voltage", "range", "curved", "nothing"}

    def test_figure2_has_every_method(self):
        assert set(pd.read_csv(RUNS / "figure2-summary.csv")["method"]) == set(all_methods())

    def test_table1_is_exact(self):
        assert (pd.read_csv(RUNS / "table1-summary.csv")["exact"] == 1).all()

    def test_the_default_is_on_top_in_figure2_or_one_pair_behind(self):
        rows = pd.read_csv(RUNS / "figure2-summary.csv")
        rows = rows[rows["method"] != "oracle"]
        best = rows.groupby(["kind", "C"])["f1"].max()
        ours = rows[rows["method"] == "order"].set_index(["kind", "C"])["f1"]
        assert (ours >= best - 0.007).all()

    def test_plan_quotes_figure4(self):
        packaged = Path(experiment.__code__.co_filename).with_name("figure4-half.csv")
        assert packaged.read_bytes() == (RUNS / "figure4-half.csv").read_bytes()
        assert re.search(r"\(5\), [\d,]+ \(10\), [\d,]+ \(15\); nine in ten with", measured_text())
        half, ninety = re.findall(r"([\d,]+) \(10\)", measured_text())
        assert f"exact with {half} rows per table and nine in ten with {ninety}" in text("faq.md")

    def test_files_are_safe_to_share(self):
        stored = [path for path in RUNS.rglob("*") if path.suffix in {".csv", ".json", ".svg"}]
        for path in [*stored, *(ROOT / "benchmarks" / "results").glob("*.jsonl")]:
            assert not PRIVATE.search(path.read_text(encoding="utf-8")), path


class TestScripts:
    """The scripts that fill pages show the newest full run and no other."""

    def test_a_section_is_not_taken_for_another(self, attacks, tmp_path):
        runs = [{"section": "leaks", "rows": 1}, {"section": "control", "rows": 2}]
        (tmp_path / "leaks.jsonl").write_text("\n".join(map(json.dumps, runs)), encoding="utf-8")
        assert attacks.newest("leaks", tmp_path)["rows"] == 1
        assert attacks.newest("leaks control", tmp_path)["rows"] == 2

    def test_runs_on_other_seeds_are_not_shown(self, trust, tmp_path):
        base = {"section": "", "title": "t", "date": "d", "commit": "c", "machine": "m", "columns": ["a"]}
        settings = {"seed": 2_870_000}, {"seed": 5}, {"arguments": ["--seed", "6"]}
        runs = [base | {"settings": one, "rows": [[k]]} for k, one in enumerate(settings, start=1)]
        (tmp_path / "intervals.jsonl").write_text("\n".join(map(json.dumps, runs)) + "\n", encoding="utf-8")
        newest = trust.newest(tmp_path)
        assert newest["intervals"]["rows"] == [[1]]
        page = trust.filled("x <!-- begin intervals -->\nold\n<!-- end --> y", newest)
        assert "| 1 |" in page
        assert "old" not in page

    def test_the_newest_full_run_counts(self, benchmarks, tmp_path):
        runs = [
            {"section": "lp", "commit": commit, "settings": {"quick": quick}}
            for commit, quick in (("abc", False), ("def", False), ("ghi", True))
        ]
        (tmp_path / "scale.jsonl").write_text("\n".join(map(json.dumps, runs)) + "\n", encoding="utf-8")
        assert benchmarks.newest(tmp_path) == {"lp": runs[1]}
        assert benchmarks.newest(tmp_path / "nowhere") == {}

    def test_pictures_are_drawn_from_the_runs(self, benchmarks):
        runs = {name: run for name, run in benchmarks.newest().items() if name != "changes"}
        drawn = dict(benchmarks.pictures(runs))
        assert set(drawn) == set(benchmarks.DRAWINGS) - {"changes"}
        for name, content in drawn.items():
            assert benchmarks.digest(name, runs).encode() in content
        assert drawn["n"] == benchmarks.picture("n", runs)

    def test_a_run_begins_with_the_stored_rows_of_methods_that_did_not_change(
        self, reproduction, tmp_path, monkeypatch
    ):
        stored, calls = tmp_path / "stored", []

        def small(value, methods):
            def work(cell, settings):
                calls.append(cell["method"])
                late = cell["pair"] == 1
                scores = (
                    dict.fromkeys(("f1", "claimed")) if late else {"f1": value / 3, "claimed": cell["pair"]}
                )
                told = {"what": "0 1", "why": "longer than 1 s"} if late else {"what": "1", "why": ""}
                return {**scores, **told, "seconds": value}

            return Experiment(
                name="small",
                title="",
                key=("g", "pair", "method"),
                cells=crossed(g=[0.1, 2.0], pair=[0, 1, 2], method="methods"),
                work=work,
                finish=lambda table, folder, settings: ([], ""),
                full={"seed": 1, "methods": methods},
                quick={},
                axes=("methods",),
            )

        def finished(chosen, folder, made):
            monkeypatch.setattr("diffdag.reproduce.experiments.runner.made_now", lambda: made)
            calls.clear()
            run(chosen, chosen.full, folder, jobs=1)
            reproduction.take_over(folder)
            return sorted(set(calls))

        def numbers(name, column):
            table = pd.read_csv(stored / name)
            return table.groupby("method", sort=False)[column].max().to_dict()

        monkeypatch.setattr(reproduction, "RUNS", stored)
        assert finished(small(1, ["kept", "gone", "changed"]), tmp_path / "one", "first") == [
            "changed",
            "gone",
            "kept",
        ]
        before = pd.read_csv(stored / "small.csv.gz", dtype=str)
        now = small(2, ["kept", "changed", "new"])
        assert reproduction.begin(tmp_path / "two", now, ["changed"], stored) == 6
        assert finished(now, tmp_path / "two", "second") == ["changed", "new"]
        after = pd.read_csv(stored / "small.csv.gz", dtype=str)
        own = [table[table["method"] == "kept"].reset_index(drop=True) for table in (before, after)]
        pd.testing.assert_frame_equal(*own)
        assert list(after["method"]) == ["kept", "changed", "new"] * 6
        assert numbers("small.csv.gz", "f1") == {"kept": 0.333333, "changed": 0.666667, "new": 0.666667}
        assert numbers("small-times.csv", "median") == {"kept": 1, "changed": 2, "new": 2}
        assert json.loads((stored / "small.json").read_text())["made"] == ["first", "second"]
        soon = small(9, ["kept", "changed", "new"])
        assert reproduction.begin(tmp_path / "late", soon, ["changed"], stored, late=True) == 8
        assert finished(soon, tmp_path / "late", "third") == ["changed", "kept", "new"]
        assert numbers("small-times.csv", "median") == {"kept": 1, "changed": 9, "new": 2}
        with pytest.raises(SystemExit, match="no rows of gone"):
            reproduction.begin(tmp_path / "three", now, ["gone"], stored)
        monkeypatch.setitem(now.full, "seed", 5)
        with pytest.raises(SystemExit, match="other settings"):
            reproduction.begin(tmp_path / "three", now, ["changed"], stored)

    def test_a_begun_run_has_the_stored_rows(self, reproduction, tmp_path):
        """All of them, number for number: on its way through a journal no row changes."""
        chosen = experiment("nodes")
        stored = pd.read_csv(RUNS / "nodes.csv.gz", dtype=str)
        assert reproduction.begin(tmp_path, chosen, []) == len(stored)
        settings = {**chosen.full, **json.loads(text("reproduction/nodes.json"))["settings"]}
        bare = dataclasses.replace(chosen, finish=lambda table, folder, settings: ([], ""))
        run(bare, settings, tmp_path, jobs=1)
        assert (tmp_path / "nodes.csv").read_bytes() == gzip.decompress((RUNS / "nodes.csv.gz").read_bytes())
