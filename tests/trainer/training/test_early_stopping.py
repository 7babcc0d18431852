"""Tests of early stopping: where it ends a stage, what it leaves behind, and where a killed run ends."""

import functools
import json
import signal
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from medtune.models.weights.checkpoint import read_about, read_starts
from medtune.models.weights.divided_files import read_whole
from medtune.trainer.commands.cli import main
from medtune.trainer.runs.run_folder import RunFolder
from tests.trainer.conftest import Capture, Curve, Nano, Told, json_of, same_weights, weights_apart

# So large a change counts that the first validation stays the best one.
STOPS = (
    "train.max_steps=12", "eval.every_steps=2", "eval.val_questions=3", "train.batch_size=2", "eval.conditions=[image]",
    "train.early_stopping.metric=loss", "train.early_stopping.patience=2", "train.early_stopping.min_delta=9",
    "eval.readings=[likelihood]",
)  # fmt: skip
WHY = "stopped at step 6 of 12 because val/loss had not improved by 9 or more in 2 validations (best "


def test_a_stage_ends_when_validations_no_longer_improve(nano: Nano, tmp_path: Path, curve: Curve, shown: Told) -> None:
    out = tmp_path / "run"
    said = shown(nano.here("run", out, *STOPS))
    assert WHY in said
    assert len(curve(out, "train/loss")) == 6
    assert len(curve(out, "val/loss")) == 3
    assert (out / "checkpoints" / "last.safetensors").is_file()
    assert RunFolder(out).saved_step() == 6
    assert json_of(out / "results.json")["stopped_early"].startswith(WHY)
    assert WHY in (out / "report.html").read_text()


def test_while_a_metric_improves_training_goes_on(nano: Nano, tmp_path: Path, curve: Curve) -> None:
    out, settings = tmp_path / "run", ("train.early_stopping.min_delta=0", "model.tuning.language.lr=0.005")
    assert nano.here("train", out, *STOPS, *settings, "train.max_steps=8") == 0
    losses = curve(out, "val/loss")
    assert len(losses) == 4, losses
    assert losses[-1] < losses[0]
    assert RunFolder(out).early_stops == {}


def test_each_stage_counts_for_itself_and_leaves_averages(nano: Nano, tmp_path: Path, curve: Curve) -> None:
    out = tmp_path / "run"
    stages = (
        "train.stages=[{name: first, max_steps: 8, tuning: {language: {mode: frozen}}}, {name: second, max_steps: 10}]"
    )
    assert nano.here("train", out, *STOPS, "train.max_steps=null", stages, "train.ema_decay=0.5") == 0
    run = RunFolder(out)
    assert {stage: why.partition(" because")[0] for stage, why in run.early_stops.items()} == {
        1: "stopped at step 6 of 8",
        2: "stopped at step 6 of 10",
    }
    assert len(curve(out, "train/loss")) == 12
    # The steps of the second stage are counted from where the first one would have ended.
    assert sorted(path.name for path in (out / "validation").iterdir())[3] == "step_000010"
    # The last weights are the averages, while the saved state holds the weights that are trained too.
    state = run.saved_state()
    assert state is not None
    for name, each in load_file(out / "checkpoints" / "last.safetensors").items():
        average, trained = (
            read_whole(state / "tensors", f"{kept}.{name}").view(each.shape)
            for kept in ("callback.WeightAverage", "model")
        )
        assert torch.equal(each, average)
        assert not torch.equal(each, trained)


@pytest.mark.parametrize(
    ("setting", "message"),
    [
        ("train.early_stopping.metric=los", "train.early_stopping.metric is 'los'. Did you mean 'loss'? There are: "),
        (
            "eval.every_steps=4",
            "no stage is longer than 12 steps, which are validated every 4 steps (eval.every_steps)",
        ),
    ],
)
def test_what_could_never_stop_is_refused(
    nano: Nano, tmp_path: Path, refused: Told, setting: str, message: str
) -> None:
    assert message in refused(nano.here("train", tmp_path / "run", *STOPS, setting))


def test_validate_says_when_a_stage_stops(nano: Nano, tmp_path: Path, capsys: Capture) -> None:
    arguments = nano.arguments("validate", tmp_path, *STOPS)
    assert main([each for each in arguments if each not in ("--out", str(tmp_path))]) == 0
    assert "stops early after 2 validations without a better val/loss, one every 2 steps" in capsys.readouterr().out


LORA = "model.tuning.language.lora"
PISSA = (f"{LORA}.init=pissa", f"{LORA}.r=4", "model.tuning.language.lr=0.01")
EVERYTHING = (*PISSA, f"{LORA}.dora=true", f"{LORA}.rslora=true", f"{LORA}.lr_ratio=4", "train.ema_decay=0.5",
              "train.schedule=linear", "train.lr_floor=0.1")  # fmt: skip


def answers(phase: Path) -> list[bytes]:
    return sorted((phase / "predictions.jsonl").read_bytes().splitlines())


