"""What the page asks for: checked, and in the words of `DifferenceDAG`."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from diffdag._base.errors import InputError
from diffdag.model.prior_knowledge import read_tiers

RESAMPLES = 200
FALSE_EDGES = 0.05
LONGEST = 1_000_000  # bytes of a text
# What can be asked for, and what it is if it is not.
DEFAULTS: dict[str, Any] = {
    "group": "",  # the column that names the group of each row, of a single table
    "first": "",
    "second": "",
    "drop": [],  # columns to leave out
    "sure": False,  # say how sure each change is
    "strict": False,  # keep the share of false edges small
    "series": False,  # rows are a time series
    "values": "sample",  # what `covariance` is
    "equal_noise": False,
    "hide_rows": False,  # no single rows in the result
    "tiers": "",  # what is known of the causal order, one tier per line
}


def check_options(given: object) -> dict[str, Any]:
    """Fill in what is not asked for, and refuse what is not known.

    >>> check_options({"sure": True})["sure"]
    True
    """
    if not isinstance(given, Mapping):
        raise InputError("the options are not a list of names and values; reload the page")
    for name, value in given.items():
        if name not in DEFAULTS:
            raise InputError(f"there is no option {str(name)[:40]!r}; reload the page")
        if not isinstance(value, type(DEFAULTS[name])) or not _short_texts(value):
            raise InputError(f"option {name!r} has a value of another kind than expected; reload the page")
    return {**DEFAULTS, **given}


def _short_texts(value: object) -> bool:
    """Whether texts, alone or in a list, are texts, valid and of some reasonable length."""
    texts = value if isinstance(value, list) else [value] if isinstance(value, str) else []
    try:
        return all(isinstance(text, str) and len(text.encode()) <= LONGEST for text in texts)
    except UnicodeEncodeError:  # half a surrogate pair
        return False


def settings_of(options: Mapping[str, Any], folder: Path) -> tuple[dict[str, Any], dict[str, Any]]:
    """What `DifferenceDAG` and its `fit` are to be given, of checked options; `folder` may be written to."""
    model: dict[str, Any] = {"covariance": options["values"], "missing": "drop", "n_jobs": -1}
    if options["series"]:
        model["effective_samples"] = "auto"
    if options["equal_noise"]:
        model["noise"] = "equal"
    if options["tiers"].strip():
        known = folder / "known order"
        known.write_text(options["tiers"], encoding="utf-8")
        model["tiers"] = read_tiers(known)
    fit: dict[str, Any] = {"drop": options["drop"]}
    if options["hide_rows"]:
        model["stored_rows"] = 0
    if options["sure"] or options["strict"]:
        model["resamples"], fit["journal"] = RESAMPLES, folder
    if options["strict"]:
        model["fdr"] = FALSE_EDGES
    return model, fit
