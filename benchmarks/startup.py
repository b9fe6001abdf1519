"""What starting takes: a fit of two small tables with its report, and input that is refused, by processor time.

    python benchmarks/startup.py [--runs 7]

Each command runs in a process of its own, the floor (``import numpy, pandas, scipy.linalg``) too, one after the
other and all over again; the first round, which writes bytecode, does not count. Shown are medians of user and
system time together, of the time that passes, and their ratios to the floor. Bars: a fit of 10 columns and 500
rows within 2.0 times the floor, input that is refused within 1.5 times. POSIX only (``os.wait4``).
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
from record import print_table

import diffdag as dd

P, ROWS, SEED = 10, 500, 870_001
FLOOR = "import numpy, pandas, scipy.linalg"
COLUMNS = ("what", "processor s", "ratio", "bar", "passed s", "ratio of time passed")
BARS = {"fit with report": 2.0, "file missing": 1.5, "text in a column": 1.5}


def commands(folder: Path) -> dict[str, list[str]]:
    """What is run, with the tables it needs."""
    pair = dd.simulate_pair(P, neighbours=3, changes=2, rng=SEED)
    names = ",".join(f"v{k}" for k in range(P))
    for k, (name, model) in enumerate((("a", pair.first), ("b", pair.second)), start=1):
        table = model.sample(ROWS, rng=SEED + k)
        np.savetxt(folder / f"{name}.csv", table, delimiter=",", header=names, comments="")
    lines = (folder / "a.csv").read_text().splitlines()
    (folder / "text.csv").write_text("\n".join([lines[0], "x" + lines[1], *lines[2:]]) + "\n")
    a, b, text, none, out = (str(folder / name) for name in ("a.csv", "b.csv", "text.csv", "none.csv", "out"))
    fit = ["-m", "diffdag", "fit"]
    return {
        FLOOR: ["-c", FLOOR],
        "fit with report": [*fit, a, b, "--out", out],
        "file missing": [*fit, none, b],
        "text in a column": [*fit, text, b],
    }


def run(command: list[str]) -> tuple[float, float]:
    """Processor time of one process, and the time that passes."""
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    start = time.perf_counter()
    process = subprocess.Popen(
        [sys.executable, *command], env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    _, status, used = os.wait4(process.pid, 0)
    passed = time.perf_counter() - start
    process.returncode = os.waitstatus_to_exitcode(status)
    return used.ru_utime + used.ru_stime, passed


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=7, help="how often each command runs")
    runs = parser.parse_args().runs
    with tempfile.TemporaryDirectory() as folder:
        wanted = commands(Path(folder))
        rounds = [{what: run(command) for what, command in wanted.items()} for _ in range(runs + 1)][1:]
    medians = {
        what: [statistics.median(times) for times in zip(*(each[what] for each in rounds), strict=True)]
        for what in wanted
    }
    floor = medians[FLOOR]
    rows = [
        [what, used, used / floor[0], BARS.get(what, ""), passed, passed / floor[1]]
        for what, (used, passed) in medians.items()
    ]
    print_table(f"Start-up, medians of {runs} runs", COLUMNS, rows)


if __name__ == "__main__":
    main()
