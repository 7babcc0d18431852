"""Compares our twins of U2-Bench's scripts with what the scripts themselves read in thousands of generated replies."""

import json
import math
import random
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from medtune.benchmarks import find_benchmark
from medtune.benchmarks.u2_bench.extracted_option import extract_option
from medtune.benchmarks.u2_bench.official.labels import (
    Mode,
    OfficialFailureError,
    Value,
    class_scores,
    extract_number,
    position_accuracy,
    predicted_value,
    read_position,
    read_row,
    value_scores,
)
from medtune.benchmarks.u2_bench.official.rows import (
    SetTables,
    official_means,
    official_score,
    score_of_prints,
    set_tables,
    variants,
)
from medtune.benchmarks.u2_bench.tasks_and_sets import INTEGER_SETS, OPTIONS_SEEN
from medtune.data.media.masks import LOCATIONS
from medtune.data.types import Question
from medtune.eval.scoring.parse_replies import parse_replies
from medtune.eval.scoring.score import score_phase
from medtune.eval.scoring.tables import Table
from tests.benchmarks.u2_bench import generated_replies
from tests.eval.answers import generated
from tests.soak import sample_and_all


def record(name: str) -> Any:
    return json.loads(Path(__file__).with_name(f"official_{name}.json").read_text("utf-8"))


CLASSES, PLACES_AND_VALUES, AGGREGATES = (record(name) for name in ("classes", "places_and_values", "aggregates"))
MODES: tuple[Mode, ...] = ("strict", "lenient")
WAYS: dict[str, tuple[Mode, bool]] = {
    "strict": ("strict", False),
    "lenient": ("lenient", False),
    "extracted": ("lenient", True),
}


def cell_of(dataset: str, truth: str) -> str | int:
    return int(truth) if dataset in INTEGER_SETS else truth


def outcome(read: Callable[[], object]) -> object:
    """Returns what a reading gives, or the name of the script's exception that it signals."""
    try:
        return read()
    except OfficialFailureError as error:
        return f"error:{error.exception}"


def label_of(dataset: str, cell: str | int, reply: str, mode: Mode) -> object:
    return outcome(lambda: read_row(cell, reply, dataset=dataset, mode=mode).label)


def scores_of(dataset: str, rows: Sequence[Any], replies: Sequence[str], mode: Mode) -> Any:
    def scored() -> object:
        read = [
            read_row(cell_of(dataset, row[1]), reply, dataset=dataset, mode=mode)
            for row, reply in zip(rows, replies, strict=True)
        ]
        return class_scores(read, mode=mode)

    return outcome(scored)


def accuracy_of(truths: Sequence[str], replies: Sequence[str], mode: Mode) -> object:
    return outcome(lambda: position_accuracy(truths, [read_position(reply, mode=mode) for reply in replies]))


def same(found: Sequence[float], expected: Sequence[float | str]) -> bool:
    return bool(np.allclose(found, [float(value) for value in expected], rtol=1e-9, atol=1e-11, equal_nan=True))


def test_the_record_is_of_these_replies() -> None:
    """The generator and the record belong together; a changed generator needs a new record."""
    seed = CLASSES["seed"]
    assert [tuple(row[:3]) for row in CLASSES["rows"]] == generated_replies.class_rows(seed)
    assert [row[0] for row in PLACES_AND_VALUES["places"]] == generated_replies.place_rows(seed)
    assert [tuple(row[:2]) for row in PLACES_AND_VALUES["values"]] == generated_replies.value_rows(seed)


def test_every_recorded_class_is_read_as_the_scripts_read_it() -> None:
    wrong = []
    for dataset, truth, reply, strict, lenient, extracted in CLASSES["rows"]:
        found = [label_of(dataset, cell_of(dataset, truth), reply, mode) for mode in MODES]
        found.append(extract_option(reply, OPTIONS_SEEN[dataset]))
        if found != [strict, lenient, extracted]:
            wrong.append((dataset, truth, reply, found, [strict, lenient, extracted]))
    assert not wrong, (len(wrong), wrong[:8])


