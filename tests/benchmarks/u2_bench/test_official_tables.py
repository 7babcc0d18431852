"""Tests what the rows of the official scripts in U2-Bench's tables lose, round and say."""

import math
from collections.abc import Sequence
from dataclasses import replace

from medtune.benchmarks import find_benchmark
from medtune.benchmarks.u2_bench.official.rows import score_of_prints, set_tables, variants
from medtune.benchmarks.u2_bench.official.score import SetTables
from medtune.data.types import Prediction, PredictionKey, Question
from medtune.eval.scoring.parse_replies import parse_replies
from medtune.eval.scoring.score import score_phase
from medtune.eval.scoring.tables import Table

U2 = find_benchmark("u2_bench")
BY_TASK = {question.facets["task"]: question for question in U2.examples}


def parsers_table(questions: Sequence[Question], texts: Sequence[str]) -> Table:
    said = [
        Prediction(PredictionKey(question.id, "image", "generation", 0), text=text)
        for question, text in zip(questions, texts, strict=True)
    ]
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
    said = [
        Prediction(PredictionKey(each.id, "image", "generation", 0), text=text)
        for each, text in zip(questions, texts, strict=True)
    ]
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
