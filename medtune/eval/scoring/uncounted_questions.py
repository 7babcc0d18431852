"""Counts the questions that the primary score leaves out: those without options, if a likelihood is read."""

from collections import Counter
from collections.abc import Mapping, Sequence

from medtune.data.types import Question
from medtune.eval.metric import Metric
from medtune.eval.parsed_reply import ParsedReply


def uncounted(questions: Sequence[Question], rows: Sequence[ParsedReply], primary: Metric) -> dict[str, int]:
    """Returns, by task, how many of the questions that the primary metric is about have no row among `rows`."""
    counted = {row.question.id for row in rows}
    left = [question for question in questions if primary.covers(question) and question.id not in counted]
    return dict(Counter(question.facets.get("task", "no task") for question in left))


def uncounted_text(found: Mapping[str, int]) -> str:
    """Returns a sentence that says which questions the primary score leaves out.

    Example:
        >>> uncounted_text({"CVE": 521, "RG": 600})
        'Not counted: 1,121 questions without options (CVE 521, RG 600), which a likelihood cannot read; eval.parser \
or --parser names a reading that counts them.'
    """
    by_task = ", ".join(f"{task} {count:,}" for task, count in found.items())
    return (
        f"Not counted: {sum(found.values()):,} questions without options ({by_task}), which a likelihood cannot read; "
        "eval.parser or --parser names a reading that counts them."
    )
