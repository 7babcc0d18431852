"""A Lightning trainer of the user's own, with medtune's two classes: the page's example, and single steps."""

import json
import math
import re
from collections import Counter
from pathlib import Path
from typing import Any

import lightning.pytorch as pl
import pytest
import torch
from lightning.fabric.utilities.exceptions import MisconfigurationException
from lightning.pytorch.callbacks import EarlyStopping, EMAWeightAveraging, ModelCheckpoint
from lightning.pytorch.strategies import FSDPStrategy
from lightning.pytorch.tuner.tuning import Tuner

from medtune.benchmarks import find_benchmark
from medtune.data.prepared.read import open_prepared
from medtune.eval.predictions.files import parse_line
from medtune.eval.scoring.score import score_phase
from medtune.trainer.devices.strategies import refuse_strategy
from medtune.trainer.training.batches import MicroBatch
from medtune.trainer.training.data_module import QuestionData
from medtune.trainer.training.lightning_module import FineTuning
from tests.ranks import run_ranks

PAGE = Path(__file__).resolve().parents[4] / "docs" / "lightning.md"
QUIET: dict[str, Any] = {
    "accelerator": "cpu", "logger": False, "enable_checkpointing": False, "enable_progress_bar": False,
    "enable_model_summary": False,
}  # fmt: skip


def parts(prepared: Path, batch_size: int = 4) -> tuple[FineTuning, QuestionData]:
    module = FineTuning.of_model("nano_pocket")
    return module, QuestionData.of_folder(prepared, model=module, batch_size=batch_size)


def test_the_example_of_the_page_runs(prepared_tiny: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first, second, *_ = re.findall(r"```python\n(.*?)```", PAGE.read_text("utf-8"), flags=re.DOTALL)
    monkeypatch.chdir(tmp_path)
    Path("prepared").mkdir()
    Path("prepared/busi").symlink_to(prepared_tiny)
    names: dict[str, Any] = {}
    exec(first.replace('of_model("pocket")', 'of_model("nano_pocket")').replace("max_epochs=2", "max_epochs=1"), names)
    logged = [line.split(",") for line in Path("logs/lightning_logs/version_0/metrics.csv").read_text().splitlines()]
    wanted = {"train/loss", "val/loss", "val/token_accuracy", "val/choice_accuracy", "val/f1", "val/ece", "val/brier"}
    assert wanted <= set(logged[0])
    assert {"test/loss", "lr-AdamW/language"} <= set(logged[0])
    assert len(list(Path("checkpoints").iterdir())) == 1
    prepared = open_prepared(prepared_tiny)
    said = [parse_line(json.dumps(line).encode(), where="here") for batch in names["lines"] for line in batch]
    assert sorted(each.key.question_id for each in said) == sorted(q.id for q in prepared.questions("test"))
    values = dict(zip(logged[0], logged[-1], strict=True))
    scores = score_phase(prepared.questions("test"), said, find_benchmark("busi"))
    for name, score in scores.metrics["image"][scores.parser].items():
        assert float(values[f"test/{name}"]) == pytest.approx(score.value), name
    exec(second.replace("pocket_busi_lora", "nano_busi_lora"), names)
    assert names["data"].batch_size == 2


@pytest.mark.parametrize(
    ("batch_size", "accumulate", "limit"), [(5, 2, 1.0), (4, 1, 1.0), (2, 2, 3), (4, 3, 0.5), (100, 1, 1.0)]
)
def test_an_epoch_holds_every_group_once(
    prepared_tiny: Path, batch_size: int, accumulate: int, limit: float | int
) -> None:
    every = len(open_prepared(prepared_tiny).groups("train"))
    _, data = parts(prepared_tiny, batch_size)
    trainer = pl.Trainer(accumulate_grad_batches=accumulate, limit_train_batches=limit, max_epochs=3, **QUIET)
    data.trainer = trainer
    loader = data.train_dataloader()
    whole = math.ceil(every / (batch_size * accumulate)) * accumulate
    assert len(loader) == whole
    passes = min(limit, whole) if isinstance(limit, int) else int(limit * whole)
    batches = [batch for _, batch in zip(range(passes), loader, strict=False)]
    assert data.num_steps() == 3 * math.ceil(passes / accumulate)
    counted = Counter(id_ for batch in batches for id_ in batch.question_ids[: batch.num_counted])
    assert set(counted.values()) == {1}
    assert sum(batch.num_shown for batch in batches) == min(every, passes * batch_size)
    # Whatever a step holds, its loss is a mean over all of its tokens.
    for first in range(0, passes, accumulate):
        step: list[MicroBatch] = batches[first : first + accumulate]
        targets = sum(int((batch.rows.target_sequence_T < batch.num_counted).sum()) for batch in step)
        assert {batch.step_target_tokens for batch in step} == {targets}


def after_two_steps(prepared: Path, batch_size: int, accumulate: int) -> tuple[dict[str, torch.Tensor], float]:
    module, data = parts(prepared, batch_size)
    trainer = pl.Trainer(max_steps=2, accumulate_grad_batches=accumulate, limit_val_batches=0, **QUIET)
    trainer.fit(module, data)
    weights = {name: p.detach() for name, p in module.named_parameters() if p.requires_grad}
    return weights, float(trainer.callback_metrics["train/loss"])


def test_accumulated_passes_learn_as_one_pass(prepared_tiny: Path) -> None:
    (one, loss), (two, same) = (after_two_steps(prepared_tiny, *each) for each in ((4, 1), (2, 2)))
    assert same == pytest.approx(loss, abs=1e-5)
    assert max(float((one[name] - two[name]).abs().max()) for name in one) < 1e-5


def test_one_rate_for_all_parts(prepared_tiny: Path) -> None:
    module, data = parts(prepared_tiny)
    module.lr = 0.125
    trainer = pl.Trainer(fast_dev_run=True, accumulate_grad_batches=2, **QUIET)
    trainer.fit(module, data)
    assert trainer.global_step == 1
    assert {group["initial_lr"] for group in trainer.optimizers[0].param_groups} == {0.125}


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"precision": "bf16-true", "max_epochs": 1}, "take '32-true', 'bf16-mixed' or '16-mixed'"),
        ({"overfit_batches": 2, "max_epochs": 1}, "take limit_train_batches instead"),
        ({"max_epochs": -1}, "give the Trainer max_epochs or max_steps"),
    ],
)
def test_what_cannot_work_is_refused(prepared_tiny: Path, settings: dict[str, Any], message: str) -> None:
    module, data = parts(prepared_tiny)
    with pytest.raises(ValueError, match=re.escape(message)):
        pl.Trainer(**settings, **QUIET).fit(module, data)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"batch_size": 0}, "batch_size is 0; it must be at least 1"),
        ({"workers": -1}, "data.workers is -1; it must be at least 0"),
        ({"val_questions": 0}, "eval.val_questions is 0; it must be at least 1"),
        ({"readings": ("likelihod",)}, "readings is ('likelihod',); it must hold 'likelihood', 'generation' or both"),
        ({"readings": "likelihood"}, "readings is 'likelihood'; it must hold"),
        ({"readings": ()}, "eval.readings is empty"),
    ],
)
def test_wrong_settings_of_the_data_are_refused(prepared_tiny: Path, settings: dict[str, Any], message: str) -> None:
    module = FineTuning.of_model("nano_pocket")
    with pytest.raises(ValueError, match=re.escape(message)):
        QuestionData.of_folder(prepared_tiny, model=module, **settings)


