"""Compile once what two test processes would both compile: `make test` runs this before it starts them.

numba keeps compiled functions beside their sources, where every process of this checkout finds them.
"""

from __future__ import annotations

import numpy as np

from diffdag.ordersearch.search import JointProblem, Problem, search_orders, walk_from


def main() -> None:
    rng = np.random.default_rng(0)
    first, second = (rng.standard_normal((20, 3)) for _ in range(2))
    free = np.zeros((3, 3), bool)
    problem = Problem.from_scatter(first.T @ first, second.T @ second, 20, 20, False, free, 3)
    search_orders(problem, rng, 1)
    for landscape in (problem, JointProblem((problem, problem))):
        walk_from(landscape, [0, 1, 2])


if __name__ == "__main__":
    main()
