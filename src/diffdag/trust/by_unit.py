"""Changed effects unit by unit, where rows are nested: does one donor carry a change, or do all?

The effect of j on i in unit u is that of its condition plus what its own rows add: one step of Newton's method,

    b_u = b + sum_{r in u} x_r e_r / sum_{r in u} x_r^2,

with e the residuals of i and x what the other predecessors of i leave of j, in the condition as a whole. Units
of a few rows have an effect, too, and all of them together, weighted, give that of the condition.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np

from diffdag._base.arrays import FloatArray
from diffdag._base.words import plural
from diffdag.model.nesting import unit_sums
from diffdag.ordersearch.fit import OrderFit
from diffdag.results.difference import as_text
from diffdag.results.records import UnitEffect
from diffdag.tables.design import Design
from diffdag.trust.options import PERMUTATIONS
from diffdag.trust.permutation import smallest_pvalue

MOST_EDGES = 100
LEVEL = 0.05


def effects_by_unit(fit: OrderFit) -> tuple[UnitEffect, ...]:
    """The changed effects in each unit; nothing where rows are not nested."""
    if fit.units is None or fit.rows is None:
        return ()
    edges = [edge for edge in fit.difference.edge_list if edge.directed and edge.weight_first is not None]
    names = {name: k for k, name in enumerate(fit.first.names)}
    found: list[UnitEffect] = []
    for edge in edges[:MOST_EDGES]:
        found += _effects(fit, names[edge.source], names[edge.target])
    return tuple(found)


def _effects(fit: OrderFit, source: int, target: int) -> Iterator[UnitEffect]:
    units, rows = fit.units, fit.rows
    if units is None or rows is None:
        return
    names, nested = fit.first.names, units.nested
    regression, before = fit.regression(target), fit.structure.predecessors(target)
    place = before.index(source)
    others = [k for k in before if k != source]
    for k, beta in enumerate((regression.first, regression.second)):
        table, members = rows[k] - rows[k].mean(axis=0), nested.members[k]
        own = _left(table[:, source], table[:, others])
        residuals = table[:, target] - table[:, before] @ beta
        sums = unit_sums(
            np.column_stack([own * residuals, own * own, residuals**2]), members, len(nested.units)
        )
        counts = np.bincount(members, minlength=len(nested.units))
        for u in np.flatnonzero(counts):
            cross, square, left = sums[u].tolist()
            known = square > 0 and counts[u] > 2
            yield UnitEffect(
                names[source],
                names[target],
                k + 1,
                as_text(nested.name),
                as_text(nested.units[u]),
                int(counts[u]),
                float(beta[place]) + cross / square if known else None,
                math.sqrt(left / (counts[u] - 2) / square) if known else None,
            )


def _left(x: FloatArray, others: FloatArray) -> FloatArray:
    """What other columns leave of one."""
    if not others.shape[1]:
        return x
    left: FloatArray = x - others @ np.linalg.lstsq(others, x, rcond=None)[0]
    return left


def unit_notes(design: Design | None, permutations: int, method: str = "order") -> Iterator[str]:
    """What so many units allow to conclude."""
    if design is None or design.members is None:
        return
    one, two = (len(np.unique(own)) for own in design.members)
    pairs = len(np.intersect1d(*design.members))
    how = f", {pairs} of them in both" if 0 < pairs < min(one, two) or (pairs and one != two) else ""
    what = f"the same {one} in both conditions" if pairs == one == two else f"{one} and {two}{how}"
    least = smallest_pvalue(design, permutations or PERMUTATIONS) or 0.0
    effects = (
        f"rows are pairs of the same '{design.cluster}' ({what})"
        if design.single
        else f"rows are nested in '{design.cluster}' ({what}): effects are those within them"
    )
    errors = "all errors are between them"
    if method == "paper":
        errors = "the paper's method takes what is left of their rows for independent"
    said = f"{effects}, and {errors}; permutations of them allow p-values down to {least:.2g}"
    if least > LEVEL:
        said += ", so that no test of all changes together can reach 5 %"
    yield said + _few(min(one, two))


def _few(units: int) -> str:
    """What is weak where units are few."""
    if units >= 10:
        return ""
    return (
        f"; {plural(units, 'unit')} in a condition tell little of intercepts, and only changes that nearly all "
        "of them share stand out"
    )
