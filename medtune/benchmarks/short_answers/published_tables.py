"""Makes the tables of printed numbers: each names its rule, and ours stands beside it only if it has the same rule.

Says which of MedEvalKit's prompts asks a question of VQA-RAD, SLAKE and PathVQA.

The kit looks at the true answer, or at its type, to choose the prompt.

Source: alibaba-damo-academy/MedEvalKit@9b12e3b, utils/VQA_RAD/VQA_RAD.py:40-45, utils/PATH_VQA/PATH_VQA.py:40-44,
utils/SLAKE/SLAKE.py:53-57.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from medtune.benchmarks import published
from medtune.benchmarks.medical_kits.choice_rules import CLOSED, CLOSED_ZH, OPEN, OPEN_ZH, YES_NO, medevalkit_prompts
from medtune.benchmarks.short_answers.parser import judge_task
from medtune.benchmarks.short_answers.released_answers import is_open
from medtune.data.types import Question
from medtune.eval.asking.official_prompts import OfficialPrompts
from medtune.eval.benchmark import Evidence, Tables
from medtune.eval.judge.verdicts import verdict_table
from medtune.eval.scoring.reply_rules import ReplyRule
from medtune.eval.scoring.tables import Cell, Table, beside_published

MISSING_SHARE = 0.01
"""The share of the questions that may be missing, because `prepare` could not read them."""


def published_tables(benchmark: str, rules: Mapping[str, ReplyRule], *, facet: str | None = None) -> Tables:
    """Returns the maker of the benchmark's tables: those of printed numbers, and one of a judge's verdicts."""
    printed = printed_tables(benchmark, rules, facet=facet)

    def tables(evidence: Evidence) -> Sequence[Table]:
        judged = verdict_table(evidence, judge_task(), by="task", title="Open answers, by a judge")
        return [*printed(evidence), *judged]

    return tables


def printed_tables(benchmark: str, rules: Mapping[str, ReplyRule], *, facet: str | None = None) -> Tables:
    """Returns the maker of the benchmark's tables of printed numbers, from its published.json.

    A table there has a title, its source, the rule, judge or denominator in words, columns and rows. If it has a field
    "same_rule", the name of one of `rules`, our row is scored by that rule, and "our_columns" names the rule's columns.

    Args:
        facet: The facet that names the release or language of a question. Ours then stands beside the numbers of a
            table if all questions are of the one in the table's field "release".
    """

    def tables(evidence: Evidence) -> Sequence[Table]:
        return [
            table
            for each in published(benchmark)["tables"]
            for table in _tables(each, _of_release(evidence, each, facet), rules)
        ]

    return tables


def part_of(sizes: Sequence[int]) -> Callable[[Sequence[Question]], str]:
    """Returns a function that says how many of the official test questions are asked, "" if all of one of the sizes."""

    def missing(questions: Sequence[Question]) -> str:
        if any((1 - MISSING_SHARE) * size <= len(questions) <= size for size in sizes):
            return ""
        whole = " or ".join(f"{size:,}" for size in sizes)
        return f"{len(questions):,}, where the official test has {whole}"

    return missing


def _of_release(evidence: Evidence, printed: Mapping[str, object], facet: str | None) -> Evidence:
    asked, release = (
        {question.facets[facet] for question in evidence.questions} if facet else set(),
        printed.get("release"),
    )
    if asked <= {release} or evidence.unlike_published:
        return evidence
    said = f"the questions are of {' and '.join(sorted(asked))}, the published numbers of {release}"
    return replace(evidence, unlike_published=said)


def _tables(printed: Mapping[str, object], evidence: Evidence, rules: Mapping[str, ReplyRule]) -> Sequence[Table]:
    columns, rows = printed["columns"], printed["rows"]
    assert isinstance(columns, list)
    assert isinstance(rows, list)
    rule = rules.get(str(printed.get("same_rule")))
    table = Table(
        title=str(printed["title"]),
        columns=tuple(columns),
        rows=tuple(tuple(row) for row in rows),
        notes=(f"Rule: {printed['rule']}. Source: {printed['source']}.",),
        digits=2,
    )
    if rule is None:
        note = (
            "Made by another rule, or on other questions, than any of our numbers, so that ours must not be compared "
            "with it." + (f" Besides, {evidence.unlike_published}." if evidence.unlike_published else "")
        )
        return [Table(table.title, table.columns, table.rows, (*table.notes, note), 2)]
    names = printed["our_columns"]
    assert isinstance(names, list)
    return beside_published(table, _ours(rule, names, evidence), unlike_published=evidence.unlike_published)


def _ours(rule: ReplyRule, names: Sequence[str], evidence: Evidence) -> list[tuple[Cell, ...]]:
    replies = [
        (row.question, row.prediction.text or "")
        for row in evidence.rows("image")
        if row.prediction is not None and row.prediction.text is not None
    ]
    found = rule.score(replies) if replies else {}
    percent = [100 * found[name] if name in found else None for name in names]
    return [(f"ours, by {rule.title}", *percent)] if found else []


_ENGLISH = "en"


def prompts_by_words() -> OfficialPrompts:
    """Returns the prompts of a set whose questions are yes/no questions where the answer is one of the two words."""
    return medevalkit_prompts((YES_NO, OPEN), _by_words)


def prompts_by_type() -> OfficialPrompts:
    """Returns the prompts of a set in two languages, whose release says which questions are closed."""
    return medevalkit_prompts((CLOSED, OPEN, CLOSED_ZH, OPEN_ZH), _by_type)


def _by_words(question: Question) -> str:
    return (YES_NO if question.answer.lower() in ("yes", "no") else OPEN).name


def _by_type(question: Question) -> str:
    english, chinese = (OPEN, OPEN_ZH) if is_open(question) else (CLOSED, CLOSED_ZH)
    return (english if question.facets["language"] == _ENGLISH else chinese).name
