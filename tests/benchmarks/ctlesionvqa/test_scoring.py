import json
import math
import random
from collections import Counter, defaultdict
from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from typing import NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from medtune.benchmarks import published
from medtune.benchmarks.ctlesionvqa import benchmark, scoring, yes_no_table
from medtune.benchmarks.ctlesionvqa.scoring import (
    inclusive,
    paper,
    question_mean,
    row_score,
    strict,
    subtype_mean,
    v2_code,
    vsi_code,
    youden,
)
from medtune.benchmarks.ctlesionvqa.subtypes import V1, V2_ONLY, answer_type, category, subtype
from medtune.benchmarks.ctlesionvqa.v2_scoring import aggregate_free_text, aggregate_letters, score_numeric
from medtune.benchmarks.ctlesionvqa.yes_no_table import YesNoTable
from medtune.data.types import Prediction, PredictionKey, Question
from medtune.eval.metric import ParsedReply
from medtune.eval.scoring.score import score_phase
from medtune.eval.scoring.tables import Table
from tests.eval.answers import generated
from tests.eval.golden import near, recorded


class Averages(NamedTuple):
    by_category: dict[str, float]
    total: float


def averages(cells: list[tuple[str, float]]) -> Averages:
    by_category: defaultdict[str, list[float]] = defaultdict(list)
    for name, value in cells:
        by_category[name].append(value)
    means = {name: sum(values) / len(values) for name, values in by_category.items()}
    return Averages(means, sum(value for _, value in cells) / len(cells))


NUMBER = st.integers(-10_000, 10_000).map(lambda value: value / 100)


def test_golden_table3_averages() -> None:
    golden = recorded("ctlesionvqa_v1_table3.json")
    rows = [dict(zip(golden["rows"]["columns"], row, strict=True)) for row in golden["rows"]["table"]]
    assert Counter(row["category"] for row in rows) == golden["expected"]["subtypes_per_category"]
    different = []
    for column, expected in golden["expected"]["averages"].items():
        found = averages([(row["category"], row[column]) for row in rows])
        for name, cell in {**expected}.items():
            if name.startswith("mean_of_"):
                # Recorded as the mean of means that were already rounded.
                rounded = [Decimal(f"{mean:.6f}") for mean in found.by_category.values()]
                assert float(round(sum(rounded, Decimal()) / len(rounded), 6)) == near(cell)
                mean_of_means = sum(found.by_category.values()) / len(found.by_category)
                assert mean_of_means == pytest.approx(cell, abs=1e-6)
                continue
            mean = found.total if name == "Total" else found.by_category[name]
            assert round(mean, 6) == near(cell["mean_of_printed"])
            distance = abs(mean - cell["printed"])
            assert (distance <= 0.0005 + 1e-9) == cell["equal_to_3_places"], (column, name)
            assert (distance <= 0.001 + 1e-9) == cell["within_rounding"], (column, name)
            if not cell["equal_to_3_places"]:
                different.append([column, name, cell["printed"], round(mean, 6)])
    assert sorted(different) == sorted(row[:4] for row in golden["expected"]["cells_not_equal_to_3_places"])


def test_the_published_rows_are_the_printed_ones(shared_published: Path) -> None:
    printed = json.loads((shared_published / "ctlesionvqa_table3.json").read_text("utf-8"))
    assert published("ctlesionvqa")["table3"] == printed["rows"]


@given(NUMBER, NUMBER.filter(bool))
def test_definitions_agree_where_they_have_to(said: float, truth: float) -> None:
    low, high = strict(said, truth), inclusive(said, truth)
    assert low is not None
    assert high is not None
    assert 0 <= low <= high <= 1
    assert round(high - low, 9) in (0, 0.1)
    assert paper(truth, truth) == inclusive(truth, truth) == v2_code(truth, truth) == vsi_code(truth, truth) == 1
    assert strict(-said, -truth) == low
    if truth < 0:
        assert vsi_code(said, truth) == 1


