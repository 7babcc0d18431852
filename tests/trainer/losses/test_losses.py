"""Tests that a recipe names its loss, and that a loss weighs each token and each reply of a step alike."""

from __future__ import annotations

from itertools import product
from pathlib import Path

import pytest
import torch
import yaml

from medtune.data.types import MediaGroup, MediaRef, Question
from medtune.models.target_logprobs import Targets, of_logits
from medtune.trainer.commands.cli import main
from medtune.trainer.contracts.of_losses import LOSSES, tried_pass
from medtune.trainer.losses import PerReply, find_loss, of_step
from medtune.trainer.recipe.loss import LossSettings
from medtune.trainer.training.batches import MicroBatch
from tests.soak import in_suites
from tests.trainer.conftest import Curve, Nano, Told, same_weights, weights_apart
from tests.trainer.one_step import batch_of, learning

EVERYTHING = ("train.text_only_share=0.4", "train.batch_size=3", "train.micro_batch_size=1", "train.max_steps=3",
              "eval.every_steps=3", "eval.val_questions=2")  # fmt: skip
SMOOTH = ("train.loss.name=label_smoothing", "train.loss.settings.smoothing=0.2")
PER_REPLY = '''"""The mean over replies of the mean over their tokens."""

import torch

from medtune.trainer.losses import PerReply


def loss(read, batch):
    lengths_N = read.by_reply(torch.ones_like(read.logprobs()), batch.num_replies)
    return PerReply(-read.by_reply(read.logprobs(), batch.num_replies) / lengths_N)
'''


def _group(number: int, texts: list[str], tiny_busi: Path) -> MediaGroup:
    picture = sorted(tiny_busi.rglob("*.png"))[number]
    asked = tuple(
        Question(f"{number} {text}", f"m{number}", "What is it?", (), text, "text", f"p{number}") for text in texts
    )
    return MediaGroup(f"m{number}", (MediaRef(picture),), asked)


@pytest.mark.parametrize("name", ["nano_pocket", "nano_mllama"])
def test_the_default_is_the_cross_entropy_of_before_to_the_bit(name: str, tiny_busi: Path) -> None:
    """Of all targets but those of a borrowed reply, as the training step computed it without a loss of its own."""
    assembled = learning(name)
    batch = batch_of([_group(0, ["a mass", "benign"], tiny_busi), _group(1, ["no"], tiny_busi)], assembled,
                     share_prefix=True)._replace(num_counted=2)  # fmt: skip
    model, found = assembled.model, []
    for is_ours in (True, False):
        model.zero_grad()
        encoded = model.encode(batch.media)
        if is_ours:
            loss, logged = model(batch.rows, encoded, lambda read: of_step(find_loss(LossSettings()), batch, read))
        else:
            read = model(batch.rows, encoded)
            counted_T = read.logprobs_T.where(read.sequence_T < batch.num_counted, 0.0)
            loss = -counted_T.sum() / batch.step_target_tokens
            logged = -counted_T.detach().double().sum() / batch.step_target_tokens
        loss.backward()
        found.append([loss.detach(), logged, *(p.grad for p in model.parameters() if p.grad is not None)])
    assert len(found[0]) == len(found[1]) > 4
    assert all(torch.equal(one, other) for one, other in zip(*found, strict=True))


