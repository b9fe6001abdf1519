"""The same answers wherever the work is done, also if a worker is killed in the middle.

Functions that workers get are nested ones: those are pickled by value, while workers cannot import this file.
"""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import sys
import threading
import time
import warnings
from dataclasses import replace

import joblib
import numpy as np
import pandas as pd
import pytest
from threadpoolctl import threadpool_info, threadpool_limits

import diffdag as dd
from diffdag import __main__ as cli
from diffdag._base import parallel
from diffdag._base.parallel import collect, one_blas_thread, run_all, use_cluster
from diffdag.refits import resample_fits
from diffdag.reproduce.experiments import experiment
from diffdag.reproduce.methods import find_method
from diffdag.reproduce.methods.attempt import TimeUp, within
from diffdag.reproduce.methods.compare import compare_methods
from diffdag.reproduce.methods.method import Method

PAIR = dd.simulate_pair(p=5, neighbours=2, changes=1, weights=(0.7, 1.0), rng=840_100)
TABLES = PAIR.first.sample(300, rng=1), PAIR.second.sample(300, rng=2)


@pytest.fixture(scope="module")
def cluster():
    distributed = pytest.importorskip("distributed")
    with (
        warnings.catch_warnings(),
        distributed.LocalCluster(
            n_workers=2, threads_per_worker=1, processes=True, dashboard_address="127.0.0.1:0", host="127.0.0.1"
        ) as running,
    ):
        yield running


@pytest.fixture
def client(cluster):
    from distributed import Client  # noqa: PLC0415

    with Client(cluster.scheduler_address, set_as_default=False) as found:
        try:
            found.wait_for_workers(2, timeout=15)
        except TimeoutError:  # Dask gives a worker up that is killed while it starts
            cluster.scale(len(cluster.workers) + 1)
            found.wait_for_workers(2, timeout=60)
        yield found


def on(client):
    return joblib.parallel_config(backend="dask", client=client)


def run_there(client, function, tasks, **options):
    with on(client):
        return run_all(function, tasks, **options)


def multiply():
    def work(task, matrix):
        return (matrix @ (matrix + task)).sum(axis=0)

    return work


MATRIX = np.random.default_rng(840_101).standard_normal((80, 80))


@pytest.mark.slow
@pytest.mark.parametrize("options", [{"jobs": 2}, {"jobs": 2, "prefer": "threads"}, {"jobs": 1}])
def test_this_machine_gives_the_same_bits(options):
    with one_blas_thread():
        wanted = [multiply()(k, MATRIX) for k in range(7)]
    found = list(run_all(multiply(), range(7), shared=(MATRIX,), **options))
    assert sorted(number for number, _ in found) == list(range(7))
    for one, other in zip(collect(found), wanted, strict=True):
        np.testing.assert_array_equal(one, other)


def test_a_cluster_gives_the_same_bits(client):
    local = collect(run_all(multiply(), range(40), shared=(MATRIX,), jobs=2))
    there = collect(run_there(client, multiply(), range(40), shared=(MATRIX,)))
    assert len(there) == 40
    for one, other in zip(local, there, strict=True):
        np.testing.assert_array_equal(one, other)


def test_results_come_as_they_end(client):
    def work(task):
        time.sleep(1.0 if task == 0 else 0.0)
        return task

    for results in (run_all(work, range(6), jobs=2, prefer="threads"), run_there(client, work, range(6))):
        assert next(results) != (0, 0)


def test_nothing_to_do(client):
    assert list(run_all(abs, [], jobs=2)) == list(run_there(client, abs, [])) == []


def test_in_place_tasks_are_asked_for_one_by_one():
    asked = []

    def tasks():
        for k in range(3):
            asked.append(k)
            yield k

    for number, _ in run_all(abs, tasks(), jobs=1):
        assert asked == list(range(number + 1))


def test_a_worker_that_dies_is_replaced(client, tmp_path):
    marker = str(tmp_path / "killed")

    def work(task, offset):
        if task == 5 and not os.path.exists(marker):
            with open(marker, "w"):
                os.kill(os.getpid(), signal.SIGKILL)
        return task + float(offset[0])

    shared = (np.full(200_000, 0.5),)
    assert collect(run_there(client, work, range(30), shared=shared)) == [k + 0.5 for k in range(30)]
    assert os.path.exists(marker)


