"""Counts what a first recipe for data has to know: questions, media and the length of answers."""

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
        about_splits: Where the numbers by split come from, in words.
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
    about_splits: str
    rejected: int = 0
    first_reject: str = ""


def facts_of_table(table: SourceTable) -> DataFacts:
    """Returns the facts about raw files that were read but not yet prepared.

    Questions without a split get one from `prepare`, by patient; they are counted by its default shares.
    """
    if not table.questions:
        reasons = f"; the first reason: {table.rejects[0].reason}" if table.rejects else ""
        raise ValueError(f"no question can be read from these data ({len(table.rejects)} rows are rejected{reasons})")
    undrawn = [question for question in table.questions if question.split is None]
    shares = dict(zip(SPLITS, DEFAULT_FRACTIONS, strict=True))
    num = {
        split: sum(question.split == split for question in table.questions) + round(shares[split] * len(undrawn))
        for split in SPLITS
    }
    groups = len({question.media_id for question in table.questions if question.split == "train"})
    groups += round(DEFAULT_FRACTIONS.train * len({question.media_id for question in undrawn}))
    facts = _facts(num, groups, table.questions, table.media, about_splits=_about_splits(num, undrawn))
    first = str(table.rejects[0]) if table.rejects else ""
    return replace(facts, rejected=len(table.rejects), first_reject=first.rstrip("."))


def facts_of_prepared(prepared: Prepared) -> DataFacts:
    """Returns the facts about a prepared folder."""
    groups = {split: prepared.groups(split) for split in SPLITS}
    media = {group.media_id: group.media for found in groups.values() for group in found}
    questions = [question for found in groups.values() for group in found for question in group.questions]
    num = {split: prepared.num_questions(split) for split in SPLITS}
    return _facts(num, len(groups["train"]), questions, media, about_splits="as the data say")


def _about_splits(num: Mapping[Split, int], undrawn: Sequence[Question]) -> str:
    if undrawn:
        return "estimated; `prepare` draws the split"
    drawn = [split for split in SPLITS[1:] if not num[split]]
    if not drawn or not num["train"]:
        return "as the data say"
    return f"as the data say; `prepare` draws {' and '.join(drawn)} out of train"


def _facts(
    num: Mapping[Split, int],
    train_groups: int,
    questions: Sequence[Question],
    media: Mapping[str, tuple[MediaRef, ...]],
    *,
    about_splits: str,
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
        about_splits=about_splits,
    )
