"""Every way into the library, each with what to throw at it and what must hold of anything that is not refused.

A target takes an input and an empty folder. It returns if the input was accepted, raises `InputError` if it was
refused; anything else is a fault.
"""

from __future__ import annotations

import asyncio
import contextlib
import csv
import functools
import io
import json
import re
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from answers import graph
from hostile import ODD_VALUES, Dice, choices, grouped, names, options, pairs, sound_pairs, thrown
from hostile_commands import Command, command_lines
from hostile_files import (
    arrow_files,
    cell_files,
    coordinate_files,
    files,
    moments_files,
    npy_files,
    npz_files,
    result_files,
    text_files,
    tier_files,
    turned_files,
)
from hostile_studies import KNOWN, MODEL, Study, costly, study, wide
from hypothesis import strategies as st
from whole import hold, whole

from diffdag import __main__ as cli
from diffdag._base.errors import InputError
from diffdag.app.serve.options import check_options, settings_of
from diffdag.app.serve.preview import Roles, preview_tables
from diffdag.app.serve.uploads import ENDINGS
from diffdag.conditions import fit_conditions
from diffdag.estimator import DifferenceDAG
from diffdag.model.prior_knowledge import precedence, read_tiers
from diffdag.model.sem import LinearSEM
from diffdag.precision.api import precision_difference
from diffdag.refits import resample_fits, settings_path
from diffdag.report.explanation import explanation_json, explanation_text
from diffdag.report.html import conditions as conditions_report
from diffdag.report.html import page
from diffdag.report.plots.chart import svg_of
from diffdag.reproduce.methods.compare import compare_methods
from diffdag.result import ConditionsResult, DifferenceResult, load
from diffdag.results import json as exchange
from diffdag.results.records import CHANGES, Edge
from diffdag.tables.align import align_tables
from diffdag.tables.columns import Source
from diffdag.tables.groups import count_groups, split_groups
from diffdag.tables.moments import Moments, stream_moments
from diffdag.tables.readers.coordinates import check_coordinates, read_coordinates
from diffdag.tables.readers.files import read_table
from diffdag.trust.permutation import global_test


@dataclass
class Files:
    """Files to write, and what to ask of them."""

    files: list[tuple[str, bytes]]
    choice: dict[str, Any]
    turned: bool = False


Target = Callable[[Any, Path], None]
TARGETS: dict[str, tuple[st.SearchStrategy[Any], Target, int]] = {}  # with its share of all inputs


def target(make: Callable[[Dice], Any], share: int) -> Callable[[Target], Target]:
    """Let a function be attacked with what another makes of dice."""

    def enter(function: Target) -> Target:
        TARGETS[function.__name__] = thrown(make), function, share
        return function

    return enter


def put(folder: Path, name: str, content: bytes) -> Path:
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)
    return path


# Files of tables.


def few(kind: Callable[[Dice], tuple[str, bytes]], most: int = 2) -> Callable[[Dice], Files]:
    """Files of one kind, or one of them twice."""

    def make(dice: Dice) -> Files:
        drawn = [kind(dice)] if dice.flip() else [kind(dice) for _ in range(dice.number(1, most))]
        return Files(drawn, choices(dice))

    return make


def called(name: str, kind: Callable[[Dice], bytes]) -> Callable[[Dice], tuple[str, bytes]]:
    return lambda dice: (name, kind(dice))


def _read(case: Files, folder: Path) -> None:
    """Read tables and look at all that is in them."""
    tables = [
        read_table(put(folder / str(k), *file), transpose=case.turned) for k, file in enumerate(case.files)
    ]
    for table in tables:
        source = Source.of(table, "first")
        odd = source.unfit(source.names)
        source.values([name for name in source.names if name not in {column.name for column in odd}])
        for column in odd:
            _ = column.place(), column.kind, column.shown
        with contextlib.suppress(InputError):
            count_groups(table, source.names[0] if source.names else "")
    numbers = align_tables(tables[0], tables[-1], **case.choice)
    hold(
        np.isfinite(numbers.first).all() and len(set(numbers.names)) == len(numbers.names),
        "numbers are not finite",
    )


@target(few(text_files), 40)
def text_table(case: Files, folder: Path) -> None:
    _read(case, folder)


@target(few(arrow_files), 28)
def arrow_table(case: Files, folder: Path) -> None:
    _read(case, folder)


