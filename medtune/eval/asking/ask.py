"""Asks a model every question of a benchmark and writes its answers to disk, before, during and after training."""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from medtune.data.types import AnswerFormat, Condition, MediaGroup, Prediction, PredictionKey, Reading, Request
from medtune.eval.asking.answerer import Answerer, ToldAhead
from medtune.eval.asking.conditions import CONDITIONS, READINGS
from medtune.eval.asking.plan import ONCE, Visit, plan_visits, prompt_hash
from medtune.eval.benchmark import Benchmark
from medtune.eval.predictions.files import describe_key
from medtune.eval.predictions.shards import (
    PredictionWriter,
    merge_shards,
    refuse_unasked,
    shard_path,
    stored_predictions,
)
from medtune.eval.scoring.parse_replies import index


def ask_questions(
    answerer: Answerer,
    groups: Sequence[MediaGroup],
    benchmark: Benchmark,
    *,
    answer_format: AnswerFormat,
    out_dir: Path,
    readings: Sequence[Reading] = READINGS,
    conditions: Sequence[Condition] = CONDITIONS,
    seed: int = 0,
    repeats: Mapping[Condition, int] = ONCE,
    rank: int = 0,
    world_size: int = 1,
    barrier: Callable[[], None] = lambda: None,
    on_group: Callable[[int, int], None] | None = None,
) -> list[Prediction]:
    """Asks a model every question, distributed over all ranks, and returns the answers in `out_dir`/predictions.jsonl.

    Rank r asks about the groups r, r + world_size, ... and appends the answers to its own shard. Answers that are on
    disk already are not asked for again, so that a killed evaluation continues with any number of ranks. Questions with
    options are asked in every reading under the condition "image", and in the first reading under the other conditions.
    Replies to questions without options are generated, whatever `readings` contains.

    Args:
        answerer: The model; a `ToldAhead` one is told in advance what is still to be asked.
        conditions: The conditions; "other_image" is left out if there is only one patient.
        repeats: How often each reply is generated under a condition, once for conditions that are not named. A model
            that is asked repeatedly has to sample.
        barrier: Waits for all ranks; it is called before rank 0 merges the shards, and again afterwards.
        on_group: Called with (groups done, groups of this rank) at the start and after each group.
    """
    out_dir.mkdir(parents=True, exist_ok=True)
    plan = plan_visits(
        groups,
        benchmark,
        answer_format=answer_format,
        readings=readings,
        conditions=conditions,
        seed=seed,
        repeats=repeats,
    )
    asked = {request.key: (request, visit) for visits in plan for visit in visits for request in visit.requests}
    order = _question_order(groups, asked, conditions)
    hashes = {key: prompt_hash(request, visit.shown) for key, (request, visit) in asked.items()}
    done = stored_predictions(out_dir)
    refuse_unasked(out_dir, done, order)
    _refuse_other_prompts(out_dir, done, hashes)
    mine = plan[rank::world_size]
    if isinstance(answerer, ToldAhead):
        rest = [(visit.shown, tuple(_waiting(visit, done).values())) for visits in mine for visit in visits]
        answerer.expect([(shown, requests) for shown, requests in rest if requests])
    with PredictionWriter(shard_path(out_dir, rank)) as writer:
        if on_group:
            on_group(0, len(mine))
        for number, visits in enumerate(mine, start=1):
            for visit in visits:
                for prediction in visit_answers(answerer, visit, done):
                    writer.write(prediction)
            if on_group:
                on_group(number, len(mine))
    barrier()
    if rank == 0:
        merge_shards(out_dir, order)
    barrier()
    return list(stored_predictions(out_dir).values())


def _question_order(
    groups: Sequence[MediaGroup], asked: Iterable[PredictionKey], conditions: Sequence[Condition]
) -> list[PredictionKey]:
    place = {id_: number for number, id_ in enumerate(index(q for group in groups for q in group.questions))}
    return sorted(asked, key=lambda key: (place[key.question_id], conditions.index(key.condition)))


def _waiting(visit: Visit, done: Collection[PredictionKey]) -> dict[PredictionKey, Request]:
    return {request.key: request for request in visit.requests if request.key not in done}


def visit_answers(
    answerer: Answerer, visit: Visit, done: Collection[PredictionKey] = frozenset()
) -> Iterator[Prediction]:
    """Yields one prediction for each request of a visit that is not done, with the hash of its prompt."""
    waiting = _waiting(visit, done)
    if not waiting:
        return
    answered: object = answerer.answer(visit.shown, tuple(waiting.values()))
    if not isinstance(answered, Iterable):
        raise TypeError(f"{type(answerer).__name__}.answer returned {answered!r:.80}; wanted a Prediction per request")
    for prediction in answered:
        if not isinstance(prediction, Prediction):
            raise TypeError(f"{type(answerer).__name__}.answer gave {prediction!r:.80}; wanted a Prediction")
        request = waiting.pop(prediction.key, None)
        if request is None:
            raise ValueError(f"the model answered {describe_key(prediction.key)}, which it was not asked, or not again")
        hashed = prompt_hash(request, visit.shown)
        yield replace(prediction, options_shown=request.question.options, prompt_hash=hashed)
    if waiting:
        raise ValueError(
            f"the model left {len(waiting)} requests unanswered, first {describe_key(next(iter(waiting)))}"
        )


def _refuse_other_prompts(
    folder: Path, done: Mapping[PredictionKey, Prediction], hashes: Mapping[PredictionKey, str]
) -> None:
    for key, prediction in done.items():
        if prediction.prompt_hash != hashes[key]:
            raise ValueError(
                f"{folder}: {describe_key(key)} was answered to another prompt (hash {prediction.prompt_hash}, now "
                f"{hashes[key]}): answer format, wording, options or seed differ; use that run's settings "
                "or another folder"
            )
