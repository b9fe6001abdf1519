"""Studies drawn at random, changes of them that must not matter, and what "the same answer" means."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import pytest
from hypothesis import Phase, settings
from hypothesis import strategies as st

from diffdag import LinearSEM, Moments, simulate_pair
from diffdag.model.simulate import SEMPair
from diffdag.result import DifferenceResult

# For a long run: so many times the problems, drawn anew each time.
TIMES = int(os.environ.get("METAMORPHIC_TIMES", "1"))
MIRRORED = {"added": "removed", "strengthened": "weakened", "reversed-sign": "reversed-sign", None: None}
MIRRORED |= {after: before for before, after in MIRRORED.items()}


def problems(count: int) -> settings:
    """How many problems a property is tried on."""
    return settings(
        max_examples=count * TIMES,
        derandomize=TIMES == 1,
        database=None,
        phases=[Phase.generate],  # a smaller seed is no simpler
    )


@dataclass(frozen=True, eq=False)
class Study:
    """Two tables of one set of variables, the models behind them, and random numbers to change them with."""

    seed: int
    pair: SEMPair
    first: np.ndarray
    second: np.ndarray
    names: tuple[str, ...]
    rng: np.random.Generator

    def __repr__(self) -> str:
        return f"<study {self.seed}: {self.p} variables>"

    @property
    def p(self) -> int:
        return len(self.names)

    def moments(self) -> tuple[Moments, Moments]:
        return Moments.from_array(self.first, self.names), Moments.from_array(self.second, self.names)

    def swapped(self) -> Study:
        return replace(
            self, first=self.second, second=self.first, pair=SEMPair(self.pair.second, self.pair.first)
        )

    def select(self, columns: Sequence[int]) -> Study:
        """Some columns, or all in another order; the models are not changed."""
        names = tuple(self.names[k] for k in columns)
        return replace(self, first=self.first[:, columns], second=self.second[:, columns], names=names)

    def in_units(self, factors: np.ndarray, shift: np.ndarray | float = 0.0) -> Study:
        """Every column times its factor plus its shift, alike in both tables and in the models."""
        pair = SEMPair(*(in_units(sem, factors) for sem in (self.pair.first, self.pair.second)))
        return replace(
            self, first=self.first * factors + shift, second=self.second * factors + shift, pair=pair
        )

    def factors(self) -> np.ndarray:
        """Units from 1e-3 to 1e3, some of them turned round."""
        return 10 ** self.rng.uniform(-3, 3, self.p) * self.rng.choice([-1.0, 1.0], self.p)


def in_units(sem: LinearSEM, factors: np.ndarray) -> LinearSEM:
    return LinearSEM(sem.weights * np.outer(factors, 1 / factors), sem.noise_variances * factors**2, sem.names)


def reordered(sem: LinearSEM, columns: Sequence[int]) -> LinearSEM:
    names = [sem.names[k] for k in columns]
    return LinearSEM(sem.weights[np.ix_(columns, columns)], sem.noise_variances[list(columns)], names)


def marginal(sem: LinearSEM, columns: Sequence[int]) -> LinearSEM:
    """A model of some of the variables, with their covariance, along the causal order."""
    kept = [k for k in sem.order if k in columns]
    root = np.linalg.cholesky(sem.covariance()[np.ix_(kept, kept)])
    weights = np.eye(len(kept)) - np.diag(np.diag(root)) @ np.linalg.inv(root)
    weights[np.triu_indices(len(kept))] = 0.0
    along = LinearSEM(weights, np.diag(root) ** 2, [sem.names[k] for k in kept])
    return reordered(along, [kept.index(k) for k in columns])


def exact_pair(study: Study) -> tuple[LinearSEM, LinearSEM]:
    return study.pair.first, study.pair.second


def study_of(seed: int, most: int = 6) -> Study:
    """Sparse and dense models, none to three changes, shared or changed noise, means that differ or not."""
    rng = np.random.default_rng(seed)
    p = int(rng.integers(2, most + 1))
    pair = simulate_pair(
        p,
        neighbours=min(p - 1.0, rng.choice([0.0, 1.0, 2.0, 4.0])),
        changes=int(rng.integers(0, min(3, p * (p - 1) // 2) + 1)),
        variances=(1.0,) if rng.random() < 0.5 else (0.5, 1.0, 2.0),
        variances_drawn="shared" if rng.random() < 0.5 else "per-condition",
        rng=rng,
    )
    first, second = (sem.sample(int(rng.integers(40, 2000)), rng) for sem in (pair.first, pair.second))
    if rng.random() < 0.5:
        second = second + rng.normal(size=p) * (rng.random(p) < 0.3)
    return Study(seed, pair, first, second, pair.first.names, rng)


def studies(most: int = 6) -> st.SearchStrategy[Study]:
    """Any study of up to so many variables; its seed says which."""
    return st.integers(900_000, 999_999).map(lambda seed: study_of(seed, most))


def directed(result: DifferenceResult) -> dict:
    return {(edge.source, edge.target): edge for edge in result.edge_list if edge.directed}


def undirected(result: DifferenceResult) -> set:
    return {frozenset((edge.source, edge.target)) for edge in result.edge_list if not edge.directed}


def places(result: DifferenceResult) -> tuple:
    """Who takes no part, who has no place, and the layers: names, in no order within a layer."""
    return set(result.invariant), set(result.unresolved), [set(layer) for layer in result.order]


def close(value: float | None, expected: float | None, size: float = 0.0, tolerance: float = 1e-6) -> bool:
    """Whether two numbers agree, relative to the larger of the one expected and a size that matters."""
    if value is None or expected is None:
        return value is expected
    return value == pytest.approx(expected, rel=tolerance, abs=tolerance * abs(size))


def assert_same(
    result: DifferenceResult,
    expected: DifferenceResult,
    *,
    units: dict[str, float] | None = None,
    mirrored: bool = False,
    tolerance: float = 1e-6,
) -> None:
    """The same answer, by name: up to units of the variables, or with the sides of the tables turned."""
    unit = units or dict.fromkeys(expected.variables, 1.0)
    sign = -1.0 if mirrored else 1.0
    assert places(result) == places(expected)
    assert undirected(result) == undirected(expected)
    assert directed(result).keys() == directed(expected).keys()
    for (source, target), edge in directed(expected).items():
        _assert_edge(directed(result)[source, target], edge, unit[target] / unit[source], mirrored, tolerance)
    _assert_mechanisms(result, expected, unit, mirrored, tolerance)
    names = list(expected.variables)
    turned = np.array([unit[name] for name in names])
    delta = result.delta_precision.loc[names, names].to_numpy() * np.outer(turned, turned) * sign
    wanted = expected.delta_precision.to_numpy()
    size = np.abs(wanted).max(initial=1e-9)
    np.testing.assert_allclose(delta, wanted, rtol=0, atol=max(tolerance, 1e-6) * size)
    checks = [{check.name: check.passed for check in answer.checks} for answer in (result, expected)]
    assert checks[0] == checks[1]


def _assert_edge(edge, expected, unit: float, mirrored: bool, tolerance: float) -> None:
    sides = ("weight_second", "weight_first") if mirrored else ("weight_first", "weight_second")
    sign = -1.0 if mirrored else 1.0
    assert edge.change == (MIRRORED[expected.change] if mirrored else expected.change)
    if expected.delta is None:
        assert edge.delta is None
        return
    size = (expected.stderr or abs(expected.delta)) * unit
    assert close(edge.weight_first, getattr(expected, sides[0]) * unit, size, tolerance)
    assert close(edge.weight_second, getattr(expected, sides[1]) * unit, size, tolerance)
    assert close(edge.delta, sign * expected.delta * unit, size, tolerance)
    assert close(edge.stderr, expected.stderr * abs(unit), 0.0, tolerance)
    assert edge.confidence == expected.confidence


def _assert_mechanisms(result, expected, unit: dict[str, float], mirrored: bool, tolerance: float) -> None:
    """Changed noise variances and intercepts."""
    sides = ("second", "first") if mirrored else ("first", "second")
    found = {change.variable: change for change in result.noise_list}
    assert found.keys() == {change.variable for change in expected.noise_list}
    for change in expected.noise_list:
        other = found[change.variable]
        for side, origin in zip(("first", "second"), sides, strict=True):
            wanted = getattr(change, f"variance_{origin}") * unit[change.variable] ** 2
            assert close(getattr(other, f"variance_{side}"), wanted, 0.0, tolerance)
        assert close(other.ratio, 1 / change.ratio if mirrored else change.ratio, 0.0, tolerance)
        assert close(other.pvalue, change.pvalue, 1.0, tolerance)
    moved = {change.variable: change for change in result.mean_list}
    assert moved.keys() == {change.variable for change in expected.mean_list}
    for change in expected.mean_list:
        other = moved[change.variable]
        wanted = change.delta * unit[change.variable] * (-1 if mirrored else 1)
        assert close(other.delta, wanted, change.stderr * unit[change.variable], tolerance)
        assert close(other.stderr, change.stderr * abs(unit[change.variable]), 0.0, tolerance)
        assert close(other.pvalue, change.pvalue, 1.0, tolerance)
