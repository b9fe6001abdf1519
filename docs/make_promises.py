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

from diffdag._base.words import plural

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))
import make_trust  # noqa: E402
from make_chambers import default_sums, percent  # noqa: E402
from make_reproduction import RUNS  # noqa: E402
from record import RESULTS, fill, kept  # noqa: E402

PAGE = HERE / "promises.md"
SECTION = HERE.parent / "src" / "diffdag" / "report" / "html" / "promises.html"
IN_REPORT = re.compile(r"<!-- in the report -->\n(.*?)<!-- no longer in the report -->", re.DOTALL)
HIGH = 0.95  # stated probabilities from which on a claim is called sure
SOURCES = {
    "chambers": "[`diffdag reproduce chambers`](chambers.md#what-the-default-finds)",
    "sachs": "[`diffdag reproduce sachs`](chambers.md#real-cells-the-sachs-data)",
    "null_halves": "[`benchmarks/null_halves.py`](dev/trust_measured.md#random-halves-of-real-tables)",
    "worlds": "[`benchmarks/worlds.py`](dev/trust_measured.md#confidence-of-each-change)",
    "real_confidence": "[`benchmarks/real_confidence.py`](dev/trust_measured.md#confidence-of-each-change)",
    "null_test": "[`benchmarks/null_test.py`](dev/trust_measured.md#no-change-at-all)",
    "found": "[`benchmarks/nodes.py found`](dev/nodes.md#measured)",
    "nodes": "[`diffdag reproduce nodes`](nodes_compared.md)",
}


def by(name: str, run: dict[str, Any] | None = None) -> str:
    """The command, date and commit of a run, of a benchmark or, without one, of `diffdag reproduce`."""
    if run is None:
        made = json.loads((RUNS / f"{name}.json").read_text(encoding="utf-8"))["made"]
        days: dict[str, dict[str, None]] = {}
        for day, commit in (one.split(", commit ") for one in "; ".join(made).split("; ")):
            days.setdefault(day, {})[commit] = None
        when = "; ".join(
            f"{day}, {'commit' if len(own) == 1 else 'commits'} {', '.join(own)}" for day, own in days.items()
        )
    else:
        when = f"{run['date']}, commit {run['commit']}"
    return f"{SOURCES[name]}, {when}"


def machine() -> list[str]:
    sums, run = default_sums(), make_trust.newest()["real_confidence chambers"]
    kinds = ("exposure", "voltage"), ("range", "curved"), ("nothing", "blocks")
    changed, moved, same = (sums.loc[list(kind)].sum(numeric_only=True) for kind in kinds)
    extra = plural(changed["extra"], "false edge")
    both, right = run["rows"][0][3:5]
    return [
        f"**On a machine whose graph is known**, a light tunnel with 17 columns ({by('chambers')}; "
        "it was looked at while gains were built, and is no blind test of these):",
        "",
        f"- Of {changed['true']} effects that an exposure or a voltage changed, {changed['found']} were found "
        f"and directed right, with {extra} beside them.",
        f"- Where only the range of a cause moved, {moved['fits_with_extra']} of {moved['fits']} comparisons "
        "gave a false edge.",
        f"- Where nothing changed, {same['fits_with_extra']} of {same['fits']} comparisons did.",
        f"- Of {both} edges with confidence and direction of at least 90 % each, {right} were right "
        f"({by('real_confidence', run)}).",
    ]


def cells() -> list[str]:
    sums = pd.read_csv(RUNS / "sachs-summary.csv").set_index("method").loc["order"]
    run = make_trust.newest()["real_confidence sachs"]
    stated = [
        f"- Stated was a {word} of {percent(mean)} on average; of {count} {what} {percent(right)} agreed"
        for word, what, (_, count, mean, right, _) in zip(
            ("confidence", "direction"),
            ("such pairs", "such arrows, which are those that no moved range may explain,"),
            run["rows"],
            strict=True,
        )
    ]
    return [
        f"**On proteins in single cells**, all pairs of nine conditions (Sachs et al. 2005; {by('sachs')}):",
        "",
        f"- Of {sums['pairs']:.0f} claimed pairs {percent(sums['share'])} were neighbours in the network of "
        f"the literature, where {percent(sums['share_by_chance'])} would be by chance.",
        f"- Of {sums['ordered']:.0f} arrows {percent(sums['agreeing'])} agreed with it, where "
        f"{percent(sums['agreeing_by_chance'])} would by chance.",
        *(f"{line} ({by('real_confidence', run)})." for line in stated),
    ]


