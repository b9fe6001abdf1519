"""Draw docs/picture.svg, the picture in the README, from the demo data.

Run with ``.venv/bin/python docs/make_picture.py``; the same code and data give the same file.
"""

from __future__ import annotations

import io
from dataclasses import replace
from pathlib import Path

from matplotlib import rc_context

import diffdag
from diffdag.atomic import write_atomic
from diffdag.datasets import load_sachs_pair


def main() -> None:
    first, second = load_sachs_pair("u0126")
    result = replace(diffdag.DifferenceDAG().fit(first, second).result_, labels=("baseline", "u0126"))
    buffer = io.BytesIO()
    # Letters as outlines: an image on a web page cannot count on the reader's fonts.
    with rc_context({"svg.fonttype": "path", "svg.hashsalt": "diffdag"}):
        result.plot().figure.savefig(buffer, format="svg", facecolor="white", metadata={"Date": None})
    print(write_atomic(Path(__file__).with_name("picture.svg"), buffer.getvalue()))
    print(result.summary())


if __name__ == "__main__":
    main()