@target(few(lambda dice: ("t.npy", npy_files(dice)) if dice.flip() else ("t.npz", npz_files(dice))), 12)
def numpy_table(case: Files, folder: Path) -> None:
    _read(case, folder)
    hold(not Path("pickle-was-loaded").exists(), "a pickle was loaded")


@target(lambda dice: replace(few(turned_files)(dice), turned=True), 12)
def turned_table(case: Files, folder: Path) -> None:
    _read(case, folder)


@target(few(called("t.h5ad", cell_files), 1), 6)
def cells(case: Files, folder: Path) -> None:
    _read(case, folder)


@target(few(files, 3), 20)
def any_table(case: Files, folder: Path) -> None:
    _read(case, folder)


def written(made: Study) -> list[tuple[str, bytes]]:
    """The tables of a study as text files."""
    both = {"one.csv": made.first, "two.csv": made.second}
    return [(name, frame.to_csv(index=False).encode("utf-8", "replace")) for name, frame in both.items()]


def of_study(dice: Dice) -> Files:
    """A study as files, to be read in pieces."""
    made = study(dice)
    return Files(written(made), {"adjust": made.model.get("adjust"), "missing": "drop"})


@target(
    lambda dice: (
        few(text_files if dice.flip() else arrow_files, 3)(dice) if dice.number(0, 2) else of_study(dice),
        dice.pick(("text", "parquet")) if dice.odd(0.2) else None,
        dice.pick((*[None] * 5, ["group"], ["a"], ["a", "b"], dice.pick(([], "a", ["nope"], ["a", "group"])))),
    ),
    20,
)
def stream(case: tuple[Files, Any, Any], folder: Path) -> None:
    given, kind, adjust = case
    places = [put(folder / str(k), *file) for k, file in enumerate(given.files)]
    chosen = {"adjust": adjust, **given.choice}
    found = stream_moments(folder if len(places) > 2 else places, kind, **chosen)
    again = Moments.load(found.moments.save(folder / "moments.npz"))
    hold(
        again.names == found.moments.names and (again.scatter == found.moments.scatter).all(), "moments changed"
    )


@target(
    lambda dice: (
        files(dice)[1] if dice.odd(0.1) else moments_files(dice),
        dice.pick(("all", "all", "all", ["b"], ["a", "batch"], dice.pick((None, [], ["nope"], "batch", 3)))),
        options(dice, MODEL, 1) if dice.odd(0.5) else {},
    ),
    10,
)
def moments(case: tuple[bytes, Any, dict[str, Any]], folder: Path) -> None:
    content, adjust, model = case
    found = Moments.load(put(folder, "m.npz", content))
    again = Moments.load(found.save(folder / "again.npz"))
    hold((again.scatter == found.scatter).all() and again.categories == found.categories, "moments changed")
    found.select(found.column_names()[:1])
    with contextlib.suppress(InputError):  # not where covariates were taken out
        _ = found + found
    adjust = list(found.categories) or None if adjust == "all" else adjust
    if adjust is not None:
        found.adjusted(adjust)
    chosen = {"adjust": adjust, **model, "n_jobs": 1}
    looked_at(DifferenceDAG(**chosen).fit_moments(found, again).result_)


def looks(dice: Dice) -> tuple[Files, str, Any, str]:
    """Files that the page is shown, and what is asked about them."""
    if dice.flip():
        made = study(dice)
        roles = {"cluster": made.model.get("cluster", ""), "adjust": made.model.get("adjust", ())}
        roles["adjust"] = roles["adjust"] if isinstance(roles["adjust"], list) else ()
        missing = dice.pick(("", made.model.get("missing", "")))
        return Files(written(made), {}), "", dice.pick((None, roles)), missing
    roles = dice.pick(
        (None, {}, {"drop": ("a",)}, {"adjust": ("b", "c")}, {"cluster": "a"}, {"cluster": "group"})
    )
    shown = few(text_files if dice.flip() else files)(dice)
    return shown, dice.pick(("", "", "", "group", "a")), roles, dice.pick(("", "drop", "em"))


@target(looks, 10)
def looking(case: tuple[Files, str, Any, str], folder: Path) -> None:
    given, group, roles, missing = case
    paths = [put(folder / str(k), *file) for k, file in enumerate(given.files)]
    if any(not path.name.lower().endswith(ENDINGS) for path in paths):
        raise InputError("the server takes no such file")
    chosen = None if roles is None else Roles(**roles)
    seen = preview_tables(paths, [path.name for path in paths], group=group, roles=chosen, missing=missing)
    json.dumps(seen, allow_nan=False, default=str)


