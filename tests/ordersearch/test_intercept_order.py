"""The arrangement along which fewest intercepts change, against all arrangements and against regressions."""

from __future__ import annotations

from itertools import permutations

import numpy as np
import pytest

from diffdag.ordersearch import intercept_order as arrangement
from diffdag.ordersearch.intercept_order import Run, arrange, moves


def draw(m, seed, rows=60, known=0.0):
    """A run with correlated variables of which some means moved, and penalties that rise."""
    rng = np.random.default_rng(seed)
    table = rng.standard_normal((rows, m)) @ rng.standard_normal((m, m))
    scale = np.sqrt((table**2).sum(axis=0))
    table = table / scale
    apart = table.T @ (table @ np.where(rng.random(m) < 0.4, rng.standard_normal(m), 0.0))
    before = np.triu(rng.random((m, m)) < known, 1)
    return Run(
        table.T @ table, apart + 0.05 * rng.standard_normal(m), 0.3, rows, 3 + 0.1 * np.arange(m), before
    )


def ratios_of(run, order):
    """Likelihood ratios along an order, each set on its own."""

    def ratio(members):
        members = list(members)
        inside = run.scatter[np.ix_(members, members)]
        return (
            run.rows / 2 * np.log1p(run.lead + run.apart[members] @ np.linalg.solve(inside, run.apart[members]))
        )

    values = [run.rows / 2 * np.log1p(run.lead), *(ratio(order[: t + 1]) for t in range(len(order)))]
    return np.diff(values)


def cost_of(run, order, share=1.0):
    return np.minimum(ratios_of(run, order), share * run.penalties).sum()


def admissible(run, order):
    return not any(run.before[b, a] for t, a in enumerate(order) for b in order[t + 1 :])


@pytest.mark.parametrize("known", [0.0, 0.3])
@pytest.mark.parametrize("share", [0.25, 1.0])
def test_moves_tell_what_each_insertion_costs(known, share):
    run = draw(6, seed=1, known=known)
    start = np.array([0, 1, 2, 3, 4, 5])
    change, total = moves(run, start, share)
    assert total == pytest.approx(cost_of(run, start, share))
    for i in range(6):
        for place in range(6):
            order = np.insert(np.delete(start, i), place, start[i])
            expected = cost_of(run, order, share) - total if admissible(run, order) else np.inf
            assert change[place, i] == pytest.approx(expected, abs=1e-9)


@pytest.mark.parametrize("known", [0.0, 0.3])
@pytest.mark.parametrize("seed", range(4))
def test_short_runs_are_arranged_in_the_best_of_all_ways(seed, known):
    run = draw(5, seed, known=known)
    order, ratios = arrange(run)
    assert admissible(run, order)
    assert ratios == pytest.approx(ratios_of(run, order))
    costs = [cost_of(run, list(o)) for o in permutations(range(5)) if admissible(run, o)]
    assert cost_of(run, order) == pytest.approx(min(costs))


def test_descents_come_close_to_the_best_of_all_ways(monkeypatch):
    runs = [draw(8, seed, known=0.1 * (seed % 2)) for seed in range(12)]
    best = [cost_of(run, arrange(run)[0]) for run in runs]
    monkeypatch.setattr(arrangement, "EXACT", 0)
    found = [arrange(run)[0] for run in runs]
    excess = np.array(
        [cost_of(run, order) - least for run, order, least in zip(runs, found, best, strict=True)]
    )
    assert all(admissible(run, order) for run, order in zip(runs, found, strict=True))
    assert (excess > -1e-9).all()
    assert (excess < 1e-6).mean() >= 0.75


def test_the_likelihood_ratio_is_that_of_a_regression_with_a_group_indicator():
    rng = np.random.default_rng(3)
    n1, n2 = 30, 45
    rows = rng.standard_normal((n1 + n2, 3)) @ rng.standard_normal((3, 3))
    group = np.repeat([1.0, 0.0], [n1, n2])
    rows[:n1, 2] += 0.5
    parts = rows[:n1], rows[n1:]
    scatter = sum(part.shape[0] * np.cov(part.T, bias=True) for part in parts)
    apart = (parts[0].mean(axis=0) - parts[1].mean(axis=0)) * np.sqrt(n1 * n2 / (n1 + n2))
    run = Run(scatter, apart, 0.0, n1 + n2, np.full(3, 99.0), np.triu(np.ones((3, 3), bool), 1))
    residuals = []
    for columns in ([rows[:, :2]], [rows[:, :2], group]):
        design = np.column_stack([np.ones(n1 + n2), *columns])
        residuals.append(np.linalg.lstsq(design, rows[:, 2], rcond=None)[1][0])
    order, ratios = arrange(run)
    assert order.tolist() == [0, 1, 2]
    assert ratios[2] == pytest.approx((n1 + n2) / 2 * np.log(residuals[0] / residuals[1]))
