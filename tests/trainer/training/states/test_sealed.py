"""A saved state is read only as it was saved: the last two are kept, and a damaged one gives way to the one before."""

import errno
import io
import json
import os
import shutil
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from torch.distributed.checkpoint import filesystem as dcp_files

from medtune.trainer.runs.run_folder import RunFolder
from medtune.trainer.runs.saved_states import DAMAGED
from tests.ranks import run_ranks
from tests.soak import in_suites
from tests.trainer.conftest import Nano, Told, same_weights
from tests.trainer.training.states.ranks_that_train import state_of

SAVING = ("train.max_steps=3", "train.save_every_steps=1", "eval.every_steps=3", "eval.val_questions=2")


@pytest.fixture(scope="module")
def whole(prepared_tiny: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("whole") / "run"
    assert Nano(prepared_tiny).here("train", out, *SAVING) == 0
    return out


@pytest.fixture
def saved(whole: Path, tmp_path: Path) -> RunFolder:
    """A run with the states of the steps 2 and 3."""
    return RunFolder(Path(shutil.copytree(whole, tmp_path / "run")))


def _state_json(state: Path, change: Callable[[dict[str, Any]], object]) -> None:
    said = json.loads((state / "state.json").read_text())
    change(said)
    (state / "state.json").write_text(json.dumps(said))


def _flip(path: Path, place: int) -> None:
    content = bytearray(path.read_bytes())
    content[place] ^= 1
    path.write_bytes(content)


def _tensors(state: Path) -> Path:
    return max((state / "tensors").glob("*.distcp"), key=lambda path: path.stat().st_size)


DAMAGES: dict[str, Callable[[Path], object]] = {
    "a flipped byte": lambda state: _flip(_tensors(state), _tensors(state).stat().st_size // 2),
    "a flipped byte in the list": lambda state: _flip(state / "tensors" / ".metadata", 40),
    "another step": lambda state: _state_json(state, lambda said: said.update(step=1)),
    "another step and folder": lambda state: state.rename(state.with_name("state_step_000007")),
    "another rate": lambda state: _state_json(state, lambda said: said["schedule"].update(_last_lr=[1.0])),
    "cut off": lambda state: os.truncate(state / "state.json", 50),
    "zeros": lambda state: (state / "state.json").write_bytes(bytes(500)),
    "a list": lambda state: (state / "state.json").write_text("[]"),
    "no facts": lambda state: (state / "state.json").unlink(),
    "a lost file": lambda state: _tensors(state).unlink(),
}


OFTEN_SEEN = ("a flipped byte", "another step", "zeros")


@pytest.mark.parametrize("damage", in_suites(DAMAGES, plain=OFTEN_SEEN))
def test_a_damaged_state_gives_way_to_the_one_before(
    nano: Nano, saved: RunFolder, whole: Path, capsys: pytest.CaptureFixture[str], damage: str
) -> None:
    assert [state.name for state in saved.states()] == ["state_step_000002", "state_step_000003"]
    newest = saved.saved_state()
    assert newest is not None
    DAMAGES[damage](newest)
    assert nano.here("train", saved.root, *SAVING, extra=("--resume",)) == 0
    said = capsys.readouterr().out
    assert "WARNING: " in said
    assert "state_step_00000" in said
    assert "the training goes on from step 2" in said
    assert list(saved.checkpoints.glob(f"{DAMAGED}state_step_*"))
    assert state_of(saved.root)["step"] == 3
    assert same_weights(saved.root, whole)


def test_without_any_whole_state_the_training_begins_anew(
    nano: Nano, saved: RunFolder, whole: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for state in saved.states():
        DAMAGES["a flipped byte"](state)
    assert nano.here("train", saved.root, *SAVING, extra=("--resume",)) == 0
    assert "the training goes on from its beginning" in capsys.readouterr().out
    assert same_weights(saved.root, whole)


def test_a_state_without_digests_is_of_an_earlier_version(nano: Nano, saved: RunFolder, refused: Told) -> None:
    newest = saved.saved_state()
    assert newest is not None
    _state_json(newest, lambda said: said.pop("seal"))
    said = refused(nano.here("train", saved.root, *SAVING, extra=("--resume",)))
    assert "was saved by an earlier version of medtune" in said


def test_another_strategy_is_refused_and_another_number_of_devices_is_not(
    nano: Nano, saved: RunFolder, refused: Told
) -> None:
    said = refused(nano.here("train", saved.root, *SAVING, "train.strategy=fsdp", extra=("--resume",)))
    assert f"{saved.saved_state()}: this state was saved under train.strategy auto, and the recipe has fsdp" in said
    assert "resume with --set train.strategy=auto, or start a new folder" in said
    # By itself, auto is ddp.
    assert nano.here("train", saved.root, *SAVING, "train.strategy=ddp", extra=("--resume",)) == 0


class _FullDisk(io.FileIO):
    """A file of which the disk takes so many bytes, and then no more."""

    room, number = 2000, errno.ENOSPC

    def write(self, content: Any) -> int:
        if self.tell() + len(memoryview(content).cast("B")) > self.room:
            raise OSError(self.number, os.strerror(self.number))
        return super().write(content)


@pytest.mark.parametrize("number", in_suites((errno.ENOSPC, errno.EDQUOT), plain=(errno.ENOSPC,)))
def test_a_disk_that_is_full_while_a_state_is_saved_is_said(
    nano: Nano, saved: RunFolder, refused: Told, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    """torch's own error for this is "unexpected pos 704 vs 598"."""
    shutil.rmtree(saved.states()[-1])
    with monkeypatch.context() as patch:
        patch.setattr(_FullDisk, "number", number)
        patch.setattr(dcp_files.FileSystem, "create_stream", lambda self, path, mode: _FullDisk(path, mode))
        said = refused(nano.here("train", saved.root, *SAVING, extra=("--resume",)))
    assert ("the disk is full" if number == errno.ENOSPC else "the quota of the disk is used up") in said
    assert os.strerror(number) in said
    assert "unexpected pos" not in said
    assert "continue with --resume: what was saved before is whole" in said
    assert len(said.strip().splitlines()) == 1
    assert [state.name for state in saved.states()] == ["state_step_000002"]
    assert nano.here("train", saved.root, *SAVING, extra=("--resume",)) == 0


@pytest.mark.soak
def test_the_older_state_goes_first_where_there_is_no_room_for_a_third(
    nano: Nano, saved: RunFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    from medtune.trainer.runs import saved_states

    there: list[list[str]] = []
    usage = shutil.disk_usage(saved.root)._replace(free=10)
    monkeypatch.setattr(shutil, "disk_usage", lambda path: usage)
    sealed = saved_states.sealed

    def watched(*arguments: Any) -> str:
        there.append([state.name for state in saved.states()])
        return sealed(*arguments)

    monkeypatch.setattr("medtune.trainer.training.state_folder.sealed", watched)
    longer = ("train.max_steps=4", *SAVING[1:])
    shutil.rmtree(saved.root)
    assert nano.here("train", saved.root, *longer) == 0
    assert there[2:] == [["state_step_000002"], ["state_step_000003"]]
    assert len(saved.states()) == 2


def _reader_is_killed_while_saving(rank: int, world_size: int, words: list[str]) -> tuple[int, str]:
    import contextlib
    import multiprocessing
    import time

    from medtune.trainer.commands.cli import main

    vars(multiprocessing.current_process())["_config"]["daemon"] = False
    multiprocessing.set_start_method("fork", force=True)
    write = dcp_files._write_item

    def killing(*arguments: Any, **keywords: Any) -> Any:
        for child in multiprocessing.active_children():
            assert child.pid is not None
            os.kill(child.pid, signal.SIGKILL)
        # torch raises its error in whatever runs when the system reports the end of a child.
        deadline = time.monotonic() + 10
        while time.monotonic() < deadline:
            time.sleep(0.05)
        return write(*arguments, **keywords)

    vars(dcp_files)["_write_item"] = killing
    said = io.StringIO()
    with contextlib.redirect_stderr(said):
        status = main(words)
    return status, said.getvalue()


def test_a_killed_reader_is_no_disk_error(prepared_tiny: Path, tmp_path: Path) -> None:
    settings = (*SAVING, "train.max_steps=60", "train.save_every_steps=2", "data.workers=1")
    words = Nano(prepared_tiny).arguments("train", tmp_path / "run", *settings)
    ((status, said),) = run_ranks(1, _reader_is_killed_while_saving, words, environment=lambda rank: {})
    assert status == 1
    last = said.strip().splitlines()[-1]
    assert last.startswith("medtune: a process that reads media has ended (DataLoader worker (pid")
    assert "killed by SIGKILL. If the system ran out of memory" in last
    assert "disk" not in last
    assert "Traceback" not in said
