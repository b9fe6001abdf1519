"""Covariates, rows nested in donors, and gaps, from tables to results: what is claimed, and what is found."""

from __future__ import annotations

import json
import pickle

import numpy as np
import pandas as pd
import pytest

import diffdag as dd
from diffdag.__main__ import run
from diffdag._base.errors import InputError
from diffdag.model.simulate import simulate_pair
from diffdag.ordersearch.fit import mean_difference
from diffdag.pipeline import ModelOptions, Refit, prepare, search
from diffdag.refits import resample_fits
from diffdag.tables.align import align_tables
from diffdag.trust.resampling import Drawing, resample_tables

P = 6
NAMES = [f"v{k}" for k in range(P)]
SEEDS = range(6)


def models(seed, changes=0):
    return simulate_pair(P, neighbours=3, changes=changes, weights=(0.6, 1.0), rng=seed)


def rows_of(model, n, rng, push=0.0):
    """Rows of a model; `push` is added to the noise of each variable."""
    noise = rng.standard_normal((n, P)) * np.sqrt(model.noise_variances) + push
    return pd.DataFrame(noise @ np.linalg.inv(np.eye(P) - model.weights).T, columns=NAMES)


def truth(pair):
    place = dict(zip(pair.first.names, NAMES, strict=True))
    return {(place[source], place[target]) for source, target in pair.edges}


def donors(seed, changes=0, level=0.5, cells=60, each=4, shared=False):
    """Two conditions with so many donors, whose levels differ, and the edges that changed."""
    rng = np.random.default_rng([seed, 1])
    pair = models(seed, changes)
    tables = []
    for k, model in enumerate((pair.first, pair.second)):
        parts = [
            rows_of(model, cells, rng, level * np.random.default_rng([seed, own]).standard_normal(P)).assign(
                donor=f"d{own}"
            )
            for own in range(0 if shared else each * k, each if shared else each * (k + 1))
        ]
        tables.append(pd.concat(parts, ignore_index=True))
    return *tables, truth(pair)


def ages(seed, changes=0, n=400):
    """Two conditions, the second older and more mixed; age acts on every variable. And without its doing."""
    rng = np.random.default_rng([seed, 2])
    pair = models(seed, changes)
    pull = rng.uniform(0.4, 0.9, P) * rng.choice([-1, 1], P)
    with_age, without = [], []
    for k, model in enumerate((pair.first, pair.second)):
        z = rng.normal((0.0, 0.8)[k], (1.0, 1.4)[k], n)
        again = np.random.default_rng([seed, 3, k]), np.random.default_rng([seed, 3, k])
        with_age.append(rows_of(model, n, again[0], z[:, None] * pull).assign(age=50 + 10 * z))
        without.append(rows_of(model, n, again[1]))
    return with_age, without, truth(pair)


def gappy(frame, share=0.1, seed=0):
    rng = np.random.default_rng(seed)
    return frame.assign(**frame[NAMES].mask(rng.random((len(frame), P)) < share))


def fit(first, second, **options):
    return dd.DifferenceDAG(**options).fit(first, second).result_


def claimed(result):
    return bool(result.edge_list or result.gain_list or result.noise_list or result.mean_list)


def edges(result):
    return {(edge.source, edge.target) for edge in result.edge_list if edge.directed}


def f1(result, known):
    return 2 * len(edges(result) & known) / (len(result.edge_list) + len(known))


# Donors


def test_donors_that_differ_are_not_taken_for_a_change():
    """Rows as if independent claim intercepts of nearly every study; donors none."""
    naive = nested = 0
    for seed in SEEDS:
        first, second, _ = donors(seed)
        nested += claimed(fit(first, second, cluster="donor"))
        naive += claimed(fit(first.drop(columns="donor"), second.drop(columns="donor")))
    assert nested == 0
    assert naive >= 5


@pytest.mark.parametrize("shared", [False, True], ids=["donors", "pairs"])
def test_changes_within_donors_are_found(shared):
    found = [
        f1(fit(first, second, cluster="donor"), known)
        for first, second, known in (donors(seed, 2, shared=shared) for seed in SEEDS[:4])
    ]
    assert np.mean(found) > 0.75


