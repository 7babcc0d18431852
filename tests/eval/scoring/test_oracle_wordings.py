"""Tests that a right answer scores 1 however it is worded, and that a wrong one never does."""

from collections.abc import Sequence
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from num2words import num2words

from medtune.benchmarks import find_benchmark
from medtune.data.types import Question
from medtune.eval.scoring.score import score_phase
from tests.eval.answers import generated

VQA = find_benchmark("vqa")
ORGANS = ("liver", "left lung", "spleen", "normal heart", "abnormal heart", "a cyst", "no lesion", "nodule")
FRAMES = (
    "{}", "{}.", " {} ", "**{}**", "The answer is {}.", "The answer is: {}", "Answer: {}", "Final answer: {}.",
    "The final answer is **{}**.", "The correct answer is {}.", "<think>It may be the kidney, or not.</think> {}",
    "<answer>{}</answer>", r"Let me see. \boxed{{{}}}", r"$\boxed{{\text{{{}}}}}$", '{{"answer": "{}"}}',
    "It is seen well.\n\nAnswer: {}",
)  # fmt: skip
WORDED = (*FRAMES, "It is {}.", "It's {}")


def score(question: Question, reply: str) -> dict[str, float]:
    """Returns the metrics of one question under the default parser."""
    said = [generated(question, reply)]
    found = score_phase([question], said, VQA.for_part([question]))
    return {name: score.number for name, score in found.metrics["image"]["reply"].items()}


def primary(question: Question, reply: str) -> float:
    return score(question, reply)[VQA.for_part([question]).primary]


def choice(options: Sequence[str], answer: str) -> Question:
    return Question("q", "m", "What is shown?", tuple(options), answer, "choice", "p", {"task": "t"})


def yes_no(answer: str, text: str = "Is there a fracture of the rib?") -> Question:
    return Question("q", "m", text, ("Yes", "No"), answer, "yes_no", "p", {"task": "t"})


def free(answer: str) -> Question:
    return Question("q", "m", "What is shown?", (), answer, "text", "p", {"task": "t"})


def number(answer: str, unit: str | None) -> Question:
    return Question("q", "m", "How large is it?", (), answer, "number", "p", {"task": "t"}, unit)


def spelled(text: str, how: str) -> str:
    forms = {"as it is": text, "capitals": text.upper(), "capital": text.capitalize(), "article": f"the {text}"}
    return forms[how]


SPELLINGS = st.sampled_from(("as it is", "capitals", "capital"))


@settings(max_examples=25)
@given(st.permutations(ORGANS), st.integers(2, 6), st.data())
def test_the_right_option_scores_1_and_another_0(organs: list[str], size: int, data: st.DataObject) -> None:
    options, frame = organs[:size], data.draw(st.sampled_from(FRAMES))
    said, truth = data.draw(st.sampled_from(options)), data.draw(st.sampled_from(options))
    letter = "ABCDEF"[options.index(said)]
    ways = (
        spelled(said, data.draw(SPELLINGS)),
        f"the {said}",
        letter,
        f"({letter})",
        f"{letter}. {said}",
        f"{letter}) {said}",
    )
    reply = frame.format(data.draw(st.sampled_from(ways)))
    assert primary(choice(options, truth), reply) == float(said == truth), reply


@settings(max_examples=25)
@given(st.sampled_from(("Yes", "No")), st.sampled_from(("Yes", "No")), st.sampled_from(FRAMES), st.data())
def test_yes_and_no_are_read_in_any_wording(said: str, truth: str, frame: str, data: st.DataObject) -> None:
    letter = "A" if said == "Yes" else "B"
    whole = {
        "Yes": (
            "Yes. No other finding",
            "Yes, there is.",
            "Yes, there is a fracture.",
            "yes there is",
            "There is a fracture of the rib.",
        ),
        "No": ("No, there is not.", "No evidence of a fracture.", "There is no fracture.", "No fracture is seen."),
    }[said]
    ways = (said, said.upper(), said.lower(), letter, f"{letter}. {said}", f"({letter}) {said}", *whole)
    reply = frame.format(data.draw(st.sampled_from(ways)))
    assert primary(yes_no(truth), reply) == float(said == truth), reply


