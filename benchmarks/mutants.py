"""How many small faults the tests notice: mutation testing of five folders of the package.

python benchmarks/mutants.py [--sample 300] [--seed 900001] [--folders paper tables] [--session FILE]
    [--minutes 30]

Needs cosmic-ray and coverage (pip install cosmic-ray coverage), and Linux. cosmic-ray makes the mutants: one
operator, comparison, number, truth value, loop or decorator of the source changed at a time. It would start
pytest anew for each; here one process imports everything and collects the tests, and for each mutant a fork of
it exchanges the code of one function (or, for what stands outside of functions, imports the package once more)
and runs the tests that reach the mutated line, quickest first, until one fails. What is written in C++ is not
mutated. A folder is tested by the tests of the same name, its own examples, and the files in BESIDES. Tests
that take longer than LIMIT seconds are left out. So what survives here may still fail in a full run of them.

A mutant is killed (a test fails), times out (the tests take several times as long as they should, or die),
survives, or is reached by no test. The score is the share of the first two among all but those that
mutants_equivalent.tsv lists, with the reason: nobody could tell them from the original. Work is kept in the
session file, and goes on there if interrupted. As mutants are tried in a random order, those tried in some
minutes are a sample, too.
"""

from __future__ import annotations

import argparse
import ast
import difflib
import gc
import importlib
import math
import multiprocessing
import os
import random
import re
import resource
import shutil
import signal
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict, dataclass
from functools import _lru_cache_wrapper
from pathlib import Path
from types import CodeType, FunctionType
from typing import Any

os.environ.update(OPENBLAS_NUM_THREADS="1", OMP_NUM_THREADS="1")

import coverage
import pytest
from _pytest.runner import runtestprotocol
from cosmic_ray.ast import ast_nodes, get_ast
from cosmic_ray.mutating import mutate_code
from cosmic_ray.plugins import get_operator, operator_names
from hypothesis import settings
from record import keep, kept, print_table

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent
# Mutated folders, with what is in them.
FOLDERS = ("ordersearch", "paper", "precision", "trust", "tables")
# Tests of these folders that stand beside the rooms, since they go through several.
BESIDES = {
    "ordersearch": ("tests/test_tails.py", "tests/test_conditions.py"),
    "trust": ("tests/test_tails.py", "tests/test_study_designs.py"),
    "tables": (
        *("tests/test_tails.py", "tests/test_study_designs.py", "tests/test_fuzz_found.py"),
        "tests/ordersearch/test_few_rows.py",
    ),
}
COMPILED = ("diffdag.ordersearch.core._core", "diffdag.precision._descent")
OPTIONS = ["-q", "-s", "-m", "not slow", "-p", "no:cacheprovider"]
OPTIONS += ["-W", "ignore::pytest.PytestAssertRewriteWarning"]
LIMIT = 4.0  # seconds of processor, with lines recorded, for a test to be used
BUDGET = 15.0  # seconds of tests for a mutant
MEMORY = 6 << 30
CONTROLS = 4  # files of a folder that are tried without a change
UNCHANGED = "unchanged"
# What makes sense to exchange. The others (+ by << and the like) differ so much that any test would notice.
KINDS = re.compile(
    r"""core/(
    ReplaceBinaryOperator_(Add_Sub|Sub_Add|Mul_Div|Div_Mul|FloorDiv_Mul|Mod_Mul|Pow_Mul|BitOr_BitAnd|BitAnd_BitOr
                          |BitXor_BitOr|LShift_RShift|RShift_LShift)
    |ReplaceComparisonOperator_(Eq_NotEq|NotEq_Eq|Lt_LtE|Lt_GtE|LtE_Lt|LtE_Gt|Gt_GtE|Gt_LtE|GtE_Gt|GtE_Lt
                               |Is_IsNot|IsNot_Is)
    |ReplaceUnaryOperator_Delete_(USub|Invert|Not)
    |AddNot|ReplaceTrueWithFalse|ReplaceFalseWithTrue|ReplaceAndWithOr|ReplaceOrWithAnd|ReplaceBreakWithContinue
    |ReplaceContinueWithBreak|NumberReplacer|ZeroIterationForLoop|RemoveDecorator)""",
    re.VERBOSE,
)
# Lines that do nothing but forbid a misuse, or are there for types.
IDLE = re.compile(r"(@(abstractmethod|dataclass\(frozen=True(, eq=False)?\))|if TYPE_CHECKING:)$")

