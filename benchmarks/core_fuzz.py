"""The compiled code under a coverage-guided fuzzer with sanitizers: needs clang++ with libFuzzer.

python benchmarks/core_fuzz.py [--runs 200000] [--seed 970000] [--only TARGET,...] [--folder build/core_fuzz]
DIFFDAG_TARGET=TARGET build/core_fuzz/harness FILE          (once more, one input)

core_fuzz/harness.cpp reads the fuzzer's bytes as arguments of one of the ways in. Every array has exactly the
room that its shape says. A report of a sanitizer (addresses, undefined behaviour, conversions of numbers that
do not fit, leaks), an assertion of the standard library, a result that is no order, more than 10 seconds or
more than 1 GiB end a target's run; the input stays in the folder.
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent
TARGETS = ("walk", "read", "weigh", "tabulate", "best", "descent")
COLUMNS = ("executions", "kept inputs", "edges of the program reached", "features", "seconds", "reports")
SANITIZERS = "fuzzer,address,undefined,float-cast-overflow"
SOURCES = ("benchmarks/core_fuzz/harness.cpp", "src/diffdag/ordersearch/core/matrix.cpp")
LIMITS = ("-timeout=10", "-rss_limit_mb=1024", "-max_len=512", "-len_control=0")
# Inputs that take long are tried less often.
SCHEDULE = "-entropic_scale_per_exec_time=1"


def build(folder: Path, compiler: str = "clang++") -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    program = folder / "harness"
    options = ("-std=c++17", "-O2", "-g", "-ffp-contract=off", "-D_GLIBCXX_ASSERTIONS", "-Wall", "-Wextra")
    checks = (f"-fsanitize={SANITIZERS}", "-fno-sanitize-recover=all")
    subprocess.run([compiler, *options, *checks, *SOURCES, "-o", program], check=True, cwd=ROOT)
    return program


def attack(program: Path, target: str, runs: int, seed: int) -> list[int]:
    """Run a target from an empty corpus; one number per column."""
    corpus = program.parent / f"{target}-{seed}"
    corpus.mkdir(exist_ok=True)
    for old in corpus.iterdir():
        old.unlink()
    how = (f"-runs={runs}", f"-seed={seed}", *LIMITS, SCHEDULE, f"-artifact_prefix={target}-")
    surroundings = os.environ | {"DIFFDAG_TARGET": target, "ASAN_OPTIONS": "quarantine_size_mb=32"}
    start = time.monotonic()
    done = subprocess.run(
        [program, *how, corpus],
        env=surroundings,
        cwd=program.parent,
        stderr=subprocess.PIPE,
        text=True,
        errors="replace",
        check=False,
    )
    if done.returncode:
        print(done.stderr[-4000:], file=sys.stderr)
    return [*figures(done.stderr), round(time.monotonic() - start), int(done.returncode != 0)]


def figures(log: str) -> list[int]:
    """Executions, inputs in the corpus, edges and features, from the last line that says them."""
    executions, edges, features, kept = re.findall(r"^#(\d+)\s.*?cov: (\d+) ft: (\d+) corp: (\d+)", log, re.M)[
        -1
    ]
    return [int(executions), int(kept), int(edges), int(features)]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--runs", type=int, default=200_000, help="of each target")
    parser.add_argument("--seed", type=int, default=970_000)
    parser.add_argument("--only", default="")
    parser.add_argument("--folder", type=Path, default=ROOT / "build" / "core_fuzz")
    given = parser.parse_args()
    from record import print_table  # noqa: PLC0415

    program = build(given.folder.resolve())
    rows = []
    for target in [name for name in given.only.split(",") if name] or TARGETS:
        rows.append([target, *attack(program, target, given.runs, given.seed)])
        print(*rows[-1], file=sys.stderr, flush=True)
    totals = {name: sum(row[COLUMNS.index(name) + 1] for row in rows) for name in COLUMNS}
    kept = ["all", *(None if name in COLUMNS[2:4] else totals[name] for name in COLUMNS)]
    print_table(
        "Executions of the compiled code",
        ["target", *COLUMNS],
        [*rows, kept],
        section="core_fuzz",
        settings={"runs": given.runs, "seed": given.seed, "only": given.only},
    )
    sys.exit(1 if totals["reports"] else 0)


if __name__ == "__main__":
    main()
