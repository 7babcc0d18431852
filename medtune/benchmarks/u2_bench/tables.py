"""U2-Bench's tables in the paper's shape, with our rows beside the printed ones, and the scores by each parser.

Tests whether naming the organ in the prompt helps, by paired majority votes and McNemar's test.

Source: U2-Bench (arXiv 2505.17779), section 5 and Table 3: five passes of each prompt, decided by majority.
"""

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from medtune.benchmarks import published
from medtune.benchmarks.u2_bench import table1_row
from medtune.benchmarks.u2_bench.metrics import METRICS, has_every_task, judge_task
from medtune.benchmarks.u2_bench.official import rows as official_rows
from medtune.benchmarks.u2_bench.official.rows import OFFICIAL
from medtune.benchmarks.u2_bench.parsers import KINDS, VALID, family, reply_type, task_of
from medtune.benchmarks.u2_bench.tasks_and_sets import CLASSIFICATION, DETECTION, TEXT, VALUE
from medtune.data.types import Condition, Question
from medtune.eval.benchmark import Evidence, Reference
from medtune.eval.judge.verdicts import verdict_table
from medtune.eval.metric import Metric, ParsedReply
from medtune.eval.scoring.bertscore import BertModel
from medtune.eval.scoring.tables import Cell, Table, beside_published, rank
from medtune.eval.statistics.patient_swaps import mcnemar_exact
from medtune.eval.studies.published import PhaseAnswers


@dataclass(frozen=True, slots=True)
class Paired:
    """The numbers of questions by outcome under two prompts, with and without the organ."""

    both_right: int  # Questions answered right with both prompts.
    only_with: int  # Questions answered right only with the organ in the prompt.
    only_without: int  # Questions answered right only without it.
    both_wrong: int  # Questions answered wrong with both prompts.

    @property
    def chi2(self) -> float:
        """McNemar's statistic without continuity correction; 0 if no question changes its outcome.

        The paper prints this statistic under the name of the exact test.

        >>> round(Paired(209, 64, 26, 222).chi2, 2)
        16.04
        """
        changed = self.only_with + self.only_without
        return (self.only_with - self.only_without) ** 2 / changed if changed else 0.0

    @property
    def chi2_p(self) -> float:
        """The asymptotic p value of `chi2`, with one degree of freedom."""
        return math.erfc(math.sqrt(self.chi2 / 2))

    @property
    def exact_p(self) -> float:
        """The p value of McNemar's exact test."""
        return mcnemar_exact(self.only_with, self.only_without)


def majority(answers: Sequence[str | None]) -> str | None:
    """Returns the most frequent answer; None if most replies had no answer, or if two answers are equally frequent.

    >>> majority(["a", "b", "a", None, "b"]), majority(["a", "a", "b", None, None, "a"])
    (None, 'a')
    """
    (best, times), *others = Counter(answers).most_common(2) or [(None, 0)]
    return None if others and others[0][1] == times else best


def paired(questions: Sequence[Question], with_: Sequence[str | None], without: Sequence[str | None]) -> Paired:
    """Returns the numbers of questions by outcome; None is no answer."""
    pairs = Counter(
        (first == question.answer, second == question.answer)
        for question, first, second in zip(questions, with_, without, strict=True)
    )
    return Paired(pairs[True, True], pairs[True, False], pairs[False, True], pairs[False, False])


def outcomes(evidence: Evidence) -> Paired | None:
    """Returns the outcomes of the questions with options that were asked with both prompts; None if there are none.

    The answer to a question is the majority of all its passes. The answers without the organ are those to the condition
    "without_anatomy", which is needed with official prompts, or else those to the condition "image".
    """
    with_ = votes(evidence, "with_anatomy")
    without = (votes(evidence, "without_anatomy") or votes(evidence, "image")) if with_ else {}
    asked = [question for question in evidence.questions if question.id in with_ and question.id in without]
    if not asked:
        return None
    return paired(asked, *([majority(votes[question.id]) for question in asked] for votes in (with_, without)))


def votes(evidence: PhaseAnswers, condition: Condition) -> dict[str, list[str | None]]:
    """Returns the answers of all passes to each question with options that was asked under a condition."""
    rows = evidence.parsed.get(condition, {}).get(evidence.parser, ())
    answered = [row for row in rows if row.question.options and row.is_answered]
    return {row.question.id: [reply.parsed for reply in row.passes if reply.prediction is not None] for row in answered}


_RANDOM = "random"


