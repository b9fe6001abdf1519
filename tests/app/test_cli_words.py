"""Each reader is told of options as they are typed: --option on the command line, arguments in Python."""

import ast
import re
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import diffdag as dd
from diffdag import __main__ as program

SOURCE = Path(dd.__file__).parent
QUOTED = re.compile(r"'[^']*'|\"[^\"]*\"")
ARGUMENT = re.compile(r"\b[a-z_]+=|\b[a-z]+_[a-z_]+\b|\bNone\b")  # penalty=, max_variables
OPTION = re.compile(r"(?<![\w-])--[a-z]")

FIT = ["fit", "a.csv", "b.csv"]
GROUPS = ["fit", "groups.csv", "--group", "dose"]
MOMENTS = ["fit", "a.npz", "b.npz"]
PATH = ["path", "a.csv", "b.csv"]
SIMULATE = ["simulate", "--p", "5", "--neighbours", "2", "--samples", "9", "--out", "new"]
PLAN = ["plan", "--p", "10", "--changes", "3"]
# Wrong command lines, and what the message names.
WRONG = [
    ([*FIT, "--method", "best"], "--method"),
    ([*FIT, "--estimator", "best"], "--estimator"),
    ([*FIT, "--noise", "loud"], "--noise"),
    ([*FIT, "--covariance", "tau"], "--covariance"),
    ([*FIT, "--missing", "ignore"], "--missing"),
    ([*FIT, "--penalty", "-1"], "--penalty"),
    ([*FIT, "--penalty", "x"], "--penalty"),
    ([*FIT, "--method", "paper", "--penalty", "x"], "--penalty"),
    ([*FIT, "--method", "paper", "--penalty", "-1"], "--penalty"),
    ([*FIT, "--method", "paper", "--threshold", "-1"], "--threshold"),
    ([*FIT, "--method", "paper", "--order", "a,b,c"], "--method paper has no --order"),
    ([*FIT, "--method", "paper", "--max-variables", "3"], "has no --max-variables"),
    ([*FIT, "--method", "paper", "--intervals", "split"], "--method order"),
    ([*FIT, "--threshold", "0.1"], "--method order has no --threshold"),
    (
        [*FIT, "--max-variables", "1"],
        "--max-variables must be a whole number, 2 or larger, or left out; it is 1",
    ),
    ([*FIT, "--jobs", "0"], "--jobs"),
    ([*FIT, "--seed", "-1"], "--seed"),
    ([*FIT, "--resamples", "3"], "--resamples must be a whole number, 20 or larger, or left out; it is 3"),
    ([*FIT, "--fdr", "2"], "--fdr"),
    ([*FIT, "--permutations", "5"], "--permutations"),
    ([*FIT, "--intervals", "both"], "--intervals"),
    ([*FIT, "--stored-rows", "-1"], "--stored-rows"),
    ([*FIT, "--labels", "x,x"], "labels"),
    ([*FIT, "--labels", "x"], "--labels"),
    ([*FIT, "--labels", "x,"], "--labels"),
    ([*FIT, "--columns", "a,z"], "'z'"),
    ([*FIT, "--drop", "z"], "'z'"),
    ([*FIT, "--order", "a,b"], "--order leaves out 'c'"),
    ([*FIT, "--order", "a,b,c", "--required", "c->a"], "--required"),
    ([*FIT, "--required", "a"], "--required"),
    ([*FIT, "--forbidden", "a->z"], "--forbidden"),
    ([*FIT, "--tiers", "tiers.txt"], "--tiers"),
    ([*FIT, "--effective-samples", "x"], "--effective-samples"),
    ([*FIT, "--whiten", "x"], "--whiten x is not known"),
    ([*FIT, "--effective-samples", "1000"], "1000 effective samples"),
    ([*FIT, "--effective-samples", "20", "--permutations", "19"], "--effective-samples"),
    ([*FIT, "--effective-samples", "20", "--intervals", "split"], "split"),
    ([*FIT, "--reference", "x"], "--reference"),
    ([*FIT, "--coordinates", "a.csv"], "--coordinates"),
    ([*FIT, "--out", "a.csv"], "--out"),
    ([*FIT, "--first", "x"], "--first"),
    (["fit", "a.csv", "gaps.csv"], "with --missing drop"),
    (["fit", "a.csv", "text.csv"], "with --drop c"),
    (["fit", "a.csv", "constant.csv", "--columns", "a,b,c", "--drop", "b"], "is constant in"),
    (["fit", "a.csv"], "--group"),
    (GROUPS, "--reference"),
    ([*GROUPS, "--first", "x"], "--second"),
    ([*GROUPS, "--first", "x", "--second", "no"], "'no'"),
    ([*GROUPS, "--reference", "no"], "'no'"),
    ([*GROUPS, "--reference", "x", "--pairwise"], "--pairwise"),
    ([*GROUPS, "--pairwise", "--effective-samples", "9,9"], "--effective-samples"),
    ([*GROUPS, "--pairwise", "--intervals", "split"], "--intervals"),
    ([*GROUPS, "--groups", "x,y"], "--groups"),
    ([*MOMENTS, "--resamples", "40"], "--resamples"),
    ([*MOMENTS, "--covariance", "spearman"], "--covariance"),
    ([*MOMENTS, "--missing", "drop"], "--missing"),
    ([*MOMENTS, "--layer", "raw"], "--layer"),
    (["path", "a.npz", "b.npz", "--by", "stability"], "--by ebic"),
    ([*PATH, "--by", "luck"], "--by"),
    ([*PATH, "--fits", "1"], "--fits"),
    ([*PATH, "--penalties", "x"], "--penalties"),
    ([*PATH, "--penalties", "-1"], "--penalties"),
    ([*PATH, "--thresholds", "1"], "--method order has no --thresholds"),
    (["compare", "a.csv", "b.csv", "--methods", ","], "--methods"),
    (["compare", "a.csv", "b.csv", "--methods", "no"], "'no'"),
    (["compare", "a.csv", "b.csv", "--order", "a"], "--order"),
    (["compare", "a.csv", "b.csv", "--jobs", "0"], "--jobs"),
    ([*SIMULATE, "--p", "1"], "--p"),
    ([*SIMULATE, "--neighbours", "9"], "--neighbours"),
    ([*SIMULATE, "--change", "2"], "--change"),
    ([*SIMULATE, "--changes", "99"], "--changes"),
    ([*SIMULATE, "--noise", "loud"], "--noise"),
    ([*SIMULATE, "--variances", "-1"], "--variances"),
    ([*SIMULATE, "--variances-drawn", "no"], "--variances-drawn"),
    ([*SIMULATE, "--min-epsilon", "2"], "--min-epsilon"),
    ([*SIMULATE, "--p", "30", "--min-epsilon", "0.1"], "--min-epsilon"),
    ([*PLAN, "--p", "1"], "--p"),
    ([*PLAN, "--changes", "0"], "--changes"),
    ([*PLAN, "--samples", "1"], "--samples"),
    ([*PLAN, "--parents", "9"], "--parents"),
    ([*PLAN, "--epsilon", "2"], "--epsilon"),
    ([*PLAN, "--delta", "2"], "--delta"),
    (["moments", "a.csv", "--out", "m.csv"], "--out"),
    (["moments", "a.csv", "--out", "m.npz", "--missing", "no"], "--missing"),
    (["moments", "gaps.csv", "--out", "m.npz"], "--missing drop"),
    (["reproduce", "table1", "--data", "new"], "--data"),
    (["demo", "--condition", "no"], "'no'"),
    (["demo", "--resamples", "3", "--out", "new"], "--resamples"),
]
# Python calls about two tables, wrong in the ways of the command lines above.
CALLS = [
    ({"method": "best"}, "method must be"),
    ({"penalty": -1}, "penalty, a multiple of the default, must be"),
    ({"method": "paper", "order": ["a", "b", "c"]}, "method='paper' has no order"),
    ({"max_variables": 1}, "max_variables must be a whole number, 2 or larger, or None; it is 1"),
    ({"n_jobs": 0}, "n_jobs must be"),
    ({"rng": -1}, "rng must be"),
    ({"resamples": 3}, "resamples must be"),
    ({"order": ["a", "b"]}, "order= leaves out 'c'"),
    ({"effective_samples": 20, "permutations": 19}, "leave permutations out where effective_samples is given"),
    ({"effective_samples": "x"}, "effective_samples='x'"),
]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    place, rng = tmp_path_factory.mktemp("words"), np.random.default_rng(3)
    tables = [pd.DataFrame(rng.standard_normal((60, 3)), columns=[*"abc"]) for _ in range(2)]
    for name, table in zip("ab", tables, strict=True):
        table.to_csv(place / f"{name}.csv", index=False)
        dd.Moments.from_array(table.to_numpy(), [*"abc"]).save(place / f"{name}.npz")
    cells = {"gaps": [np.nan] + [1.0, 2.0, 4.0] * 19 + [7.0] * 2, "text": "no number", "constant": 1.0}
    for name, values in cells.items():
        tables[1].assign(c=values).to_csv(place / f"{name}.csv", index=False)
    pd.concat(tables).assign(dose=[*"xyz"] * 40).to_csv(place / "groups.csv", index=False)
    (place / "tiers.txt").write_text("a\nz\n")
    return place