def halves() -> list[str]:
    run = make_trust.newest()["null_halves"]
    made = sum(row[0].startswith("zeros-") for row in run["rows"])
    worst = max(sum(row[3:7]) for row in run["rows"])  # no fewer than those with a claim of any kind
    return [
        f"**Between random halves of one table**, in which nothing differs; {len(run['rows']) - made} real "
        f"tables and {made} made of zeros and tails ({by('null_halves', run)}):",
        "",
        f"- At most {worst:.0f} of 100 splits of a table gave a claim of any kind.",
    ]


def worlds() -> list[str]:
    runs = make_trust.newest()
    lines = []
    for name, word, what in (
        ("worlds report pair", "confidence", "pairs"),
        ("worlds report arrow", "direction", "arrows"),
    ):
        said = []
        for text, low, high in (("70 to 90 %", 0.7, 0.9), ("95 % or more", HIGH, 1.0)):
            bins = [row for row in runs[name]["rows"] if low <= row[1] <= high]
            count = sum(row[4] for row in bins)
            right = percent(sum(row[2] * row[4] for row in bins) / count)
            said.append(f"of {count} {what} with a {word} of {text}, {right} were right")
        lines.append(f"- {'; '.join(said).capitalize()}.")
    about = "that break the assumptions, and that the calibration left out"
    return [f"**In four simulated worlds** {about} ({by('worlds', runs['worlds report pair'])}):", "", *lines]


def tests() -> list[str]:
    null = make_trust.newest()["null_test null"]
    shares = [float(row[4].rstrip("%")) for row in null["rows"]]
    runs = [run for run in kept(RESULTS / "nodes.jsonl") if "--seed" not in run["settings"]["arguments"]]
    found = next(run for run in reversed(runs) if run["section"] == "found")
    false = [100 * row[found["columns"].index("false at q")] for row in found["rows"]]
    compared = pd.read_csv(RUNS / "nodes-summary.csv").query("method == 'order'")["false"] * 100
    return [
        "**In simulations that meet the assumptions**:",
        "",
        f"- Where nothing changed, the global test rejected at 5 % in {min(shares)} to {max(shares)} % of data "
        f"sets ({by('null_test', null)}).",
        f"- Of variables with a q-value of at most 5 %, {min(false):.1f} to {max(false):.1f} % were false "
        f"({by('found', found)}); in another experiment {compared.min():.1f} to {compared.max():.1f} % "
        f"({by('nodes')}).",
    ]


def rates() -> str:
    return "\n\n".join("\n".join(part()) for part in (machine, cells, halves, worlds, tests))


BLOCKS = {"rates": rates}


def filled(page: str) -> str:
    """The page with its table made anew."""
    return fill(page, lambda name: BLOCKS[name]())


def section(page: str) -> str:
    """The part of the page that is for the report, as HTML without links."""
    text = re.sub(r"\[([^]]+)\]\([^)]+\)", r"\1", IN_REPORT.search(page)[1])
    html = MarkdownIt("commonmark").render(text)
    html = re.sub(r"<!-- .*? -->\n", "", html).replace("h2>", "h3>").replace("<ul>", '<ul class="notes">')
    found = r"<h3>(How often [^<]+)</h3>\n(.*?)(?=<h3>)"
    return re.sub(found, r"<details><summary>\1</summary>\n\2</details>\n", html, flags=re.DOTALL)


if __name__ == "__main__":
    PAGE.write_text(filled(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
    SECTION.write_text(section(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
