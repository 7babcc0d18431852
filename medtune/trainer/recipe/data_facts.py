"""Counts what a first recipe for data has to know: questions, media and the length of answers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from medtune.data.prepared.read import Prepared
from medtune.data.prepared.splits import DEFAULT_FRACTIONS
from medtune.data.raw.source import SourceTable
from medtune.data.types import SPLITS, MediaKind, MediaRef, Question, Split


@dataclass(frozen=True, slots=True)
class DataFacts:
    """What a first recipe for data has to know.

    Attributes:
        questions: The number of questions in each split.
        train_groups: The number of media groups to learn from: items that are shown together, with their questions.
        closed: The number of questions with listed answers (options, yes or no).
        open: The number of questions without listed answers.
        kinds: The kinds of media.
        most_items: The largest number of items that are shown together; 0 where there are no media.
        longest_answer: The largest number of characters of an answer to a question without listed answers.
        is_split: Whether the data say which questions are for testing; otherwise the numbers by split are estimates.
        rejected: The number of rows that cannot be read.
        first_reject: The first of them, with its file, line and reason; "" where there is none.
    """

    questions: Mapping[Split, int]
    train_groups: int
    closed: int
    open: int
    kinds: frozenset[MediaKind]
    most_items: int
    longest_answer: int
    is_split: bool
    rejected: int = 0
    first_reject: str = ""


def facts_of_table(table: SourceTable) -> DataFacts:
    """Returns the facts about raw files that were read but not yet prepared.

    Where the files have no split, `prepare` draws one by patient; the numbers are those of its default shares.

    Raises:
        ValueError: There are no questions.
    """
    if not table.questions:
        reasons = f"; the first reason: {table.rejects[0].reason}" if table.rejects else ""
        raise ValueError(f"no question can be read from these data ({len(table.rejects)} rows are rejected{reasons})")
    is_split = any(question.split for question in table.questions)
    num = {split: sum(question.split == split for question in table.questions) for split in SPLITS}
    train = [question for question in table.questions if question.split == "train"]
    groups = len({question.media_id for question in train})
    if not is_split:
        shares = dict(zip(SPLITS, DEFAULT_FRACTIONS, strict=True))
        num = {split: round(shares[split] * len(table.questions)) for split in SPLITS}
        groups = round(DEFAULT_FRACTIONS.train * len({question.media_id for question in table.questions}))
    facts = _facts(num, groups, table.questions, table.media, is_split=is_split)
    first = str(table.rejects[0]) if table.rejects else ""
    return replace(facts, rejected=len(table.rejects), first_reject=first.rstrip("."))


def facts_of_prepared(prepared: Prepared) -> DataFacts:
    """Returns the facts about a prepared folder.

    Raises:
        ValueError: The folder was prepared without media.
    """
    groups = {split: prepared.groups(split) for split in SPLITS}
    media = {group.media_id: group.media for found in groups.values() for group in found}
    questions = [question for found in groups.values() for group in found for question in group.questions]
    num = {split: prepared.num_questions(split) for split in SPLITS}
    return _facts(num, len(groups["train"]), questions, media, is_split=True)


def _facts(
    num: Mapping[Split, int],
    train_groups: int,
    questions: Sequence[Question],
    media: Mapping[str, tuple[MediaRef, ...]],
    *,
    is_split: bool,
) -> DataFacts:
    free = [question for question in questions if not question.options]
    return DataFacts(
        questions=num,
        train_groups=max(1, train_groups),
        closed=len(questions) - len(free),
        open=len(free),
        kinds=frozenset(ref.kind for items in media.values() for ref in items),
        most_items=max((len(items) for items in media.values()), default=0),
        longest_answer=max((len(question.answer) for question in free), default=0),
        is_split=is_split,
    )