def test_an_intercept_that_every_donor_shows_is_found():
    first, second, _ = donors(0, level=0.1)
    name = NAMES[-1]
    second = second.assign(**{name: second[name] + 3})
    result = fit(first, second, cluster="donor")
    assert [change.variable for change in result.mean_list] == [name]
    assert result.mean_list[0].delta == pytest.approx(-3, abs=0.5)


def test_names_of_donors_and_the_order_of_rows_do_not_matter():
    first, second, _ = donors(2, 2)
    names = dict(zip([f"d{k}" for k in range(8)], [40, 3, 17, 28, 5, 66, 71, 82], strict=True))
    other = [
        table.assign(donor=table["donor"].map(names)).sample(frac=1, random_state=0)
        for table in (first, second)
    ]
    one, two = fit(first, second, cluster="donor"), fit(*other, cluster="donor")
    assert edges(one) == edges(two)
    assert [edge.delta for edge in two.edge_list] == pytest.approx([edge.delta for edge in one.edge_list])


# Covariates


def test_confounding_is_claimed_unless_it_is_taken_out():
    left = out = 0
    for seed in SEEDS:
        (first, second), _, _ = ages(seed)
        out += claimed(fit(first, second, adjust=["age"]))
        left += claimed(fit(first.drop(columns="age"), second.drop(columns="age")))
    assert out == 0
    assert left >= 5


def test_changes_are_found_as_if_the_covariate_had_done_nothing():
    adjusted, clean, left = [], [], []
    for seed in SEEDS[:4]:
        (first, second), without, known = ages(seed, 2)
        adjusted.append(f1(fit(first, second, adjust=["age"]), known))
        clean.append(f1(fit(*without), known))
        left.append(f1(fit(first.drop(columns="age"), second.drop(columns="age")), known))
    assert np.mean(adjusted) == pytest.approx(np.mean(clean), abs=0.05)
    assert np.mean(left) < np.mean(adjusted)


def test_a_fit_with_covariates_is_that_of_the_residuals():
    """Effects of ordinary least squares on the residuals of the variables, but for the lost row."""
    (first, second), _, _ = ages(3, 2)
    result = fit(first, second, adjust=["age"])
    residuals = []
    for table in (first, second):
        x = np.column_stack([np.ones(len(table)), table["age"]])
        values = table[NAMES].to_numpy()
        left = values - x @ np.linalg.lstsq(x, values, rcond=None)[0]
        residuals.append(pd.DataFrame(left, columns=NAMES))
    plain = fit(*residuals)
    assert edges(plain) == edges(result) != set()
    for own, known in zip(result.edge_list, plain.edge_list, strict=True):
        assert (own.weight_first, own.weight_second) == pytest.approx(
            (known.weight_first, known.weight_second), rel=0.02, abs=0.01
        )
    assert result.samples == (400, 400)


def test_results_do_not_depend_on_the_units_of_a_covariate():
    (first, second), _, _ = ages(2, 2)
    one = fit(first, second, adjust=["age"])
    other = fit(*(table.assign(age=1e5 - 365.25 * table["age"]) for table in (first, second)), adjust=["age"])
    assert edges(one) == edges(other) != set()
    assert [edge.delta for edge in one.edge_list] == pytest.approx([edge.delta for edge in other.edge_list])
    assert [change.pvalue for change in one.mean_list] == pytest.approx(
        [change.pvalue for change in other.mean_list]
    )


# Gaps


def test_with_gaps_what_complete_rows_show_is_found():
    pair = models(4, 2)
    rng = np.random.default_rng(5)
    first, second = rows_of(pair.first, 800, rng), rows_of(pair.second, 800, rng)
    whole, filled = fit(first, second), fit(gappy(first), gappy(second, seed=1), missing="em")
    assert edges(whole) == truth(pair)
    assert edges(filled) == edges(whole)
    for one, two in zip(filled.edge_list, whole.edge_list, strict=True):
        assert one.delta == pytest.approx(two.delta, abs=0.15)
    assert any("because of missing values" in note for note in filled.notes)
    assert filled.samples == (800, 800)


