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
SEED = 2_870_000
BENCHMARKS = (
    "null_test", "worlds", "real_confidence", "null_halves", "intervals", "diagnostics", "mechanisms",
    "conditions", "settings", "support",
)  # fmt: skip
# Benchmarks with a seed of their own, or none.
OTHER_SEEDS = {"worlds": ", seed 873100", "null_halves": "", "real_confidence": ""}
RELIABILITY = {"worlds report pair": "confidence", "worlds report arrow": "direction"}


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


def table(run: Run, script: str) -> str:
    seed = OTHER_SEEDS.get(script, f", seed {SEED}")
    made = f"{run['date']}, commit {run['commit']}, {run['machine']}{seed}"
    return f"{run['title']} ({made}):\n\n{markdown(run['columns'], run['rows'])}"


def filled(page: str, runs: dict[str, Run]) -> str:
    """The page with every block made anew."""

    def block(name: str) -> str:
        script = name.partition(" ")[0]
        return table(runs[name], script) if name in runs else f"Not measured yet: `benchmarks/{script}.py`."

    return fill(page, block)


def draw(ax: Axes, run: Run, title: str) -> None:
    """What is stated against the share that is right, with 95 % intervals."""
    ax.plot([0, 1], [0, 1], color="#9aa6b2", linewidth=1, zorder=0)
    x, y, claims = ([row[k] for row in run["rows"]] for k in (1, 2, 4))
    low, high = zip(*(map(float, row[3].split(" to ")) for row in run["rows"]), strict=True)
    errors = [
        [max(0.0, a - b) for a, b in zip(y, low, strict=True)],
        [max(0.0, b - a) for a, b in zip(y, high, strict=True)],
    ]
    ax.errorbar(x, y, errors, color="#1d4ed8", marker="o", markersize=5, linewidth=1, capsize=2)
    for point in zip(x, y, claims, strict=True):
        ax.annotate(str(point[2]), point[:2], xytext=(6, -11), textcoords="offset points", fontsize=8)
    ax.axvspan(0.7, 0.9, color="#eef2f6", zorder=-1)
    ax.set(xlabel=f"stated {title}", ylabel="share that is right", xlim=(-0.02, 1.02), ylim=(-0.02, 1.02))
    ax.set_title(title, fontsize=10)
    for side in ("top", "right"):
        ax.spines[side].set_visible(False)


def digest(runs: dict[str, Run]) -> str:
    """What the picture shows, in short; `make docs` tells by it whether the picture is out of date."""
    shown = [runs.get(name) for name in RELIABILITY]
    return hashlib.sha256(json.dumps(shown, sort_keys=True).encode()).hexdigest()[:16]


def picture(runs: dict[str, Run]) -> bytes:
    """An SVG, the same bytes for the same runs."""
    shown = [name for name in RELIABILITY if name in runs]
    figure = Figure(figsize=(4.2 * len(shown), 4.2), layout="constrained")
    FigureCanvasAgg(figure)
    for ax, name in zip(figure.subplots(1, len(shown), squeeze=False).ravel(), shown, strict=True):
        draw(ax, runs[name], RELIABILITY[name])
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
