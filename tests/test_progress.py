"""Progress: told to the caller's function, drawn on terminals only."""

import io
import sys

import pytest

from diffdag.progress import show_progress
from diffdag.validation import InputError


class Terminal(io.StringIO):
    def isatty(self):
        return True


def test_a_function_is_told_the_steps():
    seen = []
    with show_progress(lambda *counts: seen.append(counts), "work", 10, done=2) as advance:
        advance()
        advance(5)
    assert seen == [(3, 10, "work"), (8, 10, "work")]


@pytest.mark.parametrize("progress", [None, False, True])
def test_nothing_is_drawn_without_a_terminal_or_a_wish(monkeypatch, progress):
    stream = io.StringIO() if progress else Terminal()
    monkeypatch.setattr(sys, "stderr", stream)
    with show_progress(progress, "work", 3) as advance:
        advance()
    assert stream.getvalue() == ""


@pytest.mark.parametrize(
    ("total", "quick", "expected"), [(3, False, "2/3"), (None, True, "2 rows"), (3, True, "2/3")]
)
def test_a_bar_on_a_terminal(monkeypatch, capsys, total, quick, expected):
    stream = Terminal()
    monkeypatch.setattr(sys, "stderr", stream)
    with show_progress(True, "Reading", total, quick=quick) as advance:
        advance(2)
    drawn = stream.getvalue()
    assert "Reading" in drawn
    assert expected in drawn
    assert capsys.readouterr().out == ""


def test_anything_else_is_refused():
    with pytest.raises(InputError, match="progress must be"), show_progress("yes", "work"):
        pass
