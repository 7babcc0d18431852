"""Every printed cell of the papers' tables of results is in the package, as the papers' own tables have it."""

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from medtune.benchmarks import find_benchmark, published
from medtune.eval.studies.published import PublishedTable

COUNTED = {
    "m3d_vqa": {"closed": 2},
    "fetal_gauge": {"main": 42, "box_size": 9, "fine_tuning": 6, "phantom": 0},
    "u2_bench": {"table1": 24 * 17 - 7, "table2": 17, "table3": 6},
    "rexsonovqa": {
        "mcq": 4 * 8,
        "free": 4 * 24,
        "section5": 6,
        "figure6_mcq": 4,
        "figure6_free": 3,
        "figure7_mcq": 4,
        "figure7_free": 4,
    },
    "ctlesionvqa": {
        "table3_multi_choice": 34 * (5 + 1),
        "table3_free_text": 34 * 5,
        "table4": 72,
        "figure4": 0,
        "v2_board": 0,
        "figure6": 8 * 3,
        "youden": 60,
        "table10": 30,
        "table11": 30,
        "table12": 60,
        "table13": 60,
    },
}


def tables(benchmark: str) -> dict[str, PublishedTable]:
    return {each.name: each for each in find_benchmark(benchmark).published_tables()}


@pytest.mark.parametrize("benchmark", COUNTED)
def test_number_of_printed_cells(benchmark: str) -> None:
    assert {name: each.num_printed for name, each in tables(benchmark).items()} == COUNTED[benchmark]


@pytest.mark.parametrize("benchmark", COUNTED)
def test_each_cell_has_a_column(benchmark: str) -> None:
    for table in tables(benchmark).values():
        names = [each.name for each in table.columns]
        assert len(set(names)) == len(names)
        assert {name for cells in table.printed.values() for name in cells} <= {*names}


Found = tuple[str, str, str, str, float]


def read(folder: Path, name: str) -> Any:
    return json.loads((folder / f"{name}.json").read_text("utf-8"))


def of_fetal_gauge(folder: Path) -> Iterator[Found]:
    found = read(folder, "fetal_gauge")["tables"]
    for name in ("main", "fine_tuning"):
        for row in found[name]["rows"]:
            yield from (("fetal_gauge", name, row["model"], key, row[key]) for key in row if key != "model")
    for row in found["box_size"]["rows"]:
        models = [key for key in row if key not in ("size", "questions", "note")]
        yield from (("fetal_gauge", "box_size", model, row["size"].lower(), row[model]) for model in models)


def of_u2_bench(folder: Path) -> Iterator[Found]:
    for row in read(folder, "u2bench_table1")["rows"]:
        for key, value in row.items():
            if isinstance(value, float | int) and not isinstance(value, bool):
                yield "u2_bench", "table1", row["model"], key, value
    for row in read(folder, "u2bench_table2")["rows"]:
        yield "u2_bench", "table2", row["model"], "rate", row["instruction_following"]
    found = read(folder, "u2bench_table3")
    names = {("correct", "correct"): "both right", ("correct", "wrong"): "only with"}
    names |= {("wrong", "correct"): "only without", ("wrong", "wrong"): "both wrong"}
    names |= {
        ("incorrect" if a == "wrong" else a, "incorrect" if b == "wrong" else b): n for (a, b), n in names.items()
    }
    model = found["quoted"]["model"]
    for row in found["rows"]:
        yield "u2_bench", "table3", model, names[row["with_anatomy"], row["without_anatomy"]], row["count"]
    for key, column in (("chi2", "chi2"), ("p", "chi2 p")):
        yield "u2_bench", "table3", model, column, found["quoted"][key]


