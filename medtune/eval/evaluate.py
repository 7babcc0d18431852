"""Asks a model every question of a benchmark and keeps the answers: before, during and after training alike."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from medtune.data.blank import blank_group
from medtune.data.seeding import stable_int
from medtune.data.shuffled import shuffled_group
from medtune.data.types import (
    AnswerFormat,
    Condition,
    MediaGroup,
    MediaKind,
    Prediction,
    PredictionKey,
    Prompt,
    Question,
    Reading,
    Request,
)
from medtune.eval.answerer import Answerer, ToldAhead
from medtune.eval.benchmark import Benchmark, Render
from medtune.eval.judging import index
from medtune.eval.other_patient import other_groups
from medtune.eval.predictions import describe
from medtune.eval.rewording import ANATOMY, named_organ, naming, stating
from medtune.eval.shards import PredictionWriter, merge_shards, refuse_unasked, shard_path, stored_predictions
from medtune.eval.wording import OURS

READINGS: tuple[Reading, ...] = ("likelihood", "generation")
CONDITIONS: tuple[Condition, ...] = ("image", "text_only", "other_image")
AUDITED: tuple[Condition, ...] = (
    "text_only",
    "other_image",
    "blank_image",
    "permuted_options",
    "shuffled_frames",
    "stated_answer",
)
"""What an audit wants to know beside the condition "image"."""
OF_OPTIONS: tuple[Condition, ...] = ("permuted_options", "stated_answer")
"""Conditions under which only questions with options can be asked."""
_ANATOMY_NAMED: tuple[Condition, ...] = ("with_anatomy", "without_anatomy")
_OTHER_MEDIA: tuple[Condition, ...] = ("other_image", "blank_image", "shuffled_frames")


@dataclass(frozen=True, slots=True)
class Visit:
    """One call of the answerer: the group whose media is shown, and what is asked about it."""

    shown: MediaGroup
    requests: tuple[Request, ...]


def evaluate(
    answerer: Answerer,
    groups: Sequence[MediaGroup],
    benchmark: Benchmark,
    *,
    answer_format: AnswerFormat,
    out_dir: Path,
    readings: Sequence[Reading] = READINGS,
    conditions: Sequence[Condition] = CONDITIONS,
    seed: int = 0,
    repeats: int = 1,
    rank: int = 0,
    world_size: int = 1,
    barrier: Callable[[], None] = lambda: None,
    on_group: Callable[[int, int], None] | None = None,
) -> list[Prediction]:
    """Answers every question once over all ranks, into `out_dir`/predictions.jsonl, and returns all answers.

    Rank r answers the groups r, r + world_size, ... and appends to its own shard; what is on disk already is not
    asked again, so that a killed evaluation continues, with any number of ranks. Questions with options are asked
    in every reading under the condition "image", and in the first reading under the others; questions without
    options are generated whatever `readings` says.

    Args:
        answerer: The model; one that wants to be `ToldAhead` is told what is still to be asked.
        groups: All groups, the same on every rank.
        benchmark: Whose prompts are asked.
        answer_format: How the options are listed and answered.
        out_dir: Made where it is not there.
        readings: The first is primary.
        conditions: What the model sees; "other_image" is left out where there is only one patient.
        repeats: How often each reply is generated; `answerer` has to sample.
        seed: Decides whose image is the other image.
        rank: 0 to world_size - 1.
        world_size: Number of ranks, >= 1.
        barrier: Waits for all ranks; called twice: before rank 0 merges the shards, and after.
        on_group: Called with (groups done, groups of this rank) at the start and after each group.

    Raises:
        ValueError: What is on disk was asked differently, or the model answered something else than it was asked.
        OSError: A prediction could not be written, e.g. because the disk is full.
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
    asked = {key_of(request): (request, visit) for visits in plan for visit in visits for request in visit.requests}
    order = _question_order(groups, asked)
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
                for prediction in _answers(answerer, visit, done):
                    writer.write(replace(prediction, prompt_hash=hashes[prediction.key]))
            if on_group:
                on_group(number, len(mine))
    barrier()
    if rank == 0:
        merge_shards(out_dir, order)
    barrier()
    return list(stored_predictions(out_dir).values())


