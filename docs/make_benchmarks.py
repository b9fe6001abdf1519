"""Fill docs/benchmarks.md, and draw its pictures, from the newest full runs in benchmarks/results/.

    .venv/bin/python docs/make_benchmarks.py

Only text between ``<!-- begin NAME -->`` and ``<!-- end -->`` is replaced. Runs of `--quick` are never shown.
A picture carries a digest of what it shows, by which `make docs` tells whether it is out of date.
"""

from __future__ import annotations

import hashlib
import io
import json
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib import rc_context
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.ticker import LogLocator, NullLocator

from diffdag._base.atomic import write_atomic
from diffdag.reproduce.experiments.charts import style_of

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "benchmarks"))
from record import RESULTS, fill, kept, markdown  # noqa: E402

PAGE = HERE / "benchmarks.md"
PICTURES = HERE / "benchmarks"
Run = dict[str, Any]
ALONE = ("rows", "resampling")  # benchmarks of their own, with one table each
# Two curves alone need no greys, which they have among all methods.
LOOKS = {"dantzig": "paper", "dtrace": "dci-c"}


def newest(folder: Path = RESULTS) -> dict[str, Run]:
    """The newest full run of each section."""
    path = folder / "scale.jsonl"
    runs = [run for run in kept(path) if not run["settings"]["quick"]] if path.exists() else []
    found = {run["section"]: run for run in runs}
    for name in ALONE:
        path = folder / f"{name}.jsonl"
        if path.exists() and (runs := list(kept(path))):
            found[name] = runs[-1]
    return found


def table(run: Run) -> str:
    settings = ", ".join(f"{name} {value}" for name, value in run["settings"].items() if name != "quick")
    made = f"{run['date']}, commit {run['commit']}, {run['machine']}; {settings}"
    return f"{run['title']} ({made}):\n\n{markdown(run['columns'], run['rows'])}"


def cells(run: Run, *names: str, **where: Any) -> list[tuple[Any, ...]]:
    """Columns by name, of the rows with these values, without those that have a gap."""
    index = {name: place for place, name in enumerate(run["columns"])}
    rows = [row for row in run["rows"] if all(row[index[name]] == value for name, value in where.items())]
    chosen = [tuple(row[index[name]] for name in names) for row in rows]
    return [row for row in chosen if None not in row]


def curves(ax: Axes, run: Run, x: str, y: str, worst: str | None = None, by: str | None = "method") -> None:
    """One curve for each method, in logarithms, with the worst data set above the median."""
    for name in dict.fromkeys(row[0] for row in cells(run, by)) if by else ["order"]:
        points = cells(run, x, y, *([worst] if worst else []), **({by: name} if by else {}))
        if not points:
            continue
        colour, marker = style_of(LOOKS.get(name, name))
        columns = np.array(points, float).T
        ax.plot(columns[0], columns[1], color=colour, marker=marker, markersize=5, label=name)
        if worst:
            ax.fill_between(columns[0], columns[1], columns[2], color=colour, alpha=0.15, linewidth=0)
    ax.set(xscale="log", yscale="log", xlabel=x, ylabel=y)
    sizes = sorted({float(value) for (value,) in cells(run, x)})
    ax.set_xticks(sizes, [f"{size:g}" for size in sizes], rotation=45 if len(sizes) > 5 else 0)
    ax.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
    ax.yaxis.set_major_formatter(lambda value, _: f"{value:g}")
    for axis in (ax.xaxis, ax.yaxis):
        axis.set_minor_locator(NullLocator())


def finish(ax: Axes, title: str) -> None:
    ax.set_title(title, fontsize=10)
    ax.grid(alpha=0.25)
    if len(ax.get_lines()) > 1:
        ax.legend(frameon=False, fontsize=9)
    for side in ("top", "right"):
        ax.spines[side].set_visible(False)


def slopes(run: Run | None, of: str = "seconds") -> str:
    """The fitted exponents for a title, those of the largest sizes."""
    if run is None:
        return ""
    found = dict(cells(run, "method", "exponent", of=of))
    return "exponent " + ", ".join(f"{value:.2f} ({method})" for method, value in found.items())