def test_gaps_alone_are_no_change():
    """Of one condition with gaps and one without, the same is claimed: nothing."""
    for seed in SEEDS[:4]:
        pair, rng = models(seed), np.random.default_rng([seed, 6])
        first, second = rows_of(pair.first, 300, rng), rows_of(pair.second, 300, rng)
        assert not claimed(fit(gappy(first, 0.2), second, missing="em"))


# All of it together


@pytest.fixture(scope="module")
def whole_study():
    """Donors, an age that varies within them, gaps, and two changes."""
    first, second, known = donors(2, 2, cells=90)
    rng = np.random.default_rng(7)
    tables = []
    for k, table in enumerate((first, second)):
        z = rng.normal(0.3 * k, 1, len(table))
        tables.append(
            gappy(table, 0.03, k).assign(age=z, **{name: table[name] + 0.3 * z for name in NAMES[:3]})
        )
    tables = [gappy(table, 0.03, 3 + k) for k, table in enumerate(tables)]
    return *tables, known


DESIGN = {"adjust": ["age"], "cluster": "donor", "missing": "em"}
PARTS = {"adjust": {"adjust": ["age"]}, "cluster": {"cluster": "donor"}, "em": {}}


def part_of(study, name):
    """The study as one that has only covariates, only donors, or only gaps; and its options."""
    first, second, _ = study
    used = [*NAMES, *PARTS[name].get("adjust", ()), *([PARTS[name]["cluster"]] if name == "cluster" else [])]
    return first[used], second[used], {"missing": "em", **PARTS[name]}


@pytest.mark.parametrize("name", [*PARTS, "all"])
def test_resamples_give_confidence(whole_study, name):
    first, second, how = (*whole_study[:2], DESIGN) if name == "all" else part_of(whole_study, name)
    result = fit(first, second, resamples=20, permutations=19, **how)
    assert result.edge_list
    assert all(0 < edge.confidence < 1 for edge in result.edge_list)
    assert result.stability.failed == 0
    assert not any("no confidence" in note for note in result.notes)
    assert result.global_test.permutations == 19


EXTRAS = {
    "controls": {"controls": 20},
    "paper": {"method": "paper"},
    "winsorised": {"covariance": "winsorised"},
    "spearman": {"covariance": "spearman"},
    "equal noise": {"noise": "equal"},
    "fewer variables": {"max_variables": 4},
}


@pytest.mark.parametrize("extra", EXTRAS.values(), ids=EXTRAS)
def test_every_option_takes_every_design(whole_study, extra):
    first, second, _ = whole_study
    result = fit(first, second, **DESIGN, **extra)
    assert result.variables == tuple(NAMES)
    assert result.settings["cluster"] == "donor"
    assert "donor" in result.to_json()


@pytest.mark.parametrize("extra", [{"intervals": "split"}, {"effective_samples": (150, 160)}])
def test_what_takes_rows_for_independent_goes_with_covariates_and_gaps_but_not_with_units(whole_study, extra):
    first, second, _ = whole_study
    columns = [*NAMES, "age"]
    result = fit(first[columns], second[columns], adjust=["age"], missing="em", **extra)
    assert all(edge.low <= edge.delta <= edge.high for edge in result.edge_list if edge.low is not None)
    with pytest.raises(dd.InputError, match=f"'donor'.* leave {next(iter(extra))} out"):
        fit(first, second, **DESIGN, **extra)


def test_resamples_are_the_same_every_time_and_in_every_process(whole_study):
    """Tables travel to other processes as bytes."""
    tables = align_tables(*whole_study[:2], **DESIGN)
    refit = Refit.of(ModelOptions())
    drawing = Drawing.of(tables.names, "bootstrap", (360, 360), 1, varies=True)
    here = resample_tables(tables, refit, 8, drawing)
    there = resample_tables(*pickle.loads(pickle.dumps((tables, refit, 8, drawing))))  # noqa: S301
    assert here.found == there.found
    assert not here.failed


