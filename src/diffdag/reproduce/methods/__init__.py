"""Every method of estimating a difference graph, side by side: one file per method, found by being here.

A file of this folder that defines ``METHODS``, a tuple of `Method`, is all that a new method takes.
"""

from __future__ import annotations

import importlib
import pkgutil
from functools import cache

from diffdag._base.checks import check_option
from diffdag.reproduce.methods.method import Method

__all__ = ["Method", "all_methods", "find_method"]


@cache
def all_methods() -> dict[str, Method]:
    """Every method by name, whether or not what it needs is installed."""
    modules = (importlib.import_module(f"{__name__}.{info.name}") for info in pkgutil.iter_modules(__path__))
    found = [method for module in modules for method in getattr(module, "METHODS", ())]
    # The default first, then the others that direct edges.
    found.sort(key=lambda method: (method.name != "order", not method.directs, method.name))
    return {method.name: method for method in found}


def find_method(name: str) -> Method:
    """Return the method of this name, or refuse it and list the names there are."""
    methods = all_methods()
    check_option(
        "methods", name, tuple(methods), f"no method is called {name!r}; there are {', '.join(methods)}"
    )
    return methods[name]