def test_zero_and_infinite_numbers_have_a_rule() -> None:
    assert strict(1, 0) is None is inclusive(0, 0)
    assert (paper(0, 0), paper(1e-9, 0), v2_code(0, 0), v2_code(1, 0)) == (1, 0, 1, 0)
    for mra in (strict, inclusive, v2_code):
        assert mra(float("inf"), 5) == mra(float("nan"), 5) == 0
    with pytest.raises(ZeroDivisionError):
        vsi_code(1, 0)


def parsed(question: Question, said: str | None) -> ParsedReply:
    prediction = generated(question, said or "")
    return ParsedReply(question, prediction, said)


ASKED = [question for question in benchmark().examples if question.answer_kind != "text"]
ROWS = st.lists(
    st.tuples(st.sampled_from(ASKED), st.sampled_from(["answer", "other", None])).map(
        lambda pick: parsed(
            pick[0], {"answer": pick[0].answer, "other": (*pick[0].options, "12")[0]}.get(pick[1] or "")
        )
    ),
    min_size=1,
)


@given(ROWS, st.randoms(use_true_random=False))
def test_order_of_rows_changes_nothing(rows: list[ParsedReply], shuffle: random.Random) -> None:
    again = shuffle.sample(rows, len(rows))
    for metric in benchmark().metrics.values():
        chosen, shuffled = (metric.covered(each) for each in (rows, again))
        if chosen:
            value = metric.value(chosen)
            assert value == metric.value(shuffled) or value != value


@given(st.lists(st.sampled_from(ASKED), min_size=1))
def test_oracle_has_the_best_and_silence_the_worst(questions: list[Question]) -> None:
    for name, metric in benchmark().metrics.items():
        chosen = [question for question in questions if metric.covers(question)]
        best, worst = [parsed(each, each.answer) for each in chosen], [parsed(each, None) for each in chosen]
        is_defined = chosen and (name != "youden" or len({each.answer for each in chosen}) == 2)
        if is_defined:
            assert metric.value(best) == pytest.approx(metric.best)
            assert metric.value(worst) == pytest.approx(metric.worst)


def test_of_nothing() -> None:
    for metric in benchmark().metrics.values():
        with pytest.raises(ValueError, match="at least one"):
            metric.value([])
    assert scoring.mean_score([]) is None
    assert score_numeric([]).value == 0
    assert aggregate_letters([])["overall"] == {"accuracy": 0, "n_total": 0, "n_subtypes": 0}
    assert aggregate_free_text([])["by_subtype"] == {}
    nothing = yes_no_table.yes_no_table([])
    assert yes_no_table.official(nothing).youden is None
    assert yes_no_table.collapse_share(nothing) == yes_no_table.majority_accuracy(nothing) == 0


def test_subtypes_weigh_the_same_and_questions_do_too() -> None:
    many, one = ASKED[0], replace(ASKED[0], facets={"task": "recognition", "subtype": "colon_lesion_existence"})
    rows = [parsed(many, many.answer)] * 3 + [parsed(one, None)]
    assert subtype_mean().value(rows) == 0.5
    assert question_mean().value(rows) == 0.75
    assert youden().value([parsed(many, many.answer)]) != youden().value([parsed(many, many.answer)])


def test_rules_for_unread_answers_differ() -> None:
    table = YesNoTable(yes_yes=10, yes_no=0, yes_unread=2, no_yes=0, no_no=8, no_unread=10)
    assert yes_no_table.official(table).specificity == 1
    assert yes_no_table.wrong(table).specificity == pytest.approx(8 / 18)
    assert yes_no_table.skipped(table).sensitivity == 1


def test_subtypes_are_those_of_both_versions() -> None:
    assert [len(names) for names in V1.values()] == [3, 6, 14, 6]
    assert sum(len(names) for table in (V1, V2_ONLY) for names in table.values()) == 42
    numeric = {row["subtype"] for row in published("ctlesionvqa")["table3"] if row["free_text_metric"] == "MRA"}
    assert {name for names in V1.values() for name in names if answer_type(name) == "numeric"} == numeric
    assert subtype("PDAC_vs_PNET  classification") == "PDAC vs PNET classification"
    assert category("unheard of") is None


