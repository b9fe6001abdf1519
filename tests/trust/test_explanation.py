"""Why variables moved, on samples of known models."""

from __future__ import annotations

from functools import cache

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import diffdag as dd

NAMES = ("spend", "visits", "orders", "revenue")


def models(after_intercepts=(6, 1, 0, 0), noise=(1, 1, 2, 1)) -> tuple[dd.LinearSEM, dd.LinearSEM]:
    """spend -> visits doubles; spend -> revenue, visits -> orders -> revenue stay."""
    weights = np.zeros((4, 4))
    weights[1, 0], weights[2, 1], weights[3, 2], weights[3, 0] = 1.0, 0.8, 0.7, 0.5
    after = weights.copy()
    after[1, 0] = 2.0
    before = dd.LinearSEM(weights, np.ones(4), names=NAMES, intercepts=np.array([5.0, 0, 0, 0]))
    second = dd.LinearSEM(
        after, np.array(noise, float), names=NAMES, intercepts=np.array(after_intercepts, float)
    )
    return before, second


@cache
def tables(n: int = 1500, **how) -> tuple[pd.DataFrame, pd.DataFrame]:
    first, second = (
        pd.DataFrame(model.sample(n, rng=k), columns=list(NAMES)) for k, model in enumerate(models(**how))
    )
    return first, second


def fit(first, second, **options) -> dd.DifferenceResult:
    return dd.DifferenceDAG(order=list(NAMES), permutations=0, **options).fit(first, second).result_


def parts(result: dd.DifferenceResult, target: str = "revenue") -> pd.DataFrame:
    return result.explain(target).set_index("mechanism")


@pytest.fixture(scope="module")
def result() -> dd.DifferenceResult:
    return fit(*tables())


class TestParts:
    @pytest.mark.parametrize("target", NAMES)
    def test_they_add_up_to_what_was_observed(self, result, target):
        first, second = tables()
        table = result.explain(target)
        assert table["mean"].sum() == pytest.approx(second[target].mean() - first[target].mean(), abs=1e-9)
        assert table["variance"].sum() == pytest.approx(second[target].var() - first[target].var(), abs=1e-9)
        assert table["mechanism"].iloc[-1] == "unexplained"

    def test_they_are_those_of_the_models(self, result):
        exact = parts(dd.DifferenceDAG().fit_population(*models()).result_)
        found = parts(result)
        assert set(exact.index) == set(found.index)
        names = [name for name in exact.index if name != "unexplained"]
        assert exact.loc["spend -> visits", "mean"] == pytest.approx(0.56 * 5.5, rel=1e-5)
        assert exact.loc["intercept of spend", "mean"] == pytest.approx(0.56 * 1.5 + 0.5, rel=1e-5)
        assert exact.loc["noise of orders", "variance"] == pytest.approx(0.49, rel=1e-5)
        assert exact.loc["unexplained", ["mean", "variance"]].abs().max() < 1e-4
        for what in ("mean", "variance"):
            wide = found.loc[names, f"{what}_high"] - found.loc[names, f"{what}_low"]
            assert (abs(found.loc[names, what] - exact.loc[names, what]) <= 1.0 * wide).all()
        assert exact[["mean_low", "variance_high"]].loc[names].isna().all(axis=None)

    def test_what_comes_later_has_exactly_nothing(self, result):
        table = parts(result, "visits").drop(index="unexplained")
        own = table.loc["noise of orders", ["mean", "mean_low", "variance", "variance_high"]]
        assert (own == 0).all()
        assert table.loc["spend -> visits", "direct"] == pytest.approx(1.0, abs=0.2)

    def test_effects_have_their_direct_and_total_change(self, result):
        (edge,) = result.edge_list
        own, other = parts(result, "visits"), parts(result)
        assert own.loc["spend -> visits", "direct"] == pytest.approx(-edge.delta, rel=1e-5)
        assert own.loc["spend -> visits", "total"] == pytest.approx(-edge.delta, rel=1e-5)
        assert other.loc["spend -> visits", "direct"] == 0
        assert other.loc["spend -> visits", "total"] == pytest.approx(0.56, abs=0.1)
        assert np.isnan(own.loc["intercept of spend", "direct"])

    @settings(max_examples=5)
    @given(st.lists(st.sampled_from([0.01, 1.0, 300.0]), min_size=4, max_size=4))
    def test_units_do_not_matter(self, factors):
        scaled = fit(*(table * factors for table in tables()))
        before, after = parts(fit(*tables())), parts(scaled)
        unit = factors[-1]
        for what, times in (
            ("mean", unit),
            ("mean_low", unit),
            ("variance", unit**2),
            ("variance_high", unit**2),
        ):
            np.testing.assert_allclose(
                after[what], before.loc[after.index, what] * times, rtol=1e-4, atol=1e-6 * times
            )


class TestWhereAnEffectTilts:
    def test_at_zero_if_the_intercept_is_the_same_there(self):
        result = fit(*tables(after_intercepts=(5, 0, 0, 0)))
        assert "visits" in result.explanations.at_zero
        table = parts(result, "visits")
        assert table.loc["spend -> visits", "mean"] == pytest.approx(5.0, abs=0.5)

    def test_at_the_common_mean_if_nothing_changes_there(self):
        result = fit(*tables(after_intercepts=(5, -5, 0, 0)))
        assert result.explanations.at_zero == ()
        assert abs(parts(result, "visits").loc["spend -> visits", "mean"]) < 0.2

    def test_a_zero_far_away_does_not_make_parts_that_cancel(self):
        first, second = tables(after_intercepts=(5, -4, 0, 0))
        table = parts(fit(first + 300, second + 300), "visits")
        assert table["mean"].abs().max() < 2
        assert table.loc["intercept of visits", "mean"] == pytest.approx(1.0, abs=0.3)