def tables(evidence: Evidence) -> Sequence[Table]:
    """Returns the report's tables: Table 1, the parsers side by side, instruction following, kinds of replies etc."""
    read = {name: rows for name, rows in evidence.parsed["image"].items() if rows}
    replies = [row for row in read.get("robust", ()) if row.prediction is not None and row.prediction.text is not None]
    has_values = any(task_of(question) == VALUE for question in evidence.questions)
    return (
        *_table_1(read, evidence.text_model, evidence.unlike_published),
        _parsers(read),
        *([_values(read)] if has_values else []),
        *([_following(replies), _kinds(replies)] if replies else []),
        _by_anatomy(evidence.rows("image")),
    )


_TERMS: Mapping[str, tuple[str, Metric]] = {
    **dict.fromkeys((*CLASSIFICATION, *DETECTION), ("accuracy", METRICS["mean_accuracy"])),
    VALUE: ("RMSE", METRICS["rmse"]),
    **dict.fromkeys(TEXT, ("BLEU-4", METRICS["bleu4"])),
}


def _by_anatomy(rows: Sequence[ParsedReply]) -> Table:
    """Returns the score of each task about each anatomy, of which Figure 2 shows the number of cases."""
    found: dict[tuple[str, str], list[ParsedReply]] = {}
    for row in rows:
        found.setdefault((row.question.facets.get("anatomy", "not named"), task_of(row.question)), []).append(row)
    return Table(
        title="U2-Bench, Figure 2: by anatomy and task",
        columns=("anatomy", "task", "n", "metric", "value"),
        rows=tuple(
            (anatomy, task, len(chosen), _TERMS[task][0], _TERMS[task][1].value(chosen))
            for (anatomy, task), chosen in sorted(found.items())
        ),
        digits=4,
    )


def repeat_tables(evidence: Evidence) -> Sequence[Table]:
    """Returns the tables of all passes together: the majority with and without the organ, and a judge's verdicts."""
    found = outcomes(evidence)
    return (
        *([_anatomy(found)] if found else []),
        *verdict_table(evidence, judge_task(), by="scenario", title="Reports and captions, by a judge"),
    )


def references() -> Sequence[Reference]:
    """Returns the printed U2-Scores, and the printed accuracies of the tasks that are scored by accuracy."""
    printed = published("u2_bench")["table1"]
    found = []
    for row in printed["rows"]:
        cells = dict(zip(printed["columns"], row, strict=True))
        if cells["U2_Score"] is not None:
            found.append(Reference(cells["model"], cells["U2_Score"]))
        found += [
            Reference(cells["model"], cells[f"{task}_Acc"], "task", task) for task in (*CLASSIFICATION, *DETECTION)
        ]
    return found


def _table_1(
    read: Mapping[str, Sequence[ParsedReply]], text_model: BertModel | None, unlike_published: str
) -> Sequence[Table]:
    printed = published("u2_bench")["table1"]
    columns = tuple(name for name in printed["columns"] if name != "group")
    group = printed["columns"].index("group")
    scores = [row[-1] for row in printed["rows"] if row[group] != _RANDOM]
    rows: list[tuple[Cell, ...]] = []
    for row in printed["rows"]:
        shown = [cell for place, cell in enumerate(row) if place != group]
        rows.append((*shown, None if row[group] == _RANDOM else rank(row[-1], scores)))
    guesses = table1_row.guessed([row.question for row in next(iter(read.values()))]) if read else {}
    own: list[tuple[Cell, ...]] = [("guessing, these questions", *(guesses.get(each) for each in columns[1:]), None)]
    for name, parsed in read.items():
        ours = official_rows.row(parsed, name) if name in OFFICIAL else table1_row.row(parsed, text_model=text_model)
        score = ours["U2_Score"]
        place = rank(score, scores) if score is not None and math.isfinite(score) else None
        own.append((f"ours, {name}", *(ours.get(column) for column in columns[1:]), place))
    table = Table(
        title="U2-Bench, Table 1",
        columns=(*columns, "rank"),
        rows=tuple(rows),
        notes=(
            "Rank: by U2_Score among the paper's 23 models.",
            "Rows named official_* are scored as the official scripts do, with losses: unparsable numbers leave the",
            "mean, '04' and '09' leave LL and OD, and a task without values earns full credit.",
            "In our own rows nothing leaves a mean. Where a task has no questions, there is no U2_Score.",
            "Guessing draws options, and values from their ranges; it writes no texts, which count 0 in its U2_Score.",
        ),
        digits=4,
    )
    return beside_published(table, own, unlike_published=unlike_published)


