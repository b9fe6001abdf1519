"""Fill the tables of docs/neighbours.md from the files of finished runs in docs/reproduction/.

    .venv/bin/python docs/make_neighbours.py                 fill the page
    .venv/bin/python docs/make_neighbours.py FOLDER ...      first take over finished runs of rivals or wide

Only text between ``<!-- begin NAME -->`` and ``<!-- end -->`` is replaced.
"""

from __future__ import annotations

import sys
from pathlib import Path

import pandas as pd

from diffdag.reproduce.experiments.rivals.worlds import WORLDS
from diffdag.reproduce.methods import find_rival

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))
from make_reproduction import RUNS, fill, made, markdown, take_over  # noqa: E402

PAGE = HERE / "neighbours.md"


def number(value: float) -> str:
    return "" if pd.isna(value) else f"{value:.2f}"


def scores(score: str, directed: bool) -> str:
    """Means of a score, a row per method and a column per world and number of rows."""
    table = pd.read_csv(RUNS / "rivals-summary.csv")
    table = table[[find_rival(name).directs or not directed for name in table["method"]]]
    places = list(dict.fromkeys(zip(table["world"], table["n"], strict=True)))
    count = table.groupby(["world", "n"])[["answers", "missing"]].sum().sum(axis=1)
    own = table.groupby(["world", "n"])["method"].nunique()
    rows = [["method", *(f"{world}, n = {n:,}" for world, n in places)]]
    rows.append(["data sets", *(f"{count[place] / own[place]:.0f}" for place in places)])
    best = table[~table["method"].isin(["oracle"])].groupby(["world", "n"])[score].max()
    for name, part in table.groupby("method", sort=False):
        values = part.set_index(["world", "n"])
        row = [f"`{name}`"]
        for place in places:
            value = values.loc[place, score] if place in values.index else float("nan")
            if place in values.index and values.loc[place, "missing"] > 0:
                row.append(f"{number(value)} ({values.loc[place, 'answers']:.0f} answers)")
            else:
                top = not pd.isna(value) and value >= best[place] - 5e-4 and name != "oracle"
                row.append(f"**{number(value)}**" if top else number(value))
        rows.append(row)
    return f"{made('rivals')}\n\n{markdown(rows)}"


def worlds() -> str:
    rows = [["world", "what it is", "variables", "neighbours on average"]]
    rows += [[name, world.title, str(world.p), f"{world.neighbours:g}"] for name, world in WORLDS.items()]
    return markdown(rows)


def wide() -> str:
    """F1 of directed edges and of the skeleton, by number of variables."""
    table = pd.read_csv(RUNS / "wide-summary.csv")
    sizes = sorted(table["p"].unique())
    rows = [["method", "F1 of", *(f"p = {p:,}" for p in sizes)]]
    for name, part in table.groupby("method", sort=False):
        values = part.set_index("p")
        for score, what in (("f1", "directed edges"), ("skeleton_f1", "the skeleton")):
            if score == "skeleton_f1" or name == "order":
                cells = [number(values.loc[p, score]) if p in values.index else "" for p in sizes]
                rows.append([f"`{name}`", what, *cells])
    return f"{made('wide')}\n\n{markdown(rows)}"


BLOCKS = {
    "worlds": worlds,
    "wide": wide,
    "f1": lambda: scores("f1", directed=True),
    "skeleton": lambda: scores("skeleton_f1", directed=False),
}


def filled(page: str) -> str:
    """The page with every block made anew."""
    return fill(page, lambda name: BLOCKS[name]())


if __name__ == "__main__":
    for argument in sys.argv[1:]:
        take_over(Path(argument))
    PAGE.write_text(filled(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
