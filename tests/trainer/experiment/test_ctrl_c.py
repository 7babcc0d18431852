"""Ctrl-C while questions are answered: it stops the answering even where Python loses the first KeyboardInterrupt."""

from __future__ import annotations

import os
import signal

import pytest

from medtune.trainer.experiment.ctrl_c import noticing_ctrl_c


class PressedInDestructor:
    def __del__(self) -> None:
        os.kill(os.getpid(), signal.SIGINT)
        # The handler runs at the next instruction, still in the destructor.
        sum(range(1000))


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_an_interrupt_that_python_loses_is_raised_again() -> None:
    with noticing_ctrl_c() as check:
        check()
        lost = PressedInDestructor()
        del lost
        with pytest.raises(KeyboardInterrupt):
            check()
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_a_handler_of_ones_own_is_kept() -> None:
    seen: list[int] = []
    before = signal.signal(signal.SIGINT, lambda number, frame: seen.append(number))
    try:
        with noticing_ctrl_c() as check:
            os.kill(os.getpid(), signal.SIGINT)
            check()
        assert seen == [signal.SIGINT]
    finally:
        signal.signal(signal.SIGINT, before)