@pytest.mark.parametrize("by", ["ebic", "stability"])
def test_paths_of_settings_take_every_design(whole_study, by):
    first, second, _ = whole_study
    path = dd.settings_path(first, second, model=dd.DifferenceDAG(**DESIGN), penalties=[0.7], by=by, fits=4)
    assert set(path.edges["in_default"]) <= {True, False}


OTHER = {
    "no covariate": {"cluster": "donor", "missing": "em"},
    "no donors": {"adjust": ["age"], "missing": "em"},
    "no gaps": {"adjust": ["age"], "cluster": "donor", "missing": "drop"},
}


@pytest.mark.parametrize("other", OTHER.values(), ids=OTHER)
def test_journals_of_another_design_are_refused(tmp_path, whole_study, other):
    first, second, _ = whole_study
    how = {"columns": NAMES, "fits": 1, "journal": tmp_path / "fits.journal"}
    resample_fits(first, second, model=dd.DifferenceDAG(**DESIGN), **how)
    with pytest.raises(InputError, match="a run with other settings, or on other data"):
        resample_fits(first, second, model=dd.DifferenceDAG(**other), **how)
    resample_fits(first, second, model=dd.DifferenceDAG(**DESIGN), **how)


def test_several_conditions_have_covariates_and_donors(whole_study):
    first, second, known = whole_study
    third = first.assign(donor=first["donor"] + "x")
    third = third.assign(**(third[NAMES] + np.random.default_rng(8).normal(0, 0.05, (len(third), P))))
    result = dd.fit_conditions(
        {"a": first, "b": second, "c": third}, model=dd.DifferenceDAG(**DESIGN), reference="a"
    )
    changed, same = result.pairs["a", "b"], result.pairs["a", "c"]
    assert f1(changed, known) > 0.6
    assert not same.edge_list
    assert changed.settings["adjust"] == ["age"]


def test_of_two_conditions_several_are_the_same_as_two(whole_study):
    first, second, _ = whole_study
    model = dd.DifferenceDAG(**DESIGN)
    alone = fit(first, second, **DESIGN)
    together = dd.fit_conditions({"a": first, "b": second}, model=model).pairs["a", "b"]
    assert together.edge_list == alone.edge_list
    assert together.mean_list == alone.mean_list


def test_some_columns_of_a_study_may_be_chosen(whole_study):
    first, second, _ = whole_study
    chosen = dd.DifferenceDAG(**DESIGN).fit(first, second, columns=NAMES[:4]).result_
    left = dd.DifferenceDAG(**DESIGN).fit(first, second, drop=NAMES[4:]).result_
    assert chosen.variables == tuple(NAMES[:4])
    assert chosen.edge_list == left.edge_list


def test_variables_that_are_left_out_leave_their_donors_levels_too(whole_study):
    """Resamples leave columns out: errors between donors are then those of the columns that stay."""
    tables = align_tables(*whole_study[:2], **DESIGN)
    options = ModelOptions()
    prepared = prepare(tables, options)
    fitted = search(prepared.leaving_out([0, 2]), options)
    assert fitted.units.nested.levels[0].shape[1] == P - 2
    np.testing.assert_array_equal(fitted.units.nested.levels[0], prepared.nested.levels[0][:, [1, 3, 4, 5]])


# The command line


@pytest.fixture
def files(tmp_path, whole_study):
    paths = []
    for name, table in zip("ab", whole_study[:2], strict=True):
        paths.append(tmp_path / f"{name}.csv")
        batch = np.resize(["p", "q"], len(table))
        table.assign(batch=batch).to_csv(paths[-1], index=False)
    return [str(path) for path in paths]


def test_the_command_line_takes_covariates_donors_and_gaps(capsys, tmp_path, files, whole_study):
    arguments = ["--adjust", "age,batch", "--cluster", "donor", "--missing", "em", "--json", "--jobs", "1"]
    assert run(["fit", *files, *arguments, "--out", str(tmp_path / "out")]) == 0
    said = json.loads(capsys.readouterr().out)
    assert said["settings"]["adjust"] == ["age", "batch"]
    assert said["settings"]["cluster"] == "donor"
    first, second = (pd.read_csv(path) for path in files)
    known = fit(first, second, adjust=["age", "batch"], cluster="donor", missing="em")
    assert {(edge["source"], edge["target"]) for edge in said["edges"]} == {
        (edge.source, edge.target) for edge in known.edge_list
    }


