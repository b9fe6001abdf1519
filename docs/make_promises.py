"""Fill the table of docs/promises.md from stored runs, and make the section of the report from that page.

    .venv/bin/python docs/make_promises.py

Text between ``<!-- begin NAME -->`` and ``<!-- end -->`` is replaced. The part of the page from ``<!-- in the
report -->`` on becomes ``report/html/promises.html``, without its links: a report is one file that may be far
from any documentation.
"""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from typing import Any

import pandas as pd
from markdown_it import MarkdownIt

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))
import make_trust  # noqa: E402
from make_chambers import default_sums, percent  # noqa: E402
from make_reproduction import RUNS, markdown  # noqa: E402
from record import RESULTS, fill, kept  # noqa: E402

PAGE = HERE / "promises.md"
SECTION = HERE.parent / "src" / "diffdag" / "report" / "html" / "promises.html"
IN_REPORT = re.compile(r"<!-- in the report -->\n(.*?)<!-- no longer in the report -->", re.DOTALL)
HIGH = 0.95  # stated probabilities from which on an edge is called sure
TUNNEL = "a machine whose graph is known"
MACHINE = "[`diffdag reproduce chambers`](chambers.md#what-the-default-finds)"
SACHS = "[`diffdag reproduce sachs`](chambers.md#real-cells-the-sachs-data)"
HALVES = "[`benchmarks/null_halves.py`](dev/trust_measured.md#random-halves-of-real-tables)"
STATED = "[`benchmarks/{}.py`](dev/trust_measured.md#confidence-of-each-change)"


def when(run: dict[str, Any]) -> str:
    return f"{run['date']}, commit {run['commit']}"


def made_on(name: str) -> str:
    """Date and commit of the newest part of a run of `diffdag reproduce`."""
    return max(json.loads((RUNS / f"{name}.json").read_text(encoding="utf-8"))["made"])


def claims() -> list[list[str]]:
    """Claims on real data: a machine, cells, and random halves of tables."""
    sums = default_sums()
    changed, moved, same = (
        sums.loc[list(kinds)].sum(numeric_only=True)
        for kinds in (("exposure", "voltage"), ("range", "curved"), ("nothing", "blocks"))
    )
    sachs = pd.read_csv(RUNS / "sachs-summary.csv").set_index("method").loc["order"]
    halves = make_trust.newest()["null_halves"]
    worst = max(max(row[3:7]) for row in halves["rows"])
    made = sum(row[0].startswith("zeros-") for row in halves["rows"])
    machine, cells = f"{MACHINE}, {made_on('chambers')}", f"{SACHS}, {made_on('sachs')}"
    return [
        [
            "edges and arrows where effects changed",
            f"{changed['found']} of {changed['true']} found and directed right, "
            f"{changed['extra']} false beside them",
            f"{TUNNEL}: an exposure or a voltage set otherwise",
            machine,
        ],
        [
            "an edge where only the range of a cause moved",
            f"false in {moved['fits_with_extra']} of {moved['fits']} comparisons",
            "the same machine: a light or a polariser set otherwise",
            machine,
        ],
        [
            "an edge where nothing changed",
            f"false in {same['fits_with_extra']} of {same['fits']} comparisons",
            "the same machine, left alone",
            machine,
        ],
        [
            "a claim of any kind where nothing changed",
            f"false in at most {worst:.0f} of 100 splits of each table",
            f"random halves of {len(halves['rows']) - made} real tables and of {made} made of zeros and tails",
            f"{HALVES}, {when(halves)}",
        ],
        [
            "a pair of variables",
            f"{percent(sachs['share'])} of {sachs['pairs']:.0f} are neighbours in the literature's network, "
            f"{percent(sachs['share_by_chance'])} would be by chance",
            "proteins in single cells, all pairs of nine conditions",
            cells,
        ],
        [
            "an arrow",
            f"{percent(sachs['agreeing'])} of {sachs['ordered']:.0f} agree with that network, "
            f"{percent(sachs['agreeing_by_chance'])} would by chance",
            "the same cells",
            cells,
        ],
    ]


