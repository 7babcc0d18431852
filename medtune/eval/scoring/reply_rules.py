"""Shows how other tools would score the same replies: one row for each of their rules beside medtune's own scores.

A *rule* is the way in which another tool turns replies into numbers, with its errors. Published numbers were made by
such rules, and one model can differ by many points between them.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from medtune.data.types import Question
from medtune.eval.metric import Metric, ParsedReply
from medtune.eval.scoring.counted import counted
from medtune.eval.scoring.tables import Cell, Table

TITLE = "The same replies by the rules of other tools"


@dataclass(frozen=True, slots=True)
class ReplyRule:
    """The rule by which another tool turns replies into numbers."""

    title: str
    source: str  # Repository, commit and file of the rule.
    differs: str  # A sentence that says how the rule differs from medtune's scores, or where it errs.
    # Returns the numbers by column name, for pairs of a question and the text of its reply; the text of an unanswered
    # question is "". A column has the name of a metric of medtune if both mean the same. The result is empty if none of
    # the questions are such that the rule applies.
    score: Callable[[Sequence[tuple[Question, str]]], Mapping[str, float]]


def rules_table(
    rules: Mapping[str, ReplyRule], own: Mapping[str, Sequence[ParsedReply]], metrics: Mapping[str, Metric]
) -> list[Table]:
    """Returns the table of all rules beside medtune's own scores; nothing without rules or without generated replies.

    The first column of numbers is the primary metric; the others are those that any rule gives. medtune's own rows
    leave out answers that wait for a judge; the rules know no judge and count them as they are.

    Args:
        own: One reply to each question, by the names of medtune's parsers of generated replies.
    """
    if not rules or not own:
        return []
    replies = [(row.question, _text(row)) for row in next(iter(own.values()))]
    theirs = {name: rule.score(replies) for name, rule in rules.items()}
    columns = [*dict.fromkeys((next(iter(metrics)), *(column for found in theirs.values() for column in found)))]
    ours = [(f"ours: {parser}", *_own_cells(rows, metrics, columns)) for parser, rows in own.items()]
    rows = [(rules[name].title, *(found.get(column) for column in columns)) for name, found in theirs.items()]
    notes = [f"{rule.title}: {rule.differs} Source: {rule.source}." for rule in rules.values()]
    if waiting := sum(row.unscored for row in next(iter(own.values()))):
        notes.insert(0, f"Our rows leave out {waiting:,} answers that wait for a judge; the rules count them.")
    return [Table(TITLE, ("rule", *columns), (*ours, *rows), tuple(notes))]


def _own_cells(rows: Sequence[ParsedReply], metrics: Mapping[str, Metric], columns: Sequence[str]) -> list[Cell]:
    found = {name: counted(rows, metrics[name]).rows for name in columns if name in metrics}
    return [metrics[name].value(found[name]) if found.get(name) else None for name in columns]


def _text(row: ParsedReply) -> str:
    return (row.prediction.text or "") if row.prediction is not None else ""
