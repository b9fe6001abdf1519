"""Some hostile inputs for every reader and the command line; benchmarks/fuzz.py has many more."""

from __future__ import annotations

import contextlib
import signal
import tempfile
from pathlib import Path

import pytest
from attack import TARGETS
from hypothesis import HealthCheck, Phase, given, settings

from diffdag._base.errors import InputError

pytestmark = pytest.mark.slow
SECONDS = 60  # ten times what is allowed on a machine of one's own
INPUTS = 5  # times the share of a target


@pytest.fixture(autouse=True)
def _apart(tmp_path, monkeypatch):
    """Nothing that an input makes is to land in the project's folder."""
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def alarm():
    def ring(*_):
        raise TimeoutError(f"an input took more than {SECONDS} seconds")

    before = signal.signal(signal.SIGALRM, ring)
    yield signal.alarm
    signal.alarm(0)
    signal.signal(signal.SIGALRM, before)


@pytest.mark.filterwarnings("ignore")  # of other libraries, about odd values
@pytest.mark.parametrize("name", TARGETS)
def test_inputs_are_accepted_or_refused_in_words(name, alarm):
    strategy, function, share = TARGETS[name]
    seen = {"accepted": 0, "refused": 0}

    @settings(
        max_examples=INPUTS * share, derandomize=True, database=None, phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )  # fmt: skip
    @given(strategy)
    def attack(case):
        alarm(SECONDS)
        with tempfile.TemporaryDirectory() as folder:
            outcome = "refused"
            with contextlib.suppress(InputError):
                function(case, Path(folder))
                outcome = "accepted"
        seen[outcome] += 1
        alarm(0)

    attack()
    assert seen["accepted"] >= 1, seen
    assert sum(seen.values()) >= INPUTS * share // 2
