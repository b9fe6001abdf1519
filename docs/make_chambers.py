"""Fill the tables of docs/chambers.md from the files of finished runs in docs/reproduction/.

    .venv/bin/python docs/make_chambers.py                 fill the page
    .venv/bin/python docs/make_chambers.py FOLDER ...      first take over finished runs of chambers or sachs

Only text between ``<!-- begin NAME -->`` and ``<!-- end -->`` is replaced.
"""

from __future__ import annotations

import sys
from pathlib import Path

import pandas as pd

from diffdag._base.words import plural
from diffdag.reproduce.experiments.chambers.data import KINDS
from diffdag.reproduce.experiments.claims import ROWS

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))
from make_reproduction import RUNS, fill, made, markdown, take_over  # noqa: E402

PAGE = HERE / "chambers.md"


def stored(name: str) -> pd.DataFrame:
    return pd.read_csv(RUNS / name, keep_default_na=False)


def default_sums() -> pd.DataFrame:
    """The sums of the default method, by kind."""
    table = stored("chambers-summary.csv")
    return table[table["method"] == ROWS].set_index("kind")


def words() -> str:
    """What the default method did, kind by kind, in sentences."""
    lines = []
    for kind, row in default_sums().iterrows():
        fits = plural(row["fits"], "comparison")
        claimed = f"{plural(row['extra'], 'false edge')} in {row['fits_with_extra']} of {fits}"
        if row["extra"]:
            claimed += f", {row['backwards']} of them from a variable to one of its causes"
        if row["true"]:
            right = f"{row['found']} of {row['true']} changed edges found and directed right"
            others = f"{row['undirected']} found without direction, {row['reversed']} the wrong way round"
            claimed = f"{right}, {others}; {claimed}"
        gave_up = f"; no result in {row['gave_up']}" if row["gave_up"] else ""
        lines.append(f"- **{KINDS[kind]}**: {claimed}{gave_up}.")
    gains = default_sums()["extra_gains"].sum()
    lines.append(f"- **gains** claimed of variables whose gain did not change: {gains}.")
    return "\n".join(lines)


def methods() -> str:
    head = ["what was done", "method", "found", "undirected", "reversed", "false", "of these backwards"]
    rows = [[*head, "comparisons with a false edge", "no result"]]
    names = ("found", "undirected", "reversed", "extra", "backwards", "fits_with_extra", "gave_up")
    before = ""
    for row in stored("chambers-summary.csv").to_dict("records"):
        about = f"{KINDS[row['kind']]}: {plural(row['fits'], 'comparison')}, {row['true']} edges changed"
        counts = [str(row[name]) for name in names]
        counts[0] += f" of {row['true']}" if row["true"] else ""
        counts[5] += f" of {row['fits']}"
        rows.append([about if about != before else "", f"`{row['method']}`", *counts])
        before = about
    return f"{made('chambers')}\n\n{markdown(rows)}"


def environments() -> str:
    table = stored("chambers.csv.gz")
    table = table[(table["method"] == ROWS) & (table["kind"] != "blocks")]
    rows = [["environment", "what was done", "changed edges", "claimed", "gains claimed"]]
    for row in table.to_dict("records"):
        claimed = row["edges"].replace("; ", ", ") if not row["why"] else row["why"]
        left = f" (without {row['left_out']})" if row["left_out"] else ""
        name = f"`{row['environment']}`{left}"
        rows.append([name, KINDS[row["kind"]], str(row["true"]), claimed or "none", row["gains"] or "none"])
    return markdown(rows)


def gains() -> str:
    table = pd.read_csv(RUNS / "chambers-gains.csv")
    rows = [["environment", "sensor", "nominal", "the machine's own", "cause by cause", "claimed"]]
    for row in table.to_dict("records"):
        own = f"{row['machine']:.3g} ± {row['machine_stderr']:.2g}"
        claimed = f"{row['claimed']:.3g} ± {row['claimed_stderr']:.2g}" if row["claimed"] > 0 else "none"
        about = [f"`{row['environment']}`", row["target"], f"{row['nominal']:.3g}", own]
        rows.append([*about, row["ratios"].replace("; ", ", "), claimed])
    return markdown(rows)


def sachs() -> str:
    table = pd.read_csv(RUNS / "sachs-summary.csv")
    head = ["method", "comparisons", "claimed pairs", "in the consensus", "share", "by chance"]
    rows = [[*head, "arrows that the consensus orders", "agree", "share", "by chance"]]
    for row in table.to_dict("records"):
        pairs = [str(row["comparisons"]), str(row["pairs"]), str(row["in_consensus"])]
        shares = [percent(row["share"]), percent(row["share_by_chance"])]
        arrows = [str(row["ordered"]), str(row["agree"]), *map(percent, (row["agreeing"], 0.5))]
        rows.append([f"`{row['method']}`", *pairs, *shares, *arrows])
    return f"{made('sachs')}\n\n{markdown(rows)}"


def percent(share: float) -> str:
    return "" if pd.isna(share) else f"{100 * share:.0f} %"


BLOCKS = {
    "words": words,
    "methods": methods,
    "environments": environments,
    "gains": gains,
    "sachs": sachs,
}


def filled(page: str) -> str:
    """The page with every block made anew."""
    return fill(page, lambda name: BLOCKS[name]())


if __name__ == "__main__":
    for argument in sys.argv[1:]:
        take_over(Path(argument))
    PAGE.write_text(filled(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
