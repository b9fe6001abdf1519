"""What stays behind: files and processes of programs that were killed or interrupted, belongings of many fits.

`benchmarks/leaks.py` does the last of these a thousand times.
"""

from __future__ import annotations

import functools
import gc
import importlib
import os
import signal
import subprocess
import sys
import time
import tracemalloc
from collections import Counter

import httpx
import numpy as np
import pyarrow as pa
import pytest
from pyarrow import csv
from studies import ROOT

import diffdag as dd
from diffdag import __main__ as cli
from diffdag.app.serve.session import Session

SEED = 880_700
MAIN = "from diffdag.__main__ import main; main()"
# The interpreter keeps the last few thousand names of attributes that were asked for.
CLEAR_CACHES = getattr(sys, "_clear_internal_caches", None) or sys._clear_type_cache
pytestmark = [
    pytest.mark.faults,
    pytest.mark.skipif(sys.platform != "linux", reason="signals and /proc of Linux"),
]


@pytest.fixture(scope="module")
def benchmarks():
    """The modules of two benchmarks, by name."""
    sys.path.insert(0, str(ROOT / "benchmarks"))
    try:
        yield {name: importlib.import_module(name) for name in ("kills", "leaks")}
    finally:
        sys.path.remove(str(ROOT / "benchmarks"))
        for name in ("kills", "leaks", "record", "measure"):
            sys.modules.pop(name, None)


@pytest.fixture(scope="module")
def kills(benchmarks):
    return benchmarks["kills"]


def wait_until(test, process, seconds=300):  # on a busy machine
    end = time.monotonic() + seconds
    while not test():
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < end, "waited in vain"
        time.sleep(0.01)


class TestMoments:
    """`diffdag moments`, killed: the file is the old one or the new one, and nothing else stays."""

    def test_at_random_moments(self, kills, tmp_path):
        table, whole, out = tmp_path / "rows.csv", tmp_path / "whole.npz", tmp_path / "out" / "m.npz"
        rows = np.random.default_rng(SEED).standard_normal((100_000, 8))
        csv.write_csv(pa.table({f"X{k}": column for k, column in enumerate(rows.T)}), table)
        out.parent.mkdir()
        (tmp_path / "tmp").mkdir()
        begun = time.monotonic()
        undisturbed = kills.start(["moments", str(table)], tmp_path, whole)
        undisturbed.communicate(timeout=300)
        assert undisturbed.returncode == 0
        longest = time.monotonic() - begun
        rng = np.random.default_rng(SEED)
        for _ in range(2):
            process = kills.start(["moments", str(table)], tmp_path, out)
            time.sleep(rng.uniform(0.3, 1) * longest)
            kills.kill(process, group=False)
            assert not out.exists() or out.read_bytes() == whole.read_bytes()
            out.unlink(missing_ok=True)
        assert cli.run(["moments", str(table), "--out", str(out)]) == 0
        assert {path.name for path in out.parent.iterdir()} == {"m.npz"}
        assert out.read_bytes() == whole.read_bytes()
        assert list((tmp_path / "tmp").iterdir()) == []

    @pytest.mark.parametrize("moment", ["fsync", "replace"])
    def test_while_the_file_is_written(self, tmp_path, moment):
        rows, out = tmp_path / "rows.csv", tmp_path / "out" / "m.npz"
        out.parent.mkdir()
        out.write_bytes(b"old")
        rows.write_text("a,b\n1,2\n3,5\n4,4\n")
        code = f"import os, signal; os.{moment} = lambda *_: os.kill(os.getpid(), signal.SIGKILL); {MAIN}"
        command = ["moments", str(rows), "--out", str(out)]
        ended = subprocess.run([sys.executable, "-c", code, *command], check=False, capture_output=True)
        assert ended.returncode == -signal.SIGKILL, ended.stderr
        assert out.read_bytes() == b"old"
        assert len(list(out.parent.iterdir())) == 2
        assert cli.run(command) == 0
        assert [path.name for path in out.parent.iterdir()] == ["m.npz"]
        assert dd.Moments.load(out).n == 3


@pytest.mark.parametrize("moment", ["fsync", "replace"])
@pytest.mark.parametrize(
    "words", [["export"], ["explain", "--target", "X2", "--out"]], ids=["export", "explain"]
)
@pytest.mark.parametrize("ending", ["pdf", "png", "svg"])
def test_figures_killed_while_they_are_written(tmp_path, words, moment, ending):
    """The file is the old one or the new one, and nothing else stays."""
    pair = dd.simulate_pair(3, neighbours=2, changes=1, rng=SEED)
    dd.DifferenceDAG().fit(pair.first.sample(90, rng=1), pair.second.sample(90, rng=2)).result_.save(tmp_path)
    out = tmp_path / "out" / f"figure.{ending}"
    out.parent.mkdir()
    out.write_bytes(b"old")
    command = [words[0], str(tmp_path / "result.json"), *words[1:], str(out)]
    child = os.fork()
    if child == 0:
        setattr(os, moment, lambda *_: os.kill(os.getpid(), signal.SIGKILL))
        os._exit(cli.run(command))
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == -signal.SIGKILL
    assert out.read_bytes() == b"old"
    assert cli.run(command) == 0
    assert [path.name for path in out.parent.iterdir()] == [out.name]
    assert out.read_bytes()[:4] in (b"%PDF", b"\x89PNG", b"<svg", b"<?xm")


