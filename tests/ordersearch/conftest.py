"""The core of the search, interpreted: to compile one function by itself takes longer than to run it."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterator
from types import SimpleNamespace

import numba
import numpy as np
import pytest

import diffdag

PACKAGE = "diffdag.ordersearch"
MODULES = {"state": "core.state", "score": "core.score", "search": "search"}


@pytest.fixture(scope="session")
def interpreted() -> SimpleNamespace:
    """Modules of the search that numba has not seen; those that others imported stay what they are."""
    kept = {name: sys.modules.pop(name) for name in list(sys.modules) if name.startswith(PACKAGE)}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(numba.config, "DISABLE_JIT", True)
        patch.setattr(diffdag, "ordersearch", None, raising=False)
        found = {short: importlib.import_module(f"{PACKAGE}.{name}") for short, name in MODULES.items()}
    for name in [name for name in sys.modules if name.startswith(PACKAGE)]:
        del sys.modules[name]
    sys.modules.update(kept)
    assert not hasattr(found["score"].full_cost, "py_func")
    return SimpleNamespace(**found)


@pytest.fixture
def plain(interpreted: SimpleNamespace) -> Iterator[SimpleNamespace]:
    """The same; interpreted walks seed numpy's common generator, which is left as it was."""
    state = np.random.get_state()  # noqa: NPY002
    yield interpreted
    np.random.set_state(state)  # noqa: NPY002
