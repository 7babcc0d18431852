"""Tests that progress is a bar in a terminal, which is gone at the end, and a few plain lines elsewhere."""

import contextlib
import os
import pty
import sys
import termios

import pytest

from medtune.data import progress as shown
from medtune.data.progress import counted, progress


class Clock:
    def __init__(self) -> None:
        self.now_s = 0.0

    def monotonic(self) -> float:
        return self.now_s


def test_lines_say_how_far_and_how_long(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """A line comes every half minute; what an earlier process did says nothing about the time that is left."""
    clock = Clock()
    monkeypatch.setattr(shown, "time", clock)
    with progress("training", unit="steps") as on_done:
        for done in range(100, 201):
            on_done(done, 200, "loss 0.5")
            clock.now_s += 1.0
    said = capsys.readouterr().err.splitlines()
    assert said == [
        f"training: {step} of 200 steps, {left} left, loss 0.5"
        for step, left in ((130, "1:10"), (160, "0:40"), (190, "0:10"))
    ]
    with progress("zero-shot", unit="images") as on_done:
        on_done(0, 3)
        on_done(3, 3)
    with progress("zero-shot", unit="images", shown=False) as on_done:
        clock.now_s += 100
        on_done(2, 3)
    assert capsys.readouterr().err == ""


def test_rows_whose_number_nobody_knows_are_counted(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    clock = Clock()
    monkeypatch.setattr(shown, "time", clock)
    for _ in counted(iter("x" * 70), "reading the table", unit="rows"):
        clock.now_s += 1.0
    assert capsys.readouterr().err.splitlines() == ["reading the table: 30 rows", "reading the table: 60 rows"]


def _read_to_the_end(terminal: int) -> str:
    """Reads what a closed terminal was sent; one read may give only a part of it, and the end is an error (EIO)."""
    said = b""
    with contextlib.suppress(OSError):
        while part := os.read(terminal, 10_000):
            said += part
    return said.decode()


def test_a_terminal_shows_a_bar_that_leaves_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    mine, theirs = pty.openpty()
    termios.tcsetwinsize(theirs, (24, 80))
    with os.fdopen(theirs, "w") as terminal:
        monkeypatch.setattr(sys, "stderr", terminal)
        with progress("final", unit="images") as on_done:
            on_done(1, 4, "loss 0.5")
    said = _read_to_the_end(mine)
    os.close(mine)
    assert "of 4 images" in said
    assert said.endswith("\r")
    assert not said.rstrip("\r").rpartition("\r")[2].strip()
