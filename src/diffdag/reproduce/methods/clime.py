"""CLIME (Cai, Liu and Luo 2011): a sparse precision matrix by one linear programme per column.

    minimise |w|_1   subject to   max |Sigma w - e_j| <= lambda

The programmes of all columns share one matrix; they differ in the bounds of their rows only. So HiGHS keeps the
model, gets new bounds for each column, and goes on from its last basis. Multiplying ``Sigma`` by a number
divides the result by it: the penalty has no units.
"""

from __future__ import annotations

from collections.abc import Iterable

import highspy
import numpy as np

from diffdag._base.arrays import FloatArray
from diffdag._base.errors import InputError

DUAL_SIMPLEX = 1
OPTIONS: dict[str, bool | int | float | str] = {
    "output_flag": False,
    "threads": 1,
    "presolve": "off",
    "solver": "simplex",
    "simplex_strategy": DUAL_SIMPLEX,  # new bounds leave the last basis dual feasible
    "primal_feasibility_tolerance": 1e-9,
    "dual_feasibility_tolerance": 1e-9,
}


def clime_columns(sigma: FloatArray, penalty: float, columns: Iterable[int]) -> FloatArray:
    """Some columns of the estimate, before it is made symmetric; entries of `sigma` should be of about one."""
    p = len(sigma)
    model = _model(sigma)
    found = []
    for j in columns:
        for row in range(p):  # older HiGHS cannot change many at once
            model.changeRowBounds(row, (row == j) - penalty, (row == j) + penalty)
        model.run()
        status = model.getModelStatus()
        if status != highspy.HighsModelStatus.kOptimal:
            raise InputError(
                f"CLIME found no solution at a penalty of {penalty:.2g} ({model.modelStatusToString(status)}): "
                "fewer rows than variables, dependent columns, or columns of very different size; use more "
                "rows or fewer variables, or bring the columns to one unit"
            )
        value = np.asarray(model.getSolution().col_value)
        found.append(value[:p] - value[p:])
    return np.array(found).reshape(len(found), p).T


def _model(sigma: FloatArray) -> highspy.Highs:
    """The programme in the positive and negative parts of ``w``, the bounds of its rows still to be set."""
    p, columns = len(sigma), 2 * len(sigma)
    model = highspy.Highs()  # type: ignore[no-untyped-call]
    for name, value in OPTIONS.items():
        model.setOptionValue(name, value)
    programme = highspy.HighsLp()
    programme.num_col_, programme.num_row_ = columns, p
    programme.col_cost_ = np.ones(columns)
    programme.col_lower_, programme.col_upper_ = np.zeros(columns), np.full(columns, highspy.kHighsInf)
    programme.row_lower_, programme.row_upper_ = np.zeros(p), np.zeros(p)
    matrix = programme.a_matrix_
    matrix.format_ = highspy.MatrixFormat.kColwise
    matrix.start_ = np.arange(columns + 1, dtype=np.int32) * p
    matrix.index_ = np.tile(np.arange(p, dtype=np.int32), columns)
    matrix.value_ = np.concatenate([sigma.T.ravel(), -sigma.T.ravel()])
    model.passModel(programme)
    return model
