"""Every reader and the command line against inputs that nobody should send.

python benchmarks/fuzz.py [--inputs 100000] [--seed 900000] [--only TARGET] [--jobs 1] [--failures FOLDER]
python benchmarks/fuzz.py --replay FOLDER/NAME.pickle

The inputs are drawn by the strategies of tests/support (hostile*.py) and sent to the targets of
tests/support/attack.py. An input is refused if it ends in `InputError`, or at the command line in exit code 2
and one line. Anything else that is raised, a death of the process, more than 10 seconds of processor time or
100 of any, more than 0.5 GiB of memory, a temporary file that stays, an output that is not whole and an exit
code that does not fit are faults. They are written to FOLDER with the input, to be replayed. Batches run in
processes of their own.
"""

from __future__ import annotations

import argparse
import collections
import contextlib
import json
import os
import pickle
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import traceback
import warnings
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "tests" / "support"))

SECONDS = 10  # of processor time: others may use the machine, and methods have an alarm of their own
ASLEEP = 10  # times as many may go by
PATIENCE = 400  # seconds without a sign of life, as where compiled code heeds no signal
MOST = 1 << 29  # bytes of memory that an input may take; all of them are small
ROOM = 2 << 30  # bytes of addresses, beyond those in use at the start
BATCH = 2000
COLUMNS = ("inputs", "accepted", "refused", "tracebacks", "hangs", "partial outputs")


class Hang(BaseException):
    """An input that takes too long; not an Exception, which readers may turn into words."""


def outcome(function: Any, case: Any, folder: Path) -> tuple[str, str]:
    """What becomes of one input, and the details of a fault."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    before = peak()
    what, details = once(function, case, folder)
    grown = peak() - before
    return ("tracebacks", f"{what}, and took {grown / 2**30:.1f} GiB") if grown > MOST else (what, details)


def peak() -> int:
    """Largest resident set so far, in bytes."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def once(function: Any, case: Any, folder: Path) -> tuple[str, str]:
    from whole import Partial  # noqa: PLC0415

    from diffdag._base.errors import InputError  # noqa: PLC0415

    def ring(*_: object) -> None:
        raise Hang

    for number in (signal.SIGVTALRM, signal.SIGALRM):
        signal.signal(number, ring)
    signal.setitimer(signal.ITIMER_VIRTUAL, SECONDS)
    signal.alarm(ASLEEP * SECONDS)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            function(case, folder)
        return "accepted", ""
    except InputError:
        return "refused", ""
    except Hang:
        return "hangs", traceback.format_exc()
    except Partial:
        return "partial outputs", traceback.format_exc()
    except BaseException:  # that is what is looked for
        return "tracebacks", traceback.format_exc()
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        signal.alarm(0)


def run_batch(name: str, seed: int, count: int, skip: int, place: Path) -> None:
    """Run some inputs in this process; `place` gets the input before it is run, and the counts after each."""
    from attack import TARGETS  # noqa: PLC0415
    from hypothesis import HealthCheck, Phase, given, settings  # noqa: PLC0415
    from hypothesis import seed as seeded  # noqa: PLC0415

    strategy, function, _ = TARGETS[name]
    used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (used + ROOM, resource.RLIM_INFINITY))
    counts: collections.Counter[str] = collections.Counter()
    tried = 0
    home = Path.cwd()
    with (place / "log").open("a", encoding="utf-8") as log:

        @seeded(seed)
        @settings(
            max_examples=count,
            database=None,
            deadline=None,
            phases=[Phase.generate],
            suppress_health_check=list(HealthCheck),
        )
        @given(strategy)
        def one(case: Any) -> None:
            nonlocal tried
            tried += 1
            if tried <= skip:
                return
            kept = dump(name, case)
            (place / "current").write_bytes(kept)
            folder = place / "scratch"
            start = time.perf_counter()
            what, details = outcome(function, case, folder)
            os.chdir(home)
            shutil.rmtree(folder, ignore_errors=True)
            counts[what] += 1
            entry = {"tried": tried, "what": what, "seconds": round(time.perf_counter() - start, 3)}
            if details:
                entry |= {"details": details, "input": kept.hex()}
            log.write(json.dumps(entry) + "\n")
            log.flush()

        one()


def dump(name: str, case: Any) -> bytes:
    try:
        return pickle.dumps((name, case))
    except Exception:  # what cannot be pickled cannot be replayed
        return pickle.dumps((name, repr(case)))