@pytest.mark.parametrize(("line", "names"), WRONG, ids=[" ".join(line) for line, _ in WRONG])
def test_the_command_line_speaks_of_options(folder, monkeypatch, capsys, line, names):
    monkeypatch.chdir(folder)
    assert program.run(line) == 2
    said = capsys.readouterr().err
    assert said.startswith("diffdag: error: ")
    assert said.count("\n") == 1
    assert names in said
    assert not ARGUMENT.findall(QUOTED.sub("''", said))


@pytest.mark.parametrize(("options", "names"), CALLS)
def test_python_speaks_of_arguments(folder, options, names):
    tables = [pd.read_csv(folder / f"{name}.csv") for name in "ab"]
    with pytest.raises(dd.InputError) as caught:
        dd.DifferenceDAG(**options).fit(*tables)
    assert names in str(caught.value)
    assert not OPTION.search(str(caught.value))


def test_only_the_commands_write_options_by_hand():
    """Whatever else raises an error is reachable from Python, where options are arguments."""
    commands = (SOURCE / "app", SOURCE / "reproduce" / "commands.py")
    found = []
    for path in SOURCE.rglob("*.py"):
        if any(place in (path, *path.parents) for place in commands):
            continue
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call) and getattr(node.func, "id", "") in ("InputError", "Problem"):
                texts = [part.value for part in ast.walk(node) if isinstance(part, ast.Constant)]
                found += [(path.name, text) for text in texts if OPTION.search(str(text))]
    assert found == []
