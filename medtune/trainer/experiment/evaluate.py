"""Asks a model, in this process or behind an endpoint, and scores its answers, before, during and after training."""

import contextlib
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, Protocol

import numpy as np
import torch
from numpy.typing import NDArray

from medtune.data.progress import progress
from medtune.data.types import Condition, MediaGroup, Prediction, Question, Reading
from medtune.eval.asking.answerer import Answerer
from medtune.eval.asking.ask import ask_questions
from medtune.eval.asking.plan import ONCE
from medtune.eval.benchmark import Benchmark
from medtune.eval.comparing.gain import Gains, gain_between
from medtune.eval.judge.verdicts import with_verdicts
from medtune.eval.predictions.files import MERGED
from medtune.eval.results.build import NOTHING, RunFacts, gain_table, results_file, scores_file
from medtune.eval.results.schema import ProtocolFacts, RunHistory
from medtune.eval.results.typed_json import write_document
from medtune.eval.scoring.parse_replies import parse_all, write_parsed
from medtune.eval.scoring.score import PhaseScores, score_phase
from medtune.eval.scoring.standing import why_unlike_published
from medtune.models.answering import LocalAnswerer
from medtune.models.contract import Assembled
from medtune.models.media_reader import MediaReader, lost_readers_named, read_item
from medtune.models.sharding.lock_step import StoppedInTurn, Turns, lock_step
from medtune.models.tuning.adapters import merged
from medtune.models.tuning.quantize import precise
from medtune.trainer.devices.ranks import StoppedAlone, check_stop, highest, told_by_first, wait_or_stop
from medtune.trainer.experiment.experiment import Experiment
from medtune.trainer.experiment.prepared_data import tested
from medtune.trainer.launch.stop import asked_to_stop, listening
from medtune.trainer.recipe.check import departure_from_published, text_model_at
from medtune.trainer.recipe.schema import Recipe

_IMAGES_AT_ONCE = 4

if TYPE_CHECKING:
    from medtune.models.endpoint.served import Served

WORTH_A_WORD = 0.05
"""The share from which on a message says how to wait less (our own choice)."""
_PARTS = 1_000_000
_NOTHING = -1


class Asker(Protocol):
    """What is needed to ask a model: an experiment, or a prediction without truths."""

    @property
    def recipe(self) -> Recipe: ...
    @property
    def benchmark(self) -> Benchmark: ...
    @property
    def device(self) -> torch.device: ...
    @property
    def rank(self) -> int: ...
    @property
    def world_size(self) -> int: ...
    def say(self, text: str) -> None: ...


@dataclass(frozen=True, slots=True)
class LoadedModel:
    """A model whose weights are in this process."""

    experiment: Asker
    assembled: Assembled  # The model with its layout of sequences and its transform of media.

    @property
    def provenance(self) -> Mapping[str, str]:
        """A sentence for each part (vision, projector, language) that says where its weights come from."""
        return self.assembled.provenance

    @contextlib.contextmanager
    def answering(self) -> Iterator[Answerer]:
        """Returns a context that gives a local answerer; the model is in evaluation mode until the context ends."""
        model, recipe, device = self.assembled.model, self.experiment.recipe, self.experiment.device
        was_training = model.training
        model.eval()
        workers = self.experiment.recipe.data.workers
        reading = MediaReader(self.assembled.transform, workers=workers)
        with self.lock_step() as turns, lost_readers_named(), reading as reader, merged(model):
            yield LocalAnswerer(
                self.assembled,
                device=device,
                batch_tokens=recipe.eval.batch_tokens,
                batch_size=recipe.eval.batch_size,
                max_new_tokens=recipe.eval.max_new_tokens,
                precise=precise(recipe.train.precision, device),
                temperature=recipe.eval.temperature,
                seed=recipe.train.seed,
                turns=turns,
                reader=reader,
            )
        model.train(was_training)

    def lock_step(self) -> AbstractContextManager[Turns | None]:
        """Returns a context in which a rank may use a divided model in its own way, or not at all; all ranks enter."""
        timeout = timedelta(minutes=self.experiment.recipe.train.timeout_minutes)
        return lock_step(self.assembled.model, timeout=timeout, stopping=lambda: bool(asked_to_stop()))

    @torch.no_grad()
    def vision_features(self, groups: Sequence[MediaGroup], /) -> dict[str, NDArray[np.float32]]:
        """Returns, by media id, the vision tower's features of each image with its boxes drawn.

        All tokens' features are joined to one vector; empty where images differ in their number or no tower is here.

        Where several images are shown together, their features are averaged. Questions without media have none. One
        rank may ask a divided model alone if the others are in `lock_step` too.
        """
        model, transform = self.assembled.model, self.assembled.transform
        computed = precise(self.experiment.recipe.train.precision, self.experiment.device)
        was_training = model.training
        model.eval()
        sums: dict[str, list[NDArray[np.float32]]] = {}
        shown = [(group.media_id, ref) for group in groups for ref in group.media]
        with progress("audit", unit="images") as on_done:
            for start in range(0, len(shown), _IMAGES_AT_ONCE):
                on_done(start, len(shown))
                batch = shown[start : start + _IMAGES_AT_ONCE]
                with computed():
                    features_MX = model.features(transform.stack([read_item(ref, transform) for _, ref in batch]))
                if features_MX is None:
                    break
                for (media_id, _), features_X in zip(batch, features_MX.float().cpu().numpy(), strict=True):
                    sums.setdefault(media_id, []).append(features_X)
        model.train(was_training)
        return {media_id: np.mean(features, axis=0, dtype=np.float32) for media_id, features in sums.items()}


