"""Tests that the table of answers that `medtune predict` wrote is never taken for the truth."""

from pathlib import Path

import pytest

from medtune.data.raw.source import TableOptions
from medtune.trainer.experiment.predict import write_rows
from tests.benchmarks.vqa.own_data import pictures, read

TRUTH = "image,question,answer\n" + "".join(f"us_{n}.png,What is it?,cyst {n}\n" for n in range(3))


@pytest.fixture(params=[".csv", ".jsonl"])
def answers(tmp_path: Path, request: pytest.FixtureRequest) -> Path:
    """Returns the file that `predict` writes for two questions and a picture that it could not read."""
    about = {"model": "pocket, seed 0", "trained_on": "vqa"}
    said = {"answer": "yes", "unit": "", "reply": "yes", "readable": "yes", "probabilities": {"yes": 0.9, "no": 0.1}}
    rows: list[dict[str, object]] = [
        {"id": f"new.csv, {n}", "media": f"us_{n}.png", "question": "Is it so?", **said, "error": "", **about}
        for n in (2, 3)
    ]
    pictures(tmp_path, 4)
    file = tmp_path / f"answers{request.param}"
    write_rows(file, [*rows, {"id": "new.csv, 4", "error": "it cannot be read", **about}])
    return file


def test_predicted_answers_are_no_truth_unless_the_user_says_so(answers: Path) -> None:
    with pytest.raises(ValueError, match=rf"{answers.name}: `medtune predict` wrote this table") as caught:
        read(answers)
    assert "--columns answer=answer" in str(caught.value)
    said = read(answers, TableOptions(columns={"answer": "answer", "image": "media", "id": ""}))
    assert [question.answer for question in said.questions] == ["yes", "yes"]


def test_predicted_answers_beside_a_table_are_neither_read_nor_advised(answers: Path) -> None:
    truth = answers.with_name("truth.csv")
    truth.write_text(TRUTH)
    assert not any("lie beside" in note or "lies beside" in note for note in read(truth).notes)
    both = read(answers.parent)
    assert [question.answer for question in both.questions] == ["cyst 0", "cyst 1", "cyst 2"]
    assert any(answers.name in note and "were not read" in note for note in both.notes)


def test_one_table_beside_another_is_told_in_the_singular(tmp_path: Path) -> None:
    pictures(tmp_path, 3)
    for name in ("one.csv", "two.csv"):
        (tmp_path / name).write_text(TRUTH)
    assert (
        "1 other table lies beside the one that was read; --from FOLDER reads all" in read(tmp_path / "one.csv").notes
    )
