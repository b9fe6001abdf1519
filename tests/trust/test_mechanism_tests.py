"""Tests of each variable's mechanism: against regressions written out, and on data with a known change."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose
from scipy import stats

import diffdag as dd
from diffdag.results.records import NodeTest
from diffdag.trust.mechanism_tests import _Along, _effective_number, _kinds, _RowsAlong, _Tail

NAMES = ("a", "b", "c", "d")
WEIGHTS = np.array([[0, 0, 0, 0], [0.8, 0, 0, 0], [0.5, -0.7, 0, 0], [0.6, 0.5, 0.9, 0]], float)


def two_tables(
    rng: np.random.Generator, n: int = 600, weights: Any = None, sds: Any = None, levels: Any = None
) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Samples of a model, and of one with other weights, noise or intercepts."""
    tables = []
    for own, sd, level in ((WEIGHTS, np.ones(4), np.zeros(4)), (weights, sds, levels)):
        b = WEIGHTS if own is None else own
        noise = rng.standard_normal((n, 4)) * (1.0 if sd is None else sd) + (0.0 if level is None else level)
        tables.append(pd.DataFrame(noise @ np.linalg.inv(np.eye(4) - b).T, columns=NAMES))
    return tables[0], tables[1]


def pvalues(first: Any, second: Any, **options: Any) -> pd.Series:
    result = dd.DifferenceDAG(order=list(NAMES), **options).fit(first, second).result_
    return result.nodes.set_index("variable")["pvalue"]


def changed_models() -> dict[str, dict[str, Any]]:
    effect, gain = WEIGHTS.copy(), WEIGHTS.copy()
    effect[2, 0] = 0.0
    gain[2] *= 1.8
    return {
        "effect": {"weights": effect},
        "gain": {"weights": gain},
        "noise": {"sds": np.array([1, 1, 1.6, 1])},
        "intercept": {"levels": np.array([0, 0, 0.5, 0])},
    }


@pytest.mark.parametrize("kind", ["effect", "gain", "noise", "intercept"])
def test_each_kind_of_change_is_seen_where_it_is(kind: str) -> None:
    found = pvalues(*two_tables(np.random.default_rng(3), **changed_models()[kind]))
    assert found["c"] < 1e-8
    assert found.drop("c").min() > 0.01


def statistic_of(first: pd.DataFrame, second: pd.DataFrame, target: int, source: int) -> float:
    """The t value of a changed effect in a regression with everything that has to be in it."""
    y = np.concatenate([first.iloc[:, target], second.iloc[:, target]])
    group = np.repeat([1.0, 0.0], [len(first), len(second)])
    both = np.vstack([first.iloc[:, :target], second.iloc[:, :target]])
    design = np.column_stack([np.ones(len(y)), group, both, group * both[:, source]])
    beta, squares, *_ = np.linalg.lstsq(design, y, rcond=None)
    error = np.sqrt(squares[0] / (len(y) - design.shape[1]) * np.linalg.inv(design.T @ design)[-1, -1])
    return float(beta[-1] / error)


def test_statistics_are_those_of_regressions() -> None:
    first, second = two_tables(np.random.default_rng(4), 80)
    along = _RowsAlong([first.to_numpy(), second.to_numpy()], None).along
    for target in (1, 2, 3):
        free, kept = along.freedom(target), along.kept(target)
        for source in range(target):
            share = along.inner[target, source] ** 2 / kept[source, source]
            value = statistic_of(first, second, target, source)
            assert_allclose(share * free / (1 - share), value**2, rtol=1e-7)


def regression(first: Any, second: Any, target: int) -> tuple[Any, Any, Any]:
    """Design with an intercept, a shift of the first condition and common slopes; residuals, and leverages."""
    both = np.vstack([first.iloc[:, :target], second.iloc[:, :target]])
    group = np.repeat([1.0, 0.0], [len(first), len(second)])
    design = np.column_stack([np.ones(len(group)), group, both])
    y = np.concatenate([first.iloc[:, target], second.iloc[:, target]])
    hat = design @ np.linalg.inv(design.T @ design) @ design.T
    return design, y - hat @ y, np.diag(hat)


