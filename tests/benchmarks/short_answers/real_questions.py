"""Reads the real test questions of VQA-RAD and SLAKE."""

from pathlib import Path

from medtune.benchmarks import find_source
from medtune.data.types import Question


def real_questions(shared_real: Path, source: str, scratch: Path) -> list[Question]:
    """Returns all questions of a source, from the real files."""
    found = find_source(source)
    assert found.read_questions is not None
    folder = "vqa_rad" if source == "vqa_rad" else "slake"
    return list(found.read_questions(shared_real / folder, 0, scratch).questions)


def real_test_questions(shared_real: Path, scratch: Path) -> list[Question]:
    """Returns the test questions of VQA-RAD, and of SLAKE in both languages."""
    both = [*real_questions(shared_real, "vqa_rad", scratch), *real_questions(shared_real, "slake", scratch)]
    return [question for question in both if question.split == "test"]