BAD = {
    "unknown covariate": (["--adjust", "age,bach", "--cluster", "donor"], "did you mean 'batch'?"),
    "unknown donors": (["--adjust", "age,batch", "--cluster", "doner"], "did you mean 'donor'?"),
    "both": (["--adjust", "donor", "--cluster", "donor"], "leave it out of --adjust"),
    "gaps": (["--adjust", "age,batch", "--cluster", "donor", "--missing", "fill"], "missing"),
}


@pytest.mark.parametrize(("arguments", "message"), BAD.values(), ids=BAD)
def test_the_command_line_refuses_in_one_line_and_writes_nothing(capsys, tmp_path, files, arguments, message):
    before = sorted(tmp_path.iterdir())
    how = [] if "--missing" in arguments else ["--missing", "em"]
    assert run(["fit", *files, *arguments, *how, "--out", str(tmp_path / "out")]) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert len(captured.err.splitlines()) == 1
    assert message in captured.err
    assert sorted(tmp_path.iterdir()) == before


# Moments


NEEDS_ROWS = {
    "em": {"missing": "em"}, "drop": {"missing": "drop"}, "cluster": {"cluster": "donor"},
    "covariance": {"covariance": "winsorised"}, "effective_samples": {"effective_samples": 30.0},
    "controls": {"controls": 20}, "permutations": {"permutations": 99}, "fdr": {"fdr": 0.1},
}  # fmt: skip
WITH_MOMENTS = {
    "fit": lambda model, both: model.fit_moments(*both),
    "conditions": lambda model, both: dd.fit_conditions({"a": both[0], "b": both[1]}, model=model),
    "path": lambda model, both: dd.settings_path(*both, model=model),
}


@pytest.mark.parametrize("options", NEEDS_ROWS.values(), ids=NEEDS_ROWS)
@pytest.mark.parametrize("fitted", WITH_MOMENTS.values(), ids=WITH_MOMENTS)
def test_what_acts_on_rows_is_refused_of_moments(options, fitted):
    rng = np.random.default_rng(0)
    both = [dd.Moments.from_array(rng.standard_normal((50, 3))) for _ in range(2)]
    with pytest.raises(InputError, match=f"{next(iter(options))}.* needs rows"):
        fitted(dd.DifferenceDAG(**options), both)


# What goes together


OF_TABLES = {
    "fit": lambda model, both: model.fit(*both),
    "conditions": lambda model, both: dd.fit_conditions(dict(zip("ab", both, strict=True)), model=model),
    "path": lambda model, both: dd.settings_path(*both, model=model),
    "resamples": lambda model, both: resample_fits(*both, model=model, fits=2),
}
FOR_FIT = ({"controls": 20}, {"permutations": 99}, {"fdr": 0.1}, {"resamples": 20}, {"intervals": "split"})


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"cluster": "donor", "effective_samples": 50.0}, "errors are those between 'donor'"),
        ({"whiten": "ar", "covariance": "winsorised"}, "covariance='winsorised' would cut off"),
    ],
)
@pytest.mark.parametrize("fitted", OF_TABLES.values(), ids=OF_TABLES)
def test_what_fit_refuses_every_fit_refuses(fitted, options, said):
    rng = np.random.default_rng(0)
    both = [pd.DataFrame(rng.standard_normal((80, 3)), columns=list("xyz")) for _ in range(2)]
    both = [frame.assign(donor=[f"d{k % 8}" for k in range(80)]) for frame in both]
    chosen = both if "cluster" in options else [frame[list("xyz")] for frame in both]
    with pytest.raises(InputError, match=said):
        fitted(dd.DifferenceDAG(**options), chosen)


