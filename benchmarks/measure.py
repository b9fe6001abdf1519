"""What the benchmarks of scale share: the data, the floor, time, memory, and how cost grows.

The floor is the time of the two covariance matrices by ``np.cov``, the fastest of three, with as many threads
as the user's BLAS takes. A cell runs in a process of its own (`cells.py`), so that its memory is its own and a
hard data set can be stopped.
"""

from __future__ import annotations

import json
import math
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from scipy.special import ndtri

import diffdag as dd
from diffdag.model.simulate import SEMPair

SEED = 840_000
PENALTY = 0.3
NEIGHBOURS = 4


def draw(p: int, n: int, changes: int, seed: Sequence[int]) -> tuple[SEMPair, list[np.ndarray]]:
    """A pair of sparse models, the same for every number of rows, and a table from each."""
    pair = dd.simulate_pair(
        p, neighbours=NEIGHBOURS, changes=changes, rng=np.random.default_rng([*seed, p, changes])
    )
    rng = np.random.default_rng([*seed, p, changes, n])
    return pair, [model.sample(n, rng) for model in (pair.first, pair.second)]


def seconds(action: Callable[[], Any], repeats: int = 1) -> tuple[float, Any]:
    """The shortest time, and the answer."""
    times, answer = [], None
    for _ in range(repeats):
        start = time.perf_counter()
        answer = action()
        times.append(time.perf_counter() - start)
    return min(times), answer


def floor_seconds(tables: Sequence[np.ndarray]) -> float:
    return seconds(lambda: [np.cov(table, rowvar=False, bias=True) for table in tables], repeats=3)[0]


def ours(moments: Sequence[dd.Moments], method: str) -> Any:
    """The precision difference, with its certificate."""
    return dd.precision_difference(*moments, method=method, penalty=PENALTY)


def warm_up(method: str) -> None:
    """Import and compile; twice, because small and larger problems take other ways."""
    for p in (12, 100):
        _, tables = draw(p, 1000, 8, [SEED])
        ours([dd.Moments.from_array(table) for table in tables], method)


def warm_up_fit() -> None:
    for p in (6, 18):  # all orders, and walks
        pair, tables = draw(p, 300, 2, [SEED])
        default_fit(pair, [dd.Moments.from_array(table) for table in tables])


def default_fit(pair: SEMPair, moments: Sequence[dd.Moments]) -> tuple[float, float]:
    """Seconds and F1 of ``DifferenceDAG()``."""
    from diffdag.reproduce.methods.ours import result_graph  # noqa: PLC0415
    from diffdag.reproduce.scoring import score  # noqa: PLC0415

    taken, fitted = seconds(lambda: dd.DifferenceDAG().fit_moments(*moments))
    return taken, score(pair.changed, result_graph(fitted.result_)).f1


def ceiling(pair: SEMPair, tables: Sequence[np.ndarray]) -> float:
    """F1 of tests of the changed effects given all true causes, Bonferroni over all pairs; none is false."""
    p, n = len(pair.first.names), len(tables[0])
    least = float(-ndtri(0.05 / (p * (p - 1))))
    index = {name: k for k, name in enumerate(pair.first.names)}
    found = 0
    for source, target in pair.edges:
        i, j = index[target], index[source]
        causes = {int(k) for model in (pair.first, pair.second) for k in model.effects[[i]].indices} - {j}
        change, variance = 0.0, 0.0
        for sign, table in zip((1, -1), tables, strict=True):
            regressors = np.column_stack([np.ones(n), table[:, [j, *causes]]])
            inverse = np.linalg.inv(regressors.T @ regressors)
            weights = inverse @ regressors.T @ table[:, i]
            rest = table[:, i] - regressors @ weights
            change += sign * weights[1]
            variance += rest @ rest / (n - len(weights)) * inverse[1, 1]
        found += abs(change) > least * math.sqrt(variance)
    return 2 * found / (found + len(pair.edges))


def forget_peak() -> None:
    """Let the peak of this process' memory begin anew, where the system (Linux) can."""
    try:
        Path("/proc/self/clear_refs").write_text("5", encoding="ascii")
    except OSError:
        return


def peak_gib() -> float | None:
    """The peak of this process' memory; not by getrusage, which counts the parent's before it started this."""
    try:
        status = Path("/proc/self/status").read_text(encoding="ascii")
    except OSError:
        return None
    return int(status.partition("VmHWM:")[2].split()[0]) / 2**20


def exponent(x: Sequence[float], y: Sequence[float]) -> tuple[float, float | None]:
    """Slope of log y on log x by least squares, and its standard error."""
    u, v = np.log(np.asarray(x, float)), np.log(np.asarray(y, float))
    u, v = u - u.mean(), v - v.mean()
    slope = float(u @ v / (u @ u))
    if len(u) < 3:
        return slope, None
    return slope, math.sqrt(float(np.sum((v - slope * u) ** 2)) / (len(u) - 2) / float(u @ u))


def plain(cell: Any) -> Any:
    """A JSON value."""
    cell = cell.item() if hasattr(cell, "item") else cell
    return float(f"{cell:.6g}") if isinstance(cell, float) else cell


def run_cell(kind: str, timeout: float, /, **settings: Any) -> tuple[list[dict[str, Any]], str]:
    """Rows of a cell, one a data set, and why there are not more of them."""
    command = [sys.executable, str(Path(__file__).with_name("cells.py")), kind, json.dumps(settings)]
    why = ""
    with tempfile.TemporaryFile("w+", encoding="utf-8") as out, tempfile.TemporaryFile("w+") as err:
        try:
            code = subprocess.run(command, stdout=out, stderr=err, timeout=timeout, check=False).returncode
        except subprocess.TimeoutExpired:
            code, why = 0, f"stopped after {timeout:g} s"
        out.seek(0)
        err.seek(0)
        if code:
            why = (err.read().strip().splitlines() or [f"exit code {code}"])[-1]
        rows = [json.loads(line) for line in out.read().splitlines() if line.endswith("}")]
    if why:
        print(f"{kind} {settings}: {why}", file=sys.stderr, flush=True)
    return rows, why
