"""Tests the rules of other kits as rows beside ours: the ceilings of a perfect model, and the published tables."""

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from medtune.benchmarks import find_benchmark, published
from medtune.benchmarks.short_answers.chinese_yes_no import parse_chinese_yes_no
from medtune.benchmarks.short_answers.parser import is_same_answer, parse
from medtune.benchmarks.short_answers.released_answers import released_answer
from medtune.data.raw.source import Place, RowError
from medtune.data.types import Question
from medtune.eval.scoring.normalised_text import normalised
from medtune.eval.scoring.reply_rules import TITLE
from medtune.eval.scoring.score import PhaseScores, score_phase
from medtune.eval.scoring.tables import Table
from tests.benchmarks.short_answers.real_questions import real_questions, real_test_questions, right_replies
from tests.eval.answers import generated
from tests.golden.files import FACTS, shared_part

NAMES = ("vqa_rad", "slake", "path_vqa")


def scored(name: str, questions: Sequence[Question], replies: Sequence[str], *, unlike: str = "") -> PhaseScores:
    said = [generated(question, reply) for question, reply in zip(questions, replies, strict=True)]
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


def test_printed_rows_are_those_of_the_facts() -> None:
    """The figures of the tables stand word for word in the specification that was checked against the sources."""
    said = shared_part("specs/medical_vqa.md", FACTS).read_text("utf-8").partition("## 10.")[2]
    for name in NAMES:
        for table in json.loads(json.dumps(published(name)["tables"])):
            for _, *numbers in table["rows"]:
                assert all(f"{number:.1f}" in said or f"{number:.2f}" in said for number in numbers), (name, numbers)


PAIRS = (("是", "否"), ("是的", "不是"), ("有", "没有"), ("包含", "不包含"), ("正常", "不正常"), ("存在", "不存在"))
HEDGES = (
    "不一定", "看不出来", "没有办法判断", "没有足够的信息", "不太确定", "不明确", "未知", "难以确定", "不清楚",
    "不好说",
)  # fmt: skip


def _read(text: str, options: tuple[str, str], reply: str) -> str | None:
    return parse_chinese_yes_no(reply, Question("q", "m", text, options, options[0], "yes_no", "p", {"task": "yes_no"}))


@pytest.mark.parametrize("options", PAIRS)
def test_a_hedge_is_no_no(options: tuple[str, str]) -> None:
    assert {_read("图中有肝脏吗?", options, reply) for reply in HEDGES} == {None}


@pytest.mark.parametrize(
    ("text", "options", "reply"),
    [
        ("这是CT吗?", ("是", "否"), "这是MRI"),
        ("这是CT吗?", ("是", "否"), "这张图像是 MRI。"),
        ("图中包含肝脏吗?", ("包含", "不包含"), "图中包含脾脏。"),
        ("图中有肝脏吗?", ("有", "没有"), "图中没有脾脏"),
        ("左肺有病变吗?", ("有", "没有"), "右肺有病变"),
        ("图中有肿块吗?", ("有", "没有"), "双肺对称"),
        ("图中有肿块吗?", ("有", "没有"), "心功能正常"),
        ("这张图正常吗?", ("是", "否"), "没有异常"),
        ("肺部健康吗?", ("健康", "不健康"), "没有异常"),
    ],
)
def test_a_sentence_about_something_else_is_no_answer(text: str, options: tuple[str, str], reply: str) -> None:
    assert _read(text, options, reply) is None


@pytest.mark.parametrize(
    ("text", "options", "reply", "said"),
    [
        ("这是CT吗?", ("是", "否"), "这是一张CT图像。", "是"),
        ("这是CT吗?", ("是", "否"), "这不是CT，而是MRI。", "否"),
        ("图中有肿块吗?", ("有", "没有"), "看不到肿块", "没有"),
        ("图中有肿块吗?", ("有", "没有"), "没有肿块，有积液。", "没有"),
        ("图中有肿块吗?", ("有", "没有"), "是的，没有积液，有肿块", "有"),
        ("肺看起来不正常吗?", ("是的", "不是"), "肺看起来不正常。", "是的"),
        ("左上肺可以观察到肺不张吗?", ("可以", "不可以"), "左上肺可以观察到肺不张。", "可以"),
        ("肝脏是健康的吗?", ("健康", "不健康"), "肝脏不是健康的。", "不健康"),
    ],
)
def test_a_sentence_that_repeats_the_question_answers_it(
    text: str, options: tuple[str, str], reply: str, said: str
) -> None:
    assert _read(text, options, reply) == said