def test_a_task_that_kills_every_worker_is_given_up(client):
    def work(task):
        os.kill(os.getpid(), signal.SIGKILL)

    client.run_on_scheduler(lambda dask_scheduler: setattr(dask_scheduler, "allowed_failures", 0))
    with pytest.raises(dd.InputError, match="every worker that took it died") as caught:
        list(run_there(client, work, [1]))
    assert "\n" not in str(caught.value)
    client.run_on_scheduler(lambda dask_scheduler: setattr(dask_scheduler, "allowed_failures", 3))


def test_resamples_survive_a_killed_worker(client):
    model = dd.DifferenceDAG(method="paper", estimator="plugin")  # the quickest to import
    wanted = resample_fits(*TABLES, model=model.set_params(n_jobs=1), fits=24)
    two = resample_fits(*TABLES, model=model.set_params(n_jobs=2), fits=24)
    victims = list(client.run(os.getpid).values())

    def kill(done, total, what):
        if done == 3:
            os.kill(victims[0], signal.SIGKILL)

    with on(client):
        there = resample_fits(*TABLES, model=model, fits=24, progress=kill)
    assert victims[0] not in client.run(os.getpid).values()
    assert any(wanted.found)
    assert wanted.found == two.found == there.found
    pd.testing.assert_frame_equal(wanted.edges, there.edges)


def test_experiments_on_a_cluster(cluster, tmp_path, monkeypatch):
    small = replace(experiment("table1"), quick={"p": [10], "pairs": 5, "seed": 840_102})
    monkeypatch.setattr("diffdag.reproduce.experiments.experiment", lambda name, data: small)
    command = ["reproduce", "table1", "--quick"]
    assert cli.run([*command, "--jobs", "1", "--out", str(tmp_path / "here")]) == 0
    assert cli.run([*command, "--dask", cluster.scheduler_address, "--out", str(tmp_path / "there")]) == 0
    here, there = ((tmp_path / name / "table1.csv").read_bytes() for name in ("here", "there"))
    assert here == there
    assert here.count(b"\n") == 6


def test_compare_on_a_cluster(client):
    methods = ["order", "paper", "listen", "dtrace"]
    here = compare_methods(*TABLES, methods=methods)
    two = compare_methods(*TABLES, methods=methods, n_jobs=2)
    started = []
    with on(client):
        there = compare_methods(*TABLES, methods=methods, started=started.append)
    assert started == list(here.graphs) == list(two.graphs) == list(there.graphs) == methods
    for name, graph in here.graphs.items():
        np.testing.assert_array_equal(graph, two.graphs[name])
        np.testing.assert_array_equal(graph, there.graphs[name])


def slow_method():
    def slow(first, second):
        while first.n == 300:  # not when it is warmed up
            sum(range(1000))

    return Method("slow", "", slow)


def test_time_limits_hold_on_a_cluster(client, monkeypatch):
    module = "diffdag.reproduce.methods.compare.find_method"
    monkeypatch.setattr(module, lambda name: slow_method() if name == "slow" else find_method(name))
    with on(client):
        found = compare_methods(*TABLES, methods=["slow", "listen"], limit=0.3)
    assert found.skipped == {"slow": "longer than 0.3 s"}
    assert list(found.graphs) == ["listen"]


def in_a_thread(work):
    """What a call gives, or raises, in a thread that is not the main one."""
    answer = []

    def body():
        try:
            answer.append(work())
        except BaseException as error:
            answer.append(error)

    thread = threading.Thread(target=body)
    thread.start()
    thread.join()
    return answer[0]


