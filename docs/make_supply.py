"""Fill docs/supply.md: every package that diffdag brings with it, as installed here and as its index knows it.

    .venv/bin/python docs/make_supply.py INDEX

INDEX is the address of a package index that tells of its packages as JSON, at INDEX/NAME/json. Version, licence
and size come from what is installed; the date of the last release and the vulnerabilities that are known come
from the package index, which therefore has to be reached. Only what stands between ``<!-- begin NAME -->`` and
``<!-- end -->`` is replaced. The index answers for the newest release of a package only: where an older one is
installed the table says so, and `pip-audit`, named on the page, asks for exactly what is installed.
"""

from __future__ import annotations

import argparse
import json
import platform
import re
import sys
import tomllib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import UTC, date, datetime
from importlib.metadata import Distribution, distribution
from pathlib import Path
from urllib.request import urlopen

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from diffdag._base.atomic import write_atomic

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "benchmarks"))
from record import fill, markdown  # noqa: E402

PAGE = HERE / "dev" / "supply.md"
PROJECT = tomllib.loads((HERE.parent / "pyproject.toml").read_text(encoding="utf-8"))["project"]
EXTRAS = sorted(set(PROJECT["optional-dependencies"]) - {"dev"})  # dev is for those who work on diffdag
COLUMNS = ("package", "asked for by", "version", "licence", "last release", "MB", "known vulnerabilities")
QUIET = 730  # days without a release after which a package is looked at
# Licences as some packages word them.
SPDX = {
    "2-clause BSD": "BSD-2-Clause",
    "3-Clause BSD License": "BSD-3-Clause",
    "3-clause BSD": "BSD-3-Clause",
    "Apache 2.0": "Apache-2.0",
    "Apache License 2.0": "Apache-2.0",
    "Apache Software License": "Apache-2.0",
    "BSD 3-Clause": "BSD-3-Clause",
    "BSD 3-Clause License": "BSD-3-Clause",
    "BSD License": "BSD",
    "ISC License (ISCL)": "ISC",
    "MIT License": "MIT",
    "Mozilla Public License 2.0 (MPL 2.0)": "MPL-2.0",
    "Python Software Foundation License": "PSF-2.0",
}
EXPRESSION = re.compile(r"[\w.+-]+( (AND|OR) [\w.+-]+)*")


@dataclass(frozen=True)
class Release:
    """What the index says of a package's newest release."""

    version: str
    day: date
    vulnerabilities: tuple[str, ...]


def needed(requirement: Requirement) -> Iterator[tuple[str, Requirement]]:
    """All that one requirement brings, each with the package that asks for it, outermost first."""
    waiting, seen = [("", requirement)], set()
    while waiting:
        asked_by, wanted = waiting.pop(0)
        name = canonicalize_name(wanted.name)
        yield asked_by, wanted
        if (name, frozenset(wanted.extras)) in seen:
            continue
        seen.add((name, frozenset(wanted.extras)))
        for line in distribution(name).requires or ():
            inner = Requirement(line)
            worlds = ({"extra": extra} for extra in ("", *wanted.extras))
            if inner.marker is None or any(inner.marker.evaluate(world) for world in worlds):
                waiting.append((name, inner))


def asked_for(lines: Iterable[str]) -> dict[str, dict[str, str]]:
    """Packages by name; for each, who asks for it, and with which bounds if it is diffdag."""
    found: dict[str, dict[str, str]] = {}
    for line in lines:
        for asked_by, wanted in needed(Requirement(line)):
            who = asked_by or "diffdag"
            bounds = str(wanted.specifier) if who == "diffdag" else ""
            found.setdefault(canonicalize_name(wanted.name), {})[who] = bounds
    return dict(sorted(found.items()))


def licence(package: Distribution) -> str:
    """By its expression, its classifiers or its short wording, in this order of preference."""
    told = package.metadata
    if told.get("License-Expression"):
        return str(told["License-Expression"])
    classes = [
        line.rpartition(" :: ")[2]
        for line in told.get_all("Classifier") or ()
        if line.startswith("License ::") and not line.endswith("OSI Approved")
    ]
    wording = (told.get("License") or "").strip().partition("\n")[0].rstrip(".")
    named = [SPDX.get(words, words) for words in classes]
    if named in ([], ["BSD"]) and (wording in SPDX or EXPRESSION.fullmatch(wording)):
        named = [SPDX.get(wording, wording)]
    return " AND ".join(named) or "not said"


def megabytes(package: Distribution) -> float:
    """Size on disk, without bytecode, which appears on first use."""
    files = [file for file in package.files or () if "__pycache__" not in file.parts]
    return sum(path.stat().st_size for path in map(_located, files) if path.is_file()) / 1e6


def _located(file: object) -> Path:
    return Path(str(file.locate()))  # type: ignore[attr-defined]


def newest(index: str, name: str) -> Release:
    """Ask the index."""
    with urlopen(f"{index.rstrip('/')}/{name}/json", timeout=60) as answer:
        told = json.load(answer)
    days = [datetime.fromisoformat(file["upload_time"]).date() for file in told["urls"]]
    known = {
        "/".join(sorted({found["id"], *found["aliases"]}))
        for found in told["vulnerabilities"]
        if not found.get("withdrawn")
    }
    return Release(told["info"]["version"], max(days), tuple(sorted(known)))


def table(packages: dict[str, dict[str, str]], releases: dict[str, Release], today: date) -> str:
    """Markdown; those that diffdag asks for itself in bold."""
    lines = []
    for name, askers in packages.items():
        here, latest = distribution(name), releases[name]
        quiet = ", quiet" if (today - latest.day).days > QUIET else ""
        older = "" if here.version == latest.version else f" (of {latest.version})"
        lines.append(
            (
                f"**{name}**" if "diffdag" in askers else name,
                ", ".join(f"{who} {bounds}".strip() for who, bounds in sorted(askers.items())),
                here.version,
                licence(here),
                f"{latest.day}{quiet}",
                f"{megabytes(here):.1f}",
                (", ".join(latest.vulnerabilities) or "none") + older,
            )
        )
    return markdown(COLUMNS, lines)


def blocks(index: str, today: date) -> dict[str, str]:
    """The text of every block by name."""
    optional = PROJECT["optional-dependencies"]
    runtime = asked_for(PROJECT["dependencies"])
    extras = asked_for(line for extra in EXTRAS for line in optional[extra])
    tools = asked_for(optional["dev"])
    beside = {name: askers for name, askers in extras.items() if name not in runtime}
    last = {name: askers for name, askers in tools.items() if name not in {**runtime, **extras}}
    releases = {name: newest(index, name) for name in (*runtime, *beside, *last)}
    made = f"Looked up {today} with Python {platform.python_version()} on {sys.platform}, {platform.machine()}"
    heavy = sum(megabytes(distribution(name)) for name in runtime)
    return {
        "runtime": f"{made}; {len(runtime)} packages, {heavy:.0f} MB:\n\n{table(runtime, releases, today)}",
        "extras": f"{made}; {len(beside)} packages besides those above:\n\n{table(beside, releases, today)}",
        "tools": f"{made}; {len(last)} packages besides those above:\n\n{table(last, releases, today)}",
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("index", metavar="INDEX")
    texts = blocks(parser.parse_args().index, datetime.now(UTC).date())
    write_atomic(PAGE, fill(PAGE.read_text(encoding="utf-8"), texts.__getitem__).encode())


if __name__ == "__main__":
    main()
