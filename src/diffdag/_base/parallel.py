"""Many independent pieces of work: in place, in threads or processes of this machine, or on a Dask cluster.

The one way in which this package spreads work. A task gets one core, and starts no workers of its own. What
comes out depends on the tasks alone: not on where they run, how many run at a time, or on a worker that dies.

Where tasks run is joblib's setting: ``with joblib.parallel_config(backend="dask"):`` sends them to the cluster
of the active Dask client. The tasks are then handed to that client here, and not by joblib, whose backend
(joblib 1.6) waits for ever for a task that Dask has given up, such as one whose workers all died or cannot
import it, and scatters large arguments, which are lost with the worker that holds them.
"""

from __future__ import annotations

import concurrent.futures
import contextlib
import itertools
import operator
import os
import queue
import signal
import sys
import threading
import time
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextvars import ContextVar
from dataclasses import dataclass
from functools import lru_cache, partial
from importlib import metadata
from typing import TYPE_CHECKING, Any, Literal, TypeVar

from threadpoolctl import ThreadpoolController

from diffdag._base.errors import InputError
from diffdag._base.extras import extra
from diffdag._base.words import Option, using

if TYPE_CHECKING:
    from distributed import Client, Future

T = TypeVar("T")

CONNECT = 5  # seconds that a scheduler may take to answer
IN_FLIGHT = 4  # tasks handed to the cluster for each of its threads: none waits, and no scheduler is flooded
SAME = ("diffdag", "numpy")  # packages of which workers must have the caller's version
WATCH = 1.0  # seconds after which a worker looks again whether anybody waits for it
LARGEST = "64 GiB"  # shared arguments travel once, by design: no warning about their size

_inside: ContextVar[bool] = ContextVar("_inside", default=False)
_limited: ContextVar[bool] = ContextVar("_limited", default=False)
_abandoned: ContextVar[threading.Event | None] = ContextVar("_abandoned", default=None)


def run_all(
    function: Callable[..., T],
    tasks: Iterable[Any],
    *,
    shared: tuple[Any, ...] = (),
    jobs: int | None = None,
    prefer: Literal["processes", "threads"] = "processes",
) -> Iterator[tuple[int, T]]:
    """Call ``function(task, *shared)`` for every task; give number and result of each as it ends.

    Inside a task, all is done in place: tasks start no tasks elsewhere. Elsewhere the backend that the caller
    has set with `joblib.parallel_config` is used; on a Dask cluster `jobs` and `prefer` have no meaning.

    The function has to be found by import, or be picklable otherwise; it runs with one thread for linear
    algebra. The next task is asked for only when there is room. `shared` are further arguments, the same for
    all tasks; with the function they travel to each worker of a cluster once. `jobs` are processes or threads
    on this machine, as in scikit-learn: None for one, or what `joblib.parallel_config` says, -1 for one per
    core; one works in place. Threads are for work that releases the GIL.

    >>> sorted(run_all(pow, [3, 4], shared=(2,), jobs=1))
    [(0, 9), (1, 16)]
    """
    from joblib.parallel import ThreadingBackend, get_active_backend  # noqa: PLC0415

    call = _Call(function, shared)
    numbered = enumerate(tasks)
    backend = None if _inside.get() else get_active_backend(prefer=prefer)[0]
    if hasattr(backend, "client"):
        return _on_cluster(call, numbered, backend)
    count = 1 if backend is None else count_workers(jobs, operator.length_hint(tasks, sys.maxsize))
    if count == 1:
        return (call.alone(*task) for task in numbered)
    return (_in_threads if isinstance(backend, ThreadingBackend) else _in_processes)(call, numbered, count)


class Abandoned(Exception):
    """Nobody waits for what this task works out."""


def end_if_abandoned(_share: float = 0.0) -> None:
    """End a task in a thread if the run it belongs to has ended; to be called now and then by long ones."""
    event = _abandoned.get()
    if event is not None and event.is_set():
        raise Abandoned


def collect(numbered: Iterable[tuple[int, T]]) -> list[T]:
    """The results of `run_all` in the order of its tasks.

    >>> collect([(1, "b"), (0, "a")])
    ['a', 'b']
    """
    return [result for _, result in sorted(numbered, key=operator.itemgetter(0))]


@contextlib.contextmanager
def use_cluster(address: str | None) -> Iterator[Client | None]:
    """Work on the Dask cluster at an address, as in ``joblib.parallel_config(backend="dask")``; None: here."""
    if address is None:
        yield None
        return
    import joblib  # noqa: PLC0415

    with _connect(address) as client, joblib.parallel_config(backend="dask", client=client):
        yield client