def _parsers(read: Mapping[str, Sequence[ParsedReply]]) -> Table:
    rows: list[tuple[Cell, ...]] = []
    failures: list[str] = []
    for name, parsed in read.items():
        if name not in OFFICIAL:
            rows.append((name, *table1_row.by_task(parsed), table1_row.row(parsed)["U2_Score"], *[None] * 4))
            continue
        scored = official_rows.set_tables(parsed, name)
        scores: tuple[float | None, ...] = (None,) * 4
        if has_every_task([row.question for row in parsed]):
            exact, *others = official_rows.variants(scored.tables)
            scores = exact, official_rows.score_of_prints(scored.tables, name), *others
        rows.append((name, *official_rows.by_task(scored), *scores, scored.lost))
        failures += [f"{name} leaves out {scenario}: {why}." for scenario, why in scored.failures.items()]
    return Table(
        title="U2-Bench: what each parser makes of the same replies",
        columns=(
            "parser", "DD", "VRA", "LL", "OD", "KD", "RMSE", "RG", "CG", "U2", "U2 of prints", "U2 ids as text",
            "no CVE credit", "lost",
        ),
        rows=tuple(rows),
        notes=(
            "U2 and all means: of exact values. U2 of prints: of the scripts' results with four decimals (two for",
            "texts of the strict script), which is what the official aggregator averages.",
            "lost: replies that the official scripts drop, with those of data sets on which they stop.",
            *failures,
        ),
        digits=4,
    )  # fmt: skip


def _values(read: Mapping[str, Sequence[ParsedReply]]) -> Table:
    rows: list[tuple[Cell, ...]] = []
    for name, parsed in read.items():
        scored = official_rows.set_tables(parsed, name).values if name in OFFICIAL else table1_row.values_by_set(parsed)
        rows += [
            (name, dataset, each.rmse, each.mae, each.std, each.pct_within_tolerance, each.failed_items)
            for dataset, each in scored.items()
        ]
    return Table(
        title="U2-Bench: clinical values by data set, in ranges",
        columns=("parser", "set", "RMSE", "MAE", "Std", "% within 0.1", "failed"),
        rows=tuple(rows),
        notes=("failed: replies without a number, which the official scripts leave out; ours have an error of 1.",),
        digits=4,
    )


def _following(replies: Sequence[ParsedReply]) -> Table:
    diagnoses = [row for row in replies if task_of(row.question) == "DD"]
    printed = published("u2_bench")["instruction_following"]
    kept = [reply_type(_text(row), row.question) == VALID for row in diagnoses]
    ours = sum(kept) / len(kept) if kept else None
    return Table(
        title="U2-Bench, Table 2: replies to diagnosis that keep to the format",
        columns=tuple(printed["columns"]),
        rows=(*(tuple(row) for row in printed["rows"]), ("ours", ours)),
        notes=("The paper does not define it; ours counts an option's exact words, or its letter, and nothing else.",),
    )


def _kinds(replies: Sequence[ParsedReply]) -> Table:
    printed = published("u2_bench")["error_shares_pct"]
    rows: list[tuple[Cell, ...]] = []
    for name, kinds in KINDS.items():
        chosen = [reply_type(_text(row), row.question) for row in replies if family(row.question) == name]
        for kind in kinds:
            share = 100 * chosen.count(kind) / len(chosen) if chosen else None
            rows.append(
                (name, kind, printed[name].get("success" if name == "reports" and kind == VALID else kind), share)
            )
    return Table(
        title="U2-Bench, appendix C.4: kinds of replies, % of each family",
        columns=("family", "kind", "printed", "ours"),
        rows=tuple(rows),
        notes=("Printed: one model that the paper does not name. Mistakes inside a report need a reader.",),
        digits=2,
    )


def _anatomy(found: Paired) -> Table:
    printed = published("u2_bench")["anatomy"]
    paper = Paired(printed["both_correct"], printed["only_with"], printed["only_without"], printed["both_wrong"])
    columns = ("both right", "only with", "only without", "both wrong", "chi2", "chi2 p", "exact p")
    return Table(
        title="U2-Bench, Table 3: the organ named in the prompt, or not; majority of all passes",
        columns=("model", *columns),
        rows=tuple(
            (name, *_counts(each), each.chi2, each.chi2_p, each.exact_p)
            for name, each in ((printed["model"], paper), ("ours", found))
        ),
        notes=("The paper calls its test exact; its printed values are the uncorrected chi-square's.",),
        digits=6,
    )


def _counts(found: Paired) -> tuple[int, int, int, int]:
    return found.both_right, found.only_with, found.only_without, found.both_wrong


def _text(row: ParsedReply) -> str:
    return (row.prediction.text if row.prediction else None) or ""
