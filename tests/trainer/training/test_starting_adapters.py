"""Tests runs whose adapters begin with PiSSA or EVA: same start for all, read back exactly, exported, refused."""

import functools
import json
import os
import signal
import time
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from medtune.models.weights.checkpoint import read_about, read_starts
from medtune.trainer.commands.cli import main
from medtune.trainer.experiment.run_folder import RunFolder
from medtune.trainer.recipe.read import read_recipe
from tests.trainer.conftest import Nano

pytestmark = pytest.mark.usefixtures("forked_readers")

Curve = Callable[[Path, str], list[float]]
LORA = "model.tuning.language.lora"
PISSA = (f"{LORA}.init=pissa", f"{LORA}.r=4", "model.tuning.language.lr=0.01")
EVA = (f"{LORA}.init=eva", f"{LORA}.r=4", f"{LORA}.lr_ratio=4", "model.tuning.language.lr=0.01")
EVERYTHING = (*PISSA, f"{LORA}.dora=true", f"{LORA}.rslora=true", f"{LORA}.lr_ratio=4", "train.ema_decay=0.5",
              "train.schedule=linear", "train.lr_floor=0.1")  # fmt: skip


def answers(phase: Path) -> list[bytes]:
    return sorted((phase / "predictions.jsonl").read_bytes().splitlines())


@pytest.mark.parametrize(
    "settings",
    [
        pytest.param((*EVERYTHING, "train.precision=bf16-mixed"), id="pissa"),
        pytest.param(EVA, id="eva", marks=pytest.mark.slow),
    ],
)
def test_run_begins_with_the_models_own_answers_and_its_checkpoint_gives_the_final_ones(
    nano: Nano, tmp_path: Path, curve: Curve, settings: tuple[str, ...]
) -> None:
    run, plain, again = tmp_path / "run", tmp_path / "plain", tmp_path / "again"
    assert nano.here("run", run, *settings) == 0
    precision = [each for each in settings if "precision" in each]
    assert nano.here("train", plain, "train.max_steps=1", "eval.val_questions=2", *precision) == 0
    assert curve(run, "train/loss")[0] == pytest.approx(curve(plain, "train/loss")[0], abs=2e-2 if precision else 1e-4)
    rate = "train/lr_language"
    assert curve(run, f"{rate}_B") == pytest.approx([4 * each for each in curve(run, rate)])
    best = run / "checkpoints" / "best.safetensors"
    assert bool(read_starts(best)) == (settings is not EVA)
    assert answers(run / "final") != answers(run / "zero_shot")
    assert nano.here("eval", again, *settings, f"model.checkpoint={best}") == 0
    assert answers(again / "final") == answers(run / "final")


