"""How strong a hidden common cause would have to be to explain a change away."""

from __future__ import annotations

import math

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

import diffdag as dd
from diffdag.results.records import estimated_edge, robustness_value


@given(st.floats(1e-6, 1e3), st.floats(1e-3, 10), st.integers(1, 10_000))
def test_the_value_is_that_of_cinelli_and_hazlett(delta: float, stderr: float, freedom: int) -> None:
    """Both shares r satisfy r^2 / (1 - r) = f^2, which is what moves an estimate to zero."""
    value = robustness_value(delta, stderr, freedom)
    assert value is not None
    assert 0 < value <= 1
    f = delta / stderr / math.sqrt(freedom)
    if value < 0.999:
        assert value**2 / (1 - value) == pytest.approx(f**2, rel=1e-6)
        assert value == pytest.approx((math.sqrt(f**4 + 4 * f**2) - f**2) / 2, rel=1e-3, abs=1e-9)
    assert robustness_value(-delta, stderr, freedom) == value


def test_what_has_no_error_has_no_value() -> None:
    assert robustness_value(0.5, 0.0, 100) is None
    assert robustness_value(0.5, 0.1, 0) is None
    assert robustness_value(0.0, 0.1, 100) == 0
    assert estimated_edge("a", "b", (0.5, 0.1), (0.1, 0.1), 0.0, 10).robustness is None


@pytest.mark.parametrize("seed", range(4))
def test_no_weaker_cause_makes_the_change(seed: int) -> None:
    """A cause of both that is present in one condition makes a change; it explains at least as much."""
    rng = np.random.default_rng(seed)
    n = 4000
    strength, other = rng.uniform(0.5, 1.5, size=2)
    x1, x2 = rng.normal(size=(2, n))
    y1, y2 = 0.8 * x1 + rng.normal(size=n), 0.8 * x2 + rng.normal(size=n)
    hidden = rng.normal(size=n)
    x1, y1 = x1 + strength * hidden, y1 + (0.8 * strength + other) * hidden
    given = dd.DifferenceDAG(order=["x", "y"])
    names = {"columns": ["x", "y"]}
    first, second = pd.DataFrame({"x": x1, "y": y1}), pd.DataFrame({"x": x2, "y": y2})
    (edge,) = given.fit(first, second, **names).result_.edge_list
    assert edge.robustness is not None
    of_source = float(np.corrcoef(x1, hidden)[0, 1] ** 2)
    left_y, left_hidden = (own - np.polyval(np.polyfit(x1, own, 1), x1) for own in (y1, hidden))
    of_target = float(np.corrcoef(left_y, left_hidden)[0, 1] ** 2)
    assert edge.robustness <= max(of_source, of_target)


@pytest.mark.parametrize("even", [True, False])
@pytest.mark.parametrize("seed", range(4))
def test_no_weaker_cause_makes_the_whole_change_whatever_the_noise(seed: int, even: bool) -> None:
    """Opposite effects of one cause make all of it; noise is skewed, or least where the source is far out."""
    rng = np.random.default_rng(seed)
    tables, shares = [], []
    for sign in (1, -1):
        hidden, x, noise = rng.normal(size=(3, 20_000)) if even else rng.exponential(size=(3, 20_000)) - 1
        x = 0.45 * hidden + 0.9 * x
        y = 0.6 * x + 0.5 * sign * hidden + noise * (2.5 / (1 + x**2) if even else 1)
        tables.append(pd.DataFrame({"x": x, "y": y}))
        left_y, left_hidden = (own - np.polyval(np.polyfit(x, own, 1), x) for own in (y, hidden))
        shares += [float(np.corrcoef(*own)[0, 1] ** 2) for own in ((x, hidden), (left_y, left_hidden))]
    (edge,) = dd.DifferenceDAG(order=["x", "y"]).fit(*tables).result_.edge_list
    assert edge.robustness is not None
    assert edge.robustness <= max(shares) + 0.01


@pytest.mark.parametrize("method", ["order", "paper"])
def test_every_directed_edge_has_one(method: str) -> None:
    pair = dd.simulate_pair(p=6, neighbours=3, changes=1, weights=(0.8, 1.0), rng=4)
    fit = dd.DifferenceDAG(method=method).fit(pair.first.sample(3000, rng=1), pair.second.sample(3000, rng=2))
    edges = fit.result_.edge_list
    assert edges
    for edge in edges:
        assert (edge.robustness is not None) == edge.directed
        if edge.directed:
            assert 0.1 < edge.robustness < 0.9
            f = abs(edge.delta) / edge.stderr / math.sqrt(6000)
            assert edge.robustness == pytest.approx((math.sqrt(f**4 + 4 * f**2) - f**2) / 2, rel=0.01)
