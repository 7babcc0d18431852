"""Which answer was taken for which, per task."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from medtune.eval.parsed_reply import ParsedReply

UNREAD = "(not read)"
MAX_CLASSES = 30


@dataclass(frozen=True, slots=True)
class Confusion:
    """Truth and reading of each question of a task, as places in `classes`."""

    classes: tuple[str, ...]
    truth: tuple[int, ...]
    read: tuple[int, ...]


def confusions(rows: Sequence[ParsedReply]) -> Mapping[str, Confusion]:
    """Returns the confusion of each task, of its questions that have options.

    A task with more than `MAX_CLASSES` different options, where each question has options of its own, has no confusion
    worth reading and is left out.
    """
    by_task: dict[str, list[ParsedReply]] = {}
    for row in rows:
        if row.question.options:
            by_task.setdefault(row.question.facets.get("task", ""), []).append(row)
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
