"""What is left of a memory in the residual of a variable: how much more its mean varies than rows alone say.

The mean of n rows of a series with autocorrelations ``rho_k`` has the variance of ``n / (1 + 2 sum_k rho_k)``
independent ones. The sum is estimated with Bartlett's weights (Newey and West 1987).
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from diffdag._base.arrays import FloatArray

REACH = 1.5  # lags, as a multiple of the square root of the rows of a table


def long_run_ratio(tables: Sequence[FloatArray], target: int, predecessors: Sequence[int]) -> float:
    """What the memory of a variable's residual multiplies the variance of its mean by, at least 1.

    >>> noise = np.random.default_rng(0).standard_normal((400, 1))
    >>> walk = np.convolve(noise[:, 0], np.ones(5))[:400, None]  # in theory 5
    >>> long_run_ratio((walk[:300], walk[300:]), 0, []) > 3 > 1.5 > long_run_ratio((noise, noise), 0, [])
    True
    """
    parts = [table - table.mean(axis=0) for table in tables]
    both = np.vstack(parts)
    slopes = np.linalg.lstsq(both[:, list(predecessors)], both[:, target], rcond=None)[0]
    power, sums = 0.0, 0.0
    for table in parts:
        left = table[:, target] - table[:, list(predecessors)] @ slopes
        left = left - left.mean()
        reach = min(int(REACH * np.sqrt(len(left))), len(left) // 4)
        power += float(left @ left)
        sums += sum(2 * (1 - k / (reach + 1)) * float(left[k:] @ left[:-k]) for k in range(1, reach + 1))
    return 1.0 if power <= 0 else max(1.0, 1 + sums / power)