def made(predictions: list[Prediction]) -> dict[str, Table]:
    return {table.title: table for table in score_phase(benchmark().examples, predictions, benchmark()).tables}


def test_tables_have_the_papers_shape_with_ours_last() -> None:
    replies = {"example-existence-choice": "B", "example-volume-text": "1480.5 cc", "example-existence-text": "No."}
    said = [generated(id_, text) for id_, text in replies.items()]
    found = made(said)
    rows = {row[0]: row for row in found["Table 3, free text"].rows}
    assert len(rows) == 34
    assert rows["organ volume measurement"] == (
        "organ volume measurement", 0.526, 0.535, 0.528, 0.549, 0.583, 1.0, 1
    )  # fmt: skip
    assert rows["colon lesion existence"][-2:] == (1.0, 1)
    assert rows["lesion counting"][-2:] == (None, None)
    assert found["Table 4, lesion recognition, multiple choice, percent"].rows[-1][:4] == ("ours", 100.0, None, 100.0)
    assert found["Sensitivity by diameter"].rows[0][2:] == ("2-4 cm", 1.0, 1)
    assert found["Mean score over questions by sex"].rows == (("F", None, 1.0, None, None, 1),)
    assert found["Yes or no: collapse to one answer"].rows[0][5] == 1.0
    assert not any("Table 10" in title or "Table 11" in title for title in found)


def test_numbers_stay_in_the_tables_where_likelihood_is_primary() -> None:
    asked = {question.id: question for question in benchmark().examples}
    choice = asked["example-existence-choice"]
    likely = Prediction(
        PredictionKey(choice.id, "image", "likelihood", 0),
        options_shown=choice.options,
        option_logprobs=tuple(0.0 if option == choice.answer else -1.0 for option in choice.options),
        option_tokens=tuple(1 for _ in choice.options),
    )
    said = generated("example-volume-text", "1480.5 cc")
    stage = score_phase(tuple(asked.values()), [likely, said], benchmark(), parser="likelihood")
    rows = {(table.title, str(row[0])): row for table in stage.tables for row in table.rows}
    assert rows["Table 3, free text", "organ volume measurement"][-2:] == (1.0, 1)


def test_guessing_has_a_value_for_composites_and_a_column_in_table_3() -> None:
    asked = benchmark().examples
    for name in ("subtype_mean", "question_mean", "multi_choice"):
        metric = benchmark().metrics[name]
        chosen = [question for question in asked if metric.covers(question)]
        places = range(math.lcm(*(len(question.options) or 1 for question in chosen)))
        answers = [
            [parsed(each, each.options[place % len(each.options)] if each.options else None) for each in chosen]
            for place in places
        ]
        assert metric.guessing(chosen) == pytest.approx(sum(map(metric.value, answers)) / len(places)), name
    assert benchmark().metrics["mra"].guessing([each for each in asked if each.answer_kind == "number"]) is None
    table = made([])["Table 3, multiple choice"]
    column = {row[0]: row[table.columns.index("guessing")] for row in table.rows}
    assert column["liver lesion existence"] == 0.5


def test_a_phrase_is_right_where_the_official_match_says_so_and_nowhere_else() -> None:
    phrase = replace(next(each for each in benchmark().examples if each.answer_kind == "text"), answer="A 5 cm² mass")
    reader = benchmark().parsers["robust"]
    scores = [row_score(parsed(phrase, reader(reply, phrase))) for reply in ("a 5 CM² mass", "a 5 cm2 mass", "mass")]
    assert scores == [1.0, 0.0, 0.0]


def test_repeats_make_tables_10_and_11() -> None:
    replies = ("Yes", "No", "No", "No", "No")
    said = [generated("example-existence-text", text, number) for number, text in enumerate(replies)]
    row = next(row for row in made(said)["Table 11, free text"].rows if row[0] == "colon lesion existence")
    assert str(row[-2]).startswith("0.800 [")
    apart = made(said[:3])["Table 11, free text; this model alone"]
    assert "asked 3 times, 5 in the paper" in apart.notes[-1]
    assert row[1] == "0.859 [0.852, 0.866]"
