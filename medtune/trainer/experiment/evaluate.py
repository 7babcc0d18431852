"""Asks a model the questions of a phase and scores its answers, in the same way before, during and after training."""

import contextlib
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

from tqdm import tqdm

from medtune.data.types import Condition, MediaGroup, Prediction, Question, Reading
from medtune.eval.asking.answerer import Answerer
from medtune.eval.asking.ask import evaluate
from medtune.eval.asking.plan import ONCE
from medtune.eval.judge.verdicts import with_verdicts
from medtune.eval.predictions.shards import MERGED
from medtune.eval.published_protocol import why_unlike_published
from medtune.eval.results.build import scores_file
from medtune.eval.results.typed_json import write_document
from medtune.eval.scoring.parse_replies import write_parsed
from medtune.eval.scoring.score import PhaseScores, score_phase
from medtune.models.answering import LocalAnswerer
from medtune.models.sharding.lock_step import StoppedInTurn
from medtune.trainer.devices.ranks import barrier, highest
from medtune.trainer.experiment.asked_model import AskedModel
from medtune.trainer.experiment.experiment import Experiment
from medtune.trainer.experiment.prepared_data import tested
from medtune.trainer.launch.stop import listening
from medtune.trainer.launch.stop_together import StoppedAlone, check_stop, wait_or_stop
from medtune.trainer.recipe.published_protocol import departure_from_published

WORTH_A_WORD = 0.05
"""The share from which on a message says how to wait less (our own choice)."""
_PARTS = 1_000_000
_NOTHING = -1


class Waiting:
    """Watches the groups that are done, and passes them on.

    Args:
        answerer: The model that answers.
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

    Example:
        >>> waiting_text(0.25, workers=0)
        'waited for media 25.0 % of the time; processes that read ahead (data.workers) would shorten that'
    """
    text = f"waited for media {100 * share:.1f} % of the time"
    if share < WORTH_A_WORD:
        return text
    more = "more processes" if workers else "processes"
    return f"{text}; {more} that read ahead (data.workers) would shorten that"


def evaluate_phase(
    experiment: Experiment,
    model: AskedModel,
    groups: Sequence[MediaGroup],
    *,
    out_dir: Path,
    conditions: Sequence[Condition],
    title: str,
    repeats: Mapping[Condition, int] = ONCE,
    on_waited: Callable[[float], None] = lambda share: None,
) -> PhaseScores:
    """Asks the groups' questions, writes answers and scores to `out_dir`, and returns the scores.

    All ranks take part, and each gets the scores.

    Args:
        experiment: The experiment that is evaluated.
        model: The model that is asked.
        groups: The media groups whose questions are asked.
        out_dir: The folder for answers and scores. Answers that it holds already are not asked for again.
        conditions: The conditions to ask under, for instance "image".
        title: The label of the progress bar.
        repeats: How often each question is asked under each condition.
        on_waited: Called with the share of the time of answering in which answers waited for media, 0 to 1, that of the
            rank that waited most; not called if nothing was asked, or if the model is behind an endpoint.
    """
    predictions = answer_groups(
        experiment,
        model,
        groups,
        out_dir=out_dir,
        readings=experiment.recipe.eval.known_readings,
        conditions=conditions,
        title=title,
        repeats=repeats,
        on_waited=on_waited,
    )
    questions = [question for group in groups for question in group.questions]
    return score_answers(experiment, questions, predictions, out_dir=out_dir)


def score_answers(
    experiment: Experiment, questions: Sequence[Question], predictions: Sequence[Prediction], *, out_dir: Path
) -> PhaseScores:
    """Scores the answers in `out_dir` and writes the scores beside them; all ranks take part, and each gets them.

    Args:
        experiment: The experiment that is evaluated.
        questions: The questions that were asked.
        predictions: The answers to them.
        out_dir: The folder of the answers.
    """
    # If a judge has given verdicts in an earlier run of this phase, they are kept.
    predictions = with_verdicts(predictions, out_dir / MERGED, experiment.benchmark)
    scores = score_phase(
        questions,
        predictions,
        experiment.benchmark,
        train=experiment.train_split,
        parser=experiment.primary_parser,
        unlike_published=departure(experiment, questions),
    )
    if experiment.rank == 0:
        write_parsed(out_dir / "parsed.jsonl", questions, predictions, experiment.benchmark)
        write_document(out_dir / "scores.json", scores_file(scores, experiment.label))
    barrier()
    return scores


def departure(experiment: Experiment, questions: Sequence[Question]) -> str:
    """Returns why the scores of these questions must not stand among published ones, as a clause; "" if they may."""
    return why_unlike_published(experiment.label, experiment.benchmark, questions) or departure_from_published(
        experiment.recipe, experiment.benchmark
    )


def answer_groups(
    experiment: Experiment,
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

    All ranks take part, and each gets all answers. The arguments are those of `evaluate_phase`; `readings` says how a
    question is answered: by generating text, by the likelihood of the options, or both. How long answers waited for
    media is printed.
    """
    with listening(at_once=experiment.world_size == 1):
        try:
            with model.answering() as answerer, _progress(title, shown=experiment.rank == 0) as on_group:
                watched = Waiting(answerer, on_group) if isinstance(answerer, LocalAnswerer) else on_group
                predictions = evaluate(
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
    bars = tqdm(desc=title, unit="image", disable=not shown, file=sys.stderr, mininterval=1.0)
    with bars as bar:

        def on_group(done: int, total: int) -> None:
            check_stop()
            bar.total = total
            bar.update(done - bar.n)

        yield on_group