# Stars that unpack are no operators, and sequences of other lengths than they should be are no input.
STAR = re.compile(r"BinaryOperator_(Mul|Pow)_")


@dataclass(frozen=True)
class Mutant:
    """One change to one file, by cosmic-ray's name and number of it."""

    path: str
    line: int
    kind: str
    number: int

    @property
    def folder(self) -> str:
        return folder_of(self.path)

    def applied(self, source: str) -> str:
        if self.kind == UNCHANGED:
            return source
        return mutate_code(source, get_operator(self.kind)(), self.number)


def folder_of(path: str) -> str:
    return Path(path).relative_to("src/diffdag").parts[0]


def tests_of(folder: str) -> list[str]:
    """Where the tests of a folder stand."""
    return [f"tests/{folder}", f"src/diffdag/{folder}", *BESIDES.get(folder, ())]


# The mutants


def mutants_of(root: Path, folders: Iterable[str]) -> list[Mutant]:
    found = []
    for folder in folders:
        for file in sorted((root / "src/diffdag" / folder).rglob("*.py")):
            found += list(mutants_in(file, root))
    return found


def mutants_in(file: Path, root: Path) -> Iterator[Mutant]:
    source = file.read_text(encoding="utf-8")
    nodes, lines, idle = (
        list(ast_nodes(get_ast(source))),
        source.splitlines(keepends=True),
        annotations(ast.parse(source)),
    )
    for kind in filter(KINDS.fullmatch, operator_names()):
        operator = get_operator(kind)()
        places = (start for node in nodes for start, _ in operator.mutation_positions(node))
        for number, (line, column) in enumerate(places):
            before = "".join([*lines[: line - 1], lines[line - 1][:column]]).rstrip()
            if not (
                IDLE.search(lines[line - 1].strip())
                or any(a <= (line, column) < b for a, b in idle)
                or (STAR.search(kind) and before.endswith(("(", "[", "{", ",")))
                or before.endswith("strict=")
            ):
                yield Mutant(str(file.relative_to(root)), line, kind, number)


