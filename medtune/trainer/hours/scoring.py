"""Measures what a phase takes beside its answers: planning, writing predictions and scoring them."""

from collections.abc import Callable, Sequence
from itertools import accumulate
from pathlib import Path

from medtune.data.types import Prediction, Question
from medtune.eval.asking.plan import prediction_key
from medtune.eval.predictions.shards import PredictionWriter, merge_shards, shard_path, stored_predictions
from medtune.trainer.experiment.evaluate import score_answers
from medtune.trainer.experiment.experiment import Experiment
from medtune.trainer.hours.answering import Clock
from medtune.trainer.hours.work import Asking, asking_of

MOST_SCORED = 20_000
"""The number of answers above which a part is scored, and the time scaled by the number of answers."""


def planned_and_scored(experiment: Experiment, plan: Callable[[], Asking], out_dir: Path, *, clock: Clock) -> float:
    """Returns the seconds in which a phase is planned, and in which right answers to it are written and scored.

    The answers stand for those of a model, which take as long to score.

    Args:
        experiment: The experiment.
        plan: Plans what the phase asks.
        out_dir: An empty folder for the answers and scores.
        clock: Returns the seconds.
    """
    begun = clock()
    asking = plan()
    planning_s = clock() - begun
    ends = list(accumulate(sum(len(visit.requests) for visit in visits) for visits in asking.plan))
    number = next((place for place, end in enumerate(ends, 1) if end >= MOST_SCORED), len(ends))
    part = asking_of(asking.plan[:number], world_size=1)
    return planning_s + scored(experiment, part, out_dir, clock=clock) * ends[-1] / ends[number - 1]


def scored(experiment: Experiment, asking: Asking, out_dir: Path, *, clock: Clock) -> float:
    """Returns the seconds in which right answers to everything that is asked are written and scored."""
    out_dir.mkdir(parents=True)
    answers, questions = stand_ins(asking), _questions(asking)
    begun = clock()
    with PredictionWriter(shard_path(out_dir, 0)) as writer:
        for answer in answers:
            writer.write(answer)
    merge_shards(out_dir, [answer.key for answer in answers])
    score_answers(experiment, questions, list(stored_predictions(out_dir).values()), out_dir=out_dir)
    return clock() - begun


def _questions(asking: Asking) -> list[Question]:
    # Under "permuted_options" the options stand in another order; the questions are those of the condition "image".
    asked = [request for request in asking.requests if request.condition == "image"]
    return list({request.question.id: request.question for request in asked}.values())


def stand_ins(asking: Asking) -> list[Prediction]:
    """Returns right answers to all requests of an evaluation."""
    return [
        Prediction(
            key=prediction_key(request),
            options_shown=request.question.options,
            text=request.prompt.target if request.reading == "generation" else None,
            option_logprobs=_logprobs(request.prompt.choices, request.prompt.target)
            if request.reading == "likelihood"
            else None,
            option_tokens=(1,) * len(request.prompt.choices) if request.reading == "likelihood" else None,
        )
        for request in asking.requests
    ]


def _logprobs(choices: Sequence[str], target: str) -> tuple[float, ...]:
    return tuple(-0.1 if choice == target else -9.0 for choice in choices)
