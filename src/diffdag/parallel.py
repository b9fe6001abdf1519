"""Many independent pieces of work: here, in processes or threads of this machine, or on a Dask cluster.

The one way in which this package spreads work. A task gets one core, and starts no workers of its own. What
comes out depends on the tasks alone: not on where they run, how many run at a time, or on a worker that dies.
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
import weakref
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextvars import ContextVar
from dataclasses import dataclass
from importlib import metadata
from typing import TYPE_CHECKING, Any, Generic, Literal, TypeVar

from threadpoolctl import threadpool_info, threadpool_limits

from diffdag.validation import DiffDagWarning, InputError

if TYPE_CHECKING:
    from distributed import Client, Future

T = TypeVar("T")

CONNECT = 5  # seconds that a scheduler may take to answer
IN_FLIGHT = 4  # tasks handed to the cluster for each of its threads: none waits, and no scheduler is flooded
FEWEST = 16  # tasks handed to a cluster that has hardly any workers yet
RETRIES = 2  # of a task that failed; the tasks of a worker that died are started again in any case
SAME = ("diffdag", "numpy")  # versions that workers must share with the caller
WATCH = 1.0  # seconds after which a worker looks again whether anybody waits for it, and the other way round
LOST = 120.0  # seconds that a cluster may be without workers, such as those that are being started again
LARGEST = "64 GiB"  # shared arguments travel once, by design: no warning about their size

_inside: ContextVar[bool] = ContextVar("_inside", default=False)
_limited: ContextVar[bool] = ContextVar("_limited", default=False)
_checked: weakref.WeakSet[Any] = weakref.WeakSet()


def run_all(
    function: Callable[..., T],
    tasks: Iterable[Any],
    *,
    shared: tuple[Any, ...] = (),
    jobs: int | None = None,
    client: Client | None = None,
    prefer: Literal["processes", "threads"] = "processes",
) -> Iterator[tuple[int, T]]:
    """Call ``function(task, *shared)`` for every task; give number and result of each as it ends.

    Inside a task, all is done in place: tasks start no tasks elsewhere.

    Parameters
    ----------
    function : callable
        It has to be found by import, or be picklable otherwise. It runs with one thread for linear algebra.
    tasks : iterable
        Asked for the next one only when there is room.
    shared : tuple
        Further arguments, the same for all tasks; they travel to each worker of a cluster once.
    jobs : int, optional
        Processes or threads on this machine; one a core if left out. 1 works in place, one after the other.
    client : distributed.Client, optional
        The cluster; if left out, the active client of the caller, and this machine if there is none.
    prefer : {"processes", "threads"}
        On this machine: threads are for work that releases the GIL.

    Examples
    --------
    >>> sorted(run_all(pow, [3, 4], shared=(2,), jobs=1))
    [(0, 9), (1, 16)]
    """
    client = None if _inside.get() else client or active_client()
    parcels = (_Task(function, number, task) for number, task in enumerate(tasks))
    if client is not None:
        return _on_cluster(parcels, shared, client)
    count = 1 if _inside.get() else count_workers(jobs, operator.length_hint(tasks, sys.maxsize))
    if count == 1:
        return (_do(parcel, shared) for parcel in parcels)
    return (_in_threads if prefer == "threads" else _in_processes)(parcels, shared, count)


def collect(numbered: Iterable[tuple[int, T]]) -> list[T]:
    """The results of `run_all` in the order of its tasks.

    >>> collect([(1, "b"), (0, "a")])
    ['a', 'b']
    """
    results = dict(numbered)
    return [results[number] for number in range(len(results))]


def active_client() -> Client | None:
    """The Dask client that the caller has opened, if any; none inside a task of a cluster."""
    if "distributed" not in sys.modules:
        return None
    import distributed  # noqa: PLC0415

    with contextlib.suppress(ValueError):
        distributed.get_worker()
        return None
    with contextlib.suppress(ValueError):
        client = distributed.default_client()
        return None if client.asynchronous else client
    return None


@contextlib.contextmanager
def find_client(address: str | None = None) -> Iterator[Client | None]:
    """The cluster at an address, closed in the end; without an address what `active_client` finds."""
    if address is None:
        yield active_client()
        return
    with _connect(address) as client:
        yield client


def _connect(address: str) -> Client:
    try:
        from distributed import Client  # noqa: PLC0415
    except ImportError:
        raise InputError("Dask is not installed; pip install 'diffdag[dask]'") from None
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
class _Task(Generic[T]):
    """A call to be made. Dask does not look into it for calls and futures of its own."""

    function: Callable[..., T]
    number: int
    argument: Any


@dataclass(frozen=True)
class _Shared:
    values: tuple[Any, ...]


def _do(task: _Task[T], shared: tuple[Any, ...]) -> tuple[int, T]:
    with one_blas_thread():
        return _call(task, shared)


def _call(task: _Task[T], shared: tuple[Any, ...]) -> tuple[int, T]:
    token = _inside.set(True)
    try:
        return task.number, task.function(task.argument, *shared)
    finally:
        _inside.reset(token)


class _BlasLimit:
    """One BLAS thread while anybody in this process asks for it; `threads` is how many there were before.

    Most libraries have one setting a process. If each of several threads set and restored it, one that ends
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
                self.threads = max((part["num_threads"] for part in threadpool_info()), default=1)
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
        with threadpool_limits(limits=1):
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
    with _blas_limit, threadpool_limits(limits=1):  # the latter for libraries with a setting per thread
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
    with ThreadPoolExecutor(count, initializer=threadpool_limits, initargs=(1,)) as pool:
        for _ in pool.map(function, tasks):
            pass


