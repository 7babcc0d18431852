"""A trainer of the user's own: a saved state goes on at its step, the Tuner works, two processes equal one."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import lightning.pytorch as pl
import pytest
import torch
from lightning.pytorch.callbacks import EMAWeightAveraging, ModelCheckpoint
from lightning.pytorch.tuner.tuning import Tuner

from tests.trainer.training.foreign.test_own_trainer import QUIET, parts

SCRIPT = """
import json, sys
import lightning.pytorch as pl
from lightning.pytorch.callbacks import EarlyStopping, ModelCheckpoint
from medtune.trainer.training.data_module import QuestionData
from medtune.trainer.training.lightning_module import FineTuning

folder, out, devices, batch_size, val_questions = sys.argv[1], sys.argv[2], *map(int, sys.argv[3:6])
module = FineTuning.of_model("nano_pocket")
data = QuestionData.of_folder(folder, model=module, batch_size=batch_size, val_questions=val_questions)
trainer = pl.Trainer(
    accelerator="cpu", devices=devices, strategy="ddp" if devices > 1 else "auto", max_epochs=2, limit_train_batches=3,
    logger=False, enable_progress_bar=False, enable_model_summary=False,
    callbacks=[EarlyStopping("val/loss"), ModelCheckpoint(out + "_states", monitor="val/choice_accuracy", mode="max")],
)
before = trainer.validate(module, data, verbose=False)[0]
trainer.fit(module, data)
after = {name: float(value) for name, value in trainer.callback_metrics.items()}
test = trainer.test(module, data, verbose=False)[0]
answers = trainer.predict(module, data)
said = [line["question_id"] for batch in answers for line in batch]
with open(f"{out}.{trainer.global_rank}.json", "w") as file:
    json.dump([before, after, test, said, trainer.global_step], file)
"""


@pytest.mark.parametrize(
    "val_questions", [pytest.param(100, marks=pytest.mark.soak), pytest.param(1, marks=pytest.mark.slow)]
)
def test_two_processes_equal_one(prepared_tiny: Path, tmp_path: Path, val_questions: int) -> None:
    """With one validation question the second process has none of its own, and runs the first one's uncounted."""
    script = tmp_path / "train.py"
    script.write_text(SCRIPT)

    def ran(devices: int, batch_size: int) -> list[list[Any]]:
        out = tmp_path / f"on_{devices}"
        command = [sys.executable, str(script), str(prepared_tiny), str(out)]
        subprocess.run([*command, str(devices), str(batch_size), str(val_questions)], check=True, timeout=400)
        return [json.loads(Path(f"{out}.{rank}.json").read_text()) for rank in range(devices)]

    (one,), (first, second) = ran(1, 4), ran(2, 2)
    for mine, theirs in ((first, one), (second, one)):
        for number in range(3):
            assert mine[number].keys() == theirs[number].keys()
            assert mine[number] == pytest.approx(theirs[number], abs=1e-4)
        assert mine[4] == theirs[4] == 6
    assert sorted(first[3] + second[3]) == sorted(one[3])
    assert len(set(one[3])) == len(one[3])


@pytest.mark.slow
@pytest.mark.parametrize("step", [4, 6])
def test_a_saved_state_goes_on_at_its_step(
    prepared_tiny: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: int
) -> None:
    """An epoch has 6 steps, so that step 4 is within one."""
    monkeypatch.chdir(tmp_path)
    quiet = {**QUIET, "enable_checkpointing": True}

    def trained(state: Path | None) -> dict[str, torch.Tensor]:
        module, data = parts(prepared_tiny)
        keep = ModelCheckpoint(tmp_path, filename="{step}", save_top_k=-1, every_n_train_steps=2)
        callbacks = [EMAWeightAveraging(decay=0.5), *([keep] if state is None else [])]
        trainer = pl.Trainer(max_epochs=2, limit_train_batches=6, callbacks=callbacks, **quiet)
        trainer.fit(module, data, ckpt_path=state)
        assert trainer.global_step == 12
        return {name: p.detach() for name, p in module.named_parameters() if p.requires_grad}

    whole = trained(None)
    state = tmp_path / f"step={step}.ckpt"
    saved = torch.load(state, weights_only=True)["state_dict"]
    assert saved.keys() == whole.keys()
    again = trained(state)
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