@pytest.mark.slow
def test_a_limit_in_a_thread_is_kept_by_a_process_of_its_own():
    def endless():
        while True:
            with contextlib.suppress(Exception):
                sum(range(1000))

    here = os.getpid()
    start = time.process_time()
    assert isinstance(in_a_thread(lambda: within(0.3, endless)), TimeUp)
    assert time.process_time() - start < 0.3  # the time was another process's
    first = in_a_thread(lambda: within(5, os.getpid))
    assert first == in_a_thread(lambda: within(5, os.getpid)) != here  # one child, used again
    assert in_a_thread(lambda: within(0.2, lambda: time.sleep(0.4) or "slept")) == "slept"
    assert in_a_thread(lambda: within(None, os.getpid)) == within(5, os.getpid) == here
    assert isinstance(in_a_thread(lambda: within(5, lambda: 1 / 0)), ZeroDivisionError)
    assert isinstance(in_a_thread(lambda: within(5, lambda: sys.exit(3))), SystemExit)
    assert in_a_thread(lambda: within(5, lambda: print("no answer") or "said")) == "said"
    assert in_a_thread(lambda: within(5, lambda: nested()(0))) is True


@pytest.mark.slow
def test_a_killed_process_with_a_limit_is_explained_and_replaced():
    killed = in_a_thread(lambda: within(5, lambda: os.kill(os.getpid(), signal.SIGKILL)))
    assert isinstance(killed, dd.InputError)
    assert "a process was killed" in str(killed)
    assert in_a_thread(lambda: within(5, lambda: "alive")) == "alive"


