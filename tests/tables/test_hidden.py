"""Hidden causes of many variables: how many are found, and what is left without them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import diffdag as dd
from diffdag.__main__ import run
from diffdag.tables.align import align_tables
from diffdag.tables.hidden import (
    NEAR,
    _neighbours,
    _power,
    _sparse_precision,
    _whitened,
    pervasive,
    without_hidden,
)


def rows_of(seed: int, factors: int, p: int = 60, n: int = 250) -> tuple[list[np.ndarray], list[np.ndarray]]:
    """Rows of one model with hidden causes whose variances differ between conditions, and without."""
    rng = np.random.default_rng(seed)
    model = dd.simulate_pair(p, neighbours=2, changes=0, weights=(0.5, 1.0), rng=rng).first
    loadings = rng.uniform(0.5, 1.0, (p, factors)) * (rng.random((p, factors)) < 0.5)
    total = np.linalg.inv(np.eye(p) - model.weights).T
    noise = [rng.standard_normal((n, p)) for _ in range(2)]
    scores = [rng.standard_normal((n, factors)) * scale for scale in (1.0, 1.6)]
    mixed = [(own + f @ loadings.T) @ total for own, f in zip(noise, scores, strict=True)]
    return mixed, [own @ total for own in noise]


@pytest.mark.parametrize("seed", [1, 2])
@pytest.mark.parametrize("factors", [0, 2])
def test_as_many_are_found_as_there_are(seed: int, factors: int) -> None:
    mixed, _ = rows_of(seed, factors)
    assert without_hidden(mixed[0], mixed[1], None).count == factors


def test_what_is_left_is_what_there_was_without_them() -> None:
    mixed, clean = rows_of(3, 2)
    left = without_hidden(mixed[0], mixed[1], 2).rows
    for own, true, before in zip(left, clean, mixed, strict=True):
        now = [np.corrcoef(own[:, k], true[:, k])[0, 1] for k in range(own.shape[1])]
        then = [np.corrcoef(before[:, k], true[:, k])[0, 1] for k in range(own.shape[1])]
        assert np.mean(now) > 0.95 > np.mean(then) + 0.1
        assert np.linalg.matrix_rank(own - own.mean(axis=0)) == own.shape[1]


def test_nothing_is_touched_where_none_is_found() -> None:
    _, clean = rows_of(1, 2)
    plain, asked = align_tables(*clean), align_tables(*clean, adjust="hidden")
    assert np.array_equal(plain.first, asked.first)
    assert asked.design is None
    assert "no hidden cause" in asked.notes[-1]


def test_degrees_of_freedom_and_covariates() -> None:
    mixed, _ = rows_of(1, 2)
    rng = np.random.default_rng(0)
    ages = [rng.normal(50, 10, len(own)) for own in mixed]
    frames = [
        pd.DataFrame(own + np.outer(age, np.ones(60)) / 10).rename(columns=lambda k: f"x{k}").assign(age=age)
        for own, age in zip(mixed, ages, strict=True)
    ]
    tables = align_tables(*frames, adjust=["age", "hidden"])
    assert "age" not in tables.names
    taken = tables.adjusted.taken
    assert taken is not None
    assert taken.lost == (3, 3)
    assert tables.design is not None
    assert tables.design.said == {"adjust": ["age"], "hidden_causes": 2}
    assert all(0 < worth <= 250 for worth in taken.mean_rows)


def test_what_is_refused() -> None:
    mixed, _ = rows_of(1, 2)
    with pytest.raises(dd.InputError, match="at least 15"):
        align_tables(mixed[0][:, :8], mixed[1][:, :8], adjust="hidden")
    with pytest.raises(dd.InputError, match="at most 12"):
        align_tables(*mixed, adjust=13)
    with pytest.raises(dd.InputError, match="adjust"):
        align_tables(*mixed, adjust=0)
    frames = [pd.DataFrame(own).rename(columns=lambda k: f"x{k}").assign(hidden=1.0) for own in mixed]
    with pytest.raises(dd.InputError, match="rename the column"):
        align_tables(*frames, adjust="hidden")
    with pytest.raises(dd.InputError, match="missing"):
        align_tables(*mixed, adjust="hidden", missing="em")
    moments = [dd.Moments.from_array(own) for own in mixed]
    with pytest.raises(dd.InputError, match="rows"):
        dd.DifferenceDAG(adjust="hidden").fit_moments(*moments)


def changed_rows(seed: int, *, change: bool) -> tuple[list[np.ndarray], tuple[str, str]]:
    """Rows of 20 variables with two hidden causes whose variances change, and one effect, which may vanish."""
    rng, p, n = np.random.default_rng(seed), 20, 250
    model = dd.simulate_pair(p, neighbours=2, changes=0, weights=(0.7, 1.0), rng=rng).first
    loadings = rng.uniform(0.5, 1.0, (p, 2)) * (rng.random((p, 2)) < 0.7)
    i, j = np.argwhere(model.weights != 0)[0].tolist()
    rows = []
    for scale, vanish in ((1.0, False), (1.6, change)):
        weights = np.array(model.weights)
        weights[i, j] *= not vanish
        noise = rng.standard_normal((n, p)) + rng.standard_normal((n, 2)) * scale @ loadings.T
        rows.append(noise @ np.linalg.inv(np.eye(p) - weights).T)
    return rows, (model.names[j], model.names[i])


@pytest.mark.parametrize("seed", [1, 3])
def test_resamples_and_permutations_see_rows_without_hidden_causes(seed: int) -> None:
    how: dict[str, Any] = {"resamples": 20, "permutations": 99, "rng": 0}
    rows, _ = changed_rows(seed, change=False)
    left_in, taken = (dd.DifferenceDAG(adjust=adjust, **how).fit(*rows).result_ for adjust in (None, 2))
    assert left_in.global_test is not None
    assert taken.global_test is not None
    assert left_in.global_test.pvalue <= 0.02
    assert taken.global_test.pvalue > 0.05
    assert not taken.edge_list

    rows, edge = changed_rows(seed, change=True)
    found = dd.DifferenceDAG(adjust=2, **how).fit(*rows).result_
    assert [(own.source, own.target) for own in found.edge_list] == [edge]
    assert found.edge_list[0].confidence is not None
    assert found.edge_list[0].confidence > 0.7
    assert found.global_test is not None
    assert found.global_test.pvalue <= 0.02
    assert found.settings["hidden_causes"] == 2


def test_the_same_resamples_whether_or_not_the_number_is_told() -> None:
    mixed, _ = rows_of(1, 2, p=40)
    how: dict[str, Any] = {"resamples": 20, "permutations": 19, "rng": 0}
    asked, told = (dd.DifferenceDAG(adjust=adjust, **how).fit(*mixed).result_ for adjust in ("hidden", 2))
    assert asked.settings["hidden_causes"] == told.settings["hidden_causes"] == 2
    assert asked.edges.equals(told.edges)
    assert asked.nodes.equals(told.nodes)
    assert asked.global_test == told.global_test


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        ("hidden", {"hidden_causes": 2}),
        ("3", {"hidden_causes": 3}),
        ("age,hidden", {"adjust": ["age"], "hidden_causes": 2}),
    ],
)
def test_the_command_line_takes_them_out(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], asked: str, said: dict[str, object]
) -> None:
    mixed, _ = rows_of(1, 2, p=40)
    rng, files = np.random.default_rng(0), []
    for name, own in zip(("one", "two"), mixed, strict=True):
        frame = pd.DataFrame(own).rename(columns=lambda k: f"x{k}").assign(age=rng.normal(50, 10, len(own)))
        files.append(str(tmp_path / f"{name}.csv"))
        frame.to_csv(files[-1], index=False)
    drop = () if "age" in asked else ("--drop", "age")
    assert run(["fit", *files, "--adjust", asked, *drop, "--json"]) == 0
    answer = json.loads(capsys.readouterr().out)
    assert {key: answer["settings"].get(key) for key in said} == said
    assert len(answer["variables"]) == 40
    assert any("taken out" in note and "hidden cause" in note for note in answer["notes"])


@pytest.mark.parametrize(("asked", "message"), [("0", "adjust"), ("9", "at most 8")])
def test_the_command_line_says_what_it_cannot_do(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], asked: str, message: str
) -> None:
    mixed, _ = rows_of(1, 2, p=40)
    files = [str(tmp_path / f"{name}.csv") for name in ("one", "two")]
    for file, own in zip(files, mixed, strict=True):
        pd.DataFrame(own).rename(columns=lambda k: f"x{k}").to_csv(file, index=False)
    assert run(["fit", *files, "--adjust", asked]) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert message in captured.err
    assert "Traceback" not in captured.err


def t_values(rows: Any, target: int, about: list[int], more: Any = None) -> Any:
    """Of a regression without intercept, by the textbook; `degrees` of freedom are those of the rows."""
    design = rows[:, about] if more is None else np.column_stack([rows[:, about], more])
    inverse = np.linalg.inv(design.T @ design)
    beta = inverse @ design.T @ rows[:, target]
    left = rows[:, target] - design @ beta
    return beta / np.sqrt(left @ left / (len(rows) - 2 - design.shape[1]) * np.diag(inverse))


def banded(n: int, p: int, seed: int) -> Any:
    rows = np.random.default_rng(seed).standard_normal((n, p))
    for k in range(2, p):
        rows[:, k] += 0.6 * rows[:, k - 1] - 0.4 * rows[:, k - 2]
    rows -= rows.mean(axis=0)
    return rows / np.sqrt((rows**2).sum(axis=0) / (n - 2))


@pytest.mark.parametrize("target", [2, 3, 8])
def test_neighbours_are_those_with_the_largest_t_value_one_by_one(target: int) -> None:
    rows = banded(120, 9, 1)
    correlations, chosen = rows.T @ rows / 118, []
    for _ in range(8):
        rest = [k for k in range(9) if k not in (target, *chosen)]
        values = [abs(t_values(rows, target, [*chosen, k])[-1]) for k in rest]
        if max(values) < NEAR:
            break
        chosen.append(rest[int(np.argmax(values))])
    assert 0 < len(chosen) < 8
    assert _neighbours(correlations, target, 120, 15) == chosen
    assert _neighbours(correlations, target, 120, 1) == chosen[:1]
    assert len(_neighbours(correlations, target, 6, 15)) <= 1  # as many as rows allow
    assert _neighbours(correlations, target, 5, 15) == []


def test_inverses_are_those_of_regressions_on_neighbours() -> None:
    rows = banded(300, 8, 2) * np.arange(1.0, 9.0)
    found = _sparse_precision(rows + 5.0)
    rows = rows - rows.mean(axis=0)
    correlations = np.corrcoef(rows, rowvar=False)
    expected = np.zeros((8, 8))
    for i in range(8):
        near = _neighbours(correlations, i, 300, 10)
        beta, (rss,), *_ = np.linalg.lstsq(rows[:, near], rows[:, i], rcond=None)
        expected[i, i] = 300 / rss
        expected[i, near] = -beta * 300 / rss
    np.testing.assert_allclose(found, (expected + expected.T) / 2, rtol=1e-8, atol=1e-10)
    assert (expected == 0).any()


def test_powers_and_whitened_scores() -> None:
    rng = np.random.default_rng(3)
    root = rng.standard_normal((3, 3))
    matrix, scores = root @ root.T, rng.standard_normal((50, 3)) @ root + 4.0
    np.testing.assert_allclose(_power(matrix, 1.0), matrix)
    np.testing.assert_allclose(_power(matrix, 0.5) @ _power(matrix, 0.5), matrix)
    np.testing.assert_allclose(_power(matrix, -0.5) @ matrix @ _power(matrix, -0.5), np.eye(3), atol=1e-9)
    turned = _whitened(scores, matrix)
    np.testing.assert_allclose(turned.mean(axis=0), 0, atol=1e-12)
    np.testing.assert_allclose(np.cov(turned, rowvar=False), matrix)


def test_what_tells_of_many_is_pervasive() -> None:
    """Against the t value of each score, without a variable and its neighbours, given these and the others."""
    rng = np.random.default_rng(4)
    rows = banded(300, 40, 5) + rng.standard_normal((300, 1)) @ np.where(np.arange(40) < 30, 0.8, 0.0)[None]
    rows -= rows.mean(axis=0)
    rows /= np.sqrt((rows**2).sum(axis=0) / 298)
    axes = np.linalg.svd(rows, full_matrices=False)[2]
    told = np.zeros(4)
    for i in range(40):
        near = _neighbours(rows.T @ rows / 298, i, 300, 15)
        rest = [k for k in range(40) if k not in (i, *near)]
        told += np.abs(t_values(rows, i, near, rows[:, rest] @ axes[:4, rest].T)[len(near) :]) > 3.0
    assert told[0] > 0.19 * 40 > told[1:].max()
    assert pervasive(rows, axes) == [0]


def test_donors_are_kept_where_hidden_causes_are_refused():
    """To leave out what rows are nested in would take them for independent."""
    both = np.random.default_rng(0).standard_normal((2, 60, 4))
    for name, value, also in (("cluster", "donor", ""), ("whiten", "ar", ", or leave whiten out")):
        with pytest.raises(dd.InputError, match=f"leave 'hidden' out of adjust{also}$"):
            align_tables(*both, adjust="hidden", **{name: value})
