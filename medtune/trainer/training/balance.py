"""Chooses which questions an epoch asks, so that no answer is learnt only because it is frequent in its subtype.

A model that is trained on ninety "no" to ten "yes" learns to say "no" to everything, and scores 0.90.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from medtune.data.seeding import stable_order
from medtune.data.types import MediaGroup, Question


def cell_of(question: Question) -> tuple[str, str]:
    """Returns the cell in which the question's answer is balanced: its task and subtype."""
    return question.facets.get("task", ""), question.facets.get("subtype", "")


class Balanced:
    """Groups whose frequent answers take turns: each epoch asks some of their questions, and in time all of them.

    Options, free words and numbers alike: answers that differ in case or a last period are one, and 0.0 is 0. An answer
    is frequent in its task and subtype where it comes at least as often as the square root of the number of their
    questions. Of one that comes n times, where the least frequent of them comes m times, an epoch asks
    m ** strength * n ** (1 - strength) questions: 1 asks each equally often, 0 asks everything.

    The others, such as sentences and measures that come once, are always asked. Where a single answer is frequent, m is
    how many others there are together, if those are fewer: so a cell of sentences is never thinned to one of each.
    """

    def __init__(self, groups: Sequence[MediaGroup], *, strength: float, seed: int) -> None:
        if not 0 <= strength <= 1:
            raise ValueError(f"wanted a strength of balancing from 0 to 1, got {strength}")
        self._groups = groups
        questions = [question for group in groups for question in group.questions]
        self._first = np.cumsum([0, *(len(group.questions) for group in groups)])
        self._count = np.ones(len(questions), dtype=np.int64)
        self._wanted = np.ones(len(questions), dtype=np.int64)
        self._turn = np.zeros(len(questions), dtype=np.int64)
        number_of = {question.id: number for number, question in enumerate(questions)}
        for answers in _cells(questions).values():
            frequent, least = _frequent(answers.values())
            for ids in frequent:
                numbers = np.array([number_of[id_] for id_ in stable_order(ids, seed, "balance")])
                self._count[numbers] = len(ids)
                self._wanted[numbers] = max(1, round(least**strength * len(ids) ** (1 - strength)))
                self._turn[numbers] = np.arange(len(ids))

    def groups_in(self, epoch: int) -> Sequence[int]:
        """Returns the numbers of the groups of which an epoch asks a question."""
        asked = np.add.reduceat(self._asked(epoch).astype(np.int64), self._first[:-1])
        return [int(number) for number in np.flatnonzero(asked)]

    def group(self, number: int, epoch: int) -> MediaGroup:
        """Returns a group with those of its questions that an epoch asks."""
        whole = self._groups[number]
        asked = self._asked(epoch, int(self._first[number]), int(self._first[number + 1]))
        kept = tuple(question for question, is_asked in zip(whole.questions, asked, strict=True) if is_asked)
        return replace(whole, questions=kept)

    def _asked(self, epoch: int, first: int = 0, stop: int | None = None) -> NDArray[np.bool_]:
        part = slice(first, stop)
        count, wanted = self._count[part], self._wanted[part]
        return np.asarray((self._turn[part] - epoch * wanted) % count < wanted)


def _cells(questions: Sequence[Question]) -> dict[tuple[str, str], dict[str, list[str]]]:
    """Returns the ids of the questions, by cell and answer."""
    cells: dict[tuple[str, str], dict[str, list[str]]] = {}
    for question in questions:
        cells.setdefault(cell_of(question), {}).setdefault(_class(question), []).append(question.id)
    return cells


class _Frequent(NamedTuple):
    """The answers that may be thinned, as the ids of the questions with each, and to how many."""

    answers: Sequence[Sequence[str]]
    least: int


def _frequent(answers: Collection[Sequence[str]]) -> _Frequent:
    total = sum(map(len, answers))
    frequent = [ids for ids in answers if len(ids) ** 2 >= total]
    others = total - sum(map(len, frequent))
    counts = list(map(len, frequent))
    if len(frequent) == 1 and others:
        counts.append(others)
    return _Frequent(frequent, min(counts, default=0))


def _class(question: Question) -> str:
    """Returns an answer as it counts: a number by its value, words without case and last period."""
    try:
        return f"{float(question.answer) + 0.0:.12g}"
    except ValueError:
        return question.answer.casefold().strip().removesuffix(".")