def stated() -> list[list[str]]:
    """Stated probabilities: in simulated worlds, on cells and on the machine."""
    runs = make_trust.newest()
    rows = []
    for name, word in (("worlds report pair", "confidence"), ("worlds report arrow", "direction")):
        run = runs[name]
        for text, low, high in (("70 to 90 %", 0.7, 0.9), ("95 % and more", HIGH, 1.0)):
            bins = [row for row in run["rows"] if low <= row[1] <= high]
            count = sum(row[4] for row in bins)
            right = sum(row[2] * row[4] for row in bins) / count
            world = "four simulated worlds that break the assumptions and had no part in the calibration"
            rows.append(
                [
                    f"a {word} of {text}",
                    f"{percent(right)} of {count} right",
                    world if not rows else "the same worlds",
                    f"{STATED.format('worlds')}, {when(run)}",
                ]
            )
    cells, machine = runs["real_confidence sachs"], runs["real_confidence chambers"]
    for what, count, mean, right, _ in cells["rows"]:
        word = {"pairs": "confidence", "arrows": "direction"}[what]
        rows.append(
            [
                f"a {word} of {percent(mean)} on average",
                f"{percent(right)} of {count} {what} agree with the literature",
                "proteins in single cells",
                f"{STATED.format('real_confidence')}, {when(cells)}",
            ]
        )
    both, right = machine["rows"][0][3:5]
    rows.append(
        [
            "confidence and direction both at least 90 %",
            f"{right} of {both} right",
            TUNNEL,
            f"{STATED.format('real_confidence')}, {when(machine)}",
        ]
    )
    return rows


def tests() -> list[list[str]]:
    """P-values and q-values."""
    null = make_trust.newest()["null_test null"]
    shares = [float(row[4].rstrip("%")) for row in null["rows"]]
    runs = [run for run in kept(RESULTS / "nodes.jsonl") if "--seed" not in run["settings"]["arguments"]]
    found = next(run for run in reversed(runs) if run["section"] == "found")
    false = [row[found["columns"].index("false at q")] for row in found["rows"]]
    return [
        [
            "the global test at 5 %, where nothing changed",
            f"rejects in {min(shares)} to {max(shares)} % of data sets",
            f"simulated, {len(shares)} settings with 500 data sets each",
            f"[`benchmarks/null_test.py`](dev/trust_measured.md#no-change-at-all), {when(null)}",
        ],
        [
            "variables with a q-value of at most 5 %",
            f"{100 * min(false):.1f} to {100 * max(false):.1f} % are false",
            "simulated, 10 and 30 variables",
            f"[`benchmarks/nodes.py found`](dev/nodes.md#measured), {when(found)}",
        ],
    ]


def rates() -> str:
    head = ["claim", "how often it came true", "on which data", "measured by"]
    return markdown([head, *claims(), *stated(), *tests()])


BLOCKS = {"rates": rates}


def filled(page: str) -> str:
    """The page with its table made anew."""
    return fill(page, lambda name: BLOCKS[name]())


def section(page: str) -> str:
    """The part of the page that is for the report, as HTML without links."""
    text = re.sub(r"\[([^]]+)\]\([^)]+\)", r"\1", IN_REPORT.search(page)[1])
    html = MarkdownIt("commonmark").enable("table").render(text)
    html = re.sub(r"<!-- .*? -->\n", "", html).replace("h2>", "h3>").replace("<ul>", '<ul class="notes">')
    title = r"<h3>([^<]+)</h3>\n(<table>.*?</table>)"
    folded = r'<details><summary>\1</summary>\n<div class="scroll">\2</div></details>'
    return re.sub(title, folded, html, flags=re.DOTALL)


if __name__ == "__main__":
    PAGE.write_text(filled(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
    SECTION.write_text(section(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
