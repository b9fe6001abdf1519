"""Changed effects unit by unit, what few units allow, and pairs of single rows."""

from __future__ import annotations

import math

import numpy as np
import pandas as pd
import pytest

import diffdag as dd
from diffdag.report.html.page import render_page
from diffdag.results.json import from_json
from diffdag.tables.align import align_tables
from diffdag.trust.permutation import permute_tables, smallest_pvalue

NAMES = ("a", "b", "c")


def rows_of(slope, n, rng, level=0.0):
    a = rng.standard_normal(n)
    b = slope * a + rng.standard_normal(n)
    c = 0.5 * b + rng.standard_normal(n)
    return pd.DataFrame({"a": a, "b": b, "c": c}) + level


def cells(slopes, first, seed=0, n=150):
    """A table of donors, each with an effect of its own of a on b."""
    parts = []
    for k, slope in enumerate(slopes):
        rng = np.random.default_rng([seed, k])
        level = rng.normal(0, 0.5, 3)
        parts.append(rows_of(slope, n, rng, level).assign(donor=f"d{first + k}"))
    return pd.concat(parts, ignore_index=True)


@pytest.fixture(scope="module")
def changed():
    """The effect of a on b is 0.2 before, and 0.9 to 1.2 after."""
    first, second = cells([0.2] * 4, 0), cells([0.9, 1.0, 1.1, 1.2], 4, seed=1)
    return first, second, dd.DifferenceDAG(cluster="donor").fit(first, second, labels=("old", "new")).result_


def test_each_donor_has_the_effect_of_its_own_rows(changed):
    first, second, result = changed
    assert [(edge.source, edge.target) for edge in result.edge_list] == [("a", "b")]
    table = result.by_unit
    assert table["condition"].tolist() == [1] * 4 + [2] * 4
    assert (table["nested_in"] == "donor").all()
    assert (table["rows"] == 150).all()
    for frame, condition in ((first, 1), (second, 2)):
        for donor, own in frame.groupby("donor"):
            x = own["a"] - own["a"].mean()
            slope = float(x @ own["b"] / (x @ x))
            row = table[(table["unit"] == donor) & (table["condition"] == condition)].iloc[0]
            assert row["weight"] == pytest.approx(slope, abs=0.01)
            assert row["stderr"] == pytest.approx(1 / math.sqrt(150), rel=0.2)


def test_units_survive_json(changed):
    result = changed[2]
    again = from_json(result.to_json(), "x")
    assert again.unit_effects == result.unit_effects
    assert again.global_test == result.global_test


def test_the_report_shows_each_donor_and_escapes_its_name(changed):
    first, second, _ = changed
    odd = '</title><script>alert("1")</script>'
    result = dd.DifferenceDAG(cluster="donor").fit(first.replace({"donor": {"d0": odd}}), second).result_
    page = render_page(result)
    assert "By donor" in page
    assert page.count('<path class="reach"') == 8
    assert "<script>alert" not in page
    assert "&lt;/title&gt;&lt;script&gt;" in page
    assert "intervals split" not in page  # which does not go with units
    assert "By donor" not in render_page(dd.DifferenceDAG().fit(first[[*NAMES]], second[[*NAMES]]).result_)


def test_a_change_that_one_donor_carries_is_not_claimed():
    first = cells([0.2] * 4, 0, seed=2)
    second = cells([0.2, 0.2, 0.2, 2.6], 4, seed=3)
    naive = dd.DifferenceDAG().fit(first[[*NAMES]], second[[*NAMES]]).result_
    assert naive.edge_list  # on average the effect differs by 0.6
    assert not dd.DifferenceDAG(cluster="donor").fit(first, second).result_.edge_list


@pytest.mark.parametrize(
    ("one", "two", "pairs", "ways"),
    [(4, 4, 0, 70 / 2), (3, 5, 0, 56), (0, 0, 6, 64 / 2), (2, 3, 2, 10 * 4)],
)
def test_the_smallest_pvalue_is_that_of_all_permutations(one, two, pairs, ways):
    rng = np.random.default_rng(0)
    units = [*range(one), *range(90, 90 + pairs)], [*range(50, 50 + two), *range(90, 90 + pairs)]
    frames = [
        pd.concat([rows_of(0.3, 8, rng).assign(donor=f"d{k}") for k in own], ignore_index=True) for own in units
    ]
    tables = align_tables(*frames, cluster="donor")
    assert smallest_pvalue(tables.design, 999) == pytest.approx(1 / ways)
    tested = permute_tables(tables, 999)
    assert tested.least == pytest.approx(1 / ways)
    assert tested.permutations + 1 == math.comb(one + two, one) * 2**pairs
    assert tested.pvalue >= tested.least * (1 - 1e-9)


