"""Tests that a judge is shown the whole conversation, and never the mark of a media item."""

from dataclasses import replace

import pytest

from medtune.benchmarks import find_benchmark
from medtune.data.types import MEDIA_MARK, Question, Turn

ALONE = Question(
    "q", "m", f"{MEDIA_MARK}What changed since {MEDIA_MARK}?", (), "It grew", "text", "p", {"task": "open"}
)
TURNS = (Turn(f"Where is the cyst in {MEDIA_MARK}?", "In the left kidney."), Turn("How wide is it?", "12 mm."))


@pytest.mark.parametrize("name", ["vqa", "vqa_rad", "slake", "path_vqa", "ctlesionvqa", "u2_bench"])
def test_a_judge_sees_the_earlier_turns_and_no_mark(name: str) -> None:
    task = find_benchmark(name).judging
    assert task is not None
    assert task.user(ALONE, "It is larger").splitlines() == [
        "Question: [image] What changed since [image]?", "", "Reference: It grew", "",
        "Answer of the model: It is larger",
    ]  # fmt: skip
    told = task.user(replace(ALONE, turns=TURNS), "It is larger")
    assert told.splitlines()[:5] == [
        "Question: User: Where is the cyst in [image]?", "Assistant: In the left kidney.", "User: How wide is it?",
        "Assistant: 12 mm.", "User: [image] What changed since [image]?",
    ]  # fmt: skip
