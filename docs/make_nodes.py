"""Fill the tables of docs/nodes_compared.md from the files of finished runs in docs/reproduction/.

    .venv/bin/python docs/make_nodes.py                 fill the page
    .venv/bin/python docs/make_nodes.py FOLDER ...      first take over finished runs of nodes

Only text between ``<!-- begin NAME -->`` and ``<!-- end -->`` is replaced.
"""

from __future__ import annotations

import sys
from pathlib import Path

import pandas as pd

from diffdag.reproduce.experiments.chambers.data import KINDS
from diffdag.reproduce.methods import all_node_methods

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))
from make_reproduction import RUNS, fill, made, markdown, take_over  # noqa: E402

PAGE = HERE / "nodes_compared.md"
SCORES = ("ac1", "ac3", "f1", "false")


def number(value: float) -> str:
    return "" if pd.isna(value) else f"{value:.2f}"


def methods() -> str:
    rows = [["method", "what it is", "names a set", "is told the graph"]]
    for method in all_node_methods().values():
        told = ["yes" if method.claims else "no", "yes" if method.knows_graph else "no"]
        rows.append([f"`{method.name}`", method.about, *told])
    return markdown(rows)


def simulated(p: int) -> str:
    """All scores of all methods, one column per number of rows."""
    table = pd.read_csv(RUNS / "nodes-summary.csv")
    table = table[table["p"] == p]
    sizes = list(dict.fromkeys(table["n"]))
    rows = [["method", "data sets", *(f"n = {n:,}" for n in sizes)]]
    for name, part in table.groupby("method", sort=False):
        own = part.set_index("n")
        cells = [
            " / ".join(number(own.loc[n, score]) for score in SCORES if not pd.isna(own.loc[n, score]))
            for n in sizes
        ]
        rows.append([f"`{name}`", str(own["answers"].iloc[0]), *cells])
    return f"{made('nodes')}\n\n{markdown(rows)}"


def kinds() -> str:
    """Shares found of each kind of change, where there are 341 and 2,525 rows."""
    table = pd.read_csv(RUNS / "nodes-kinds.csv")
    columns = [name for name in table if name not in ("p", "n", "method")]
    shown = table[table["p"].eq(10) & table["n"].isin([341, 2525])]
    rows = [["method", *(f"{kind}, n = {n:,}" for n in (341, 2525) for kind in columns)]]
    for name, part in shown.groupby("method", sort=False):
        own = part.set_index("n")
        rows.append([f"`{name}`", *(number(own.loc[n, kind]) for n in (341, 2525) for kind in columns)])
    return markdown(rows)


def machine() -> str:
    """Means over all environments, and AC@1 of each kind."""
    table = pd.read_csv(RUNS / "nodes-chambers-summary.csv")
    given = [kind for kind in KINDS if kind in set(table["kind"])]
    count = table.drop_duplicates("kind").set_index("kind")["environments"]
    head = ["method", "AC@1", "AC@3", "F1", "false-discovery rate"]
    rows = [[*head, *(f"AC@1, {KINDS[kind]} ({count[kind]})" for kind in given)]]
    for row in table[table["kind"] == "all"].to_dict("records"):
        own = table[table["method"] == row["method"]].set_index("kind")
        means = [number(row[score]) for score in SCORES]
        rows.append([f"`{row['method']}`", *means, *(number(own.loc[kind, "ac1"]) for kind in given)])
    return f"{made('nodes-chambers')}\n\n{markdown(rows)}"


def places() -> str:
    """The place of the touched variable in each environment."""
    table = pd.read_csv(RUNS / "nodes-chambers.csv.gz")
    names = list(dict.fromkeys(table["method"]))
    rows = [["environment", "touched", *(f"`{name}`" for name in names)]]
    for name, part in table.groupby("environment", sort=False):
        own = part.set_index("method")["first"]
        rows.append([f"`{name}`", part["touched"].iloc[0], *(f"{own[method]:.0f}" for method in names)])
    return markdown(rows)


BLOCKS = {
    "methods": methods,
    "p 10": lambda: simulated(10),
    "p 30": lambda: simulated(30),
    "kinds": kinds,
    "machine": machine,
    "places": places,
}


def filled(page: str) -> str:
    """The page with every block made anew."""
    return fill(page, lambda name: BLOCKS[name]())


if __name__ == "__main__":
    for argument in sys.argv[1:]:
        take_over(Path(argument))
    PAGE.write_text(filled(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