@dataclass(frozen=True, slots=True)
class ServedModel:
    """A model behind an endpoint; every question is sent there."""

    experiment: Asker
    served: "Served"  # The endpoint's settings and the file that records what it charged.

    @property
    def provenance(self) -> Mapping[str, str]:
        return self.served.provenance

    def answering(self) -> AbstractContextManager[Answerer]:
        """Returns a context that gives an answerer which asks the endpoint, and prints the cost when it ends."""
        from medtune.models.endpoint.served import open_answerer

        return open_answerer(
            self.served,
            max_new_tokens=self.experiment.recipe.eval.max_new_tokens,
            say=lambda text: print(text, flush=True),
        )

    def vision_features(self, groups: Sequence[MediaGroup], /) -> dict[str, NDArray[np.float32]]:
        """Returns an empty mapping, because the vision tower is behind the endpoint."""
        return {}


AskedModel = LoadedModel | ServedModel
"""A model that answers the questions of an experiment."""


class Waiting:
    """Watches the groups that are done, and passes them on.

    Args:
        on_group: Called with (groups done, groups of this rank).
    """

    def __init__(self, answerer: LocalAnswerer, on_group: Callable[[int, int], None]) -> None:
        self._answerer = answerer
        self._on_group = on_group
        self._done = 0
        self._began_s = self._ended_s = 0.0

    def __call__(self, done: int, total: int) -> None:
        """Notes the time, and passes the numbers on."""
        self._ended_s = time.perf_counter()
        if done == 0:
            self._began_s = self._ended_s
        self._done = done
        self._on_group(done, total)

    def share(self) -> float | None:
        """Returns the share, 0 to 1, of the rank that waited most; None if no rank had groups. All ranks call it."""
        if self._done == 0 or self._ended_s == self._began_s:
            parts = _NOTHING
        else:
            parts = round(_PARTS * self._answerer.waited_s / (self._ended_s - self._began_s))
        most = highest(parts)
        return None if most == _NOTHING else most / _PARTS


def waiting_text(share: float, *, workers: int) -> str:
    """Returns a message about the share; `workers` is the number of processes that read media.

    >>> waiting_text(0.25, workers=0)
    'waited for media 25.0 % of the time; processes that read ahead (data.workers) would shorten that'
    """
    text = f"waited for media {100 * share:.1f} % of the time"
    if share < WORTH_A_WORD:
        return text
    more = "more processes" if workers else "processes"
    return f"{text}; {more} that read ahead (data.workers) would shorten that"


def score_answers(
    experiment: Experiment,
    questions: Sequence[Question],
    predictions: Sequence[Prediction],
    *,
    out_dir: Path,
    phase: str = "",
    parser: str | None = None,
    before: PhaseScores | None = None,
) -> PhaseScores:
    """Scores the answers in `out_dir` and writes the scores beside them; rank 0 does, and every rank gets them.

    Args:
        phase: The evaluation (zero_shot, val, final), by which the recipe says whether texts have a BERTScore.
        parser: The primary parser; None is that of the recipe.
        before: The scores before training, which tables of a gain show; None if there are none.
    """
    if experiment.rank != 0:
        told: PhaseScores = told_by_first(None)
        return told
    # If a judge has given verdicts on answers of this phase, they are kept.
    predictions = with_verdicts(predictions, out_dir / MERGED, experiment.benchmark)
    parsed = parse_all(questions, predictions, experiment.benchmark)
    scores = score_phase(
        questions,
        predictions,
        experiment.benchmark,
        train=experiment.train_split,
        parser=parser or experiment.primary_parser,
        unlike_published=departure(experiment, questions),
        before=None if before is None else before.overall.number,
        text_model=text_model_at(experiment.recipe.eval, phase),
        parsed=parsed,
    )
    write_parsed(out_dir / "parsed.jsonl", predictions, parsed, experiment.benchmark)
    write_document(out_dir / "scores.json", scores_file(scores, experiment.label))
    told_by_first(scores)
    return scores


def departure(experiment: Experiment, questions: Sequence[Question]) -> str:
    """Returns why the scores of these questions must not stand among published ones, as a clause; "" if they may."""
    benchmark, parser = experiment.benchmark, experiment.primary_parser
    return why_unlike_published(experiment.label, benchmark, questions, parser=parser) or departure_from_published(
        experiment.recipe, benchmark
    )