@pytest.mark.usefixtures("forked_readers")
def test_run_begins_with_the_models_own_answers_and_its_checkpoint_gives_the_final_ones(
    nano: Nano, tmp_path: Path, curve: Curve
) -> None:
    precision = "train.precision=bf16-mixed"
    settings = (*EVERYTHING, precision, "eval.conditions=[image]")
    run, plain, again = tmp_path / "run", tmp_path / "plain", tmp_path / "again"
    assert nano.here("run", run, *settings) == 0
    assert nano.here("train", plain, "train.max_steps=1", "eval.val_questions=2", precision) == 0
    assert curve(run, "train/loss")[0] == pytest.approx(curve(plain, "train/loss")[0], abs=2e-2)
    rate = "train/lr_language"
    assert curve(run, f"{rate}_B") == pytest.approx([4 * each for each in curve(run, rate)])
    best = run / "checkpoints" / "best.safetensors"
    assert read_starts(best)
    assert answers(run / "final") != answers(run / "zero_shot")
    assert nano.here("eval", again, *settings, f"model.checkpoint={best}") == 0
    assert answers(again / "final") == answers(run / "final")


@pytest.mark.usefixtures("forked_readers")
def test_the_next_stage_begins_from_the_first_ones_adapters_and_keeps_its_starts(nano: Nano, tmp_path: Path) -> None:
    stages = (
        "train.stages=[{name: one, max_steps: 2, schedule: constant}, {name: two, max_steps: 2, lr_floor: 0.5}]",
        "train.max_steps=null",
    )
    run = tmp_path / "run"
    assert nano.here("train", run, *PISSA, *stages, "eval.val_questions=2") == 0
    start, first, last = (run / "checkpoints" / f"{name}.safetensors" for name in ("start", "stage_1", "last"))
    # A checkpoint of other adapters is refused by this: experiment/test_refusals.py.
    assert json.loads(read_about(last)["lora"]) == {
        "language": {"alpha": 32.0, "dora": False, "init": "pissa", "rslora": False}
    }
    one, two, three = (read_starts(path) for path in (start, first, last))
    assert one.keys() == two.keys() == three.keys() != set()
    assert all(torch.equal(one[name], two[name]) and torch.equal(one[name], three[name]) for name in one)
    trained = [load_file(path) for path in (start, first, last)]
    moved = next(iter(one))
    assert not torch.equal(trained[0][moved], trained[1][moved])
    assert not torch.equal(trained[1][moved], trained[2][moved])


@pytest.mark.usefixtures("forked_readers")
@pytest.mark.slow
def test_a_fresh_process_reads_an_export_that_gives_the_same_answers(nano: Nano, tmp_path: Path) -> None:
    run, merged, exported = (tmp_path / name for name in ("run", "merged", "exported"))
    asked = ("eval.readings=[likelihood]", "eval.conditions=[image]", "eval.val_questions=2")
    assert nano.here("run", run, *EVERYTHING, *asked) == 0
    assert main(["export", str(run), "--out", str(exported)]) == 0
    nano.finished("eval", merged, f"model.weights={exported}", *asked)
    wanted = {key(line): line for line in answers(run / "final")}
    found = {key(line): line for line in answers(merged / "zero_shot")}
    assert found.keys() == wanted.keys()
    for each, line in wanted.items():
        one, two = (json.loads(text)["option_logprobs"] for text in (line, found[each]))
        assert two == (None if one is None else pytest.approx(one, abs=1e-3))


def key(line: bytes) -> tuple[str, str, str]:
    row = json.loads(line)
    return row["question_id"], row["condition"], row["reading"]


@pytest.fixture(scope="module")
def one_device(prepared_tiny: Path, tmp_path_factory: pytest.TempPathFactory) -> Callable[[tuple[str, ...]], Path]:
    """Returns the run on one device with some settings, trained once."""
    folder = tmp_path_factory.mktemp("one_device")

    @functools.cache
    def trained(settings: tuple[str, ...]) -> Path:
        out = folder / str(len(list(folder.iterdir())))
        Nano(prepared_tiny).finished("train", out, *settings)
        return out

    return trained


@pytest.mark.usefixtures("forked_readers")
@pytest.mark.parametrize(
    ("settings", "strategy"),
    [
        pytest.param(EVERYTHING, "ddp", id="pissa-ddp", marks=pytest.mark.soak),
        pytest.param(EVERYTHING, "deepspeed_stage_1", id="pissa-1", marks=pytest.mark.soak),
        pytest.param(EVERYTHING, "deepspeed_stage_2", id="pissa-2", marks=pytest.mark.soak),
        pytest.param(EVERYTHING, "deepspeed_stage_3", id="pissa-3", marks=pytest.mark.soak),
    ],
)
def test_two_devices_equal_one(
    nano: Nano, one_device: Callable[[tuple[str, ...]], Path], tmp_path: Path, curve: Curve,
    settings: tuple[str, ...], strategy: str,
) -> None:  # fmt: skip
    settings = (*settings, "train.max_steps=2", "eval.val_questions=2")
    one, two = one_device(settings), tmp_path / "two"
    nano.finished("train", two, *settings, "train.devices=2", f"train.strategy={strategy}")
    assert curve(two, "train/loss") == pytest.approx(curve(one, "train/loss"), abs=1e-4)
    assert weights_apart(two, one) < 2e-4


@pytest.mark.usefixtures("forked_readers")
@pytest.mark.soak
def test_a_killed_and_resumed_run_is_the_same_run(nano: Nano, tmp_path: Path) -> None:
    long = (*EVERYTHING, "train.max_steps=24", "train.batch_size=2", "eval.every_steps=4", "eval.val_questions=3")
    whole, killed = tmp_path / "whole", tmp_path / "killed"
    nano.finished("train", whole, *long)
    nano.stopped(4, signal.SIGKILL, "train", killed, *long)
    assert 4 <= RunFolder(killed).saved_step() < 24
    nano.finished("train", killed, *long, extra=("--resume",))
    assert all(same_weights(whole, killed, name) for name in ("start", "best", "last"))
