"""The board of version 2: the numbers of its own scorer by super-type and over all questions, for each format.

Its leaderboard is in files of the release (metadata/leaderboard*.csv), which are not in what could be read, so that no
cell is printed here: a study shows its rows beside one another.

Source: Schuture/DeepTumorVQA@1df7460 (branch v2), src/deeptumorvqa/eval/metrics.py (aggregate); arXiv 2605.09679.
"""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from string import ascii_uppercase
from typing import cast

from medtune.benchmarks.ctlesionvqa.scoring import category_of, subtype_of
from medtune.benchmarks.ctlesionvqa.subtypes import V1
from medtune.benchmarks.ctlesionvqa.v2_scoring import Json, ReplyAndTruth, V2Row, aggregate_free_text, aggregate_letters
from medtune.eval.metric import ParsedReply
from medtune.eval.studies.published import Answers, CellValue, PublishedColumn, PublishedTable

OVERALL = "overall"
Aggregate = Callable[[Sequence[V2Row]], Json]
FORMATS: Mapping[str, tuple[bool, Aggregate]] = {
    "multiple choice": (True, aggregate_letters),
    "free text": (False, aggregate_free_text),
}
"""For each format, whether its questions have options, and the official function that scores them."""
_NOTE = "The scorer of version 2 leaves out unanswered questions and rounds each subtype; it states no interval."


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


def v2_board() -> PublishedTable:
    """Returns the table `v2_board`, in which no cell is printed."""
    columns = tuple(
        PublishedColumn(f"{format_}: {part}", partial(_official, format_=format_, part=part), ("final",))
        for format_ in FORMATS
        for part in (*V1, OVERALL)
    )
    return PublishedTable(
        "v2_board", "DeepTumorVQA version 2, by its own scorer", "arXiv 2605.09679", columns, {}, (_NOTE,)
    )


def _official(answers: Answers, *, format_: str, part: str) -> CellValue | None:
    are_choices, aggregate = FORMATS[format_]
    last = [*answers.values()][-1]
    found = aggregate(v2_rows(last.rows("image"), are_choices=are_choices))
    parts = {OVERALL: found[OVERALL], **cast("Mapping[str, object]", found["by_super_type"])}
    cell = cast("Mapping[str, float]", parts.get(part) or {})
    return CellValue(cell["accuracy"], int(cell["n_total"])) if cell.get("n_total") else None
