"""Does noise depend on the level of a variable, and did levels move?

Then noise variances differ between the conditions though no mechanism does, and which of them differ decides
much about directions. Rows of one table in which its predecessors put a variable above its median, and below
it, differ in no mechanism: how the variance of what is left differs between them tells what the distance of the
two tables fakes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from diffdag._base.arrays import FloatArray
from diffdag.ordersearch.penalty import variance_penalty
from diffdag.results.records import Check

if TYPE_CHECKING:
    from diffdag.trust.checks.residual_view import Part, View
    from diffdag.trust.fits import Fit

LEVELS = "noise levels"
LIMIT = 0.25  # penalties of a changed variance, on average over variables
FARTHEST = 2.0  # distances of two halves up to which ratios of variances are extrapolated
TINY = 1e-12


def check_levels(view: View, fit: Fit) -> Check:
    """What moved levels gain as changes of variance, in penalties of one, on average over variables.

    Along the order of the fit, x = f + e with f what the predecessors explain. With L the log ratio of the
    variances of e in the upper and in the lower half by f, less one standard error (by fourth moments), d the
    distance of the means of f there and D that of the means of x in the two tables, less two standard errors, a
    moved level fakes a log ratio of L D / d between these. Its gain is ``n1 n2 / (n1 + n2) (L D / d)^2 / 4``,
    to second order.
    """
    first, second = (moments.select(list(view.names)) for moments in (fit.first, fit.second))
    n1, n2 = first.n, second.n
    errors = sum(np.diag(moments.scatter) / moments.n**2 for moments in (first, second))
    apart = np.maximum(np.abs(first.mean - second.mean) - 2 * np.sqrt(errors), 0)[1:]
    faked = []
    for part in view.parts:
        ratio, distance = by_level(part)
        far = apart / part.scale[1:] / np.maximum(distance, TINY)
        faked.append(float(np.mean((ratio * np.minimum(far, FARTHEST)) ** 2)) if len(ratio) else 0.0)
    gain = n1 * n2 / (n1 + n2) * sum(faked) / len(faked) / 4
    value = gain / variance_penalty(n1, n2, len(first.names), len(view.names))
    if value <= LIMIT:
        return Check(LEVELS, True, "moved levels do not make noise variances differ", value, LIMIT)
    says = (
        "noise is larger at some levels than at others, and levels moved: noise variances differ though no "
        "mechanism does, and directions are less sure; a logarithm or a square root, in both tables, may even "
        "out the noise"
    )
    return Check(LEVELS, False, says, value, LIMIT)


def by_level(part: Part) -> tuple[FloatArray, FloatArray]:
    """Log ratios of the variances of what is left of each variable but the first, above its median level and
    below it, less their errors; and the distance of these levels.
    """
    left = part.own[1:] * np.diag(part.root)[1:, None]
    level = part.values[1:] - left
    high = level > np.median(level, axis=1)[:, None]
    sizes = np.maximum([(~high).sum(axis=1), high.sum(axis=1)], 1)
    squares = np.square(left)
    low_sum, high_sum = ((squares * own).sum(axis=1) for own in (~high, high))
    log = np.log(np.maximum(high_sum / sizes[1], TINY) / np.maximum(low_sum / sizes[0], TINY))
    fourth = np.square(squares).mean(axis=1) / np.maximum(squares.mean(axis=1), TINY) ** 2
    error = np.sqrt(np.maximum(fourth - 1, 0) * (1 / sizes).sum(axis=0))
    distance = (level * high).sum(axis=1) / sizes[1] - (level * ~high).sum(axis=1) / sizes[0]
    return np.maximum(np.abs(log) - error, 0), distance