def _connect(address: str) -> Client:
    with extra("Dask", "dask"):
        from distributed import Client  # noqa: PLC0415
    answer: queue.SimpleQueue[Client | None] = queue.SimpleQueue()

    def knock() -> None:
        try:
            answer.put(Client(address, timeout=CONNECT, set_as_default=False))
        except Exception:  # also what a server of another kind says, read as if a scheduler had
            answer.put(None)

    # In a thread, because Dask waits for ever for a server that takes the call and says nothing.
    threading.Thread(target=knock, daemon=True).start()
    with contextlib.suppress(queue.Empty):
        if (client := answer.get(timeout=CONNECT + 1)) is not None:
            return client
    raise InputError(
        f"no Dask scheduler answers at '{address}'; check that it runs and that the address is right, "
        "such as tcp://127.0.0.1:8786"
    )


@dataclass(frozen=True)
class _Call:
    """What all tasks of a run have in common. Dask does not look into it for calls and futures of its own."""

    function: Callable[..., Any]
    shared: tuple[Any, ...]

    def alone(self, number: int, task: Any) -> tuple[int, Any]:
        """One task with one BLAS thread, and its number."""
        with one_blas_thread():
            return self.inside(number, task)

    def inside(self, number: int, task: Any, abandoned: threading.Event | None = None) -> tuple[int, Any]:
        """One task, and its number, where there is one BLAS thread already."""
        token, other = _inside.set(True), _abandoned.set(abandoned)
        try:
            return number, self.function(task, *self.shared)
        finally:
            _inside.reset(token)
            _abandoned.reset(other)


def _libraries() -> ThreadpoolController:
    """The libraries for linear algebra that are loaded: looking for them takes longer than many a product."""
    return _look_for_libraries(len(sys.modules))


@lru_cache(maxsize=1)
def _look_for_libraries(_modules: int) -> ThreadpoolController:
    """Look again whenever a module more is loaded, which may have brought one."""
    return ThreadpoolController()


