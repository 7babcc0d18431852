"""The paper's tables with the measures of their cells: by task, by size of the box, before and after fine-tuning."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cache

from medtune.benchmarks import published
from medtune.data.types import Question
from medtune.eval.metrics.accuracy import metric as accuracy
from medtune.eval.studies.measures import QuestionPart, change_up_to, gain_of, of_metric, share
from medtune.eval.studies.published import PublishedColumn, PublishedTable

TASKS = {
    "PI": "plane_identification",
    "VC": "view_completeness",
    "FO": "fetal_orientation",
    "CD": "clinical_diagnosis",
    "VG": "visual_grounding",
}
SIZES = ("large", "medium", "small")
OVERALL, FINE_TUNING = "Overall", "fine_tuning"
_UNRANKED = frozenset({"Random Guess"})
_DIGITS = 2
_QUOTED = "Printed numbers are those that a summary page of the paper quotes: 6 of its 15 models, with two decimals."


def published_tables() -> Sequence[PublishedTable]:
    """Returns the tables `main`, `box_size`, `fine_tuning` and `phantom`; of the last no cell is printed."""
    printed = published("fetal_gauge")
    boxes = dict(zip(SIZES, printed["box_size"]["questions"], strict=True))
    of_tasks = [_accuracy(name, "task", task) for name, task in TASKS.items()]
    of_sizes = [_accuracy(size, "box_size", size, n=n) for size, n in boxes.items()]
    overall = PublishedColumn(
        OVERALL, of_metric(accuracy(), "zero_shot"), ("zero_shot",), printed_interval=share, printed_digits=_DIGITS
    )
    return (
        _table(
            "main",
            "accuracy by task, and over all questions",
            (*of_tasks, overall),
            _rows(printed["main"]),
            ranked_by=(OVERALL,),
        ),
        replace(
            _table("box_size", "accuracy by size of the red box", tuple(of_sizes), _rows(printed["box_size"])),
            drawn_as="lines",
            across="size of the red box",
        ),
        _table(
            FINE_TUNING,
            "accuracy before and after LoRA on the train split",
            (
                PublishedColumn(
                    "before", overall.measure, ("zero_shot",), printed_interval=share, printed_digits=_DIGITS
                ),
                PublishedColumn(
                    "after", of_metric(accuracy(), "final"), ("final",), printed_interval=share, printed_digits=_DIGITS
                ),
                PublishedColumn(
                    "gain",
                    gain_of(accuracy()),
                    ("zero_shot", "final"),
                    printed_interval=change_up_to(1),
                    printed_digits=_DIGITS,
                ),
            ),
            _rows(printed["fine_tuning"]),
        ),
        _table(
            "phantom",
            "accuracy on phantom and on clinical images",
            tuple(_accuracy(name, "phantom", level) for name, level in (("phantom", "yes"), ("clinical", "no"))),
            {},
        ),
    )


def _table(
    name: str,
    title: str,
    columns: tuple[PublishedColumn, ...],
    printed: dict[str, dict[str, float]],
    ranked_by: tuple[str, ...] = (),
) -> PublishedTable:
    notes = (_QUOTED,) if printed else ("The paper reports the two apart; its numbers are not in what could be read.",)
    return PublishedTable(
        name, f"Fetal-Gauge: {title}", "arXiv 2512.22278", columns, printed, notes, ranked_by, _UNRANKED
    )


def _accuracy(name: str, facet: str, level: str, *, n: int | None = None) -> PublishedColumn:
    measure = of_metric(accuracy(), "zero_shot", part=QuestionPart(_level_of(facet), (level,)))
    return PublishedColumn(name, measure, ("zero_shot",), printed_interval=share, n=n, printed_digits=_DIGITS)


@cache
def _level_of(facet: str) -> Callable[[Question], str | None]:
    return lambda question: question.facets.get(facet)


def _rows(printed: dict[str, list[list[str | float]]]) -> dict[str, dict[str, float]]:
    columns = [str(each) for each in printed["columns"][1:]]
    return {
        str(model): {name: float(value) for name, value in zip(columns, values, strict=True)}
        for model, *values in printed["rows"]
    }