class WrittenResults(NamedTuple):
    """The results of an experiment as they were written."""

    gain: Gains | None  # The gain between zero-shot and final; None if one is missing, or no question has both scores.
    text: str  # The results as a table, how many questions were asked, and where results.json lies.


def write_results(
    experiment: Experiment,
    phases: Mapping[str, PhaseScores],
    *,
    model: str,
    protocol: ProtocolFacts | None,
    trained_on: str,
    stopped_early: str = "",
    weights_commit: str = "",
    unavailable: Mapping[Reading, str] = NOTHING,
    judged_by: str = "medtune judge",
) -> WrittenResults:
    """Writes results.json, on rank 0.

    Args:
        phases: The scores by phase, zero_shot and final.
        model: The name of the model.
        protocol: The settings with which it was asked; None where code of the user's own asked it.
        trained_on: A description of what it was trained on; "" for no training.
        stopped_early: At which step each stage ended that ended early, and why.
        weights_commit: The commits of the weights that the training began with.
        unavailable: Why the model has no such reading.
        judged_by: The command that has answers judged which wait for it.
    """
    benchmark, prepared, split = experiment.benchmark, experiment.prepared, experiment.recipe.eval.split
    both = "zero_shot" in phases and "final" in phases
    gain = gain_between(phases["zero_shot"], phases["final"], benchmark) if both else None
    if experiment.rank == 0:
        facts = RunFacts(
            recipe=experiment.name,
            data_hash=prepared.data_hash,
            label=experiment.label,
            protocol=protocol,
            history=RunHistory(
                trained_on=trained_on,
                stopped_early=stopped_early,
                patient_unit=prepared.manifest.patient_unit,
                weights_commit=weights_commit,
                seconds=dict(experiment.left.took_s),
            ),
        )
        results = results_file(
            phases,
            gain,
            benchmark,
            benchmark_name=experiment.recipe.data.benchmark,
            model=model,
            facts=facts,
            unavailable=unavailable,
        )
        write_document(experiment.folder.results, results)
    asked = sum(len(group.questions) for group in tested_groups(experiment))
    there = len(prepared.questions(split))
    drawn = [f"\nasked {asked} of the {there} questions of {split!r}, drawn by train.seed"] if asked < there else []
    table = gain_table(phases, gain, benchmark, label=experiment.label, unavailable=unavailable, judged_by=judged_by)
    return WrittenResults(gain, "\n".join([*drawn, "", table, f"results: {experiment.folder.results}"]))


def answer_groups(
    experiment: Asker,
    model: AskedModel,
    groups: Sequence[MediaGroup],
    *,
    out_dir: Path,
    readings: Sequence[Reading],
    conditions: Sequence[Condition],
    title: str,
    repeats: Mapping[Condition, int] = ONCE,
    on_waited: Callable[[float], None] = lambda share: None,
) -> list[Prediction]:
    """Asks the groups' questions, writes the answers to `out_dir` and returns them.

    All ranks take part, and each gets all answers. Answers that the folder holds already are not asked for again. How
    long answers waited for media is printed.

    Args:
        on_waited: Called with the share of the time of answering in which answers waited for media, 0 to 1, that of the
            rank that waited most; not called if nothing was asked, or if the model is behind an endpoint.
    """
    with listening(at_once=experiment.world_size == 1):
        try:
            with model.answering() as answerer, _progress(title, shown=experiment.rank == 0) as on_group:
                watched = Waiting(answerer, on_group) if isinstance(answerer, LocalAnswerer) else on_group
                predictions = ask_questions(
                    answerer,
                    groups,
                    experiment.benchmark,
                    answer_format=experiment.recipe.model.answer_format,
                    out_dir=out_dir,
                    readings=readings,
                    conditions=conditions,
                    seed=experiment.recipe.train.seed,
                    repeats=repeats,
                    rank=experiment.rank,
                    world_size=experiment.world_size,
                    barrier=lambda: _meet(answerer),
                    on_group=watched,
                )
            if isinstance(watched, Waiting) and (share := watched.share()) is not None:
                experiment.say(f"{title}: {waiting_text(share, workers=experiment.recipe.data.workers)}")
                on_waited(share)
            return predictions
        except (StoppedAlone, StoppedInTurn):
            # The others wait for this rank, each after its last group, or come here as well.
            wait_or_stop()
            raise


def _meet(answerer: Answerer) -> None:
    if isinstance(answerer, LocalAnswerer):
        answerer.meet()
    wait_or_stop()


def tested_groups(experiment: Experiment) -> tuple[MediaGroup, ...]:
    """Returns the media groups that the phases zero_shot and final are measured on."""
    return tested(experiment.recipe, experiment.prepared, limit=experiment.limit)


@contextlib.contextmanager
def _progress(title: str, *, shown: bool) -> Iterator[Callable[[int, int], None]]:
    with progress(title, unit="images", shown=shown) as on_done:

        def on_group(done: int, total: int) -> None:
            check_stop()
            on_done(done, total)

        yield on_group