@pytest.mark.parametrize("options", FOR_FIT, ids=str)
@pytest.mark.parametrize("way", ["path", "resamples"])
def test_what_a_result_is_examined_with_is_no_part_of_other_fits(way, options):
    both = np.random.default_rng(0).standard_normal((2, 50, 3))
    with pytest.raises(InputError, match=f"{next(iter(options))} is for fit, and not used here"):
        OF_TABLES[way](dd.DifferenceDAG(**options), both)


def test_tables_that_are_read_in_pieces_cannot_have_their_gaps_filled(files):
    with pytest.raises(InputError, match="needs all rows at once"):
        dd.Moments.from_csv(files[0], columns=NAMES, missing="em")


def test_a_difference_of_means_counts_for_the_rows_that_it_is_worth():
    """Its t value, as if all rows told of it, is that of means which fewer rows tell of."""
    scatter = np.eye(2)
    one = dd.Moments(("x", "y"), 90, np.array([1.0, 2.0]), scatter, 30.0)
    two = dd.Moments(("x", "y"), 60, np.array([0.0, 4.0]), scatter, 50.0)
    seen = mean_difference(one, two) / np.sqrt(1 / 90 + 1 / 60)
    assert seen == pytest.approx(np.array([1.0, -2.0]) / np.sqrt(1 / 30 + 1 / 50))
    plain = dd.Moments(("x", "y"), 60, np.array([0.0, 4.0]), scatter)
    assert mean_difference(plain, plain) == pytest.approx(np.zeros(2))
    assert mean_difference(dd.Moments(("x", "y"), 60, np.zeros(2), scatter, 0.0), two) is None


def test_one_large_donor_is_no_evidence():
    """Of each four donors one has ten times the cells of the others, and effects differ by donor."""
    for seed in range(6):
        rng = np.random.default_rng([seed, 41])
        tables = []
        for first in (0, 4):
            parts = []
            for donor, cells in enumerate((500, 50, 50, 50), start=first):
                x = rng.standard_normal(cells)
                y = (0.5 + 0.2 * rng.standard_normal()) * x + rng.standard_normal(cells)
                z = (0.5 + 0.2 * rng.standard_normal()) * y + rng.standard_normal(cells)
                parts.append(pd.DataFrame({"x": x, "y": y, "z": z}).assign(donor=f"d{donor}"))
            tables.append(pd.concat(parts, ignore_index=True))
        assert not claimed(fit(*tables, cluster="donor"))


def test_a_column_that_is_mostly_missing_counts_by_what_was_observed():
    """Where one column has a tenth of its values, errors of its effects are those of a tenth of the rows."""
    rng = np.random.default_rng(42)
    tables = []
    for slope in (0.0, 2.0):
        x = rng.standard_normal((1000, 4))
        y = slope * x[:, 0] + rng.standard_normal(1000)
        y[rng.random(1000) < 0.9] = np.nan
        tables.append(pd.DataFrame({**{f"x{k}": x[:, k] for k in range(4)}, "y": y}))
    (edge,) = fit(*tables, missing="em", order=["x0", "x1", "x2", "x3", "y"]).edge_list
    assert (edge.source, edge.target) == ("x0", "y")
    assert edge.stderr == pytest.approx(np.sqrt(2 / 100), rel=0.35)


@pytest.mark.parametrize("covariates", [0, 40])
def test_errors_know_what_covariates_cost(covariates):
    """Mean stated error against the spread of the estimates, with 100 rows in each condition."""
    deltas, stated = [], []
    for seed in range(60):
        rng = np.random.default_rng([seed, 43])
        tables = []
        for slope in (0.2, 1.6):
            x = rng.standard_normal(100)
            z = {f"z{k}": rng.standard_normal(100) for k in range(covariates)}
            tables.append(pd.DataFrame({"x": x, "y": slope * x + rng.standard_normal(100), **z}))
        named = [f"z{k}" for k in range(covariates)] or None
        for edge in fit(*tables, adjust=named, order=["x", "y"]).edge_list:
            deltas.append(edge.delta)
            stated.append(edge.stderr)
    assert len(deltas) >= 58
    assert np.mean(stated) == pytest.approx(np.std(deltas), rel=0.25)
