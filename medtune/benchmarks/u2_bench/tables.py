"""U2-Bench's tables in the paper's shape, with our rows beside the printed ones, and the scores by each parser."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from medtune.benchmarks import published
from medtune.benchmarks.u2_bench import table1_row
from medtune.benchmarks.u2_bench.metrics import METRICS, has_every_task, judge_task
from medtune.benchmarks.u2_bench.official import rows as official_rows
from medtune.benchmarks.u2_bench.official.rows import OFFICIAL
from medtune.benchmarks.u2_bench.organ_named import pairs
from medtune.benchmarks.u2_bench.parsers import task_of
from medtune.benchmarks.u2_bench.published_tables import published_table1, published_table2, published_table3
from medtune.benchmarks.u2_bench.reply_types import KINDS, VALID, analysis, reply_type
from medtune.benchmarks.u2_bench.tasks_and_sets import CLASSIFICATION, DETECTION, TEXT, VALUE
from medtune.data.grouping import grouped
from medtune.eval.evidence import Evidence
from medtune.eval.judge.extra_verdicts import verdict_table
from medtune.eval.metric import Metric, ParsedReply
from medtune.eval.published import PublishedNumber
from medtune.eval.scoring.tables import Cell, Table
from medtune.eval.studies.one_run import answers_of, tables_of_run

_TERMS: Mapping[str, tuple[str, Metric]] = {
    **dict.fromkeys((*CLASSIFICATION, *DETECTION), ("accuracy", METRICS["mean_accuracy"])),
    VALUE: ("RMSE", METRICS["rmse"]),
    **dict.fromkeys(TEXT, ("BLEU-4", METRICS["bleu4"])),
}


def tables(evidence: Evidence) -> Sequence[Table]:
    """Returns the report's tables: Table 1, the parsers side by side, instruction following, kinds of replies etc."""
    read = {name: rows for name, rows in evidence.parsed["image"].items() if rows}
    replies = [row for row in read.get("robust", ()) if row.prediction is not None and row.prediction.text is not None]
    has_values = any(task_of(question) == VALUE for question in evidence.questions)
    return (
        *_table_1(evidence, list(read)),
        _parsers(read),
        *([_values(read)] if has_values else []),
        *([*_following(evidence), _kinds(replies)] if replies else []),
        _by_anatomy(evidence.rows("image")),
    )


def _by_anatomy(rows: Sequence[ParsedReply]) -> Table:
    """Returns the score of each task about each anatomy, of which Figure 2 shows the number of cases."""
    found = grouped(rows, lambda row: (row.question.facets.get("anatomy", "not named"), task_of(row.question)))
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
    anatomy = tables_of_run(
        published_table3(), {"ours": answers_of(evidence)}, unlike_published=evidence.unlike_published
    )
    return (
        *(anatomy if pairs(evidence) else []),
        *verdict_table(evidence, judge_task(), by="scenario", title="Reports and captions, by a judge"),
    )


def references() -> Sequence[PublishedNumber]:
    """Returns the printed U2-Scores, and the printed accuracies of the tasks that are scored by accuracy."""
    printed = published("u2_bench")["table1"]
    found = []
    for row in printed["rows"]:
        cells = dict(zip(printed["columns"], row, strict=True))
        if cells["U2_Score"] is not None:
            found.append(PublishedNumber(cells["model"], cells["U2_Score"]))
        found += [
            PublishedNumber(cells["model"], cells[f"{task}_Acc"], "task", task)
            for task in (*CLASSIFICATION, *DETECTION)
        ]
    return found


def _table_1(evidence: Evidence, names: Sequence[str]) -> Sequence[Table]:
    asked = [row.question for row in evidence.parsed["image"][names[0]]] if names else []
    return tables_of_run(
        published_table1(),
        {f"ours, {name}": answers_of(replace(evidence, parser=name)) for name in names},
        unlike_published=evidence.unlike_published,
        more={"guessing, these questions": table1_row.guessed(asked)} if asked else {},
    )


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


def _following(evidence: Evidence) -> Sequence[Table]:
    return tables_of_run(
        published_table2(),
        {"ours": answers_of(replace(evidence, parser="robust"))},
        unlike_published=evidence.unlike_published,
    )


def _kinds(replies: Sequence[ParsedReply]) -> Table:
    printed = published("u2_bench")["error_shares_pct"]
    rows: list[tuple[Cell, ...]] = []
    for name, kinds in KINDS.items():
        asked = [(row.prediction, row.question) for row in replies if analysis(row.question) == name]
        chosen = [reply_type((said.text if said else None) or "", question) for said, question in asked]
        for kind in kinds:
            share = 100 * chosen.count(kind) / len(chosen) if chosen else None
            rows.append(
                (name, kind, printed[name].get("success" if name == "reports" and kind == VALID else kind), share)
            )
    return Table(
        title="U2-Bench, appendix C.4: kinds of replies, % of each analysis",
        columns=("analysis", "kind", "printed", "ours"),
        rows=tuple(rows),
        notes=("Printed: one model that the paper does not name. Mistakes inside a report need a reader.",),
        digits=2,
    )
