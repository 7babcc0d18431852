"""Tests on all test questions of VQA-RAD and SLAKE that a perfect model is perfect, however it words its answers."""

import json
from collections.abc import Sequence
from pathlib import Path

import pytest

from medtune.benchmarks import find_benchmark
from medtune.data.types import Prediction, PredictionKey, Question
from medtune.eval.scoring.parse_replies import parse_replies

VQA = find_benchmark("vqa")
FILES = {
    "vqa_rad": ("vqa_rad/testset.json", 451),
    "slake_en": ("slake/test.json", 1061),
    "slake_zh": ("slake/test.json", 1033),
}
PLAIN = "The answer is {}."
SLOW = ("{}", "{}.", "<think>Yes or no?</think>\n**{}**", r"It follows that \boxed{{{}}}", "CAPITALS")


def asked(real: Path, name: str) -> list[Question]:
    """Returns the test questions of a set; yes and no are options, as `medtune prepare vqa` makes them."""
    file, _ = FILES[name]
    found = []
    for number, row in enumerate(json.loads((real / file).read_text("utf-8"))):
        answer, is_yes_no = str(row["answer"]).strip(), str(row["answer"]).strip().casefold() in ("yes", "no")
        if row.get("q_lang", "") in name:
            base = Question(f"q{number}", "m", row["question"], (), answer, "text", "p")
            closed = Question(f"q{number}", "m", row["question"], ("yes", "no"), answer.casefold(), "yes_no", "p")
            found.append(closed if is_yes_no else base)
    return found


def values(questions: Sequence[Question], replies: Sequence[str]) -> dict[str, float]:
    said = [
        Prediction(PredictionKey(question.id, "image", "generation", 0), text=text)
        for question, text in zip(questions, replies, strict=True)
    ]
    rows, metrics = parse_replies(questions, said, VQA, reading="generation")["reply"], VQA.for_part(questions).metrics
    return {name: metric.value(covered) for name, metric in metrics.items() if (covered := metric.covered(rows))}


@pytest.mark.parametrize("name", FILES)
@pytest.mark.parametrize("style", [PLAIN, *(pytest.param(style, marks=pytest.mark.slow) for style in SLOW)])
def test_a_perfect_model_is_perfect_in_every_style(shared_real: Path, name: str, style: str) -> None:
    questions = asked(shared_real, name)
    assert len(questions) == FILES[name][1]
    replies = [each.answer.upper() if style == "CAPITALS" else style.format(each.answer) for each in questions]
    found = values(questions, replies)
    right = {"closed_accuracy", "exact_match", "token_f1", "open_recall", "rouge_l"} & found.keys()
    assert {metric: found[metric] for metric in right} == pytest.approx(dict.fromkeys(right, 1.0))


@pytest.mark.parametrize("name", FILES)
def test_the_answers_of_other_questions_are_right_only_where_they_are_the_same(shared_real: Path, name: str) -> None:
    questions = asked(shared_real, name)
    others = [each.answer for each in questions[1:] + questions[:1]]
    equal = [said.casefold() == each.answer.casefold() for said, each in zip(others, questions, strict=True)]
    found = values(questions, others)
    opened = [same for same, each in zip(equal, questions, strict=True) if not each.options]
    # Spelling and blanks beside the letters' case make at most one in a hundred more answers equal.
    assert sum(opened) / len(opened) <= found["exact_match"] <= sum(opened) / len(opened) + 0.01
