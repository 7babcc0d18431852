"""Computes the confusion matrix of each task: the true answer and the model's answer of each question."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from medtune.eval.parsed_reply import ParsedReply

UNREAD = "(not read)"
MAX_CLASSES = 30


@dataclass(frozen=True, slots=True)
class Confusion:
    """The true answers and the model's answers of a task.

    Attributes:
        classes: The options of the task, and "(not read)" if a reply could not be read.
        truth: For each reply, the index of the true answer in `classes`.
        read: For each reply, the index of the model's answer in `classes`.
    """

    classes: tuple[str, ...]
    truth: tuple[int, ...]
    read: tuple[int, ...]


def confusions(rows: Sequence[ParsedReply]) -> Mapping[str, Confusion]:
    """Returns the confusion of each task, over the replies of all passes to its questions with options.

    A task with more than `MAX_CLASSES` different options is left out: its questions usually have options of their own,
    so that a matrix would say nothing.
    """
    by_task: dict[str, list[ParsedReply]] = {}
    for row in rows:
        if row.question.options:
            by_task.setdefault(row.question.facets.get("task", ""), []).extend(row.passes)
    found = {}
    for task, parsed in by_task.items():
        classes = sorted({option for row in parsed for option in row.question.options})
        if len(classes) <= MAX_CLASSES:
            read = [row.parsed if row.parsed in classes else UNREAD for row in parsed]
            named = [*classes, *([UNREAD] if UNREAD in read else [])]
            found[task] = Confusion(
                classes=tuple(named),
                truth=tuple(named.index(row.question.answer) for row in parsed),
                read=tuple(named.index(name) for name in read),
            )
    return found
