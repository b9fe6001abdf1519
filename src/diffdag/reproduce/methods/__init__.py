"""Every method of comparing two conditions, side by side: one file per method, found by being here.

A file of this folder that defines ``METHODS``, a tuple of `Method`, is all that a new method of estimating a
difference graph takes; ``NODE_METHODS``, a tuple of `NodeMethod`, is for methods that rank variables, and
``ROW_METHODS`` for those that estimate a graph from rows, which moments do not stand for.
"""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Iterator
from functools import cache
from typing import Any

from diffdag._base.checks import check_option
from diffdag.reproduce.methods.method import Method, NodeMethod

__all__ = [
    "Method",
    "NodeMethod",
    "all_methods",
    "all_node_methods",
    "all_row_methods",
    "find_method",
    "find_node_method",
    "find_rival",
]


@cache
def all_methods() -> dict[str, Method]:
    """Every method by name, whether or not what it needs is installed."""
    found: list[Method] = list(_listed("METHODS"))
    # The default first, then the others that direct edges.
    found.sort(key=lambda method: (method.name != "order", not method.directs, method.name))
    return {method.name: method for method in found}


def find_method(name: str) -> Method:
    """Return the method of this name, or refuse it and list the names there are."""
    methods = all_methods()
    _check_name(name, tuple(methods))
    return methods[name]


@cache
def all_row_methods() -> dict[str, Method]:
    """Every method of estimating a graph whose ``run`` takes two arrays of rows, by name."""
    return {method.name: method for method in _listed("ROW_METHODS")}


def find_rival(name: str) -> Method:
    """Return the method of this name, from moments or from rows, or refuse it."""
    return all_row_methods().get(name) or find_method(name)


@cache
def all_node_methods() -> dict[str, NodeMethod]:
    """Every method that ranks variables, by name: the default first, then those that name a set."""
    found: list[NodeMethod] = list(_listed("NODE_METHODS"))
    found.sort(key=lambda method: (method.name != "order", not method.claims, method.name))
    return {method.name: method for method in found}


def find_node_method(name: str) -> NodeMethod:
    """Return the method of this name that ranks variables, or refuse it and list the names there are."""
    methods = all_node_methods()
    _check_name(name, tuple(methods))
    return methods[name]


def _listed(what: str) -> Iterator[Any]:
    """The methods of one kind in all files of this folder."""
    for info in pkgutil.iter_modules(__path__):
        yield from getattr(importlib.import_module(f"{__name__}.{info.name}"), what, ())


def _check_name(name: str, known: tuple[str, ...]) -> None:
    check_option("methods", name, known, f"no method is called {name!r}; there are {', '.join(known)}")