def test_a_server_killed_with_resamples_at_work(kills, tmp_path, monkeypatch, request):
    """Its worker, and the processes of that, end by themselves; the next server removes its folder."""
    kills.write_tables(tmp_path, SEED + 1)
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "tmp"))
    environment = {**os.environ, kills.MARK: tmp_path.name, "TMPDIR": str(tmp_path / "tmp")}
    arguments = ["serve", "--port", "0", "--no-browser", "--out", str(tmp_path / "out")]
    process = subprocess.Popen(
        [sys.executable, "-m", "diffdag", *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        env=environment,
        text=True,
    )
    request.addfinalizer(process.kill)  # whatever fails below
    address = process.stdout.readline().strip()
    with httpx.Client(base_url=address.split("/?")[0], timeout=300) as client:
        client.get(address)
        keys = [
            client.post(f"/files?name={name}", content=(tmp_path / name).read_bytes()).json()["key"]
            for name in ("first.csv", "second.csv")
        ]
        client.post("/jobs", json={"files": keys, "options": {"sure": True}}).raise_for_status()
    (folder,) = (tmp_path / "tmp").glob("diffdag-serve-*")
    wait_until(lambda: kills.count(kills.rows(folder)) > 2, process)
    assert len(kills.alive(tmp_path.name)) > 1
    kills.kill(process, group=False)
    assert kills.until_gone(tmp_path.name)[1] == []
    assert list((tmp_path / "out").iterdir()) == []
    Session(limit=1).close()
    assert [path.name for path in (tmp_path / "tmp").iterdir() if path.name.startswith("diffdag")] == []


def test_ctrl_c_in_a_terminal_reaches_all_processes(kills, tmp_path):
    """Also those that have just begun to import what they need."""
    kills.write_tables(tmp_path, SEED + 1)
    out, mark = tmp_path / "out", tmp_path.name
    wishes = ["fit", "first.csv", "second.csv", "--resamples", "2000", "--jobs", "2"]
    process = kills.start(wishes, tmp_path, out, mark)
    wait_until(lambda: len(kills.alive(mark)) >= 4, process)  # itself, a tracker or two, a worker or two
    time.sleep(0.3)
    os.killpg(process.pid, signal.SIGINT)
    _, said = process.communicate(timeout=300)
    assert process.returncode == 130
    kept = "diffdag: what is finished is kept; the same command continues\n"  # not where nothing has begun
    assert said.decode().removeprefix(kept) == "diffdag: interrupted\n"
    assert kills.until_gone(mark)[1] == []
    assert list((tmp_path / "tmp").iterdir()) == []


def own_objects():
    """How many objects there are of each type of this package."""
    gc.collect()
    kinds = Counter(map(type, gc.get_objects()))
    return {kind: count for kind, count in kinds.items() if str(kind.__module__).startswith("diffdag")}


def own_memory():
    """Bytes that lines of this package asked for since the tracing began and have not given back.

    Caches with a limit are emptied: what is in them depends on the fits before.
    """
    for cached in [one for one in gc.get_objects() if isinstance(one, functools._lru_cache_wrapper)]:
        if str(cached.__module__).startswith("diffdag") and cached.cache_parameters()["maxsize"] is not None:
            cached.cache_clear()
    gc.collect()
    CLEAR_CACHES()
    lines = tracemalloc.take_snapshot().filter_traces([tracemalloc.Filter(True, f"{ROOT}/src/*")])
    return {str(line.traceback): line.size for line in lines.statistics("lineno")}


def test_fits_leave_nothing_behind(benchmarks, tmp_path, monkeypatch):
    leaks = benchmarks["leaks"]
    out, temporary = tmp_path / "out", tmp_path / "tmp"
    temporary.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(temporary))
    kinds = len(leaks.OPTIONS)
    for k in range(kinds):
        leaks.fit_once(SEED + k, out)
    before, objects = leaks.settled(lambda: leaks.belongings(temporary)), own_objects()
    tracemalloc.start()
    try:
        memory = []
        for _ in range(2):
            for k in range(kinds):
                leaks.fit_once(SEED + k, out)
            memory.append(own_memory())
    finally:
        tracemalloc.stop()
    end = time.monotonic() + 60  # what is ending may take a while
    while leaks.belongings(temporary) != before and time.monotonic() < end:
        time.sleep(0.5)
    assert leaks.belongings(temporary) == before
    assert own_objects() == objects
    first, second = memory
    growth = {line: size - first.get(line, 0) for line, size in second.items()}
    assert sum(second.values()) - sum(first.values()) < 500, growth