@target(coordinate_files, 8)
def coordinates(case: tuple[str, bytes], folder: Path) -> None:
    check_coordinates(read_coordinates(put(folder, *case)))


@target(tier_files, 6)
def tiers(case: bytes, folder: Path) -> None:
    found = read_tiers(put(folder, "tiers.txt", case))
    precedence([name for tier in found for name in tier], tiers=found)


# Saved answers.


def looked_at(found: DifferenceResult | ConditionsResult) -> None:
    """Look at all that a result has to say, but for pictures."""
    hold(exchange.from_json(found.to_json(), "x") == found, "a result changed on its way")
    _ = found.summary(), found.edges, exchange.to_csv(found)
    ones = [found] if isinstance(found, DifferenceResult) else list(found.pairs.values())
    for one in ones:
        _ = one.nodes, one.by_unit, one.changed_gain, one.changed_noise, one.changed_mean
        exchange.nodes_to_csv(one)
    hold(found._repr_html_().strip(), "nothing to show")
    with contextlib.suppress(InputError):  # not every result says why
        for name in ones[0].variables[:2]:
            found.explain(name)
    with contextlib.suppress(InputError):
        found.explain("no such variable")


def explained(found: DifferenceResult) -> None:
    """Text and numbers of why each variable moved."""
    for name in found.variables[:3]:
        with contextlib.suppress(InputError):
            json.dumps(explanation_json(found, name), allow_nan=False)
            hold(explanation_text(found, name).strip(), "nothing is said")


@target(lambda dice: result_files(dice, several=False), 8)
def result(case: bytes, folder: Path) -> None:
    found = load(put(folder, "result.json", case))
    if isinstance(found, ConditionsResult):
        raise InputError("that is of several conditions")
    looked_at(found)
    explained(found)
    whole(found.save(folder / "out"))
    _ = found.to_dot(), found.to_sif(), found.to_cytoscape()


@target(lambda dice: result_files(dice, several=True), 4)
def conditions(case: bytes, folder: Path) -> None:
    found = load(put(folder, "conditions.json", case))
    looked_at(found)
    if isinstance(found, ConditionsResult):
        _ = found.matrix, found.kinds
        hold(conditions_report.render_page(found).rstrip().endswith("</html>"), "half a page")


@target(lambda dice: (result_files(dice), dice.pick(("plot", "why", "precision", "edge", "save"))), 1)
def pictures(case: tuple[bytes, str], folder: Path) -> None:
    content, what = case
    found = load(put(folder, "result.json", content))
    if isinstance(found, ConditionsResult):
        whole(found.save(folder / "out"))
    elif what == "why":
        svg_of(found.plot_explanation(found.variables[0] if found.variables else "a"))
    elif what == "edge":
        for edge in found.edge_list[:1]:
            svg_of(found.plot_edge(edge.source, edge.target))
    else:
        svg_of(found.plot_precision() if what == "precision" else found.plot())


def results(dice: Dice) -> Any:
    """A result with names of any kind."""
    count = dice.number(2, 5)
    chosen = names(dice, count)
    edges = [
        Edge(chosen[i], chosen[j], change=dice.pick(CHANGES), delta=dice.pick((0.5, -1e300, 1e-300, 2)))
        for i in range(count)
        for j in range(i + 1, count)
        if chosen[i] != chosen[j] and dice.flip()
    ]
    labels = tuple(names(dice, 2))
    return chosen, edges, labels, names(dice, 2)


@target(results, 4)
def writers(case: Any, folder: Path) -> None:
    chosen, edges, labels, notes = case
    if len(set(chosen)) < len(chosen) or "\ud800" in (*chosen, *labels, *notes):
        raise InputError("no reader lets such names through")
    made = graph(chosen, edges, labels=labels, notes=tuple(notes), order=tuple((name,) for name in chosen))
    hold(exchange.from_json(made.to_json(), "x") == made, "a result changed on its way")
    rows = list(csv.reader(io.StringIO(exchange.to_csv(made), newline="")))
    hold([row[:2] for row in rows[1:]] == [[e.source, e.target] for e in made.edge_list], "CSV lost a name")
    whole(made.save(folder / "out"))
    _ = made.to_dot(), made.to_sif(), made.summary(), made.to_cytoscape(), page.render_page(made)


