"""Differences of correlations, each pair of variables by itself: what most users of gene networks compute.

The z-score of dcanr (Bhuva, Cursons, Smyth and Davis 2019) compares Fisher's transforms of two correlations,

    z = (atanh r1 - atanh r2) / sqrt(1 / (n1 - 3) + 1 / (n2 - 3)),

which is normal where they are equal (Fisher 1921). DGCA (McKenzie, Katsyv, Song, Wang and Zhang 2016) takes
the same score and puts every pair into a class by what its correlation is in each condition: positive,
negative or not to be told from none, at 5 %. A pair is reported here if its class is another one as well.

Both keep a false-discovery rate of 5 % (Benjamini and Hochberg 1995); DGCA's package draws permutations. No
other variable is held fixed: everything downstream of a change, and every pair with a changed cause in common,
differs too. So these answer another question, and without directions.
"""

from __future__ import annotations

import math

import numpy as np
from scipy.special import ndtr

from diffdag._base.arrays import BoolArray, FloatArray
from diffdag.reproduce.methods.method import Method, same_variables
from diffdag.reproduce.methods.moved import discoveries
from diffdag.tables.moments import Moments

LEVEL = 0.05  # of the classes


def z_score(first: Moments, second: Moments) -> BoolArray:
    """Pairs whose correlations differ at a false-discovery rate of 5 %."""
    one, two = _transforms(first, second)
    score = (one - two) / math.sqrt(1 / (first.n - 3) + 1 / (second.n - 3))
    p = len(score)
    rows, columns = np.triu_indices(p, 1)
    graph = np.zeros((p, p), bool)
    graph[rows, columns] = discoveries(2 * ndtr(-np.abs(score[rows, columns])))
    return np.logical_or(graph, graph.T)


def dgca(first: Moments, second: Moments) -> BoolArray:
    """The pairs of `z_score` whose class, by sign and significance, is not the same in both conditions."""
    one, two = (
        np.sign(own) * (2 * ndtr(-np.abs(own) * math.sqrt(moments.n - 3)) < LEVEL)
        for own, moments in zip(_transforms(first, second), (first, second), strict=True)
    )
    graph: BoolArray = z_score(first, second) & (one != two)
    return graph


def _transforms(first: Moments, second: Moments) -> tuple[FloatArray, FloatArray]:
    """Fisher's transforms of the correlations in the two conditions, columns as in the first."""
    second = same_variables(first, second, 4, "; correlations are compared from 4 on")
    return _transform(first), _transform(second)


def _transform(moments: Moments) -> FloatArray:
    scale = np.sqrt(np.diag(moments.scatter))
    most = 1 - np.finfo(float).eps
    values: FloatArray = np.arctanh(np.clip(moments.scatter / scale[:, None] / scale, -most, most))
    return values


METHODS = (
    Method(
        "z-score",
        "undirected: tests of differences of correlations, as dcanr's z-score",
        z_score,
        directs=False,
    ),
    Method("dgca", "undirected: differing correlations whose class changed, as DGCA", dgca, directs=False),
)