def plan_visits(
    groups: Sequence[MediaGroup],
    benchmark: Benchmark,
    *,
    answer_format: AnswerFormat,
    readings: Sequence[Reading] = READINGS,
    conditions: Sequence[Condition] = CONDITIONS,
    seed: int = 0,
    repeats: int = 1,
) -> list[tuple[Visit, ...]]:
    """Returns the visits of each group: its own media with and without the image, changed media, another patient's.

    Questions without options are left out of "permuted_options" and "stated_answer", other media than videos of
    "shuffled_frames".

    Raises:
        ValueError: Nothing to ask: no groups, readings or conditions; or as `check_conditions`.
    """
    if not groups or not readings or not conditions:
        raise ValueError("wanted at least one group, one reading and one condition to evaluate; got none")
    check_conditions(groups, benchmark, conditions)
    renders = {condition: _render_for(condition, benchmark) for condition in conditions}
    others = other_groups(groups, seed=seed) if "other_image" in conditions else [None] * len(groups)
    own: list[Condition] = [condition for condition in conditions if condition not in _OTHER_MEDIA]
    plan = []
    for group, other in zip(groups, others, strict=True):
        prompts: dict[Condition, list[tuple[Question, Prompt]]] = {}
        for condition in conditions:
            asked = _asked(group.questions, condition, seed=seed)
            render = renders[condition](group.media.kind)
            prompts[condition] = [(question, render(question, answer_format)) for question in asked]
        visits = [Visit(group, _requests(prompts, own, readings, repeats))] if own else []
        shown: dict[Condition, MediaGroup | None] = {
            "other_image": other,
            "blank_image": blank_group(group),
            "shuffled_frames": shuffled_group(group, seed=seed),
        }
        for condition, instead in shown.items():
            if instead and condition in conditions:
                visits.append(Visit(instead, _requests(prompts, [condition], readings, repeats)))
        plan.append(tuple(visits))
    return plan


def check_conditions(groups: Sequence[MediaGroup], benchmark: Benchmark, conditions: Sequence[Condition]) -> None:
    """Refuses conditions that none of the groups can be asked under.

    Raises:
        ValueError: Frames of what is no video are to be shuffled, or an organ is to be named that nobody knows, or
            named or left out where the official prompts have no words for it.
    """
    if "shuffled_frames" in conditions and "shuffled_frames" not in audited(groups):
        kind = groups[0].media.kind
        raise ValueError(f"the condition 'shuffled_frames' is not for {kind}s; leave it out of eval.conditions")
    _check_anatomy(groups, benchmark, [condition for condition in conditions if condition in _ANATOMY_NAMED])


def _check_anatomy(groups: Sequence[MediaGroup], benchmark: Benchmark, ablation: Sequence[Condition]) -> None:
    unworded = [condition for condition in ablation if condition not in benchmark.renders]
    if benchmark.wording == OURS and "without_anatomy" in unworded:
        raise ValueError(
            "the condition 'without_anatomy' takes the organ out of official prompts; our wording names it under "
            "'with_anatomy' alone: compare that with 'image', and leave 'without_anatomy' out of eval.conditions"
        )
    if benchmark.wording != OURS and unworded:
        raise ValueError(
            f"{benchmark.title} has no official prompt for the condition {unworded[0]!r}; leave it out of "
            "eval.conditions, or prepare without --prompts"
        )
    if benchmark.wording != OURS and len(ablation) == 1:
        raise ValueError(
            f"under official prompts, which may name the organ, the condition {ablation[0]!r} has to be compared with "
            f"its other half; wanted {' and '.join(_ANATOMY_NAMED)} in eval.conditions"
        )
    if unworded and not any(named_organ(question) for group in groups for question in group.questions):
        raise ValueError(
            f"the condition 'with_anatomy' names the organ, and no question of {benchmark.title} says which it is "
            f"(facet {' or '.join(ANATOMY)}); leave it out of eval.conditions"
        )


def audited(groups: Sequence[MediaGroup]) -> list[Condition]:
    """Returns those of `AUDITED` that these groups' media allow."""
    impossible: set[Condition] = set()
    if not any(shuffled_group(group, seed=0) for group in groups):
        impossible.add("shuffled_frames")
    return [condition for condition in AUDITED if condition not in impossible]