def tails_of(first: Any, second: Any, target: int, *, rows: bool = False) -> list[_Tail]:
    """The tails of a variable: of effects, where there are predecessors, variance and intercept."""
    tables = [first.to_numpy(), second.to_numpy()]
    seen = _RowsAlong(tables, None)
    for _ in range(target):
        seen.advance()
    fit = SimpleNamespace(equal_noise=False, mean_width=lambda _: 1.0)
    draws = np.random.default_rng(0).standard_normal((200, 4))
    return list(_kinds(fit, seen.along, seen if rows else None, target, target, draws))


@pytest.mark.parametrize("target", [0, 1, 2, 3])
def test_tails_of_moments_are_those_of_regressions(target: int) -> None:
    first, second = two_tables(np.random.default_rng(14), 40, sds=np.array([1.2, 1, 1.3, 1]))
    second = second.iloc[:31] + 0.2
    design, residuals, leverage = regression(first, second, target)
    free = len(design) - 3 - target
    *effect, variance, intercept = tails_of(first, second, target)
    if target == 1:
        value = statistic_of(first, second, 1, 0)
        assert effect[0].pvalue == pytest.approx(2 * stats.t.sf(abs(value), free), rel=1e-6)
    # Degrees of freedom are rows less what slopes and the mean take of them.
    squares, frees = zip(
        *(((residuals[own] ** 2).sum(), own.sum() - leverage[own].sum()) for own in conditions(design)),
        strict=True,
    )
    ratio = squares[0] / frees[0] / (squares[1] / frees[1])
    f = stats.f(*frees)
    assert variance.pvalue == pytest.approx(2 * min(f.cdf(ratio), f.sf(ratio)), rel=1e-6)
    beta = np.linalg.lstsq(design, stacked(first, second, target), rcond=None)[0][1]
    error = np.sqrt(sum(squares) / free * np.linalg.inv(design.T @ design)[1, 1])
    assert intercept.pvalue == pytest.approx(2 * stats.t.sf(abs(beta) / error, free), rel=1e-6)


def conditions(design: Any) -> list[Any]:
    return [design[:, 1] == 1, design[:, 1] == 0]


def stacked(first: Any, second: Any, target: int) -> Any:
    return np.concatenate([first.iloc[:, target], second.iloc[:, target]])


@pytest.mark.parametrize("target", [0, 1, 2, 3])
def test_errors_of_rows_are_those_of_the_sandwich(target: int) -> None:
    """HC2, with the residuals and leverages of the regression in which nothing changed but the intercept."""
    first, second = two_tables(np.random.default_rng(15), 40)
    second = second.iloc[:31] * [1.0, 1.5, 0.7, 2.0]
    seen = _RowsAlong([first.to_numpy(), second.to_numpy()], None)
    for _ in range(target):
        seen.advance()
    design, residuals, leverage = regression(first, second, target)
    free = len(design) - 3 - target
    even = residuals / np.sqrt(1 - leverage)
    usual = np.sqrt((residuals**2).sum() / free)

    def checked(weights: Any, error: float, freedom: float) -> None:
        parts = (weights * even) ** 2
        expected = np.sqrt(parts.sum()) / usual / np.sqrt((weights**2).sum())
        assert error == pytest.approx(expected, rel=1e-7)
        assert freedom == pytest.approx(min(3 * parts.sum() ** 2 / (parts**2).sum(), free), rel=1e-7)

    checked((np.linalg.inv(design.T @ design) @ design.T)[1], *seen.of_mean())
    own = even**2
    assert seen.kurtosis == pytest.approx((own**2).mean() / own.mean() ** 2)
    if not target:
        return
    contrasts = np.vstack([np.eye(target), np.arange(1.0, target + 1)])
    errors, freedoms = seen.of_effects(contrasts)
    for contrast, error, freedom in zip(contrasts, errors, freedoms, strict=True):
        moved = design[:, 1] * (design[:, 2:] @ contrast)
        left = moved - design @ np.linalg.lstsq(design, moved, rcond=None)[0]
        checked(left, error, freedom)


