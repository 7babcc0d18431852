"""Tests that averages, early stopping, stages, mixtures and divided checkpoints survive a resume on other ranks."""

import functools
import shutil
import signal
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
import yaml

from medtune.data.prepared.read import open_prepared
from medtune.eval.results.metrics_file import read_metrics
from medtune.models.weights.checkpoint import open_trained, read_about, read_trained
from medtune.trainer.commands.cli import main
from medtune.trainer.runs.run_folder import RunFolder
from tests.trainer.conftest import Capture
from tests.trainer.training.states.ranks_that_train import FULL, losses, state_of, train

STAGES = [
    {"name": "first", "max_steps": 2, "tuning": {"language": {"mode": "frozen"}}},
    {"name": "second", "max_steps": 4, "batch_size": 3, "tuning": {"language": {"lr": 1e-4}}},
]
# Adam's first steps turn the noise of another order of summation into whole steps of the learning rate: at 1e-3, losses
# of 6 differ by up to 1.1e-6 from those on one device, at 1e-4 by a float32's last digit.
REMEMBERING = (
    "model.tuning.projector.lr=1e-4",
    "train.max_steps=null",
    f"train.stages={yaml.safe_dump(STAGES, default_flow_style=True)}",
    "train.ema_decay=0.6",
    # No validation is better than the first of a stage, so that the second one ends at step 5.
    "train.early_stopping={metric: loss, patience: 2, min_delta: 100}",
    "eval.every_steps=1",
)


def _column(out: Path, name: str) -> list[float]:
    return [row.value for row in read_metrics(out / "metrics.csv") if row.name == name]


def _mixed(root: Path, other: Path) -> str:
    shutil.copytree(root, other)
    parts = [{"benchmark": "busi", "root": str(part), "weight": weight} for part, weight in ((root, 2), (other, 1))]
    return f"data.mixture={yaml.safe_dump(parts, default_flow_style=True)}"


@pytest.mark.usefixtures("forked_readers")
@pytest.mark.parametrize(
    ("strategy", "before", "after"),
    [
        pytest.param("ddp", 2, 1, marks=pytest.mark.soak),
        pytest.param("deepspeed_stage_3", 2, 1, marks=pytest.mark.slow),
        pytest.param("fsdp", 2, 4, marks=pytest.mark.soak),
        pytest.param("deepspeed_stage_2", 2, 4, marks=pytest.mark.soak),
    ],
)
def test_the_average_and_the_stage_go_on(
    prepared_tiny: Path, tmp_path: Path, strategy: str, before: int, after: int
) -> None:
    whole, out = tmp_path / "whole", tmp_path / "run"
    settings = (*REMEMBERING, _mixed(prepared_tiny, tmp_path / "other"))
    train(whole, prepared_tiny, *settings, devices=1)
    # The state of step 4 remembers what the validation at step 3 was.
    train(out, prepared_tiny, *settings, devices=before, strategy=strategy, stop_at=4)
    assert state_of(out)["step"] == 4
    train(out, prepared_tiny, *settings, devices=after, strategy=strategy, resume=True)
    assert len(losses(out)) == 5
    assert losses(out) == pytest.approx(losses(whole), abs=1e-6)
    assert _column(out, "val/loss") == pytest.approx(_column(whole, "val/loss"), abs=1e-5)
    mine, its = read_trained(RunFolder(out).last), read_trained(RunFolder(whole).last)
    assert mine.keys() == its.keys()
    assert max(float((mine[name] - its[name]).abs().max()) for name in its) < 1e-4
    assert read_about(RunFolder(out).best)["step"] == read_about(RunFolder(whole).best)["step"]
    mine_remembers, its_remembers = (state_of(run)["callbacks"] for run in (out, whole))
    assert isinstance(mine_remembers, dict)
    assert isinstance(its_remembers, dict)
    assert mine_remembers["EarlyStop"]["wait_count"] == its_remembers["EarlyStop"]["wait_count"]


@pytest.mark.usefixtures("forked_readers")
def test_the_best_weights_before_a_resume_stay_the_best(prepared_tiny: Path, tmp_path: Path) -> None:
    out, scores = tmp_path / "run", {1: 0.5, 2: 0.9, 3: 0.6, 4: 0.7}
    settings = ("train.max_steps=4", "eval.every_steps=1")
    train(out, prepared_tiny, *settings, devices=1, stop_at=3, scores=scores)
    assert read_about(RunFolder(out).best)["step"] == "2"
    train(out, prepared_tiny, *settings, devices=1, resume=True, scores=scores)
    about = read_about(RunFolder(out).best)
    assert (about["step"], about["validation"]) == ("2", "0.9")
    assert read_about(RunFolder(out).last)["step"] == "4"


# On one device the slow suite resumes with dropout in tests/trainer/experiment/test_run.py.
@pytest.mark.usefixtures("forked_readers")
@pytest.mark.soak
def test_dropout_draws_the_same_on_the_same_number_of_ranks(prepared_tiny: Path, tmp_path: Path) -> None:
    settings = ("model.tuning.language.lora.dropout=0.3",)
    whole, out = tmp_path / "whole", tmp_path / "run"
    train(whole, prepared_tiny, *settings, devices=2)
    train(out, prepared_tiny, *settings, devices=2, stop_at=3)
    train(out, prepared_tiny, *settings, devices=2, resume=True)
    assert losses(out) == pytest.approx(losses(whole), abs=1e-6)


