"""Fill docs/dev/trust_measured.md, and draw its picture, from the newest full runs in benchmarks/results/.

    .venv/bin/python docs/make_trust.py

A block ``<!-- begin null_test null -->`` holds the table of that benchmark and section. Only runs on the seed
of reports are shown.
"""

from __future__ import annotations

import hashlib
import io
import json
import sys
import textwrap
from pathlib import Path
from typing import Any

from matplotlib import rc_context
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from diffdag._base.atomic import write_atomic

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "benchmarks"))
from record import RESULTS, fill, kept, markdown  # noqa: E402

PAGE = HERE / "dev" / "trust_measured.md"
PICTURE = HERE / "trust" / "reliability.svg"
Run = dict[str, Any]
SEED = 870_000
BENCHMARKS = (
    "null_test", "confidence", "intervals", "diagnostics", "mechanisms", "conditions", "settings", "support",
)  # fmt: skip
RELIABILITY = ("confidence mixed", "confidence p10", "confidence p30")
LOOKS = {
    "directed": ("#1d4ed8", "o"),
    "pair": ("#0f766e", "s"),
    "noise": ("#b45309", "^"),
    "mean": ("#7c3aed", "D"),
}


def newest(folder: Path = RESULTS) -> dict[str, Run]:
    """The newest run of each benchmark and section on the seed of reports."""
    found = {}
    for name in BENCHMARKS:
        path = folder / f"{name}.jsonl"
        for run in kept(path) if path.exists() else ():
            if run["settings"].get("seed", SEED) == SEED and "--seed" not in run["settings"].get(
                "arguments", ()
            ):
                found[f"{name} {run['section']}".strip()] = run
    return found


def table(run: Run) -> str:
    made = f"{run['date']}, commit {run['commit']}, {run['machine']}, seed {SEED}"
    return f"{run['title']} ({made}):\n\n{markdown(run['columns'], run['rows'])}"


def filled(page: str, runs: dict[str, Run]) -> str:
    """The page with every block made anew."""

    def block(name: str) -> str:
        script = name.partition(" ")[0]
        return table(runs[name]) if name in runs else f"Not measured yet: `benchmarks/{script}.py`."

    return fill(page, block)


def draw(ax: Axes, run: Run) -> None:
    """Stated confidence against the share that is right, with 95 % intervals."""
    ax.plot([0, 1], [0, 1], color="#9aa6b2", linewidth=1, zorder=0)
    kinds = list(dict.fromkeys(row[0] for row in run["rows"]))
    for k, kind in enumerate(kinds):
        colour, marker = LOOKS[kind]
        rows = [row for row in run["rows"] if row[0] == kind]
        x = [row[2] + 0.008 * (k - (len(kinds) - 1) / 2) for row in rows]
        low, high = zip(*(map(float, row[4].split(" to ")) for row in rows), strict=True)
        y = [row[3] for row in rows]
        errors = [
            [max(0.0, a - b) for a, b in zip(y, low, strict=True)],
            [max(0.0, b - a) for a, b in zip(y, high, strict=True)],
        ]
        ax.errorbar(x, y, errors, color=colour, marker=marker, markersize=5, linewidth=1, capsize=2, label=kind)
    ax.axvspan(0.7, 0.9, color="#eef2f6", zorder=-1)
    ax.set(xlabel="stated confidence", ylabel="share that is right", xlim=(-0.02, 1.02), ylim=(-0.02, 1.02))
    ax.set_title(textwrap.fill(run["title"].removeprefix("Reliability, "), 44), fontsize=9)
    ax.legend(frameon=False, fontsize=8)
    for side in ("top", "right"):
        ax.spines[side].set_visible(False)


def digest(runs: dict[str, Run]) -> str:
    """What the picture shows, in short; `make docs` tells by it whether the picture is out of date."""
    shown = [runs.get(name) for name in RELIABILITY]
    return hashlib.sha256(json.dumps(shown, sort_keys=True).encode()).hexdigest()[:16]


def picture(runs: dict[str, Run]) -> bytes:
    """An SVG, the same bytes for the same runs."""
    shown = [runs[name] for name in RELIABILITY if name in runs]
    figure = Figure(figsize=(4.2 * len(shown), 4.2), layout="constrained")
    FigureCanvasAgg(figure)
    for ax, run in zip(figure.subplots(1, len(shown), squeeze=False).ravel(), shown, strict=True):
        draw(ax, run)
    buffer = io.BytesIO()
    with rc_context({"svg.hashsalt": "trust", "svg.fonttype": "none"}):
        figure.savefig(buffer, format="svg", metadata={"Date": None, "Description": digest(runs)})
    return buffer.getvalue()


def main() -> None:
    runs = newest()
    if any(name in runs for name in RELIABILITY):
        PICTURE.parent.mkdir(exist_ok=True)
        write_atomic(PICTURE, picture(runs))
    write_atomic(PAGE, filled(PAGE.read_text(encoding="utf-8"), runs))


if __name__ == "__main__":
    main()
