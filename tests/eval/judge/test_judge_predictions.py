"""Tests that verdicts are kept and that answers without a verdict are counted; none is lost or invented."""

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest

from medtune.benchmarks import find_benchmark
from medtune.data.types import JudgeRequest, Prediction, PredictionKey, Question
from medtune.eval.judge.verdicts import Judging, judge_predictions, read_verdicts, verdicts_path, with_verdicts
from medtune.eval.scoring.score import score_phase
from tests.eval.answers import generated

REX = find_benchmark("rexsonovqa")
TASK = REX.judging
assert TASK is not None
MCQ, FREE = REX.examples[0], REX.examples[2]
RIGHT = '{"score": 2, "error_type": "none", "explanation": "agrees"}'
HALF = '{"score": 1, "error_type": "wrong_conclusion", "explanation": "half"}'


@dataclass
class Scripted:
    """Gives the verdict that the reply contains, and none on the reply "silence"."""

    name: str = "scripted"
    asked: list[JudgeRequest] = field(default_factory=list)
    dies_after: int = 99

    def replies(
        self, asked: Sequence[JudgeRequest], *, is_usable: Callable[[str], bool]
    ) -> Iterator[tuple[PredictionKey, str | None]]:
        for number, request in enumerate(asked):
            if number == self.dies_after:
                raise KeyboardInterrupt
            self.asked.append(request)
            verdict = {"right": RIGHT, "half": HALF}.get(request.user.rpartition(" ")[2])
            assert verdict is None or is_usable(verdict)
            yield request.key, verdict


def free(number: int) -> Question:
    return replace(FREE, id=f"free{number}", patient_id=f"p{number}")


def said(question: Question, text: str) -> Prediction:
    return generated(question, text)


QUESTIONS = [MCQ, *(free(number) for number in range(5))]
TEXTS = ["Answer: A", "right", "half", "silence", "", "<think>no</think> right"]
SAID = [said(question, text) for question, text in zip(QUESTIONS, TEXTS, strict=True)]


def judged(judge: Scripted, path: Path, predictions: Sequence[Prediction] = SAID, system: str = "judge") -> Judging:
    assert TASK is not None
    return judge_predictions(judge, predictions, QUESTIONS, TASK, system=system, path=path)


def test_free_answers_alone_are_judged_and_all_are_counted(tmp_path: Path) -> None:
    path, judge = tmp_path / "predictions.jsonl", Scripted()
    found = judged(judge, path)
    assert (found.free, found.judged, found.empty) == (5, 3, 1)
    assert [key.question_id for key in found.failed] == ["free2"]
    assert {key.question_id for key in read_verdicts(verdicts_path(path))} == {"free0", "free1", "free4"}
    shown = judge.asked[-1].user
    assert FREE.text in shown
    assert FREE.answer in shown
    assert "<think>" not in shown


def test_scores_come_from_verdicts_and_the_rest_stays_unscored(tmp_path: Path) -> None:
    path = tmp_path / "predictions.jsonl"
    judged(Scripted(), path)
    scores = score_phase(QUESTIONS, with_verdicts(SAID, path, REX), REX)
    rubric = scores.metrics["image"]["robust"]["rubric"]
    # 2 + 1 + 2 + 0 points on four answers: the empty one has none, the one that the judge left out is in no mean.
    assert (rubric.value, rubric.n, rubric.unparsable, rubric.unscored) == (1.25, 4, 1, 1)
    assert scores.unscored == 1


def test_judging_again_asks_for_what_is_missing_alone(tmp_path: Path) -> None:
    path, again = tmp_path / "predictions.jsonl", Scripted()
    judged(Scripted(), path)
    assert judged(again, path).judged == 3
    assert [request.key.question_id for request in again.asked] == ["free2"]


def test_verdicts_before_an_interruption_are_kept(tmp_path: Path) -> None:
    path, again = tmp_path / "predictions.jsonl", Scripted()
    with pytest.raises(KeyboardInterrupt):
        judged(Scripted(dies_after=2), path)
    verdicts_path(path).write_bytes(verdicts_path(path).read_bytes() + b'{"question_id": "fr')
    assert judged(again, path).judged == 3
    assert [request.key.question_id for request in again.asked] == ["free2", "free4"]
    assert len(verdicts_path(path).read_text().splitlines()) == 3


def test_verdict_is_about_the_reply_that_was_judged(tmp_path: Path) -> None:
    path, again = tmp_path / "predictions.jsonl", Scripted()
    judged(Scripted(), path)
    changed = [said(QUESTIONS[1], "half") if each.key.question_id == "free0" else each for each in SAID]
    assert with_verdicts(changed, path, REX)[1].text == "half"
    assert judged(again, path, changed).judged == 3
    assert [request.key.question_id for request in again.asked] == ["free0", "free2"]
    assert '"score": 1' in (with_verdicts(changed, path, REX)[1].text or "")


@pytest.mark.parametrize(("name", "system"), [("another", "judge"), ("scripted", "other instructions")])
def test_another_judge_is_not_mixed_in(tmp_path: Path, name: str, system: str) -> None:
    path = tmp_path / "predictions.jsonl"
    judged(Scripted(), path)
    with pytest.raises(ValueError, match="verdicts of another judge"):
        judged(Scripted(name), path, system=system)


def test_broken_line_of_verdicts_is_named(tmp_path: Path) -> None:
    path = tmp_path / "predictions.jsonl"
    verdicts_path(path).write_text('{"question_id": "free0"}\n')
    with pytest.raises(ValueError, match=r"predictions\.verdicts\.jsonl, line 1: no verdict"):
        with_verdicts(SAID, path, REX)


@pytest.mark.parametrize(
    ("reply", "usable"),
    [
        (RIGHT, True),
        (f"```json\n{HALF}\n```", True),
        ('{"score": 0, "error_type": "both_fail"}', True),
        ('{"score": 1}', False),
        ('{"score": 3, "error_type": "none"}', False),
        ('{"score": "high"}', False),
        ("The answer is right.", False),
        ("", False),
    ],
)
def test_what_counts_as_a_verdict(reply: str, usable: bool) -> None:
    assert TASK is not None
    assert TASK.is_usable(reply) is usable


def test_our_instructions_name_the_points_and_errors_of_the_schema() -> None:
    assert TASK is not None
    properties = json.loads(json.dumps(TASK.schema))["properties"]
    for error in properties["error_type"]["enum"]:
        assert error in TASK.system
    assert tuple(properties["score"]["enum"]) == TASK.levels
