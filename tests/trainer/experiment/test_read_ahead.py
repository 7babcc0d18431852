"""Processes that read media ahead change no answer, are stopped with their run, and the time of waiting is told."""

import json
import os
import signal
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from medtune.models.media_reader import MediaReader
from medtune.trainer.experiment.evaluate import waiting_text
from medtune.trainer.launch.stop import INTERRUPTED
from tests.trainer.conftest import Nano

Curve = Callable[[Path, str], list[float]]
PHASES = ("zero_shot", "final")


@pytest.fixture
def plain(nano: Nano, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The run whose only process reads its media."""
    out = tmp_path / "plain"
    assert nano.here("run", out) == 0
    return out


def test_a_run_with_processes_that_read_gives_the_same(
    plain: Path, nano: Nano, tmp_path: Path, curve: Curve, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "ahead"
    capsys.readouterr()
    assert nano.here("run", out, "data.workers=2") == 0
    said = capsys.readouterr().out
    for phase in PHASES:
        answers = (out / phase / "predictions.jsonl").read_bytes()
        assert answers == (plain / phase / "predictions.jsonl").read_bytes()
        for run in (plain, out):
            (share,) = curve(run, f"{phase}/waited_for_media")
            assert 0 < share < 1
        assert f"{phase.replace('_', '-')}: waited for media" in said
    for name in ("train/loss", "val/accuracy"):
        assert curve(out, name) == curve(plain, name)


def test_the_time_of_reading_is_the_time_of_waiting(
    nano: Nano, tmp_path: Path, curve: Curve, monkeypatch: pytest.MonkeyPatch
) -> None:
    following = MediaReader.next

    def slowly(reader: MediaReader) -> object:
        reader.waited_s += 1000.0
        return following(reader)

    monkeypatch.setattr(MediaReader, "next", slowly)
    assert nano.here("eval", tmp_path / "run", "eval.conditions=[image]") == 0
    assert curve(tmp_path / "run", "zero_shot/waited_for_media")[0] > 10
    assert nano.here("eval", tmp_path / "run", "eval.conditions=[image]", extra=("--resume",)) == 0


def test_the_message_says_how_to_wait_less() -> None:
    assert waiting_text(0.049, workers=0) == "waited for media 4.9 % of the time"
    assert waiting_text(0.5, workers=2).endswith("; more processes that read ahead (data.workers) would shorten that")


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_to_all_processes_stops_the_run_and_resumes_exactly(
    plain: Path, nano: Nano, tmp_path: Path, number: signal.Signals
) -> None:
    out = tmp_path / "stopped"
    process = nano.process("run", out, "data.workers=2")
    shard = out / "zero_shot" / "predictions.rank0.jsonl"
    while not (shard.is_file() and shard.stat().st_size):
        assert process.poll() is None
        time.sleep(0.001)
    os.killpg(process.pid, number)
    said, _ = process.communicate(timeout=120)
    assert process.returncode == INTERRUPTED, said
    assert "worker" not in said
    with pytest.raises(ProcessLookupError):
        os.killpg(process.pid, 0)
    assert nano.here("run", out, "data.workers=2", extra=("--resume",)) == 0
    for phase in PHASES:
        mine, its = (answers(run / phase) for run in (out, plain))
        assert mine.keys() == its.keys()
        for key, (text, logprobs) in mine.items():
            # What was left is read in other batches, whose padding moves the last digit of a float32 of 67, 8e-6.
            assert text == its[key][0]
            assert logprobs == pytest.approx(its[key][1], abs=5e-5)


def answers(phase: Path) -> dict[tuple[str, ...], tuple[str | None, list[float]]]:
    """Returns the reply and the log-probabilities of the options of each prediction, by what it answers."""
    rows = [json.loads(line) for line in (phase / "predictions.jsonl").read_text().splitlines()]
    return {
        (row["question_id"], row["condition"], row["reading"]): (row["text"], row["option_logprobs"] or [])
        for row in rows
    }
