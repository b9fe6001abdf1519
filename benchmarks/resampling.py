"""Fits on resamples: on Dask workers in processes of their own, with joblib, and with a worker that is killed.

    OPENBLAS_NUM_THREADS=1 python benchmarks/resampling.py [--fits 200] [--p 30] [--rows 500] [--repeats 1]

Each repeat runs the same resamples on one worker, on two, and in two processes of joblib, one after the other;
shown are medians, and the ratio of each to one worker. Importing and compiling are done before. In the last run
one of two workers is killed after a quarter of the fits. Bar: two workers take at most 0.65 of the time of one.
"""

from __future__ import annotations

import argparse
import os
import signal
import time
from contextlib import contextmanager, nullcontext

import joblib
import numpy as np
from record import print_table

import diffdag as dd
from diffdag.refits import resample_fits

SEED = 840_300
BAR = 0.65


@contextmanager
def workers(count, tables):
    """A client of a new cluster whose workers have made a fit."""
    from distributed import Client, LocalCluster  # noqa: PLC0415

    options = {
        "threads_per_worker": 1,
        "processes": True,
        "dashboard_address": "127.0.0.1:0",
        "host": "127.0.0.1",
    }
    with LocalCluster(n_workers=count, **options) as cluster, Client(cluster, set_as_default=False) as client:
        client.run(warm_up, tables)
        yield client


def warm_up(tables):
    dd.DifferenceDAG(n_jobs=1).fit(*tables)


def timed(tables, fits, client=None, n_jobs=None, progress=None):
    on = nullcontext() if client is None else joblib.parallel_config(backend="dask", client=client)
    start = time.perf_counter()
    with on:
        model = dd.DifferenceDAG(rng=SEED, n_jobs=n_jobs)
        answer = resample_fits(*tables, fits=fits, progress=progress, model=model)
    return time.perf_counter() - start, answer.found


def killed(tables, fits, client):
    """The same with one worker killed after a quarter of the fits."""
    victim = next(iter(client.run(os.getpid).values()))

    def kill(done, total, what):
        if done == max(1, total // 4):
            os.kill(victim, signal.SIGKILL)

    return timed(tables, fits, client=client, progress=kill)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name, value in {"fits": 200, "p": 30, "rows": 500, "repeats": 1}.items():
        parser.add_argument(f"--{name}", type=int, default=value)
    options = parser.parse_args()
    pair = dd.simulate_pair(options.p, neighbours=6, changes=6, rng=SEED)
    tables = pair.first.sample(options.rows, SEED), pair.second.sample(options.rows, SEED + 1)
    runs = {"Dask, 1 worker": [], "Dask, 2 workers": [], "joblib, 2 processes": []}
    with workers(1, tables) as one, workers(2, tables) as two:
        timed(tables, 4, n_jobs=2)
        for _ in range(options.repeats):
            for name, where in zip(runs, ({"client": one}, {"client": two}, {"n_jobs": 2}), strict=True):
                runs[name].append(timed(tables, options.fits, **where))
                print(f"{name}: {runs[name][-1][0]:.2f} s", flush=True)
        runs["Dask, 2 workers, one killed"] = [killed(tables, options.fits, two)]
    wanted = runs["joblib, 2 processes"][0][1]
    base = np.array([seconds for seconds, _ in runs["Dask, 1 worker"]])
    rows = []
    for name, measured in runs.items():
        seconds = np.array([taken for taken, _ in measured])
        same = all(found == wanted for _, found in measured)
        rows.append(
            [
                name,
                float(np.median(seconds)),
                float(np.median(seconds / base[: len(seconds)])),
                "yes" if same else "no",
            ]
        )
    title = f"{options.fits} fits on resamples, p = {options.p}, {options.rows} rows; bar {BAR} for two workers"
    print_table(title, ["run", "seconds", "ratio to 1 worker", "same as joblib"], rows)


if __name__ == "__main__":
    main()
