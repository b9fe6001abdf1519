"""Columns as they come: constants, counters, times and text are left out, switched ones are changes."""

from __future__ import annotations

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

import diffdag as dd
from diffdag._base.errors import InputError
from diffdag.tables.align import align_tables
from diffdag.tables.kinds import chance_of_rarity, common_values, kind_of_numbers

RNG = np.random.default_rng(4)
N = 60
PAIR = [pd.DataFrame(RNG.standard_normal((N, 3)), columns=["x", "y", "z"]) for _ in range(2)]


def both(**columns):
    """Two tables with more columns: what is given is for both, or a pair."""
    pairs = {name: own if isinstance(own, tuple) else (own, own) for name, own in columns.items()}
    return [frame.assign(**{name: own[k] for name, own in pairs.items()}) for k, frame in enumerate(PAIR)]


def rare(rows, count=2, n=N):
    values = np.zeros(n)
    values[rows : rows + count] = 1
    return values


class TestLeftOut:
    @pytest.mark.parametrize(
        ("column", "said"),
        [
            (1.5, "column 'q' is constant: left out"),
            ("same", "column 'q' is constant: left out"),
            (np.nan, "column 'q' is empty: left out"),
            ((0, 1), "column 'q' is 0 in first and 1 in second: left out"),
            (("off", "on"), "column 'q' is 'off' in first and 'on' in second: left out"),
            ((rare(3), rare(8, 1)), "column 'q' hardly varies (in at most 2 rows): left out"),
            (range(N), "column 'q' counts rows: left out"),
            ((range(N), range(N, 2 * N)), "column 'q' counts rows: left out"),
            (0.1 * np.arange(N), "column 'q' counts rows: left out"),
            (range(N, 0, -1), "column 'q' counts rows: left out"),
            ((2 * np.arange(N) ** 2, 2 * np.arange(N) ** 2 + 1), "column 'q' counts rows: left out"),
            ([f"row {k}" for k in range(N)], "'q' holds text: left out"),
        ],
    )
    def test_what_is_no_measurement(self, column, said):
        tables = align_tables(*both(q=column))
        assert tables.names == ("x", "y", "z")
        assert tables.notes == (said,)
        assert tables.switched == ()
        np.testing.assert_array_equal(tables.first, PAIR[0].to_numpy())

    @pytest.mark.parametrize(
        "column",
        [
            np.cumsum(np.abs(RNG.standard_normal(N))),  # rises, but not evenly
            np.arange(N) + 0.01 * RNG.standard_normal(N),
            np.arange(N) // 2,  # whole, rising, with repeated values
            (np.arange(N), RNG.permutation(N)),  # counts in one table only
            RNG.permutation(N),
            rare(3, 3),  # three rows are enough
            1e9 + RNG.standard_normal(N),  # in no order
        ],
    )
    def test_measurements_stay(self, column):
        assert "q" in align_tables(*both(q=column)).names

    def test_ids_in_no_order_are_told_by_their_name(self):
        ids = RNG.permutation(10_000)
        column = ids[:N], ids[N : 2 * N]
        assert align_tables(*both(patientId=column)).notes == ("column 'patientId' numbers rows: left out",)
        assert "dose" in align_tables(*both(dose=column)).names

    def test_one_note_for_all(self):
        tables = align_tables(*both(a=1, b="b", row=range(N), flag=(rare(0), 0.0)))
        assert tables.notes == (
            "columns 'a' and 'b' are constant, 'flag' hardly varies (in at most 2 rows) and 'row' counts rows: "
            "left out",
        )

    @pytest.mark.parametrize(
        "times",
        [
            1.7e9 + np.sort(RNG.uniform(0, 100, N)),
            1.7e12 + np.repeat(np.arange(N // 2), 2),
            pd.date_range("2024-01-01", periods=N, freq="h"),
            pd.date_range("2024-01-01", periods=N).astype(str),
            pd.date_range("2024-01-01", periods=N).strftime("%Y%m%d").astype(int),
        ],
    )
    def test_times_say_that_rows_are_in_order(self, times):
        for kind in (lambda frame: frame, pa.Table.from_pandas, pl.from_pandas):
            tables = align_tables(*map(kind, both(when=times)))
            assert tables.names == ("x", "y", "z")
            (note,) = tables.notes
            assert note.startswith("'when' holds the time of each row: left out; rows are in the order of time")
            assert note.endswith("the check of independent rows says whether neighbours resemble each other")

    def test_counters_beside_a_few_rows(self):
        """A reference with enough rows tells a counter by itself, also with the newest row first."""
        total = 1e6 + np.cumsum(RNG.integers(80, 120, N))
        for order in (slice(None), slice(None, None, -1)):
            first, second = (frame.iloc[order] for frame in both(total=(total[order], 1e7 + total[order])))
            assert align_tables(first, second, few=True).names == ("x", "y", "z")
            assert align_tables(first, second.iloc[:3], few=True).names == ("x", "y", "z")

    def test_dates_in_no_order(self):
        days = pd.Series(pd.date_range("2024-01-01", periods=N)).sample(frac=1, random_state=1).to_numpy()
        assert align_tables(*both(day=days)).notes == ("column 'day' holds dates: left out",)
        stamps = both(timestamp=1.7e9 + RNG.permutation(N))
        assert align_tables(*stamps).notes == ("column 'timestamp' holds the time of each row: left out",)

    def test_gaps_of_what_is_left_out_do_not_matter(self):
        gaps = [np.nan, *range(1, N)]
        tables = align_tables(*both(row=gaps, note=[None, *"a" * (N - 1)]))
        assert tables.names == ("x", "y", "z")
        assert len(tables.first) == N

    def test_what_no_longer_varies_in_the_rows_that_are_left(self):
        first, second = both(q=RNG.standard_normal(N))
        for frame in (first, second):
            frame.loc[frame["q"] > frame["q"].min(), "x"] = frame["x"].where(frame["x"] < 0)
            frame["w"] = np.where(frame["x"].isna(), 1.0, 0.0)
        tables = align_tables(first, second, missing="drop")
        assert "w" not in tables.names
        assert "column 'w' is constant: left out" in tables.notes

    def test_nothing_is_left(self):
        few = [frame[["x", "row"]] for frame in both(row=range(N))]
        with pytest.raises(InputError) as caught:
            align_tables(*few)
        kinds = [problem.kind for problem in caught.value.problems]
        assert kinds == ["counter", "too-few-columns"]

    def test_result_is_that_without_the_columns(self):
        plain = dd.DifferenceDAG().fit(*PAIR).result_
        more = dd.DifferenceDAG().fit(*both(a=1, row=range(N), site=list("abc") * (N // 3))).result_
        assert more.edge_list == plain.edge_list
        assert more.mean_list == plain.mean_list
        assert more.variables == plain.variables

    def test_faulty_numbers_are_refused_as_before(self):
        for column in (["1,5"] * N, ["<0.1", *map(str, range(N - 1))], ["1", "?"] * (N // 2), ["1 000"] * N):
            with pytest.raises(InputError):
                align_tables(*both(q=column))


class TestSwitched:
    def test_a_gene_that_is_knocked_out(self):
        first, second = both(gene=(np.abs(RNG.standard_normal(N)), 0.0))
        result = dd.DifferenceDAG().fit(first, second, labels=("control", "knock-out")).result_
        plain = dd.DifferenceDAG().fit(*PAIR, labels=("control", "knock-out")).result_
        (change,) = result.switch_list
        assert (change.variable, change.constant, change.value) == ("gene", "second", 0.0)
        assert change.mean == pytest.approx(first["gene"].mean())
        assert change.spread == pytest.approx(first["gene"].std())
        top = result.nodes.iloc[0]
        assert (top["variable"], top["changed"], top["note"]) == ("gene", True, "switched off in knock-out")
        assert result.variables == plain.variables == ("x", "y", "z")
        for part in ("edge_list", "gain_list", "noise_list", "mean_list", "invariant", "order"):
            assert getattr(result, part) == getattr(plain, part)
        assert "gene (switched off in knock-out; " in result.summary()
        assert result.summary().startswith("gene switched off in knock-out; no other change found")
        named = dd.DifferenceDAG().fit(first, second, columns=["x", "gene", "y"]).result_
        assert named.nodes["variable"].iloc[0] == "gene"

    @pytest.mark.parametrize(
        ("columns", "note"),
        [
            ((0.0, PAIR[0]["x"]), "switched on in b"),
            ((PAIR[0]["x"], 3.0), "does not vary in b"),
            ((3.0, PAIR[0]["x"]), "does not vary in a"),
            ((PAIR[0]["x"], rare(2, 1)), "switched off in b (but for 1 row)"),
            ((["m", "f"] * (N // 2), "f"), "does not vary in b, where it is 'f'"),
        ],
    )
    def test_notes(self, columns, note):
        result = dd.DifferenceDAG().fit(*both(q=columns), labels=("a", "b")).result_
        assert result.nodes[["variable", "note"]].to_numpy()[0].tolist() == ["q", note]

    def test_too_little_to_tell(self):
        tables = align_tables(*both(q=(rare(0, 3), 0.0)), labels=("a", "b"))
        assert tables.switched == ()
        (note,) = tables.notes
        assert note.startswith("'q' does not vary in b, and not enough in the other condition")

    def test_nothing_else_is_left(self):
        first, second = (frame[["x", "q"]] for frame in both(q=(PAIR[0]["z"], 1.0)))
        with pytest.raises(InputError, match="column 'q' is constant in the second table") as caught:
            align_tables(first, second)
        assert [problem.kind for problem in caught.value.problems] == ["constant", "too-few-columns"]

    def test_not_too_many_are_named(self):
        many = {f"g{k}": (RNG.standard_normal(N), 0.0) for k in range(30)}
        tables = align_tables(*both(**many))
        assert len(tables.switched) == 20
        assert tables.notes[0].startswith("10 more columns vary in one condition only and were left out")

    def test_several_conditions(self):
        tables = {
            "a": PAIR[0].assign(q=PAIR[1]["y"]),
            "b": PAIR[1].assign(q=0.0),
            "c": (PAIR[0] + PAIR[1]).assign(q=PAIR[0]["y"]),
        }
        result = dd.fit_conditions(tables)
        assert result.variables == ("x", "y", "z")
        assert result.notes == ("'q' cannot be compared in all conditions and was left out of all",)
        notes = {pair: [own.words(pair) for own in one.switch_list] for pair, one in result.pairs.items()}
        assert notes == {
            ("a", "b"): ["switched off in b"],
            ("a", "c"): [],
            ("b", "c"): ["switched on in c"],
        }


class TestText:
    @pytest.mark.parametrize("kind", [lambda frame: frame, pa.Table.from_pandas, pl.from_pandas])
    def test_two_values_are_numbers(self, kind):
        tables = align_tables(*map(kind, both(sex=["M", "F", "F"] * (N // 3), yes=["no", "yes"] * (N // 2))))
        assert tables.names == ("x", "y", "z", "sex", "yes")
        assert tables.notes == (
            "'sex' is coded 0 for 'F' and 1 for 'M'",
            "'yes' is coded 0 for 'no' and 1 for 'yes'",
        )
        assert tables.first[:3, 3].tolist() == [1, 0, 0]

    def test_signs_and_gaps(self):
        tables = align_tables(*both(er=["+", "-"] * (N // 2)))
        assert tables.notes == ("'er' is coded 0 for '-' and 1 for '+'",)
        gaps = ["M", None, "F", ""] * (N // 4)
        with pytest.raises(InputError, match="missing values: 30 in 'sex'"):
            align_tables(*both(sex=gaps))
        assert len(align_tables(*both(sex=gaps), missing="drop").first) == 30

    def test_levels_are_given(self):
        first, second = both(pain=["mild", "severe", "moderate"] * (N // 3))
        levels = {"pain": ["mild", "moderate", "severe"]}
        tables = align_tables(first, second, levels=levels)
        assert tables.first[:3, 3].tolist() == [0, 2, 1]
        assert tables.notes == ("'pain' is coded 0 to 2 for 'mild', 'moderate' and 'severe'",)
        assert dd.DifferenceDAG().fit(first, second, levels=levels).result_.variables[-1] == "pain"
        assert dd.fit_conditions({"a": first, "b": second}, levels=levels).variables[-1] == "pain"
        kept = pd.CategoricalDtype(levels["pain"], ordered=True)
        frames = [frame.astype({"pain": kept}) for frame in (first, second)]
        enum = pl.Enum(levels["pain"])
        forms = (
            frames,
            [pa.Table.from_pandas(frame) for frame in frames],
            [pl.from_pandas(frame).with_columns(pl.col("pain").cast(enum)) for frame in (first, second)],
        )
        for form in forms:
            np.testing.assert_array_equal(align_tables(*form).first, tables.first)
        whole = pl.concat([frame.with_columns(g=pl.lit(g)) for g, frame in zip("ab", forms[2], strict=True)])
        np.testing.assert_array_equal(align_tables(*dd.split_groups(whole, "g").values()).first, tables.first)

    @pytest.mark.parametrize(
        ("levels", "message"),
        [
            ({"pain": ["mild", "severe"]}, "holds 'moderate', which is none of its levels="),
            ({"pain": "mild"}, "levels= of 'pain' are 'mild'; give a list"),
            ({"pain": ["mild", "mild"]}, "give two or more different ones"),
            ({"pian": ["mild"]}, "did you mean 'pain'"),
            (["mild"], "give a dict of columns and their levels"),
        ],
    )
    def test_wrong_levels(self, levels, message):
        with pytest.raises(InputError, match=message):
            align_tables(*both(pain=["mild", "severe", "moderate"] * (N // 3)), levels=levels)

    def test_other_text_is_offered(self):
        (note,) = align_tables(*both(site=RNG.choice(["a", "b", "c"], N))).notes
        assert note == (
            "'site' holds text (3 different values): left out; the option 'adjust' with 'site' takes it out of "
            "all variables; if rows are nested in it, the option 'cluster' with 'site' accounts for that; if "
            "its values have an order, 'levels' gives it"
        )
        (note,) = align_tables(
            *both(site=RNG.choice(["a", "b", "c"], N), city=RNG.choice(list("klm"), N))
        ).notes
        assert note.startswith("'site' and 'city' hold text: left out; the option 'adjust' takes such columns")
        inside, other = ([f"{group}{k}" for k in RNG.integers(0, 4, N)] for group in "ab")
        (note,) = align_tables(*both(donor=(inside, other))).notes
        assert "each value occurs in one condition only; if rows are nested in it, the option 'cluster'" in note

    def test_named_text_is_refused(self):
        with pytest.raises(InputError, match="column 'site' is not numeric in both tables"):
            align_tables(*both(site=["a", "b", "c"] * (N // 3)), columns=["site", "x", "y"])
        assert align_tables(*both(s=["a", "b"] * (N // 2)), columns=["s", "x"]).names == ("s", "x")


class TestNesting:
    @staticmethod
    def nested(effect, name="donor", numbers=False):
        rng = np.random.default_rng(8)
        tables = []
        for k, frame in enumerate(PAIR):
            members = rng.integers(0, 6, N)
            levels = effect * rng.standard_normal((6, 3))
            labels = members + 6 * k if numbers else [f"d{member + 6 * k}" for member in members]
            tables.append((frame + levels[members]).assign(**{name: labels}))
        return tables

    def test_rows_that_look_nested(self):
        result = dd.DifferenceDAG().fit(*self.nested(2.0)).result_
        (check,) = [check for check in result.checks if check.name == "nested rows"]
        assert not check.passed
        assert "rows look nested in 'donor'" in check.message
        assert "the option 'cluster' with 'donor'" in check.message
        assert result.checks[0] == check
        assert any("the option 'cluster' with 'donor' accounts for it" in note for note in result.notes)

    def test_batches_within_units(self):
        rng = np.random.default_rng(5)
        tables = []
        for own in self.nested(2.0):
            batches = rng.integers(0, 3, N)
            shifted = own[["x", "y", "z"]] + np.array([[0, 0, 0], [1, 1, 0], [-1, 0, 1]])[batches]
            tables.append(shifted.assign(donor=own["donor"], batch=[f"b{k}" for k in batches]))
        for options in ({}, {"cluster": "donor"}, {"cluster": "donor", "adjust": ["batch"]}):
            result = dd.DifferenceDAG(**options).fit(*tables).result_
            said = [check.message for check in result.checks if check.name == "nested rows"]
            if not options:
                assert "rows look nested in 'donor'" in said[0]
                assert any("with 'batch' takes it out if its values are batches" in n for n in result.notes)
            elif "adjust" in options:
                assert not said
            else:
                assert "rows with the same 'batch' resemble each other within 'donor'" in said[0]
                assert said[0].endswith("the option 'adjust' with 'batch' takes it out of all variables")

    def test_cells_say_nothing_of_batches_that_are_taken_out(self):
        anndata = pytest.importorskip("anndata")
        shifts = np.repeat([[0.0, 0.0, 0.0], [2.0, 2.0, 0.0], [-2.0, 0.0, 2.0]], N // 3, axis=0)
        obs = pd.DataFrame({"batch": np.repeat(["b0", "b1", "b2"], N // 3)}, index=map(str, range(N)))
        var = pd.DataFrame(index=["x", "y", "z"])
        cells = [anndata.AnnData(own[["x", "y", "z"]].to_numpy() + shifts, obs=obs, var=var) for own in PAIR]
        assert [own.looks_nested for own in align_tables(*cells).nesting] == [True]
        assert align_tables(*cells, adjust=["batch"]).nesting == ()

    def test_rows_that_do_not(self):
        for tables in (self.nested(0.0), self.nested(2.0, name="level", numbers=True)):
            result = dd.DifferenceDAG().fit(*tables).result_
            assert "nested rows" not in [check.name for check in result.checks]

    def test_numbers_of_units_are_left_out_unless_they_are_asked_for(self):
        tables = self.nested(2.0, numbers=True)
        result = dd.DifferenceDAG().fit(*tables).result_
        assert "nested rows" in [check.name for check in result.checks]
        assert result.variables == ("x", "y", "z")
        assert any(
            note.startswith("'donor' numbers what rows look nested in: left out") for note in result.notes
        )
        asked = dd.DifferenceDAG().fit(*tables, columns=["x", "y", "z", "donor"]).result_
        assert "donor" in asked.variables

    def test_shares_are_those_of_an_analysis_of_variance(self):
        tables = self.nested(1.0)
        (found,) = align_tables(*tables).nesting
        shares, chances = [], []
        for name in ("x", "y", "z"):
            total = sum(((own[name] - own[name].mean()) ** 2).sum() for own in tables)
            means = [own.groupby("donor")[name].transform("mean") for own in tables]
            within = sum(((own[name] - mean) ** 2).sum() for own, mean in zip(tables, means, strict=True))
            units = sum(own["donor"].nunique() for own in tables)
            above, below = units - 2, 2 * N - units
            shares.append((total - within - above * within / below) / total)
            chances.append(stats.f.sf((total - within) / above / (within / below), above, below))
        assert found.share == pytest.approx(np.mean(shares))
        assert found.most == pytest.approx(max(shares))
        assert found.pvalue == pytest.approx(3 * min(chances))
        assert (found.levels, found.inside, found.possible) == (12, True, True)

    def test_chance(self):
        alarms = 0
        for seed in range(200):
            rng = np.random.default_rng(seed)
            tables = [
                pd.DataFrame(rng.standard_normal((N, 4)), columns=list("abcd")).assign(
                    site=rng.choice(list("uvwxyz"), N)
                )
                for _ in range(2)
            ]
            alarms += any(own.looks_nested for own in align_tables(*tables).nesting)
        assert alarms <= 2


@settings(max_examples=50)
@given(st.integers(0, 2), st.integers(0, 40), st.integers(3, 60), st.integers(3, 60))
def test_chance_is_that_of_the_exact_test(odd, differ, rows, others):
    odd, differ = min(odd, rows), min(differ, others)
    other = np.r_[np.ones(differ), np.zeros(others - differ)]
    found = chance_of_rarity(odd, rows, other, 0.0)
    exact = stats.hypergeom(rows + others, odd + differ, rows).cdf(odd)
    assert found == pytest.approx(min(1.0, 2 * exact))


@settings(max_examples=60)
@given(st.lists(st.sampled_from([0.0, 1.0, np.nan]), min_size=3, max_size=40))
def test_common_values_are_those_counted(values):
    array = np.array(values)[:, None]
    found = common_values(array, np.isnan(array).sum(axis=0))
    known = [value for value in values if not np.isnan(value)]
    counts = sorted(((known.count(value), value) for value in set(known)), reverse=True)
    if counts and len(known) - counts[0][0] <= 2 and (len(counts) == 1 or counts[0][0] > 3):
        assert (found.value[0], found.odd[0]) == (counts[0][1], len(known) - counts[0][0])
    elif not counts:
        assert found.odd[0] == -1


def test_extreme_numbers_are_no_counters():
    wild = np.array([-1e308, 1e308, -1e308, 1e308, 0, 1, 2])
    assert kind_of_numbers("x", wild, wild) == ""
    assert kind_of_numbers("x", wild / 1e308, np.arange(7.0)) == ""