def test_a_loss_of_replies_takes_their_mean_and_leaves_out_the_borrowed() -> None:
    batch = tried_pass()
    logits_TV = torch.randn(len(batch.rows.target_id_T), 11, generator=torch.Generator().manual_seed(0))
    read = Targets([of_logits(logits_TV, batch.rows.target_id_T, batch.rows.target_sequence_T)])

    def of_replies(read: Targets, batch: MicroBatch) -> PerReply:
        return PerReply(read.by_reply(read.logprobs(), batch.num_replies))

    share, logged = of_step(of_replies, batch, read)
    assert batch.num_replies == 3
    assert float(share) == pytest.approx(float(read.logprobs()[:8].sum()) / 2)
    assert float(logged) == pytest.approx(float(share))
    with pytest.raises(ValueError, match=r"shape \(12,\); one for each reply of the pass is wanted, \(3,\)"):
        of_step(lambda read, batch: PerReply(read.logprobs()), batch, read)
    with pytest.raises(ValueError, match=r"shape \(\); one for each target token of the pass is wanted, \(12,\)"):
        of_step(lambda read, batch: read.logprobs().mean(), batch, read)


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        (("train.loss.name=label_smothing",), "no 'label_smothing' among the losses. Did you mean 'label_smoothing'?"),
        ((SMOOTH[0], "train.loss.settings.smothing=0.1"), "no key 'smothing'. Did you mean 'smoothing'?"),
        (
            (SMOOTH[0], "train.loss.settings.smoothing=1.5"),
            "settings.smoothing is 1.5; it must be at least 0 and below 1",
        ),
        ((SMOOTH[0], "train.loss.settings.smoothing=much"), "smoothing is 'much'; it must be a number"),
        (("train.loss.settings.smoothing=0.1",), "the loss 'cross_entropy' has none; leave it out"),
        (("train.loss.nme=x",), "no key 'train.loss.nme'. Did you mean 'name'?"),
    ],
)
@pytest.mark.parametrize("command", ["validate", "train"])
def test_a_loss_that_is_not_there_is_refused_before_anything_is_loaded(
    command: str, settings: tuple[str, ...], said: str, nano: Nano, prepared_tiny: Path, tmp_path: Path, refused: Told
) -> None:
    if command == "validate":
        arguments = ["validate", "nano_busi_lora", "--set", f"data.root={prepared_tiny}", *settings]
        assert said in refused(main(arguments))
    else:
        assert said in refused(nano.here("train", tmp_path / "run", *settings))
        assert not list((tmp_path / "run").glob("checkpoints/*"))