@settings(max_examples=25)
@given(st.sampled_from(ORGANS), st.sampled_from(ORGANS), st.sampled_from(WORDED), st.data())
def test_free_answers_are_compared_by_what_they_say(said: str, truth: str, frame: str, data: st.DataObject) -> None:
    how = data.draw(st.sampled_from(("as it is", "capitals", "capital", "article")))
    reply = frame.format(spelled(said, how))
    found = score(free(truth), reply)
    assert found["exact_match"] == float(said == truth), reply
    assert (found["token_f1"] == 1) == (said == truth), reply


@settings(max_examples=25)
@given(st.integers(1, 300), st.integers(1, 300), st.sampled_from(("mm", None)), st.sampled_from(FRAMES), st.data())
def test_numbers_are_compared_by_their_value(
    said: int, truth: int, unit: str | None, frame: str, data: st.DataObject
) -> None:
    ways = [str(said), f"{said}.0", num2words(said), num2words(said).capitalize()]
    if unit is not None:
        ways += [f"{said} mm", f"{said}mm", f"{said / 10} cm", f"{num2words(said)} millimetres", f"{said / 1000} m"]
    reply = frame.format(data.draw(st.sampled_from(ways)))
    assert primary(number(str(truth), unit), reply) == float(said == truth), reply


@pytest.mark.parametrize(
    ("question", "reply"),
    [
        (free("normal"), "abnormal"),
        (free("normal"), "not normal"),
        (free("normal"), "It is not normal."),
        (free("pneumonia"), "no evidence of pneumonia"),
        (free("pneumonia"), "The answer is not pneumonia."),
        (free("no"), "nodule"),
        (free("no"), "normal"),
        (free("15"), "1.5"),
        (free("HER2+"), "HER2-"),
        (free("2"), "two or three"),
        (free("left"), "left or right"),
        (free("left"), "<answer>left</answer> <answer>right</answer>"),
        (choice(("normal", "abnormal"), "normal"), "abnormal"),
        (choice(("normal", "abnormal"), "normal"), "not normal"),
        (choice(("normal", "pneumonia"), "pneumonia"), "no evidence of pneumonia"),
        (choice(("no", "nodule"), "no"), "a nodule"),
        (choice(("liver", "spleen"), "liver"), "B. liver"),
        (choice(("liver", "spleen"), "liver"), "liver or spleen"),
        (yes_no("No"), "A nodule"),
        (yes_no("No"), "abnormal"),
        (yes_no("No"), "normal"),
        (yes_no("No"), "I do not know."),
        (yes_no("No"), "Not sure."),
        (yes_no("No"), "cannot be determined"),
        (yes_no("No"), "Yes and no"),
        (yes_no("Yes"), "Yes and no"),
        (yes_no("No"), "There is no doubt that a rib is broken."),
        (yes_no("No"), "A. No"),
        (yes_no("No", "Is the lung normal?"), "No abnormality is seen."),
        (yes_no("Yes", "Is the lung normal?"), "The lung is not normal."),
        (yes_no("Yes", "Is the left lung larger than the right lung?"), "The right lung is larger than the left lung."),
        (number("50", "mm"), "50 cm"),
        (number("5", "mm"), "5 kg"),
        (number("5", "mm"), "5 to 10 mm"),
        (number("12", None), "1.2"),
    ],
)
def test_a_wrong_answer_never_scores_1(question: Question, reply: str) -> None:
    assert primary(question, reply) == 0


@pytest.mark.parametrize("question", [free("liver"), number("5", "mm"), yes_no("No"), choice(("a", "b"), "a")])
@pytest.mark.parametrize("reply", ["", " ", ".", "\n", "<think>liver", r"\boxed{}", "Answer:", "。"])
def test_an_empty_reply_is_wrong_and_raises_nothing(question: Question, reply: str) -> None:
    assert primary(question, reply) == 0


@pytest.mark.parametrize("reply", ["0", "None.", "zero", "The answer is none.", "0 lesions"])
def test_nothing_is_the_number_0(reply: str) -> None:
    assert primary(number("0", None), reply) == 1
    assert primary(number("1", None), reply) == 0


def test_an_unanswered_question_counts_as_wrong() -> None:
    asked = [free("liver"), replace(yes_no("No"), id="r")]
    found = score_phase(asked, [], VQA.for_part(asked))
    assert all(score.value == 0 for score in found.metrics["image"]["reply"].values())
    assert found.overall.unanswered == 1
