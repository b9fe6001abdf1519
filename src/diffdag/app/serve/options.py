"""What the page asks for: checked, and in the words of `DifferenceDAG`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from diffdag._base.checks import check_labels
from diffdag._base.errors import InputError
from diffdag._base.words import join_names
from diffdag.model.prior_knowledge import read_tiers

RESAMPLES = 200
FALSE_EDGES = 0.05
LONGEST = 1_000_000  # bytes of a text
LONGEST_LABEL = 200  # characters of what to call a condition
# What of some options is known.
MISSING = ("", "drop", "em")
CHOICES = {"missing": MISSING, "values": ("sample", "winsorised", "spearman")}
# Options that say what columns are, in words; a column has one role.
ROLES = {"drop": "left out", "adjust": "taken out as a covariate", "cluster": "what rows are nested in"}
# What can be asked for, and what it is if it is not.
DEFAULTS: dict[str, Any] = {
    "group": "",  # the column that names the group of each row, of a single table
    "first": "",
    "second": "",
    "drop": [],  # columns to leave out, of those that would be compared
    "adjust": [],  # columns to take out of all variables
    "cluster": "",  # the column that rows are nested in
    "missing": "",  # "em" or "drop"; if empty, what suits the rows better
    "labels": [],  # what to call the two conditions, if not as files or groups are called
    "sure": False,  # say how sure each change is
    "strict": False,  # keep the share of false edges small
    "series": False,  # rows are a time series
    "hidden": False,  # take hidden causes of many variables out
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
        if name in CHOICES and value not in CHOICES[name]:
            raise InputError(f"option {name!r} cannot be {value[:40]!r}; reload the page")
    options = {**DEFAULTS, **given}
    _check_roles(options)
    _check_labels(options["labels"])
    if options["series"] and options["cluster"]:
        raise InputError(
            f"rows are nested in '{options['cluster']}' (under Checks) and are a time series (under Options); "
            "choose one of the two"
        )
    for fault, why in (
        (options["cluster"], f"rows are nested in '{options['cluster']}' (under Checks)"),
        (options["missing"] == "em", "gaps are filled (under Checks)"),
    ):
        if options["hidden"] and fault:
            raise InputError(
                f"{why}, and hidden causes (under Options) are estimated from independent rows without gaps; "
                "choose one of the two"
            )
    return options


def _check_roles(options: Mapping[str, Any]) -> None:
    """Refuse a column that has two roles, or one of them twice."""
    roles = {role: options[role] if role != "cluster" else [options[role]] for role in ROLES}
    given = [(name, role) for role, names in roles.items() for name in names if name]
    for name, count in Counter(name for name, _ in given).items():
        if count > 1:
            both = dict.fromkeys(ROLES[role] for other, role in given if other == name)
            said = f"both {' and '.join(both)}" if len(both) > 1 else f"{next(iter(both))} more than once"
            raise InputError(f"column '{name}' is {said}; choose one role for it (under Checks)")
    named = [name for name, _ in given]
    if options["group"] and options["group"] in named:
        raise InputError(
            f"column {join_names([options['group']])} names the groups that are compared; it has no other role"
        )


def _check_labels(labels: list[str]) -> None:
    """Refuse what the two conditions cannot be called."""
    if labels:
        check_labels(labels)
    if any(len(label) > LONGEST_LABEL for label in labels):
        raise InputError(f"give the conditions names of at most {LONGEST_LABEL} characters")


def _short_texts(value: object) -> bool:
    """Whether texts, alone or in a list, are texts, valid and of some reasonable length."""
    texts = value if isinstance(value, list) else [value] if isinstance(value, str) else []
    try:
        return all(isinstance(text, str) and len(text.encode()) <= LONGEST for text in texts)
    except UnicodeEncodeError:  # half a surrogate pair
        return False


def settings_of(options: Mapping[str, Any], folder: Path) -> tuple[dict[str, Any], dict[str, Any]]:
    """What `DifferenceDAG` and its `fit` are to be given, of checked options; `folder` may be written to."""
    missing = options["missing"] or "drop"
    model: dict[str, Any] = {"covariance": options["values"], "missing": missing, "n_jobs": -1}
    model |= {name: options[name] for name in ("adjust", "cluster") if options[name]}
    if options["hidden"]:
        model["adjust"] = [*options["adjust"], "hidden"]
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
