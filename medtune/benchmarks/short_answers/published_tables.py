"""Makes tables of printed numbers: each names its rule, and ours is compared only where it has the same one."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple

from medtune.benchmarks import published
from medtune.benchmarks.short_answers.parser import judge_task
from medtune.data.types import Question
from medtune.eval.benchmark import Tables
from medtune.eval.evidence import Evidence
from medtune.eval.judge.extra_verdicts import verdict_table
from medtune.eval.metric import Metric
from medtune.eval.scoring.reply_rules import ReplyRule
from medtune.eval.scoring.tables import Table
from medtune.eval.studies.measures import of_metric, of_rule, percentage
from medtune.eval.studies.one_run import answers_of, tables_of_run
from medtune.eval.studies.published import Answers, PublishedColumn, PublishedTable

MISSING_SHARE = 0.01
"""The share of the questions that may be missing, because `prepare` could not read them."""
_PERCENT = 100.0


class PrintedNumbers(NamedTuple):
    """The tables of a benchmark's published.json: as data, which studies fill, and with one evaluation in them."""

    published_tables: Callable[[], Sequence[PublishedTable]]
    tables: Tables


def printed_numbers(
    benchmark: str,
    rules: Mapping[str, ReplyRule],
    metrics: Mapping[str, Metric],
    *,
    facet: str | None = None,
    judged: bool = False,
) -> PrintedNumbers:
    """Returns the benchmark's tables of printed numbers, from its published.json.

    A table there has a name, a title, its source, the rule, judge or denominator in words, columns and rows. If it has
    a field "same_rule", the name of one of `rules`, our cells are scored by that rule, and "our_columns" names the
    rule's columns. Else they are those of the first of `metrics`, and are not compared with what is printed.

    Args:
        facet: The facet that names the release or language of a question. Ours may then be compared with a table if
            all questions are of the one in the table's field "release".
        judged: Whether a table of a judge's verdicts on open answers follows those of one evaluation.
    """

    def as_data() -> Sequence[PublishedTable]:
        return [_table(printed, rules, metrics, facet) for printed in published(benchmark)["tables"]]

    def of_run(evidence: Evidence) -> Sequence[Table]:
        made = [
            shown
            for printed in published(benchmark)["tables"]
            for shown in _of_run(
                _table(printed, rules, metrics, facet), rules.get(printed.get("same_rule", "")), evidence
            )
        ]
        if judged:
            made += verdict_table(evidence, judge_task(), by="task", title="Open answers, by a judge")
        return made

    return PrintedNumbers(as_data, of_run)


def _table(
    printed: Mapping[str, Any], rules: Mapping[str, ReplyRule], metrics: Mapping[str, Metric], facet: str | None
) -> PublishedTable:
    rule, names = rules.get(printed.get("same_rule", "")), printed["columns"][1:]
    phase = printed["phase"]
    if rule is not None:
        measures = [of_rule(rule, ours, phase, scale=_PERCENT) for ours in printed["our_columns"]]
        unlike = partial(_of_other_release, release=printed.get("release"), facet=facet)
    else:
        primary, metric = next(iter(metrics.items()))
        measures = [of_metric(metric, phase, scale=_PERCENT)] * len(names)
        unlike = partial(_by_other_rule, said=f"printed by another rule ({printed['rule']}); ours is {primary}")
    rows = {str(model): dict(zip(names, values, strict=True)) for model, *values in printed["rows"]}
    columns = [
        PublishedColumn(
            name,
            measure,
            (phase,),
            printed_interval=percentage,
            printed_digits=max(len(f"{row[name]}".partition(".")[2]) for row in rows.values()),
            unlike=unlike,
        )
        for name, measure in zip(names, measures, strict=True)
    ]
    note = f"Rule: {printed['rule']}. Source: {printed['source']}."
    return PublishedTable(printed["name"], printed["title"], printed["source"], tuple(columns), rows, (note,))


def _by_other_rule(answers: Answers, *, said: str) -> str:
    return said


def _of_other_release(answers: Answers, *, release: str | None, facet: str | None) -> str:
    if facet is None:
        return ""
    asked = {question.facets[facet] for evidence in answers.values() for question in evidence.questions}
    if asked <= {release}:
        return ""
    return f"the questions are of {' and '.join(sorted(asked))}, the published numbers of {release}"


def _of_run(table: PublishedTable, rule: ReplyRule | None, evidence: Evidence) -> Sequence[Table]:
    if rule is not None:
        ours = {f"ours, by {rule.title}": answers_of(evidence)}
        return tables_of_run(table, ours, unlike_published=evidence.unlike_published)
    note = (
        "Made by another rule, or on other questions, than any of our numbers, so that ours must not be compared with "
        "it." + (f" Besides, {evidence.unlike_published}." if evidence.unlike_published else "")
    )
    return tables_of_run(replace(table, notes=(*table.notes, note)), {}, unlike_published="")


def part_of(sizes: Sequence[int]) -> Callable[[Sequence[Question]], str]:
    """Returns a function that says how many of the official test questions are asked, "" if all of one of the sizes."""

    def missing(questions: Sequence[Question]) -> str:
        if any((1 - MISSING_SHARE) * size <= len(questions) <= size for size in sizes):
            return ""
        whole = " or ".join(f"{size:,}" for size in sizes)
        return f"{len(questions):,}, where the official test has {whole}"

    return missing
