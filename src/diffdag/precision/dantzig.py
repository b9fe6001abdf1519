"""The paper's linear programme, solved exactly by generating columns and rows.

    minimise |Delta|_1   subject to   max |Sigma1 Delta Sigma2 - (Sigma2 - Sigma1)| <= lambda        (P)
    maximise <b, Y> - lambda |Y|_1   subject to   max |Sigma1 Y Sigma2| <= 1                         (D)

with ``b = Sigma2 - Sigma1`` (equation 2 of the paper with the sign of the identity). The problem has
``p^2`` variables and constraints and its matrix is a Kronecker product, which is never formed: at the
optimum few entries of ``Delta`` and of ``Y`` are not zero. HiGHS solves (D) restricted to a few entries
``I`` of ``Y`` and a few constraints ``J``; its row duals are an optimal ``Delta`` on ``J``. All constraints
of (P) and (D) are then checked with two thin products each, the worst are added, and HiGHS goes on from its
last basis. Bounds on ``Y`` keep the restricted problem finite, and prices from running wild, while ``I``
and ``J`` grow (they act as a penalised slack in (P)); they are widened when they hold at the end. The
certificate is valid for the full problem: the violation of (P), and the gap between ``|Delta|_1`` and the
value of ``Y`` scaled until it is feasible for (D).

Where the change is weak, ``lambda`` lies within the sampling noise, and the optimum has hundreds to thousands
of entries. The simplex method needs steps for each of them, so there the restricted problems are solved by an
interior-point method (`interior.py`), loosely at first and in the end exactly; all else is the same.

With fewer rows than variables and a small penalty (P) has no solution, and (D) no bound: ``Y`` grows along a
ray with ``Sigma1 Y Sigma2 = 0`` and ``<b, Y> > lambda |Y|_1``, which proves it. Before HiGHS looks for such a
ray (its restricted problems become large and degenerate there), ``b`` itself without what lies in the ranges of
both matrices is tried, wherever many entries of ``b`` exceed the penalty.

Where one table is far wider spread than the other (a wild row is enough) the products of the covariances are
tiny, and HiGHS takes them for zero. So it sees them divided by a power of two close to their size, which
multiplies ``Delta`` and ``Y`` by as much; for tables that resemble each other it is one.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from diffdag._base.arrays import FloatArray, IndexArray
from diffdag.precision.dtrace import Start, descend
from diffdag.precision.interior import Programme, solve_exactly, solve_loosely
from diffdag.precision.problem import Entries, Solution, SparseProblem
from diffdag.precision.scan import Peaks, Scan, above, peaks

MAX_ROUNDS = 1_000
SMALL = 16  # up to so many variables a problem starts with all its entries
# The D-trace start need only be rough, and is better too large than too small.
START_FRACTION, START_TOLERANCE, START_ROUNDS, START_SWEEPS = 0.98, 0.05, 8, 10
CROWD = 0.05  # share of the entries of the target above the penalty; a choice of cost, not of answers
# Beyond so many entries at the start the interior-point method takes over: a choice of cost, not of answers.
DENSE, MOST_DENSE, DENSE_ROUNDS = 150, 10_000, 30
# Its first Delta solves the D-trace problem at this share of the penalty, roughly; it begins with the residuals
# that come near the penalty.
INSIDE, INSIDE_TOLERANCE, NEAR = 0.98, 0.03, 0.97
# Its first rounds reach these gaps, the last of them until the gap and the violation of the whole problem are
# small: duals from within their constraints tell better what is missing than those of a vertex.
LOOSE, READY = (3e-2, 3e-3), 0.1
CUT = 0.1  # violators smaller than this share of the largest wait
FIRST_BOUND, LAST_BOUND = 1e3, 1e9
BOUND_ROOM = 1.5  # room above the largest entry of the first Y
PATIENCE = 10  # rounds before a problem that has no solution is given up
DUAL_SIMPLEX, PRIMAL_SIMPLEX = 1, 4
NO_SCALING, EQUILIBRATE = 0, 2
# Nearly singular covariances make Delta and Y so large that rounding errors exceed any tolerance.
# The certificate allows for so many of them, up to a share of the penalty.
ROUNDING, MOST_ROUNDING = 4.0, 1e-4
# Each of these gives up on some ill-conditioned covariances, and which, rounding decides.
CAREFUL_WAYS: tuple[dict[str, int | float], ...] = (
    {"simplex_strategy": DUAL_SIMPLEX, "simplex_scale_strategy": EQUILIBRATE},
    {"simplex_strategy": PRIMAL_SIMPLEX, "simplex_scale_strategy": EQUILIBRATE},
    {"simplex_strategy": DUAL_SIMPLEX, "simplex_scale_strategy": NO_SCALING},
    {
        "simplex_strategy": DUAL_SIMPLEX,
        "simplex_scale_strategy": EQUILIBRATE,
        "primal_feasibility_tolerance": 1e-7,
        "dual_feasibility_tolerance": 1e-7,
    },
)
# Steps for each row and column, more than sound problems take: ill-conditioned ones can go on for ever.
STEPS, LEAST_STEPS = 8, 1_000
HIGHS_OPTIONS: dict[str, bool | int | float | str] = {
    "output_flag": False,
    "threads": 1,
    "presolve": "off",
    "simplex_scale_strategy": NO_SCALING,  # the covariances are standardised already
    "simplex_strategy": PRIMAL_SIMPLEX,  # the last basis stays feasible when variables are added
    "primal_feasibility_tolerance": 1e-9,
    "dual_feasibility_tolerance": 1e-9,
}


def solve_dantzig(problem: SparseProblem, tolerance: float = 1e-7) -> Solution:
    """Solve (P) and (D) to a relative gap and a violation of at most `tolerance`, or what rounding allows."""
    p = problem.p
    if problem.penalty_max <= problem.penalty:
        return Solution(csr_array((p, p)), 0.0, 0.0, 0.0, 0, True)
    if p > SMALL and _crowded(problem) and (least := problem.refute_by_target()):
        return Solution(csr_array((p, p)), 0.0, problem.penalty_max - problem.penalty, 1.0, 0, False, least)
    rough = None if p <= SMALL else _rough_start(problem)
    if rough and rough.delta.nnz > DENSE and (answer := _solve_dense(problem, rough, tolerance)):
        return answer
    master = _Master(problem)
    master.start(rough)
    least = 0.0
    for rounds in range(1, MAX_ROUNDS + 1):
        delta, dual = master.solve()
        if rounds == 1:
            master.tighten_bounds()
        residual = peaks(problem.residual_blocks(delta), p)
        price = peaks(problem.price_blocks(dual), p)
        solution = _certify(problem, delta, dual, residual, price, rounds, tolerance)
        if solution.converged:
            return solution
        if master.unbounded():
            least = max(least, problem.refute(dual))
        if (rounds > PATIENCE and least) or not master.grow(residual, price):
            break
    return replace(solution, least_penalty=least)


def _certify(
    problem: SparseProblem,
    delta: csr_array,
    dual: csr_array,
    residual: Peaks | Scan,
    price: Peaks | Scan,
    rounds: int,
    tolerance: float,
) -> Solution:
    """Violation of (P) and relative gap to (D), both over all entries."""
    primal = float(np.abs(delta.data).sum())
    entries = dual.tocoo()
    target = problem.target_at((entries.row.astype(np.intp), entries.col.astype(np.intp)))
    value = float(entries.data @ target) - problem.penalty * float(np.abs(entries.data).sum())
    value /= max(1.0, price.largest)
    violation = max(0.0, residual.largest - problem.penalty)
    gap = abs(primal - value) / max(1e-9, primal)
    # Residuals are sums of products with Delta, prices of products with Y.
    one, two = _variances(problem)
    rounding = ROUNDING * np.finfo(float).eps * float(one.max() * two.max())
    done = violation <= max(tolerance, min(MOST_ROUNDING * problem.penalty, rounding * primal))
    done &= gap <= max(tolerance, min(MOST_ROUNDING, rounding * float(np.abs(entries.data).sum())))
    return Solution(delta, primal, violation, gap, rounds, done)


def _rough_start(problem: SparseProblem) -> Start:
    """A rough D-trace solution, which is nearly feasible for (P), and tight on its support.

    Rougher still where it has more entries than the simplex method is meant for.
    """
    easier = problem.at_penalty(START_FRACTION * problem.penalty)
    tolerance = START_TOLERANCE * problem.penalty
    _, first = descend(easier, None, tolerance, 1, START_SWEEPS, START_ROUNDS)
    if first.delta.nnz > DENSE:
        return first
    return descend(easier, first, tolerance, START_ROUNDS - 1, START_SWEEPS, START_ROUNDS)[1]


def _solve_dense(problem: SparseProblem, rough: Start, tolerance: float) -> Solution | None:
    """Generate columns and rows by the interior-point method, which does not mind how many there are.

    None where no ``Delta`` within the constraints is found to begin with, or the end is not reached, or the
    restricted problem takes too much memory.
    """
    p, penalty = problem.p, problem.penalty
    inside, _ = descend(problem.at_penalty(INSIDE * penalty), rough, INSIDE_TOLERANCE * penalty)
    if inside.violation > 2 * INSIDE_TOLERANCE * penalty:
        return None
    solution, delta, dual = inside, inside.delta, csr_array((p, p))
    near = above(problem.residual_blocks(delta), NEAR * penalty, MOST_DENSE)
    columns = rows = np.union1d(_codes(near.entries, p), _codes(_entries(delta), p))
    for rounds in range(1, min(DENSE_ROUNDS, MAX_ROUNDS) + 1):
        if len(rows) * len(columns) > 2 * MOST_DENSE**2:
            return None
        across, down = np.divmod(rows, p), np.divmod(columns, p)
        programme = Programme(problem.products(across, down), problem.target_at(across), penalty)
        start = np.asarray(delta[down]).ravel(), np.asarray(dual[across]).ravel()
        loose = rounds <= len(LOOSE) or max(solution.gap, solution.violation / penalty) > READY
        answer = (
            solve_loosely(programme, *start, LOOSE[min(rounds, len(LOOSE)) - 1])
            if loose
            else solve_exactly(programme, *start)
        )
        delta, dual = (
            csr_array((values, entries), shape=(p, p))
            for values, entries in ((answer.primal, down), (answer.dual, across))
        )
        delta.eliminate_zeros()
        dual.eliminate_zeros()
        residual = above(problem.residual_blocks(delta), penalty * (1 + 1e-9), len(rows))
        price = above(problem.price_blocks(dual), 1 + 1e-9, len(columns) // 2)
        solution = _certify(problem, delta, dual, residual, price, rounds, tolerance)
        if solution.converged:
            return solution
        if loose:
            rows = rows[answer.tight]
        rows = np.union1d(rows, _codes(residual.entries, p))
        columns = np.union1d(columns, _codes(price.entries, p))
    return None


def _codes(entries: Entries, p: int) -> IndexArray:
    """One number for each entry."""
    return entries[0] * p + entries[1]


def _entries(matrix: csr_array) -> Entries:
    found = matrix.tocoo()
    return found.row.astype(np.intp), found.col.astype(np.intp)


class _Master:
    """The restricted dual problem, kept alive in HiGHS: a column for each signed entry of ``Y``."""

    def __init__(self, problem: SparseProblem) -> None:
        self.problem = problem
        empty = np.zeros(0, np.intp)
        self.variables: Entries = (empty, empty)
        self.signs: FloatArray = np.zeros(0)
        self.constraints: Entries = (empty, empty)
        self.bound = FIRST_BOUND
        self.unit = _unit(problem)
        import highspy  # noqa: PLC0415 - takes a moment to load

        self.highs = highspy.Highs()  # type: ignore[no-untyped-call]
        for option, value in HIGHS_OPTIONS.items():
            self.highs.setOptionValue(option, value)

    def start(self, rough: Start | None = None) -> None:
        """Begin with the support of a rough D-trace solution.

        A few variables need no such care: there it is quicker to begin with all entries.
        """
        p = self.problem.p
        if p <= SMALL:
            rows, columns = np.divmod(np.arange(p * p), p)
            self._add_constraints((rows, columns))
            self._add_variables((np.tile(rows, 2), np.tile(columns, 2)), np.repeat([1.0, -1.0], p * p))
            return
        rough = rough or _rough_start(self.problem)
        entries, signs = _entries(rough.delta), np.sign(rough.delta.tocoo().data)
        if len(signs) == 0:  # just below the penalty at which the answer is zero
            worst = peaks(self.problem.residual_blocks(csr_array((p, p))), p)
            row = np.array([np.abs(worst.values).argmax()])
            entries, signs = (row, worst.columns[row]), -np.sign(worst.values[row])
        self._add_constraints(entries)
        self._add_variables(entries, signs)

    def grow(self, residual: Peaks, price: Peaks) -> bool:
        """Add the worst violators of (P) as variables, of (D) as constraints; false if nothing is left."""
        most = max(20, len(self.constraints[0]) // 4)
        rows = worst_entries(residual, self.problem.penalty + 1e-10, most)
        signs = -np.sign(residual.values[rows[0]])
        columns = worst_entries(price, 1 + max(1e-8, 1e-11 * self.bound), most)
        # HiGHS may leave what it knows violated, where rounding allows no better: to add it again is no help.
        fresh = ~np.isin(self._code(rows, signs), self._code(self.variables, self.signs))
        rows, signs = (rows[0][fresh], rows[1][fresh]), signs[fresh]
        fresh = ~np.isin(self._code(columns), self._code(self.constraints))
        columns = columns[0][fresh], columns[1][fresh]
        if len(signs) == len(columns[0]) == 0:
            return self._relax_bounds()
        self._add_constraints(columns)
        self._add_variables(rows, signs)
        return True

    def _code(self, entries: Entries, signs: FloatArray | float = 0.0) -> IndexArray:
        """One number for each signed entry."""
        code: IndexArray = 2 * (entries[0] * self.problem.p + entries[1]) + (np.asarray(signs) > 0)
        return code

    def _coefficients(self, constraints: Entries, variables: Entries, signs: FloatArray) -> FloatArray:
        """``Sigma1[k, i] Sigma2[j, l]`` for constraints ``(k, l)`` and signed variables ``(i, j)``."""
        return self.problem.products(constraints, variables) * (signs / self.unit)

    def _add_constraints(self, new: Entries) -> None:
        """Rows ``-1 <= (Sigma1 Y Sigma2)[k, l] <= 1``."""
        m = len(new[0])
        block = self._coefficients(new, self.variables, self.signs)
        self.highs.addRows(m, -np.ones(m), np.ones(m), block.size, *_dense(block))
        self.constraints = _append(self.constraints, new)

    def _add_variables(self, new: Entries, signs: FloatArray) -> None:
        """Columns ``0 <= |Y[i, j]|`` of one sign, with value ``sign b - lambda``."""
        m = len(signs)
        block = self._coefficients(self.constraints, new, signs).T
        cost = self.problem.penalty - signs * self.problem.target_at(new)
        self.highs.addCols(m, cost, np.zeros(m), np.full(m, self.bound), block.size, *_dense(block))
        self.variables, self.signs = _append(self.variables, new), np.concatenate([self.signs, signs])

    def solve(self) -> tuple[csr_array, csr_array]:
        """Optimal ``Delta`` (from the row duals) and ``Y`` of the restricted problem."""
        steps = LEAST_STEPS + STEPS * (len(self.signs) + len(self.constraints[0]))
        self.highs.setOptionValue("simplex_iteration_limit", steps)
        self.highs.run()
        self.solved = self._ended() or self._solve_afresh()
        solution = self.highs.getSolution()
        self.sizes: FloatArray = np.asarray(solution.col_value)
        shape = (self.problem.p, self.problem.p)
        # HiGHS minimises lambda |Y|_1 - <b, Y>, so its row duals are -Delta.
        delta = csr_array((-np.asarray(solution.row_dual) / self.unit, self.constraints), shape=shape)
        dual = csr_array((self.signs * self.sizes / self.unit, self.variables), shape=shape)
        delta.eliminate_zeros()
        dual.eliminate_zeros()
        return delta, dual

    def _at_bound(self) -> bool:
        return bool((self.sizes >= self.bound * (1 - 1e-9)).any())

    def unbounded(self) -> bool:
        """Whether ``Y`` seems to grow for ever: wide bounds hold."""
        return self.bound >= FIRST_BOUND and self._at_bound()

    def _solve_afresh(self) -> bool:
        """Begin again where HiGHS gave up, in one way after another until one of them ends."""
        for way in CAREFUL_WAYS:
            self.highs.clearSolver()
            self._go(way)
            self.highs.run()
            if self._ended():
                return True
        return False

    def _ended(self) -> bool:
        import highspy  # noqa: PLC0415

        return bool(self.highs.getModelStatus() == highspy.HighsModelStatus.kOptimal)

    def _go(self, way: dict[str, int | float]) -> None:
        """Set options of HiGHS, from here on."""
        for option, value in way.items():
            self.highs.setOptionValue(option, value)

    def _relax_bounds(self) -> bool:
        """Widen the bounds on ``Y`` if one of them holds; false if none does."""
        if not self._at_bound() or self.bound >= LAST_BOUND:
            return False
        # The last basis is dual feasible now, and not primal feasible. From such a basis the primal simplex was
        # seen to go round for ever, without a step that HiGHS counts.
        self._go(CAREFUL_WAYS[0])
        self._set_bounds(10 * self.bound)
        return True

    def tighten_bounds(self) -> None:
        """Little more than the first ``Y`` needs: rows without their columns would drive it far out."""
        largest = float(self.sizes.max())
        if self.problem.p > SMALL and largest > 0:
            self._set_bounds(BOUND_ROOM * largest)

    def _set_bounds(self, bound: float) -> None:
        self.bound = bound
        m = len(self.signs)
        self.highs.changeColsBounds(m, np.arange(m, dtype=np.int32), np.zeros(m), np.full(m, bound))


def _crowded(problem: SparseProblem) -> bool:
    """Whether so many entries of ``b`` exceed the penalty that it is worth asking if anything fits."""
    p = problem.p
    blocks = problem.residual_blocks(csr_array((p, p)))
    return sum(int((np.abs(block) > problem.penalty).sum()) for _, block in blocks) > CROWD * p * p


def _unit(problem: SparseProblem) -> float:
    """The power of two next to the product of the mean variances."""
    one, two = _variances(problem)
    return float(2.0 ** np.rint(np.log2(one.mean() * two.mean())))


def _variances(problem: SparseProblem) -> tuple[FloatArray, FloatArray]:
    every = np.arange(problem.p)
    return problem.at((every, every))


def worst_entries(found: Peaks, bound: float, most: int) -> Entries:
    """The largest absolute entries above `bound`: one for each row, as neighbours are alike, at most `most`."""
    size = np.abs(found.values)
    chosen = np.flatnonzero(size > bound + CUT * (size.max() - bound))
    if chosen.size > most:
        chosen = chosen[np.argpartition(size[chosen], -most)[-most:]]
    return chosen, found.columns[chosen]


def _dense(block: FloatArray) -> tuple[NDArray[np.int32], NDArray[np.int32], FloatArray]:
    """Starts, indices and values of a dense block in HiGHS' compressed form."""
    height, width = block.shape
    starts = np.arange(height, dtype=np.int32) * width
    return starts, np.tile(np.arange(width, dtype=np.int32), height), np.ascontiguousarray(block).ravel()


def _append(old: Entries, new: Entries) -> Entries:
    return np.concatenate([old[0], new[0]]), np.concatenate([old[1], new[1]])
