"""Rows beyond memory: a Parquet data set reduced to moments, against a plain scan of the same files.

python benchmarks/rows.py [--gib 10] [--columns 24] [--folder FOLDER] [--repeats 2]

Writes random mixed normal values to a temporary folder (or to FOLDER, where they stay and are used again), in
files of about 1 GiB with pyarrow's defaults (snappy). Then, each in a fresh process, by turns:

plain scan      for batch in pyarrow.dataset.dataset(folder).to_batches(): pass
bounded scan    the same with batch_size=2**16, batch_readahead=2, fragment_readahead=1
moments         Moments.from_parquet(folder)

Seconds are the best of the repeats and do not count imports; memory is the largest resident set of the process,
imports included (VmHWM of Linux: ru_maxrss starts at the size of the parent). Bars: half the speed of the plain
scan, 1 GiB.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from record import print_table

from diffdag import Moments

SEED = 840030
CHUNK = 1 << 18  # rows drawn, and written as a row group, at a time
SCRIPTS = {
    "plain scan": "for batch in dataset(folder).to_batches(): pass",
    "bounded scan": """
options = {"batch_size": 1 << 16, "batch_readahead": 2, "fragment_readahead": 1}
for batch in dataset(folder).to_batches(**options): pass
""",
    "moments": "Moments.from_parquet(folder)",
}
FRAME = """
import json, pathlib, re, sys, time
import numpy, pyarrow.parquet, diffdag.tables.readers.streaming
from pyarrow.dataset import dataset
from diffdag import Moments
folder = sys.argv[1]
start = time.perf_counter()
{work}
seconds = time.perf_counter() - start
kilobytes = re.search(r"VmHWM:\\s+(\\d+) kB", pathlib.Path("/proc/self/status").read_text())[1]
print(json.dumps([seconds, int(kilobytes) / 1024]))
"""


def write(folder: Path, gib: float, p: int) -> None:
    """Mixed normal variables, 8 bytes a value."""
    files = max(2, round(gib))
    rows = int(gib * 2**30 / (8 * p) / files)
    mix = np.random.default_rng(SEED).standard_normal((p, p)) / np.sqrt(p)
    names = [f"x{k}" for k in range(1, p + 1)]
    for number in range(files):
        rng = np.random.default_rng([SEED, number])
        schema = pa.schema([(name, pa.float64()) for name in names])
        with pq.ParquetWriter(folder / f"part{number:03}.parquet", schema) as writer:
            for start in range(0, rows, CHUNK):
                values = rng.standard_normal((min(CHUNK, rows - start), p)) @ mix
                writer.write_table(pa.table(list(np.ascontiguousarray(values.T)), schema=schema))


def measure(what: str, folder: Path) -> tuple[float, float]:
    """Seconds and MiB in a fresh process."""
    command = [sys.executable, "-c", FRAME.format(work=SCRIPTS[what]), str(folder)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    seconds, mebibytes = json.loads(done.stdout)
    return seconds, mebibytes


def check(folder: Path) -> float:
    """Largest deviation from the moments of one file held in memory, on the scale of its variables."""
    path = min(folder.glob("*.parquet"))
    table = pq.read_table(path)
    wanted = Moments.from_array(np.column_stack([column.to_numpy() for column in table.columns]))
    scale = np.sqrt(np.diag(wanted.scatter))
    return float(np.abs((Moments.from_parquet(path).scatter - wanted.scatter) / np.outer(scale, scale)).max())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--gib", type=float, default=10.0)
    parser.add_argument("--columns", type=int, default=24)
    parser.add_argument("--folder", type=Path)
    parser.add_argument("--repeats", type=int, default=2)
    given = parser.parse_args()
    with contextlib.ExitStack() as stack:
        folder = given.folder or Path(tempfile.mkdtemp(prefix="diffdag-rows-"))
        if given.folder is None:
            stack.callback(shutil.rmtree, folder, ignore_errors=True)
        folder.mkdir(parents=True, exist_ok=True)
        if not any(folder.glob("*.parquet")):
            write(folder, given.gib, given.columns)
        size = sum(path.stat().st_size for path in folder.glob("*.parquet")) / 2**30
        runs = [{what: measure(what, folder) for what in SCRIPTS} for _ in range(given.repeats)]
        off = check(folder)
    best = {what: min(run[what][0] for run in runs) for what in SCRIPTS}
    memory = {what: max(run[what][1] for run in runs) for what in SCRIPTS}
    rows = [
        [what, f"{best[what]:.1f}", f"{best['plain scan'] / best[what]:.2f}", f"{memory[what]:.0f}"]
        for what in SCRIPTS
    ]
    title = f"Parquet, {size:.1f} GiB, {given.columns} columns; moments off by {off:.0e} at most"
    print_table(title, ["", "seconds", "speed / plain scan", "peak MiB"], rows)


if __name__ == "__main__":
    main()
