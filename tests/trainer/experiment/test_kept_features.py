"""Runs that keep what frozen parts make of pictures: the same losses, answers and weights, on ranks and resumed too."""

import functools
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from medtune.data.prepared.read import open_prepared
from medtune.data.types import Split
from medtune.models.transformers_vlm.model import TransformersVlm
from medtune.models.vlm import VisionLanguageModel
from medtune.trainer.commands.cli import main
from tests.trainer.conftest import Curve, Nano, Told, json_of, same_weights, weights_apart
from tests.trainer.training.states.ranks_that_train import losses, train

FROZEN = ("model.tuning.projector.mode=frozen", "model.tuning.language.lora.dropout=0.1", "train.max_steps=8",
          "train.batch_size=6", "train.micro_batch_size=3", "eval.every_steps=4", "eval.readings=[likelihood]",
          "eval.conditions=[image]")  # fmt: skip
NONE = ("data.features_gb=0",)


class _Reads:
    """Counts what the towers of models read in a training step and in evaluations."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.in_training, self.in_answers = 0, 0
        for kind in (TransformersVlm, VisionLanguageModel):
            monkeypatch.setattr(kind, "made", self._counted(kind.made))

    def _counted(self, made: Any) -> Any:
        def counted(model: Any, media: Any) -> Any:
            if model.training:
                self.in_training += len(media)
            else:
                self.in_answers += len(media)
            return made(model, media)

        return counted


def _of(run: Path) -> list[object]:
    phases = [json_of(run / "results.json")["phases"][name]["metrics"] for name in ("zero_shot", "final")]
    return [phases, (run / "final" / "predictions.jsonl").read_text("utf-8").count("\n")]


def _pictures(root: Path, *splits: Split) -> int:
    prepared = open_prepared(root)
    return len({ref for split in splits for group in prepared.groups(split) for ref in group.media})


@pytest.fixture(scope="module")
def none_kept(prepared_tiny: Path, tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """Returns the run of a model that keeps nothing, made once."""
    folder = tmp_path_factory.mktemp("none")

    @functools.cache
    def run(name: str) -> Path:
        assert Nano(prepared_tiny).here("run", folder / name, f"model.name={name}", *FROZEN, *NONE) == 0
        return folder / name

    return run


@pytest.mark.parametrize("name", [pytest.param("nano_qwen25vl", marks=pytest.mark.slow), "nano_pocket"])
def test_a_run_reads_each_picture_once_and_learns_as_ever(
    nano: Nano, prepared_tiny: Path, tmp_path: Path, curve: Curve, monkeypatch: pytest.MonkeyPatch, name: str,
    none_kept: Callable[[str], Path],
) -> None:  # fmt: skip
    with_none, with_kept = none_kept(name), tmp_path / "kept"
    reads = _Reads(monkeypatch)
    assert nano.here("run", with_kept, f"model.name={name}", *FROZEN) == 0
    for column in ("train/loss", "train/gradient_norm", "val/loss"):
        assert curve(with_kept, column) == pytest.approx(curve(with_none, column), rel=1e-4), column
    assert weights_apart(with_kept, with_none) < 1e-4
    assert _of(with_kept) == _of(with_none)
    learnt, others = (_pictures(prepared_tiny, *splits) for splits in (("train",), ("val", "test")))
    assert reads.in_training == min(learnt, 8 * 6) < 8 * 6, "the second epoch takes what the first has read"
    assert reads.in_answers <= others, "zero-shot and final, and both validations, read a picture once together"


@pytest.mark.parametrize(
    ("name", "strategy"),
    [
        *(pytest.param("nano_qwen25vl", each, marks=pytest.mark.soak) for each in ("ddp", "fsdp", "deepspeed_stage_2")),
        pytest.param("nano_mllama", "deepspeed_stage_3", marks=pytest.mark.soak),
        pytest.param("nano_qwen3vl", "ddp", marks=pytest.mark.soak),
    ],
)
def test_ranks_that_were_stopped_learn_as_one_device_that_keeps_nothing(
    prepared_tiny: Path, tmp_path: Path, name: str, strategy: str
) -> None:
    # What dropout draws depends on the rank.
    settings = (f"model.name={name}", *FROZEN, "model.tuning.language.lora.dropout=0")
    train(tmp_path / "none", prepared_tiny, *settings, *NONE, devices=1)
    train(tmp_path / "kept", prepared_tiny, *settings, devices=2, strategy=strategy, stop_at=5)
    train(tmp_path / "kept", prepared_tiny, *settings, devices=2, strategy=strategy, resume=True)
    assert len(losses(tmp_path / "kept")) == 8
    assert losses(tmp_path / "kept") == pytest.approx(losses(tmp_path / "none"), abs=1e-5)
    assert weights_apart(tmp_path / "kept", tmp_path / "none") < 1e-3


@pytest.mark.slow
def test_a_run_that_was_stopped_gives_the_same_to_the_bit(prepared_tiny: Path, tmp_path: Path) -> None:
    settings = ("model.name=nano_qwen25vl", *FROZEN)
    train(tmp_path / "whole", prepared_tiny, *settings, devices=1)
    train(tmp_path / "run", prepared_tiny, *settings, devices=1, stop_at=5)
    train(tmp_path / "run", prepared_tiny, *settings, devices=1, resume=True)
    assert losses(tmp_path / "run") == losses(tmp_path / "whole")
    assert same_weights(tmp_path / "run", tmp_path / "whole")


@pytest.mark.slow
def test_another_run_finds_the_features_in_files_and_learns_as_ever(
    nano: Nano, none_kept: Callable[[str], Path], tmp_path: Path, curve: Curve, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = ("model.name=nano_qwen25vl", *FROZEN)
    files = ("data.features_gb=0", f"data.features_dir={tmp_path / 'features'}")
    none = none_kept("nano_qwen25vl")
    first, second = _Reads(monkeypatch), tmp_path / "second"
    assert nano.here("run", tmp_path / "first", *settings, *files) == 0
    assert len([*(tmp_path / "features").rglob("*.safetensors")]) == first.in_training + first.in_answers > 0
    reads = _Reads(monkeypatch)
    assert nano.here("run", second, *settings, *files) == 0
    assert (reads.in_training, reads.in_answers) == (0, 0)
    assert losses(second) == losses(tmp_path / "first")
    assert curve(second, "train/loss") == pytest.approx(curve(none, "train/loss"), rel=1e-4)
    assert same_weights(second, tmp_path / "first")
    assert _of(second) == _of(none)


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        (("train.max_steps=40",), "from the second epoch on a step makes 1."),
        (("train.max_steps=2",), "2 steps of 4 groups show none of"),
        (("train.max_steps=40", "data.augment=[grey]"), "data.augment (grey) changes the pictures"),
        (("train.max_steps=40", "model.tuning.vision.mode=full"), "not in training, because vision learns"),
        (("data.features_gb=0",), "no picture's features are kept: data.features_gb is 0"),
        (("train.max_steps=2", "data.features_dir=shared"), "in memory and in shared and named by"),
    ],
)
def test_validate_says_what_is_kept_and_what_it_saves(
    prepared_tiny: Path, shown: Told, settings: tuple[str, ...], said: str
) -> None:
    found = shown(main(["validate", "nano_busi_lora", "--set", f"data.root={prepared_tiny}", *settings]))
    assert said in found
    assert (" each; 48 pictures take" in found) == (settings[0] != "data.features_gb=0")


def test_a_file_in_the_place_of_the_folder_is_refused(
    prepared_tiny: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "features").write_text("")
    words = ["validate", "nano_busi_lora", "--no-weights", "--set", f"data.root={prepared_tiny}"]
    assert main([*words, f"data.features_dir={tmp_path / 'features'}"]) == 1
    assert f"data.features_dir: {tmp_path / 'features'} is a file; name a folder" in capsys.readouterr().err
