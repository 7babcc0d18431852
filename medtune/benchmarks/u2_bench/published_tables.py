"""The paper's tables of results with the measures of their cells: Tables 1 to 3."""

import math
from collections.abc import Callable, Sequence
from functools import partial

from medtune.benchmarks import published
from medtune.benchmarks.u2_bench import table1_row
from medtune.benchmarks.u2_bench.metrics import instruction_following, macro_f1, mae, mean_accuracy, rmse, u2_score
from medtune.benchmarks.u2_bench.official import rows as official_rows
from medtune.benchmarks.u2_bench.official.rows import OFFICIAL
from medtune.benchmarks.u2_bench.organ_named import counted_pairs, pairs
from medtune.benchmarks.u2_bench.parsers import task_of
from medtune.benchmarks.u2_bench.tasks_and_sets import CASES, CLASSIFICATION, DETECTION, VALUE
from medtune.eval.asking.conditions import ANATOMY_NAMED
from medtune.eval.evidence import Evidence
from medtune.eval.metric import Metric
from medtune.eval.studies.measures import QuestionPart, count, counted, of_metric, percentage, share
from medtune.eval.studies.published import Answers, CellValue, Measure, PublishedColumn, PublishedTable

_SOURCE = "U2-Bench, arXiv 2505.17779"

_OUTCOMES: dict[str, tuple[str, tuple[bool, bool]]] = {
    "both right": ("both_correct", (True, True)),
    "only with": ("only_with", (True, False)),
    "only without": ("only_without", (False, True)),
    "both wrong": ("both_wrong", (False, False)),
}
"""For each column of counts its name in published.json, and which answers are right: with the organ, without."""


def published_tables() -> Sequence[PublishedTable]:
    """Returns the tables `table1`, `table2` and `table3`."""
    return published_table1(), published_table2(), published_table3()


def published_table1() -> PublishedTable:
    """Returns Table 1: the models on the eight tasks."""
    printed = published("u2_bench")["table1"]
    names = [name for name in printed["columns"] if name not in ("model", "group")]
    official = _official_row()
    columns = tuple(
        PublishedColumn(
            name,
            _cell(name, official),
            ("zero_shot",),
            printed_interval=share if name.endswith("_Acc") else percentage if name == "CVE_pct_tol" else None,
            n=CASES.get(name.partition("_")[0]),
            printed_digits=4,
            higher_is_better=name not in ("CVE_RMSE", "CVE_MAE"),
        )
        for name in names
    )
    places = {name: place for place, name in enumerate(printed["columns"])}
    cells = {
        row[places["model"]]: {name: row[places[name]] for name in names if row[places[name]] is not None}
        for row in printed["rows"]
    }
    notes = (
        "The printed numbers are those of the official scripts, which leave out replies that they cannot read; with a "
        "parser official_* ours are too, and have no interval.",
        "In our own rows nothing leaves a mean. Where a task has no questions, there is no U2_Score.",
        "Guessing draws options, and values from their ranges; it writes no texts, which count 0 in its U2_Score.",
        "The uncertainty of errors of values, scores of texts and the U2-Score does not follow from a number of "
        "questions, so that no test is made against them.",
    )
    return PublishedTable(
        "table1", "U2-Bench, Table 1", f"{_SOURCE}, Table 1", columns, cells, notes,
        ranked_by=("U2_Score",), unranked=frozenset({"Random Guessing"}),
    )  # fmt: skip


def _official_row() -> Callable[[Evidence], table1_row.Row]:
    """Returns a function that gives the official scripts' row, and keeps the last one for the columns that follow."""
    kept: list[tuple[Evidence, table1_row.Row]] = []

    def row(found: Evidence) -> table1_row.Row:
        if not kept or kept[0][0] is not found:
            kept[:] = [(found, official_rows.row(found.rows("image"), found.parser))]
        return kept[0][1]

    return row


def _cell(name: str, official: Callable[[Evidence], table1_row.Row]) -> Measure:
    ours = _own_cell(name)

    def measure(answers: Answers) -> CellValue | None:
        found = answers.get("zero_shot")
        if found is None or found.parser not in OFFICIAL:
            return ours(answers)
        value = official(found).get(name)
        asked = [
            row for row in found.rows("image") if name == "U2_Score" or task_of(row.question) == name.partition("_")[0]
        ]
        return None if value is None or not math.isfinite(value) or not asked else CellValue(value, len(asked))

    return measure


