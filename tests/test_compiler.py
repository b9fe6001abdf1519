"""Where there is no C++ compiler: what `.ci/zig.sh` makes of Zig."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[1] / ".ci" / "zig.sh"
# Stands for Zig: notes what it is asked for, and writes what it is told to.
ZIG = """#!/bin/sh
echo "$@" >> "{log}"
for argument; do
  case $argument in */library.cpp) {library} ;; esac
  case $last in -o) echo "{writes}" > "$argument" ;; esac
  last=$argument
done
"""
LINK, OBJECT = ("-shared", "a.o", "-o", "a.so"), ("-c", "a.cpp", "-o", "a.o")


@pytest.mark.parametrize(
    ("library", "writes", "asked", "last"),
    [
        (":", "", LINK, "own"),
        (":", "_ZNSt3__1", LINK, "whole"),  # something is missing of the own one
        ("exit 1", "", LINK, "whole"),  # it could not be compiled
        (":", "_ZNSt3__1", ("a.o", "-o", "a"), "own"),  # a program without something is not linked at all
        (":", "", ("-v", "a.o", "-o", "a"), "own"),  # as CMake asks first
        (":", "", OBJECT, "none"),
    ],
)
def test_the_whole_library_is_taken_where_what_is_needed_of_it_does_not_do(
    tmp_path, library, writes, asked, last
):
    tools, log = tmp_path / "some tools", tmp_path / "log"
    zig = tools / "ziglang" / "zig"
    zig.parent.mkdir(parents=True)
    zig.write_text(ZIG.format(log=log, library=library, writes=writes))
    zig.chmod(0o755)
    subprocess.run(["sh", str(SCRIPT), str(tools)], check=True)
    subprocess.run([str(tools / "c++"), *asked], check=True, cwd=tmp_path)
    calls = log.read_text().splitlines()[1:]
    assert ("-nostdlib++" in calls[-1]) is (last == "own")
    assert len(calls) == 1 + (last == "whole" and library == ":")
    assert all("-fno-sanitize=undefined" in call for call in calls)
