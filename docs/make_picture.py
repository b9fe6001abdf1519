"""Draw docs/picture.svg, the picture in the README and others in the docs, from the Sachs data.

README.md quotes the first summary printed; ``docs/make_sessions.py`` rewrites what other pages quote.
Run with ``.venv/bin/python docs/make_picture.py``; the same code and data give the same file.
"""

from __future__ import annotations

import io
from pathlib import Path

from matplotlib import rc_context
from matplotlib.axes import Axes

import diffdag
from diffdag._base.atomic import write_atomic
from diffdag.model.datasets import load_sachs_pair

HERE = Path(__file__).resolve().parent
RESAMPLES = 60
CONDITIONS = ("baseline", "akt-inhibitor", "u0126", "ly294002")


def draw(axes: Axes, path: Path) -> None:
    """Write a picture, with letters as outlines: an image on a web page cannot count on the reader's fonts."""
    buffer = io.BytesIO()
    with rc_context({"svg.fonttype": "path", "svg.hashsalt": "diffdag"}):
        axes.figure.savefig(buffer, format="svg", facecolor="white", metadata={"Date": None})
    path.parent.mkdir(exist_ok=True)
    print(write_atomic(path, buffer.getvalue()))


def main() -> None:
    first, second = load_sachs_pair("u0126")
    model = diffdag.DifferenceDAG(resamples=RESAMPLES, n_jobs=-1)  # as `diffdag demo` has it
    result = model.fit(first, second, labels=("baseline", "u0126")).result_
    draw(result.plot(), HERE / "picture.svg")
    print(result.summary())
    draw(diffdag.settings_path(first, second).plot(), HERE / "trust" / "path.svg")
    tables = {name: load_sachs_pair(name)[1] for name in CONDITIONS[1:]}
    several = diffdag.fit_conditions({CONDITIONS[0]: first, **tables}, reference=CONDITIONS[0])
    draw(several.plot(), HERE / "trust" / "conditions.svg")
    print(several.summary())


if __name__ == "__main__":
    main()