def _own_cell(name: str) -> Measure:
    task, _, kind = name.partition("_")
    if name == "U2_Score":
        return of_metric(u2_score(), "zero_shot")
    if task in (*CLASSIFICATION, *DETECTION):
        return _of_task({"Acc": mean_accuracy(), "F1": macro_f1()}[kind], task)
    if task == VALUE:
        metric = {"RMSE": rmse(), "MAE": mae(), "pct_tol": mean_accuracy()}[kind]
        return _of_task(metric, task, scale=100.0 if kind == "pct_tol" else 1.0)
    if kind == "BLEU":
        return _of_task(table1_row.bleu4(), task, scale=100.0)
    return partial(_of_texts, name=name, task=task)


def _of_task(metric: Metric, task: str, *, scale: float = 1.0) -> Measure:
    return of_metric(metric, "zero_shot", part=QuestionPart(task_of, (task,)), scale=scale)


def _of_texts(answers: Answers, *, name: str, task: str) -> CellValue | None:
    found = answers.get("zero_shot")
    rows = [row for row in found.rows("image") if task_of(row.question) == task] if found else []
    value = table1_row.row(rows, text_model=found.text_model)[name] if found and rows else None
    return None if value is None else CellValue(value, len(rows))


def published_table2() -> PublishedTable:
    """Returns Table 2: the share of replies to diagnosis that keep to the format."""
    printed = published("u2_bench")["instruction_following"]
    column = PublishedColumn(
        "rate", of_metric(instruction_following(), "zero_shot"), ("zero_shot",), printed_interval=share, n=CASES["DD"]
    )
    notes = ("The paper does not define it; ours counts an option's exact words, or its letter, and nothing else.",)
    cells = {model: {"rate": rate} for model, rate in printed["rows"]}
    title = "U2-Bench, Table 2: replies to diagnosis that keep to the format"
    return PublishedTable("table2", title, f"{_SOURCE}, Table 2", (column,), cells, notes)


def published_table3() -> PublishedTable:
    """Returns Table 3: diagnosis with the organ named in the prompt, and without, by majority of all passes."""
    printed = published("u2_bench")["anatomy"]
    counts = {name: printed[key] for name, (key, _) in _OUTCOMES.items()}
    asked = sum(counts.values())
    columns = (
        *(
            PublishedColumn(
                name,
                counted(partial(_outcome, wanted=wanted)),
                ("zero_shot",),
                ANATOMY_NAMED,
                count,
                n=asked,
                printed_digits=0,
                higher_is_better=None,
            )
            for name, (_, wanted) in _OUTCOMES.items()
        ),
        _of_test("chi2", "chi2", digits=2),
        _of_test("chi2 p", "chi2_p", digits=6),
        _of_test("exact p", "exact_p", digits=6),
    )
    shown = {name: float(value) for name, value in counts.items()}
    cells = {printed["model"]: {**shown, "chi2": printed["chi2"], "chi2 p": printed["p"]}}
    notes = (
        f"The paper asks {asked} cases of the breast and the thyroid, five times each, and takes the majority.",
        "It calls its test exact; its printed values are the uncorrected chi-square's.",
    )
    title = "U2-Bench, Table 3: the organ named in the prompt, or not; majority of all passes"
    return PublishedTable("table3", title, f"{_SOURCE}, Table 3", columns, cells, notes)


def _of_test(name: str, of: str, *, digits: int) -> PublishedColumn:
    return PublishedColumn(
        name, partial(_tested, name=of), ("zero_shot",), ANATOMY_NAMED, printed_digits=digits, higher_is_better=None
    )


def _outcome(answers: Answers, *, wanted: tuple[bool, bool]) -> list[tuple[bool, str]]:
    found = pairs(answers["zero_shot"]) if "zero_shot" in answers else []
    return [((pair.with_organ, pair.without) == wanted, pair.question.patient_id) for pair in found]


def _tested(answers: Answers, *, name: str) -> CellValue | None:
    found = pairs(answers["zero_shot"]) if "zero_shot" in answers else []
    value: float = getattr(counted_pairs(found), name)
    return CellValue(value, len(found)) if found else None