@pytest.mark.slow
def test_limits_in_several_threads_at_a_time():
    found = []
    threads = [
        threading.Thread(target=lambda: found.append(within(5, lambda: time.sleep(0.5) or os.getpid())))
        for _ in range(3)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(set(found)) == 3


def test_an_error_of_a_task_is_raised_and_the_rest_is_cancelled(client):
    def work(task):
        if task == 2:
            raise KeyError("what a task says")
        time.sleep(0.05)
        return task

    for options in ({"jobs": 1}, {"jobs": 2, "prefer": "threads"}):
        with pytest.raises(KeyError, match="what a task says"):
            list(run_all(work, range(50), **options))
    with pytest.raises(KeyError, match="what a task says"):
        list(run_there(client, work, range(50)))
    assert empty(client)


def empty(client):
    """Whether the scheduler forgets all tasks within a few seconds."""
    for _ in range(100):
        if not client.run_on_scheduler(lambda dask_scheduler: len(dask_scheduler.tasks)):
            return True
        time.sleep(0.05)
    return False


def test_who_stops_listening_stops_the_work_and_few_tasks_are_in_flight(client):
    asked = []

    def tasks():
        for k in range(1_000_000):
            asked.append(k)
            yield k

    results = run_there(client, abs, tasks())
    for _ in range(5):
        next(results)
    assert 5 <= len(asked) <= 5 + parallel.IN_FLIGHT * 2
    results.close()
    assert empty(client)


def test_the_backend_that_the_caller_set_is_used(cluster):
    from distributed import Client  # noqa: PLC0415

    def where(task):
        time.sleep(0.1)
        return os.getpid(), threading.get_ident()

    here = os.getpid()
    with Client(cluster.scheduler_address):
        with joblib.parallel_config(backend="dask"):
            assert here not in dict(collect(run_all(where, range(4), jobs=1)))
        assert set(dict(collect(run_all(where, range(2), jobs=1)))) == {here}  # a client alone is no wish
    with use_cluster(cluster.scheduler_address):
        assert here not in dict(collect(run_all(where, range(4))))
    with joblib.parallel_config(backend="threading"):
        assert set(dict(collect(run_all(where, range(4), jobs=2)))) == {here}
    with joblib.parallel_config(backend="loky"):
        assert here not in dict(collect(run_all(where, range(4), jobs=2, prefer="threads")))
    with use_cluster(None):
        assert set(dict(collect(run_all(where, range(4), jobs=2, prefer="threads")))) == {here}


def nested():
    def work(task):
        inner = {pid for _, pid in run_all(lambda k: os.getpid(), range(4), jobs=4)}
        return inner == {os.getpid()}

    return work


def test_a_task_starts_no_workers(client):
    for options in ({"jobs": 1}, {"jobs": 2}, {"jobs": 2, "prefer": "threads"}):
        assert collect(run_all(nested(), range(3), **options)) == [True] * 3
    assert collect(run_there(client, nested(), range(3))) == [True] * 3


def blas_threads():
    return {pool["num_threads"] for pool in threadpool_info() if pool["user_api"] == "blas"}


def test_one_blas_thread_until_the_last_task_has_ended():
    first_ended = threading.Event()

    def work(task):
        if task == 0:
            time.sleep(0.1)
            return blas_threads()
        first_ended.wait(5)
        time.sleep(0.2)  # until the other has left its context
        return blas_threads()

    usual = in_a_thread(lambda: threadpool_limits(limits=2))
    try:
        assert blas_threads() == {2}
        found = []
        for _, threads in run_all(work, range(2), jobs=2, prefer="threads"):
            found.append(threads)
            first_ended.set()
        assert found == [{1}, {1}]
        assert blas_threads() == {2}
    finally:
        in_a_thread(usual.restore_original_limits)


def test_workers_that_would_compute_something_else(client, monkeypatch):
    monkeypatch.setattr(parallel, "_versions", lambda: {"diffdag": "0.0.1", "numpy": np.__version__})
    with pytest.raises(dd.InputError, match=r"a Dask worker has .* and this program .*'diffdag': '0\.0\.1'"):
        list(run_there(client, abs, [1]))


def test_a_task_that_workers_cannot_import_is_given_up(client):
    class Foreign:
        def __reduce__(self):
            return __import__, ("no_such_module_840",)

    with pytest.raises((ImportError, RuntimeError), match=r"no_such_module_840|deserialization"):
        list(run_there(client, abs, [Foreign()]))


@pytest.mark.slow
def test_a_cluster_without_workers():
    from distributed import Client, LocalCluster  # noqa: PLC0415

    with (
        LocalCluster(n_workers=0, dashboard_address="127.0.0.1:0", host="127.0.0.1") as empty_cluster,
        Client(empty_cluster, set_as_default=False) as client,
        joblib.parallel_config(backend="dask", client=client, wait_for_workers_timeout=0.5),
        pytest.raises(dd.InputError, match=r"no workers for 0\.5 seconds"),
    ):
        list(run_all(abs, [1]))


def silent_server():
    """A server that takes the call and says nothing, as web servers do until asked."""
    server = socket.socket()
    server.bind(("127.0.0.1", 0))
    server.listen()
    return server


@pytest.mark.slow
def test_addresses_without_a_scheduler(monkeypatch, tmp_path, capsys):
    pytest.importorskip("distributed")
    monkeypatch.setattr(parallel, "CONNECT", 0.5)
    for name, table in zip(("a", "b"), TABLES, strict=True):
        np.save(tmp_path / f"{name}.npy", table)
    tables = [str(tmp_path / "a.npy"), str(tmp_path / "b.npy")]
    with silent_server() as silent:
        closed = socket.socket()
        closed.bind(("127.0.0.1", 0))  # nobody listens
        for address in (
            f"tcp://127.0.0.1:{silent.getsockname()[1]}",
            f"tcp://127.0.0.1:{closed.getsockname()[1]}",
            "nonsense",
        ):
            for command in (["path", *tables], ["compare", *tables], ["reproduce", "table1", "--quick"]):
                if command[0] != "path" and address != "nonsense":
                    continue
                start = time.perf_counter()
                assert cli.run([*command, "--dask", address, "--out", str(tmp_path / "out")]) == 2
                assert time.perf_counter() - start < 5
                message = capsys.readouterr().err
                assert f"no Dask scheduler answers at '{address}'" in message
                assert message.count("\n") == 1
        closed.close()


def test_jobs_and_dask_exclude_each_other(capsys):
    assert cli.run(["reproduce", "table1", "--jobs", "2", "--dask", "tcp://127.0.0.1:1"]) == 2
    assert "give one of them" in capsys.readouterr().err


def test_without_dask(monkeypatch):
    monkeypatch.setitem(sys.modules, "distributed", None)
    with pytest.raises(dd.InputError, match=r"pip install 'diffdag\[dask\]'"), use_cluster("tcp://127.0.0.1:1"):
        pass


def test_a_killed_process_of_this_machine_is_explained():
    def work(task):
        os.kill(os.getpid(), signal.SIGKILL)

    with pytest.raises(dd.InputError, match="a worker process was killed"):
        list(run_all(work, range(4), jobs=2))
    assert collect(run_all(abs, [-1, -2], jobs=2)) == [1, 2]
