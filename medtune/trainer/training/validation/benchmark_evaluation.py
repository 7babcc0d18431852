"""The callback that asks a benchmark's questions before, during and after a training, in any Lightning trainer.

`medtune run` validates with it in its own trainer. The phases before and after its training it asks by itself, of a
model that is read anew from the weights on disk.
"""

from __future__ import annotations

import contextlib
import math
import shutil
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal, get_args

import lightning.pytorch as pl
import torch
import yaml
from lightning.pytorch.callbacks import Callback, ModelCheckpoint
from lightning.pytorch.loggers import Logger
from lightning.pytorch.strategies import DeepSpeedStrategy, FSDPStrategy, ModelParallelStrategy
from lightning.pytorch.utilities.seed import isolate_rng
from torch import nn

from medtune.benchmarks import paper_of
from medtune.data.prepared.read import Prepared, open_prepared
from medtune.data.progress import progress
from medtune.data.types import AnswerFormat, Condition, MediaGroup, Prediction, Reading, Request, Split
from medtune.eval.asking.answerer import Answerer
from medtune.eval.asking.ask import ask_questions
from medtune.eval.asking.python_function import AnswerFunction, as_answerer
from medtune.eval.comparing.gain import Gains
from medtune.eval.data_label import NOT_RECORDED, label_of
from medtune.eval.predictions.shards import PredictionWriter, shard_path
from medtune.eval.report.write import write_report
from medtune.eval.results.build import phase_text
from medtune.eval.scoring.score import PhaseScores
from medtune.trainer.devices.ranks import barrier, told_by_first
from medtune.trainer.experiment.begin import begin_or_resume
from medtune.trainer.experiment.evaluate import score_answers, tested_groups, write_results
from medtune.trainer.experiment.experiment import Experiment
from medtune.trainer.experiment.judging import judge_phase
from medtune.trainer.experiment.open_data import OpenedData, check_scored, fitted
from medtune.trainer.experiment.prepared_data import groups_of, open_with_prompts
from medtune.trainer.launch.started import Started
from medtune.trainer.recipe.check import check_recipe, primary_parser
from medtune.trainer.recipe.read import recipe_tree
from medtune.trainer.recipe.schema import FOREIGN, DataBlock, EvalBlock, ModelBlock, Recipe, TrainBlock
from medtune.trainer.runs.run_folder import RunFolder
from medtune.trainer.seen import data_facts
from medtune.trainer.training.loggers import MetricsFile, phase_metrics
from medtune.trainer.training.step_callbacks import ValidationStoppedError, log_metrics
from medtune.trainer.training.validation.asked import EvaluatedSplit, asked
from medtune.trainer.training.validation.measures import Answered

Phase = Literal["zero_shot", "val", "final"]
PHASES: tuple[Phase, ...] = get_args(Phase)
VAL: Literal["val"] = "val"
VALIDATED = "validated"
"""The folder of the answers and scores of the last `Trainer.validate`."""
_KNOWN = {
    "model": ("name", "answer_format"),
    "data": ("benchmark", "root"),
    "train": ("seed",),
    "eval": ("split", "readings", "conditions", "questions", "val_questions"),
}
"""The settings of a recipe that hold for a trainer of the user's own; recipe.yaml says no others."""


@dataclass(frozen=True)
class Evaluated:
    experiment: Experiment
    validation: EvaluatedSplit  # The questions of each validation.
    # The number of optimizer steps before this training, which folders and logs count too.
    first_step: int
    # What logs the validations; None until the first one, which begins metrics.csv.
    loggers: Sequence[Logger] | None = None