@pytest.mark.parametrize("way", WAYS)
def test_every_recorded_set_of_classes_has_the_scripts_scores_or_is_lost_as_there(way: str) -> None:
    mode, is_extracted = WAYS[way]
    for dataset, places, results in CLASSES["sets"]:
        rows = [CLASSES["rows"][place] for place in places]
        expected = results[way]
        replies = [row[5] if is_extracted else row[2] for row in rows]
        found = scores_of(dataset, rows, replies, mode)
        if isinstance(expected, str):
            assert found == f"error:{expected}", (dataset, places)
        else:
            assert same([found.parser_rate, found.acc, found.precision, found.recall, found.f1], expected), (
                dataset,
                places,
                found,
                expected,
            )


def test_every_recorded_place_is_read_as_the_scripts_read_it() -> None:
    wrong = []
    for reply, strict, lenient in PLACES_AND_VALUES["places"]:
        exact, found = read_position(reply, mode="strict"), read_position(reply, mode="lenient")
        named = exact.label if exact.label in LOCATIONS else None
        if (named, "dropped" if found.is_dropped else found.label) != (strict, lenient) or exact.is_dropped:
            wrong.append((reply, exact, found, strict, lenient))
    assert not wrong, (len(wrong), wrong[:8])


def test_every_recorded_set_of_places_has_the_scripts_accuracy() -> None:
    for places, truths, *results in PLACES_AND_VALUES["place_sets"]:
        replies = [PLACES_AND_VALUES["places"][place][0] for place in places]
        for mode, expected in zip(MODES, results, strict=True):
            found = accuracy_of(truths, replies, mode)
            assert found == (pytest.approx(expected) if expected != "error" else "error:no valid samples"), places


def test_every_recorded_value_is_read_as_the_scripts_read_it() -> None:
    wrong = []
    for dataset, reply, *expected in PLACES_AND_VALUES["values"]:
        numbers = [predicted_value(reply, mode=mode) for mode in MODES]
        found = [str(each) if each is not None and not math.isfinite(each) else each for each in numbers]
        if [*found, extract_number(reply, dataset=dataset)] != expected:
            wrong.append((dataset, reply, found, extract_number(reply, dataset=dataset), expected))
    assert not wrong, (len(wrong), wrong[:8])


def test_every_recorded_set_of_values_has_the_scripts_scores() -> None:
    for dataset, places, truths, *results in PLACES_AND_VALUES["value_sets"]:
        rows = [PLACES_AND_VALUES["values"][place] for place in places]
        for (mode, is_extracted), expected in zip(WAYS.values(), results, strict=True):
            said = [predicted_value(row[4] if is_extracted else row[1], mode=mode) for row in rows]
            values = [
                Value(is_failed=True) if each is None else Value(truth, each)
                for truth, each in zip(truths, said, strict=True)
            ]
            found = value_scores(values, dataset=dataset)
            numbers = [found.mae, found.rmse, found.std, found.pct_within_tolerance, found.failed_items]
            assert same(numbers, expected), (dataset, places, mode, found, expected)


def tables_of(model: Any) -> SetTables:
    return SetTables(
        classification=[tuple(row) for row in model["classification"]],
        detection=[tuple(row) for row in model["detection"]],
        values=[(name, float(rmse), within) for name, rmse, within in model["values"]],
        text=[tuple(row) for row in model["text"]],
    )


def test_every_recorded_model_has_the_aggregators_score() -> None:
    """The scripts print four decimals and the aggregator averages the prints; the exact mean is another one."""
    differ = 0
    for model in AGGREGATES["models"]:
        tables = tables_of(model)
        printed = official_means(tables.printed(), ids="numbers")
        assert official_score(printed) == model["score"]
        terms = (printed.diag_acc, printed.vra_acc, printed.ll_acc, printed.od_acc, printed.kd_acc)
        assert [*terms, printed.cve_rmse, printed.rg_bleu, printed.cg_bleu] == pytest.approx(model["means"], abs=1e-11)
        exact = official_score(official_means(tables, ids="numbers"))
        assert exact == pytest.approx(model["score"], abs=1.01e-4)
        differ += exact != model["score"]
    assert 0 < differ < 0.15 * len(AGGREGATES["models"])


