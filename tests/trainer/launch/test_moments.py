"""Twenty seeded moments at which a rank is stopped or killed: the run resumes to the same losses."""

import random
import signal
from pathlib import Path
from typing import Any

import pytest

from tests.trainer.launch.moments import Moment
from tests.trainer.launch.test_signals import stopped_and_resumed, whole

__all__ = ["whole"]

NUMBER, SEED = 20, 19
SIGNALS = (signal.SIGTERM, signal.SIGUSR1, signal.SIGUSR2, signal.SIGKILL)
PHASES = ("loading", "zero_shot", "training", "training", "final")


IN_SLOW = (3,)
"""The moment of the slow suite, SIGKILL in training; test_signals.py has SIGUSR1 there and SIGTERM before it."""


def moments() -> list[Moment]:
    """Returns the moments: each signal and each phase comes equally often."""
    draw = random.Random(SEED)
    return [
        Moment(SIGNALS[i % len(SIGNALS)], draw.randrange(2), PHASES[i % len(PHASES)], draw.uniform(0, 0.4))
        for i in range(NUMBER)
    ]


def _marked() -> list[Any]:
    return [
        pytest.param(m, marks=pytest.mark.slow if i in IN_SLOW else pytest.mark.soak, id=f"{i}-{_name(m)}")
        for i, m in enumerate(moments())
    ]


def _name(moment: Moment) -> str:
    return f"{signal.Signals(moment.number).name}-{moment.phase}-{moment.rank}"


@pytest.mark.parametrize("moment", _marked())
def test_stopped_at_a_seeded_moment(prepared_tiny: Path, whole: Path, tmp_path: Path, moment: Moment) -> None:
    stopped_and_resumed(prepared_tiny, whole, tmp_path, moment)