class BenchmarkEvaluation(Callback):
    """Measures a model on a benchmark before a training, at each validation and after it, whatever trains it.

    Before `fit` (the phase zero_shot) and after it (final) the questions of the test split are asked, at each
    validation those of the split val. `val/METRIC` is logged for each of the benchmark's metrics, so that
    `ModelCheckpoint(monitor="val/accuracy", mode="max")` keeps the best weights; a trainer that validates nothing asks
    at the end of each epoch. The folder `out` gets every answer and score, results.json with the gain, and report.html.

    Random numbers, gradients and the modes of the module's parts are the same as without the callback. On several
    devices each rank answers its share, and `out` has to be a folder that all of them see.

    Args:
        folder: The folder that `medtune prepare` wrote.
        answers: What is asked: a function of (images, prompt) that returns the reply, as `medtune.evaluate` takes it,
            or an object with a method `answer(group, requests)` that yields a prediction for each request. None asks
            the LightningModule, which then has that method, or a method `answering()` that returns a context with such
            an object, as `medtune.FineTuning` has.
        out: The folder that is written; it must be new, unless `fit` goes on with a saved state (`ckpt_path`).
        name: The name of the model in tables and in the report.
        limit: About how many questions a validation asks, drawn with the seed as whole media groups; None asks all.
        test_limit: About how many questions are asked before and after, drawn alike; None asks all.
        split: The split that is asked before and after.
        every_n_epochs: The number of epochs between two validations on the benchmark.
        readings: How an answer to a question with options is read: "generation" parses a reply, "likelihood" takes the
            most likely option. The first is the primary one.
        conditions: What is shown after the training; "text_only" asks again without the image.
        answer_format: How options are listed and answered: "text", "letter" or "text_letter".
        seed: Decides which questions are drawn.
        phases: When to ask.
        final_weights: The weights that the phase final is about: "last", with which the training ends, or "best", those
            that the trainer's ModelCheckpoint kept as the best ones, as in `medtune run`. The module keeps the last.
        verbose: Whether the scores are printed.

    Attributes:
        zero_shot: All scores before the training; None before they are there.
        validation: All scores of the last validation; None before the first.
        final: All scores after the training.
        gain: The difference of final and zero_shot in the primary metric, with its interval and p values.
    """

    def __init__(
        self,
        folder: str | Path | Prepared,
        answers: Answerer | AnswerFunction | None = None,
        *,
        out: str | Path,
        name: str = "model",
        limit: int | None = None,
        test_limit: int | None = None,
        split: Split = "test",
        every_n_epochs: int = 1,
        readings: Sequence[Reading] = ("generation",),
        conditions: Sequence[Condition] = ("image",),
        answer_format: AnswerFormat = "text",
        seed: int = 0,
        phases: Sequence[Phase] = PHASES,
        final_weights: Literal["last", "best"] = "last",
        verbose: bool = True,
    ) -> None:
        if every_n_epochs < 1:
            raise ValueError(f"every_n_epochs is {every_n_epochs}; it must be at least 1")
        if isinstance(phases, str) or not set(phases) <= set(PHASES):
            raise ValueError(f"phases is {phases!r}; it must hold some of {', '.join(PHASES)}")
        if final_weights not in ("last", "best"):
            raise ValueError(f"final_weights is {final_weights!r}; it must be last or best")
        self.zero_shot: PhaseScores | None = None
        self.validation: PhaseScores | None = None
        self.final: PhaseScores | None = None
        self.gain: Gains | None = None
        self._out = Path(out).expanduser()
        self._answers = None if answers is None else as_answerer(answers)
        self._every_n_epochs = every_n_epochs
        self._phases = tuple(phases)
        self._verbose = verbose
        self._final_weights = final_weights
        self._name = name
        self._evaluated: Evaluated | None = None
        self._writer: PredictionWriter | None = None
        self._asks = True
        self._recipe = _recipe(
            folder if isinstance(folder, Prepared) else open_prepared(Path(folder).expanduser()),
            answer_format=answer_format,
            seed=seed,
            evaluation=EvalBlock(
                split=split, readings=tuple(readings), conditions=tuple(conditions), questions=test_limit
            ),
            limit=limit,
        )

    @classmethod
    def of_run(
        cls, experiment: Experiment, validation: EvaluatedSplit, *, first_step: int, loggers: Sequence[Logger]
    ) -> BenchmarkEvaluation:
        """Returns the callback that validates in the trainer of `medtune run`, whose module answers all questions.

        Args:
            validation: The questions, which the module's validation steps answer.
            first_step: The number of optimizer steps of the run before this stage.
        """
        found = cls(experiment.prepared, out=experiment.folder.root, phases=(VAL,))
        found._evaluated = Evaluated(experiment, validation, first_step, loggers)
        found._asks = False
        return found

    @property
    def monitor(self) -> str:
        """The name under which validations log the benchmark's primary metric, for callbacks that watch it."""
        return f"{VAL}/{_opened(self._recipe).benchmark.primary}"

    @property
    def mode(self) -> Literal["min", "max"]:
        """Whether a higher value of the primary metric is better or a lower one, for callbacks that watch it."""
        return "max" if _opened(self._recipe).benchmark.higher_is_better else "min"

    def score(self) -> float:
        """Returns the primary metric of the last validation; NaN before the first."""
        return math.nan if self.validation is None else self.validation.overall.number

    def setup(self, trainer: pl.Trainer, pl_module: pl.LightningModule, stage: str) -> None:
        """Opens the questions."""
        if not self._asks or stage not in ("fit", "validate"):
            return
        self._answering(pl_module)
        _refuse_divided(trainer)
        if stage == "fit" and self._final_weights == "best" and "final" in self._phases:
            _watching(trainer)
        recipe, out = self._recipe, self._out
        if trainer.fast_dev_run:  # type: ignore[attr-defined]
            recipe = replace(recipe, eval=replace(recipe.eval, questions=1, val_questions=1))
            out = Path(told_by_first(tempfile.mkdtemp(prefix="medtune-")))
        self._evaluated = _evaluated(_opened(recipe), out, trainer, validates=VAL in self._phases)

    def on_train_start(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        """Begins the folder and asks the phase zero_shot; a training that goes on has its answers already."""
        if not self._asks:
            return
        goes_on, folder = trainer.ckpt_path is not None, self._evaluated_on.experiment.folder
        _begin(self._evaluated_on.experiment, resume=goes_on and folder.recipe.is_file())
        if "zero_shot" not in self._phases:
            return
        if goes_on and not folder.zero_shot.is_dir():
            raise ValueError(
                f"{folder.root}: there are no answers from before the training that goes on with {trainer.ckpt_path}; "
                "give the folder with which it began, or phases=('val', 'final')"
            )
        self.zero_shot = self._phase(trainer, pl_module, "zero_shot")

    def on_train_end(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        """Asks the questions of the phase final, and writes the results and the report."""
        if "final" not in self._phases:
            return
        # A training that goes on may have ended before, with other weights.
        if trainer.is_global_zero:
            shutil.rmtree(self._evaluated_on.experiment.folder.final, ignore_errors=True)
        barrier()
        best = _best_weights(trainer) if self._final_weights == "best" else None
        with _holding(pl_module, trainer, best):
            self.final = self._phase(trainer, pl_module, "final", before=self.zero_shot)
        self._finish(trainer, weights="" if best is None else f", with the weights of {best.name}")

    def on_validation_start(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        """Opens this rank's file; what a killed training wrote at the same step is written again."""
        if VAL in self._phases and self._is_due(trainer):
            if trainer.state.fn == "validate" and self._asks:
                experiment = self._evaluated_on.experiment
                _begin(experiment, resume=experiment.folder.recipe.is_file())
            self._open_validation(trainer)

    def on_validation_batch_end(
        self,
        trainer: pl.Trainer,
        pl_module: pl.LightningModule,
        outputs: Any,
        batch: Any,
        batch_idx: int,
        dataloader_idx: int = 0,
    ) -> None:
        """Keeps the answers that the module's own validation step gave to questions of this validation."""
        given = outputs.get("answered", ()) if isinstance(outputs, Mapping) else ()
        if self._writer is None or not given:
            return
        for each in given:
            if isinstance(each, Answered):
                for prediction in each.predictions:
                    if prediction.key in self._evaluated_on.validation.keys:
                        self._writer.write(prediction)

    def on_validation_epoch_end(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        """Asks what is not answered yet and scores it; callbacks may watch every metric of the benchmark."""
        if self._writer is not None:
            self._score_validation(trainer, pl_module)

    def on_validation_end(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        """Logs the metrics that the module measured, and the scores with their intervals."""
        if self.validation is not None and trainer.state.fn == "fit" and self._is_due(trainer):
            self._log_validation(trainer)

    def on_train_epoch_end(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        """Validates on the benchmark where the trainer itself validates nothing."""
        # A run that is stopped switches its validations off.
        if self._asks and VAL in self._phases and not trainer.enable_validation and self._is_due(trainer):
            self._open_validation(trainer)
            self._score_validation(trainer, pl_module)
            self._log_validation(trainer)

    def on_exception(self, trainer: pl.Trainer, pl_module: pl.LightningModule, exception: BaseException) -> None:
        """Removes what a validation has answered that was stopped: it is done anew when the run goes on."""
        if not isinstance(exception, ValidationStoppedError):
            return
        self._close_writer()
        barrier()
        if trainer.is_global_zero:
            shutil.rmtree(self._folder(trainer), ignore_errors=True)

    @property
    def _evaluated_on(self) -> Evaluated:
        assert self._evaluated is not None
        return self._evaluated

    def _is_due(self, trainer: pl.Trainer) -> bool:
        if trainer.sanity_checking:
            return False
        return trainer.state.fn != "fit" or (trainer.current_epoch + 1) % self._every_n_epochs == 0

    def _step(self, trainer: pl.Trainer) -> int:
        return self._evaluated_on.first_step + trainer.global_step

    def _folder(self, trainer: pl.Trainer) -> Path:
        folder = self._evaluated_on.experiment.folder
        # `Trainer.validate` may be about other weights than those after the last step.
        return folder.validation(self._step(trainer)) if trainer.state.fn == "fit" else folder.root / VALIDATED

    def _answering(self, module: pl.LightningModule) -> AbstractContextManager[Answerer]:
        if not self._asks:
            return contextlib.nullcontext(_NobodyElse())
        if self._answers is not None:
            return contextlib.nullcontext(self._answers)
        answering = getattr(module, "answering", None)
        if callable(answering):
            found: AbstractContextManager[Answerer] = answering()
            return found
        if not callable(getattr(module, "answer", None)):
            raise TypeError(
                f"BenchmarkEvaluation: {type(module).__name__} has no method answer(group, requests); give answers=, a "
                "function of (images, prompt) that returns the reply"
            )
        return contextlib.nullcontext(as_answerer(module))

    def _open_validation(self, trainer: pl.Trainer) -> None:
        folder = self._folder(trainer)
        if trainer.is_global_zero:
            shutil.rmtree(folder, ignore_errors=True)
            folder.mkdir(parents=True)
        barrier()
        self._writer = PredictionWriter(shard_path(folder, trainer.global_rank))

    def _close_writer(self) -> None:
        if self._writer is not None:
            with self._writer:
                self._writer = None

    def _score_validation(self, trainer: pl.Trainer, module: pl.LightningModule) -> None:
        held, folder = self._evaluated_on, self._folder(trainer)
        self._close_writer()
        barrier()
        questions = held.validation.questions
        predictions = self._ask(trainer, module, held.validation.groups, folder, conditions=("image",), title=VAL)
        judge_phase(held.experiment, VAL, questions, out_dir=folder)
        scores = self.validation = score_answers(held.experiment, questions, predictions, out_dir=folder, phase=VAL)
        benchmark = held.experiment.benchmark
        for name, score in {**scores.metrics["image"][scores.parser], benchmark.primary: scores.overall}.items():
            module.log(f"{VAL}/{name}", score.number, sync_dist=True, batch_size=1)

    def _log_validation(self, trainer: pl.Trainer) -> None:
        held, step = self._evaluated_on, self._step(trainer)
        assert self.validation is not None
        measured = {name: float(value) for name, value in trainer.callback_metrics.items() if name.startswith(VAL)}
        scored = phase_metrics(VAL, self.validation, held.experiment.benchmark)
        self._say(f"step {step}: validation {phase_text(self.validation, held.experiment.benchmark)}")
        if held.loggers is None:
            held = self._evaluated = replace(
                held, loggers=[MetricsFile(held.experiment.folder.root, resume_step=step - 1)]
            )
        log_metrics(held.loggers or (), measured | scored, step=step)

    def _ask(
        self,
        trainer: pl.Trainer,
        module: pl.LightningModule,
        groups: Sequence[MediaGroup],
        out_dir: Path,
        *,
        conditions: Sequence[Condition],
        title: str,
    ) -> list[Prediction]:
        """Returns the answers in a folder, after asking what it does not hold yet; each rank asks its share."""
        experiment = self._evaluated_on.experiment
        recipe, shown = experiment.recipe, self._asks and self._verbose and trainer.is_global_zero
        with contextlib.ExitStack() as opened:
            if self._asks:
                opened.enter_context(_undisturbed(module))
                opened.enter_context(trainer.precision_plugin.forward_context())
            answerer = opened.enter_context(self._answering(module))
            on_group = opened.enter_context(progress(title, unit="images", shown=shown))
            return ask_questions(
                answerer,
                groups,
                experiment.benchmark,
                answer_format=recipe.model.answer_format,
                out_dir=out_dir,
                readings=recipe.eval.known_readings,
                conditions=conditions,
                seed=recipe.train.seed,
                rank=trainer.global_rank,
                world_size=trainer.world_size,
                barrier=barrier,
                on_group=on_group,
            )

    def _phase(
        self,
        trainer: pl.Trainer,
        module: pl.LightningModule,
        name: Literal["zero_shot", "final"],
        *,
        before: PhaseScores | None = None,
    ) -> PhaseScores:
        experiment = self._evaluated_on.experiment
        groups, out_dir = tested_groups(experiment), experiment.folder.root / name
        conditions, title = experiment.recipe.eval.asked_at(name), name.replace("_", "-")
        predictions = self._ask(trainer, module, groups, out_dir, conditions=conditions, title=title)
        questions = [question for group in groups for question in group.questions]
        scores = score_answers(experiment, questions, predictions, out_dir=out_dir, phase=name, before=before)
        if name == "final" or trainer.ckpt_path is None:
            log_metrics(trainer.loggers, phase_metrics(name, scores, experiment.benchmark), step=trainer.global_step)
        self._say(f"{title}: {phase_text(scores, experiment.benchmark)}")
        return scores

    def _finish(self, trainer: pl.Trainer, *, weights: str) -> None:
        experiment = self._evaluated_on.experiment
        phases = {"zero_shot": self.zero_shot, "final": self.final}
        written = write_results(
            experiment,
            {name: scores for name, scores in phases.items() if scores is not None},
            model=self._name,
            protocol=None,
            trained_on=f"{trainer.global_step} steps in a Lightning trainer of the user's own{weights}",
        )
        self.gain = written.gain
        self._say(written.text)
        if trainer.is_global_zero:
            self._say(f"report: {write_report(experiment.folder.root, paper_of)}")
        barrier()

    def _say(self, text: str) -> None:
        if self._verbose:
            self._evaluated_on.experiment.say(text)


class _NobodyElse:
    def answer(self, group: MediaGroup, requests: Sequence[Request]) -> Iterator[Prediction]:
        """Says which question the validation steps of a run left unanswered."""
        raise ValueError(
            f"the validation left {len(requests)} requests about {group.media_id} unanswered, the first about "
            f"{requests[0].question.id}: does the trainer limit its validation batches?"
        )


@contextlib.contextmanager
def _undisturbed(module: nn.Module) -> Iterator[None]:
    """Puts a module into evaluation mode, without gradients; modes and random numbers are as before afterwards."""
    modes = [(each, each.training) for each in module.modules()]
    with isolate_rng(), torch.no_grad():
        module.eval()
        try:
            yield
        finally:
            for each, training in modes:
                each.training = training


def _watching(trainer: pl.Trainer) -> list[ModelCheckpoint]:
    """Returns the trainer's callbacks that keep the best weights by a metric; without any it raises a ValueError."""
    callbacks = [each for each in trainer.checkpoint_callbacks if isinstance(each, ModelCheckpoint)]
    found = [each for each in callbacks if each.monitor is not None]
    if not found:
        raise ValueError(
            "final_weights is 'best', and no ModelCheckpoint of the trainer watches a metric: give it one "
            "(monitor=evaluation.monitor, mode=evaluation.mode), or take final_weights='last'"
        )
    return found


def _best_weights(trainer: pl.Trainer) -> Path:
    """Returns the checkpoint that the trainer's first such callback kept as the best one."""
    (best, *_) = _watching(trainer)
    if not best.best_model_path:
        raise ValueError(f"final_weights is 'best', and ModelCheckpoint(monitor={best.monitor!r}) has saved no weights")
    return Path(best.best_model_path)


@contextlib.contextmanager
def _holding(module: pl.LightningModule, trainer: pl.Trainer, weights: Path | None) -> Iterator[None]:
    """Lets a module hold the weights of a checkpoint until the block ends; None changes nothing."""
    if weights is None:
        yield
        return
    own = {name: tensor.detach().cpu().clone() for name, tensor in module.state_dict().items()}
    checkpoint = trainer.strategy.load_checkpoint(weights)
    module.on_load_checkpoint(checkpoint)
    module.load_state_dict(checkpoint["state_dict"], strict=module.strict_loading)
    try:
        yield
    finally:
        module.load_state_dict(own, strict=module.strict_loading)


def _refuse_divided(trainer: pl.Trainer) -> None:
    strategy = trainer.strategy
    zero_3 = isinstance(strategy, DeepSpeedStrategy) and strategy.zero_stage_3
    if zero_3 or isinstance(strategy, FSDPStrategy | ModelParallelStrategy):
        raise ValueError(
            f"{type(strategy).__name__} divides the weights among the ranks, which would wait for one another while "
            "each answers questions of its own; take 'ddp' or 'deepspeed_stage_2', or train with `medtune run`"
        )


def _recipe(
    prepared: Prepared, *, answer_format: AnswerFormat, seed: int, evaluation: EvalBlock, limit: int | None
) -> Recipe:
    most = max(prepared.num_questions("val"), 1) if limit is None else limit
    recipe = Recipe(
        ModelBlock(name=FOREIGN, answer_format=answer_format),
        DataBlock(benchmark=prepared.manifest.benchmark, root=prepared.root),
        TrainBlock(seed=seed),
        replace(evaluation, val_questions=most),
    )
    check_recipe(recipe)
    return recipe


def _opened(recipe: Recipe) -> OpenedData:
    prepared, benchmark = open_with_prompts(recipe.data.root, recipe.data.benchmark, recipe.model)
    return fitted(recipe, prepared, benchmark, training=False)


def _evaluated(opened: OpenedData, out: Path, trainer: pl.Trainer, *, validates: bool) -> Evaluated:
    recipe, prepared, benchmark, _ = opened
    parser, ranks, seed = primary_parser(recipe, benchmark), trainer.world_size, recipe.train.seed
    experiment = Experiment(
        name="",
        recipe=recipe,
        prepared=prepared,
        benchmark=benchmark,
        # What the user's own training learns from is not known here.
        label=label_of(prepared.manifest, prompts=benchmark.wording, seen_in_training=NOT_RECORDED),
        folder=RunFolder(out),
        device=trainer.strategy.root_device,
        started=Started(
            trainer.global_rank, trainer.local_rank, ranks, ranks // trainer.num_nodes, trainer.node_rank, "torchrun"
        ),
    )
    groups = tested_groups(experiment)
    if validates:
        try:
            groups = groups_of(prepared, VAL, questions=recipe.eval.val_questions, seed=seed)
            check_scored(recipe, prepared, benchmark, parser=parser, training=True, limit=None)
        except ValueError as error:
            error.add_note("BenchmarkEvaluation(phases=('zero_shot', 'final')) leaves the validations out")
            raise
    validation = asked(
        groups,
        benchmark,
        answer_format=recipe.model.answer_format,
        readings=recipe.eval.known_readings,
        parser=parser,
        seed=seed,
    )
    return Evaluated(experiment, validation, first_step=0)


def _begin(experiment: Experiment, *, resume: bool) -> None:
    """Begins or continues the folder on rank 0, and raises what is wrong with it on every rank."""
    wrong: Exception | None = None
    if experiment.rank == 0:
        root = experiment.folder.root
        try:
            if not resume and root.exists() and (not root.is_dir() or any(root.iterdir())):
                raise FileExistsError(
                    f"{root} is not empty: name a new folder (out=), or go on with a saved state of the training that "
                    "began there (ckpt_path of fit)"
                )
            begin_or_resume(
                experiment.folder,
                experiment.recipe,
                text=_known_settings(experiment.recipe),
                resume=resume,
                command=sys.argv,
                about=experiment.about,
                data=data_facts(experiment.prepared, (), before=experiment.folder.data_before() if resume else {}),
                limit=None,
            )
        except (ValueError, OSError) as error:
            wrong = error
    wrong = told_by_first(wrong)
    if wrong is not None:
        raise wrong


def _known_settings(recipe: Recipe) -> str:
    tree = recipe_tree(recipe)
    known = {block: {name: tree[block][name] for name in names} for block, names in _KNOWN.items()}
    return yaml.safe_dump(known, sort_keys=False)