@pytest.fixture(scope="module")
def plain(prepared_tiny: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A training by the usual loss."""
    out = tmp_path_factory.mktemp("plain") / "run"
    assert Nano(prepared_tiny).here("train", out, *EVERYTHING) == 0
    return out


def test_validate_and_the_run_folder_say_the_loss(
    nano: Nano, plain: Path, prepared_tiny: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], curve: Curve
) -> None:
    assert main(["validate", "nano_busi_lora", "--set", f"data.root={prepared_tiny}", SMOOTH[0]]) == 0
    assert "loss       label_smoothing, smoothing 0.1: Cross entropy whose right answers" in capsys.readouterr().out
    smooth = tmp_path / "smooth"
    assert nano.here("train", smooth, *EVERYTHING, *SMOOTH) == 0
    kept = yaml.safe_load((smooth / "recipe.yaml").read_text("utf-8"))["train"]["loss"]
    assert kept == {"name": "label_smoothing", "settings": {"smoothing": 0.2}}
    assert curve(smooth, "train/loss")[0] != curve(plain, "train/loss")[0]
    assert len(curve(smooth, "val/loss")) == len(curve(plain, "val/loss")) == 1


def test_smoothing_of_nothing_learns_what_cross_entropy_learns(
    nano: Nano, plain: Path, tmp_path: Path, curve: Curve
) -> None:
    smooth = tmp_path / "smooth"
    assert nano.here("train", smooth, *EVERYTHING, SMOOTH[0], "train.loss.settings.smoothing=0") == 0
    assert not same_weights(plain, smooth), "another way through the logits rounds otherwise"
    assert weights_apart(plain, smooth) < 1e-4
    assert curve(smooth, "train/loss") == pytest.approx(curve(plain, "train/loss"), abs=1e-6)


ON_TWO_DEVICES = (("nano_mllama", "ddp"), ("nano_qwen25vl", "fsdp"), ("nano_qwen25vl", "deepspeed_stage_2"),
                  ("nano_qwen25vl", "deepspeed_stage_3"))  # fmt: skip


@pytest.mark.parametrize(
    ("loss", "name", "strategy"),
    in_suites(
        [(loss, *each) for loss, each in product(("label_smoothing", "per_reply"), ON_TWO_DEVICES)],
        slow=(("label_smoothing", "nano_mllama", "ddp"), ("per_reply", "nano_qwen25vl", "fsdp")),
    ),
)
def test_two_devices_lower_the_loss_of_one(
    nano: Nano, tmp_path: Path, curve: Curve, loss: str, name: str, strategy: str
) -> None:
    (tmp_path / "mine" / "losses").mkdir(parents=True)
    (tmp_path / "mine" / "losses" / "per_reply.py").write_text(PER_REPLY, "utf-8")
    one, two = tmp_path / "one", tmp_path / "two"
    settings = (*EVERYTHING, f"model.name={name}", f"train.loss.name={loss}", "model.tuning.language.mode=full")
    extra = ("--plugins", str(tmp_path / "mine"))
    nano.finished("train", one, *settings, extra=extra)
    nano.finished("train", two, *settings, "train.devices=2", f"train.strategy={strategy}", extra=extra)
    assert len(curve(one, "train/loss")) == 3
    assert curve(two, "train/loss") == pytest.approx(curve(one, "train/loss"), abs=1e-6)
    assert curve(two, "train/gradient_norm") == pytest.approx(curve(one, "train/gradient_norm"), rel=1e-4)
    if strategy in ("ddp", "deepspeed_stage_2"):
        # The others write what learns in full, as the output layer does here, in divided files.
        assert weights_apart(two, one) < 1e-4


LOSS = '"""A loss with a fault."""\n\n\ndef loss(read, batch{settings}):\n    return {made}\n'
_OF_CHUNK = "read.words(lambda logprobs_CV, id_C: logprobs_CV.mean(1) * len(id_C))"


@pytest.mark.parametrize(
    ("made", "settings", "said"),
    [
        ("-read.logprobs().detach()", "", "no gradient reaches the model"),
        ("-read.logprobs() / 0", "", "it has to be a finite number"),
        ("-read.logprobs().sum()", "", "one for each target token of the pass is wanted, (12,)"),
        ("0 * read.logprobs()", "", "the gradient of the loss is zero everywhere"),
        (_OF_CHUNK, "", "may make each number of its own row alone"),
        ("read.logprobs() / len(read.id_T)", "", "in one pass and"),
        ("(-read.logprobs().expm1()) ** 0.5", "", "the gradient is not finite where the model is sure"),
        ("-read.logprobs()", ", *, weight", "the setting 'weight' of `loss` needs a type and a default"),
    ],
)
def test_the_check_finds_the_faults_of_a_loss(
    made: str, settings: str, said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "losses").mkdir()
    (tmp_path / "losses" / "faulty.py").write_text(LOSS.format(made=made, settings=settings), "utf-8")
    assert main(["check", str(tmp_path)]) == 1
    found = capsys.readouterr().out
    assert said in found
    assert "1 extensions checked, 1 failed" in found


def test_the_shipped_losses_keep_their_contract() -> None:
    for name in ("cross_entropy", "label_smoothing"):
        assert list(LOSSES.broken(name)) == []


VALUED = (
    '"""Asks for a value."""\n\n\ndef loss(read, batch):\n    return -read.logprobs() * read.logprobs()[0].item()\n'
)


def test_the_plan_rehearses_the_loss_that_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "losses").mkdir()
    (tmp_path / "losses" / "valued.py").write_text(VALUED, "utf-8")
    said = {}
    for name in ("label_smoothing", "valued"):
        settings = [f"data.root={tmp_path / 'none'}", f"train.loss.name={name}"]
        command = ["validate", "nano_busi_lora", "--no-weights", "--plugins", str(tmp_path), "--set", *settings]
        assert main(command) == 1
        said[name] = capsys.readouterr().out
    assert "cannot be run without values" in said["valued"]
    assert "cannot be run without values" not in said["label_smoothing"]


def test_the_plan_rehearses_the_loss_of_each_stage(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "losses").mkdir()
    (tmp_path / "losses" / "valued.py").write_text(VALUED, "utf-8")
    stages = "[{name: first, max_steps: 2}, {name: second, max_steps: 2, loss: {name: valued}}]"
    settings = [f"data.root={tmp_path / 'none'}", "train.max_steps=null", f"train.stages={stages}"]
    command = ["validate", "nano_busi_lora", "--no-weights", "--plugins", str(tmp_path), "--set", *settings]
    assert main(command) == 1
    assert "the model or the loss cannot be run without values" in capsys.readouterr().out