class _BlasLimit:
    """One BLAS thread while anybody in this process asks for it; `threads` is how many there were before.

    Most libraries have one setting per process. If each of several threads set and restored it, one that ends
    would restore it for those still running, and sums would be rounded in another way. So a thread of its own
    holds the limit; only the thread that set one can restore it (threadpoolctl 3.8).
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._users = 0
        self.threads = 1
        self._release = threading.Event()
        self._holder: threading.Thread | None = None

    def __enter__(self) -> None:
        with self._lock:
            if not self._users:
                held, self._release = threading.Event(), threading.Event()
                self.threads = max((part["num_threads"] for part in _libraries().info()), default=1)
                self._holder = threading.Thread(target=_hold, args=(held, self._release), daemon=True)
                self._holder.start()
                held.wait()
            self._users += 1

    def __exit__(self, *_: object) -> None:
        with self._lock:
            self._users -= 1
            if not self._users and self._holder is not None:
                self._release.set()
                self._holder.join()


def _hold(held: threading.Event, release: threading.Event) -> None:
    try:
        with _libraries().limit(limits=1):
            held.set()
            release.wait()
    finally:
        held.set()


_blas_limit = _BlasLimit()


@contextlib.contextmanager
def one_blas_thread() -> Iterator[None]:
    """A context, or decorator, with one thread for linear algebra: sums are rounded alike on every machine."""
    if _limited.get():  # to ask the libraries again would take longer than many a product
        yield
        return
    with _blas_limit, _libraries().limit(limits=1):  # the latter for libraries with a setting per thread
        token = _limited.set(True)
        try:
            yield
        finally:
            _limited.reset(token)


def spread_products(function: Callable[[T], object], tasks: Sequence[T]) -> None:
    """Call `function` for every task; within `one_blas_thread` on as many threads as BLAS would have used.

    Where BLAS itself splits a product, its sums are rounded in a way that depends on the number of threads.
    Products split into tasks of a fixed size, each with one BLAS thread, come out the same.
    """
    count = min(len(tasks), _blas_limit.threads) if _limited.get() and not _inside.get() else 1
    if count == 1:
        for task in tasks:
            function(task)
        return
    with ThreadPoolExecutor(count, initializer=partial(_libraries().limit, limits=1)) as pool:
        for _ in pool.map(function, tasks):
            pass


def count_workers(jobs: int | None, tasks: int = sys.maxsize) -> int:
    """How many workers a number of jobs means, as in scikit-learn, and are worth having for so many tasks."""
    if jobs == 1 or tasks <= 1:
        return 1
    import joblib  # noqa: PLC0415

    count: int = joblib.effective_n_jobs(jobs)
    return max(1, min(count, tasks))


def _in_threads(call: _Call, tasks: Iterator[tuple[int, Any]], count: int) -> Iterator[tuple[int, Any]]:
    """By the standard library: joblib asks its threads every ten milliseconds whether they are done."""
    # A generator may end in another context than it began in, so it does not mark its own.
    with _blas_limit, _libraries().limit(limits=1), ThreadPoolExecutor(count) as pool:
        flying: set[concurrent.futures.Future[tuple[int, Any]]] = set()
        abandoned = threading.Event()
        try:
            while True:
                room = 2 * count - len(flying)
                some = itertools.islice(tasks, room)
                flying.update(pool.submit(call.inside, *task, abandoned) for task in some)
                if not flying:
                    return
                ended, flying = concurrent.futures.wait(flying, return_when=concurrent.futures.FIRST_COMPLETED)
                for future in ended:
                    yield future.result()
        finally:
            abandoned.set()
            pool.shutdown(wait=False, cancel_futures=True)


def _in_processes(call: _Call, tasks: Iterator[tuple[int, Any]], count: int) -> Iterator[tuple[int, Any]]:
    import joblib  # noqa: PLC0415
    from joblib.externals.loky.process_executor import TerminatedWorkerError  # noqa: PLC0415

    pool = joblib.Parallel(
        n_jobs=count,
        return_as="generator_unordered",
        pre_dispatch="2*n_jobs",
        batch_size=1,
        initializer=exit_with_parent,
        initargs=(os.getpid(),),
    )
    with _block_terminal_signals():
        results = pool(joblib.delayed(call.alone)(*task) for task in tasks)
    try:
        for result in results:  # noqa: UP028 - "yield from" would close it where its warning is heard
            yield result
    except TerminatedWorkerError:
        raise InputError(
            "a worker process was killed, most likely because memory ran out; use fewer processes ",
            using(Option("n_jobs")),
        ) from None
    finally:
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", message=".*tasks", category=UserWarning)  # of unused results
            results.close()


@contextlib.contextmanager
def _block_terminal_signals() -> Iterator[None]:
    """Keep from processes started here what a terminal sends to all: their parent ends them."""
    if not hasattr(signal, "pthread_sigmask"):
        yield
        return
    from multiprocessing import resource_tracker  # noqa: PLC0415

    from joblib.externals.loky.backend import resource_tracker as tracker_of_joblib  # noqa: PLC0415

    unheard = {signal.SIGINT, signal.SIGHUP}
    before = signal.pthread_sigmask(signal.SIG_BLOCK, unheard)
    try:
        for tracker in (resource_tracker, tracker_of_joblib):  # starting one later lets Ctrl-C through again
            tracker.ensure_running()
        signal.pthread_sigmask(signal.SIG_BLOCK, unheard)
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def exit_with_parent(parent: int) -> None:
    """End this worker soon after the process it works for was killed; left alone it would wait for minutes."""

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(WATCH)
        os._exit(1)

    if os.name == "posix":  # elsewhere the number of a parent does not change when it dies
        threading.Thread(target=watch, daemon=True).start()


def _on_cluster(call: _Call, tasks: Iterator[tuple[int, Any]], backend: Any) -> Iterator[tuple[int, Any]]:
    import dask  # noqa: PLC0415
    from distributed import as_completed  # noqa: PLC0415

    client: Client = backend.client
    try:
        room = IN_FLIGHT * backend.effective_n_jobs(-1)
    except TimeoutError:
        raise InputError(
            f"the Dask cluster has had no workers for {backend.wait_for_workers_timeout:g} seconds; start some"
        ) from None
    # A task that gives back its argument, and not client.scatter: what is scattered is lost with its worker.
    with dask.config.set({"distributed.admin.large-graph-warning-threshold": LARGEST}):
        kept = client.submit(_keep, call, pure=False)
    # Copies everywhere from the start: who asks a dead worker for one waits for half a minute.
    with contextlib.suppress(Exception):
        client.replicate(kept)
    versions = _versions()
    new = (client.submit(_do_there, kept, _Task(*task), versions, pure=False) for task in tasks)
    ended = as_completed(itertools.islice(new, room), loop=client.loop, with_results=True, raise_errors=False)
    try:
        for future, result in ended:
            yield _result_of(future, result)
            ended.update(itertools.islice(new, 1))
    finally:
        with contextlib.suppress(Exception):  # the cluster may be gone
            client.cancel([*ended.futures, kept])


def _result_of(future: Future, result: Any) -> Any:
    """The result of a future that has ended, or why there is none."""
    from distributed.scheduler import KilledWorker  # noqa: PLC0415

    if future.status == "finished":
        return result
    if future.status != "error":
        raise InputError("the Dask cluster went away; start it again, then the same command")
    _, error, trace = result
    if isinstance(error, KilledWorker):
        raise InputError(
            "a task was given up because every worker that took it died, most likely because memory ran out; "
            "give the workers of the Dask cluster more memory"
        ) from None
    raise error.with_traceback(trace)


@dataclass(frozen=True)
class _Task:
    number: int
    argument: Any


def _keep(call: _Call) -> _Call:
    return call


def _versions() -> dict[str, str]:
    return {package: metadata.version(package) for package in SAME}


def _do_there(call: _Call, task: _Task, versions: dict[str, str]) -> tuple[int, Any]:
    """One task on a worker, unless it would compute something else."""
    if (own := _versions()) != versions:
        raise InputError(f"a Dask worker has {own} and this program {versions}; install the same on both")
    return call.alone(task.number, task.argument)
