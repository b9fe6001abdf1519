"""Kills, full disks, closed streams, signals: nothing finished is lost, outputs are complete or absent.

`benchmarks/kills.py` and `benchmarks/leaks.py` do the same many times over.
"""

from __future__ import annotations

import errno
import functools
import importlib
import itertools
import os
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
import warnings
from contextlib import contextmanager
from pathlib import Path

import pytest
from studies import ROOT

import diffdag as dd
from diffdag import __main__ as cli
from diffdag import __main__ as program
from diffdag._base.atomic import write_atomic, write_together
from diffdag._base.errors import InputError
from diffdag._base.journal import Journal
from diffdag.app.serve.folder import NEW, PREFIX, keep_answer, remove_abandoned
from diffdag.trust.resampling import resample_tables

PLAN = ["plan", "--p", "10", "--changes", "2"]
pytestmark = [
    pytest.mark.faults,
    pytest.mark.skipif(sys.platform != "linux", reason="signals, limits and /proc of Linux"),
]


@pytest.fixture(scope="module")
def kills():
    """The module of the benchmark."""
    sys.path.insert(0, str(ROOT / "benchmarks"))
    try:
        yield importlib.import_module("kills")
    finally:
        sys.path.remove(str(ROOT / "benchmarks"))
        for name in ("kills", "record", "measure"):
            sys.modules.pop(name, None)


@pytest.fixture(scope="module")
def data(kills, tmp_path_factory):
    folder = tmp_path_factory.mktemp("data")
    kills.write_tables(folder, 880_500)
    return folder


