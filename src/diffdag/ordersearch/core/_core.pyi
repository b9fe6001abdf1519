"""Types of the compiled core; see module.cpp."""

from collections.abc import Callable

from diffdag._base.arrays import BoolArray, FloatArray, IntArray

# First and pooled scatter, rows, penalties and limits of each pair, whether variances are equal, and whether
# the last variable is a constant.
Pairs = tuple[FloatArray, FloatArray, FloatArray, FloatArray, FloatArray, bool, bool]
Barred = tuple[int, int] | None  # effect and cause whose coefficient must not change
Report = Callable[[float], object] | None

def walk(
    pairs: Pairs,
    before: BoolArray,
    unit: float,
    order: IntArray,
    steps: tuple[int, int],
    sweeps: int,
    careful: int,
    thorough: bool,
    window: int,
    grain: float,
    far: float,
    seed: int,
    restless: BoolArray,
    barred: Barred,
    report: Report,
) -> None: ...
def read(
    pairs: Pairs,
    order: IntArray,
    careful: bool,
    barred: Barred,
    costs: FloatArray,
    changed: BoolArray,
    separate: BoolArray,
) -> float: ...
def weigh(pairs: Pairs, order: IntArray, edges: IntArray, rises: FloatArray) -> None: ...
def tabulate(pairs: Pairs, costs: FloatArray, changes: IntArray, report: Report) -> None: ...
def best_order(costs: FloatArray, before: BoolArray, order: IntArray, scores: FloatArray) -> float: ...
