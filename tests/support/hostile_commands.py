"""Command lines: every command with every option that it knows itself, likely and absurd values mixed.

Options that say how much work to do (rows to draw, resamples to fit) are kept small, or wrong: that a year of
work takes a year is no fault.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pandas as pd
import typer
from hostile import Dice, sound_pairs
from hostile_files import (
    FITTED,
    cell_files,
    coordinate_files,
    files,
    fitted_conditions,
    fitted_result,
    moments_files,
    npy_bytes,
    result_files,
    sound_cells,
    sound_result,
    text_tables,
    tier_files,
    zipped,
)
from hostile_studies import study

from diffdag import __main__ as program

ABSURD = (
    "", " ", "0", "-1", "nan", "inf", "1e400", "x", "a,b", "9" * 30, "\ud800", "é", "--out", "'", '"a', ",",
    "*", "/", "\\",
)  # fmt: skip
# Values that suit an option; whatever is not listed gets the absurd ones only.
USUAL: dict[str, tuple[str, ...]] = {
    "group": ("group", "group", "a"), "first": ("x", "y"), "second": ("y", "x"), "layer": ("log", "raw"),
    "genes": ("top",), "reference": ("x", "x", "y"), "groups": ("x,y", "x,y,z", "y"),
    "method": ("order", "paper"),
    "estimator": ("dantzig", "dtrace", "kliep", "plugin"),
    "penalty": ("0.5", "1", "2", "rate:1"),
    "threshold": ("0.1", "0"),
    "noise": ("auto", "equal", "gaussian", "uniform", "student"),
    "order": ("a,b,c", "c,b,a", "a,b"),
    "tiers": ("tiers.txt",),
    "required": ("a->b", "b -> c"),
    "forbidden": ("a->b", "c->a"),
    "covariance": ("sample", "winsorised", "spearman"),
    "effective_samples": ("20", "20,10", "auto"), "max_variables": ("2", "3"), "resamples": ("20", "0", "0"),
    "fdr": ("0", "2"), "labels": ("x,y", "x"), "permutations": ("19",), "intervals": ("split",),
    "whiten": ("ar", "differences"), "adjust": ("a", "age,batch", "hidden", "1", "c"),
    "cluster": ("donor", "a"), "levels": ("stage=low,mid,high", "stage=low<mid<high", "a=1,2", "stage"),
    "stored_rows": ("0", "5"), "coordinates": ("regions.csv",), "jobs": ("1", "1", "1", "0"),
    "controls": ("20",), "seed": ("1", "7"),
    "columns": ("a,b,c", "a,b", "c,a"), "drop": ("c", "group", "group,a"), "missing": ("drop", "error", "em"),
    "out": ("out", "out", "new/out", "out.npz"), "by": ("ebic", "stability"), "penalties": ("0.5,1", "1"),
    "thresholds": ("0.5,1",), "fits": ("2", "4"),
    "methods": ("order", "paper", "order,listen", "ges", "nope"),
    "limit": ("5", "2"), "p": ("3", "4", "2"), "neighbours": ("1", "2", "0.5"), "samples": ("5", "20"),
    "change": ("0.5", "0"), "changes": ("1", "0"), "variances": ("1", "0.5,1"), "min_epsilon": ("0.01",),
    "variances_drawn": ("shared", "per-condition"), "epsilon": ("0.1", "0.3"), "delta": ("0.05",),
    "parents": ("1", "2"), "pairs": ("1",), "condition": ("u0126",), "port": ("70000", "-1"), "data": ("dir",),
    "target": ("a", "b", "c", "nope"),
}  # fmt: skip
# Beyond these the work would take long, and rightly so.
SMALL = {
    "p", "samples", "fits", "resamples", "permutations", "controls", "pairs", "changes", "jobs", "limit",
    "dask", "port", "min_epsilon",
}  # fmt: skip
WRONG = ("", "x", "-1", "nan", "0.5")
TABLES = (
    "a.csv", "a.csv", "b.csv", "b.csv", "b.csv", "g.csv", "a.parquet", "m1.npz", "m2.npz", "cells.h5ad",
    "t.npz", "missing.csv", "dir", "dir/*.csv", "odd.csv", "odd", "*.csv", "empty.csv", "nul\x00.csv",
    "result.json", "s1.csv", "turned1.csv",
)  # fmt: skip
# What of a study's tables can be asked for.
DESIGNS = (
    ["--adjust", "age,batch"], ["--adjust", "batch"], ["--cluster", "donor"], ["--missing", "em"],
    ["--levels", "stage=low,mid,high"], ["--adjust", "age", "--cluster", "donor"], ["--whiten", "ar"],
    ["--cluster", "donor", "--missing", "em"], ["--drop", "donor,batch"], ["--effective-samples", "auto"],
)  # fmt: skip
EXPORTED = (
    "g.graphml", "e.csv", "p.html", "r.json", "g.dot", "g.gv", "n.sif", "c.cyjs", "v.svg", "x.xyz", "dir",
    "no/e.csv",
)  # fmt: skip
FIGURES = ("f.pdf", "f.png", "f.svg")
RESULTS = ("result.json", "result.json", "conditions.json", "dir", "missing.json", "a.csv", "odd")
# Never to the end: they would serve, or work for minutes.
UNENDING = {"serve": ["--out", "a.csv"], "reproduce": ["--out", "a.csv"], "demo": ["--out", "a.csv"]}


@dataclass
class Command:
    """A command line, and the files it speaks of."""

    arguments: list[str]
    files: dict[str, bytes] = field(default_factory=dict)
    terminal: bool = False


@functools.cache
def commands() -> dict[str, Any]:
    """Commands by name, each with its parameters, as the command line itself knows them."""
    found: Any = typer.main.get_command(program.commands())
    return dict(found.commands)


def _option(dice: Dice, parameter: Any, sound: bool) -> list[str]:
    """One option with its value."""
    spelled = dice.pick([*parameter.opts, *parameter.secondary_opts])
    if parameter.is_flag:
        return [spelled]
    usual = USUAL.get(parameter.name.removesuffix("_group"), ())
    absurd = WRONG if parameter.name in SMALL else ABSURD
    value = dice.pick(usual if usual and (sound or not dice.odd(0.5)) else absurd)
    return [f"{spelled}={value}"] if spelled.startswith("--") and dice.flip() else [spelled, value]


def _words(dice: Dice, name: str) -> list[str]:
    """The options and arguments of one command."""
    parameters = [one for one in commands()[name].params if one.name != "help"]
    choices = [one for one in parameters if one.param_type_name == "option"]
    sound = not dice.odd(0.7)
    chosen = dice.some(choices, 1 + int(4 * dice.level))
    if not dice.odd(0.2) and name != "reproduce":
        chosen += [one for one in choices if one.required and one not in chosen]
    words = [word for one in chosen for word in _option(dice, one, sound)]
    if name in ("fit", "compare", "path"):
        usual = dice.pick(
            (
                ["a.csv", "b.csv"],
                ["g.csv", "--group", "group"],
                ["m1.npz", "m2.npz"],
                ["g.csv", "--group", "group", "--reference", "x"],
                ["cells.h5ad", "--group", "dose"],
                ["a.parquet", "b.csv"],
                ["s1.csv", "s2.csv", *dice.pick(DESIGNS)],
                ["s1.csv", "s2.csv", *dice.pick(DESIGNS)],
                ["s1.csv", "few.csv", "--columns", "a,b"],
                ["turned1.csv", "turned2.csv", "--transpose"],
                ["w1.csv", "w2.csv", "--max-variables", "4"],
                ["mc1.npz", "mc2.npz", "--adjust", "batch"],
            )
        )
        if name == "compare" and any(word in usual for word in ("s1.csv", "mc1.npz", "w1.csv")):
            usual = ["a.csv", "b.csv"]
        if not sound:
            usual = dice.choices(TABLES, k=dice.number(0, 3))
        if "--reference" in usual and name != "fit":
            usual = usual[:3]
        limits = {
            "fit": ["--jobs", "1"],
            "compare": ["--methods", "order", "--limit", "5"],
            "path": ["--penalties", "1", "--fits", "2", "--jobs", "1"],
        }.get(name, [])
        given = {word.split("=")[0] for word in words}
        pairs = [limits[k : k + 2] for k in range(0, len(limits), 2) if limits[k] not in given]
        return [*usual, *words, *(word for pair in pairs for word in pair)]
    if name in ("report", "export", "explain"):
        wanted = dice.some(EXPORTED, 3, int(sound)) if name == "export" else []
        if name == "export" and dice.number(0, 5) == 5:  # pictures take long
            wanted = [dice.pick(FIGURES)]
        if name == "explain":
            words = [word for word in words if not word.startswith(("--out", "out", "new/"))]
            wanted = (
                ["--out", dice.pick((*FIGURES, "no/f.svg", "f.txt", "dir"))] if dice.number(0, 3) == 3 else []
            )
        return [dice.pick(RESULTS[:3] if sound else RESULTS), *wanted, *words]
    if name == "moments":
        tables = ("a.csv", "b.csv", "dir", "a.parquet", "s1.csv") if sound else TABLES
        return [*dice.some(tables, 2, int(sound)), *words]
    if name == "reproduce":
        return [dice.pick(("table1", "figure2", "brain", "nodes", "rivals", "wide", "nope", "")), *words]
    return words


def _contents(dice: Dice, mentioned: str) -> dict[str, bytes]:
    """The files that a command line mentions; half the time the tables are sound."""
    first, second = sound_pairs(dice)
    if not dice.odd(0.3):
        first.columns = second.columns = list("abcd"[: first.shape[1]])
    grouped = pd.concat([first.assign(group="x"), second.assign(group="y"), (first * 2).assign(group="z")])
    sound = not dice.odd(0.7)
    mild = Dice(dice.fresh())
    mild.level = 0.0
    studied = functools.cache(lambda: study(mild, 3, (40, 36), ("covariates", "units", "stages", "gaps")))
    wide = functools.cache(lambda: study(mild, 34, (40, 20), ()))

    def text(frame: pd.DataFrame) -> bytes:
        return frame.to_csv(index=False, sep=dice.pick((",", ";"))).encode("utf-8", "replace")

    made: dict[str, Any] = {
        "a.csv": lambda: text(first),
        "b.csv": lambda: text(second) if sound else text_tables(dice),
        "g.csv": lambda: text(grouped[grouped["group"] != "z"] if dice.flip() else grouped),
        "s1.csv": lambda: text(studied().first),
        "s2.csv": lambda: text(studied().second),
        "few.csv": lambda: text(studied().second.head(dice.number(1, 9))),
        "w1.csv": lambda: text(wide().first),
        "w2.csv": lambda: text(wide().second),
        "turned1.csv": lambda: text(first.T.reset_index()) if sound else text_tables(dice, turned=True),
        "turned2.csv": lambda: text(second.T.reset_index()),
        "mc1.npz": lambda: _moments(first, batch=True) if sound else moments_files(dice),
        "mc2.npz": lambda: _moments(second, batch=True),
        "a.parquet": lambda: _parquet(first),
        "m1.npz": lambda: _moments(first) if sound else moments_files(dice),
        "m2.npz": lambda: _moments(second),
        "t.npz": lambda: zipped({"t.npy": npy_bytes(first.to_numpy())}),
        "cells.h5ad": lambda: sound_cells("csr") if sound else cell_files(dice),
        "odd.csv": lambda: text_tables(dice),
        "empty.csv": lambda: b"",
        "tiers.txt": lambda: b"a,b\nc\n" if sound else tier_files(dice),
        "regions.csv": lambda: b"region,x,y,z\na,1,2,3\nb,4,5,6\n" if sound else coordinate_files(dice)[1],
        "result.json": lambda: result_files(dice, several=False) if not sound else _result(dice).encode(),
        "conditions.json": lambda: (
            result_files(dice, several=True) if not sound else fitted_conditions().encode()
        ),
    }
    wild = "*" in mentioned
    found = {
        name: make()
        for name, make in made.items()
        if name in mentioned or (wild and name in ("a.csv", "b.csv"))
    }
    if "dir" in mentioned:
        found |= {"dir/1.csv": text(first), "dir/2.csv": text(second)}
        found |= dice.pick(({}, {"dir/result.json": sound_result(880_100).encode()}, {"dir/_log.csv": b"x"}))
    if "odd" in mentioned:
        name, content = files(dice)
        found["odd" if dice.flip() else name] = content
    return found


def _parquet(frame: pd.DataFrame) -> bytes:
    try:
        return frame.to_parquet()
    except Exception:  # names that are no text, or there twice
        return frame.set_axis([f"c{k}" for k in range(frame.shape[1])], axis=1).to_parquet()


def _moments(frame: pd.DataFrame, batch: bool = False) -> bytes:
    values, called, more = frame.to_numpy(), [str(name) for name in frame.columns], {}
    if batch:
        levels = np.arange(len(values))[:, None] % 3 == np.arange(3)
        more["categories"] = np.array([""] * len(called) + ["batch"] * 3)
        values, called = np.hstack([values, levels]), [*called, *(f"batch={k}" for k in range(3))]
    centred = values - values.mean(axis=0)
    parts = {
        "schema": 1,
        "names": np.array(called),
        "n": len(values),
        "mean": values.mean(axis=0),
        "scatter": centred.T @ centred,
        **more,
    }
    return zipped({f"{key}.npy": npy_bytes(np.asarray(value)) for key, value in parts.items()})


def _result(dice: Dice) -> str:
    place = dice.number(0, len(FITTED))
    return fitted_result(place) if place < len(FITTED) else sound_result(880_102)


def command_lines(dice: Dice) -> Command:
    """A command line and its files."""
    weighted = ("fit",) * 6 + (
        "export", "explain", "report", "moments", "simulate", "path", "compare", "plan",
    ) * 2  # fmt: skip
    name = dice.pick((*sorted(commands()), "nope")) if dice.odd(0.3) else dice.pick(weighted)
    words = _words(dice, name) if name in commands() else []
    if name in UNENDING and "--help" not in words:
        words = [*words, *UNENDING[name]]
    if dice.odd(0.1):
        words = dice.sample(words, len(words))
        words = [*words, *UNENDING.get(name, ())]
    arguments = [*(dice.pick((["--version"], ["--help"], ["-x"])) if dice.odd(0.1) else []), name, *words]
    mentioned = " ".join(arguments)
    return Command(arguments, _contents(dice, mentioned), dice.number(0, 5) == 5)
