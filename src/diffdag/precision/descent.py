"""A lasso-type quadratic programme of a few hundred to a few thousand unknowns.

    minimise  1/2 x'Gx - b'x + lambda |x|_1

by sweeps of coordinate descent, which find the support, and Newton steps on it, which find the values.
"""

from __future__ import annotations

import numpy as np
from scipy.linalg import LinAlgError, cho_factor, cho_solve

from diffdag._base.arrays import FloatArray
from diffdag.precision import _descent

SWEEPS = 10
PATIENCE = 5  # times so many sweeps before a Newton step is taken even though the support still changes
HALVINGS = 12


def minimise(
    gram: FloatArray, target: FloatArray, values: FloatArray, penalty: float, tolerance: float, max_sweeps: int
) -> tuple[FloatArray, bool]:
    """The minimum, from `values` on, and whether the optimality conditions hold to `tolerance`."""
    gram, values = np.ascontiguousarray(gram), values.copy()
    gradient = gram @ values - target
    for turn in range(1, max_sweeps // SWEEPS + 1):
        before = values != 0
        _descent.sweep(gram, gradient, values, penalty, SWEEPS)
        if _kkt(gradient, values, penalty) > tolerance:
            if turn % PATIENCE and ((values != 0) != before).any():
                continue  # the support is not found yet
            values = _newton(gram, target, values, penalty)
        gradient = gram @ values - target
        if _kkt(gradient, values, penalty) <= tolerance:
            return values, True
    return values, False


def _newton(gram: FloatArray, target: FloatArray, values: FloatArray, penalty: float) -> FloatArray:
    """A step towards the optimum for the present support and signs; what would change sign becomes zero."""
    active = np.flatnonzero(values)
    signs, before = np.sign(values[active]), values[active]
    block = gram[np.ix_(active, active)]
    slope = target[active] - penalty * signs  # minus the gradient at zero, of the piece with these signs
    try:
        step = cho_solve(cho_factor(block), slope) - before
    except LinAlgError:
        return values
    result = values.copy()
    start = _value(block, slope, before)
    for halving in range(HALVINGS):
        after = before + 0.5**halving * step
        after[after * signs < 0] = 0.0
        if _value(block, slope, after) <= start:
            result[active] = after
            return result
    return values


def _value(block: FloatArray, slope: FloatArray, values: FloatArray) -> float:
    """The objective where the signs are those of the slope's piece."""
    return float(values @ (0.5 * (block @ values) - slope))


def _kkt(gradient: FloatArray, values: FloatArray, penalty: float) -> float:
    """Largest violation of the optimality conditions."""
    on, off = values != 0, values == 0
    inside = np.abs(gradient[on] + penalty * np.sign(values[on])).max(initial=0.0)
    return float((np.abs(gradient[off]) - penalty).max(initial=inside))