def one_reply(seed: int, word: str, mode: Mode) -> None:
    rng = random.Random(seed)
    dataset = rng.choice(generated_replies.CLASS_SETS)
    around = rng.choice(generated_replies.AROUND).format(word)
    for reply in (word, around, generated_replies.class_reply(rng, dataset) + word):
        cell = cell_of(dataset, rng.choice(OPTIONS_SEEN[dataset]).strip())
        found = label_of(dataset, cell, reply, mode)
        assert (found == "error:KeyError") == (mode == "strict" and not reply)
        assert extract_option(reply, OPTIONS_SEEN[dataset]) in ("", *OPTIONS_SEEN[dataset])
        read_position(reply, mode=mode)
        number = extract_number(reply, dataset=rng.choice(generated_replies.VALUE_SETS))
        assert predicted_value(reply, mode=mode) is not None or number == "null" or mode == "strict"


@pytest.mark.parametrize("number", sample_and_all(1_000, 4_000))
def test_no_reply_raises_but_as_the_scripts_do(number: int) -> None:
    """Only an empty reply raises, in the strict script for classes; no other text does, whatever stands in it."""
    any_reply = given(st.integers(0, 10**9), st.text(max_size=30), st.sampled_from(("strict", "lenient")))
    settings(max_examples=number, deadline=None)(any_reply(one_reply))()


U2 = find_benchmark("u2_bench")
BY_TASK = {question.facets["task"]: question for question in U2.examples}


def parsers_table(questions: Sequence[Question], texts: Sequence[str]) -> Table:
    said = [generated(question, text) for question, text in zip(questions, texts, strict=True)]
    return next(table for table in score_phase(questions, said, U2).tables if "each parser" in table.title)


def test_a_set_of_whole_numbers_without_a_readable_reply_leaves_the_strict_mean_and_is_named() -> None:
    grade = replace(BY_TASK["DD"], text="How severe?", options=("0", "1", "2", "3"), answer="2")
    grades = [
        replace(grade, id=f"g{n}", facets={**grade.facets, "dataset": "44", "scenario": "DD 44"}) for n in range(3)
    ]
    questions = [*grades, *(replace(BY_TASK["DD"], id=f"q{n}") for n in range(2))]
    texts = ["grade 2", "two", "2.0", "malignant", "benign"]
    table = parsers_table(questions, texts)
    rows = {row[0]: dict(zip(table.columns, row, strict=True)) for row in table.rows}
    # The strict script divides by zero, and its batch runner goes on with the next set; the lenient one writes 0.
    assert (rows["official_strict"]["DD"], rows["official_strict"]["lost"]) == (0.5, 3)
    assert rows["official_lenient"]["DD"] == 0.25
    assert [note for note in table.notes if "leaves out" in note] == [
        "official_strict leaves out DD 44: ZeroDivisionError: no reply could be read as a whole number."
    ]


def test_the_aggregator_averages_prints_and_the_exact_score_stands_beside() -> None:
    """3 of 17 right is printed as 0.1765: 0.27 * 0.1765 + 0.07 = 0.117655, while 0.27 * 3 / 17 + 0.07 = 0.117647."""
    questions = [replace(BY_TASK["OD"], id=f"q{n}") for n in range(17)]
    texts = [question.answer if number < 3 else "upper left" for number, question in enumerate(questions)]
    said = [generated(each, text) for each, text in zip(questions, texts, strict=True)]
    parsed = parse_replies(questions, said, U2, reading="generation")["official_strict"]
    scored = set_tables(parsed, "official_strict")
    assert (variants(scored.tables)[0], score_of_prints(scored.tables, "official_strict")) == (0.1176, 0.1177)
    # The report shows neither of the two for a part of the benchmark.
    table = parsers_table(questions, texts)
    row = next(dict(zip(table.columns, row, strict=True)) for row in table.rows if row[0] == "official_strict")
    assert (row["U2"], row["U2 of prints"]) == (None, None)


def test_the_strict_script_prints_two_decimals_of_a_text() -> None:
    tables = SetTables(text=[("39", 12.34567)], values=[("18", math.nan, 66.66666)])
    assert tables.printed().text == [("39", 12.3457)]
    assert tables.printed(text_places=2).text == [("39", 12.35)]
    assert str(tables.printed().values) == "[('18', nan, 66.6667)]"
