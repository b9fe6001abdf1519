"""Fits on resamples."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import diffdag as dd
from diffdag.pipeline import ModelOptions, Refit, inflation_of, prepare, search
from diffdag.refits import resample_fits
from diffdag.tables.align import Tables, align_tables
from diffdag.trust.resampling import Drawing, Resamples, _drawn, draw, resample_tables
from diffdag.trust.variation import EQUAL, LEFT_OUT, TRIMMED, WINSORISED, vary

PAIR = dd.simulate_pair(p=5, neighbours=2, changes=2, weights=(0.7, 1.0), rng=840_200)
TABLES = PAIR.first.sample(250, rng=1), PAIR.second.sample(301, rng=2)


def rows_of(kind, number, n=(20, 31)):
    return _drawn(number, n, Drawing.of(("a", "b", "c"), kind, n, None))


def test_bootstrap_draws_as_many_rows_with_replacement():
    counts = [Counter(), Counter()]
    for number in range(1000):
        parts = rows_of("bootstrap", number)
        assert [len(part) for part in parts] == [20, 31]
        for count, part in zip(counts, parts, strict=True):
            count.update(part.tolist())
    for count, n in zip(counts, (20, 31), strict=True):
        assert sorted(count) == list(range(n))
        # each row is drawn 1000 times on average, with variance 1000 (1 - 1/n)
        assert max(abs(times - 1000) for times in count.values()) < 5 * np.sqrt(1000)


def test_the_tables_are_resampled_independently():
    draws = [rows_of("bootstrap", number, n=(20, 20)) for number in range(600)]
    first, second = (np.concatenate(part) for part in zip(*draws, strict=True))
    assert abs(np.corrcoef(first, second)[0, 1]) < 5 / np.sqrt(len(first))
    same = np.mean(first == second)
    assert abs(same - 1 / 20) < 5 * np.sqrt(0.05 * 0.95 / len(first))


def test_halves_come_in_complementary_pairs():
    for number in (0, 2, 10):
        one, other = rows_of("half", number)
        rest, remainder = rows_of("half", number + 1)
        assert set(one) | set(rest) == set(range(20))
        assert len(one) == len(rest) == 10
        assert len(other) == len(remainder) == 15
        assert not set(other) & set(remainder)
        tables = Tables(np.zeros((20, 3)), np.zeros((31, 3)), ("a", "b", "c"))
        drawing = Drawing.of(tables.names, "half", (20, 31), None)
        searches = [draw(k, tables, drawing)[1].integers(2**60) for k in (number, number + 1)]
        assert searches[0] != searches[1]
    assert not np.array_equal(rows_of("half", 0)[0], rows_of("half", 2)[0])


def test_a_fit_is_the_fit_of_the_rows_it_drew():
    """With the penalties of the fit to all rows; so few variables are searched in full."""
    found = resample_fits(*TABLES, fits=4, model=dd.DifferenceDAG(rng=5, n_jobs=1))
    names, options = found.names, ModelOptions(rng=5)
    penalties = inflation_of(prepare(align_tables(*TABLES), options), options)
    drawing = Drawing.of(names, "bootstrap", (250, 301), 5)
    for number in range(4):
        one, two = _drawn(number, (250, 301), drawing)
        prepared = prepare(Tables(TABLES[0][one], TABLES[1][two], names), options, inflation=penalties)
        wanted = {edge.key for edge in search(prepared, options).difference.edge_list}
        assert {(names[i], names[j], directed) for i, j, directed in found.found[number]} == wanted


def test_shares_find_the_changes():
    found = resample_fits(*TABLES, fits=20, model=dd.DifferenceDAG(n_jobs=1))
    edges = found.edges
    top = edges.head(2)
    assert set(zip(top["source"], top["target"], strict=True)) == PAIR.edges
    assert (top["found"] > 0.8).all()
    assert found.rows == (250, 301)
    assert found.answers == 20


edge_lists = st.lists(
    st.dictionaries(
        st.sampled_from([(i, j) for i in range(4) for j in range(i + 1, 4)]), st.integers(0, 2), max_size=4
    ),
    min_size=1,
    max_size=8,
)


@settings(max_examples=60, derandomize=True, deadline=None)
@given(edge_lists, st.sets(st.integers(0, 7)))
def test_edges_against_counting(fits, broken):
    broken = {k for k in broken if k < len(fits)} - {0}
    ways = [
        [] if k in broken else [(j, i, True) if way == 1 else (i, j, way == 0) for (i, j), way in fit.items()]
        for k, fit in enumerate(fits)
    ]
    names = ("d", "c", "b", "a")
    resamples = Resamples(
        names, "half", (3, 3), tuple(tuple(edges) for edges in ways), dict.fromkeys(broken, "broken")
    )
    table, good = resamples.edges, len(fits) - len(broken)
    assert resamples.answers == good
    pairs = {frozenset(edge[:2]) for edges in ways for edge in edges}
    assert len(table) == len(pairs)
    assert table["found"].is_monotonic_decreasing
    for row in table.itertuples():
        i, j = names.index(row.source), names.index(row.target)
        directed = sum((i, j, True) in edges for edges in ways)
        backward = sum((j, i, True) in edges for edges in ways)
        undirected = sum((min(i, j), max(i, j), False) in edges for edges in ways)
        assert directed >= backward
        assert (row.directed, row.reversed, row.undirected) == (
            directed / good,
            backward / good,
            undirected / good,
        )
        assert row.found == pytest.approx(row.directed + row.reversed + row.undirected)
        assert row.found <= 1


def test_a_coin_that_decides_a_direction_falls_on_both_sides_near_the_fit_as_in_full_searches():
    """Where resamples begin must not decide: with few rows many directions are open."""
    near, full = [], []
    for seed in range(840_230, 840_232):
        pair = dd.simulate_pair(p=9, neighbours=4, changes=3, rng=seed)
        tables = align_tables(pair.first.sample(120, rng=1), pair.second.sample(120, rng=2))
        options = ModelOptions()
        fit = search(prepare(tables, options), options)
        drawing = Drawing.of(tables.names, "bootstrap", (120, 120), 0)
        for start, kept in ((fit, near), (None, full)):
            drawn = resample_tables(tables, Refit.of(options, fit=start), 20, drawing)
            claimed = {(e.source, e.target) for e in fit.difference.edge_list}
            found = [(drawn.names[i], drawn.names[j]) for edges in drawn.found for i, j, _ in edges]
            kept.append([sum(e in claimed for e in found), sum(e[::-1] in claimed for e in found)])
    assert np.sum(full) > 60
    np.testing.assert_allclose(np.sum(near, axis=0), np.sum(full, axis=0), atol=0.05 * np.sum(full))


def test_more_fits_continue_where_fewer_stopped(tmp_path):
    path = tmp_path / "fits.journal"
    done = []
    few = resample_fits(*TABLES, fits=3, journal=path, model=dd.DifferenceDAG(rng=8, n_jobs=1))
    more = resample_fits(
        *TABLES,
        fits=6,
        journal=path,
        progress=lambda k, total, what: done.append((k, total)),
        model=dd.DifferenceDAG(rng=8, n_jobs=1),
    )
    assert done == [(3, 6), (4, 6), (5, 6), (6, 6)]
    fresh = resample_fits(*TABLES, fits=6, model=dd.DifferenceDAG(rng=8, n_jobs=1))
    assert more.found == fresh.found
    assert more.found[:3] == few.found
    before = path.read_bytes()
    assert resample_fits(*TABLES, fits=2, journal=path, model=dd.DifferenceDAG(rng=8)).found == few.found[:2]
    assert path.read_bytes() == before


@pytest.mark.parametrize(
    ("options", "change"),
    [({"rng": 9}, {}), ({}, {"kind": "half"}), ({"noise": "equal"}, {}), ({}, {"drop": ["X5"]})],
)
def test_a_journal_of_another_run_is_refused(tmp_path, options, change):
    path = tmp_path / "fits.journal"
    resample_fits(*TABLES, fits=1, journal=path, model=dd.DifferenceDAG(rng=8, n_jobs=1))
    with pytest.raises(dd.InputError, match="other settings"):
        resample_fits(*TABLES, fits=1, journal=path, **change, model=dd.DifferenceDAG(**{"rng": 8, **options}))
    with pytest.raises(dd.InputError, match="other data"):
        resample_fits(
            TABLES[0] + 1e-09, TABLES[1], fits=1, journal=path, model=dd.DifferenceDAG(n_jobs=1, rng=8)
        )


def test_seeds():
    one, same, other = (
        resample_fits(*TABLES, fits=8, kind="half", model=dd.DifferenceDAG(rng=seed, n_jobs=1))
        for seed in (1, 1, 2)
    )
    assert one.found == same.found != other.found
    assert (
        resample_fits(*TABLES, fits=2, model=dd.DifferenceDAG(n_jobs=1)).found
        == resample_fits(*TABLES, fits=2, model=dd.DifferenceDAG(rng=0, n_jobs=1)).found
    )
    generator = np.random.default_rng(3)
    rows, names = (250, 301), PAIR.first.names
    draws = [_drawn(0, rows, Drawing.of(names, "half", rows, generator))[0] for _ in "12"]
    assert not np.array_equal(*draws)  # a generator goes on, and does not repeat itself
    again = Drawing.of(names, "half", rows, np.random.default_rng(3))
    np.testing.assert_array_equal(_drawn(0, (250, 301), again)[0], draws[0])


def test_the_model_is_left_alone_and_its_settings_count():
    order = [PAIR.first.names[k] for k in PAIR.first.order]
    model = dd.DifferenceDAG(order=order, rng=np.random.default_rng(1), n_jobs=2)
    found = resample_fits(*TABLES, model=model, fits=4)
    place = {name: k for k, name in enumerate(order)}
    for i, j, directed in (edge for edges in found.found for edge in edges):
        assert directed
        assert place[found.names[i]] < place[found.names[j]]
    assert not hasattr(model, "result_")
    assert model.n_jobs == 2


def test_series_are_resampled_at_their_worth():
    model = dd.DifferenceDAG(effective_samples=(60, 101))
    assert resample_fits(*TABLES, model=model, fits=1).rows == (60, 101)
    assert resample_fits(*TABLES, model=model, fits=1, kind="half").rows == (30, 50)


@pytest.mark.slow
def test_a_resample_that_cannot_be_fitted_does_not_count():
    rng = np.random.default_rng(840_201)
    table = rng.standard_normal((19, 3))  # of 20 rows, one would not be enough to compare a column
    table[:, 2] = 0.0
    table[0, 2] = 1.0  # constant in every resample without the first row: a share of 1/e of them
    found = resample_fits(table, rng.standard_normal((40, 3)), fits=60, model=dd.DifferenceDAG(n_jobs=1))
    assert 8 <= len(found.failed) <= 36
    assert all("constant" in why for why in found.failed.values())
    assert found.answers == 60 - len(found.failed)
    assert all(not found.found[number] for number in found.failed)


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"fits": 0}, "fits must be a whole number, 1 or larger; it is 0"),
        ({"fits": 2.5}, "fits must be"),
        ({"kind": "third"}, "kind must be one of bootstrap, half"),
        ({"model": dd.DifferenceDAG(rng=-1)}, "rng must be"),
        ({"model": dd.DifferenceDAG(n_jobs=0)}, "n_jobs must be"),
        ({"model": dd.DifferenceDAG(threshold=0.3)}, "has no threshold"),
        ({"model": dd.DifferenceDAG(order=["X1"])}, "order= leaves out"),
        ({"progress": 3}, "progress must be"),
    ],
)
def test_bad_requests(options, says):
    with pytest.raises(dd.InputError, match=says):
        resample_fits(*TABLES, **{"fits": 2, **options})


def test_what_cannot_be_resampled():
    with pytest.raises(dd.InputError, match="moments cannot be resampled"):
        resample_fits(dd.Moments.from_array(TABLES[0]), dd.Moments.from_array(TABLES[1]))
    with pytest.raises(dd.InputError, match="the resampled first table has 2 rows"):
        resample_fits(TABLES[0][:5], TABLES[1], kind="half")
    twins = [np.column_stack([table, table[:, 0]]) for table in TABLES]
    with pytest.raises(dd.InputError, match=r"linearly dependent"):
        resample_fits(*twins, fits=3, model=dd.DifferenceDAG(n_jobs=1))


class TestVariedSpecifications:
    rows = np.random.default_rng(840_220).standard_normal((2, 400, 12))
    tables = Tables(rows[0], rows[1] + 0.5, tuple("abcdefghijkl"))

    def vary(self, turn, seed=0):
        return vary(self.tables, turn, np.random.default_rng(seed))

    def test_a_tenth_to_a_third_of_the_columns_are_left_out(self):
        outs = [self.vary(0, seed).out for seed in range(200)]
        assert {len(out) for out in outs} == {1, 2, 3}
        assert {k for out in outs for k in out} == set(range(12))
        assert all(len(set(out)) == len(out) for out in outs)
        assert self.vary(0).how == LEFT_OUT
        assert self.vary(0).tables is self.tables

    def test_tails_are_pulled_in(self):
        varied = self.vary(1)
        assert (varied.how, varied.out) == (WINSORISED, ())
        for before, after in (
            (self.tables.first, varied.tables.first),
            (self.tables.second, varied.tables.second),
        ):
            changed = before != after
            assert (np.abs(after) <= np.abs(before) + 1).all()
            assert (changed.mean(axis=0) >= 0.01).all()
            assert (changed.mean(axis=0) <= 0.11).all()

    def test_rows_outside_a_range_are_left_out(self):
        varied = self.vary(2)
        assert varied.how == TRIMMED
        for before, after in (
            (self.tables.first, varied.tables.first),
            (self.tables.second, varied.tables.second),
        ):
            assert 0.4 * len(before) <= len(after) < len(before)
            kept = {tuple(row) for row in after.tolist()}
            gone = np.array([row for row in before.tolist() if tuple(row) not in kept])
            # in one column all of those that went lie outside what stayed
            assert any(
                ((gone[:, k] < after[:, k].min()) | (gone[:, k] > after[:, k].max())).all() for k in range(12)
            )

    def test_noise_variances_are_taken_for_equal(self):
        varied = self.vary(3)
        assert (varied.how, varied.equal, varied.tables) == (EQUAL, True, self.tables)
        assert not self.vary(4).equal
        rng = np.random.default_rng(3)
        cause = rng.standard_normal((2, 600))
        noise = rng.standard_normal((2, 600)) * [[1.0], [2.0]]
        both = Tables(*(np.column_stack([x, x + e]) for x, e in zip(cause, noise, strict=True)), ("a", "b"))
        refit = Refit.of(ModelOptions())
        assert refit(both, np.random.default_rng(0)).noise
        assert not refit(both, np.random.default_rng(0), equal=True).noise

    def test_columns_of_two_values_stay_as_they_are(self):
        flags = (np.arange(800).reshape(400, 2) % 50 == 0).astype(float)  # rare, and never
        flags[::7, 1] = 1.0
        tables = Tables(flags, flags, ("a", "b"))
        for turn in (0, 1):
            varied = vary(tables, turn, np.random.default_rng(turn)).tables
            assert (varied.first.std(axis=0) > 0).all()

    def test_pairs_count_only_where_both_take_part(self):
        fits = ((0, 1, True),), ((0, 1, True),), (), ((1, 0, True),), (), ()
        varied = ("", "x", "", "x", "", "x")
        out = ((), (), (), (), (), (1,))
        resamples = Resamples(
            ("a", "b", "c"), "bootstrap", (3, 3), fits, {4: "broken"}, varied=varied, out=out, asked=6
        )
        (share,) = resamples.shares
        assert (resamples.answers, resamples.changed) == (2, (1, 3, 5))
        assert (share.source, share.found, share.directed, share.reversed) == ("a", 0.5, 0.5, 0.0)
        ways = share.varied
        assert (ways.fits, ways.found, ways.directed, ways.reversed) == (2, 1.0, 0.5, 0.5)

    def test_every_second_fit_varies(self):
        found = resample_fits(*TABLES, fits=7, varied=True, model=dd.DifferenceDAG(n_jobs=1, rng=4))
        assert found.varied == ("", LEFT_OUT, "", WINSORISED, "", TRIMMED, "")
        assert [len(out) for out in found.out] == [0, 1, 0, 0, 0, 0, 0]
        plain = resample_fits(*TABLES, fits=7, model=dd.DifferenceDAG(n_jobs=1, rng=4))
        assert found.found[::2] == plain.found[::2]

    def test_what_is_known_of_the_order_holds_without_some_columns(self):
        order = [PAIR.first.names[k] for k in PAIR.first.order]
        model = dd.DifferenceDAG(order=order, n_jobs=1)
        found = resample_fits(*TABLES, fits=8, varied=True, model=model)
        place = [order.index(name) for name in found.names]
        assert not found.failed
        assert all(directed and place[i] < place[j] for fit in found.found for i, j, directed in fit)