def test_tails_of_rows_are_wider_by_what_rows_say() -> None:
    first, second = two_tables(np.random.default_rng(16), 60)
    first, second = first**3, second**3  # heavy tails
    usual, rows = tails_of(first, second, 1), tails_of(first, second, 1, rows=True)
    seen = _RowsAlong([first.to_numpy(), second.to_numpy()], None)
    seen.advance()
    (wide,), (free,) = seen.of_effects(np.eye(1))
    value = statistic_of(first, second, 1, 0)
    assert rows[0].pvalue == pytest.approx(2 * stats.t.sf(abs(value) / wide, free), rel=1e-6)
    ratio, *frees = seen.along.variances(1)
    f = stats.f(*(own * 2 / (seen.kurtosis - 1) for own in frees))
    assert rows[1].pvalue == pytest.approx(2 * min(f.cdf(ratio), f.sf(ratio)), rel=1e-6)
    assert rows[1].pvalue > usual[1].pvalue


def test_evidence_of_a_variance_goes_on_as_its_likelihood_ratio() -> None:
    along = _Along.from_scatters(np.eye(1) * 4e3, np.eye(1) * 4e6, np.zeros(1), (4001.0, 4001.0), np.inf)
    fit = SimpleNamespace(equal_noise=False)
    (tail,) = _kinds(fit, along, None, 0, 0, np.zeros((1, 1)))
    one, two, both = 1.0, 1e3, (1 + 1e3) / 2
    ratio = 4000 / 2 * (2 * np.log(both) - np.log(one) - np.log(two)) / np.log(10)
    assert tail.pvalue == 0
    assert tail.evidence == pytest.approx(ratio, rel=1e-9)


def test_a_column_that_is_constant_in_the_rows_looked_at_makes_no_number_fail() -> None:
    rng = np.random.default_rng(17)
    tables = [np.column_stack([np.full(30, 2.0), rng.standard_normal(30)]) for _ in range(2)]
    seen = _RowsAlong.of((tables[0], tables[1]), [1, 0], None)
    assert np.isfinite(seen.residuals).all()


def test_long_tables_are_looked_at_in_even_steps() -> None:
    rng = np.random.default_rng(18)
    tables = (rng.standard_normal((10_001, 2)), rng.standard_normal((5_000, 2)))
    seen = _RowsAlong.of(tables, [1, 0], None)
    assert seen.counts == (3_334, 5_000)
    scale = np.sqrt(sum(len(table) * table.var(axis=0) for table in (tables[0][::3], tables[1])))
    own = (tables[0][::3, 1] - tables[0][::3, 1].mean()) / scale[1]
    assert_allclose(seen.residuals[:3_334, 0], own, atol=1e-9)


def test_errors_of_rows_are_near_the_usual_ones_where_noise_is_gaussian() -> None:
    first, second = two_tables(np.random.default_rng(5), 4000)
    seen = _RowsAlong([first.to_numpy(), second.to_numpy()], None)
    for t in range(4):
        if t:
            assert_allclose(seen.of_effects(np.eye(t))[0], 1.0, atol=0.06)
        assert_allclose(seen.of_mean()[0], 1.0, atol=0.05)
        assert_allclose(seen.kurtosis, 3.0, atol=0.3)
        seen.advance()


def test_heavy_tails_widen_errors() -> None:
    rng = np.random.default_rng(6)
    tables = [rng.standard_t(3, (400, 2)) * np.exp(0.8 * rng.standard_normal((400, 1))) for _ in range(2)]
    seen = _RowsAlong(tables, None)
    seen.advance()
    assert seen.of_effects(np.eye(1))[0][0] > 1.3
    assert seen.kurtosis > 6


def test_units_of_columns_do_not_matter_nor_which_condition_comes_first() -> None:
    first, second = two_tables(np.random.default_rng(7), **changed_models()["effect"])
    found = pvalues(first, second)
    scale, shift = np.array([1e-3, 40.0, -2.0, 7.0]), np.array([3.0, -1e4, 0.0, 5.0])
    assert_allclose(pvalues(first * scale + shift, second * scale + shift), found, rtol=1e-6)
    assert_allclose(pvalues(second, first), found, rtol=1e-6)


def test_moments_alone_give_much_the_same() -> None:
    first, second = two_tables(np.random.default_rng(8), **changed_models()["noise"])
    rows = pvalues(first, second)
    one, two = (dd.Moments.from_array(table, names=NAMES) for table in (first, second))
    alone = dd.DifferenceDAG(order=list(NAMES)).fit_moments(one, two).result_.nodes.set_index("variable")
    assert_allclose(np.log(alone["pvalue"]), np.log(rows), atol=0.5, rtol=0.3)