# Tables in memory, and options.


def tables(dice: Dice) -> Any:
    return sound_pairs(dice) if dice.flip() else pairs(dice)


WISHES: dict[str, tuple[Any, ...]] = {
    "columns": (["a", "b"], ["c", "a"]), "drop": (["c"], []), "labels": (("x", "y"), ("x", "x"), "xy"),
    "levels": ({"a": ["g0", "g1", "g2"]}, {}),
}  # fmt: skip


@target(lambda dice: (tables(dice), options(dice, MODEL, 2), options(dice, WISHES, 1)), 8)
def fit(case: Any, folder: Path) -> None:
    (first, second), model, wishes = case
    if model.get("estimator") is not None:
        model = {"method": "paper", **model}
    found = DifferenceDAG(**{"n_jobs": 1, "missing": "drop", **model}).fit(first, second, **wishes).result_
    looked_at(found)


def _studied(case: Study) -> DifferenceResult:
    found = DifferenceDAG(**{"n_jobs": 1, **case.model}).fit(case.first, case.second, **case.wishes).result_
    looked_at(found)
    return found


@target(study, 7)
def designs(case: Study, folder: Path) -> None:
    found = _studied(case)
    explained(found)
    hold(page.render_page(found).rstrip().endswith("</html>"), "half a page")


@target(wide, 1)
def wide_tables(case: Study, folder: Path) -> None:
    _studied(case)


@target(costly, 1)
def assessed(case: Study, folder: Path) -> None:
    _studied(case)


def models(dice: Dice) -> Any:
    """Two models, of which something may be wrong."""
    p = dice.number(1, 4)
    odd = (np.nan, np.inf, 1e300, -1e160, 1e-300, 0.0, "x", None, 1j)
    both = []
    for _ in range(2):
        weights = np.tril(np.random.default_rng(dice.fresh()).uniform(-1, 1, (p, p)), -1).tolist()
        about: dict[str, Any] = {"noise_variances": [dice.pick((1, 0.5, 2)) for _ in range(p)]}
        if dice.flip():
            about["intercepts"] = [dice.pick((0, 1, -3)) for _ in range(p)]
        if dice.odd(0.3):
            about["names"] = names(dice, p)
        if dice.odd(0.4):
            weights[dice.number(0, p - 1)][dice.number(0, p - 1)] = dice.pick(odd)
        if dice.odd(0.3):
            about[dice.pick(("noise_variances", "intercepts", "names", "noise"))] = dice.pick(
                (*ODD_VALUES, odd)
            )
        both.append((weights, about))
    return both, options(dice, MODEL, 1)


@target(models, 2)
def exact_models(case: Any, folder: Path) -> None:
    both, model = case
    try:
        first, second = (LinearSEM(weights, **about) for weights, about in both)
    except (TypeError, ValueError) as error:  # arrays of what is no number are NumPy's to refuse
        raise InputError(str(error)) from error
    looked_at(DifferenceDAG(**model).fit_population(first, second).result_)


@target(lambda dice: (grouped(dice), dice.pick(ODD_VALUES), dice.pick(ODD_VALUES), dice.odd(0.3)), 8)
def groups(case: Any, folder: Path) -> None:
    (table, column), one, two, asked = case
    counts = count_groups(table, column)
    split = split_groups(table, column)
    hold([str(name) for name in split] == list(counts), "groups differ")
    if asked:
        split_groups(table, column, [one, two])


@target(
    lambda dice: (
        grouped(dice),
        options(dice, MODEL, 1),
        options(dice, {"reference": ("x", "1"), "drop": (["b"],)}, 2),
    ),
    4,
)
def several(case: Any, folder: Path) -> None:
    (table, column), model, wishes = case
    looked_at(fit_conditions(split_groups(table, column), model=DifferenceDAG(**model), **wishes))


