"""Name a core type whose OpenBLAS kernels this machine can run and does not use by itself; nothing if none."""

from __future__ import annotations

import platform
from pathlib import Path

import numpy as np  # noqa: F401 - loads OpenBLAS
from threadpoolctl import threadpool_info

# What a core type needs, and the types that share most of its kernels.
CORES = {"Haswell": ("avx2", {"Haswell", "Zen"}), "Nehalem": ("sse4_2", {"Nehalem"})}


def other_core() -> str:
    """The first core type of the list that is within reach, or an empty string."""
    if platform.machine() not in {"x86_64", "AMD64"}:
        return ""
    able = set(Path("/proc/cpuinfo").read_text(encoding="utf-8").split())
    used = {library.get("architecture") for library in threadpool_info()}
    return next((name for name, (needs, same) in CORES.items() if needs in able and not used & same), "")


if __name__ == "__main__":
    print(other_core())
