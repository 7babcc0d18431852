"""The benchmark's questions in a trainer of the user's own, before, at validations and after: as `medtune score`."""

import contextlib
import json
import re
import shutil
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import datasets
import lightning.pytorch as pl
import pytest
import torch
from lightning.pytorch.callbacks import ModelCheckpoint
from lightning.pytorch.loggers import CSVLogger

import medtune
from medtune.data.types import MediaGroup, Prediction, Request
from medtune.eval.asking.answerer import Answerer
from medtune.trainer.commands.cli import main
from tests.ranks import run_ranks
from tests.trainer.training.foreign.colours import QUIET, Answering, Stranger, Validating, loader, prepared_colours


@pytest.fixture(autouse=True)
def the_same_random_numbers() -> None:
    pl.seed_everything(1, verbose=False)


@pytest.fixture(scope="module")
def prepared(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return prepared_colours(tmp_path_factory.mktemp("colours"))


def trained(prepared: Path, out: Path, *callbacks: pl.Callback, epochs: int = 3, **settings: Any) -> tuple[Any, Any]:
    pl.seed_everything(1, verbose=False)
    module = Validating()
    evaluation = medtune.BenchmarkEvaluation(prepared, module.colour, out=out, **settings)
    trainer = pl.Trainer(
        max_epochs=epochs, callbacks=[evaluation, *callbacks], **{**QUIET, "enable_checkpointing": bool(callbacks)}
    )
    trainer.fit(module, loader(prepared), loader(prepared, "val"))
    return evaluation, trainer


@pytest.fixture(scope="module")
def done(prepared: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Any, ModelCheckpoint, Any]:
    out = tmp_path_factory.mktemp("done") / "evaluation"
    kept = ModelCheckpoint(out.parent, monitor="val/closed_accuracy", mode="max", filename="{step}")
    evaluation, trainer = trained(prepared, out, kept, name="linear")
    return out, evaluation, kept, trainer


def test_before_and_after_are_what_medtune_score_says(
    prepared: Path, done: tuple[Path, Any, ModelCheckpoint, Any], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out, evaluation, *_ = done
    results = json.loads((out / "results.json").read_text())
    for phase, scores in (("zero_shot", evaluation.zero_shot), ("final", evaluation.final)):
        said = out / phase / "predictions.jsonl"
        scored = tmp_path / phase
        assert (
            main(["score", "vqa", "--predictions", str(said), "--questions", str(prepared), "--out", str(scored)]) == 0
        )
        found = json.loads((scored / "scores.json").read_text())
        assert found["overall"]["value"] == scores.overall.value == results["phases"][phase]["overall"]["value"]
        assert found["overall"]["ci95"] == results["phases"][phase]["overall"]["ci95"]
    assert evaluation.zero_shot.overall.value < 0.6 < evaluation.final.overall.value == 1.0
    before, after = (medtune.score(medtune.load(prepared), replies(out / phase)) for phase in ("zero_shot", "final"))
    compared = medtune.compare(before, after)
    assert evaluation.gain.value == compared.gain == results["gain"]["value"]
    assert evaluation.gain.ci95 == compared.ci95
    assert evaluation.gain.permutation_p == compared.p
    assert "linear" in (out / "report.html").read_text()
    assert main(["report", str(out)]) == 0
    another = shutil.copytree(out, tmp_path / "another")
    assert main(["compare", str(out), str(another)]) == 0
    assert "closed_accuracy on vqa" in capsys.readouterr().out


def replies(phase: Path) -> dict[str, str]:
    lines = [json.loads(line) for line in (phase / "predictions.jsonl").read_text().splitlines()]
    return {line["question_id"]: line["text"] for line in lines}


class Fading(Validating):
    """Learns in its second epoch and forgets all in its third."""

    def on_train_epoch_start(self) -> None:
        for parameter in self.parameters():
            parameter.data.zero_()
            parameter.requires_grad_(self.current_epoch == 1)

    def training_step(self, batch: Any, batch_idx: int) -> torch.Tensor:
        loss = super().training_step(batch, batch_idx)
        return loss if loss.requires_grad else loss.requires_grad_()


def test_a_checkpoint_keeps_the_weights_that_were_best_on_the_benchmark(prepared: Path, tmp_path: Path) -> None:
    module = Fading()
    evaluation = medtune.BenchmarkEvaluation(prepared, module.colour, out=tmp_path / "out", verbose=False)
    kept = ModelCheckpoint(tmp_path / "kept", monitor=evaluation.monitor, mode=evaluation.mode, filename="{step}")
    settings = {**QUIET, "enable_checkpointing": True, "logger": CSVLogger(tmp_path / "logs")}
    trainer = pl.Trainer(max_epochs=3, callbacks=[kept, evaluation], **settings)
    trainer.fit(module, loader(prepared), loader(prepared, "val"))
    assert evaluation.monitor == "val/closed_accuracy"
    files = sorted((tmp_path / "out/validation").glob("*/scores.json"))
    low, high, last = (json.loads(file.read_text())["overall"]["value"] for file in files)
    assert (high, last) == (1.0, low)
    assert low < 1
    assert kept.best_model_score == 1.0
    best = Path(kept.best_model_path)
    assert best.name == f"step={2 * trainer.num_training_batches}.ckpt"
    (header, *rows) = (tmp_path / "logs/lightning_logs/version_0/metrics.csv").read_text().splitlines()
    logged = [row.split(",")[header.split(",").index("val/closed_accuracy")] for row in rows]
    assert [float(value) for value in logged if value] == pytest.approx([low, high, last])
    assert "zero_shot/closed_accuracy_ci95_low" in header.split(",")
    # What is kept is what answers as it did.
    found = trainer.validate(module, loader(prepared, "val"), ckpt_path=best, verbose=False)
    assert found[0]["val/closed_accuracy"] == 1.0
    assert json.loads((tmp_path / "out/validated/scores.json").read_text())["overall"]["value"] == 1.0
    assert json.loads(files[-1].read_text())["overall"]["value"] == low, "what was measured in the training stays"


def test_the_final_phase_may_be_about_the_best_weights(prepared: Path, tmp_path: Path) -> None:
    def fit(*callbacks: pl.Callback, out: str, **settings: Any) -> tuple[medtune.BenchmarkEvaluation, Fading]:
        module = Fading()
        evaluation = medtune.BenchmarkEvaluation(prepared, module.colour, out=tmp_path / out, verbose=False, **settings)
        quiet = {**QUIET, "enable_checkpointing": bool(callbacks)}
        trainer = pl.Trainer(max_epochs=3, callbacks=[*callbacks, evaluation], **quiet)
        trainer.fit(module, loader(prepared), loader(prepared, "val"))
        return evaluation, module

    kept = ModelCheckpoint(tmp_path / "kept", monitor="val/closed_accuracy", mode="max", filename="{step}")
    (last, _), (best, module) = fit(out="last"), fit(kept, out="best", final_weights="best")
    assert last.gain is not None
    assert best.gain is not None
    assert last.gain.value == 0
    assert best.gain.value > 0.5
    assert not any(parameter.any() for parameter in module.parameters()), "the module ends with the last weights"
    assert Path(kept.best_model_path).name in (tmp_path / "best/report.md").read_text().replace("\\", "")
    with pytest.raises(ValueError, match="no ModelCheckpoint of the trainer watches a metric"):
        fit(ModelCheckpoint(tmp_path / "plain"), out="plain", final_weights="best")


@pytest.mark.parametrize("validates", [True, False])
def test_a_training_is_the_same_with_and_without(prepared: Path, tmp_path: Path, validates: bool) -> None:
    def weights(*, is_evaluated: bool) -> dict[str, torch.Tensor]:
        pl.seed_everything(3, verbose=False)
        module = Validating()
        # What is in evaluation mode already stays in it.
        module.layer.eval()
        evaluation = medtune.BenchmarkEvaluation(prepared, module.colour, out=tmp_path / "out", verbose=False)
        callbacks: list[pl.Callback] = [evaluation] if is_evaluated else []
        # A validation in the middle of an epoch stands between the passes of one step.
        often: dict[str, Any] = {"val_check_interval": 0.5} if validates else {}
        trainer = pl.Trainer(max_epochs=2, accumulate_grad_batches=4, callbacks=callbacks, **often, **QUIET)
        trainer.fit(module, loader(prepared), loader(prepared, "val") if validates else None)
        assert (module.training, module.layer.training, module.dropout.training) == (True, False, True)
        return {name: value.detach() for name, value in module.state_dict().items()}

    without, evaluated = weights(is_evaluated=False), weights(is_evaluated=True)
    assert all(torch.equal(evaluated[name], value) for name, value in without.items())


def test_a_trainer_that_validates_nothing_asks_at_the_end_of_an_epoch(prepared: Path, tmp_path: Path) -> None:
    module = Answering()
    evaluation = medtune.BenchmarkEvaluation(
        prepared, out=tmp_path / "out", limit=3, test_limit=2, every_n_epochs=2, verbose=False
    )
    kept = ModelCheckpoint(tmp_path / "kept", monitor="val/closed_accuracy", mode="max", every_n_epochs=2)
    trainer = pl.Trainer(max_epochs=4, callbacks=[kept, evaluation], **{**QUIET, "enable_checkpointing": True})
    trainer.fit(module, loader(prepared))
    steps = trainer.num_training_batches
    assert [each.name for each in sorted((tmp_path / "out/validation").iterdir())] == [
        f"step_{epochs * steps:06d}" for epochs in (2, 4)
    ]
    assert kept.best_model_score == 1.0
    assert evaluation.validation is not None
    assert evaluation.validation.asked == 3
    assert evaluation.final is not None
    assert evaluation.final.asked == 2


def test_a_training_that_goes_on_keeps_what_was_asked_before_it(prepared: Path, tmp_path: Path) -> None:
    asked: list[str] = []

    def fit(module: Validating, epochs: int, out: Path, state: Path | None = None) -> medtune.BenchmarkEvaluation:
        def answer(images: list[Any], prompt: str) -> str:
            asked.append(prompt)
            return module.colour(images, prompt)

        evaluation = medtune.BenchmarkEvaluation(prepared, answer, out=out, name="linear", verbose=False)
        kept = ModelCheckpoint(tmp_path / "kept", save_last=True)
        settings = {**QUIET, "enable_checkpointing": True}
        trainer = pl.Trainer(max_epochs=epochs, callbacks=[evaluation, kept], **settings)
        trainer.fit(module, loader(prepared), loader(prepared, "val"), ckpt_path=state)
        return evaluation

    first = fit(Validating(), 1, tmp_path / "out")
    state, once = tmp_path / "kept" / "last.ckpt", len(asked)
    again = fit(Validating(), 2, tmp_path / "out", state)
    assert len(asked) - once == once - 6, "the six questions of zero_shot are asked once"
    assert again.zero_shot is not None
    assert first.zero_shot is not None
    assert again.zero_shot.overall == first.zero_shot.overall
    assert again.gain is not None
    with pytest.raises(FileExistsError, match=r"out is not empty: name a new folder \(out=\), or go on with a saved"):
        fit(Validating(), 1, tmp_path / "out")
    with pytest.raises(ValueError, match="there are no answers from before the training that goes on with"):
        fit(Validating(), 3, tmp_path / "another", state)


def test_a_dry_run_leaves_nothing(prepared: Path, tmp_path: Path) -> None:
    module = Validating()
    evaluation = medtune.BenchmarkEvaluation(prepared, module.colour, out=tmp_path / "out", verbose=False)
    trainer = pl.Trainer(fast_dev_run=True, callbacks=[evaluation], **QUIET)
    trainer.fit(module, loader(prepared), loader(prepared, "val"))
    assert evaluation.final is not None
    assert evaluation.final.asked == 1
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"every_n_epochs": 0}, "every_n_epochs is 0; it must be at least 1"),
        ({"phases": ("before",)}, r"phases is \('before',\); it must hold some of zero_shot, val, final"),
        ({"final_weights": "first"}, "final_weights is 'first'; it must be last or best"),
        ({"limit": 0}, "eval.val_questions is 0; it must be at least 1"),
        ({"readings": ()}, "eval.readings is empty"),
        ({"conditions": ("text_only",)}, "eval.conditions is"),
    ],
)
def test_wrong_settings_are_refused(prepared: Path, tmp_path: Path, settings: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        medtune.BenchmarkEvaluation(prepared, lambda images, prompt: "", out=tmp_path, **settings)


def test_what_cannot_be_asked_is_refused_before_the_training(prepared: Path, tmp_path: Path) -> None:
    def fit(answers: Any = None) -> None:
        evaluation = medtune.BenchmarkEvaluation(prepared, answers, out=tmp_path / "out", verbose=False)
        pl.Trainer(max_epochs=1, callbacks=[evaluation], **QUIET).fit(Stranger(), loader(prepared))

    with pytest.raises(TypeError, match=r"Stranger has no method answer\(group, requests\); give answers=, a function"):
        fit()
    with pytest.raises(TypeError, match="a int cannot be asked"):
        fit(3)
    with pytest.raises(TypeError, match="the function returned 3"):
        fit(lambda images, prompt: 3)


def test_a_folder_without_validation_questions_says_what_goes_without(prepared: Path, tmp_path: Path) -> None:
    kept = datasets.DatasetDict({"test": medtune.to_datasets(prepared)["test"]})
    whole = medtune.from_datasets(kept, tmp_path / "test_alone")

    def fit(**settings: Any) -> medtune.BenchmarkEvaluation:
        module = Validating()
        evaluation = medtune.BenchmarkEvaluation(
            whole.folder, module.colour, out=tmp_path / "out", verbose=False, **settings
        )
        pl.Trainer(max_epochs=1, callbacks=[evaluation], **QUIET).fit(module, loader(prepared))
        return evaluation

    with pytest.raises(ValueError, match="the split 'val' is empty") as refused:
        fit()
    assert refused.value.__notes__ == ["BenchmarkEvaluation(phases=('zero_shot', 'final')) leaves the validations out"]
    evaluation = fit(phases=("zero_shot", "final"))
    assert evaluation.gain is not None
    assert evaluation.validation is None


def on_rank(rank: int, world_size: int, prepared: Path, out: Path) -> list[Any]:
    """Returns what one of the processes finds that answer together."""
    pl.seed_everything(5, verbose=False)
    module, found = Answering(), list[Any]()
    for name in ("validated", "trained"):
        evaluation = medtune.BenchmarkEvaluation(prepared, out=out / name, verbose=False)
        settings = {**QUIET, "devices": world_size, "strategy": "ddp" if world_size > 1 else "auto"}
        trainer = pl.Trainer(max_epochs=2, callbacks=[evaluation], **settings)
        if name == "validated":
            trainer.validate(module, loader(prepared, "val"), verbose=False)
        else:
            trainer.fit(module, loader(prepared), loader(prepared, "val"))
        found += [evaluation.zero_shot, evaluation.validation, evaluation.final]
        found.append(float(trainer.callback_metrics["val/closed_accuracy"]))
    return found


@pytest.mark.slow
def test_two_processes_equal_one(prepared: Path, tmp_path: Path) -> None:
    (one,), (first, second) = (run_ranks(number, on_rank, prepared, tmp_path / f"on_{number}") for number in (1, 2))
    assert first == second == one
    for name in ("validated/validated", "trained/zero_shot", "trained/final"):
        mine, theirs = (tmp_path / f"on_{number}" / name / "predictions.jsonl" for number in (1, 2))
        assert mine.read_text() == theirs.read_text()


def test_the_example_of_the_page_runs(prepared_tiny: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    page = Path(__file__).resolve().parents[4] / "docs" / "lightning.md"
    example, metrics = re.findall(r"```python\n(.*?)```", page.read_text("utf-8"), flags=re.DOTALL)[-2:]
    monkeypatch.chdir(tmp_path)
    Path("prepared").mkdir()
    Path("prepared/busi").symlink_to(prepared_tiny)
    names: dict[str, Any] = {}
    exec(example + metrics, names)
    assert names["evaluation"].monitor == "val/accuracy"
    files = list(Path("evaluation/validation").glob("*/scores.json"))
    assert len(files) == 2
    best = max(json.loads(file.read_text())["overall"]["value"] for file in files)
    assert names["best"].best_model_score == pytest.approx(best)
    assert "<!doctype html>" in Path("evaluation/report.html").read_text("utf-8")
    assert 0 <= names["accuracy"].compute() == names["every"].compute()["val/accuracy"] <= 1


def test_medtunes_own_module_is_asked_in_a_foreign_trainer(
    prepared_tiny: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What its validation steps answer is not asked again."""
    asked, new = [], medtune.FineTuning.answering

    class Counting:
        def __init__(self, answerer: Answerer) -> None:
            self._answerer = answerer

        def answer(self, group: MediaGroup, requests: Sequence[Request]) -> Iterator[Prediction]:
            asked.append(group.media_id)
            return self._answerer.answer(group, requests)

    @contextlib.contextmanager
    def counted(self: medtune.FineTuning) -> Iterator[Counting]:
        with new(self) as answerer:
            yield Counting(answerer)

    monkeypatch.setattr(medtune.FineTuning, "answering", counted)
    module = medtune.FineTuning.of_model("nano_pocket")
    data = medtune.QuestionData.of_folder(prepared_tiny, model=module, readings=("likelihood", "generation"))
    settings: dict[str, Any] = {"readings": ("likelihood", "generation"), "limit": 4, "test_limit": 4, "verbose": False}
    evaluation = medtune.BenchmarkEvaluation(prepared_tiny, out=tmp_path / "out", **settings)
    trainer = pl.Trainer(max_epochs=1, limit_train_batches=2, callbacks=[evaluation], **QUIET)
    trainer.fit(module, data)
    assert evaluation.zero_shot is not None
    assert evaluation.validation is not None
    assert evaluation.zero_shot.parser == "likelihood"
    assert evaluation.validation.asked >= 4
    assert len(asked) == 2 * len({row.question.media_id for row in evaluation.zero_shot.rows})
    said = (tmp_path / "out/validation/step_000002/predictions.jsonl").read_text().splitlines()
    assert {json.loads(line)["reading"] for line in said} == {"likelihood", "generation"}
