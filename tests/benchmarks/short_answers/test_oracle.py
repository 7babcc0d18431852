"""Tests medtune's own rule on the real questions: a right answer is right in any wording, a wrong one never is."""

from pathlib import Path

import pytest

from medtune.benchmarks.short_answers.parser import is_same_answer, parse
from medtune.data.types import Question
from medtune.eval.scoring.normalised_text import normalised
from tests.benchmarks.short_answers.real_questions import real_test_questions
from tests.benchmarks.short_answers.wordings import right_replies
from tests.eval.samples import sample_and_all

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


@pytest.mark.parametrize("every", sample_and_all(5, 1))
def test_a_right_answer_is_right_in_every_wording_for_every_real_question(every: int, asked: list[Question]) -> None:
    # The sample is every fifth question, from the third on; that of the quick test begins with the first.
    assert wrong_of(asked[every // 2 :: every]) == []


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


@pytest.mark.parametrize("every", sample_and_all(10, 1))
def test_the_answer_to_another_question_is_wrong_for_every_real_question(every: int, asked: list[Question]) -> None:
    truths = sorted({question.answer for question in asked if not question.options})
    assert len(truths) > 300
    assert swapped_and_right(truths[every // 2 :: every], truths) == []


def test_a_denied_or_changed_answer_is_wrong(asked: list[Question]) -> None:
    truths = sorted({question.answer for question in asked if not question.options})
    for truth in truths:
        for reply in ("not {}", "It is not {}.", "The image does not show {}", "{} or something else", "这不是{}。"):
            assert not is_same_answer(reply.format(truth), truth), (truth, reply)
