"""Columns that may stand in for the source of a change."""

from __future__ import annotations

import numpy as np
import pytest

import diffdag as dd
from diffdag.ordersearch import stand_ins
from diffdag.ordersearch.search import Problem, search_orders
from diffdag.report.words import stand_in_words

N = 500


def tables(rng, copies=3, r=0.95, effects=(0.8, 0.2)):
    """X1 acts on X3, which changes, and on X2; the last columns are near-copies of X1."""
    found = []
    for effect in effects:
        one, *noise = rng.normal(size=(3, N))
        columns = [one, 0.5 * one + noise[0], effect * one + noise[1]]
        columns += [r * one + np.sqrt(1 - r**2) * rng.normal(size=N) for _ in range(copies)]
        found.append(np.column_stack(columns))
    return found


def edges_of(both, **options):
    return dd.DifferenceDAG(permutations=0, **options).fit(*both).result_.edge_list


def test_the_source_is_named_or_listed_and_copies_stand_in_for_it():
    listed = 0
    for seed in range(12):
        (edge,) = edges_of(tables(np.random.default_rng(seed)))
        assert edge.target == "X3"
        assert "X1" in (edge.source, *edge.stand_ins)
        assert not {edge.source, edge.target, "X2"} & set(edge.stand_ins)
        listed += len(edge.stand_ins)
    assert listed > 0


def test_without_close_columns_nothing_is_listed_and_no_score_is_read(monkeypatch):
    def fail(*_: object, **__: object) -> None:
        raise AssertionError("a score was read")

    monkeypatch.setattr(stand_ins, "read_order", fail)
    (edge,) = edges_of(tables(np.random.default_rng(1), copies=0))
    assert (edge.source, edge.target, edge.stand_ins) == ("X1", "X3", ())


def test_what_is_known_beforehand_bars_stand_ins():
    both = tables(np.random.default_rng(1), copies=2, r=0.99)
    open_one = edges_of(both)[0]
    assert set(open_one.stand_ins) | {open_one.source} == {"X1", "X4", "X5"}
    known = edges_of(both, required=[("X1", "X3"), ("X3", "X4"), ("X3", "X5")])[0]
    assert (known.source, known.stand_ins) == ("X1", ())


def test_costs_are_those_of_the_core():
    rng = np.random.default_rng(5)
    pair = dd.simulate_pair(
        8, neighbours=3, changes=5, variances=(0.5, 1.0, 2.0), variances_drawn="per-condition", rng=rng
    )
    one, two = (dd.Moments.from_array(model.sample(N, rng)) for model in (pair.first, pair.second))
    before = np.zeros((8, 8), bool)
    problem = Problem.from_scatter(one.scatter, two.scatter, N, N, False, before, 8, gains=False)
    best = search_orders(problem, rng, 1).best
    assert best.changed.any()
    assert best.separate.any()
    for i in range(8):
        node = stand_ins.Node(problem, i, best.before(i))
        cost = node.cost(np.flatnonzero(best.changed[i]).tolist(), bool(best.separate[i]))
        assert cost == pytest.approx(best.costs[i], abs=1e-6)


def test_stand_ins_are_in_the_summary_in_json_and_in_csv(tmp_path):
    result = dd.DifferenceDAG(permutations=0).fit(*tables(np.random.default_rng(1), copies=2, r=0.99)).result_
    (edge,) = result.edge_list
    assert len(edge.stand_ins) == 2
    assert stand_in_words(edge) in " ".join(result.summary().split())
    result.save(tmp_path)
    assert dd.load(tmp_path / "result.json").edge_list == result.edge_list
    assert " | ".join(edge.stand_ins) in (tmp_path / "edges.csv").read_text()
    assert " | ".join(edge.stand_ins) in (tmp_path / "graph.graphml").read_text()
    assert result.edges["stand_ins"].tolist() == [edge.stand_ins]


def test_a_cause_of_a_changed_gain_has_stand_ins():
    rng = np.random.default_rng(3)
    both = []
    for factor in (1.0, 3.0):
        causes = rng.normal(size=(3, N))
        copy = causes[0] + 0.06 * rng.normal(size=N)
        both.append(np.column_stack([*causes, factor * 0.3 * causes.sum(axis=0) + rng.normal(size=N), copy]))
    found = edges_of(both)
    assert {edge.gain_of for edge in found if edge.directed} == {"X4"}  # the copy may stand for its source
    near = {edge.source: edge.stand_ins for edge in found}
    assert near.get("X1") == ("X5",) or near.get("X5") == ("X1",)
    assert near["X2"] == near["X3"] == ()
