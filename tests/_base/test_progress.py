"""Progress: told to the caller's function, drawn on terminals only."""

import io
import sys

import numpy as np
import pytest

from diffdag._base import progress
from diffdag._base.errors import InputError
from diffdag._base.progress import Unthrottled, progress_callback, show_progress
from diffdag.trust.permutation import global_test


class Terminal(io.StringIO):
    def isatty(self):
        return True


def test_a_function_is_told_the_steps():
    seen = []
    with show_progress(lambda *counts: seen.append(counts), "work", 10, done=2) as advance:
        advance()
        advance(5)
    assert seen == [(2, 10, "work"), (3, 10, "work"), (8, 10, "work")]


@pytest.mark.parametrize("wish", [None, False, True])
def test_nothing_is_drawn_without_a_terminal_or_a_wish(monkeypatch, wish):
    stream = io.StringIO() if wish else Terminal()
    monkeypatch.setattr(sys, "stderr", stream)
    with show_progress(wish, "work", 3) as advance:
        advance()
    assert stream.getvalue() == ""


@pytest.mark.parametrize(("total", "expected"), [(3, "2/3"), (None, "2 rows")])
def test_a_bar_on_a_terminal(monkeypatch, capsys, total, expected):
    stream = Terminal()
    monkeypatch.setattr(sys, "stderr", stream)
    with show_progress(True, "Reading", total) as advance:
        advance(2)
    drawn = stream.getvalue()
    assert "Reading" in drawn
    assert expected in drawn
    assert capsys.readouterr().out == ""


def test_anything_else_is_refused():
    with pytest.raises(InputError, match="progress must be"), show_progress("yes", "work"):
        pass
    with pytest.raises(InputError, match="progress must be"), progress_callback("yes", "work"):
        pass


@pytest.mark.parametrize(("total", "steps"), [(1000, 1), (100_000, 7), (250, 1), (101, 1)])
def test_a_function_is_told_about_a_hundred_times_and_the_end(total, steps):
    seen = []
    with show_progress(lambda *told: seen.append(told), "work", total) as advance:
        for _ in range(total // steps):
            advance(steps)
    assert 90 <= len(seen) <= 102
    assert seen[-1] == (total // steps * steps, total, "work")
    assert [told[0] for told in seen] == sorted({told[0] for told in seen})


def test_a_function_is_told_once_a_second_where_the_end_is_not_known(monkeypatch):
    now = iter(np.arange(0.0, 100.0, 0.25))
    monkeypatch.setattr(progress.time, "monotonic", lambda: next(now))
    seen = []
    with show_progress(lambda *told: seen.append(told), "rows", None) as advance:
        for _ in range(50):
            advance(10)
    assert len(seen) < 15
    assert seen[-1] == (500, None, "rows")


def test_one_function_follows_several_pieces_of_work():
    seen = []
    with progress_callback(lambda *told: seen.append(told), "all") as told:
        for piece in ("one", "two"):
            with show_progress(told, piece, 300) as advance:
                for _ in range(300):
                    advance()
    pieces = [what for _, _, what in seen]
    assert pieces == sorted(pieces)
    assert pieces.count("one") == pieces.count("two") <= 102
    for wish in (None, False):
        with progress_callback(wish, "all") as told:
            assert told is None


def test_bars_and_counters_are_told_every_step(monkeypatch):
    count = []
    with show_progress(Unthrottled(lambda *told: count.append(told)), "work", 1000) as advance:
        for _ in range(1000):
            advance()
    assert [done for done, _, _ in count] == list(range(1001))
    stream = Terminal()
    monkeypatch.setattr(sys, "stderr", stream)
    with progress_callback(True, "Starting") as told:
        told(3, 9, "Walking")
    assert "3/9" in stream.getvalue()
    monkeypatch.setattr(sys, "stderr", io.StringIO())
    with progress_callback(True, "Starting") as told:
        assert told is None


def test_a_function_is_told_of_permutations_sparingly():
    rows = np.random.default_rng(0).standard_normal((60, 3))
    seen = []
    global_test(rows[:30], rows[30:], progress=lambda *told: seen.append(told))
    assert len(seen) <= 102
    assert seen[-1][0] == seen[-1][1]
