"""diffdag serve over real HTTP: the whole path, and what it has to survive."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import http.client
import io
import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
import zipfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from urllib.parse import quote, urlsplit

import httpx
import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from diffdag import __main__ as cli
from diffdag._base.errors import InputError
from diffdag.app.serve import app
from diffdag.app.serve import worker as work
from diffdag.app.serve.child import FAULT, LOST, Child, LostError
from diffdag.app.serve.folder import Folder
from diffdag.app.serve.jobs import Job, Jobs
from diffdag.app.serve.options import DEFAULTS, check_options, settings_of
from diffdag.app.serve.preview import Roles, compare, group_columns, preview_tables
from diffdag.app.serve.server import open_port
from diffdag.app.serve.session import Session
from diffdag.app.serve.uploads import ENDINGS, UnknownError, Uploads, label_of
from diffdag.model.simulate import simulate_pair
from diffdag.tables.align import align_tables
from diffdag.tables.readers import files
from diffdag.tables.readers.endings import CELLS, FEATHER, PARQUET

PAIR = simulate_pair(p=4, neighbours=2, changes=1, weights=(0.8, 1.0), rng=4)
FIRST, SECOND = (
    pd.DataFrame(model.sample(300, rng=seed), columns=["a", "b", "c", "d"])
    for seed, model in enumerate((PAIR.first, PAIR.second))
)
WIDE = pd.DataFrame(np.random.default_rng(3).standard_normal((400, 40)), columns=[f"x{k}" for k in range(40)])
LIMIT = 1  # megabytes


def nested_pair():
    """Rows of four donors each that differ much, with an age, a kit that is the condition, and some gaps."""
    tables = []
    for number, frame in enumerate((FIRST, SECOND), start=1):
        rng = np.random.default_rng(number)
        donor = rng.integers(0, 4, len(frame))
        table = frame + rng.normal(scale=2.0, size=(4, 4))[donor]
        table.loc[:39, "a"] = np.nan
        names = [f"d{number}{k}" for k in donor]
        tables.append(table.assign(donor=names, kit=f"k{number}", age=rng.normal(50, 9, len(frame)).round(1)))
    return tables


def awaited(coroutine):
    """What a coroutine gives; in a thread of its own, as a browser may have a loop running in this one."""
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(asyncio.run, coroutine).result()


def text(frame):
    return frame.to_csv(index=False).encode()


class Server:
    """A real `diffdag serve`, and a client that has entered."""

    WELCOME = (
        "diffdag: the page is open to you alone, and nothing leaves this computer; Ctrl-C ends the program\n"
    )

    def __init__(self, folder: Path) -> None:
        self.folder, self.out = folder, folder / "out"
        command = [sys.executable, "-m", "diffdag", "serve", "--port", "0", "--no-browser"]
        command += ["--limit", str(LIMIT), "--out", str(self.out)]
        with (folder / "stderr").open("wb") as errors:
            self.process = subprocess.Popen(
                command,
                stdout=subprocess.PIPE,
                stderr=errors,
                env={**os.environ, "TMPDIR": str(folder)},
                text=True,
            )
        assert self.process.stdout is not None
        self.address = self.process.stdout.readline().strip()
        self.base = self.address.split("/?")[0]
        self.port = urlsplit(self.base).port
        self.client = httpx.Client(base_url=self.base, timeout=60)
        self.entered = self.client.get(self.address)

    @property
    def said(self):
        return (self.folder / "stderr").read_text()

    @property
    def stored(self):
        """What it keeps in its temporary folder."""
        parts = [
            Path(place) / name
            for folder in self.folder.glob("diffdag-serve-*")
            for part in ("uploads", "tasks", "jobs")
            for place, _, names in os.walk(folder / part)
            for name in names
        ]
        return sorted(parts)

    def upload(self, name, content):
        return self.client.post(f"/files?name={quote(name)}", content=content)

    def upload_pair(self, *frames):
        names = ("before.csv", "after.csv")
        return [self.upload(name, text(frame)).json()["key"] for name, frame in zip(names, frames, strict=True)]

    def look(self, keys, **options):
        return self.client.post("/look", json={"files": keys, "options": options})

    def start(self, keys, **options):
        return self.client.post("/jobs", json={"files": keys, "options": options})

    def job(self, key):
        return next(job for job in self.client.get("/state").json()["jobs"] if job["key"] == key)

    def wait_for(self, key, *states):
        def reached():
            job = self.job(key)
            return job if job["state"] in states else None

        return until(reached)

    def cancel(self, key):
        assert self.client.post(f"/jobs/{key}/cancel").status_code == 204

    def close(self):
        self.client.close()
        self.process.send_signal(signal.SIGINT)
        assert self.process.stdout is not None
        with self.process.stdout:
            self.process.wait(timeout=20)


def until(test, seconds=60):
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if found := test():
            return found
        time.sleep(0.05)
    raise AssertionError("waited in vain")


def children_of(pid):
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):  # it ended meanwhile
            parent = (folder / "stat").read_text().rsplit(")", 1)[1].split()[1]
            if int(parent) == pid and b"diffdag.app.serve.worker" in (folder / "cmdline").read_bytes():
                found.append(int(folder.name))
    return found


def alive(pid):
    with contextlib.suppress(OSError):
        state = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0]
        return state not in "ZX"
    return False


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    made = Server(tmp_path_factory.mktemp("server"))
    yield made
    made.close()
    assert made.process.returncode == 130
    assert made.stored == []
    assert made.said == f"{Server.WELCOME}diffdag: interrupted\n"


def raw(server, method, path, body=None, **headers):
    """A request just as written: clients of a higher kind tidy up paths and headers."""
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=20)
    cookie = "; ".join(f"{name}={value}" for name, value in server.client.cookies.items())
    sent = {"Cookie": cookie, **{name.replace("_", "-"): value for name, value in headers.items()}}
    try:
        connection.putrequest(method, path, skip_host="Host" in sent)
        for name, value in sent.items():
            connection.putheader(name, value)
        if body is not None:
            connection.putheader("Content-Length", str(len(body)))
        connection.endheaders(body)
        answer = connection.getresponse()
        return answer.status, answer.read().decode()
    finally:
        connection.close()


class TestPath:
    def test_hidden_causes_are_taken_out(self, server):
        rng = np.random.default_rng(4)
        loadings = rng.uniform(0.5, 1.0, 20)
        rows = [rng.standard_normal((150, 20)) + np.outer(rng.standard_normal(150), loadings) for _ in range(2)]
        keys = server.upload_pair(*(pd.DataFrame(own).rename(columns=lambda k: f"x{k}") for own in rows))
        key = server.start(keys, hidden=True).json()["key"]
        job = server.wait_for(key, "done", "failed")
        assert job["state"] == "done", job["message"]
        assert server.client.get(f"/jobs/{key}/result.json").json()["settings"]["hidden_causes"] == 1

    def test_from_two_files_to_a_report(self, server):
        keys = server.upload_pair(FIRST, SECOND.assign(note="x"))
        seen = server.look(keys).json()
        assert seen["labels"] == ["before", "after"]
        assert seen["rows"] == [300, 300]
        assert [column["name"] for column in seen["columns"] if column["role"] == "drop"] == ["note"]
        assert seen["problem"] is None

        started = server.start(keys, drop=["note"], hide_rows=True)
        assert started.status_code == 202
        key = started.json()["key"]
        server.client.close()  # a browser that is closed in mid-run
        server.client = httpx.Client(base_url=server.base, timeout=60)
        server.client.get(server.address)
        job = server.wait_for(key, "done", "failed")
        assert job["state"] == "done", job["message"]
        assert job["title"] == "before and after"
        assert "possible edges changed" in job["headline"]

        report = server.client.get(f"/jobs/{key}/report.html")
        assert "before" in report.text
        assert "sandbox" in report.headers["content-security-policy"]
        assert "allow-same-origin" not in report.headers["content-security-policy"]
        result = server.client.get(f"/jobs/{key}/result.json").json()
        assert result["variables"] == ["a", "b", "c", "d"]
        saved = server.client.get(f"/jobs/{key}/edges.csv?save")
        assert saved.headers["content-disposition"] == 'attachment; filename="edges.csv"'
        assert server.client.get(f"/jobs/{key}/graph.cyjs").json()["data"]["name"]
        assert server.client.get(f"/jobs/{key}/picture.svg").text.endswith("</svg>\n")
        archive = zipfile.ZipFile(io.BytesIO(server.client.get(f"/jobs/{key}/answer.zip").content))
        assert json.loads(archive.read("answer/result.json")) == result
        assert {"answer/graph.cyjs", "answer/picture.svg"} <= set(archive.namelist())
        kept = Path(job["kept"])
        assert kept.parent == server.out
        assert (kept / "report.html").read_text(encoding="utf-8") == report.text
        tables = {path.name for path in server.stored if "jobs" in path.parts and path.suffix == ".csv"}
        assert tables == {"edges.csv", "nodes.csv"}  # those of the result

    def test_one_file_with_a_group_column(self, server):
        both = pd.concat([FIRST.assign(dose="<b>none", plate=1), SECOND.assign(dose="high", plate=2)])
        both.iloc[-5:, both.columns.get_loc("dose")] = "other"
        key = server.upload("cells.csv", text(both)).json()["key"]
        seen = server.look([key]).json()
        assert seen["candidates"] == ["dose", "plate"]
        assert seen["choice"] == {"group": "dose", "first": "<b>none", "second": "high"}
        assert seen["groups"][2] == {"name": "other", "rows": 5}

    def test_roles_gaps_and_labels_reach_the_fit(self, server):
        keys = server.upload_pair(*nested_pair())
        seen = server.look(keys).json()
        assert {column["name"]: column["role"] for column in seen["columns"]} == {
            **dict.fromkeys("abcd", "compare"),
            "donor": "cluster",
            "kit": "drop",
            "age": "compare",
        }
        chosen = {"adjust": ["age"], "cluster": "donor", "missing": "em", "labels": ["<i>mild", "severe"]}
        again = server.look(keys, drop=[], **chosen).json()
        assert again["problem"] is None
        assert (again["labels"], again["names"]) == (["<i>mild", "severe"], ["before", "after"])
        job = server.wait_for(server.start(keys, **chosen).json()["key"], "done", "failed")
        assert (job["state"], job["title"]) == ("done", "<i>mild and severe"), job["message"]
        result = server.client.get(f"/jobs/{job['key']}/result.json").json()
        assert (result["labels"], result["variables"]) == (["<i>mild", "severe"], ["a", "b", "c", "d"])
        assert (result["settings"]["adjust"], result["settings"]["cluster"]) == (["age"], "donor")
        assert any("of the values are missing; means and covariances" in note for note in result["notes"])
        assert any("'kit' is 'k1' in <i>mild and 'k2' in severe: left out" in note for note in result["notes"])

    def test_what_cannot_be_is_said_before_the_start(self, server):
        keys = server.upload_pair(*nested_pair())
        told = server.look(keys, drop=[], adjust=["kit"]).json()["problem"]
        assert told.startswith(
            "covariate 'kit' coincides with the condition ('k1' in before, 'k2' in after): what"
        )
        assert told.endswith(
            "changes; leave it out (under Checks), and take the result for that of both together"
        )
        told = server.look(keys, drop=[], cluster="kit").json()["problem"]
        assert told.startswith("all rows of before belong to one 'kit'")
        assert "; leave it out (under Checks), and take" in told
        refused = server.start(keys, adjust=["donor"], cluster="donor")
        assert refused.status_code == 422
        assert refused.json()["error"] == (
            "column 'donor' is both taken out as a covariate and what rows are nested in; choose one role for "
            "it (under Checks)"
        )

    def test_the_example_is_there(self, server):
        first, second = server.client.post("/example").json()
        assert (first["name"], second["name"]) == ("baseline.csv", "u0126.csv")
        assert [path.name for path in server.stored if path.parent.name == first["key"]] == ["table.csv"]
        assert first["size"] > 100_000

    def test_two_uploads_at_once(self, server):
        contents = [b"a,b\n" + b"1,2\n" * rows for rows in (100_000, 150_000)]
        sizes = [0, 0]

        def send(k):
            cookies = dict(server.client.cookies)
            sizes[k] = httpx.post(
                f"{server.base}/files?name=t.csv", content=contents[k], cookies=cookies
            ).json()["size"]

        threads = [threading.Thread(target=send, args=(k,)) for k in range(2)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert sizes == [len(content) for content in contents]


class TestTrouble:
    def test_broken_csv_is_one_sentence(self, server):
        keys = [server.upload("good.csv", text(FIRST)).json()["key"]]
        keys.append(server.upload("bad <i>.csv", b"a,b\n1,2\n3\n").json()["key"])
        answer = server.look(keys)
        assert answer.status_code == 422
        words = "line 3 of 'bad <i>.csv' has 1 field and the header has 2; check the export"
        assert answer.json() == {"error": words}

    def test_a_fit_that_cannot_be_says_why(self, server):
        keys = server.upload_pair(FIRST, SECOND.assign(c="text"))
        key = server.start(keys).json()["key"]
        job = server.wait_for(key, "failed", "done")
        assert job["message"].startswith("column 'c' is not numeric ('text' in line 2 of '")
        assert job["message"].endswith("; leave it out (under Checks)")
        assert not job["logged"]
        assert server.client.get(f"/jobs/{key}/report.html").status_code == 404

    @pytest.mark.parametrize(
        ("asked", "status", "message"),
        [
            ({"files": ["nonsense"]}, 404, "not here any more"),
            ({"files": []}, 422, "choose one or two files"),
            ({"files": ["a"] * 3}, 422, "choose one or two files"),
            ({"files": ["a"], "options": {"first": "\ud800"}}, 404, "not here any more"),
            ([], 400, "not a JSON object"),
        ],
    )
    def test_nonsense_is_refused(self, server, asked, status, message):
        answer = server.client.post("/jobs", content=json.dumps(asked))
        assert answer.status_code == status
        assert message in answer.json()["error"]

    def test_half_a_character_and_endless_brackets(self, server):
        key = server.upload("cells.csv", text(FIRST.assign(g=["u", "v"] * 150))).json()["key"]
        asked = {"files": [key], "options": {"group": "g", "first": "\ud800", "second": "v"}}
        answer = server.client.post("/jobs", content=json.dumps(asked))
        assert answer.status_code == 422
        assert "option 'first'" in answer.json()["error"]
        for body in ("[" * 200_000, '{"a":' * 200_000):
            assert server.client.post("/look", content=body).status_code == 400
        names = io.BytesIO()
        np.savez(names, table=FIRST.to_numpy(), names=["\ud800", "b", "c", "d"])
        keys = [server.upload("t.npz", names.getvalue()).json()["key"] for _ in range(2)]
        assert json.loads(server.look(keys).content)  # whatever it says
        assert server.client.get("/state").status_code == 200

    def test_there_are_no_sockets_of_the_web(self, server):
        headers = {"Connection": "Upgrade", "Upgrade": "websocket", "Sec_WebSocket_Version": "13"}
        assert raw(server, "GET", "/state", Sec_WebSocket_Key="x", **headers)[0] == 200
        assert raw(server, "GET", "/state", Sec_WebSocket_Key="x", Cookie="", **headers)[0] == 403
        assert server.said == Server.WELCOME

    def test_one_table_needs_a_group(self, server):
        key = server.upload("one.csv", text(FIRST)).json()["key"]
        assert "the two conditions are not clear" in server.start([key]).json()["error"]

    def test_a_connection_that_breaks_off_leaves_nothing(self, server):
        before = server.stored
        cookie = "; ".join(f"{name}={value}" for name, value in server.client.cookies.items())
        with socket.create_connection(("127.0.0.1", server.port)) as wire:
            head = f"POST /files?name=t.csv HTTP/1.1\r\nHost: 127.0.0.1:{server.port}\r\nCookie: {cookie}\r\n"
            wire.sendall(head.encode() + b"Content-Length: 900000\r\n\r\n" + b"a,b\n" * 10_000)
            until(lambda: len(server.stored) > len(before))
        until(lambda: server.stored == before)

    @pytest.mark.faults
    def test_queue_of_one_cancel_and_a_worker_that_is_killed(self, server):
        keys = server.upload_pair(WIDE, WIDE + 0.1)
        first, second = (server.start(keys, sure=True).json()["key"] for _ in range(2))
        third = server.start(keys, sure=True)
        assert third.status_code == 409
        assert third.json()["error"].startswith("one analysis is running and one is waiting; cancel one")
        assert server.job(first)["state"] == "running"
        assert server.job(second)["state"] == "waiting"
        assert server.job(second)["place"] == 1
        (worker,) = until(lambda: children_of(server.process.pid))
        server.cancel(first)
        until(lambda: not alive(worker))
        assert server.job(first)["state"] == "cancelled"

        server.wait_for(second, "running")
        job = server.job(first)
        assert (job["state"], job["message"], job["logged"]) == ("cancelled", "", False)
        (worker,) = until(lambda: [pid for pid in children_of(server.process.pid) if pid != worker])
        os.kill(worker, signal.SIGKILL)
        job = server.wait_for(second, "failed")
        assert job["message"] == LOST
        assert server.client.get(f"/jobs/{second}/log.txt").status_code == 200
        server.cancel(second)  # does nothing
        assert server.job(second)["state"] == "failed"

        waiting = [server.start(keys, sure=True).json()["key"] for _ in range(2)]
        for key in reversed(waiting):
            server.cancel(key)
        assert {server.job(key)["state"] for key in waiting} == {"cancelled"}
        until(lambda: not children_of(server.process.pid))

    def test_an_answer_that_cannot_be_kept_is_still_an_answer(self, tmp_path):
        jobs = Jobs(tmp_path, tmp_path / "nowhere")
        job = Job("key", 1, "a and b", tmp_path / "job", {})
        (job.folder / "answer").mkdir(parents=True)
        (tmp_path / "nowhere").write_text("a file")
        jobs._follow = lambda job: {"headline": "something"}
        jobs._do(job)
        assert job.state == "done"
        assert job.message.startswith(f"the answer could not be written to '{tmp_path / 'nowhere'}'")
        assert job.message.endswith("download it from here")

    @pytest.mark.parametrize("fails", ["next_place", "keep_answer", "_follow"])
    def test_the_queue_goes_on_whatever_fails(self, tmp_path, monkeypatch, fails):
        """A folder that may not be looked into, a name that is too long, a fault of ours."""

        def fail(*_):
            raise ArithmeticError("a fault") if fails == "_follow" else PermissionError(errno.EACCES, "denied")

        jobs = Jobs(tmp_path, tmp_path / "out")
        monkeypatch.setattr(jobs, "_follow", lambda job: (job.folder / "answer").mkdir() or {})
        if fails == "_follow":
            monkeypatch.setattr(jobs, fails, fail)
        else:
            monkeypatch.setattr(f"diffdag.app.serve.folder.{fails}", fail)
            monkeypatch.setattr(f"diffdag.app.serve.jobs.{fails}", fail, raising=False)
        both = [jobs.submit("a and b", [], {}) for _ in range(2)]
        until(lambda: all(job.state in ("done", "failed") for job in both), 10)
        assert {job.state for job in both} == {"failed" if fails == "_follow" else "done"}
        assert ("because of a fault in diffdag" if fails == "_follow" else "denied") in both[1].message


def ask_for_a_look(server, keys):
    """A request whose sender can leave, and the process that works on it."""
    before = children_of(server.process.pid)
    body = json.dumps({"files": keys, "options": {}})
    cookie = "; ".join(f"{name}={value}" for name, value in server.client.cookies.items())
    head = f"POST /look HTTP/1.1\r\nHost: 127.0.0.1:{server.port}\r\nCookie: {cookie}\r\n"
    wire = socket.create_connection(("127.0.0.1", server.port), timeout=60)
    wire.sendall(f"{head}Content-Length: {len(body)}\r\n\r\n{body}".encode())
    return wire, lambda: until(lambda: [*set(children_of(server.process.pid)) - set(before)])[0]


def test_looks_take_turns_and_end_with_whoever_asked(server):
    keys = server.upload_pair(FIRST, SECOND)
    wire, child = ask_for_a_look(server, keys)
    worker = child()
    os.kill(worker, signal.SIGSTOP)  # a look that takes for ever
    others = [ask_for_a_look(server, keys)[0] for _ in range(45)]  # more than there are threads
    began = time.monotonic()
    key = server.start(keys).json()["key"]
    server.cancel(key)
    assert server.upload("t.csv", text(FIRST)).status_code == 201
    assert server.job(key)["state"] == "cancelled"
    assert time.monotonic() - began < 5
    assert alive(worker)
    for other in others[1:]:
        other.close()
    wire.close()
    until(lambda: not alive(worker))
    with others[0] as last:
        assert last.recv(15) == b"HTTP/1.1 200 OK"
    until(lambda: not children_of(server.process.pid))


class TestLack:
    """Memory and disks that are full are no faults of the program."""

    @pytest.mark.parametrize(
        ("error", "words"),
        [
            (MemoryError(), "memory ran out; leave out columns, take fewer rows"),
            (pa.ArrowMemoryError("malloc of size 64 failed"), "memory ran out"),
            (OSError(errno.ENOMEM, "Cannot allocate memory"), "memory ran out"),
            (OSError(errno.ENOSPC, "No space left on device"), "the disk is full; make room"),
        ],
    )
    def test_in_a_task(self, tmp_path, monkeypatch, error, words):
        def fail(*_):
            raise error

        monkeypatch.setitem(work.TASKS, "look", fail)
        (tmp_path / "task.json").write_text('{"kind": "look"}')
        work.main(tmp_path, io.BytesIO())
        assert json.loads((tmp_path / "answer.json").read_bytes())["error"].startswith(words)

    def test_a_fault_stays_one(self, tmp_path, monkeypatch):
        def fail(*_):
            raise FileNotFoundError(errno.ENOENT, "No such file")

        monkeypatch.setitem(work.TASKS, "look", fail)
        (tmp_path / "task.json").write_text('{"kind": "look"}')
        with pytest.raises(FileNotFoundError):
            work.main(tmp_path, io.BytesIO())

    def test_where_not_even_that_can_be_written(self, tmp_path, monkeypatch):
        def fail(*_):
            raise OSError(errno.ENOSPC, "No space left on device")

        monkeypatch.setitem(work.TASKS, "look", lambda *_: {})
        monkeypatch.setattr(work, "write_atomic", fail)
        (tmp_path / "task.json").write_text('{"kind": "look"}')
        with pytest.raises(SystemExit) as ended:
            work.main(tmp_path, io.BytesIO())
        child = Child.__new__(Child)
        child.folder = tmp_path
        with pytest.raises(InputError, match="the disk is full") as caught:
            child._answer(ended.value.code)
        assert not isinstance(caught.value, LostError)

    def test_before_a_task_begins(self, tmp_path):
        jobs = Jobs(tmp_path, None)
        job = Job("key", 1, "a and b", tmp_path / "no such folder", {})
        jobs._do(job)
        assert job.state == "failed"
        assert job.message.startswith("the program cannot use its folder for temporary files (no such file")
        assert not job.logged

    def test_in_a_file_that_is_read(self, tmp_path):
        with pytest.raises(InputError, match="memory ran out while reading"), files.reading(tmp_path, ".csv"):
            raise pa.ArrowMemoryError("malloc of size 64 failed")


class TestLimit:
    MESSAGE = "'big.csv' is larger than 1 MB, the limit of this page; start diffdag serve with a larger --limit"

    def test_by_the_length_that_is_said(self, server):
        before = server.stored
        answer = server.upload("big.csv", b"x" * (LIMIT * 1_000_000 + 1))
        assert answer.status_code == 413
        assert answer.json()["error"].startswith(self.MESSAGE)
        assert server.stored == before

    def test_by_what_comes(self, server):
        before = server.stored
        answer = server.upload(
            "big.csv", (b"x" * 100_000 for _ in range(300))
        )  # sent in chunks, without a length
        assert answer.status_code == 413
        assert answer.json()["error"].startswith(self.MESSAGE)
        assert server.stored == before

    def test_a_request_that_is_too_long(self, server):
        answer = server.client.post("/look", content=b"x" * 17_000_000)
        assert answer.status_code == 413

    def test_old_files_make_room(self, tmp_path):
        uploads = Uploads(tmp_path, LIMIT)
        added = []
        for number in range(26):
            place = tmp_path / str(number) / "table.csv"
            place.parent.mkdir()
            place.write_text("a,b\n")
            added.append(uploads.add("t.csv", place, 4))
        with pytest.raises(UnknownError, match="choose it again"):
            uploads.find(added[1].key)
        assert uploads.find(added[2].key) == added[2]
        assert len(list(tmp_path.glob("*/table.csv"))) == 24

    def test_large_files_make_room_sooner(self, tmp_path):
        uploads = Uploads(tmp_path, LIMIT)

        def add(number):
            place = tmp_path / str(number) / "table.csv"
            place.parent.mkdir()
            place.write_text("a,b\n")
            return uploads.add("t.csv", place, 900_000)  # so it says

        first, second, *_ = [add(number) for number in range(4)]
        uploads.find(first.key)  # in use
        add(4)
        assert uploads.find(first.key) == first
        with pytest.raises(UnknownError, match="choose it again"):
            uploads.find(second.key)
        assert not second.path.exists()

    def test_few_files_come_at_once(self, tmp_path):
        uploads = Uploads(tmp_path, LIMIT)

        async def send(gate):
            async def chunks():
                yield b"a,b\n"
                await gate.wait()

            return await uploads.receive("t.csv", chunks(), None)

        async def send_five():
            gate = asyncio.Event()
            sent = [asyncio.create_task(send(gate)) for _ in range(4)]
            await asyncio.sleep(0)
            with pytest.raises(InputError, match="4 files are on their way"):
                await send(gate)
            gate.set()
            await asyncio.gather(*sent)
            return await send(gate)

        assert awaited(send_five()).size == 4


class TestNames:
    @pytest.mark.parametrize(
        ("name", "label"),
        [
            ("res.2024.csv", "res.2024"),
            ("a\u202e.csv", "a\\u202e"),
            ("C:\\data\\week 1.CSV.gz", "week 1"),
            ("../../x.tsv", "x"),
            (".csv", ".csv"),
        ],
    )
    def test_what_a_condition_is_called(self, name, label):
        assert label_of(name) == label

    @pytest.mark.parametrize(
        "name",
        [
            "../../etc/passwd.csv",
            "/etc/x.csv",
            "C:\\windows\\x.csv",
            "nul\0x.csv",
            "%2e%2e/x.csv",
            "a" * 5000 + ".csv",
        ],
    )
    def test_a_name_is_a_label_and_no_more(self, server, name):
        before = set(server.stored)
        answer = server.upload(name, b"a,b\n1,2\n").json()
        (new,) = set(server.stored) - before
        assert new.name == "table.csv"
        assert new.parent.name == answer["key"]
        assert answer["name"] == name.replace("\0", "\\x00")[:200]
        server.client.delete(f"/files/{answer['key']}")
        assert new not in server.stored

    @pytest.mark.parametrize(
        "name", ["../../etc/passwd", "x.csv/../../y", "", "x.py", "x.csv.exe", "x.parquet.gz"]
    )
    def test_other_kinds_of_files_are_refused(self, server, name):
        before = server.stored
        answer = server.upload(name, b"a,b\n1,2\n")
        assert answer.status_code == 422
        assert answer.json()["error"].startswith(f"'{name}' has no known file type; give one of .csv")
        assert server.stored == before

    def test_a_spreadsheet_is_refused_with_what_to_do(self, server):
        answer = server.upload("mice.XLSX", b"PK")
        assert answer.status_code == 422
        assert "is a spreadsheet, which is not read; save the sheet as CSV" in answer.json()["error"]

    def test_the_readme_says_what_the_page_does_not_take(self):
        readme = Path(__file__).parents[2].joinpath("README.md").read_text(encoding="utf-8")
        assert CELLS not in ENDINGS
        assert "NPZ or, on the command line and in Python, AnnData." in readme

    @pytest.mark.parametrize("ending", ENDINGS)
    def test_what_is_taken_can_be_read(self, tmp_path, ending):
        path, frame = tmp_path / f"table{ending}", pd.DataFrame({"a": [1.5, 2.0], "b": [3.0, 4.0]})
        if ending in PARQUET:
            frame.to_parquet(path)
        elif ending in FEATHER:
            frame.to_feather(path)
        elif ending == ".npy":
            np.save(path, frame.to_numpy())
        elif ending == ".npz":
            np.savez(path, rows=frame.to_numpy(), names=["a", "b"])
        else:
            frame.to_csv(path, sep="\t" if ".tsv" in ending else ",", index=False)
        assert [column.to_pylist() for column in files.read_table(path).columns] == [[1.5, 2.0], [3.0, 4.0]]

    @pytest.mark.parametrize(
        "path",
        [
            "/../../../../etc/passwd",
            "/%2e%2e/%2e%2e/etc/passwd",
            "/page.css/../../app.py",
            "/app.py",
            "//etc/passwd",
            "/jobs/../uploads",
            "/jobs/{key}/../task.json",
            "/jobs/{key}/%2e%2e%2ftask.json",
            "/jobs/{key}/..%2f..%2fuploads",
            "/jobs/{key}/task.json",
            "/jobs/{key}/log.txt",
            "/jobs/{key}/report.html%00.csv",
            "/jobs/..%2fjobs%2f{key}/report.html",
            "/jobs/%00/report.html",
            "/files/..%2f..",
        ],
    )
    def test_no_address_leads_out(self, server, path):
        jobs = server.client.get("/state").json()["jobs"]
        key = jobs[0]["key"] if jobs else "0" * 32
        status, said = raw(server, "GET", path.format(key=key))
        assert status in (404, 405)
        assert "root:" not in said

    def test_deleting_leads_nowhere(self, server):
        before = server.stored
        status, _ = raw(server, "DELETE", "/files/..%2f..%2fjobs")
        assert status in (204, 404)
        assert server.stored == before


class TestGuard:
    def test_the_secret_becomes_a_cookie(self, server):
        answer = httpx.get(server.address)
        assert answer.status_code == 200
        cookie = answer.headers["set-cookie"]
        assert cookie.startswith(f"diffdag-{server.port}=")
        assert "HttpOnly" in cookie
        assert "SameSite=Strict" in cookie
        assert "unsafe" not in answer.headers["content-security-policy"]
        assert answer.headers["x-content-type-options"] == "nosniff"
        assert answer.headers["referrer-policy"] == "no-referrer"
        assert not [name for name in answer.headers if name.startswith("access-control")]

    @pytest.mark.parametrize("path", ["/", "/?token=wrong", "/?token=%C3%A9", "/state", "/page.js"])
    def test_without_the_secret_there_is_nothing(self, server, path):
        answer = httpx.get(server.base + path)
        assert answer.status_code == 403
        assert "Open the whole address that diffdag serve printed" in answer.text
        assert "set-cookie" not in answer.headers

    @pytest.mark.parametrize(
        "host", ["evil.example", "127.0.0.1.evil.example", "127.0.0.1:80:80", "192.168.0.1", ""]
    )
    def test_other_hosts_are_refused(self, server, host):
        status, said = raw(server, "GET", "/state", Host=host)
        assert status == 403
        assert "localhost only" in said

    def test_localhost_is_this_computer(self, server):
        assert raw(server, "GET", "/state", Host="localhost:9000")[0] == 200  # through a tunnel, say

    @pytest.mark.parametrize(
        "headers",
        [
            {"Origin": "http://evil.example"},
            {"Origin": "null"},
            {"Origin": "http://127.0.0.1:1"},
            {"Sec_Fetch_Site": "cross-site"},
            {"Sec_Fetch_Site": "same-site"},
        ],
    )
    def test_other_pages_are_refused(self, server, headers):
        status, said = raw(server, "POST", "/example", b"", **headers)
        assert status == 403
        assert "another page" in said

    def test_listens_on_loopback_only(self, server):
        with pytest.raises(OSError, match="refused"):
            socket.create_connection(("127.0.0.2", server.port), timeout=5)


class TestEnd:
    @pytest.mark.parametrize("ending", [signal.SIGTERM, signal.SIGKILL], ids=["asked", "killed"])
    @pytest.mark.faults
    def test_nothing_is_left_at_work(self, tmp_path, ending):
        server = Server(tmp_path)
        server.start(server.upload_pair(WIDE, WIDE + 0.1), sure=True)
        workers = until(lambda: children_of(server.process.pid))
        server.process.send_signal(ending)
        assert server.process.wait(timeout=20) == (143 if ending == signal.SIGTERM else -signal.SIGKILL)
        until(lambda: not any(alive(worker) for worker in workers))
        if ending == signal.SIGTERM:
            assert not list(tmp_path.glob("diffdag-serve-*"))
        server.process.stdout.close()
        server.client.close()

    @pytest.mark.faults
    def test_impatience_is_no_fault(self, tmp_path):
        server = Server(tmp_path)
        for _ in range(3):
            server.process.send_signal(signal.SIGINT)
            time.sleep(0.002)
        server.close()
        assert server.process.returncode == 130
        assert server.said == f"{Server.WELCOME}diffdag: interrupted\n"
        assert not list(tmp_path.glob("diffdag-serve-*"))

    def test_what_killed_servers_left_is_removed(self, tmp_path, monkeypatch):
        monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
        living, killed = Folder(), Folder()
        (killed.path / "uploads").mkdir()
        os.close(killed._lock)  # as the system does
        (tmp_path / "diffdag-serve-other").mkdir()  # without a lock of ours
        (tmp_path / "diffdag-serve-link").symlink_to(living.path)
        Session(limit=LIMIT).close()
        left = {path.name for path in tmp_path.iterdir()}
        assert left == {living.path.name, "diffdag-serve-other", "diffdag-serve-link"}
        living.close()
        assert not living.path.exists()

    def test_the_browser_is_led_by_a_file_for_one_user(self, tmp_path, monkeypatch):
        monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
        opened = []
        monkeypatch.setattr("webbrowser.open", opened.append)
        session = Session(limit=LIMIT)
        door = session.door("http://127.0.0.1:1/?token=secret")

        def serve(listener, *, limit, out, ready):
            listener.close()
            ready("http://127.0.0.1:1/?token=secret", door)

        monkeypatch.setattr("diffdag.app.serve.server.serve", serve)
        assert cli.run(["serve", "--port", "0"]) == 0
        until(lambda: opened == [door.as_uri()])
        assert 'url=http://127.0.0.1:1/?token=secret"' in door.read_text()
        assert [path.stat().st_mode & 0o777 for path in (door, door.parent)] == [0o600, 0o700]
        session.close()
        assert not door.exists()

    def test_a_port_that_is_taken(self, capsys):
        with open_port(0) as taken:
            port = taken.getsockname()[1]
            assert cli.run(["serve", "--port", str(port), "--no-browser"]) == 2
        said = capsys.readouterr().err
        assert said.startswith(
            f"diffdag: error: port {port} cannot be used (address already in use); give another"
        )

    def test_out_has_to_be_a_folder(self, tmp_path, capsys):
        (tmp_path / "file").write_text("")
        assert cli.run(["serve", "--port", "0", "--no-browser", "--out", str(tmp_path / "file")]) == 2
        assert "is a file; give a folder" in capsys.readouterr().err


class TestLook:
    def remarks(self, first, second):
        columns = compare(first, second, ("A", "B"))["columns"]
        return {column["name"]: (column["why"], column["role"], column["roles"]) for column in columns}

    def test_every_column_is_judged(self):
        first = FIRST.assign(
            only=1.0, id=range(300), word="w", flat=2.0, far=np.inf, sparse=np.nan, gap=FIRST["a"] ** 2
        )
        first.loc[:9, "sparse"] = range(10)
        first.loc[:4, "gap"] = np.nan
        second = SECOND.assign(
            id=range(7, 307),
            word=1.0,
            flat=SECOND["a"],
            far=1.0,
            sparse=SECOND["b"],
            gap=SECOND["a"] ** 2,
            late=1.0,
        )
        seen = self.remarks(first, second)
        every, others = ["compare", "adjust", "cluster", "drop"], ["adjust", "cluster", "drop"]
        assert seen["a"] == ("", "compare", every)
        assert seen["only"] == ("only in A", "drop", ["drop"])
        assert seen["late"] == ("only in B", "drop", ["drop"])
        assert seen["id"] == ("counts rows", "drop", others)
        assert seen["word"] == ("is not numeric ('w' in row 1 of 'word' in the A table)", "drop", others)
        assert seen["flat"] == ("does not vary in A: a change by itself", "compare", every)
        assert seen["far"][1:] == ("drop", others)
        assert seen["sparse"] == ("missing in most rows", "drop", every)
        assert seen["gap"] == ("missing in 5 rows of A", "compare", every)
        assert compare(first, second, ("A", "B"))["lost"] == [5, 0]

    def test_words_are_those_of_notes(self):
        first = FIRST.assign(off=FIRST["a"], same="x", kit="k1", sex=["f", "m"] * 150, row=range(300))
        second = SECOND.assign(off=0.0, same="x", kit="k2", sex=["m", "f"] * 150, row=range(300))
        seen = self.remarks(first, second)
        assert {name: why for name, (why, *_) in seen.items() if why} == {
            "off": "switched off in B: a change by itself",
            "same": "is constant",
            "kit": "is 'k1' in A and 'k2' in B",
            "sex": "coded 0 for 'f' and 1 for 'm'",
            "row": "counts rows",
        }
        assert seen["same"][1:] == ("drop", ["drop"])
        (note, coded) = align_tables(first, second, labels=("A", "B")).notes
        assert note == (
            "columns 'same' is constant, 'row' counts rows and 'kit' is 'k1' in A and 'k2' in B: left out"
        )
        assert coded.endswith(seen["sex"][0])
        kinds = {column["name"]: column for column in compare(first, second, ("A", "B"))["columns"]}
        assert [name for name, column in kinds.items() if column["auto"]] == ["same", "kit", "row"]
        assert [name for name, column in kinds.items() if column["switched"]] == ["off"]

    def test_it_asks_what_columns_are(self):
        first, second = (table.assign(site=["n", "s", "e"] * 100) for table in nested_pair())
        first["batch"], second["batch"] = (table["donor"].str[-1].astype(int) for table in (first, second))
        seen = compare(first, second, ("A", "B"))
        donor, batch, site = sorted(
            seen["questions"], key=lambda asked: ["donor", "batch", "site"].index(asked["name"])
        )
        assert donor["words"] == (
            "column 'donor' has 8 different values, each in one condition only, and rows with the same one "
            "resemble each other"
        )
        assert donor["hint"].startswith("such as 'd10', 'd11' and 'd12'; 8 values explain ")
        assert (batch["nested"], batch["hint"][:27]) == (True, "such as '0', '1' and '2'; 4")
        assert site == {
            "name": "site",
            "words": "column 'site' has 3 different values",
            "hint": "such as 'e', 'n' and 's'",
            "nested": False,
        }
        roles = {column["name"]: column["role"] for column in seen["columns"]}
        assert sorted((roles["donor"], roles["batch"])) == ["cluster", "drop"]  # one of them
        assert roles["site"] == "drop"  # nothing is taken out unless somebody says so

    def test_gaps(self):
        few, many = FIRST.copy(), FIRST.copy()
        few.loc[:29, "a"] = np.nan
        many.loc[:30, "a"] = np.nan
        assert [compare(table, SECOND, ("A", "B"))["missing"] for table in (few, many)] == ["drop", "em"]
        seen = compare(many, SECOND, ("A", "B"), missing="drop")
        assert (seen["missing"], seen["lost"]) == ("drop", [31, 0])
        assert seen["notes"] == ["31 of 300 rows with missing values were dropped from the A table"]
        ages = many.assign(age=[None] * 50 + [40.5] * 125 + [41.0] * 125, a=FIRST["a"])
        seen = compare(ages, SECOND.assign(age=[40.5, 41.0] * 150), ("A", "B"), Roles(adjust=["age"]))
        assert (seen["missing"], seen["lost"]) == ("drop", [50, 0])  # what is there would not help

    def test_what_does_not_vary_within_units(self):
        first, second = (
            table.assign(sex=table["donor"].str[-1].map({"0": "f", "1": "m", "2": "f", "3": "m"}))
            for table in nested_pair()
        )
        for missing in ("drop", "em"):
            seen = compare(first, second, ("A", "B"), missing=missing)
            assert (seen["problem"], seen["without"]) == (None, ["sex"])
            assert "'sex' does not vary within 'donor': left out" in seen["notes"]
            seen = compare(first, second, ("A", "B"), Roles(adjust=["donor"]), missing)
            assert seen["problem"] == "'sex' does not vary at equal 'donor'; leave it out (under Checks)"

    def test_as_many_covariates_as_rows(self):
        first, second = (
            frame[:10].assign(**{f"w{k}": WIDE[f"x{k}"][:10] for k in range(9)}) for frame in (FIRST, SECOND)
        )
        told = compare(first, second, ("A", "B"), Roles(adjust=[f"w{k}" for k in range(9)]))["problem"]
        assert told.startswith(
            "covariates, and what rows are nested in, leave 1 of 10 rows of a table to compare"
        )
        assert told.endswith("; leave some out of the list of covariates, or bring more rows")

    def test_names_that_no_table_has(self):
        seen = compare(FIRST, SECOND, ("A", "B"), Roles(adjust=["aa"]))
        assert seen["problem"] == "the list of covariates names 'aa', which no table has; did you mean 'a'?"
        seen = compare(FIRST.assign(only=1.0), SECOND, ("A", "B"), Roles(cluster="only"))
        assert (
            seen["problem"]
            == "the B table has no column 'only', which is to be what rows are nested in; both tables need it"
        )

    def test_names_that_cannot_be_told_apart(self, tmp_path):
        (tmp_path / "t.csv").write_text(
            ",a,b,b,c\n" + "".join(f"r{k},{k},{k * k},1,{k % 3}\n" for k in range(9))
        )
        seen = preview_tables([tmp_path / "t.csv"] * 2, ["t", "t"])
        assert seen["labels"] == ("t (first)", "t (second)")
        columns = {column["name"]: column["why"] for column in seen["columns"]}
        assert columns[""] == "holds row labels"
        assert columns["b"] == "the name appears more than once"

    def test_what_would_stop_the_fit(self):
        double = compare(FIRST.assign(e=FIRST["a"] + FIRST["b"]), SECOND.assign(e=SECOND["d"]), ("A", "B"))
        assert "'a', 'b' and 'e' are linearly dependent in the A table" in double["problem"]
        out = Roles(drop=["e", "gone"])
        chosen = compare(FIRST.assign(e=FIRST["a"]), SECOND.assign(e=SECOND["d"]), ("A", "B"), out)
        assert chosen["problem"] is None
        assert [column["role"] for column in chosen["columns"]] == ["compare"] * 4 + ["drop"]
        few = compare(FIRST[["a"]], SECOND, ("A", "B"))
        assert few["problem"].startswith("the two tables share 1 column of numbers that can be compared: 'a'")

    @pytest.mark.parametrize("turned", [False, True])
    def test_a_single_row_is_compared_by_its_means(self, turned):
        one = SECOND[:1].assign(flat=2.0, site="n")
        many = FIRST.assign(flat=1.0, site=["n", "s"] * 150)
        tables = (one, many) if turned else (many, one)
        seen = compare(*tables, ("A", "B"))
        assert seen["problem"] is None
        compared = tuple(column["name"] for column in seen["columns"] if column["role"] == "compare")
        assert compared == align_tables(*tables, few=True).names == (*"abcd", "site")
        assert [column["why"] for column in seen["columns"]][:4] == [""] * 4
        many.loc[:50, "b"] = np.nan
        assert compare(many, one, ("A", "B"))["missing"] == "drop"  # gaps cannot be filled then
        empty = compare(many, one.assign(a=np.nan), ("A", "B"))["columns"]
        assert next(column["why"] for column in empty if column["name"] == "a") == "empty in B"

    def test_variables_in_rows(self):
        first, second = (
            pd.DataFrame({"gene": list("abcd"), **{f"{own}{k}": range(4) for k in range(9)}}) for own in "st"
        )
        told = compare(first, second, ("A", "B"))["problem"]
        assert told.startswith("the tables look transposed: their first column, 'gene', names the rows of both")
        assert told.endswith("; if rows are variables, turn the tables round, or use diffdag fit --transpose")

    def test_groups_that_are_numbers(self, tmp_path):
        both = pd.concat([FIRST.assign(dose=7.0, plate="007"), SECOND.assign(dose=8.0, plate="008")])
        both.to_csv(tmp_path / "t.csv", index=False)
        seen = preview_tables([tmp_path / "t.csv"], ["t"])
        assert seen["candidates"] == ["dose", "plate"]
        assert seen["choice"] == {"group": "dose", "first": "7", "second": "8"}
        seen = preview_tables([tmp_path / "t.csv"], ["t"], group="plate")
        assert seen["groups"] == [{"name": "007", "rows": 300}, {"name": "008", "rows": 300}]
        assert seen["labels"] == ("007", "008")

    def test_groups_are_called_the_same_everywhere(self, tmp_path, monkeypatch):
        reads = []

        def read(path, **options):
            reads.append(options)
            return files.read_table(path, **options)

        monkeypatch.setattr("diffdag.app.serve.preview.read_table", read)
        FIRST.assign(g=["1.0", "2"] * 150).to_csv(tmp_path / "t.csv", index=False)
        seen = preview_tables([tmp_path / "t.csv"], ["t"])
        assert seen["choice"] == {"group": "g", "first": "1.0", "second": "2"}
        assert len(reads) == 2
        again = preview_tables([tmp_path / "t.csv"], ["t"], **seen["choice"])
        assert (again["candidates"], again["groups"]) == (seen["candidates"], seen["groups"])
        assert len(reads) == 3
        FIRST.assign(g=["u", "v"] * 150).to_csv(tmp_path / "t.csv", index=False)
        preview_tables([tmp_path / "t.csv"], ["t"])
        assert len(reads) == 4

    def test_a_likely_column_that_fails_is_passed_over(self, tmp_path):
        odd = ["1", "1.0", "1.00", "2", "2.0", "2.00"]  # two numbers, and no group of three rows
        (tmp_path / "t.csv").write_text(
            "a,b,h,g\n" + "".join(f"{k * k},{5 - k},{odd[k]},{k % 2}\n" for k in range(6))
        )
        assert preview_tables([tmp_path / "t.csv"], ["t"])["choice"]["group"] == "g"

    def test_group_columns_that_are_none(self, tmp_path):
        (tmp_path / "t.csv").write_text("g,g,a,b\n" + "".join(f"{k % 2},0,{k},{k * k}\n" for k in range(9)))
        with pytest.raises(InputError, match="'zzz' does not exist"):
            preview_tables([tmp_path / "t.csv"], ["t"], group="zzz")
        with pytest.raises(InputError, match="'g' appears more than once"):
            preview_tables([tmp_path / "t.csv"], ["t"], group="g")

    def test_no_groups(self, tmp_path):
        FIRST.to_csv(tmp_path / "t.csv", index=False)
        with pytest.raises(InputError, match="choose a second file"):
            preview_tables([tmp_path / "t.csv"], ["t"])
        FIRST.assign(g=["a"] * 298 + ["b"] * 2).to_csv(tmp_path / "t.csv", index=False)
        with pytest.raises(InputError, match="'g' does not name two groups of 3 rows or more"):
            preview_tables([tmp_path / "t.csv"], ["t"], group="g")

    def test_groups_are_few_and_have_rows(self):
        table = pa.table(
            {
                "x": np.linspace(0, 1, 8),
                "score": [1, 1, 1, 2, 2, 2, 3, 3],
                "name": list("abcdefgh"),
                "sex": ["f", "f", "f", "m", "m", "m", None, None],
                "flag": [1.0, 1.0, 1.0, 0.0, 0.0, 0.0, None, None],
                "rare": ["a"] * 7 + ["b"],
            }
        )
        assert group_columns(table) == ["sex", "flag", "score"]
        renamed = table.rename_columns(["x", "Condition", "name", "sex", "flag", "rare"])
        assert group_columns(renamed) == ["Condition", "sex", "flag"]


class TestOptions:
    def test_defaults_are_those_of_the_estimator(self, tmp_path):
        model = {"covariance": "sample", "missing": "drop", "n_jobs": -1}
        assert settings_of(DEFAULTS, tmp_path) == (model, {"drop": []})

    def test_every_wish_is_handed_on(self, tmp_path):
        asked = check_options(
            {
                "strict": True,
                "series": True,
                "values": "spearman",
                "equal_noise": True,
                "hide_rows": True,
                "tiers": "a\nb,c",
                "drop": ["x"],
                "adjust": ["age"],
                "missing": "em",
            }
        )
        model, fit = settings_of(asked, tmp_path)
        assert model == {
            "covariance": "spearman",
            "effective_samples": "auto",
            "noise": "equal",
            "tiers": [["a"], ["b", "c"]],
            "adjust": ["age"],
            "missing": "em",
            "n_jobs": -1,
            "resamples": 200,
            "fdr": 0.05,
            "stored_rows": 0,
        }
        assert fit == {"drop": ["x"], "journal": tmp_path}
        model, _ = settings_of(check_options({"cluster": "donor"}), tmp_path)
        assert model["cluster"] == "donor"
        model, _ = settings_of(check_options({"adjust": ["age"], "hidden": True}), tmp_path)
        assert model["adjust"] == ["age", "hidden"]

    @pytest.mark.parametrize(
        "asked",
        [
            [],
            {"nonsense": 1},
            {"sure": "yes"},
            {"drop": [1]},
            {"tiers": "x" * 1_000_001},
            {"journal": "/"},
            {"cluster": ["donor", "site"]},
            {"cluster": None},
            {"adjust": "age"},
            {"adjust": [["age"]]},
            {"missing": "error"},
            {"values": "kendall"},
            {"labels": {"a": "b"}},
        ],
    )
    def test_others_are_refused(self, asked):
        with pytest.raises(InputError, match="reload the page"):
            check_options(asked)

    @pytest.mark.parametrize(
        ("asked", "words"),
        [
            (
                {"drop": ["site"], "adjust": ["age", "site"]},
                "column 'site' is both left out and taken out as a covariate; choose one role for it (under "
                "Checks)",
            ),
            (
                {"adjust": ["age", "age"]},
                "column 'age' is taken out as a covariate more than once; choose one role for it (under "
                "Checks)",
            ),
            (
                {"group": "dose", "cluster": "dose"},
                "column 'dose' names the groups that are compared; it has no other role",
            ),
            (
                {"cluster": "donor", "series": True},
                "rows are nested in 'donor' (under Checks) and are a time series (under Options); choose one "
                "of the two",
            ),
            (
                {"cluster": "donor", "hidden": True},
                "rows are nested in 'donor' (under Checks), and hidden causes (under Options) are estimated "
                "from independent rows without gaps; choose one of the two",
            ),
            (
                {"missing": "em", "hidden": True},
                "gaps are filled (under Checks), and hidden causes (under Options) are estimated from "
                "independent rows without gaps; choose one of the two",
            ),
            ({"labels": ["a", "a"]}, "both conditions are called 'a'; give them different labels"),
            (
                {"labels": ["a", " "]},
                "what the conditions are called must be two names, such as control and treated; they are "
                "['a', ' ']",
            ),
            ({"labels": ["a", "b" * 201]}, "give the conditions names of at most 200 characters"),
        ],
    )
    def test_what_does_not_go_together_is_said_in_words(self, asked, words):
        with pytest.raises(InputError) as caught:
            check_options(asked)
        assert caught.value.words("page") == words


def test_messages_name_files_as_the_user_does(tmp_path):
    FIRST.to_csv(tmp_path / "0-table.csv", index=False)
    table = {"file": "0-table.csv", "name": "mine.csv", "label": "mine"}
    options = check_options({"tiers": "variable,tier\na,early\n"})
    task = {"kind": "fit", "tables": [table, table], "options": options}
    (tmp_path / "task.json").write_text(json.dumps(task))
    work.main(tmp_path, io.BytesIO())
    error = json.loads((tmp_path / "answer.json").read_bytes())["error"]
    assert "'known order'" in error
    assert str(tmp_path) not in error


def test_a_fault_is_no_traceback(tmp_path):
    with pytest.raises(LostError, match=FAULT) as caught:
        Child(tmp_path, {"kind": "nonsense"}).follow(lambda told: None)
    assert "KeyError" in (tmp_path / "log.txt").read_text()
    answer = awaited(app._refused(None, caught.value))
    assert answer.status_code == 500
    assert "KeyError: 'nonsense'" in json.loads(answer.body)["log"]