@contextmanager
def largest_file(size):
    """No file grows beyond a size: what a full disk does to a write, half of which may still succeed."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


class TestKills:
    @pytest.mark.parametrize(
        ("index", "jobs", "group"), [(0, "2", False), (2, "1", True), (2, "2", True), (3, "1", False)], ids=str
    )
    def test_a_killed_run_ends_as_if_nothing_had_happened(self, kills, data, tmp_path, index, jobs, group):
        kind = kills.KINDS[index]
        tables = [str(data / name) for name in kind.arguments[1:3]]
        fewer = {"60": "24", "99": "19"}
        command = [
            kind.arguments[0],
            *tables,
            *(fewer.get(word, word) for word in kind.arguments[3:]),
            "--jobs",
        ]
        whole = tmp_path / "whole"
        assert cli.run([*command, "1", "--out", str(whole)]) == 0
        wanted = kills.tables(whole, kind)
        for attempt in range(10):  # on a busy machine a run may end before it is killed
            out, mark = tmp_path / f"out-{attempt}", f"{tmp_path.name}-{attempt}"
            process = kills.start([*command, jobs], data, out, mark)
            while kills.count(kills.rows(out)) < 3 and process.poll() is None:
                time.sleep(0.01)
            kills.kill(process, group)
            assert kills.until_gone(mark)[1] == []
            before = kills.rows(out)
            if 3 <= kills.count(before) < 24:
                break
        else:
            pytest.fail("never killed in the middle")
        (out / f".{next(iter(wanted))}.0123456789ab.tmp").write_text("half of")  # as if killed while it wrote
        assert cli.run([*command, "1", "--out", str(out)]) == 0
        assert all(kills.rows(out)[name].startswith(content) for name, content in before.items())
        assert kills.tables(out, kind) == wanted
        assert set(kills.files(out)) == set(kills.files(whole))

    def test_workers_end_with_a_parent_that_was_killed_before_it_gave_them_work(self, kills, tmp_path):
        code = (
            "import time; from diffdag._base.parallel import run_all; "
            "list(run_all(time.sleep, [60] * 4, jobs=2))"
        )
        environment = {**os.environ, kills.MARK: tmp_path.name}
        process = subprocess.Popen([sys.executable, "-c", code], env=environment, start_new_session=True)
        while len(kills.alive(tmp_path.name)) < 4 and process.poll() is None:  # itself, a tracker, two workers
            time.sleep(0.01)
        kills.kill(process, group=False)
        assert kills.until_gone(tmp_path.name)[1] == []


class TestJournal:
    def test_what_a_full_disk_leaves_of_a_row_costs_no_other(self, tmp_path):
        path = tmp_path / "rows.journal"
        about, row = {"size": 1}, {"a": 2, "value": "text"}
        with Journal(path, about, ("a",)).open() as journal:
            journal.append({"a": 1, "value": "first"})
        before = path.read_bytes()
        with Journal(path, about, ("a",)).open() as journal:
            for size in range(len(before), len(before) + 20):
                with largest_file(size), pytest.raises(OSError, match="too large") as error:
                    journal.append(row)
                assert error.value.filename == str(path)
                assert path.read_bytes() == before
            assert list(journal.rows) == [(1,)]
            journal.append(row)
        with Journal(path, about, ("a",)).open() as journal:
            assert list(journal.rows) == [(1,), (2,)]

    def test_a_run_killed_in_its_first_line_can_be_begun_again(self, tmp_path):
        path = tmp_path / "rows.journal"
        with Journal(path, {"size": 1}, ("a",)).open():
            line = path.read_bytes()
        for length in range(len(line)):
            path.write_bytes(line[:length])
            with Journal(path, {"size": 1}, ("a",)).open():
                assert path.read_bytes() == line
        for size in range(len(line)):
            path.unlink(missing_ok=True)
            with largest_file(size), pytest.raises(OSError, match="too large"):
                Journal(path, {"size": 1}, ("a",)).open().__enter__()
            assert path.read_bytes() == b""

    def test_other_data_are_refused_before_the_fit(self, data, tmp_path, monkeypatch, capsys):
        tables = [str(data / name) for name in ("first.csv", "second.csv")]
        wishes = ["--resamples", "20", "--permutations", "19", "--jobs", "1", "--out", str(tmp_path)]
        assert cli.run(["fit", *tables, *wishes]) == 0
        path = ["path", *tables, "--by", "stability", "--fits", "2", "--penalties", "1", "--jobs", "1"]
        assert cli.run([*path, "--out", str(tmp_path)]) == 0
        written = {file: file.read_bytes() for file in tmp_path.rglob("*") if file.is_file()}

        def never(*_, **__):
            raise AssertionError("worked out in vain")

        monkeypatch.setattr("diffdag.pipeline.search", never)
        monkeypatch.setattr("diffdag.refits.search", never)
        capsys.readouterr()
        for command in (["fit", *tables[::-1], *wishes], [*path, "--seed", "5", "--out", str(tmp_path)]):
            assert cli.run(command) == 2
            message = capsys.readouterr().err
            assert "other settings, or on other data" in message
            assert message.count("\n") == 1
        with Journal(tmp_path / "resamples-half.journal", {}, ()).path.open("rb") as other:
            import fcntl  # noqa: PLC0415

            fcntl.flock(other, fcntl.LOCK_EX)
            assert cli.run(["fit", *tables, *wishes]) == 2
        assert "another run is writing here" in capsys.readouterr().err
        assert {file: file.read_bytes() for file in tmp_path.rglob("*") if file.is_file()} == written

    def test_several_conditions_are_refused_before_their_search(self, data, tmp_path, monkeypatch, capsys):
        rows = [(data / name).read_text().splitlines() for name in ("first.csv", "second.csv")]
        groups = {"a": rows[0][1:], "b": rows[1][1:], "c": rows[1][1:300]}
        table, out = tmp_path / "table.csv", tmp_path / "out"
        lines = [f"{row},{group}" for group, part in groups.items() for row in part]
        table.write_text("\n".join([f"{rows[0][0]},G", *lines]))
        command = ["fit", str(table), "--group", "G", "--reference", "a", "--resamples", "20", "--jobs", "1"]
        command += ["--out", str(out)]
        assert cli.run(command) == 0
        (out / "2-a-c" / "resamples-half.journal").write_bytes(b'{"run": "resa')  # killed in its first line
        written = {file: file.read_bytes() for file in out.rglob("*") if file.is_file()}

        def search(*_, **__):
            raise InputError("all is well so far")

        monkeypatch.setattr("diffdag.conditions.search_jointly", search)
        capsys.readouterr()
        refusal = "resamples-bootstrap.journal: a run with other settings, or on other data, was kept here"
        for other, message in (
            ([], "all is well so far"),
            (["--penalty", "3"], refusal),
            (["--seed", "5"], refusal),
        ):
            assert cli.run([*command, *other]) == 2
            assert message in capsys.readouterr().err
        table.write_text("\n".join([f"{rows[0][0]},G", *lines[:-1]]))
        assert cli.run(command) == 2
        assert f"2-a-c{os.sep}{refusal}" in capsys.readouterr().err
        assert {file: file.read_bytes() for file in out.rglob("*") if file.is_file()} == written


class TestFiles:
    def test_a_full_disk_leaves_the_older_answer_whole(self, tmp_path):
        old, new = {"a": "old", "sub/b": "old"}, {"a": "n" * 10, "sub/b": "new" * 20}
        write_together(tmp_path, old)
        for size in range(60):
            with largest_file(size), pytest.raises(OSError, match="too large"):
                write_together(tmp_path, new)
            files = {
                path.relative_to(tmp_path).as_posix(): path.read_text() for path in tmp_path.rglob("*.*") or ()
            }
            assert files == {}, "temporary files stay"
            assert {name: (tmp_path / name).read_text() for name in old} == old
        write_together(tmp_path, new)
        assert {name: (tmp_path / name).read_text() for name in new} == new

    def test_results_and_moments_on_a_full_disk(self, tmp_path):
        pair = dd.simulate_pair(4, neighbours=2, changes=1, rng=880_501)
        tables = pair.first.sample(200, rng=1), pair.second.sample(200, rng=2)
        result = dd.DifferenceDAG().fit(*tables).result_
        moments = dd.Moments.from_array(tables[0])
        for size in (0, 1000, 10_000):
            with largest_file(size), pytest.raises(OSError, match="too large"):
                result.save(tmp_path / "answer")
            assert list((tmp_path / "answer").iterdir()) == []
        for size in (0, 100, 1000):
            with largest_file(size), pytest.raises(OSError, match="too large"):
                moments.save(tmp_path / "m.npz")
            assert not (tmp_path / "m.npz").exists()

    def test_a_folder_in_the_place_of_a_file_changes_no_other(self, tmp_path):
        (tmp_path / "b").mkdir()
        with pytest.raises(IsADirectoryError):
            write_together(tmp_path, {"a": "new", "b": "new"})
        assert [path.name for path in tmp_path.iterdir()] == ["b"]

    def test_only_leftovers_of_the_same_file_are_removed(self, tmp_path):
        names = [
            ".a.txt.0123456789ab.tmp",
            ".b.txt.0123456789ab.tmp",
            ".a.txt.mine.tmp",
            "a.txt.0123456789ab.tmp",
        ]
        for name in names:
            (tmp_path / name).write_text("x")
        write_atomic(tmp_path / "a.txt", "new")
        assert {path.name for path in tmp_path.iterdir()} == {"a.txt", *names[1:]}

    @pytest.mark.parametrize("others", [False, True], ids=["a folder of its own", "with other files"])
    def test_two_programs_never_mix_their_files(self, tmp_path, monkeypatch, others):
        if others:  # files are then replaced one after the other
            (tmp_path / "mine.txt").touch()
        replace = os.replace
        pauses = {("one", "b"): 0.3, ("two", "a"): 0.1}  # all of two's come between one's first and second

        def slow(source, target):
            time.sleep(pauses.get((threading.current_thread().name, target.name), 0))
            replace(source, target)

        monkeypatch.setattr(os, "replace", slow)
        contents = {who: dict.fromkeys("abc", who) for who in ("one", "two")}
        writers = [
            threading.Thread(target=write_together, args=(tmp_path, contents[who]), name=who)
            for who in contents
        ]
        for writer in writers:
            writer.start()
        for writer in writers:
            writer.join()
        assert len({(tmp_path / name).read_text() for name in "abc"}) == 1

    def test_a_folder_that_vanishes_and_one_that_cannot_be_made(self, data, tmp_path, monkeypatch, capsys):
        tables = [str(data / name) for name in ("first.csv", "second.csv")]
        (tmp_path / "file").write_text("x")
        assert cli.run(["fit", *tables, "--out", str(tmp_path / "file" / "out")]) == 2
        gone = tmp_path / "gone"

        def vanishing(*arguments, **options):
            answer = resample_tables(*arguments, **options)
            shutil.rmtree(gone)
            return answer

        monkeypatch.setattr("diffdag.pipeline.resample_tables", vanishing)
        options = ["--resamples", "20", "--permutations", "19", "--jobs", "1"]
        assert cli.run(["fit", *tables, *options, "--out", str(gone)]) == 0
        assert {"report.html", "result.json"} <= {path.name for path in gone.iterdir()}
        assert capsys.readouterr().err.count("\n") == 1


@pytest.fixture(scope="module")
def fits():
    """What two saves write, and a third, of several conditions."""
    tables = [dd.simulate_pair(3, neighbours=2, changes=1, rng=880_510 + k).first for k in range(3)]
    rows = {f"g{k}": model.sample(60, rng=k) for k, model in enumerate(tables)}
    two = [dd.DifferenceDAG().fit(rows["g0"], rows[name]).result_ for name in ("g1", "g2")]
    return *two, dd.fit_conditions(rows, reference="g0")


class TestSaves:
    """A save that ends at any step leaves files of one fit: those before it, its own, or some of either."""

    CALLS = ("replace", "rename", "link", "fsync", "unlink", "rmdir", "mkdir", "chmod")

    @pytest.fixture(autouse=True)
    def _rendered_once(self, monkeypatch):
        for kind in (dd.DifferenceResult, dd.ConditionsResult):
            monkeypatch.setattr(kind, "rendered", functools.cache(kind.rendered))

    @pytest.fixture(params=["in one step", "in two steps"])
    def _exchanged(self, request, monkeypatch):
        if request.param == "in two steps":
            monkeypatch.setattr("ctypes.CDLL", lambda _: None)

    @staticmethod
    def contents(result):
        if isinstance(result, dd.DifferenceResult):
            return result.rendered()
        parts = {
            f"{name}/{file}": content
            for pair, name in result.folders().items()
            for file, content in result.pairs[pair].rendered().items()
        }
        return {**result.rendered(), **parts}

    @staticmethod
    def counting(patched, end, number):
        """Let the program end at the given one of all its calls that change a file."""
        calls = itertools.count(1)

        def call(real, *arguments, **options):
            if next(calls) == number:
                end()
            return real(*arguments, **options)

        for name in TestSaves.CALLS:
            patched.setattr(os, name, functools.partial(call, getattr(os, name)))
        return calls

    @pytest.mark.usefixtures("_exchanged")
    @pytest.mark.parametrize(
        "before", ["nothing", "a result", "a result and another file", "several conditions"]
    )
    @pytest.mark.parametrize("ends", ["killed", "interrupted"])
    def test_ended_at_every_step(self, fits, tmp_path, before, ends):
        one, two, several = fits
        out = tmp_path / "out"
        for number in itertools.count(1):
            shutil.rmtree(out, ignore_errors=True)
            earlier = several if before == "several conditions" else one
            if before != "nothing":
                earlier.save(out)
            if before == "a result and another file":
                (out / "mine.txt").write_text("mine")
            done = self.killed(two, out, number) if ends == "killed" else self.stopped(two, out, number)
            found = (
                {}
                if not out.exists()
                else {
                    path.relative_to(out).as_posix(): path.read_bytes()
                    for path in out.rglob("*")
                    if path.is_file() and path.name[0] != "."
                }
            )
            assert (found.pop("mine.txt", None) is not None) == (before == "a result and another file")
            wholes = [self.contents(two), {} if before == "nothing" else self.contents(earlier)]
            if ends == "killed":
                assert any(found.items() <= whole.items() for whole in wholes), (number, sorted(found))
            else:
                assert found in wholes, (number, sorted(found))
            two.save(out)
            left = {path.name for path in tmp_path.rglob("*") if ".tmp" in path.name}
            assert not left, (number, left)
            if done:
                break
        assert number > 10, "there are more steps than that"

    def killed(self, result, out, number):
        """Save in a child that is killed at a step; whether it came to its end."""
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # other threads: the child uses none of them
            child = os.fork()
        if child == 0:
            with pytest.MonkeyPatch.context() as patched:
                self.counting(patched, lambda: os.kill(os.getpid(), signal.SIGKILL), number)
                result.save(out)
            os._exit(0)
        return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0

    def stopped(self, result, out, number):
        """Save and be interrupted at a step; whether it came to its end."""

        def end():
            raise KeyboardInterrupt

        try:
            with pytest.MonkeyPatch.context() as patched:
                calls = self.counting(patched, end, number)
                result.save(out)
        except KeyboardInterrupt:
            return False
        return next(calls) <= number


class TestProgram:
    @pytest.fixture(autouse=True)
    def _same_signals(self):
        numbers = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
        before = {number: signal.getsignal(number) for number in numbers}
        signal.signal(signal.SIGINT, signal.default_int_handler)
        for number in (signal.SIGHUP, signal.SIGTERM):  # in the background, and where coverage is measured
            signal.signal(number, signal.SIG_DFL)
        yield
        for number, handler in before.items():
            signal.signal(number, handler)

    @pytest.mark.parametrize(
        ("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGHUP, 129)]
    )
    def test_the_exit_code_tells_the_signal(self, monkeypatch, capsys, number, code):
        monkeypatch.setattr(sys, "argv", ["diffdag", *PLAN])

        def signalled(*_, **__):
            os.kill(os.getpid(), number)
            time.sleep(5)

        monkeypatch.setattr("diffdag.reproduce.planning.plan", signalled)
        with pytest.raises(SystemExit) as end:
            program.main()
        assert end.value.code == code
        assert capsys.readouterr().err == "diffdag: interrupted\n"

    def test_interrupted_while_the_commands_are_imported(self, monkeypatch, capsys):
        monkeypatch.setattr(program, "_open_streams", lambda: os.kill(os.getpid(), signal.SIGINT))
        with pytest.raises(SystemExit) as end:
            program.main()
        assert end.value.code == 130
        assert capsys.readouterr().err == "diffdag: interrupted\n"

    def test_what_somebody_has_ignored_stays_ignored(self, monkeypatch):
        signal.signal(signal.SIGHUP, signal.SIG_IGN)
        monkeypatch.setattr(sys, "argv", ["diffdag", "--version"])
        with pytest.raises(SystemExit):
            program.main()
        assert signal.getsignal(signal.SIGHUP) is signal.SIG_IGN

    @pytest.mark.parametrize(
        ("streams", "code", "says"),
        [
            (">&- 2>&- <&-", 0, ""),
            ("2>&-", 0, None),
            (">/dev/full", 2, "diffdag: error: No space left on device; make room on the disk"),
            ("--p=0 2>/dev/full", 2, ""),
            ("2>&1 | true; exit ${PIPESTATUS[0]}", 0, ""),
        ],
    )
    def test_streams_that_are_closed_or_full(self, streams, code, says):
        command = f"exec {sys.executable} -m diffdag {' '.join(PLAN)} {streams}".replace(
            "exec " if "|" in streams else "\0", ""
        )
        shell = subprocess.run(["bash", "-c", command], capture_output=True, text=True, check=False)
        assert shell.returncode == code, shell.stderr
        assert shell.stderr.startswith(says or "")
        assert shell.stderr.count("\n") <= 1
        assert ("rows" in shell.stdout) == (says is None)


class TestServe:
    def test_an_answer_is_kept_completely_or_not_at_all(self, tmp_path, monkeypatch):
        answer, out = tmp_path / "answer", tmp_path / "out"
        answer.mkdir()
        out.mkdir()
        for name in ("report.html", "result.json"):
            (answer / name).write_text(name)
        (out / ".answer-0123456789ab.part").mkdir()  # of a server that was killed
        with monkeypatch.context() as patched:

            def full(source, target, **_):
                Path(target).write_text("half")
                raise OSError(errno.ENOSPC, "full")

            patched.setattr(shutil, "copyfile", full)
            with pytest.raises(OSError, match="full"):
                keep_answer(answer, out)
        assert list(out.iterdir()) == []
        assert [keep_answer(answer, out).name for _ in "12"] == ["answer-1", "answer-2"]
        assert len(list(out.rglob("*"))) == 6

    def test_a_folder_without_a_lock_goes_once_it_is_old(self, tmp_path, monkeypatch):
        monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
        new, old = (tmp_path / f"{PREFIX}{age}" for age in ("new", "old"))
        for folder in (new, old):
            folder.mkdir()
        past = time.time() - NEW - 10
        os.utime(old, (past, past))
        remove_abandoned()
        assert list(tmp_path.iterdir()) == [new]