PLACE = Place("test.json", 7)


@pytest.mark.parametrize(
    ("cell", "closed", "text", "options", "task"),
    [
        ("Yes", True, "yes", ("yes", "no"), "yes_no"),
        ("no \t", True, "no", ("yes", "no"), "yes_no"),
        ("yes", None, "yes", ("yes", "no"), "yes_no"),
        ("yes", False, "yes", (), "open"),
        (2, False, "2", (), "open"),
        ("不包含", True, "不包含", ("包含", "不包含"), "yes_no"),
        ("Left\tlung ", True, "Left lung", (), "closed"),
        ("MRI", None, "MRI", (), "open"),
    ],
)
def test_a_cell_becomes_an_answer(
    cell: object, closed: bool | None, text: str, options: tuple[str, ...], task: str
) -> None:
    found = released_answer(cell, is_closed=closed, place=PLACE)
    assert (found.text, found.options, found.task) == (text, options, task)
    assert found.kind == ("yes_no" if options else "text")


@pytest.mark.parametrize("cell", ["", " \t", None, ["yes"], True])
def test_a_cell_without_an_answer_is_an_error_that_names_the_row(cell: object) -> None:
    with pytest.raises(RowError, match=r"test\.json, number 7, field 'answer': wanted a text or a number"):
        released_answer(cell, is_closed=True, place=PLACE)


EVASIVE = (
    "", "I do not know.", "Not sure", "nodule", "cannot tell", "yes and no", "no idea", "It is unclear", "maybe",
    "yes or no?", "不知道", "不清楚", "无法判断", "是或不是", "可能",
)  # fmt: skip
SPREAD = 12


@pytest.fixture(scope="module")
def asked(shared_real: Path, tmp_path_factory: pytest.TempPathFactory) -> list[Question]:
    """One question for each pair of text and answer."""
    found = real_test_questions(shared_real, tmp_path_factory.mktemp("scratch"))
    assert len(found) == 451 + 1061 + 1033
    return list({(question.text, question.answer): question for question in found}.values())


def wrong_of(questions: list[Question]) -> list[str]:
    return [
        f"{question.text} {question.answer!r}: {reply!r}"
        for question in questions
        for reply in right_replies(question)
        if parse(reply, question) != question.answer
    ]


def test_a_right_answer_is_right_in_every_wording_for_a_part_of_the_real_questions(asked: list[Question]) -> None:
    part = asked[::SPREAD]
    assert min(len(set(right_replies(question))) for question in part) >= 8
    assert wrong_of(part) == []


@pytest.mark.soak
def test_a_right_answer_is_right_in_every_wording_for_every_real_question(asked: list[Question]) -> None:
    assert wrong_of(asked) == []


def test_the_opposite_of_a_yes_no_answer_and_an_evasion_are_never_right(asked: list[Question]) -> None:
    for question in (each for each in asked[::3] if each.options):
        first, second = question.options
        opposite = second if question.answer == first else first
        for reply in ("{}", "{}.", "The answer is {}.", "{}, see the image", "答案：{}", "<think>{}</think>"):
            assert parse(reply.format(opposite), question) != question.answer, (question.text, reply)
        assert {parse(reply, question) for reply in EVASIVE} == {None}, question.text


def swapped_and_right(truths: list[str], others: list[str]) -> list[tuple[str, str]]:
    return [
        (truth, other)
        for truth in truths
        for other in others
        if normalised(truth) != normalised(other)
        for reply in ("{}", "The answer is {}.")
        if is_same_answer(reply.format(other), truth)
    ]


def test_the_answer_to_another_question_is_wrong_for_a_part_of_the_real_questions(asked: list[Question]) -> None:
    truths = sorted({question.answer for question in asked if not question.options})
    assert swapped_and_right(truths[:: 3 * SPREAD], truths) == []


@pytest.mark.soak
def test_the_answer_to_another_question_is_wrong_for_every_real_question(asked: list[Question]) -> None:
    truths = sorted({question.answer for question in asked if not question.options})
    assert len(truths) > 300
    assert swapped_and_right(truths, truths) == []


def test_a_denied_or_changed_answer_is_wrong(asked: list[Question]) -> None:
    truths = sorted({question.answer for question in asked if not question.options})
    for truth in truths:
        for reply in ("not {}", "It is not {}.", "The image does not show {}", "{} or something else", "这不是{}。"):
            assert not is_same_answer(reply.format(truth), truth), (truth, reply)