def many(dice: Dice) -> Any:
    """Three or four conditions of one study, and perhaps one as moments or as something else."""
    made = study(dice)
    tables: dict[str, Any] = {"base": made.first, "x": made.second, "y": made.second.iloc[::-1]}
    if dice.flip():
        tables["z"] = made.first.iloc[: max(1, len(made.first) // 2)]
    if dice.odd(0.2):
        tables[dice.pick(("base", "x", "é/.."))] = dice.pick((None, 3, made.first.T, made.first.iloc[:0]))
    made.wishes = {key: value for key, value in made.wishes.items() if key in ("columns", "drop", "levels")}
    reference = dice.pick((None, "nope", 3)) if dice.odd(0.2) else "base"
    return made, tables, reference


@target(many, 1)
def study_conditions(case: Any, folder: Path) -> None:
    made, tables, reference = case
    model = DifferenceDAG(**{"n_jobs": 1, **made.model})
    looked_at(fit_conditions(tables, reference=reference, model=model, **made.wishes))


@target(
    lambda dice: (tables(dice), options(dice, {"permutations": (19, 29), "rng": (0,), "missing": ("drop",)})), 4
)
def testing(case: Any, folder: Path) -> None:
    (first, second), given = case
    found = global_test(first, second, **{"permutations": 19, **given})
    hold(0 < found.pvalue <= 1, "no probability")


@target(
    lambda dice: (
        tables(dice),
        options(dice, {"method": ("dantzig", "dtrace", "kliep", "plugin"), "penalty": (0.3, "rate:1", 1)}),
    ),
    6,
)
def precision(case: Any, folder: Path) -> None:
    (first, second), given = case
    try:
        both = [Moments.from_array(table) for table in (first, second)]
    except (TypeError, ValueError) as error:
        raise InputError(str(error)) from error
    hold(np.isfinite(precision_difference(*both, **given).matrix).all(), "numbers are not finite")


@target(
    lambda dice: (
        study(dice),
        options(dice, {"penalties": ([1], [0.5, 1]), "by": ("ebic", "stability"), "fits": (2, 4)}),
    ),
    1,
)
def path(case: Any, folder: Path) -> None:
    made, given = case
    made.wishes.pop("labels", None)
    given = {"model": DifferenceDAG(**{"n_jobs": 1, **made.model}), "penalties": [1], "fits": 2, **given}
    found = settings_path(made.first, made.second, **given, **made.wishes)
    json.loads(found.to_json())
    _ = found.summary(), found.table, found.edges


@target(lambda dice: study(dice) if dice.flip() else sound_pairs(dice), 1)
def path_pictures(case: Any, folder: Path) -> None:
    if isinstance(case, Study):
        case = case.first, case.second
    whole(settings_path(*case, penalties=[1]).save(folder / "out"))


@target(
    lambda dice: (
        study(dice),
        options(dice, {"fits": (2,), "kind": ("bootstrap", "half"), "varied": (True,), "drop": (["a"],)}),
    ),
    2,
)
def resampling(case: Any, folder: Path) -> None:
    made, given = case
    made.wishes.pop("labels", None)
    given = {"model": DifferenceDAG(**{"n_jobs": 1, **made.model}), "fits": 2, **made.wishes, **given}
    found = resample_fits(made.first, made.second, **given)
    hold(found.edges["found"].between(0, 1).all(), "no share")


@target(
    lambda dice: (
        tables(dice),
        options(
            dice,
            {
                "methods": (["order"], ["paper", "listen"]),
                "order": (["a", "b"],),
                "limit": (2,),
                "missing": ("drop",),
            },
        ),
    ),
    2,
)
def comparing(case: Any, folder: Path) -> None:
    (first, second), given = case
    json.loads(compare_methods(first, second, **{"methods": ["order"], "limit": 3, **given}).to_json())


@target(lambda dice: (names(dice, dice.number(1, 4)), options(dice, KNOWN, 3)), 6)
def knowledge(case: Any, folder: Path) -> None:
    chosen, given = case
    before = precedence(chosen, **given)
    hold(not before.diagonal().any(), "something precedes itself")


# The server.

WANTED: dict[str, tuple[Any, ...]] = {
    "group": ("", "group"), "first": ("x",), "second": ("y",), "drop": ([], ["a"]), "sure": (True, False),
    "strict": (False,), "series": (True,), "values": ("sample", "spearman"), "equal_noise": (True,),
    "hide_rows": (True,), "tiers": ("a\nb", "a,b\nc"), "adjust": ([], ["b"], ["a"]), "cluster": ("", "c", "a"),
    "missing": ("", "drop", "em"), "hidden": (True, False), "labels": ([], ["x", "y"], ["x"]),
}  # fmt: skip


@target(lambda dice: dice.pick(ODD_VALUES) if dice.odd(0.1) else options(dice, WANTED, 5), 4)
def page_options(case: Any, folder: Path) -> None:
    settings_of(check_options(case), folder)


ASKED = (
    "POST /files?name=a.csv", "POST /look", "POST /jobs", "GET /state", "GET /", "DELETE /files/x",
    "POST /files?name=%00.csv", "POST /files", "GET /jobs/x/report.html", "POST /jobs/x/cancel",
    "GET /jobs/..%2f/x", "PUT /look", "GET /nope", "POST /files?name=a.xlsx", "POST /files?name=a%0a.npz",
)  # fmt: skip
BODIES = (
    b"", b"{}", b"[]", b'{"files": ["x"]}', b'{"files": [1, null]}', b'{"files": "ab"}',
    b'{"files": [[]], "options": 3}', b"[" * 100_000, b'{"files": ["\\ud800"]}', b"9" * 5000, b"\xff\xfe",
)  # fmt: skip
HEADERS = ("host", "origin", "content-length", "content-type", "sec-fetch-site", "cookie", "range")


def asked(dice: Dice) -> tuple[str, bytes, dict[str, str]]:
    """A request that starts no other process."""
    names = dice.some(HEADERS, 2) if dice.odd(0.5) else []
    body = dice.randbytes(40) if dice.odd(0.2) else dice.pick(BODIES)
    return (
        dice.pick(ASKED),
        body,
        {name: dice.pick(("127.0.0.1", "x", "", "-1", "9" * 30, "null", "a=b; c")) for name in names},
    )


@target(asked, 4)
def requests(case: Any, folder: Path) -> None:
    import httpx  # noqa: PLC0415

    wanted, body, headers = case
    method, place = wanted.split(" ")
    session, application = _server()

    async def send() -> httpx.Response:
        transport = httpx.ASGITransport(application)
        async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1:8765") as client:
            client.cookies.set("diffdag-8765", session.token)
            return await client.request(method, place, content=body, headers=headers)

    with ThreadPoolExecutor(1) as pool:  # a browser may have a loop running in this thread
        answer = pool.submit(asyncio.run, send()).result()
    hold(answer.status_code < 500, f"status {answer.status_code}")
    if answer.status_code >= 400:
        raise InputError(answer.text)


@functools.cache
def _server() -> Any:
    import atexit  # noqa: PLC0415

    from diffdag.app.serve.app import make_app  # noqa: PLC0415
    from diffdag.app.serve.session import Session  # noqa: PLC0415

    session = Session(limit=1)
    atexit.register(session.close)
    return session, make_app(session, 8765)


# The command line.


@target(command_lines, 10)
def commands(case: Command, folder: Path) -> None:
    for name, content in case.files.items():
        put(folder, name, content)
    before = _listed(folder)
    with contextlib.chdir(folder), _captured(case.terminal) as (out, err):
        code = cli.run(case.arguments)
    said, complained = out.getvalue(), re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]|\r", "", err.getvalue())
    new = [
        path
        for path in _listed(folder)
        if path not in before or path.read_bytes() != case.files.get(str(path.relative_to(folder)))
    ]
    whole(new)
    hold(code in (0, 2), f"exit code {code}")
    hold("Traceback" not in complained, "a traceback is printed")
    if code == 2:
        last = complained.rstrip("\n").split("\n")[-1]
        hold(last.startswith("diffdag: error: "), f"the last line is {last!r}")
        hold(
            complained.count("diffdag: error: ") >= 1 and not said.strip(),
            "refused, and yet something is printed",
        )
        raise InputError(last)
    hold(said.strip(), "nothing is printed")
    if "--json" in case.arguments and not {"--help", "--version"} & set(case.arguments):
        json.loads(said)


@contextlib.contextmanager
def _captured(terminal: bool) -> Any:
    """Standard output and error in memory; sometimes of a terminal."""
    streams = io.StringIO(), io.StringIO()
    if terminal:
        streams[1].isatty = lambda: True  # type: ignore[method-assign]
    with contextlib.redirect_stdout(streams[0]), contextlib.redirect_stderr(streams[1]):
        yield streams
    sys.stdout.flush()


def _listed(folder: Path) -> list[Path]:
    return sorted(path for path in folder.rglob("*") if path.is_file())