def test_a_checkpoint_of_other_adapters_is_refused(
    nano: Nano, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = tmp_path / "run"
    assert nano.here("train", run, *PISSA, "train.max_steps=1", "eval.val_questions=2") == 0
    last = run / "checkpoints" / "last.safetensors"
    assert json.loads(read_about(last)["lora"]) == {
        "language": {"alpha": 32.0, "dora": False, "init": "pissa", "rslora": False}
    }
    for number, other in enumerate((f"{LORA}.init=eva", f"{LORA}.rslora=true", f"{LORA}.alpha=8", f"{LORA}.dora=true")):
        capsys.readouterr()
        assert nano.here("eval", tmp_path / f"{number}", *PISSA, other, f"model.checkpoint={last}") == 1
        assert "trained with other adapters (model.tuning.*.lora) than the recipe has" in capsys.readouterr().err


def test_the_next_stage_begins_from_the_first_ones_adapters_and_keeps_its_starts(nano: Nano, tmp_path: Path) -> None:
    stages = (
        "train.stages=[{name: one, max_steps: 2, schedule: constant}, {name: two, max_steps: 2, lr_floor: 0.5}]",
        "train.max_steps=null",
    )
    run = tmp_path / "run"
    assert nano.here("train", run, *PISSA, *stages, "eval.val_questions=2") == 0
    start, first, last = (run / "checkpoints" / f"{name}.safetensors" for name in ("start", "stage_1", "last"))
    one, two, three = (read_starts(path) for path in (start, first, last))
    assert one.keys() == two.keys() == three.keys() != set()
    assert all(torch.equal(one[name], two[name]) and torch.equal(one[name], three[name]) for name in one)
    trained = [load_file(path) for path in (start, first, last)]
    moved = next(iter(one))
    assert not torch.equal(trained[0][moved], trained[1][moved])
    assert not torch.equal(trained[1][moved], trained[2][moved])


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ([f"{LORA}.init=pissa", "model.language_bits=4"], "lora.init is pissa, which changes the weights"),
        ([f"{LORA}.lr_ratio=0"], r"lora\.lr_ratio is 0\.0; it must be above 0"),
        (["train.schedule=constant", "train.lr_floor=0.1"], "constant, which does not fall"),
        (["train.lr_floor=1.5"], r"train\.lr_floor is 1\.5; it must be from 0 to 1"),
        ([f"{LORA}.init=olora"], "olora"),
        (["train.schedule=step"], "step"),
    ],
)
def test_what_cannot_be_done_is_said_before_anything_is_loaded(settings: list[str], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        read_recipe("nano_busi_lora", settings)


@pytest.mark.slow
@pytest.mark.parametrize(
    "settings", [EVERYTHING, (*EVA, "model.language_bits=4", f"{LORA}.dora=true")], ids=["pissa", "eva"]
)
def test_a_fresh_process_and_an_export_give_the_same_answers(
    nano: Nano, tmp_path: Path, settings: tuple[str, ...]
) -> None:
    run, again, merged, exported = (tmp_path / name for name in ("run", "again", "merged", "exported"))
    nano.finished("run", run, *settings)
    nano.finished("eval", again, *settings, f"model.checkpoint={run / 'checkpoints' / 'best.safetensors'}")
    assert answers(again / "final") == answers(run / "final")
    assert main(["export", str(run), "--out", str(exported)]) == 0
    nano.finished("eval", merged, f"model.weights={exported}", "eval.conditions=[image,text_only]")
    wanted = {key(line): line for line in answers(run / "final")}
    found = {key(line): line for line in answers(merged / "zero_shot")}
    assert found.keys() == wanted.keys()
    if "model.language_bits=4" in settings:
        # The adapters are merged into the checkpoint's own weights, which say something else than those in 4 bits.
        assert json.loads((exported / "proof.json").read_text())["four_bits_gap"]["largest"] > 0
        return
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


@pytest.mark.parametrize(
    ("settings", "strategy"),
    [
        pytest.param(EVERYTHING, "ddp", id="pissa-ddp", marks=pytest.mark.soak),
        pytest.param(EVERYTHING, "deepspeed_stage_1", id="pissa-1", marks=pytest.mark.soak),
        pytest.param(EVERYTHING, "deepspeed_stage_2", id="pissa-2", marks=pytest.mark.slow),
        pytest.param(EVERYTHING, "deepspeed_stage_3", id="pissa-3", marks=pytest.mark.soak),
        pytest.param(EVA, "deepspeed_stage_3", id="eva-3", marks=pytest.mark.slow),
    ],
)
def test_two_devices_equal_one(
    nano: Nano, one_device: Callable[[tuple[str, ...]], Path], tmp_path: Path, curve: Curve,
    settings: tuple[str, ...], strategy: str,
) -> None:  # fmt: skip
    one, two = one_device(settings), tmp_path / "two"
    nano.finished("train", two, *settings, "train.devices=2", f"train.strategy={strategy}")
    assert curve(two, "train/loss") == pytest.approx(curve(one, "train/loss"), abs=1e-4)
    mine, theirs = (load_file(run / "checkpoints" / "last.safetensors") for run in (two, one))
    assert mine.keys() == theirs.keys()
    assert max(float((mine[name] - theirs[name]).abs().max()) for name in mine) < 2e-4


@pytest.mark.soak
def test_a_killed_and_resumed_run_is_the_same_run(nano: Nano, tmp_path: Path) -> None:
    long = (*EVERYTHING, "train.max_steps=24", "train.batch_size=2", "eval.every_steps=4", "eval.val_questions=3")
    whole, killed = tmp_path / "whole", tmp_path / "killed"
    nano.finished("train", whole, *long)
    process = nano.process("train", killed, *long)
    deadline = time.monotonic() + 150
    while RunFolder(killed).saved_step() < 4 and time.monotonic() < deadline and process.poll() is None:
        time.sleep(0.02)
    os.killpg(process.pid, signal.SIGKILL)
    process.communicate(timeout=60)
    assert 4 <= RunFolder(killed).saved_step() < 24
    nano.finished("train", killed, *long, extra=("--resume",))
    for name in ("start", "best", "last"):
        one, two = (load_file(run / "checkpoints" / f"{name}.safetensors") for run in (whole, killed))
        assert one.keys() == two.keys()
        assert all(torch.equal(one[each], two[each]) for each in one)