def test_a_callback_that_watches_a_metric_that_is_not_there_says_what_there_is(
    prepared_tiny: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    watching: list[pl.Callback] = [EarlyStopping("val/los"), ModelCheckpoint(monitor="val/accuracy")]
    for callback in watching:
        module, data = parts(prepared_tiny)
        settings = {**QUIET, "enable_checkpointing": True, "limit_train_batches": 1}
        with pytest.raises((RuntimeError, MisconfigurationException), match="val/choice_accuracy"):
            pl.Trainer(max_epochs=1, callbacks=[callback], **settings).fit(module, data)


def test_gradients_are_clipped_once(prepared_tiny: Path) -> None:
    module = FineTuning.of_recipe("nano_busi_lora")
    data = QuestionData.of_recipe("nano_busi_lora", [f"data.root={prepared_tiny}"], model=module)
    with pytest.raises(ValueError, match=r"would be clipped twice\. Set train\.clip_norm=0, or leave"):
        pl.Trainer(max_epochs=1, gradient_clip_val=1.0, **QUIET).fit(module, data)


def test_what_only_a_run_does_is_refused() -> None:
    with pytest.raises(ValueError, match=r"train\.ema_decay: only `medtune run` can do that; leave it out"):
        FineTuning.of_recipe("nano_busi_lora", ["train.ema_decay=0.9"])


def test_a_budget_of_tokens_is_refused(prepared_tiny: Path) -> None:
    module = FineTuning.of_recipe("nano_busi_lora")
    with pytest.raises(ValueError, match=r"train\.micro_batch_tokens is 512; a Trainer of your own .* leave it out"):
        QuestionData.of_recipe(
            "nano_busi_lora", [f"data.root={prepared_tiny}", "train.micro_batch_tokens=512"], model=module
        )


def test_strategies_that_shard_weights_are_refused() -> None:
    with pytest.raises(ValueError, match=r"FSDPStrategy shards the weights.*take 'ddp'"):
        refuse_strategy(FSDPStrategy())


def test_data_without_a_trainer_say_what_they_need(prepared_tiny: Path) -> None:
    _, data = parts(prepared_tiny)
    with pytest.raises(ValueError, match=r"give them to Trainer\.fit, validate or test"):
        data.val_dataloader()


def trained(rank: int, world_size: int, folder: Path, out: Path, val_questions: int) -> list[Any]:
    """Returns what one of the processes that share four groups a step measures and answers."""
    module = FineTuning.of_model("nano_pocket")
    data = QuestionData.of_folder(folder, model=module, batch_size=4 // world_size, val_questions=val_questions)
    trainer = pl.Trainer(
        **{**QUIET, "enable_checkpointing": True},
        devices=world_size,
        strategy="ddp" if world_size > 1 else "auto",
        max_epochs=2,
        limit_train_batches=3,
        callbacks=[EarlyStopping("val/loss"), ModelCheckpoint(out, monitor="val/choice_accuracy", mode="max")],
    )
    before = trainer.validate(module, data, verbose=False)[0]
    trainer.fit(module, data)
    after = {name: float(value) for name, value in trainer.callback_metrics.items()}
    test = trainer.test(module, data, verbose=False)[0]
    answers: Any = trainer.predict(module, data)
    said = [line["question_id"] for batch in answers for line in batch]
    return [before, after, test, said, trainer.global_step]


@pytest.mark.parametrize(
    "val_questions", [pytest.param(100, marks=pytest.mark.soak), pytest.param(1, marks=pytest.mark.slow)]
)
def test_two_processes_equal_one(prepared_tiny: Path, tmp_path: Path, val_questions: int) -> None:
    """With one validation question the second process has none of its own, and runs the first one's uncounted."""
    (one,), (first, second) = (
        run_ranks(number, trained, prepared_tiny, tmp_path / f"on_{number}", val_questions) for number in (1, 2)
    )
    for mine, theirs in ((first, one), (second, one)):
        for number in range(3):
            assert mine[number].keys() == theirs[number].keys()
            assert mine[number] == pytest.approx(theirs[number], abs=1e-4)
        assert mine[4] == theirs[4] == 6
    assert sorted(first[3] + second[3]) == sorted(one[3])
    assert len(set(one[3])) == len(one[3])


@pytest.mark.parametrize("step", [pytest.param(4, marks=pytest.mark.slow), pytest.param(6, marks=pytest.mark.soak)])
def test_a_saved_state_goes_on_at_its_step(
    prepared_tiny: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: int
) -> None:
    """An epoch has 6 steps, so that step 4 is within one."""
    monkeypatch.chdir(tmp_path)
    quiet = {**QUIET, "enable_checkpointing": True}

    def after(state: Path | None) -> dict[str, torch.Tensor]:
        module, data = parts(prepared_tiny)
        keep = ModelCheckpoint(tmp_path, filename="{step}", save_top_k=-1, every_n_train_steps=2)
        callbacks = [EMAWeightAveraging(decay=0.5), *([keep] if state is None else [])]
        trainer = pl.Trainer(max_epochs=2, limit_train_batches=6, callbacks=callbacks, **quiet)
        trainer.fit(module, data, ckpt_path=state)
        assert trainer.global_step == 12
        return {name: p.detach() for name, p in module.named_parameters() if p.requires_grad}

    whole = after(None)
    state = tmp_path / f"step={step}.ckpt"
    saved = torch.load(state, weights_only=True)["state_dict"]
    assert saved.keys() == whole.keys()
    again = after(state)
    assert all(torch.equal(again[name], whole[name]) for name in whole)


@pytest.mark.slow
def test_the_tuner_sets_the_rate_and_the_batch_size(
    prepared_tiny: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    module, data = parts(prepared_tiny, batch_size=2)
    trainer = pl.Trainer(max_epochs=3, limit_train_batches=6, **QUIET)
    assert Tuner(trainer).scale_batch_size(module, datamodule=data, max_trials=2, steps_per_trial=1) == 4
    assert data.batch_size == 4
    before = {name: p.detach().clone() for name, p in module.named_parameters() if p.requires_grad}
    finder = Tuner(trainer).lr_find(module, datamodule=data, num_training=16, min_lr=1e-5, max_lr=0.1)
    assert finder is not None
    assert finder.suggestion() == module.lr is not None
    assert all(torch.equal(p, before[name]) for name, p in module.named_parameters() if name in before)
    trainer.fit(module, data)
    assert trainer.global_step == 18
    assert {group["initial_lr"] for group in trainer.optimizers[0].param_groups} == {module.lr}


@pytest.mark.slow
def test_bfloat16_with_clipped_gradients(prepared_tiny: Path) -> None:
    module, data = parts(prepared_tiny)
    trainer = pl.Trainer(max_epochs=1, limit_train_batches=2, precision="bf16-mixed", gradient_clip_val=1.0, **QUIET)
    trainer.fit(module, data)
    assert {p.dtype for p in module.parameters() if p.requires_grad} == {torch.float32}
    assert torch.isfinite(trainer.callback_metrics["val/loss"])
