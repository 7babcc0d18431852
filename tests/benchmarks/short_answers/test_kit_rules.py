"""Tests the rules of other kits as rows beside ours: the ceilings of a perfect model, and the published tables."""

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from medtune.benchmarks import find_benchmark, published
from medtune.data.types import Prediction, PredictionKey, Question
from medtune.eval.scoring.reply_rules import TITLE
from medtune.eval.scoring.score import PhaseScores, score_phase
from medtune.eval.scoring.tables import Table
from tests.benchmarks.short_answers.real_questions import real_questions

NAMES = ("vqa_rad", "slake", "path_vqa")


def scored(name: str, questions: Sequence[Question], replies: Sequence[str], *, unlike: str = "") -> PhaseScores:
    said = [
        Prediction(PredictionKey(question.id, "image", "generation", 0), text=reply)
        for question, reply in zip(questions, replies, strict=True)
    ]
    return score_phase(questions, said, find_benchmark(name).for_part(questions), unlike_published=unlike)


def rules_table(found: PhaseScores) -> Table:
    return next(table for table in found.tables if table.title == TITLE)


def cell(table: Table, row: str, column: str) -> object:
    (line,) = (line for line in table.rows if line[0] == row)
    return line[table.columns.index(column)]


@pytest.mark.parametrize("name", NAMES)
def test_every_rule_says_in_a_sentence_how_it_differs_and_where_it_comes_from(name: str) -> None:
    rules = find_benchmark(name).rules
    assert {"medevalkit", "llava_med_run_eval", "llava_med_batch"} <= set(rules)
    for rule in rules.values():
        assert rule.differs.endswith(".")
        assert ". " not in rule.differs
        assert "@" in rule.source


def test_a_perfect_model_scores_1_by_our_rule_and_less_by_the_others(shared_real: Path, tmp_path: Path) -> None:
    questions = [q for q in real_questions(shared_real, "vqa_rad", tmp_path) if q.split == "test"]
    found = scored("vqa_rad", questions, [f"The answer is {question.answer}." for question in questions])
    table = rules_table(found)
    assert cell(table, "ours: stated", "closed_accuracy") == 1.0
    assert cell(table, "ours: stated", "exact_match") == 1.0
    assert cell(table, "MedEvalKit, no judge", "accuracy") == pytest.approx(251 / 451)
    assert cell(table, "MedEvalKit, no judge", "exact_match") == 0.0
    assert cell(table, "LLaVA-Med, run_eval", "closed_accuracy") == pytest.approx(254 / 272)
    assert cell(table, "LLaVA-Med, run_eval_batch", "closed_accuracy") == 1.0
    assert any("a full stop" in note or "last full stop" in note for note in table.notes)


def test_slakes_rules_get_the_capitals_of_the_release(shared_real: Path, tmp_path: Path) -> None:
    questions = [q for q in real_questions(shared_real, "slake_en", tmp_path) if q.split == "test"]
    replies = [(question, f"{question.printed['answer']}.") for question in questions]
    rules = find_benchmark("slake").rules
    assert rules["medevalkit"].score(replies)["accuracy"] == pytest.approx(416 / 1061)
    assert rules["lmms_eval"].score(replies)["accuracy"] == 1.0
    assert rules["llava_med_run_eval"].score(replies)["closed_accuracy"] == pytest.approx(355 / 416)
    # With a judge that accepts everything, closed answers count twice.
    judged = rules["medevalkit_judged_damo"].score(replies)
    assert judged["if_judge_accepts_all"] == pytest.approx((416 + 1061) / 1061)
    assert rules["medevalkit_judged_ceilingFan456"].score(replies) == {}


def test_pathvqas_functions_call_a_precision_exact_match() -> None:
    (free,) = (each for each in find_benchmark("path_vqa").examples if not each.options)
    table = rules_table(scored("path_vqa", [free], ["giant cells of some kind"]))
    assert cell(table, "PathVQA's own functions", "word_precision") == pytest.approx(2 / 5)
    assert cell(table, "ours: stated", "token_f1") == pytest.approx(4 / 7)


def test_replies_on_which_a_kit_stops_are_counted() -> None:
    questions = find_benchmark("vqa_rad").examples
    table = rules_table(scored("vqa_rad", questions, ["", "", ""]))
    assert cell(table, "MedEvalKit, no judge", "stopping_replies") == 2.0


@pytest.mark.parametrize("name", NAMES)
def test_at_least_three_models_are_printed_with_where_and_by_which_rule(name: str) -> None:
    tables = published(name)["tables"]
    models = {row[0] for table in tables for row in table["rows"]}
    assert len(models) >= 3
    for table in tables:
        assert all(table[field] for field in ("title", "source", "rule", "judge", "columns", "rows"))
        assert all(len(row) == len(table["columns"]) for row in table["rows"])


@pytest.mark.parametrize("name", NAMES)
def test_ours_stands_among_printed_rows_only_where_it_has_the_same_rule(name: str) -> None:
    # LLaVA-Med's rows of SLAKE are of the English questions.
    example = [
        replace(each, facets={key: "en" if key == "language" else level for key, level in each.facets.items()})
        for each in find_benchmark(name).examples
    ]
    found = scored(name, example, [question.answer for question in example])
    with_ours = {table.title for table in found.tables if any(str(row[0]).startswith("ours, by") for row in table.rows)}
    assert with_ours == {"Fine-tuned, LLaVA-Med"}
    table = next(table for table in found.tables if table.title == "Fine-tuned, LLaVA-Med")
    assert table.rows[-1] == ("ours, by LLaVA-Med, run_eval_batch", 100.0, 100.0)
    apart = scored(name, example, [question.answer for question in example], unlike="they are three questions")
    assert any(table.title == "Fine-tuned, LLaVA-Med; this model alone" for table in apart.tables)
    judged = next(table for table in found.tables if table.title == "Zero-shot, judged")
    assert any("must not be compared" in note for note in judged.notes)


def test_a_part_of_the_test_is_not_the_benchmark() -> None:
    missing = find_benchmark("vqa_rad").missing
    (example,) = (each for each in find_benchmark("vqa_rad").examples if each.facets["task"] == "closed")
    assert missing([example]) == "1, where the official test has 451"
    assert missing([replace(example, id=str(number)) for number in range(451)]) == ""


def test_printed_rows_are_those_of_the_facts(shared_real: Path) -> None:
    """The figures of the tables stand word for word in the specification that was checked against the sources."""
    said = (shared_real.parent / "specs" / "medical_vqa.md").read_text("utf-8").partition("## 10.")[2]
    for name in NAMES:
        for table in json.loads(json.dumps(published(name)["tables"])):
            for _, *numbers in table["rows"]:
                assert all(f"{number:.1f}" in said or f"{number:.2f}" in said for number in numbers), (name, numbers)
