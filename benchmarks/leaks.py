"""What one process keeps of a thousand fits: memory, file handles, threads, child processes, temporary files.

    OPENBLAS_NUM_THREADS=1 python benchmarks/leaks.py [--fits 1000] [--seed 900000]

After a warm-up that does everything once, each fit draws a pair of tables and fits it, in turn by the order
search or the paper's method, with covariates, units, gaps, memory, noise of another shape, few rows or many
variables; variables are explained, and some results saved and loaded. Now and then resamples run in two
processes, controls, several conditions and a path of settings are fitted, plots are drawn, and a session of the
server takes files in, looks at them and fits them.
Resident memory is read at regular intervals; shown is the slope of a straight line through the second half,
with its standard error, and that of the number of Python's objects. Free memory is given back before reading,
since a leak would fill that first and not show. `--leak 4096` is the control: so much is leaked at each fit on
purpose, and has to be seen. joblib registers a clean-up at the end of the process for each of its calls, six
objects that stay until then. Bar: growth of no more than two standard errors, or 1 KiB and one object a fit,
and nothing else is there that was not before. Linux only (/proc).
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import ctypes
import gc
import json
import os
import sys
import tempfile
import threading
import time
import urllib.parse
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from record import print_table

import diffdag as dd
from diffdag.app.serve.app import make_app
from diffdag.app.serve.session import Session

P, ROWS = 6, 120
SOME = 50  # fits between two rounds of what takes long
COLUMNS = ("what", "before", "after", "growth a fit", "standard error")
KEPT: list[bytes] = []
# The interpreter keeps the last 4,096 names of attributes it was asked for, and urllib, which the browser of
# `visit` asks, its last addresses: no leak, but growth until then.
CLEAR_CACHES: tuple[Callable[[], None], ...] = (
    getattr(sys, "_clear_internal_caches", None) or sys._clear_type_cache,
    urllib.parse.clear_cache,
)


def draw(seed: int) -> list[np.ndarray]:
    pair = dd.simulate_pair(P, neighbours=2, changes=2, rng=seed)
    return [model.sample(ROWS, rng=seed + k) for k, model in enumerate((pair.first, pair.second), start=1)]


def study(seed: int, kind: str) -> tuple[list[pd.DataFrame], dict[str, Any]]:
    """Two tables of one kind, and the options that suit them."""
    rng = np.random.default_rng(seed)
    if kind == "wide":
        mixing = np.eye(30) + np.triu(rng.uniform(-0.3, 0.3, (30, 30)), 1)
        return [pd.DataFrame(rng.standard_normal((24, 30)) @ mixing) for _ in "12"], {"max_variables": 4}
    frames = [pd.DataFrame(table, columns=[f"X{k}" for k in range(P)]) for table in draw(seed)]
    if kind == "shape":
        frames = [np.sign(frame) * frame**2 for frame in frames]
    if kind == "few":
        frames[1] = frames[1].iloc[:3]
    if kind == "em":
        frames = [frame.mask(rng.random(frame.shape) < 0.03) for frame in frames]
    for frame in frames if kind in ("adjust", "cluster") else ():
        frame["age"], frame["donor"] = rng.uniform(20, 80, ROWS), [f"d{k % 8}" for k in range(ROWS)]
    return frames, OPTIONS[kind]


OPTIONS: dict[str, dict[str, Any]] = {
    "plain": {},
    "paper": {"method": "paper"},
    "adjust": {"adjust": ["age", "donor"]},
    "cluster": {"cluster": "donor"},
    "em": {"missing": "em"},
    "whiten": {"whiten": "ar"},
    "shape": {},
    "few": {},
    "wide": {},
}


def fit_once(seed: int, folder: Path) -> None:
    """One fit of some kind, with all that is said and written of it."""
    kind = list(OPTIONS)[seed % len(OPTIONS)]
    tables, options = study(seed, kind)
    result = dd.DifferenceDAG(**options, n_jobs=1 + seed % 2).fit(*tables).result_
    _ = result.summary(), result.nodes, result.by_unit
    if result.explanations is not None:
        result.explain(next(name for name in result.variables if name not in result.screened_out))
    if seed % 5 == 0:
        result.save(folder)
        dd.load(folder)


def now_and_then(seed: int, folder: Path) -> None:
    """What takes long: resamples in processes, controls, several conditions, plots, the server."""
    import matplotlib.pyplot as plt  # noqa: PLC0415

    tables = draw(seed)
    model = dd.DifferenceDAG(n_jobs=2)
    result = (
        model.set_params(resamples=20, permutations=19).fit(*tables, journal=folder / f"journal-{seed}").result_
    )
    for picture in (result.plot, result.plot_precision):
        plt.close(picture().figure)
    plt.close(result.plot_explanation(result.variables[-1]))
    dd.DifferenceDAG(controls=20, n_jobs=2).fit(*tables)
    dd.settings_path(*tables, penalties=[0.5, 2], model=dd.DifferenceDAG(n_jobs=2)).save(folder / "path")
    doses = {"none": tables[0], "low": tables[1], "high": tables[1][::2]}
    dd.fit_conditions(doses, reference="none").save(folder / "conditions")
    asyncio.run(visit(tables))


async def visit(tables: list[np.ndarray]) -> None:
    """A session of the server, as a browser would use it."""
    import httpx  # noqa: PLC0415

    session = Session(limit=10)
    address = "http://127.0.0.1:8765"
    transport = httpx.ASGITransport(make_app(session, 8765))
    try:
        async with httpx.AsyncClient(transport=transport, base_url=address, timeout=600) as client:
            (await client.get("/", params={"token": session.token})).raise_for_status()
            keys = []
            for name, table in zip(("a.csv", "b.csv"), tables, strict=True):
                text = "\n".join(
                    [",".join(f"X{k}" for k in range(P)), *(",".join(map(str, row)) for row in table)]
                )
                sent = await client.post("/files", params={"name": name}, content=text)
                keys.append(sent.raise_for_status().json()["key"])
            await client.post("/look", json={"files": keys, "options": {}})
            job = (await client.post("/jobs", json={"files": keys, "options": {}})).raise_for_status().json()
            while (seen := await state(client, job["key"]))["state"] in ("waiting", "running"):
                await asyncio.sleep(0.1)
            if seen["state"] != "done":
                raise RuntimeError(json.dumps(seen))
            (await client.get(f"/jobs/{job['key']}/report.html")).raise_for_status()
    finally:
        session.close()


async def state(client: object, key: str) -> dict[str, object]:
    answer = (await client.get("/state")).raise_for_status().json()  # type: ignore[attr-defined]
    return next(job for job in answer["jobs"] if job["key"] == key)


def resident() -> float:
    """Resident memory in KiB, without what is free but kept for later, where a leak could hide."""
    gc.collect()
    for clear in CLEAR_CACHES:
        clear()
    with contextlib.suppress(AttributeError, OSError):  # not with every C library
        ctypes.CDLL(None).malloc_trim(0)
    pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 1024


def belongings(temporary: Path) -> dict[str, list[str]]:
    """All that a process can leave lying about."""
    gc.collect()
    handles = []
    for handle in Path("/proc/self/fd").iterdir():
        try:
            handles.append(os.readlink(handle).split(":")[0])
        except OSError:
            continue  # the one that lists them
    children = [stat.parent.name for stat in Path("/proc").glob("[0-9]*/stat") if _parent(stat) == os.getpid()]
    return {
        "file handles": sorted(handles),
        "threads": sorted(thread.name.split("-")[0] for thread in threading.enumerate()),
        "child processes": children,
        "temporary files": sorted(path.name for path in temporary.iterdir()),
    }


def _parent(stat: Path) -> int:
    try:
        return int(stat.read_text(encoding="utf-8", errors="replace").rpartition(")")[2].split()[1])
    except OSError:
        return -1


def settled(look: Callable[[], dict[str, list[str]]], seconds: float = 20) -> dict[str, list[str]]:
    """The belongings once processes that are ending have ended."""
    until = time.monotonic() + seconds
    least = look()
    while time.monotonic() < until:
        time.sleep(1)
        now = look()
        if sum(map(len, now.values())) >= sum(map(len, least.values())):
            break
        least = now
    return least


def slope(counts: list[int], memory: list[float]) -> tuple[float, float]:
    """KiB a fit, and its standard error."""
    x, y = np.array(counts, float), np.array(memory)
    x = x - x.mean()
    value = float(x @ y / (x @ x))
    rest = y - y.mean() - value * x
    return value, float(np.sqrt(rest @ rest / (len(x) - 2) / (x @ x)))


def work(
    fits: int, seed: int, folder: Path, every: int, leak: int = 0
) -> tuple[list[int], list[float], list[float]]:
    """The fits; how many, resident memory and live objects of Python after each `every` of them."""
    counts, memory, blocks = [], [], []
    for k in range(fits):
        fit_once(seed + k, folder)
        if leak:
            KEPT.append(os.urandom(leak))
        if k % SOME == SOME - 1:
            now_and_then(seed + k, folder)
        if k % every == every - 1:
            counts.append(k + 1)
            memory.append(resident())
            blocks.append(float(sys.getallocatedblocks()))
            print(k + 1, round(memory[-1]), round(blocks[-1]), file=sys.stderr, flush=True)
    return counts, memory, blocks


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--fits", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=900_000)
    parser.add_argument("--leak", type=int, default=0, help="bytes to leak at each fit, to see that it shows")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    with tempfile.TemporaryDirectory() as name:
        out, temporary = Path(name) / "out", Path(name) / "tmp"
        temporary.mkdir()
        tempfile.tempdir = os.environ["TMPDIR"] = os.environ["JOBLIB_TEMP_FOLDER"] = str(temporary)
        work(SOME, options.seed + options.fits, out, SOME)  # the warm-up
        before = settled(lambda: belongings(temporary))
        every = max(1, options.fits // 40)
        counts, memory, blocks = work(options.fits, options.seed, out, every, options.leak)
        after = settled(lambda: belongings(temporary))
        for what in before:
            print(what, sorted(set(after[what]) - set(before[what])), file=sys.stderr)
    half = len(counts) // 2
    rows: list[list[object]] = [
        [what, values[0], values[-1], *slope(counts[half:], values[half:])]
        for what, values in (("resident memory (KiB)", memory), ("objects of Python", blocks))
    ]
    rows += [[what, len(before[what]), len(after[what]), None, None] for what in before]
    title = f"{options.fits} fits in one process" + (
        f", {options.leak} bytes leaked at each" if options.leak else ""
    )
    print_table(title, COLUMNS, rows, section="leaks" if not options.leak else "control")


if __name__ == "__main__":
    main()