def count_workers(jobs: int | None, tasks: int = sys.maxsize) -> int:
    """How many workers a number of jobs means (None: one a core) and are worth having for so many tasks."""
    import joblib  # noqa: PLC0415

    count: int = joblib.effective_n_jobs(-1 if jobs is None else jobs)
    return max(1, min(count, tasks))


def _in_threads(tasks: Iterator[_Task[T]], shared: tuple[Any, ...], count: int) -> Iterator[tuple[int, T]]:
    """By the standard library: joblib asks its threads every ten milliseconds whether they are done."""
    # A generator may end in another context than it began in, so it does not mark its own.
    with _blas_limit, threadpool_limits(limits=1), ThreadPoolExecutor(count) as pool:
        flying: set[concurrent.futures.Future[tuple[int, T]]] = set()
        try:
            while True:
                room = 2 * count - len(flying)
                flying.update(pool.submit(_call, task, shared) for task in itertools.islice(tasks, room))
                if not flying:
                    return
                ended, flying = concurrent.futures.wait(flying, return_when=concurrent.futures.FIRST_COMPLETED)
                for future in ended:
                    yield future.result()
        finally:
            pool.shutdown(wait=False, cancel_futures=True)


def _in_processes(tasks: Iterator[_Task[T]], shared: tuple[Any, ...], count: int) -> Iterator[tuple[int, T]]:
    import joblib  # noqa: PLC0415
    from joblib.externals.loky.process_executor import TerminatedWorkerError  # noqa: PLC0415

    pool = joblib.Parallel(
        n_jobs=count,
        backend="loky",
        return_as="generator_unordered",
        pre_dispatch="2*n_jobs",
        batch_size=1,
        initializer=_end_with,
        initargs=(os.getpid(),),
    )
    with _unheard():
        results = pool(joblib.delayed(_do)(task, shared) for task in tasks)
    try:
        for result in results:  # noqa: UP028 - "yield from" would close it where its warning is heard
            yield result
    except TerminatedWorkerError:
        raise InputError(
            "a worker process was killed, most likely because memory ran out; "
            "use fewer processes (jobs=, n_jobs=, --jobs)"
        ) from None
    finally:
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", message=".*tasks", category=UserWarning)  # of unused results
            results.close()


