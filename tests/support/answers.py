"""Answers made up for tests of pictures and pages: any size, any names."""

from __future__ import annotations

from itertools import combinations
from typing import Any

import numpy as np
from scipy.sparse import csr_array

from diffdag.result import DifferenceResult
from diffdag.results.records import CHANGES, Edge

HOSTILE = [
    "<img src=x onerror=alert(1)>",
    '"quo\'ted" & </script><script>alert(2)</script>',
    "$x_1$ \\alpha $",
    "😀 👩‍🔬 emoji",
    "L" * 200,
    "日本語",
    "line\nbreak\x00\u202e",
    "</svg></style><b>",
    "{{ 7 * 7 }}{% raw %}",
]


def graph(names: list[str], edges: list[Edge], **changes: Any) -> DifferenceResult:
    parts: dict[str, Any] = {
        "method": "paper",
        "variables": tuple(names),
        "invariant": (),
        "unresolved": (),
        "order": (),
        "edge_list": tuple(edges),
        "delta_entries": csr_array((len(names), len(names))),
        "samples": None,
        "settings": {},
    }
    return DifferenceResult(**(parts | changes))


def random_graph(count: int, edges: int, unresolved: int = 0, seed: int = 0) -> DifferenceResult:
    rng = np.random.default_rng(seed)
    names = [f"{'longer_' * int(rng.integers(3))}name{k}" for k in range(count)]
    pairs = list(combinations(range(count), 2))
    chosen = [pairs[k] for k in rng.permutation(len(pairs))[:edges]]
    found = [
        Edge(names[i], names[j], directed=False)
        if j < unresolved
        else Edge(names[i], names[j], change=str(rng.choice(CHANGES)), delta=float(rng.normal()))
        for i, j in chosen
    ]
    layers = tuple((name,) for name in names[unresolved:])
    return graph(names, found, unresolved=tuple(names[:unresolved]), order=layers)
