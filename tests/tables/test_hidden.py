"""Hidden causes of many variables: how many are found, and what is left without them."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

import diffdag as dd
from diffdag.tables.align import align_tables
from diffdag.tables.hidden import without_hidden


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