@contextlib.contextmanager
def _unheard() -> Iterator[None]:
    """Keep from processes started here what a terminal sends to all: their parent ends them."""
    if not hasattr(signal, "pthread_sigmask"):
        yield
        return
    from multiprocessing import resource_tracker  # noqa: PLC0415

    unheard = {signal.SIGINT, signal.SIGHUP}
    before = signal.pthread_sigmask(signal.SIG_BLOCK, unheard)
    try:
        resource_tracker.ensure_running()  # which joblib does too, and which lets Ctrl-C through again
        signal.pthread_sigmask(signal.SIG_BLOCK, unheard)
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _end_with(parent: int) -> None:
    """End this worker soon after the process it works for was killed; left alone it would wait for minutes."""

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(WATCH)
        os._exit(1)

    if os.name == "posix":  # elsewhere the number of a parent does not change when it dies
        threading.Thread(target=watch, daemon=True).start()


def _on_cluster(tasks: Iterator[_Task[T]], shared: tuple[Any, ...], client: Client) -> Iterator[tuple[int, T]]:
    import dask  # noqa: PLC0415
    from distributed import as_completed  # noqa: PLC0415

    _check_cluster(client)
    # A task that gives back its argument, and not client.scatter: what is scattered is lost with its worker.
    with dask.config.set({"distributed.admin.large-graph-warning-threshold": LARGEST}):
        kept = client.submit(_keep, _Shared(shared), pure=False, retries=RETRIES)
    # Copies everywhere from the start: who asks a dead worker for one waits for half a minute.
    with contextlib.suppress(Exception):
        client.replicate(kept)
    flying: set[Future] = set()
    ended = as_completed(loop=client.loop, with_results=True, raise_errors=False)
    try:
        while True:
            room = max(FEWEST, IN_FLIGHT * sum(client.nthreads().values())) - len(flying)
            new = [
                client.submit(_do_there, task, kept, pure=False, retries=RETRIES)
                for task in itertools.islice(tasks, max(0, room))
            ]
            flying.update(new)
            ended.update(new)
            if not flying:
                return
            _wait_for_one(ended, client)
            for future, result in ended.next_batch():
                flying.discard(future)
                yield _result_of(future, result)
    finally:
        with contextlib.suppress(Exception):  # the cluster may be gone
            client.cancel([*flying, kept])


def _wait_for_one(ended: Any, client: Client) -> None:
    """Wait until a task has ended, as long as there is anybody who could end one."""
    seen = asked = time.monotonic()
    while not ended.has_ready():
        with ended.thread_condition:
            ended.thread_condition.wait(0.1)
        now = time.monotonic()
        if now - asked < WATCH:
            continue
        asked = now
        try:
            seen = now if client.nthreads() else seen
        except Exception:  # the scheduler is gone, which the tasks will say
            seen = now
        if now - seen > LOST:
            raise InputError(
                f"the Dask cluster has had no workers for {LOST:g} seconds; start some, then the same command"
            )


def _keep(shared: _Shared) -> _Shared:
    return shared


def _do_there(task: _Task[T], shared: _Shared) -> tuple[int, T]:
    return _do(task, shared.values)


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


def _check_cluster(client: Client) -> None:
    """Refuse workers that would compute something else, once a client."""
    if client in _checked:
        return
    if client.asynchronous:
        raise InputError("the Dask client is asynchronous; give one opened without asynchronous=True")
    for package in SAME:
        for worker, version in client.run(metadata.version, package, on_error="return").items():
            _check_version(package, version, worker)
    if not client.nthreads():
        warnings.warn("the Dask cluster has no workers yet; waiting for them", DiffDagWarning, stacklevel=2)
    _checked.add(client)


def _check_version(package: str, there: object, worker: str) -> None:
    here = metadata.version(package)
    if isinstance(there, metadata.PackageNotFoundError):
        raise InputError(
            f"{package} is not installed on the Dask worker {worker}; install version {here} there"
        )
    if isinstance(there, str) and there != here:
        raise InputError(
            f"the Dask worker {worker} has {package} {there} and this program {here}; "
            "install the same version on both"
        )
