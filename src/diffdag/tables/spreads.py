"""Columns that vary by too little or too much for double precision, alone or in one table against the other."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from diffdag._base.arrays import FloatArray
from diffdag._base.words import join_names, table_words
from diffdag.tables.problems import Problem, by_table, refuse

# Outside these bounds fourth powers of standard deviations, or their inverses, can overflow.
_LEAST_SPREAD, _MOST_SPREAD = 1e-60, 1e60
# From about a million on, sums over both tables keep too few digits of the one that varies less.
_MOST_RATIO = 1e5


def find_extreme(names: Sequence[str], spreads: Sequence[FloatArray], labels: Sequence[str]) -> list[Problem]:
    """Columns that vary by so little, or by so much, that their squares are of no use; constant ones aside."""
    odd: list[dict[str, float]] = []
    for spread in spreads:
        outside = (spread > 0) & ~((spread >= _LEAST_SPREAD) & (spread <= _MOST_SPREAD))
        odd.append({names[k]: float(spread[k]) for k in np.flatnonzero(outside).tolist()})
    size = odd[0] | odd[1]
    words = "values of {} vary by {:.0e} in {}, too far from 1"
    fix = "change the unit or look for wild values"
    return [
        Problem(words.format(join_names(found), size[found[0]], where), fix=fix)
        for found, where in by_table(odd, labels)
        if found
    ]


def check_spreads(
    names: Sequence[str], first: FloatArray, second: FloatArray, labels: tuple[str, str] = ("first", "second")
) -> None:
    """Refuse columns whose unit, or one wild value, leaves nothing to compare in double precision.

    `first` and `second` are their standard deviations in the two tables, none of them 0.
    """
    refuse(find_extreme(names, (first, second), labels))
    ratios = np.maximum(first / second, second / first)
    apart = np.flatnonzero(ratios > _MOST_RATIO)
    if apart.size:
        found, worst = [names[k] for k in apart.tolist()], int(ratios.argmax())
        where = table_words(labels[int(second[worst] > first[worst])])
        what = (
            f"the spread of {join_names(found)} differs between the tables by a factor of up to "
            f"{ratios[worst]:.0e}, more than can be compared"
        )
        fix = f"check the units and look for wild values in {where}"
        refuse([Problem(what, tuple(found), "" if len(found) > 1 else "it", fix)])
