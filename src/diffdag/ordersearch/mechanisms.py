"""Which gains, noise variances and intercepts a result reports, along the order that the search found.

The search lets a variance differ, or an intercept, for little, because edges would be wrong otherwise.
Reported is one whose test in the regression along the order, taken for a likelihood ratio, passes
``a + b sqrt(p)``: where nothing changed, a search over orders finds places in which the chance of many
variables comes together in one. An intercept is compared where all predecessors have their common mean; where
effects changed too, it must have changed, in the same direction, where they have the mean of either condition
(Oaxaca and Blinder's decompositions, 1973), and the least certain p-value counts.
P-values are those of one regression; they do not know of the search.

The constants were chosen in docs/dev/constants.md.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from typing import TYPE_CHECKING

from scipy.special import chdtrc

from diffdag.model.regression import JointRegression
from diffdag.results.records import GainChange, MeanChange, NoiseChange

if TYPE_CHECKING:
    from diffdag.ordersearch.fit import OrderFit, Structure

# What a changed variance, and a changed intercept, have to gain to be reported.
NOISE_A, NOISE_B = 2.0, 2.4
MEAN_A, MEAN_B = 2.0, 2.1


def level(gain: float) -> float:
    """The level at which a likelihood ratio gains so much."""
    return float(chdtrc(1, 2 * gain))


def changed_gains(structure: Structure, regressions: Mapping[int, JointRegression]) -> Iterator[GainChange]:
    """Variables all effects on which are multiplied by a factor, of those that were regressed."""
    for i in sorted(structure.gains & regressions.keys()):
        fit = regressions[i]
        if fit.gain is not None:
            yield GainChange(structure.names[i], fit.gain.value, fit.gain.stderr, fit.gain_pvalue)


def changed_noise(structure: Structure, regressions: Mapping[int, JointRegression]) -> Iterator[NoiseChange]:
    """Variables whose noise variance changed, of those that were regressed."""
    limit = level(structure.hurdle(NOISE_A, NOISE_B))
    for i in sorted(structure.separate & regressions.keys()):
        fit = regressions[i]
        one, two = fit.variance_first, fit.variance_second
        pvalue = fit.variance_pvalue
        if pvalue <= limit:
            yield NoiseChange(structure.names[i], one, two, one / two, pvalue)


def changed_means(fit: OrderFit, among: Collection[int] | None = None) -> Iterator[MeanChange]:
    """Variables whose intercept changed, of some or all; if it was free in the search, any may have."""
    structure, first, second = fit.structure, fit.first, fit.second
    comparable = 0.0 not in (first.mean_rows, second.mean_rows)
    if not (comparable if fit.units is None else fit.units.nested.compared):
        return
    limit = level(structure.hurdle(MEAN_A, MEAN_B))
    every = fit.problem.is_free or fit.units is not None  # units know better than rows
    for i in range(len(structure.names)) if every else sorted(structure.shifted):
        if among is not None and i not in among:
            continue
        known = fit.levels(i)
        one, two = known.shifts
        pvalue = max(known.shift.pvalue, one.pvalue, two.pvalue)
        if one.value * two.value > 0 and pvalue <= limit:
            means = float(first.mean[i]), float(second.mean[i])
            yield MeanChange(structure.names[i], *means, known.shift.value, known.shift.stderr, pvalue)
