"""Every method on the same two tables."""

from __future__ import annotations

import json

import numpy as np
import pandas as pd
import pytest

import diffdag as dd
from diffdag import __main__ as cli
from diffdag.reproduce.methods import all_methods, find_method
from diffdag.reproduce.methods.compare import Comparison, compare_methods

PAIR = dd.simulate_pair(p=6, neighbours=2, changes=2, weights=(0.7, 1.0), rng=5)


@pytest.fixture(scope="module")
def tables(tmp_path_factory):
    folder = tmp_path_factory.mktemp("tables")
    for name, sem, seed in (("first", PAIR.first, 1), ("second", PAIR.second, 2)):
        frame = pd.DataFrame(sem.sample(4000, rng=seed), columns=list(PAIR.first.names))
        frame.to_csv(folder / f"{name}.csv", index=False)
    return [str(folder / "first.csv"), str(folder / "second.csv")]


def test_methods_say_what_they_are():
    methods = all_methods()
    assert {"order", "paper", "dci-c", "dci-fc", "dci-k", "pc", "ges", "mmhc", "listen", "oracle"} <= set(
        methods
    )
    for name, method in methods.items():
        assert method.name == name
        assert method.about
    with pytest.raises(dd.InputError, match="no method is called 'nothing'"):
        find_method("nothing")


@pytest.mark.slow
def test_all_methods_on_the_command_line(tables, capsys, tmp_path):
    assert cli.run(["compare", *tables, "--json", "--out", str(tmp_path)]) == 0
    answer = json.loads(capsys.readouterr().out)
    ran = {row["method"] for row in answer["methods"]}
    assert set(all_methods()) - ran == set(answer["skipped"]) == {"oracle"}
    truth = {frozenset(edge) for edge in PAIR.edges}
    assert {frozenset((edge["source"], edge["target"])) for edge in answer["edges"] if edge["order"]} == truth
    assert {path.name for path in tmp_path.iterdir()} == {
        "methods.csv",
        "edges.csv",
        "agreement.csv",
        "compare.json",
    }


def test_text_and_choice_of_methods(tables, capsys):
    order = ",".join(PAIR.first.names[k] for k in PAIR.first.order)
    assert cli.run(["compare", *tables, "--methods", "order,oracle", "--order", order]) == 0
    text = capsys.readouterr().out
    assert "6 variables, 4,000 and 4,000 rows" in text
    assert "oracle" in text
    assert "Agreement" in text
    assert "Skipped" not in text


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (["--methods", "order,magic"], "no method is called 'magic'"),
        (["--order", "X1,X2"], "--order leaves out 'X3', 'X4', 'X5' and 'X6'; name every variable once"),
        (["--order", "X1,X1,X2,X3,X4,X5,X6"], "'X1' appears more than once in --order"),
        (["--missing", "guess"], "--missing guess is not known"),
        (["--methods", "oracle"], "no method gave a result (oracle: needs the causal order"),
        (["--methods", ""], "--methods names none"),
    ],
)
def test_bad_requests(tables, options, says, capsys):
    assert cli.run(["compare", *tables, *options]) == 2
    message = capsys.readouterr().err
    assert says in message
    assert message.count("\n") == 1


def test_skipped_with_a_reason(monkeypatch):
    moments = [dd.Moments.from_array(sem.sample(500, rng=3)) for sem in (PAIR.first, PAIR.second)]
    slow = find_method("plugin")
    other = {
        "slow": type(slow)("slow", "s", slow.run, most=3),
        "absent": type(slow)("absent", "a", slow.run, needs="no_such_module"),
        "broken": type(slow)("broken", "b", lambda first, second: 1 / 0),
        "plugin": slow,
    }
    monkeypatch.setattr("diffdag.reproduce.methods.compare.all_methods", lambda: other)
    answer = compare_methods(*moments)
    assert list(answer.graphs) == ["plugin"]
    assert answer.skipped["slow"].startswith("too slow for 6 variables (up to 3)")
    assert "diffdag[compare]" in answer.skipped["absent"]
    assert answer.skipped["broken"] == "ZeroDivisionError: division by zero"
    monkeypatch.setattr("diffdag.reproduce.methods.compare.find_method", other.get)
    assert list(compare_methods(*moments, methods=["slow"]).graphs) == ["slow"]


def test_edges_and_agreement_by_hand():
    graphs = {name: np.zeros((3, 3), bool) for name in "uvw"}
    graphs["u"][1, 0] = graphs["v"][0, 1] = graphs["w"][0, 1] = True  # a -> b, b -> a, b -> a
    graphs["u"][2, 0] = graphs["u"][0, 2] = True  # a -- c
    answer = Comparison(("a", "b", "c"), (10, 20), graphs, dict.fromkeys("uvw", 0.5), {"x": "broken"})
    assert answer.edges.to_numpy().tolist() == [["b", "a", 3, "<-", "->", "->"], ["a", "c", 1, "--", "", ""]]
    assert answer.agreement.loc["u", "v"] == 0.5
    assert answer.agreement.loc["v", "w"] == 1
    assert answer.methods.iloc[:, :3].to_numpy()[:3].tolist() == [["u", 2, 1], ["v", 1, 1], ["w", 1, 1]]
    nothing = Comparison(("a", "b"), (10, 20), {"u": np.zeros((2, 2), bool)}, {"u": 0.1}, {})
    assert nothing.edges.empty
    assert nothing.agreement.loc["u", "u"] == 1


def test_gaps_are_made_up_for_as_fit_does(tables, tmp_path, capsys):
    """With little missing, what is left tells the same."""
    both = [pd.read_csv(table) for table in tables]
    whole = compare_methods(*both, methods=["order"]).graphs["order"]
    for frame in both:
        frame.iloc[::40, 2] = np.nan
    found = compare_methods(*both, methods=["order"], missing="em")
    assert (found.graphs["order"] == whole).all()
    assert whole.any()
    places = [tmp_path / "one.csv", tmp_path / "two.csv"]
    for frame, place in zip(both, places, strict=True):
        frame.to_csv(place, index=False)
    assert cli.run(["compare", *map(str, places), "--methods", "order", "--missing", "em"]) == 0
    assert "6 variables" in capsys.readouterr().out