def controls_of(root: Path, folders: Iterable[str]) -> Iterator[Mutant]:
    """No change at all, in a few files: outside of their functions, and in the first one of each."""
    for folder in folders:
        files = sorted((root / "src/diffdag" / folder).rglob("[!_]*.py"))
        for file in files[:: -(-len(files) // CONTROLS)]:
            named = [function for _, function in functions(ast.parse(file.read_text(encoding="utf-8")).body)]
            for line in (1, *(function.body[-1].lineno for function in named[:1])):
                yield Mutant(str(file.relative_to(root)), line, UNCHANGED, line)


def annotations(tree: ast.AST) -> list[tuple[tuple[int, int], tuple[int, int]]]:
    """Where the types stand, which nobody evaluates."""
    types = [
        getattr(node, name)
        for node in ast.walk(tree)
        for name in ("annotation", "returns")
        if getattr(node, name, None) is not None
    ]
    return [((a.lineno, a.col_offset), (a.end_lineno, a.end_col_offset)) for a in types]


def sampled(mutants: list[Mutant], size: int | None, seed: int) -> list[Mutant]:
    """Some of each folder, from every file in proportion; in an order that mixes the files of each."""
    chosen = []
    for folder in dict.fromkeys(mutant.folder for mutant in mutants):
        rng = random.Random(f"{seed} {folder}")  # whatever other folders are mutated
        own = [mutant for mutant in mutants if mutant.folder == folder]
        rng.shuffle(own)
        own.sort(key=lambda mutant: mutant.path)
        # Every so-manyth of the shuffled files, one after the other, from a random place on.
        step, start = max(1.0, len(own) / (size or len(own))), rng.random()
        places = sorted({int((start + k) * step) % len(own) for k in range(round(len(own) / step))})
        picked = [own[place] for place in places]
        rng.shuffle(picked)
        chosen += picked
    return chosen


# A process of their own for tests


def apart(work: Callable[..., Any], *given: Any, seconds: float) -> Any:
    """What `work` returns in a forked process; None if it takes more seconds of processor, or dies."""
    ends = multiprocessing.Pipe(duplex=False)
    child = os.fork()
    if child == 0:
        try:
            withdraw()
            limit_seconds(seconds)
            ends[1].send(work(*given))
        finally:
            os._exit(0)
    ends[1].close()
    try:
        return ends[0].recv() if ends[0].poll(60 + 20 * seconds) else None
    except EOFError:
        return None
    finally:
        os.killpg(child, signal.SIGKILL)
        os.waitpid(child, 0)


def withdraw() -> None:
    """Be a process of one's own, with little memory, that says nothing."""
    os.setsid()
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    nothing = os.open(os.devnull, os.O_RDWR)
    for stream in range(3):
        os.dup2(nothing, stream)
    sys.dont_write_bytecode = True


def limit_seconds(seconds: float) -> None:
    """End after so many more seconds of processor."""
    most = int(time.process_time() + seconds) + 1
    resource.setrlimit(resource.RLIMIT_CPU, (most, resource.RLIM_INFINITY))


def passes(items: list[pytest.Item]) -> bool:
    """Whether all of some collected tests pass; ends at the first that does not."""
    for item, following in zip(items, [*items[1:], None], strict=True):
        reports = runtestprotocol(item, log=False, nextitem=following)
        if not all(report.passed for report in reports):
            return False
    return True


def trace(item: pytest.Item, root: Path) -> tuple[float, dict[str, list[int]]] | None:
    """How long a test takes and which lines it reaches; None if it does not pass."""
    include = [f"{root}/src/diffdag/{folder}/**/*" for folder in FOLDERS]
    recorder = coverage.Coverage(data_file=None, config_file=False, include=include)
    recorder.set_option("run:disable_warnings", ["no-data-collected"])
    with recorder.collect():
        start = time.process_time()
        passed = passes([item])
        seconds = time.process_time() - start
    data = recorder.get_data()
    reached = {str(Path(file).relative_to(root)): data.lines(file) or [] for file in data.measured_files()}
    return (seconds, reached) if passed else None


def traced(items: list[pytest.Item], root: Path) -> Iterator[tuple[float, dict[str, list[int]]] | None]:
    """The traces of some tests, from one process; it ends with the first test that takes too long."""
    ends = multiprocessing.Pipe(duplex=False)
    child = os.fork()
    if child == 0:
        try:
            withdraw()
            caches = [thing for thing in gc.get_objects() if isinstance(thing, _lru_cache_wrapper)]
            for item in items:
                limit_seconds(LIMIT)
                for cache in caches:  # what one test found, the next one is to find by itself
                    cache.cache_clear()
                ends[1].send(trace(item, root))
        finally:
            os._exit(0)
    ends[1].close()
    try:
        for _ in items:
            if not ends[0].poll(60 + 20 * LIMIT):
                raise EOFError
            yield ends[0].recv()
    except EOFError:
        yield None
    finally:
        os.killpg(child, signal.SIGKILL)
        os.waitpid(child, 0)


# Which tests for which mutant


def functions(body: list[ast.stmt], prefix: str = "") -> Iterator[tuple[str, ast.FunctionDef]]:
    for node in body:
        if isinstance(node, ast.FunctionDef):
            yield prefix + node.name, node
        elif isinstance(node, ast.ClassDef):
            yield from functions(node.body, f"{prefix}{node.name}.")


def place(mutant: Mutant, source: str) -> tuple[str, range] | None:
    """The function a mutant is in, and the lines of its statement; None outside of functions."""
    for name, function in functions(ast.parse(source).body):
        if function.body[0].lineno <= mutant.line <= (function.end_lineno or 0):
            return name, statement(function, mutant.line)
    return None


def statement(function: ast.FunctionDef, line: int) -> range:
    """The innermost statement around a line, without the statements in it."""
    own = range(line, line + 1)
    for node in filter(is_statement, ast.walk(ast.Module(function.body, []))):
        starts = [inner.lineno for inner in filter(is_statement, ast.walk(node)) if inner is not node]
        lines = range(node.lineno, max(node.lineno + 1, min(starts, default=node.end_lineno + 1)))
        if line in lines:
            own = lines
    return own


def is_statement(node: ast.AST) -> bool:
    return isinstance(node, ast.stmt)


def tests_for(
    mutant: Mutant, lines: range | None, traces: dict[str, Any], budget: float
) -> tuple[list[str], float]:
    """The tests that reach a mutant, quickest first, as far as the budget goes; and how long they take.

    What stands outside of functions matters to all tests that reach anything in the file.
    """
    chosen, total = [], 0.0
    stand = tuple(tests_of(mutant.folder))
    for test, (seconds, reached) in sorted(traces.items(), key=lambda item: item[1][0]):
        there = reached.get(mutant.path, []) if test.startswith(stand) else []
        if (there if lines is None else any(line in lines for line in there)) and total + seconds < budget:
            chosen.append(test)
            total += seconds
    return chosen, total


# Tests of mutants


def living(root: Path) -> list[FunctionType]:
    """All functions that were imported from the project, also those that others hold."""
    found = [thing for thing in gc.get_objects() if type(thing) is FunctionType]
    return [function for function in found if function.__code__.co_filename.startswith(str(root))]


def exchange(file: Path, name: str, changed: str, among: list[FunctionType]) -> None:
    """Give a function, wherever it is used, the code of the mutant."""
    new = code_of(compile(changed, str(file), "exec", dont_inherit=True), name)
    for function in among:
        code = function.__code__
        if code.co_filename == str(file) and code.co_qualname == name:
            function.__code__ = new


def code_of(code: CodeType, name: str) -> CodeType:
    parts = [part for part in code.co_consts if isinstance(part, CodeType)]
    for part in parts:
        if part.co_qualname == name:
            return part
    (outer,) = [part for part in parts if name.startswith(f"{part.co_qualname}.")]
    return code_of(outer, name)


def passes_exchanged(items: list[pytest.Item], *mutant: Any) -> bool:
    exchange(*mutant)
    return passes(items)


def passes_afresh(tests: list[str], root: Path) -> bool:
    """The same, where all of the package is imported once more."""
    for name, module in list(sys.modules.items()):
        if str(getattr(module, "__file__", "")).startswith(str(root)):
            del sys.modules[name]
    return int(pytest.main(["-x", *OPTIONS, *tests], plugins=[Steady()])) == 0


class Steady:
    """A pytest plugin: hypothesis draws the same examples every time."""

    def pytest_sessionstart(self) -> None:
        settings.register_profile("mutants", settings.default, derandomize=True, database=None)
        settings.load_profile("mutants")


class Mutants(Steady):
    """A pytest plugin: instead of the tests, run mutants."""

    def __init__(self, root: Path, mutants: list[Mutant], session: Path, seconds: float) -> None:
        self.root, self.mutants, self.session = root, mutants, session
        self.until = time.monotonic() + seconds
        self.folders = dict.fromkeys(mutant.folder for mutant in mutants)
        self.results: list[dict[str, Any]] = []

    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        if session.testsfailed:
            raise SystemExit("some tests cannot be collected")
        self.living = living(self.root)
        gc.freeze()  # so that forks share it
        items = {item.nodeid: item for item in session.items}
        traces = self.traces(items)
        if time.monotonic() < self.until:
            self.check(items, traces)
        done = {(e["path"], e["kind"], e["number"]): e for e in self.read() if "verdict" in e}
        for count, mutant in enumerate(self.mutants, 1):
            entry = done.get((mutant.path, mutant.kind, mutant.number))
            if entry is None:
                if time.monotonic() > self.until:
                    continue
                entry = self.judge(mutant, items, traces)
                keep(self.session, entry)
            self.results.append(entry)
            if entry["verdict"] in ("survived", "not reached"):
                where = f"{count}/{len(self.mutants)} {mutant.path}:{mutant.line} {entry['verdict']}"
                print(f"{where}: {' '.join(line.strip() for line in entry['diff'])}", flush=True)
        return True

    def check(self, items: dict[str, pytest.Item], traces: dict[str, Any]) -> None:
        """Tests have to pass where nothing was changed."""
        for control in controls_of(self.root, self.folders):
            verdict = self.judge(control, items, traces, BUDGET / 5)["verdict"]
            if verdict not in ("survived", "not reached"):
                raise SystemExit(f"{control.path}:{control.line} is {verdict} although nothing was changed")

    def read(self) -> list[dict[str, Any]]:
        return list(kept(self.session)) if self.session.exists() else []

    def traces(self, items: dict[str, pytest.Item]) -> dict[str, Any]:
        known = {entry["test"]: entry["trace"] for entry in self.read() if "trace" in entry}
        while missing := [item for test, item in items.items() if test not in known]:
            own = [item for item in missing if item.path == missing[0].path]
            for item, found in zip(own, traced(own, self.root), strict=False):
                known[item.nodeid] = found
                keep(self.session, {"test": item.nodeid, "trace": found})
        quick = {test: known[test] for test in items if known[test]}
        print(f"{len(quick)} of {len(items)} tests pass within {LIMIT:g} s", flush=True)
        if not quick:
            raise SystemExit("no test can be used")
        return quick

    def judge(
        self, mutant: Mutant, items: dict[str, pytest.Item], traces: dict[str, Any], budget: float = BUDGET
    ) -> dict[str, Any]:
        file = self.root / mutant.path
        source = file.read_text(encoding="utf-8")
        changed, where = mutant.applied(source), place(mutant, source)
        tests, seconds = tests_for(mutant, where and where[1], traces, budget)
        file.write_text(changed, encoding="utf-8")
        try:
            if not tests:
                verdict = "not reached"
            elif where is None:
                verdict = VERDICT[apart(passes_afresh, tests, self.root, seconds=12 + 2 * seconds)]
            else:
                given = [items[test] for test in tests], file, where[0], changed, self.living
                verdict = VERDICT[apart(passes_exchanged, *given, seconds=3 + 2 * seconds)]
        finally:
            file.write_text(source, encoding="utf-8")
        diff = [
            line
            for line in difflib.unified_diff(source.splitlines(), changed.splitlines(), n=0, lineterm="")
            if line[:1] in "+-" and line[:3] not in ("+++", "---")
        ]
        return {**asdict(mutant), "verdict": verdict, "diff": diff, "tests": len(tests)}


VERDICT = {None: "timed out", False: "killed", True: "survived"}
VERDICTS = (*VERDICT.values(), "not reached", "equivalent")


def verdict_of(result: dict[str, Any], equivalent: set[tuple[str, str]]) -> str:
    """The verdict; a survivor that is on the list of equivalents is one, wherever its line has moved."""
    changed = [" ".join(line[1:].split()) for line in result["diff"] if line.startswith("+")]
    alike = result["verdict"] == "survived" and (result["path"], " ".join(changed)) in equivalent
    return "equivalent" if alike else str(result["verdict"])


def equivalents() -> set[tuple[str, str]]:
    """Path and mutated line of each; the third column is the reason."""
    lines = (HERE / "mutants_equivalent.tsv").read_text(encoding="utf-8").splitlines()
    return {(path, line) for path, line, _ in (row.split("\t") for row in lines)}


# The whole


def copy_source(root: Path) -> None:
    """A copy of the project to change at will, in place of the project itself."""
    leave = shutil.ignore_patterns(".*", "__pycache__", "build", "dist")
    shutil.copytree(ROOT, root, ignore=leave, dirs_exist_ok=True)
    for name in COMPILED:
        compiled = Path(importlib.import_module(name).__file__)
        shutil.copy(compiled, (root / "src").joinpath(*name.split(".")).with_name(compiled.name))
    # An editable installation would go on importing what it was made from.
    sys.meta_path[:] = [f for f in sys.meta_path if not type(f).__name__.startswith("ScikitBuild")]
    for name in [name for name in sys.modules if name.split(".")[0] == "diffdag"]:
        del sys.modules[name]
    os.chdir(root)
    sys.path.insert(0, str(root / "src"))
    sys.dont_write_bytecode = True  # what was compiled in the same second would be taken for the mutant's


def report(results: list[dict[str, Any]], everything: list[Mutant]) -> None:
    rows, known = [], equivalents()
    for folder in dict.fromkeys(mutant.folder for mutant in everything):
        own = Counter(verdict_of(r, known) for r in results if folder_of(r["path"]) == folder)
        made, judged = sum(mutant.folder == folder for mutant in everything), own.total()
        telling = judged - own["equivalent"]
        score = (own["killed"] + own["timed out"]) / telling
        error = (score * (1 - score) / telling * (1 - judged / made)) ** 0.5
        rows.append([folder, made, judged, *(own[v] for v in VERDICTS), 100 * score, 100 * error])
    print_table("Mutants", ["folder", "mutants", "tried", *VERDICTS, "score, %", "standard error"], rows)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sample", type=int, help="mutants a folder; all if left out")
    parser.add_argument("--seed", type=int, default=900001)
    parser.add_argument("--folders", nargs="+", choices=FOLDERS, default=FOLDERS)
    parser.add_argument("--session", type=Path, help="where work is kept; a temporary file if left out")
    parser.add_argument(
        "--minutes", type=float, default=math.inf, help="after which no more mutants are tried; 0 for the table"
    )
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="diffdag-mutants-") as folder:
        root = Path(folder)
        session = (given.session or root / "session.jsonl").resolve()
        copy_source(root)
        everything = mutants_of(root, given.folders)
        chosen = sampled(everything, given.sample, given.seed)
        work = Mutants(root, chosen, session, 60 * given.minutes)
        places = dict.fromkeys(place for folder in given.folders for place in tests_of(folder))
        pytest.main([*OPTIONS, *places], plugins=[work])
        os.chdir(ROOT)
        report(work.results, everything)


if __name__ == "__main__":
    main()
