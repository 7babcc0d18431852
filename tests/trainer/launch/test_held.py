"""One command at a time works in a run folder, and one that is refused leaves none behind."""

import os
import signal
import socket
import time
from pathlib import Path

import pytest

from medtune.data.files import replace_file
from medtune.data.lock import GONE_S
from medtune.trainer.commands.cli import main
from medtune.trainer.launch.held import held, refuse_lost
from tests.ranks import Forked
from tests.trainer.conftest import Nano, Told
from tests.trainer.launch.started_ranks import arguments, losses, wait_for_training

ENDLESS = ("train.max_steps=100000", "eval.every_steps=100000", "train.save_every_steps=1")


def test_beside_a_running_run_nobody_works(prepared_tiny: Path, tmp_path: Path, refused: Told) -> None:
    out = tmp_path / "run"
    running = Forked(arguments("train", prepared_tiny, out, *ENDLESS))
    wait_for_training(running, out)
    for command, extra in (("train", ("--resume",)), ("run", ()), ("eval", ("--resume",))):
        said = refused(main(arguments(command, prepared_tiny, out, *ENDLESS, extra=extra)))
        assert f"{out}: process {running.pid} on {socket.gethostname()} works in this run folder" in said
        assert "since 20" in said
    launched = arguments("train", prepared_tiny, out, *ENDLESS, extra=("--resume", "--devices", "2"))
    assert f"process {running.pid} on" in refused(main(launched)), "the launcher of several ranks"
    os.kill(running.pid, signal.SIGKILL)
    running.communicate(timeout=60)
    done = len(losses(out))
    again = Forked(arguments("train", prepared_tiny, out, *ENDLESS, extra=("--resume",)))
    deadline = time.monotonic() + 60
    while len(losses(out)) <= done and again.poll() is None and time.monotonic() < deadline:
        time.sleep(0.05)
    os.kill(again.pid, signal.SIGTERM)
    said, _ = again.communicate(timeout=60)
    assert again.returncode == 130, said
    assert not (out / "launch" / "held").exists(), "a stopped run lets go of its folder"


def test_a_living_holder_is_never_taken_for_gone_on_its_machine(tmp_path: Path) -> None:
    out = tmp_path / "run"
    with held(out):
        lock = out / "launch" / "held"
        os.utime(lock, (time.time() - 10 * GONE_S,) * 2)
        with pytest.raises(ValueError, match=f"process {os.getpid()} on .* works in this run folder"):
            held(out).__enter__()
    assert not out.exists()


def test_another_machine_is_believed_for_minutes_and_ends_when_it_lost_the_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = tmp_path / "run"
    with held(out):
        refuse_lost(out)
        lock = out / "launch" / "held"
        monkeypatch.setattr(socket, "gethostname", lambda: "another")
        with pytest.raises(ValueError, match="taken for gone after 5 minutes"):
            held(out).__enter__()
        os.utime(lock, (time.time() - 10 * GONE_S,) * 2)
        with held(out):
            monkeypatch.undo()
            with pytest.raises(ValueError, match="has taken over this work"):
                refuse_lost(out)
            monkeypatch.setattr(socket, "gethostname", lambda: "another")


def test_a_job_that_is_queued_again_on_another_machine_goes_on_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = tmp_path / "run"
    monkeypatch.setenv("SLURM_JOB_ID", "4711")
    with held(out):
        monkeypatch.setattr(socket, "gethostname", lambda: "another")
        with pytest.raises(ValueError, match="works in this run folder"):
            held(out).__enter__()
        monkeypatch.setenv("SLURM_RESTART_COUNT", "1")
        with held(out):
            pass


@pytest.mark.parametrize(
    "wrong",
    ["model.dtype=bfloat16", "model.tuning.language.lora.targets=qkv", "data.benchmark=vqa_rad", "eval.parser=oracle"],
)
def test_a_refused_run_leaves_no_folder(nano: Nano, tmp_path: Path, refused: Told, wrong: str) -> None:
    out = tmp_path / "below" / "run"
    refused(nano.here("run", out, wrong))
    assert not out.parent.exists()
    out.mkdir(parents=True)
    refused(nano.here("train", out, wrong))
    assert list(out.iterdir()) == []


def test_the_corrected_command_works_in_the_same_folder(nano: Nano, tmp_path: Path, refused: Told) -> None:
    out = tmp_path / "run"
    refused(nano.here("train", out, "model.dtype=bfloat16"))
    assert nano.here("train", out, "train.max_steps=1") == 0


def test_what_a_run_has_answered_outlasts_its_failure(
    nano: Nano, tmp_path: Path, refused: Told, monkeypatch: pytest.MonkeyPatch
) -> None:
    from medtune.trainer.experiment import run

    def wrong(*_: object) -> None:
        raise ValueError("the training is refused")

    monkeypatch.setattr(run, "load_trainable", wrong)
    refused(nano.here("run", tmp_path / "run"))
    assert (tmp_path / "run" / "zero_shot" / "predictions.jsonl").is_file()
    assert (tmp_path / "run" / "recipe.yaml").is_file()


@pytest.mark.parametrize("file", ["recipe.yaml", "environment.json"])
def test_a_run_that_was_killed_while_its_folder_was_made_is_begun_anew(
    nano: Nano, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, file: str
) -> None:
    """The kill is a write that never comes; what was written before it stays, with an unfinished file."""
    from medtune.trainer.experiment import begin
    from medtune.trainer.runs import run_folder

    out, replace = tmp_path / "run", replace_file

    class Killed(BaseException):
        pass

    def killed(path: Path, lines: object) -> None:
        if path.name == file:
            path.with_name(f".{file}.x1y2").write_bytes(b"half of")
            raise Killed
        replace(path, lines)  # type: ignore[arg-type]

    with monkeypatch.context() as patch:
        for writer in (run_folder, begin):
            patch.setattr(writer, "replace_file", killed)
        with pytest.raises(Killed):
            nano.here("train", out, "train.max_steps=1")
    assert (out / f".{file}.x1y2").is_file()
    assert nano.here("train", out, "train.max_steps=1") == 0
