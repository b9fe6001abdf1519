"""Runs that are killed at random moments, again and again, and must end as if nothing had happened.

    OPENBLAS_NUM_THREADS=1 python benchmarks/kills.py [--kills 50] [--seed 900000]

A run of each kind is made undisturbed. Then the same command is started in a new folder, killed (SIGKILL)
after a random time, its parent alone or all its processes at once, and started again, a few times over; in the
end it may finish. Counted after every kill: files that are not those of the undisturbed run, rows that the next
run has lost, processes that are alive after `GRACE` seconds; and in the end files that differ, or that the
undisturbed run did not leave. Bar: none of them. Linux only (/proc).
"""

from __future__ import annotations

import argparse
import contextlib
import hashlib
import os
import random
import secrets
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pandas as pd
from record import print_table

import diffdag as dd

MARK = "DIFFDAG_RUN"  # a variable that all processes of a run inherit, also those that lost their parent
GRACE = 30.0  # seconds within which processes that lost their parent have to end, on a busy machine
LONGEST = 900.0  # seconds that a run may take
ROW = 4  # kills of the same run, at most


@dataclass(frozen=True)
class Kind:
    """A command that continues where it was interrupted."""

    name: str
    arguments: tuple[str, ...]
    differs: tuple[str, ...] = ()  # files with dates and times in them


def experiment(name: str, pairs: int, methods: str) -> Kind:
    """A small run of an experiment."""
    words = ("reproduce", name, "--quick", "--pairs", str(pairs), "--methods", methods)
    return Kind(f"reproduce {name}", words, (f"{name}-times.csv", f"{name}.json"))


KINDS = (
    Kind("fit --resamples", ("fit", "first.csv", "second.csv", "--resamples", "60", "--permutations", "99")),
    experiment("figure2", 2, "order,listen,dci-c"),
    Kind(
        "path --by stability",
        ("path", "first.csv", "second.csv", "--by", "stability", "--penalties", "0.5,2", "--fits", "10"),
    ),
    Kind(
        "fit --adjust --cluster --missing em",
        (
            *("fit", "study1.csv", "study2.csv", "--adjust", "age", "--cluster", "donor", "--missing", "em"),
            *("--resamples", "24", "--permutations", "19"),
        ),
    ),
    Kind("fit --controls", ("fit", "first.csv", "second.csv", "--controls", "20", "--resamples", "24")),
    Kind(
        "fit --reference",
        ("fit", "groups.csv", "--group", "dose", "--reference", "none", "--resamples", "20"),
    ),
    experiment("nodes", 2, "order,sd-ratio,shift"),
    experiment("rivals", 2, "order,listen,z-score"),
    experiment("wide", 1, "dtrace,z-score,dgca"),
)
COLUMNS = (
    *("run", "processes", "runs", "kills", "of the parent alone", "rows taken over", "rows lost"),
    *("partial outputs", "identical in the end", "processes left", "slowest to end (s)", "stray files"),
)


@dataclass
class Tally:
    """What came of the kills of one kind of run."""

    runs: int = 0
    kills: int = 0
    alone: int = 0  # of them, those of the parent only
    taken_over: int = 0
    lost: int = 0
    partial: list[str] = field(default_factory=list)
    orphans: int = 0
    slowest: float = 0.0  # seconds until the last process was gone
    identical: int = 0
    differs: list[str] = field(default_factory=list)  # files of runs that did not end identical
    stray: list[str] = field(default_factory=list)

    def cells(self) -> list[object]:
        """As the table shows it."""
        done = [self.runs, self.kills, self.alone, self.taken_over, self.lost, len(self.partial)]
        return [*done, f"{self.identical} of {self.runs}", self.orphans, self.slowest, len(self.stray)]


def start(arguments: Sequence[str], data: Path, out: Path, mark: str = "") -> subprocess.Popen[bytes]:
    """A run as a group of processes of its own."""
    environment = {
        **os.environ,
        MARK: mark,
        "TMPDIR": str(data / "tmp"),
        "JOBLIB_TEMP_FOLDER": str(data / "tmp"),
    }
    return subprocess.Popen(
        [sys.executable, "-m", "diffdag", *arguments, "--out", str(out)],
        cwd=data,
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        start_new_session=True,
    )


def finish(arguments: Sequence[str], data: Path, out: Path) -> None:
    process = start(arguments, data, out)
    _, errors = process.communicate(timeout=LONGEST)
    if process.returncode != 0:
        raise RuntimeError(f"{arguments[0]} ended with {process.returncode}: {errors.decode()[-2000:]}")


def alive(mark: str) -> list[int]:
    """Processes with a mark."""
    wanted, found = f"{MARK}={mark}\0".encode(), []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            if wanted in (folder / "environ").read_bytes() + b"\0":
                found.append(int(folder.name))
        except OSError:
            continue
    return found


def until_gone(mark: str, grace: float = GRACE) -> tuple[float, list[int]]:
    """How long it takes until no process with a mark is left, and those that stay longer than they may."""
    begun = time.monotonic()
    while (left := alive(mark)) and time.monotonic() - begun < grace:
        time.sleep(0.05)
    return time.monotonic() - begun, left


def kill(process: subprocess.Popen[bytes], group: bool) -> None:
    if group:
        os.killpg(process.pid, signal.SIGKILL)
    else:
        process.kill()
    process.communicate()


def files(folder: Path) -> dict[str, bytes]:
    return {
        str(path.relative_to(folder)): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()
    }


