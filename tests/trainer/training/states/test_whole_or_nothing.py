"""Tests that a save that is cut off, wherever that is, leaves a state that resumes."""

import errno
import json
import os
import shutil
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from torch.distributed.checkpoint import filesystem as dcp_files

from medtune.models.weights import whole_folders
from medtune.models.weights.divided_files import write_pieces
from medtune.trainer.runs.run_folder import RunFolder
from medtune.trainer.training import state_folder as states
from tests.ranks import run_ranks
from tests.trainer.training.states.ranks_that_train import SETTINGS, losses, state_of, train, train_in_rank

OFTEN = ("train.save_every_steps=1", "train.max_steps=4", "eval.every_steps=4")


@pytest.fixture(scope="module")
def whole(prepared_tiny: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("whole") / "run"
    train(out, prepared_tiny, *OFTEN, devices=1)
    return out


def _die_in_third_save(rank: int, world_size: int, out: Path, settings: tuple[str, ...], where: str) -> None:
    """Ends this process as kill -9 does, in the third save: at a place that `where` names."""
    saves = 0

    def counted(original: Callable[..., Any]) -> Callable[..., Any]:
        def call(*arguments: Any, **keywords: Any) -> Any:
            nonlocal saves
            saves += 1
            if saves == 3 and where.startswith("before"):
                os.kill(os.getpid(), signal.SIGKILL)
            found = original(*arguments, **keywords)
            if saves == 3:
                os.kill(os.getpid(), signal.SIGKILL)
            return found

        return call

    step = where.partition(" ")[2]
    if step == "the tensors":
        vars(states)["write_pieces"] = counted(write_pieces)
    elif step == "the facts":
        vars(states)["write_last"] = counted(whole_folders.write_last)
    else:
        rename, named = Path.rename, {"the new name": "state.unfinished", "the removal": "state_step_000001"}[step]

        def killing(self: Path, target: Path) -> Path:
            nonlocal saves
            if self.name == named:
                saves = 2 if str(target).endswith(("3", "removed")) else 0
                return Path(counted(rename)(self, target))
            return rename(self, target)

        Path.rename = killing  # type: ignore[method-assign, assignment]
    train_in_rank(rank, world_size, out, settings, None, False)


IN_SOAK = ("before the tensors", "after the facts", "before the new name", "before the removal", "after the removal")


@pytest.mark.parametrize(
    "where", ["after the tensors", *(pytest.param(each, marks=pytest.mark.soak) for each in IN_SOAK)]
)
def test_kill_9_between_the_files_of_a_save(prepared_tiny: Path, tmp_path: Path, whole: Path, where: str) -> None:
    out = tmp_path / "run"
    settings = (*SETTINGS, f"data.root={prepared_tiny}", *OFTEN)
    with pytest.raises(AssertionError, match="died with status -9"):
        run_ranks(1, _die_in_third_save, out, settings, where)
    reached = 3 if where.endswith("the removal") else 2
    assert state_of(out)["step"] == reached
    train(out, prepared_tiny, *OFTEN, devices=1, resume=True)
    assert losses(out) == losses(whole)
    kept = sorted(path.name for path in (out / "checkpoints").glob("state*"))
    assert kept == ["state_step_000003", "state_step_000004"]


def _on_a_full_disk(rank: int, world_size: int, out: Path, settings: tuple[str, ...]) -> str:
    saves, save, write = 0, write_pieces, dcp_files._write_item

    def counted(*arguments: Any) -> None:
        nonlocal saves
        saves += 1
        save(*arguments)

    def full(*arguments: Any, **keywords: Any) -> Any:
        if rank == 1 and saves == 3:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return write(*arguments, **keywords)

    vars(states)["write_pieces"] = counted
    vars(dcp_files)["_write_item"] = full
    try:
        train_in_rank(rank, world_size, out, settings, None, False)
    except OSError as error:
        return str(error)
    return ""


@pytest.mark.slow
def test_a_full_disk_keeps_the_state_before(prepared_tiny: Path, tmp_path: Path, whole: Path) -> None:
    out = tmp_path / "run"
    settings = (*SETTINGS, f"data.root={prepared_tiny}", "train.devices=2", *OFTEN)
    said = run_ranks(2, _on_a_full_disk, out, settings)
    assert all("rank 1 could not write its part" in each and "No space left" in each for each in said), said
    assert state_of(out)["step"] == 2
    train(out, prepared_tiny, *OFTEN, devices=2, resume=True)
    assert losses(out) == pytest.approx(losses(whole), abs=1e-6)


def test_a_state_of_an_earlier_version_is_refused_in_words(prepared_tiny: Path, tmp_path: Path, whole: Path) -> None:
    out = tmp_path / "run"
    shutil.copytree(whole, out)
    state = RunFolder(out).saved_state()
    assert state is not None
    shutil.rmtree(state)
    state.write_bytes(b"a checkpoint of Lightning's")
    with pytest.raises(AssertionError, match="was saved by an earlier version of medtune"):
        train(out, prepared_tiny, *OFTEN, devices=1, resume=True)


def test_other_settings_are_named_with_both_values(prepared_tiny: Path, tmp_path: Path, whole: Path) -> None:
    changed = (*OFTEN, "train.warmup_ratio=0.5", "model.tuning.projector.lr=0.5", "train.micro_batch_size=2",
               "train.timeout_minutes=7")  # fmt: skip
    with pytest.raises(AssertionError) as refused:
        train(whole, prepared_tiny, *changed, devices=1, resume=True)
    assert "train.warmup_ratio is 0.1 there and 0.5 here" in str(refused.value)
    assert "model.tuning.projector.lr is 0.001 there and 0.5 here" in str(refused.value)
    assert "micro_batch_size" not in str(refused.value)
    assert "timeout" not in str(refused.value)


@pytest.mark.slow
def test_weights_of_another_model_in_a_state_are_refused(prepared_tiny: Path, tmp_path: Path) -> None:
    out = tmp_path / "run"
    train(out, prepared_tiny, *OFTEN, devices=1, stop_at=2)
    other = tmp_path / "other"
    train(other, prepared_tiny, *OFTEN, "model.tuning.language.mode=full", devices=1, stop_at=2)
    mine, its = RunFolder(out).saved_state(), RunFolder(other).saved_state()
    assert mine is not None
    assert its is not None
    shutil.rmtree(mine)
    shutil.copytree(its, mine)
    with pytest.raises(AssertionError, match=r"the saved state is of another model\.tuning"):
        train(out, prepared_tiny, *OFTEN, devices=1, resume=True)


def test_a_folder_that_replaces_another_is_there_at_every_moment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run, target = RunFolder(tmp_path), tmp_path / "checkpoints" / "best"

    def written(name: str, step: int) -> Path:
        path = run.checkpoints / name
        path.mkdir(parents=True)
        (path / whole_folders.ABOUT).write_text(json.dumps({"about": {"step": str(step)}, "shapes": {}}))
        return path

    written("best", 1)
    seen, rename = [], Path.rename

    def watched(self: Path, to: Path) -> Path:
        seen.append(run.has_best)
        found = rename(self, to)
        seen.append(run.has_best)
        return found

    monkeypatch.setattr(Path, "rename", watched)
    whole_folders.take_place(written("best.unfinished", 2), target)
    assert seen == [True] * 4
    assert run.best == target
    assert "2" in (target / whole_folders.ABOUT).read_text()
    assert sorted(path.name for path in run.checkpoints.iterdir()) == ["best"]