class TestWhatIsNotListed:
    def test_nothing_changed_leaves_all_unexplained(self):
        one, _ = models()
        first, second = (pd.DataFrame(one.sample(300, rng=k), columns=list(NAMES)) for k in (5, 6))
        result = fit(first, second)
        assert list(result.explain("visits")["mechanism"]) == ["unexplained"]

    def test_what_a_target_for_false_edges_leaves_out_is_unexplained(self):
        result = fit(*tables(), resamples=20, fdr=1e-9)
        listed = {str(edge) for edge in result.edge_list}
        names = {own.name for own in result.explanations.mechanisms if own.kind == "effect"}
        assert names <= listed

    def test_undirected_edges_have_their_name(self):
        weights = np.zeros((2, 2))
        after = weights.copy()
        after[1, 0] = 0.8
        first, second = dd.LinearSEM(weights, np.ones(2)), dd.LinearSEM(after, np.array([1.0, 0.36]))
        result = (
            dd.DifferenceDAG(permutations=0).fit(first.sample(800, rng=1), second.sample(800, rng=2)).result_
        )
        named = {str(edge) for edge in result.edge_list}
        assert named == {own.name for own in result.explanations.mechanisms if own.kind == "effect"}


class TestOtherRows:
    def test_moments_give_much_the_same_intervals(self, result):
        own = dd.DifferenceDAG(order=list(NAMES)).fit_moments(
            *(dd.Moments.from_array(t, NAMES) for t in tables())
        )
        before, after = parts(result), parts(own.result_)
        wide = [table["variance_high"] - table["variance_low"] for table in (before, after)]
        np.testing.assert_allclose(wide[1].dropna(), wide[0].loc[wide[1].index].dropna(), rtol=0.4)
        np.testing.assert_allclose(after["mean"], before.loc[after.index, "mean"], rtol=1e-5, atol=1e-5)

    def test_rows_of_donors_have_wider_intervals_or_no_means(self):
        first, second = tables(n=400)
        rng = np.random.default_rng(0)
        nested = []
        for k, table in enumerate((first, second)):
            donors = np.repeat(np.arange(10), 40)
            moved = table + rng.normal(0, 1, (10, 4))[donors]
            nested.append(moved.assign(donor=[f"{k}-{d}" for d in donors]))
        result = dd.DifferenceDAG(order=list(NAMES), cluster="donor", permutations=0).fit(*nested).result_
        table = parts(result)
        assert (table["variance_high"].dropna() >= table["variance_low"].dropna()).all()
        plain = parts(fit(first, second))
        both = table.index.intersection(plain.index)
        assert "spend -> visits" in both

    def test_held_out_rows_are_what_it_is_estimated_on(self):
        result = fit(*tables(), intervals="split")
        table = result.explain("visits").set_index("mechanism")
        (edge,) = result.edge_list
        assert table.loc["spend -> visits", "direct"] == pytest.approx(-edge.delta, rel=1e-5)

    def test_gains_multiply_all_effects(self):
        weights = np.zeros((4, 4))
        weights[3, :3] = 1.0, -1.0, 0.8
        after = 2.5 * weights
        one, two = dd.LinearSEM(weights, np.ones(4)), dd.LinearSEM(after, np.ones(4))
        result = dd.DifferenceDAG(permutations=0).fit(one.sample(1500, rng=1), two.sample(1500, rng=2)).result_
        table = result.explain("X4").set_index("mechanism")
        assert table.loc["gain of X4", "kind"] == "gain"
        assert table.loc["gain of X4", "variance"] == pytest.approx(2.64 * (2.5**2 - 1), rel=0.15)


def test_several_conditions_have_a_group_of_columns_each():
    first, second = tables()
    named = {"march": first, "april": second, "may": second.sample(frac=1, random_state=0) + 0.0}
    result = dd.fit_conditions(
        named, reference="march", model=dd.DifferenceDAG(order=list(NAMES), permutations=0)
    )
    table = result.explain("revenue")
    assert list(table.columns.get_level_values(0).unique()) == ["april", "may"]
    assert table.index[-1] == "unexplained"
    assert table["april"]["mean"].sum() == pytest.approx(
        second["revenue"].mean() - first["revenue"].mean(), abs=1e-9
    )


def test_variances_are_those_of_rows_whatever_these_are_worth() -> None:
    rng = np.random.default_rng(20)
    first, second = (pd.DataFrame(rng.standard_normal((120, 3)), columns=list("abc")) for _ in range(2))
    result = dd.DifferenceDAG(effective_samples=(60.0, 20.0)).fit(first, second).result_
    seen = {own.variable: own.variance_second for own in result.explanations.targets}
    assert seen == pytest.approx(second.var().to_dict(), rel=1e-9)


def test_names_that_look_like_arrows_are_told_apart() -> None:
    rng = np.random.default_rng(21)

    def table(slope: float) -> pd.DataFrame:
        a, ab = rng.normal(size=(2, 400))
        one, two = slope * a + rng.normal(size=400), slope * ab + rng.normal(size=400)
        return pd.DataFrame({"A": a, "B -> C": one, "A -> B": ab, "C": two})

    tables = {"x": table(1.0), "y": table(-0.5), "z": table(-0.5)}
    model = dd.DifferenceDAG(order=["A", "A -> B", "B -> C", "C"])
    found = dd.fit_conditions(tables, reference="x", model=model).explain("C")
    assert {"A -> B -> C", "A -> B -> C (2)"} <= set(found.index)