def test_what_is_not_compared_is_not_tested() -> None:
    first, second = two_tables(np.random.default_rng(9), **changed_models()["noise"])
    assert pvalues(first, second)["c"] < 1e-8
    assert pvalues(first, second, noise="equal")["c"] > 0.01
    assert dd.DifferenceDAG(method="paper").fit(first, second).result_.nodes["pvalue"].isna().all()


def test_rows_of_units_count_by_units() -> None:
    rng = np.random.default_rng(10)
    tables = []
    for k, table in enumerate(two_tables(rng, 400)):
        unit = np.arange(400) % 5
        own = 0.6 * rng.standard_normal(5)
        table["c"] += own[unit] * table["a"]  # effects that differ by unit
        tables.append(table.assign(unit=[f"u{k}{u}" for u in unit]))
    assert pvalues(*tables, cluster="unit")["c"] > 1e-3 * pvalues(*(t[list(NAMES)] for t in tables))["c"]


def test_noise_that_differs_by_unit_is_no_changed_variance() -> None:
    rng, small = np.random.default_rng(13), []
    for _ in range(8):
        tables = []
        for k in range(2):
            loud = np.exp(0.5 * rng.standard_normal((8, 1, 3)))  # of a unit, in this condition
            rows = (loud * rng.standard_normal((8, 60, 3))).reshape(-1, 3)
            unit = [f"u{k}{row // 60}" for row in range(480)]
            tables.append(pd.DataFrame(rows, columns=list(NAMES[:3])).assign(unit=unit))
        result = dd.DifferenceDAG(cluster="unit").fit(*tables).result_
        small += (result.nodes["pvalue"] < 0.01).tolist()
    assert sum(small) <= 2


@pytest.mark.slow
def test_where_nothing_changed_p_values_are_uniform() -> None:
    rng, found = np.random.default_rng(11), []
    for _ in range(60):
        model = dd.simulate_pair(6, neighbours=3, changes=0, rng=rng).first
        result = dd.DifferenceDAG().fit(model.sample(200, rng=rng), model.sample(150, rng=rng)).result_
        found += result.nodes["pvalue"].tolist()
    share = np.mean(np.array(found) < 0.1)
    assert 0.05 < share < 0.16
    assert abs(np.mean(found) - 0.5) < 0.06


@pytest.mark.parametrize("count", [2, 5, 20])
def test_effective_number_of_statistics(count: int) -> None:
    draws = np.random.default_rng(12).standard_normal((20_000, count))
    assert _effective_number(np.eye(count), 0.01, draws) == pytest.approx(count, rel=0.25)
    assert _effective_number(np.ones((count, count)), 0.01, draws) == pytest.approx(1, abs=0.25)


def test_evidence_goes_on_where_p_values_end() -> None:
    far, farther = _Tail.of_t(60.0, 1e5), _Tail.of_t(80.0, 1e5)
    assert far.pvalue == farther.pvalue == 0.0
    assert farther.evidence > far.evidence > 290
    assert far.times(10).evidence == pytest.approx(far.evidence - 1)
    assert _Tail.of_t(1.0, 30.0).times(3).evidence < _Tail.of_t(1.0, 30.0).evidence


def test_an_order_along_which_nothing_can_be_compared() -> None:
    along = _Along.from_scatters(np.eye(2), np.eye(2), np.zeros(2), (9.0, 9.0), np.inf)
    assert along.mean_error(1) == np.inf


def test_means_of_a_series_are_worth_few_rows() -> None:
    rng, found = np.random.default_rng(13), []
    for _ in range(12):
        noise = rng.standard_normal((2, 500, 4))
        for k in range(1, 500):
            noise[:, k] += 0.9 * noise[:, k - 1]
        first, second = (own[200:] @ np.linalg.inv(np.eye(4) - WEIGHTS).T for own in noise)
        nodes = dd.DifferenceDAG(effective_samples="auto").fit(first, second).result_.nodes
        found += nodes["pvalue"].tolist()
    assert np.mean(np.array(found) < 0.01) < 0.08


def test_what_is_no_probability_is_no_p_value() -> None:
    with pytest.raises(ValueError, match="has the p-value 2"):
        NodeTest("a", 2.0)