def permuted(question: Question, *, seed: int) -> Question:
    """Returns the question with its options moved on in a ring, so that each stands at another position than before.

    How far is decided by (seed, question id).
    """
    if len(question.options) < 2:
        return question
    steps = 1 + stable_int(seed, "permuted_options", question.id) % (len(question.options) - 1)
    return replace(question, options=(*question.options[-steps:], *question.options[:-steps]))


def key_of(request: Request) -> PredictionKey:
    """Returns the key that the prediction of a request has to carry."""
    return PredictionKey(request.question.id, request.condition, request.reading, request.repeat)


def prompt_hash(request: Request, shown: MediaGroup) -> str:
    """Returns 16 hex digits of what is asked: the prompt, its choices and, for "other_image", the media shown."""
    other = shown.media_id if request.condition == "other_image" else None
    asked = json.dumps([request.prompt.text, request.prompt.choices, other])
    return hashlib.sha256(asked.encode("ascii")).hexdigest()[:16]


def _render_for(condition: Condition, benchmark: Benchmark) -> Callable[[MediaKind], Render]:
    """Returns what words the condition's questions about each kind of media."""
    if condition in benchmark.renders:
        own = benchmark.renders[condition]
        return lambda kind: own
    if condition == "stated_answer":
        stated = stating(benchmark.render)
        return lambda kind: stated
    if condition == "with_anatomy":
        return lambda kind: naming(benchmark.render, kind)
    return lambda kind: benchmark.render


def _requests(
    prompts: Mapping[Condition, Sequence[tuple[Question, Prompt]]],
    conditions: Sequence[Condition],
    readings: Sequence[Reading],
    repeats: int,
) -> tuple[Request, ...]:
    return tuple(
        Request(question=question, prompt=prompt, reading=reading, condition=condition, repeat=repeat)
        for condition in conditions
        for question, prompt in prompts[condition]
        for reading in _readings_for(question, condition, readings)
        for repeat in range(repeats if reading == "generation" else 1)
    )


def _asked(questions: Sequence[Question], condition: Condition, *, seed: int) -> list[Question]:
    if condition not in OF_OPTIONS:
        return list(questions)
    asked = [question for question in questions if question.options]
    return [permuted(question, seed=seed) for question in asked] if condition == "permuted_options" else asked


def _readings_for(question: Question, condition: Condition, readings: Sequence[Reading]) -> Sequence[Reading]:
    if not question.options:
        return ("generation",)
    return readings if condition == "image" else readings[:1]


def _question_order(groups: Sequence[MediaGroup], asked: Iterable[PredictionKey]) -> list[PredictionKey]:
    place = {id_: number for number, id_ in enumerate(index(q for group in groups for q in group.questions))}
    return sorted(asked, key=lambda key: place[key.question_id])


def _waiting(visit: Visit, done: Collection[PredictionKey]) -> dict[PredictionKey, Request]:
    return {key_of(request): request for request in visit.requests if key_of(request) not in done}


def _answers(answerer: Answerer, visit: Visit, done: Collection[PredictionKey]) -> Iterator[Prediction]:
    """Yields one prediction for each request that is not done, and checks that the model answered just those."""
    waiting = _waiting(visit, done)
    if not waiting:
        return
    for prediction in answerer.answer(visit.shown, tuple(waiting.values())):
        request = waiting.pop(prediction.key, None)
        if request is None:
            raise ValueError(f"the model answered {describe(prediction.key)}, which it was not asked, or not again")
        yield replace(prediction, options_shown=request.question.options)
    if waiting:
        raise ValueError(f"the model left {len(waiting)} requests unanswered, first {describe(next(iter(waiting)))}")


def _refuse_other_prompts(
    folder: Path, done: Mapping[PredictionKey, Prediction], hashes: Mapping[PredictionKey, str]
) -> None:
    for key, prediction in done.items():
        if prediction.prompt_hash != hashes[key]:
            raise ValueError(
                f"{folder}: {describe(key)} was answered to another prompt (hash {prediction.prompt_hash}, now "
                f"{hashes[key]}): answer format, wording, options or seed differ; use that run's settings "
                "or another folder"
            )
