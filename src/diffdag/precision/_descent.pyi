"""Types of the compiled coordinate descents; see descent.cpp."""

from diffdag._base.arrays import FloatArray

def sweep(gram: FloatArray, gradient: FloatArray, values: FloatArray, penalty: float, count: int) -> None: ...
def fused_lasso(
    grams: FloatArray,
    cross: FloatArray,
    sparsity: float,
    fusion: float,
    tolerance: float,
    sweeps: int,
    slopes: FloatArray,
) -> None: ...
def fused_directions(
    grams: FloatArray,
    share: FloatArray,
    slack: float,
    wide: float,
    tolerance: float,
    sweeps: int,
    widenings: int,
    directions: FloatArray,
) -> None: ...
