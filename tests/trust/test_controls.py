"""Fits to random halves of one table, in which nothing differs."""

import numpy as np
import pytest

import diffdag as dd
from diffdag.results.records import Claims
from diffdag.tables.align import Tables, align_tables
from diffdag.trust.controls import MULTIPLES, Controls, control_tables, half_tables


def tables(seed: int = 0, n: int = 200, p: int = 4) -> Tables:
    rng = np.random.default_rng(seed)
    return align_tables(rng.standard_normal((n, p)), rng.standard_normal((n + 40, p)) + 5)


def claims_below(limits: dict[float, float], seen: list[float]):
    """A fit that claims an edge where the penalty's multiple is below a limit, drawn from the rows."""

    def fit(both: Tables, rng: np.random.Generator, multiple: float) -> Claims:
        seen.append(float(both.first.mean()))
        kind = round(abs(float(both.first[0, 0])) % 1, 1)
        limit = next((limit for share, limit in limits.items() if kind < share), 0.0)
        return Claims((("a", "b", True),)) if multiple < limit else Claims(())

    return fit


def test_halves_are_disjoint_and_of_one_table():
    both = tables()
    for which, table in ((0, both.first), (1, both.second)):
        halves = half_tables(both, which, np.random.default_rng(1))
        rows = {tuple(row) for row in table.tolist()}
        first, second = ({tuple(row) for row in half.tolist()} for half in (halves.first, halves.second))
        assert len(first) == len(second) == len(table) // 2
        assert not first & second
        assert first | second <= rows


def test_halves_of_a_time_series_keep_its_runs():
    rng = np.random.default_rng(4)
    series = align_tables(*(np.cumsum(rng.standard_normal((410, 3)), axis=0) for _ in range(2))).whiten("ar")
    halves = half_tables(series, 0, np.random.default_rng(1))
    place = {tuple(row): k for k, row in enumerate(series.first.tolist())}
    first, second = (
        np.array([place[tuple(row)] for row in half.tolist()]) for half in (halves.first, halves.second)
    )
    assert sorted([*first, *second]) == list(range(len(series.first)))
    assert np.sum(np.diff(first) > 1) < 10  # at most ten runs
    assert len(first) == pytest.approx(len(second), abs=10)


def test_penalties_are_raised_until_five_percent_are_left():
    seen: list[float] = []
    found = control_tables(tables(), claims_below({0.3: 1.9}, seen), 100, 0)
    assert found.edges > 5
    assert found.multiple == min(m for m in MULTIPLES if m >= 1.9)
    assert found.left == 0
    assert (found.gain, found.noise, found.mean) == (0, 0, 0)
    assert {mean > 2.5 for mean in seen} == {True, False}  # of both tables


def test_penalties_stay_where_little_is_found():
    found = control_tables(tables(), claims_below({}, []), 40, 0)
    assert found == Controls(40, 0, 0, 0, 0, 1.0, 0)
    assert found.note == "in 40 fits to random halves of one table, where nothing differs, none found a change"


def test_halves_that_always_find_something_end():
    found = control_tables(tables(), lambda *_: Claims((), ("a",)), 20, 0)
    assert found.multiple == MULTIPLES[-1]
    assert found.noise == found.left == 20
    assert "20 found a noise variance; with penalties" in found.note


def test_halves_that_cannot_be_fitted_are_left_out_and_counted():
    def fit(both: Tables, rng: np.random.Generator, multiple: float) -> Claims:
        if both.first.mean() > 2.5:  # the second table
            raise dd.InputError("a column is constant")
        return Claims(())

    found = control_tables(tables(), fit, 20, 0)
    assert (found.halves, found.refused) == (10, 10)
    assert found.note.endswith("none found a change; 10 more could not be fitted")

    def none(*_):
        raise dd.InputError("a column is constant")

    with pytest.raises(dd.InputError, match=r"no half .* a column is constant; leave .*controls.* out"):
        control_tables(tables(), none, 20, 0)


def test_a_condition_that_cannot_be_used_is_named_as_its_user_does():
    rng = np.random.default_rng(3)
    both = {name: rng.standard_normal((50, 3)) for name in ("control", "low")}
    both["low"][:, 1] = 2 * both["low"][:, 0]
    with pytest.raises(dd.InputError, match="in the low table"):
        dd.fit_conditions(both, model=dd.DifferenceDAG(controls=20))


def test_a_fit_says_what_its_controls_found_whatever_the_workers():
    pair = dd.simulate_pair(p=4, neighbours=2, changes=1, weights=(0.8, 1.0), rng=3)
    both = pair.first.sample(300, rng=1), pair.second.sample(300, rng=2)
    result = dd.DifferenceDAG(controls=20).fit(*both).result_
    again = dd.DifferenceDAG(controls=20, n_jobs=2).fit(*both).result_
    assert result.settings == again.settings
    assert result.settings["controls"]["halves"] == 20
    assert any("random halves of one table" in note for note in result.notes)
    assert "controls {" not in result.summary()
    assert {(e.source, e.target) for e in result.edge_list} == pair.edges
    several = dd.fit_conditions(dict(zip("ab", both, strict=True)), model=dd.DifferenceDAG(controls=20))
    assert all("controls" in own.settings for own in several.pairs.values())


def test_a_raised_penalty_is_that_of_the_fit(monkeypatch):
    from diffdag import pipeline  # noqa: PLC0415

    monkeypatch.setattr(pipeline, "control_tables", lambda *_: Controls(20, 9, 0, 0, 0, 3.0, 1))
    rng = np.random.default_rng(0)
    result = (
        dd.DifferenceDAG(controls=20).fit(rng.standard_normal((200, 4)), rng.standard_normal((200, 4))).result_
    )
    assert result.settings["penalty_inflation"]["change"] == pytest.approx(3.0)


@pytest.mark.parametrize("several", [False, True], ids=["fit", "fit_conditions"])
def test_resamples_with_other_penalties_are_not_taken_over(tmp_path, several):
    """Controls may have raised the penalties of the fits that a journal keeps."""
    rng = np.random.default_rng(0)
    both = [rng.standard_normal((80, 3)) for _ in range(2)]

    def fit(controls: int | None) -> None:
        model = dd.DifferenceDAG(resamples=20, permutations=0, controls=controls)
        if several:
            dd.fit_conditions(dict(zip("ab", both, strict=True)), model=model, journal=tmp_path)
        else:
            model.fit(*both, journal=tmp_path)

    fit(None)
    kept = {path: path.read_bytes() for path in tmp_path.rglob("*.journal")}
    for other in (20, 30):
        with pytest.raises(dd.InputError, match="a run with other settings"):
            fit(other)
    fit(None)
    assert {path: path.read_bytes() for path in tmp_path.rglob("*.journal")} == kept != {}


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"controls": 5}, "controls must be"),
        ({"controls": 20, "method": "paper"}, "controls need"),
        ({"controls": 20, "effective_samples": "auto"}, "leave controls out"),
    ],
)
def test_controls_that_cannot_be_made_are_refused(options, said):
    rng = np.random.default_rng(0)
    with pytest.raises(dd.InputError, match=said):
        dd.DifferenceDAG(**options).fit(rng.standard_normal((80, 3)), rng.standard_normal((80, 3)))


def test_moments_have_no_halves():
    rng = np.random.default_rng(0)
    both = [dd.Moments.from_array(rng.standard_normal((80, 3))) for _ in range(2)]
    with pytest.raises(dd.InputError, match="controls"):
        dd.DifferenceDAG(controls=20).fit_moments(*both)