def draw_p(axes: list[Axes], runs: dict[str, Run]) -> None:
    growth = runs.get("p exponents")
    for ax, (y, worst, of) in zip(
        axes,
        (
            ("time / floor", "worst", ""),
            ("time (s)", None, "seconds"),
            ("peak memory (GiB)", None, "memory"),
        ),
        strict=True,
    ):
        curves(ax, runs["p"], "p", y, worst)
        finish(ax, slopes(growth, of) if of else "ratio to the floor")


def draw_n(axes: list[Axes], runs: dict[str, Run]) -> None:
    y = next(name for name in runs["n"]["columns"] if name.startswith("time / floor at n"))
    curves(axes[0], runs["n"], "n", y, "worst")
    finish(axes[0], slopes(runs.get("n exponents")))


def draw_changes(axes: list[Axes], runs: dict[str, Run]) -> None:
    curves(axes[0], runs["changes"], "changes", "time / floor", "worst")
    finish(axes[0], slopes(runs.get("changes exponents")))


def draw_order(axes: list[Axes], runs: dict[str, Run], section: str, x: str) -> None:
    curves(axes[0], runs[section], x, "time / floor", "worst", by=None)
    finish(axes[0], runs[section]["title"].partition("; ")[2])


# Which sections a picture shows, in how many panels, and by whom it is drawn.
Drawing = tuple[tuple[str, ...], int, Callable[[list[Axes], dict[str, Run]], None]]
DRAWINGS: dict[str, Drawing] = {
    "p": (("p", "p exponents"), 3, draw_p),
    "n": (("n", "n exponents"), 1, draw_n),
    "changes": (("changes", "changes exponents"), 1, draw_changes),
    "order": (("order",), 1, lambda axes, runs: draw_order(axes, runs, "order", "p")),
    "order-changes": (
        ("order-changes",),
        1,
        lambda axes, runs: draw_order(axes, runs, "order-changes", "changes"),
    ),
}
BLOCKS: dict[str, tuple[str, ...]] = {
    **{name: sections for name, (sections, _, _) in DRAWINGS.items()},
    **{name: (name,) for name in ("lp", "admm", "lasso", "graphs", *ALONE)},
}


def digest(name: str, runs: dict[str, Run]) -> str:
    """What a picture shows, in short."""
    shown = [runs.get(section) for section in DRAWINGS[name][0]]
    return hashlib.sha256(json.dumps(shown, sort_keys=True).encode()).hexdigest()[:16]


def picture(name: str, runs: dict[str, Run]) -> bytes:
    """An SVG, the same bytes for the same runs."""
    _, panels, draw = DRAWINGS[name]
    figure = Figure(figsize=(4.4 * panels + 0.6, 3.4), layout="constrained")
    FigureCanvasAgg(figure)
    draw(list(figure.subplots(1, panels, squeeze=False).ravel()), runs)
    buffer = io.BytesIO()
    with rc_context({"svg.hashsalt": name, "svg.fonttype": "none"}):
        figure.savefig(buffer, format="svg", metadata={"Date": None, "Description": digest(name, runs)})
    return buffer.getvalue()


def block(name: str, runs: dict[str, Run]) -> str:
    present = [section for section in BLOCKS[name] if section in runs]
    if name not in present:
        command = f"{name}.py" if name in ALONE else f"scale.py --only {name}"
        return f"Not measured yet: `python benchmarks/{command}`."
    parts = [table(runs[section]) for section in present]
    if name in DRAWINGS:
        parts.append(f"![{runs[name]['title']}](benchmarks/{name}.svg)")
    return "\n\n".join(parts)


def filled(page: str, runs: dict[str, Run]) -> str:
    """The page with every block made anew."""
    return fill(page, lambda name: block(name, runs))


def pictures(runs: dict[str, Run]) -> Iterator[tuple[str, bytes]]:
    """Name and content of every picture that there are runs for."""
    for name in DRAWINGS:
        if name in runs:
            yield name, picture(name, runs)


def main() -> None:
    runs = newest()
    for name, content in pictures(runs):
        PICTURES.mkdir(exist_ok=True)
        write_atomic(PICTURES / f"{name}.svg", content)
    write_atomic(PAGE, filled(PAGE.read_text(encoding="utf-8"), runs))


if __name__ == "__main__":
    main()
