"""Chooses which questions an epoch asks, so that no answer is learnt only because it is frequent in its subtype.

A model that is trained on ninety answers "no" and ten answers "yes" can learn to say "no" to everything, and still
scores 0.90.
"""

from collections.abc import Collection, Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from medtune.data.seeding import stable_order
from medtune.data.types import MediaGroup, Question


def cell_of(question: Question) -> tuple[str, str]:
    """Returns the cell of a question, its task and subtype. Answers are balanced within each cell."""
    return question.facets.get("task", ""), question.facets.get("subtype", "")


class Balanced:
    """Media groups of which each epoch asks only some questions with frequent answers; over the epochs all are asked.

    This holds for options, free words and numbers. Answers that differ only in case or a final period count as the same
    answer, and so do 0.0 and 0. An answer is frequent if it occurs at least as often as the square root of the number
    of questions of its task and subtype. If a frequent answer occurs n times, and the least common frequent answer
    occurs m times, an epoch asks m ** strength * n ** (1 - strength) of its questions: a strength of 1 asks each
    frequent answer equally often, 0 asks all questions.

    Questions with other answers, such as sentences and measurements that occur once, are always asked. If only one
    answer is frequent, m is the number of all other questions of the cell, provided that there are any and that they
    are fewer. A cell of sentences is therefore never reduced to one question for each answer.

    Args:
        groups: The media groups with all their questions.
        strength: How far frequent answers are reduced, from 0 (not at all) to 1.
        seed: Decides the order in which the questions of a frequent answer take turns.
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
    cells: dict[tuple[str, str], dict[str, list[str]]] = {}
    for question in questions:
        cells.setdefault(cell_of(question), {}).setdefault(_class(question), []).append(question.id)
    return cells


class _Frequent(NamedTuple):
    """The frequent answers of a cell.

    Attributes:
        answers: For each frequent answer, the ids of the questions that have it.
        least: The number m of questions to which an answer is reduced at strength 1.
    """

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
    try:
        return f"{float(question.answer) + 0.0:.12g}"
    except ValueError:
        return question.answer.casefold().strip().removesuffix(".")