def batch(name: str, seed: int, count: int, failures: Path) -> collections.Counter[str]:
    """Run a batch in a process of its own, again from behind an input that kills it."""
    counts: collections.Counter[str] = collections.Counter()
    skip = 0
    with tempfile.TemporaryDirectory(prefix="fuzz-") as place:
        while True:
            words = [sys.executable, __file__, "--batch", json.dumps([name, seed, count, skip, place])]
            log = Path(place) / "log"
            log.write_text("")
            process = subprocess.Popen(
                words, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, cwd=place, start_new_session=True
            )
            said = wait(process, log)
            entries = [json.loads(line) for line in log.read_text(encoding="utf-8").splitlines()]
            for entry in entries:
                counts[entry["what"]] += 1
                if "details" in entry:
                    keep(
                        failures,
                        name,
                        f"{seed}-{entry['tried']}",
                        entry["details"],
                        bytes.fromhex(entry["input"]),
                    )
            if process.returncode == 0:
                return counts
            if process.returncode == 1:  # not an input: the strategy, or an import
                raise SystemExit(f"{name}, seed {seed}: {said[-3000:]}")
            current = Path(place) / "current"
            skip = (entries[-1]["tried"] if entries else skip) + 1
            what = "hangs" if "no sign of life" in said else "tracebacks"
            counts[what] += 1
            keep(
                failures,
                name,
                f"{seed}-{skip}-died",
                f"exit code {process.returncode}\n{said[-4000:]}",
                current.read_bytes() if current.exists() else b"",
            )
            shutil.rmtree(Path(place) / "scratch", ignore_errors=True)


def wait(process: subprocess.Popen[bytes], log: Path) -> str:
    """Wait for a process that gets on; end one that does not. What it said."""
    said, seen, since = "", -1, time.monotonic()
    while True:
        with contextlib.suppress(subprocess.TimeoutExpired):
            return process.communicate(timeout=5)[0].decode(errors="replace") + said
        size = log.stat().st_size
        if size != seen:
            seen, since = size, time.monotonic()
        elif time.monotonic() - since > PATIENCE and process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
            said = "no sign of life"


def keep(failures: Path, name: str, number: str, details: str, case: bytes) -> None:
    failures.mkdir(parents=True, exist_ok=True)
    (failures / f"{name}-{number}.pickle").write_bytes(case)
    (failures / f"{name}-{number}.txt").write_text(details, encoding="utf-8", errors="replace")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--inputs", type=int, default=100_000)
    parser.add_argument("--seed", type=int, default=900_000)
    parser.add_argument("--only", default="")
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--failures", type=Path, default=Path("fuzz-failures"))
    parser.add_argument("--replay", type=Path)
    parser.add_argument("--batch", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.batch:
        name, seed, count, skip, place = json.loads(given.batch)
        run_batch(name, seed, count, skip, Path(place))
        return
    from attack import TARGETS  # noqa: PLC0415

    if given.replay:
        name, case = pickle.loads(given.replay.read_bytes())  # our own
        with tempfile.TemporaryDirectory() as folder:
            print(case, *outcome(TARGETS[name][1], case, Path(folder) / "scratch"), sep="\n")
        return
    from record import print_table  # noqa: PLC0415

    chosen = [name for name in given.only.split(",") if name] or list(TARGETS)
    shares = {name: TARGETS[name][2] for name in chosen}
    work = []
    for place, name in enumerate(chosen):
        left = -(-given.inputs * shares[name] // sum(shares.values()))
        number = 0
        while left > 0:
            work.append((name, given.seed + 1000 * place + number, min(BATCH, left)))
            left, number = left - BATCH, number + 1
    work.sort(key=lambda item: item[1] % 1000)  # all targets side by side
    totals: dict[str, collections.Counter[str]] = {name: collections.Counter() for name in chosen}
    start = time.monotonic()
    with ThreadPoolExecutor(given.jobs) as pool:
        for (name, *_), counts in zip(
            work, pool.map(lambda item: batch(*item, given.failures), work), strict=True
        ):
            totals[name] += counts
            faults = sum(sum(c[column] for column in COLUMNS[3:]) for c in totals.values())
            done = sum(c.total() for c in totals.values())
            print(
                f"\r{done:,} inputs, {faults} faults, {time.monotonic() - start:.0f} s",
                end="",
                file=sys.stderr,
                flush=True,
            )
    rows = [
        [name, counts.total(), *(counts[column] for column in COLUMNS[1:])] for name, counts in totals.items()
    ]
    rows.append(["all", *(sum(row[k] for row in rows) for k in range(1, len(COLUMNS) + 1))])
    print(file=sys.stderr)
    print_table(
        "Fuzzed inputs",
        ["target", *COLUMNS],
        rows,
        section="fuzz",
        settings={
            "inputs": given.inputs,
            "seed": given.seed,
            "only": given.only,
            "seconds": round(time.monotonic() - start),
        },
    )


if __name__ == "__main__":
    main()
