"""The paper's tables of results with the measures of their cells: Tables A1 to A8, and the numbers of section 5."""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Literal

from medtune.benchmarks import published
from medtune.benchmarks.facets import DURATION_BINS
from medtune.benchmarks.rexsonovqa.rubric import (
    FULL_POINTS,
    TYPES,
    WRONG_CONCLUSION,
    WRONG_EVIDENCE,
    is_rubric,
    rubric,
    scored_items,
)
from medtune.data.types import Condition, Question
from medtune.eval.evidence import Evidence
from medtune.eval.metric import ParsedReply
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
from medtune.eval.studies.one_run import answers_of, value_of
from medtune.eval.studies.published import Answers, PublishedColumn, PublishedTable

MCQ_OUTCOMES = ("correct", "incorrect")
FREE_OUTCOMES = ("2", "1_wrong_conclusion", "1_wrong_visual", "0")
_SINGLE = {WRONG_CONCLUSION: 1, WRONG_EVIDENCE: 2}
_SOURCE = "ReXSonoVQA, arXiv 2604.10916"
_GEMINI = "Gemini 3 Pro"
_BLIND: tuple[Condition, ...] = ("image", "text_only")
_RECODED = (
    f"The paper's free responses of {_GEMINI} alone count 1 point where the judge gave 0 with a single error: its row "
    "is read by the parser `recoded`."
)
_ONE_BLIND_RUN = f"The paper pairs the video runs of all models with one blind run, that of {_GEMINI}."
Format = Literal["mcq", "free"]
FORMATS: tuple[Format, ...] = ("mcq", "free")
_TITLES = {"mcq": "multiple choice", "free": "free response"}
_PREFIX = {"mcq": "mcq", "free": "fr"}
_KEYS = ("type1", "type2", "type3", "0_5s", "gt20s")

Cells = tuple[tuple[int, ...], ...]
"""Numbers of questions by outcome: blind in rows, with the video in columns, each in the order of the outcomes, with
totals last."""
_SHORT: dict[str, str] = dict(zip((*TYPES, DURATION_BINS[0], DURATION_BINS[-1]), _KEYS, strict=True))
"""For each group its name in the keys of section 5."""
_BLIND_SHORT = {DURATION_BINS[0]: "shortest", DURATION_BINS[-1]: "longest"}
"""Those of the groups that section 5 names otherwise where it prints blind answers."""
SETTINGS: dict[str, tuple[Condition, ...]] = {
    "video": ("image",), "blind": ("text_only",), "gain": ("text_only", "image"),
}  # fmt: skip
FIGURES: dict[str, tuple[str, tuple[str, ...]]] = {
    "figure6": ("task", tuple(TYPES)), "figure7": ("duration", tuple(DURATION_BINS)),
}  # fmt: skip
"""For each figure the facet by which it shows the scores, and its levels."""
OVERALL = "overall"


def published_tables() -> Sequence[PublishedTable]:
    """Returns the tables `mcq` (A1, A3, A5, A7), `free` (A2, A4, A6, A8) and `section5`, and Figures 6 and 7."""
    figures = [_figure(name, format_) for name in FIGURES for format_ in FORMATS]
    return (*map(_crossing, FORMATS), _section5(), *figures)


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
    kind = _TITLES[format_]
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
    """Returns for each question whether its outcomes blind and with the video are those of the cell.

    Of questions that were asked blind too, all cells are about those that have both answers.
    """
    covers = is_rubric if format_ == "free" else _is_choice
    video = covered(answers, "zero_shot", "image", covers)
    blind = {each.question.id: each for each in covered(answers, "zero_shot", "text_only", covers) if each.is_answered}
    if row == total:
        both = [each for each in video if each.question.id in blind] or video
        return [(_outcome(each) == column, each.question.patient_id) for each in both]
    pairs = [(blind[each.question.id], each) for each in video if each.question.id in blind]
    return [
        (_outcome(before) == row and column in (total, _outcome(after)), after.question.patient_id)
        for before, after in pairs
    ]


