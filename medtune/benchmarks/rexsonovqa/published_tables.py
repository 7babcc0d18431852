"""The paper's tables of results with the measures of their cells: Tables A1 to A8, and the numbers of section 5."""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Literal

from medtune.benchmarks import published
from medtune.benchmarks.facets import DURATION_BINS
from medtune.benchmarks.rexsonovqa.rubric import FULL_POINTS, TYPES, is_rubric, rubric, scored_items
from medtune.benchmarks.rexsonovqa.tables import FREE_OUTCOMES, MCQ_OUTCOMES, FreeOutcome, free_outcome
from medtune.data.types import Condition, Question
from medtune.eval.metric import Metric, ParsedReply
from medtune.eval.metrics.accuracy import metric as accuracy
from medtune.eval.studies.measures import (
    change_up_to,
    count,
    counted,
    covered,
    gain_of,
    mean_up_to,
    of_metric,
    percentage,
)
from medtune.eval.studies.published import Answers, Measure, PublishedColumn, PublishedTable

_SOURCE = "ReXSonoVQA, arXiv 2604.10916"
_GEMINI = "Gemini 3 Pro"
_BLIND: tuple[Condition, ...] = ("image", "text_only")
_RECODED = (
    f"The paper's free responses of {_GEMINI} alone count 1 point where the judge gave 0 with a single error: its row "
    "is read by the parser `recoded`."
)
_ONE_BLIND_RUN = f"The paper pairs the video runs of all models with one blind run, that of {_GEMINI}."
Format = Literal["mcq", "free"]


def published_tables() -> Sequence[PublishedTable]:
    """Returns the tables `mcq` (A1, A3, A5, A7), `free` (A2, A4, A6, A8) and `section5`."""
    return _crossing("mcq"), _crossing("free"), _section5()


def _crossing(format_: Format) -> PublishedTable:
    printed = published("rexsonovqa")[format_]
    outcomes = (*(MCQ_OUTCOMES if format_ == "mcq" else FREE_OUTCOMES), "total")
    places = [(row, column) for row in range(len(outcomes)) for column in range(len(outcomes))]
    n = published("rexsonovqa")["text"]["mcq" if format_ == "mcq" else "free_response"]
    columns = tuple(
        PublishedColumn(
            _name(outcomes, row, column),
            counted(partial(_is_there, format_=format_, row=row, column=column, total=len(outcomes) - 1)),
            ("zero_shot",),
            _BLIND if row < len(outcomes) - 1 else ("image",),
            count,
            n=n,
            printed_digits=0,
            higher_is_better=None,
        )
        for row, column in places
        # The number of all questions is no result.
        if (row, column) != (len(outcomes) - 1, len(outcomes) - 1)
    )
    names = {_name(outcomes, *place): place for place in places}
    cells = {
        model: {each.name: float(rows[names[each.name][0]][names[each.name][1]]) for each in columns}
        for model, rows in printed.items()
    }
    which = "A1, A3, A5, A7" if format_ == "mcq" else "A2, A4, A6, A8"
    kind = "multiple choice" if format_ == "mcq" else "free response"
    notes = (_ONE_BLIND_RUN, *((_RECODED,) if format_ == "free" else ()))
    title = f"ReXSonoVQA: {kind}, number of questions by outcome blind and with the video"
    return PublishedTable(format_, title, f"{_SOURCE}, Tables {which}", columns, cells, notes)


def _name(outcomes: Sequence[str], row: int, column: int) -> str:
    if row == len(outcomes) - 1:
        return f"video {outcomes[column]}"
    return (
        f"blind {outcomes[row]}" if column == len(outcomes) - 1 else f"blind {outcomes[row]}, video {outcomes[column]}"
    )


def _is_there(answers: Answers, *, format_: Format, row: int, column: int, total: int) -> list[tuple[bool, str]]:
    """Returns for each question whether its outcomes blind and with the video are those of the cell."""
    covers = is_rubric if format_ == "free" else _is_choice
    video = covered(answers, "zero_shot", "image", covers)
    if row == total:
        return [(_outcome(each) == column, each.question.patient_id) for each in video]
    blind = {each.question.id: each for each in covered(answers, "zero_shot", "text_only", covers)}
    pairs = [(blind[each.question.id], each) for each in video if each.question.id in blind]
    return [
        (_outcome(before) == row and column in (total, _outcome(after)), after.question.patient_id)
        for before, after in pairs
    ]


def _is_choice(question: Question) -> bool:
    return not is_rubric(question)


def _outcome(row: ParsedReply) -> int:
    if _is_choice(row.question):
        return int(not row.correct)
    (item,) = scored_items([row])
    return free_outcome(FreeOutcome(item.score, item.error_type))


_PARTS: dict[str, Callable[[Question], bool]] = {
    "overall": lambda question: True,
    "type1": lambda question: question.facets.get("task") == TYPES[0],
    "type2": lambda question: question.facets.get("task") == TYPES[1],
    "type3": lambda question: question.facets.get("task") == TYPES[2],
    "0_5s": lambda question: question.facets.get("duration") == DURATION_BINS[0],
    "gt20s": lambda question: question.facets.get("duration") == DURATION_BINS[-1],
    "shortest": lambda question: question.facets.get("duration") == DURATION_BINS[0],
    "longest": lambda question: question.facets.get("duration") == DURATION_BINS[-1],
}
_SEEN: dict[str, tuple[Condition, ...]] = {"video": ("image",), "blind": ("text_only",), "gain": ("text_only", "image")}


def _section5() -> PublishedTable:
    text = published("rexsonovqa")["text"]
    columns = []
    for key in text:
        format_, _, rest = key.partition("_")
        seen, _, part = rest.partition("_")
        if format_ in ("mcq", "fr") and seen in _SEEN and part in _PARTS:
            columns.append(_of_section5(key, "mcq" if format_ == "mcq" else "free", _SEEN[seen], _PARTS[part]))
    cells = {_GEMINI: {each.name: float(text[each.name]) for each in columns}}
    notes = (_RECODED, "Multiple choice in percent, free responses in points from 0 to 2.")
    title = "ReXSonoVQA: by type and by duration of the clip"
    return PublishedTable("section5", title, f"{_SOURCE}, section 5", tuple(columns), cells, notes)


def _of_section5(
    key: str, format_: Format, conditions: tuple[Condition, ...], covers: Callable[[Question], bool]
) -> PublishedColumn:
    metric, scale = (accuracy().only(_is_choice), 100.0) if format_ == "mcq" else (rubric(), 1.0)
    interval = percentage if format_ == "mcq" else mean_up_to(FULL_POINTS)
    if len(conditions) == 2:
        interval = change_up_to(100 if format_ == "mcq" else FULL_POINTS)
    return PublishedColumn(
        key,
        _part(metric, conditions, covers, scale),
        ("zero_shot",),
        conditions,
        interval,
        printed_digits=1 if format_ == "mcq" else 2,
    )


def _part(metric: Metric, conditions: Sequence[Condition], covers: Callable[[Question], bool], scale: float) -> Measure:
    if len(conditions) == 1:
        return of_metric(metric, "zero_shot", covers=covers, condition=conditions[0], scale=scale)
    blind, seen = conditions
    return gain_of(metric, before=("zero_shot", blind), after=("zero_shot", seen), covers=covers, scale=scale)