def of_ctlesionvqa(folder: Path) -> Iterator[Found]:
    def of(number: int) -> list[dict[str, Any]]:
        rows: list[dict[str, Any]] = read(folder, f"ctlesionvqa_table{number}")["rows"]
        return rows

    for row in of(3):
        name = f"{row['type']}, average" if row["is_average"] else row["subtype"]
        yield "ctlesionvqa", "table3_multi_choice", "random guessing", name, row["random_multi_choice"]
        for kind in ("multi_choice", "free_text"):
            yield from (("ctlesionvqa", f"table3_{kind}", model, name, value) for model, value in row[kind].items())
    for row in of(4):
        yield from (("ctlesionvqa", "table4", row["model"], key, row[key]) for key in row if key != "model")
    for number in (10, 11):
        for row in of(number):
            models = [key for key in row if key != "subtype"]
            table = tables("ctlesionvqa")[f"table{number}"]
            for model in models:
                yield "ctlesionvqa", table.name, model, row["subtype"], row[model]["accuracy"]
                assert list(table.printed_intervals[model, row["subtype"]]) == row[model]["ci95"]
    for number in (12, 13):
        for row in of(number):
            for model in row:
                if model not in ("subtype", "metric"):
                    yield "ctlesionvqa", f"table{number}", model, f"{row['subtype']}, {row['metric']}", row[model]
    yield from indices_of_ctlesionvqa(of)


def indices_of_ctlesionvqa(of: Callable[[int], list[dict[str, Any]]]) -> Iterator[Found]:
    """Yields Youden's indices, which the paper draws and does not print."""
    for row in of(4):
        for key, subtype in (
            ("liver_lesion", "liver lesion existence"),
            ("kidney_tumor", "kidney tumor existence"),
            ("pancreatic_lesion", "pancreatic lesion existence"),
        ):
            index = round((row[f"{key}_sens"] + row[f"{key}_spec"]) / 100 - 1, 3)
            yield "ctlesionvqa", "figure6", row["model"], subtype, index
    for number, format_ in ((12, "multiple choice"), (13, "free text")):
        rates = {(row["subtype"], row["metric"]): row for row in of(number)}
        for subtype in {subtype for subtype, _ in rates}:
            hits, rejections = rates[subtype, "sensitivity"], rates[subtype, "specificity"]
            for model in [key for key in hits if key not in ("subtype", "metric")]:
                index = round(hits[model] + rejections[model] - 1, 3)
                yield "ctlesionvqa", "youden", model, f"{format_}: {subtype}", index


def of_rexsonovqa(folder: Path) -> Iterator[Found]:
    found = read(folder, "rexsonovqa")
    for number in range(1, 9):
        table = found["tables"][f"Table A{number}"]
        format_ = "mcq" if table["format"] == "mcq" else "free"
        for row in table["rows"]:
            for key, value in row.items():
                if key == "blind" or (row["blind"] == "total" and key == "total"):
                    continue
                seen = key.replace("video_", "video ", 1)
                blind = f"blind {row['blind']}"
                name = seen if row["blind"] == "total" else blind if key == "total" else f"{blind}, {seen}"
                yield "rexsonovqa", format_, table["model"], name, value
    text = {row["key"]: row["value"] for row in found["text"] if row["kind"] == "printed"}
    for name, table in tables("rexsonovqa").items():
        if name not in ("mcq", "free"):
            quoted = [column.name for column in table.columns if column.name in text]
            yield from (("rexsonovqa", name, "Gemini 3 Pro", column, text[column]) for column in quoted)


def test_results_that_no_study_fills_are_there_too(shared_published: Path) -> None:
    for number in (7, 8):
        assert (
            published("ctlesionvqa")[f"table{number}"] == read(shared_published, f"ctlesionvqa_table{number}")["rows"]
        )


@pytest.mark.parametrize("of", [of_fetal_gauge, of_u2_bench, of_ctlesionvqa, of_rexsonovqa])
def test_cells_equal_the_record(of: Any, shared_published: Path) -> None:
    cells = list(of(shared_published))
    benchmark = cells[0][0]
    known = tables(benchmark)
    for _, table, model, column, value in cells:
        assert known[table].printed[model][column] == value, (table, model, column)
    counted = {name: sum(each[1] == name for each in cells) for name in COUNTED[benchmark]}
    assert counted == COUNTED[benchmark]