def rows(folder: Path) -> dict[str, bytes]:
    """The whole lines of each journal."""
    found = {name: content for name, content in files(folder).items() if name.endswith(".journal")}
    return {name: content[: content.rfind(b"\n") + 1] for name, content in found.items()}


def count(journals: dict[str, bytes]) -> int:
    return sum(max(0, content.count(b"\n") - 1) for content in journals.values())


def tables(folder: Path, kind: Kind) -> dict[str, bytes]:
    """What a run has to say."""
    without = (*kind.differs, ".tmp")
    return {
        name: content for name, content in files(folder).items() if not name.endswith((".journal", *without))
    }


def one_run(
    kind: Kind,
    jobs: int,
    data: Path,
    wanted: dict[str, bytes],
    seconds: float,
    rng: random.Random,
    tally: Tally,
    kills: int,
) -> None:
    """Kill a run up to so many times, then let it end."""
    out = data / f"out-{secrets.token_hex(4)}"
    command = (*kind.arguments, "--jobs", str(jobs))
    before: dict[str, bytes] = {}
    for _ in range(kills):
        mark = secrets.token_hex(8)
        process = start(command, data, out, mark)
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(rng.uniform(0.1, 1.0) * seconds)
        if process.poll() is not None:  # it was quicker than the kill
            process.communicate()
            break
        group = rng.random() < 0.5
        kill(process, group)
        took, left = until_gone(mark)
        now = rows(out)
        tally.kills += 1
        tally.alone += not group
        tally.orphans += len(left)
        tally.slowest = max(tally.slowest, took)
        tally.lost += sum(not now.get(name, b"").startswith(content) for name, content in before.items())
        tally.partial += [name for name, content in tables(out, kind).items() if wanted.get(name) != content]
        before = now
    finish(command, data, out)
    after = rows(out)
    tally.taken_over += count(before)
    tally.lost += sum(not after.get(name, b"").startswith(content) for name, content in before.items())
    tally.runs += 1
    found = tables(out, kind)
    tally.identical += found == wanted
    tally.differs += [name for name in {*found, *wanted} if found.get(name) != wanted.get(name)]
    known = {*wanted, *kind.differs}
    tally.stray += [name for name in files(out) if name not in known and not name.endswith(".journal")]


def plan(kills: int, rng: random.Random) -> Iterator[tuple[Kind, int, int]]:
    """Kinds of runs, numbers of processes, and how often each run is killed."""
    turns = [(kind, jobs) for jobs in (1, 2) for kind in KINDS]
    done = 0
    while done < kills:
        for kind, jobs in turns:
            if done < kills:
                now = min(rng.randint(1, ROW), kills - done)
                done += now
                yield kind, jobs, now


def code() -> str:
    """A digest of the package: runs of different code say nothing about kills."""
    content = hashlib.sha256()
    for path in sorted(Path(dd.__file__).parent.rglob("*.py")):
        content.update(path.read_bytes())
    return content.hexdigest()


def write_tables(folder: Path, seed: int) -> None:
    """Two tables, the same in groups, and a study with covariates, donors and gaps."""
    pair = dd.simulate_pair(8, neighbours=3, changes=3, rng=seed)
    names, frames = [f"X{j}" for j in range(8)], []
    for name, model, k in (("first", pair.first, 1), ("second", pair.second, 2)):
        frames.append(pd.DataFrame(model.sample(400, rng=seed + k), columns=names))
        frames[-1].to_csv(folder / f"{name}.csv", index=False)
    doses = [frame.assign(dose=dose) for dose, frame in zip(("none", "high"), frames, strict=True)]
    pd.concat([*doses, doses[1].iloc[::2].assign(dose="low")]).to_csv(folder / "groups.csv", index=False)
    rng = np.random.default_rng(seed)
    for k, frame in enumerate(frames, start=1):
        own = frame.iloc[:160, :5].mask(rng.random((160, 5)) < 0.03)
        own = own.assign(age=rng.uniform(20, 80, 160).round(), donor=[f"d{j % 8}" for j in range(160)])
        own.to_csv(folder / f"study{k}.csv", index=False)
    (folder / "tmp").mkdir()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kills", type=int, default=50)
    parser.add_argument("--seed", type=int, default=900_000)
    options = parser.parse_args()
    rng = random.Random(options.seed)
    tallies: dict[tuple[str, int], Tally] = {}
    before = code()
    with tempfile.TemporaryDirectory() as name:
        data = Path(name)
        write_tables(data, options.seed)
        wanted: dict[str, tuple[dict[str, bytes], float]] = {}
        for kind, jobs, kills in plan(options.kills, rng):
            if kind.name not in wanted:
                begun = time.monotonic()
                finish((*kind.arguments, "--jobs", "1"), data, data / kind.name)
                wanted[kind.name] = tables(data / kind.name, kind), time.monotonic() - begun
            tally = tallies.setdefault((kind.name, jobs), Tally())
            target = tally.kills + kills
            while tally.kills < target:
                one_run(kind, jobs, data, *wanted[kind.name], rng, tally, target - tally.kills)
            print(kind.name, jobs, tally, file=sys.stderr, flush=True)
        left = [path.name for path in (data / "tmp").iterdir()]
    rows = [[*key, *tally.cells()] for key, tally in tallies.items()]
    settings = {
        "kills": options.kills,
        "seed": options.seed,
        "left in the folder for temporary files": left,
        "code changed during the run": code() != before,
        "files that differ": sorted(name for tally in tallies.values() for name in tally.differs),
    }
    print_table("Killed and continued", COLUMNS, rows, section="kills", settings=settings)


if __name__ == "__main__":
    main()