@pytest.mark.usefixtures("forked_readers")
def test_states_are_saved_by_the_clock_of_rank_0(prepared_tiny: Path, tmp_path: Path) -> None:
    out = tmp_path / "run"
    with pytest.raises(AssertionError):
        train(out, prepared_tiny, "train.save_every_minutes=1e-9", devices=2, stop_at=3, by=signal.SIGKILL)
    kept = {path.name for path in (out / "checkpoints").glob("state_step_*")}
    assert kept == {"state_step_000001", "state_step_000002"}
    assert state_of(out)["made_with"]["devices"] == 2  # type: ignore[index]


@pytest.mark.usefixtures("forked_readers")
@pytest.mark.slow
def test_weights_trained_in_full_under_fsdp_are_a_folder_that_every_reader_takes(
    prepared_tiny: Path, tmp_path: Path, capsys: Capture
) -> None:
    out, alone = tmp_path / "run", tmp_path / "alone"
    train(out, prepared_tiny, *FULL, devices=2, strategy="fsdp")
    train(alone, prepared_tiny, *FULL, devices=1)
    run = RunFolder(out)
    assert run.best == out / "checkpoints" / "best"
    assert run.last == out / "checkpoints" / "last"
    assert not list(run.checkpoints.glob("*.safetensors"))
    assert "divided among devices" in (run.adapter / "README.md").read_text()
    mine, its = read_trained(run.best), read_trained(RunFolder(alone).best)
    assert max(float((mine[name] - its[name]).abs().max()) for name in its) < 1e-5
    assert open_trained(run.best).about["data_hash"] == open_prepared(prepared_tiny).data_hash
    assert main(["export", str(out), "--out", str(tmp_path / "exported"), "--no-proof"]) == 0, capsys.readouterr().err
    assert main(["export", str(alone), "--out", str(tmp_path / "exported_alone"), "--no-proof"]) == 0, (
        capsys.readouterr().err
    )
    mine, its = (_exported(tmp_path / name) for name in ("exported", "exported_alone"))
    assert mine.keys() == its.keys()
    assert max(float((mine[name].float() - its[name].float()).abs().max()) for name in its) < 1e-4
    evaluated = ["eval", str(out), "--out", str(tmp_path / "eval"), "--set", "train.devices=1", "train.strategy=auto"]
    assert main(evaluated) == 0, capsys.readouterr().err
    assert (tmp_path / "eval" / "final" / "predictions.jsonl").is_file()


def _exported(folder: Path) -> dict[str, torch.Tensor]:
    from safetensors.torch import load_file

    found: dict[str, torch.Tensor] = {}
    for path in sorted(folder.rglob("*.safetensors")):
        found |= load_file(path)
    return found


@pytest.fixture(scope="module")
def whole(prepared_tiny: Path, tmp_path_factory: pytest.TempPathFactory) -> Callable[[tuple[str, ...]], list[float]]:
    """Returns the losses of the run with some settings that nobody stopped, on one device; it is made once."""
    folder = tmp_path_factory.mktemp("whole")

    @functools.cache
    def of(settings: tuple[str, ...]) -> list[float]:
        out = folder / str(len(list(folder.iterdir())))
        train(out, prepared_tiny, *settings, devices=1)
        return losses(out)

    return of


@pytest.mark.parametrize(
    ("tuning", "strategy", "before", "after"),
    [
        ("lora", "ddp", 2, 1),
        pytest.param("full", "auto", 2, 4, marks=pytest.mark.soak),
        pytest.param("full", "deepspeed_stage_2", 2, 1, marks=pytest.mark.slow),
        pytest.param("full", "deepspeed_stage_2", 2, 4, marks=pytest.mark.soak),
        pytest.param("lora", "deepspeed_stage_3", 2, 4, marks=pytest.mark.soak),
        pytest.param("full", "deepspeed_stage_3", 2, 1, marks=pytest.mark.soak),
        pytest.param("full", "deepspeed_stage_3_offload", 4, 2, marks=pytest.mark.soak),
        pytest.param("full", "fsdp", 2, 4, marks=pytest.mark.soak),
        pytest.param("lora", "fsdp", 2, 1, marks=pytest.mark.soak),
    ],
)
def test_the_next_losses_are_those_of_the_run_that_nobody_stopped(
    prepared_tiny: Path, tmp_path: Path, whole: Callable[[tuple[str, ...]], list[float]], tuning: str, strategy: str,
    before: int, after: int,
) -> None:  # fmt: skip
    out, settings = tmp_path / "run", FULL if tuning == "full" else ()
    train(out, prepared_tiny, *settings, devices=before, strategy=strategy, stop_at=3)
    assert state_of(out)["step"] == 3
    train(out, prepared_tiny, *settings, devices=after, strategy=strategy, resume=True)
    assert losses(out) == pytest.approx(whole(settings), abs=1e-6)
    assert state_of(out)["step"] == 6
