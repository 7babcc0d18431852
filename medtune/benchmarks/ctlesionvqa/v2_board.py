"""The board of version 2: the numbers of its own scorer by super-type and over all questions, for each format.

The published rows are not part of medtune. They are read from the user's copy of the release, whose own tool puts a
model among those that answer as it does: directly, or as agents with tools.

Source: Schuture/DeepTumorVQA@1df7460 (branch v2), src/deeptumorvqa/eval/metrics.py (aggregate) and
src/deeptumorvqa/eval/leaderboard.py (load_leaderboard, insert_user_model, format_ranking); arXiv 2605.09679.
"""

import csv
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from string import ascii_uppercase
from typing import cast

from medtune.benchmarks.ctlesionvqa.scoring import category_of, subtype_of
from medtune.benchmarks.ctlesionvqa.subtypes import V1
from medtune.benchmarks.ctlesionvqa.v2_scoring import Json, ReplyAndTruth, V2Row, aggregate_free_text, aggregate_letters
from medtune.eval.metric import ParsedReply
from medtune.eval.studies.measures import percentage
from medtune.eval.studies.published import Answers, CellValue, PublishedColumn, PublishedTable

OVERALL = "overall"
Aggregate = Callable[[Sequence[V2Row]], Json]
FORMATS: Mapping[str, tuple[bool, Aggregate]] = {
    "multiple choice": (True, aggregate_letters),
    "free text": (False, aggregate_free_text),
}
"""For each format, whether its questions have options, and the official function that scores them."""
FILES = {"multiple choice": "leaderboard.csv", "free text": "leaderboard_freeform.csv"}
PLACES = ("metadata", "src/deeptumorvqa/_data", "deeptumorvqa/_data", ".")
"""The folders of a release, or of an installed package, in which its tool has the files, in its order."""
DIRECT = "direct"
_PARTS = {
    "measurement": "meas", "recognition": "recog", "visual reasoning": "visr", "medical reasoning": "medr",
    OVERALL: "overall",
}  # fmt: skip
"""For each part of our columns, the name of the column in the files."""
_PERCENT = 100.0
_NOTE = "The scorer of version 2 leaves out unanswered questions and rounds each subtype; it states no interval."
_UNREAD = (
    "The published rows are read from the release (metadata/leaderboard.csv and leaderboard_freeform.csv of branch v2 "
    "of Schuture/DeepTumorVQA), where the study's kits.ctlesionvqa names its folder; it was not there."
)
_RANKED = (
    "The rank is that which the release's own tool prints: among the models that answer directly, by the percentage "
    "over all questions, rounded to one decimal, and behind those that have the same. Agents with tools have none.",
    "That tool puts free text among the rows of multiple choice; here it stands among those of free text.",
    "The radiologists of the board answered 200 questions.",
)


def v2_rows(parsed: Sequence[ParsedReply], *, are_choices: bool) -> list[V2Row]:
    """Returns the answered questions of a format as the official scorer reads them."""
    rows = []
    for row in parsed:
        is_choice = row.question.answer_kind == "choice"
        if is_choice == are_choices and row.prediction is not None and row.prediction.text is not None:
            shown = row.prediction.options_shown or row.question.options
            truth = ascii_uppercase[shown.index(row.question.answer)] if is_choice else row.question.answer
            pair = ReplyAndTruth(row.prediction.text, truth)
            rows.append(V2Row(subtype_of(row.question), category_of(row.question), pair))
    return rows


def v2_board(kit: Path | None = None) -> PublishedTable:
    """Returns the table `v2_board`, in percent.

    Args:
        kit: A copy of the release, from which the published rows are read; without one no cell is printed.
    """
    columns = tuple(
        PublishedColumn(
            f"{format_}: {part}",
            partial(_official, format_=format_, part=part),
            ("final",),
            printed_interval=percentage,
            printed_digits=1,
            place=place_by_the_tool if part == OVERALL else None,
        )
        for format_ in FORMATS
        for part in (*V1, OVERALL)
    )
    rows, agents = _printed(kit) if kit is not None else ({}, frozenset())
    return PublishedTable(
        "v2_board",
        "DeepTumorVQA version 2, by its own scorer, percent",
        "arXiv 2605.09679, by the leaderboard of its release" if rows else "arXiv 2605.09679",
        columns,
        rows,
        (_NOTE, *(_RANKED if rows else (_UNREAD,))),
        ranked_by=tuple(f"{format_}: {OVERALL}" for format_ in FORMATS),
        unranked=agents,
        drawn_as="dots",
    )


def place_by_the_tool(value: float, others: Sequence[float]) -> int:
    """Returns the rank that the release's tool prints for a percentage: equal ones stand before it.

    >>> place_by_the_tool(59.84, [66.3, 59.8, 58.9])
    3

    Source: Schuture/DeepTumorVQA@1df7460 (branch v2), src/deeptumorvqa/eval/leaderboard.py (insert_user_model).
    """
    return 1 + sum(other >= round(value, 1) for other in others)


def _printed(kit: Path) -> tuple[dict[str, dict[str, float]], frozenset[str]]:
    """Returns the published rows of both files, and the names of those that are agents."""
    rows, agents = dict[str, dict[str, float]](), set[str]()
    for format_, name in FILES.items():
        path = next((found for place in PLACES if (found := kit / place / name).is_file()), None)
        if path is None:
            raise FileNotFoundError(
                f"{kit} holds no {name}, neither in it nor in metadata; give the folder of branch v2 of DeepTumorVQA"
            )
        with path.open(newline="", encoding="utf-8") as file:
            for line, row in enumerate(csv.DictReader(file), start=2):
                model = row.get("model") or ""
                cells = {
                    f"{format_}: {part}": _number(row, column, f"{path}, line {line}")
                    for part, column in _PARTS.items()
                }
                rows.setdefault(model, {}).update(cells)
                if row.get("mode") != DIRECT:
                    agents.add(model)
    return rows, frozenset(agents)


def _number(row: Mapping[str, str | None], column: str, where: str) -> float:
    text = row.get(column)
    try:
        return float(text or "")
    except ValueError as error:
        raise ValueError(f"{where}, {column}: wanted a percentage, got {text!r}") from error


def _official(answers: Answers, *, format_: str, part: str) -> CellValue | None:
    are_choices, aggregate = FORMATS[format_]
    last = [*answers.values()][-1]
    found = aggregate(v2_rows(last.rows("image"), are_choices=are_choices))
    parts = {OVERALL: found[OVERALL], **cast("Mapping[str, object]", found["by_super_type"])}
    cell = cast("Mapping[str, float]", parts.get(part) or {})
    return CellValue(_PERCENT * cell["accuracy"], int(cell["n_total"])) if cell.get("n_total") else None