def crossed(table: PublishedTable, evidence: Evidence) -> Cells | None:
    """Returns the cells of the table `mcq` or `free` for one evaluation; None where nothing was asked blind."""
    outcomes = (*(MCQ_OUTCOMES if table.name == "mcq" else FREE_OUTCOMES), "total")
    found = {column.name: value_of(column, answers_of(evidence)) for column in table.columns}
    first = found[_name(outcomes, 0, 0)]
    if first is None:
        return None
    size = range(len(outcomes))
    values = {name: round(each.value) if each else 0 for name, each in found.items()}
    return tuple(tuple(values.get(_name(outcomes, row, column), first.n) for column in size) for row in size)


def _is_choice(question: Question) -> bool:
    return not is_rubric(question)


def _outcome(row: ParsedReply) -> int:
    if _is_choice(row.question):
        return int(not row.correct)
    (item,) = scored_items([row])
    return free_outcome(item.score, item.error_type)


def free_outcome(score: float, error_type: str | None) -> int:
    """Returns the position of a free response in `FREE_OUTCOMES`.

    An outcome that is neither 2 points nor 1 point with a single error counts as 0 points, both wrong.
    """
    if score == FULL_POINTS:
        return 0
    return _SINGLE.get(error_type or "", 3) if score == 1 else 3


def _section5() -> PublishedTable:
    columns = [_part(format_, OVERALL, setting, _every) for format_ in FORMATS for setting in SETTINGS]
    title = "ReXSonoVQA: with the video and blind"
    notes = (_RECODED, "Multiple choice in percent, free responses in points from 0 to 2.")
    return PublishedTable("section5", title, f"{_SOURCE}, section 5", tuple(columns), _printed(columns), notes)


def _figure(name: str, format_: Format) -> PublishedTable:
    """Returns the left or the right half of Figure 6 or 7; its printed values are those that section 5 quotes."""
    facet, levels = FIGURES[name]
    columns = [
        _part(format_, level, setting, partial(_has, facet=facet, level=level))
        for level in levels
        for setting in SETTINGS
    ]
    notes = ("Printed values are those that section 5 quotes.", *((_RECODED,) if format_ == "free" else ()))
    number = name.removeprefix("figure")
    title = f"ReXSonoVQA, Figure {number}: {_TITLES[format_]} by {facet}"
    where = f"{_SOURCE}, section 5 and Figure {number}"
    return PublishedTable(f"{name}_{format_}", title, where, tuple(columns), _printed(columns), notes)


def part_name(level: str, setting: str, format_: Format) -> str:
    """Returns the name of a column: that of the number in section 5, where it prints one."""
    group = level if level == OVERALL else _SHORT.get(level, level)
    if setting == "blind":
        group = _BLIND_SHORT.get(level, group)
    return f"{_PREFIX[format_]}_{setting}_{group}"


def _every(question: Question) -> bool:
    return True


def _has(question: Question, *, facet: str, level: str) -> bool:
    return question.facets.get(facet) == level


def _printed(columns: Sequence[PublishedColumn]) -> dict[str, dict[str, float]]:
    text = published("rexsonovqa")["text"]
    return {_GEMINI: {each.name: float(text[each.name]) for each in columns if each.name in text}}


def _part(format_: Format, level: str, setting: str, covers: Callable[[Question], bool]) -> PublishedColumn:
    metric, scale = (accuracy().only(_is_choice), 100.0) if format_ == "mcq" else (rubric(), 1.0)
    interval, conditions = percentage if format_ == "mcq" else mean_up_to(FULL_POINTS), SETTINGS[setting]
    if len(conditions) == 2:
        interval = change_up_to(100 if format_ == "mcq" else FULL_POINTS)
        blind, seen = conditions
        measure = gain_of(metric, before=("zero_shot", blind), after=("zero_shot", seen), covers=covers, scale=scale)
    else:
        measure = of_metric(metric, "zero_shot", covers=covers, condition=conditions[0], scale=scale)
    return PublishedColumn(
        part_name(level, setting, format_),
        measure,
        ("zero_shot",),
        conditions,
        interval,
        printed_digits=1 if format_ == "mcq" else 2,
    )