def test_few_donors_are_said_to_tell_little(changed):
    notes = [note for note in changed[2].notes if "nested in 'donor'" in note]
    assert len(notes) == 1
    assert "4 and 4" in notes[0]
    assert "p-values down to 0.029" in notes[0]


def test_two_donors_each_cannot_reach_five_percent():
    first, second = cells([0.2] * 2, 0), cells([0.2] * 2, 4, seed=1)
    result = dd.DifferenceDAG(cluster="donor").fit(first, second).result_
    assert any("no test of all changes together can reach 5 %" in note for note in result.notes)


@pytest.mark.parametrize("design", ["units", "covariate", "gaps"])
def test_the_global_test_keeps_its_level(design):
    """100 data sets in which nothing changed; 5 % of the p-values are at most 0.05, give or take."""
    small = 0
    for seed in range(100):
        rng = np.random.default_rng([7, seed])
        if design == "units":
            frames = [cells(rng.normal(0.3, 0.2, 4), k, seed=2 * seed + k, n=25) for k in (0, 4)]
            tables = align_tables(*frames, cluster="donor")
        else:
            frames = [rows_of(0.5, 60, rng) for _ in "12"]
            if design == "covariate":
                for k, frame in enumerate(frames):
                    frame["age"] = rng.normal(k, 1 + k, 60)
                    frame[[*NAMES]] += frame[["age"]].to_numpy() * [1.0, -2.0, 0.5]
                tables = align_tables(*frames, adjust=["age"])
            else:
                shares = zip(frames, (0.1, 0.3), strict=True)
                frames = [frame.mask(rng.random(frame.shape) < share) for frame, share in shares]
                tables = align_tables(*frames, missing="em")
        small += permute_tables(tables, 59, seed).pvalue <= 0.05
    assert small <= 11  # of 100 at 5 %: more has a probability of 0.4 %


def test_the_global_test_keeps_its_level_where_units_of_one_condition_are_larger():
    small = 0
    for seed in range(60):
        frames = [cells([0.3] * 8, 10 * k, seed=2 * seed + k, n=n) for k, n in enumerate((30, 10))]
        small += permute_tables(align_tables(*frames, cluster="donor"), 59, seed).pvalue <= 0.05
    assert small <= 9  # of 60 at 5 %: more has a probability of 0.1 %


def test_two_donors_each_whose_effects_differ_are_no_evidence():
    for seed in range(20):
        slopes = np.random.default_rng([8, seed]).normal(0.3, 0.2, 4)
        frames = [cells(slopes[2 * k : 2 * k + 2], 2 * k, seed=100 + 2 * seed + k, n=200) for k in (0, 1)]
        assert not dd.DifferenceDAG(cluster="donor").fit(*frames).result_.edge_list


def patients(n, shift, seed=0):
    """Patients who differ much, each once before and once after."""
    rng = np.random.default_rng(seed)
    own = rng.standard_normal((n, 3))
    tables = []
    for k in (0, 1):
        noise = 0.8 * own + 0.6 * rng.standard_normal((n, 3)) + [k * shift, 0, 0]
        weights = np.array([[0, 0, 0], [0.6, 0, 0], [0, 0.6, 0]])
        rows = noise @ np.linalg.inv(np.eye(3) - weights).T
        tables.append(pd.DataFrame(rows, columns=[*NAMES]).assign(patient=[f"p{i}" for i in range(n)]))
    return tables


def test_patients_measured_once_before_and_once_after_are_pairs():
    first, second = patients(150, 0.35)
    second = second.sample(frac=1, random_state=1)  # pairs go by name, not by place
    paired = dd.DifferenceDAG(cluster="patient").fit(first, second).result_
    apart = dd.DifferenceDAG().fit(first, second, drop=["patient"]).result_
    assert [change.variable for change in paired.mean_list] == ["a"]
    assert not apart.mean_list
    differences = first["a"].to_numpy() - second.set_index("patient").loc[first["patient"], "a"].to_numpy()
    assert paired.mean_list[0].stderr == pytest.approx(differences.std(ddof=1) / math.sqrt(150), rel=0.05)
    assert paired.samples == (150, 150)
    assert any("pairs of the same 'patient'" in note for note in paired.notes)
    assert not paired.edge_list


def test_single_rows_without_pairs_are_refused():
    first, second = patients(30, 0.0)
    second["patient"] = [f"q{i}" for i in range(30)]
    with pytest.raises(dd.InputError, match="'patient' of its own, and none occurs in both"):
        dd.DifferenceDAG(cluster="patient").fit(first, second)


def test_pairs_can_be_resampled_and_controlled():
    first, second = patients(60, 0.5)
    result = dd.DifferenceDAG(cluster="patient", resamples=20, controls=20).fit(first, second).result_
    assert result.stability.failed == 0
    assert result.global_test.pvalue > 0.01  # covariances did not change
