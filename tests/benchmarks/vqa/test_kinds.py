"""Tests that a question text has one kind, which no row's own answer decides for itself."""

from pathlib import Path

import pytest

from medtune.benchmarks.vqa import render
from medtune.data.raw.source import SourceTable, TableOptions
from tests.benchmarks.vqa.own_data import read_text


def of_answers(folder: Path, *answers: str, text: str = "What is it?") -> SourceTable:
    """Returns the table of one question that is asked of six pictures in turn."""
    rows = [f'us_{n % 6}.png,"{text}","{answer}",{n}' for n, answer in enumerate(answers)]
    return read_text(folder, "\n".join(["image,question,answer,patient", *rows]))


@pytest.mark.parametrize(
    ("answers", "kind", "options"),
    [
        (("no", "mild", "moderate", "severe"), "text", ()),
        (("1", "2", "4A", "5"), "text", ()),
        (("no", "yes, a benign one", "yes"), "text", ()),
        (("Sí", "No", "sí", "Sí"), "choice", ("Sí", "No")),
        (("nein", "ja", "nein"), "choice", ("ja", "nein")),
        (("没有", "有"), "choice", ("有", "没有")),
        (("TRUE", "false", "TRUE"), "yes_no", ("yes", "no")),
        (("TRUE", "FALSE", "left"), "text", ()),
        (("yes", "No.", "yes"), "yes_no", ("yes", "no")),
        (("0", "1", "1"), "choice", ("0", "1")),
        (("0", "1", "2"), "number", ()),
        (("4,5", "1,234", "12,25"), "number", ()),
        (("1", "2", "none"), "text", ()),
    ],
)
def test_a_text_has_one_kind(tmp_path: Path, answers: tuple[str, ...], kind: str, options: tuple[str, ...]) -> None:
    table = of_answers(tmp_path, *answers)
    assert {(q.answer_kind, q.options, q.facets["task"]) for q in table.questions} == {(kind, options, kind)}
    assert len({render(question, "text").text for question in table.questions}) == 1
    assert f"kind of 'What is it?': {kind} {len(answers)}" in "\n".join(table.notes)
    is_mixed = kind == "text"
    assert any("has answers of several kinds" in note for note in table.notes) == is_mixed


def test_a_comma_before_three_digits_is_read_as_the_other_rows_mean_it(tmp_path: Path) -> None:
    assert [q.answer for q in of_answers(tmp_path / "a", "4,5", "1,234").questions] == ["4.5", "1.234"]
    assert [q.answer for q in of_answers(tmp_path / "b", "4.5", "1,234").questions] == ["4.5", "1234"]
    assert {q.answer_kind for q in of_answers(tmp_path / "c", "4", "1,234").questions} == {"text"}


def test_counts_stay_numbers_and_labels_become_options(tmp_path: Path) -> None:
    counted = of_answers(tmp_path / "counts", "0", "1", "1", text="How many lesions are there?")
    assert {question.answer_kind for question in counted.questions} == {"number"}
    rows = [f"us_{n}.png,{label},{n}" for n, label in enumerate(("b9", "mal", "b9", "mal", "norm", "norm"))]
    asked = TableOptions(question="What is it?")
    table = read_text(tmp_path / "labels", "\n".join(["image,label,patient", *rows]), asked)
    assert {(q.answer_kind, q.options) for q in table.questions} == {("choice", ("b9", "mal", "norm"))}


@pytest.mark.parametrize(("truths", "kinds"), [(19, {"yes_no", "text"}), (3, {"text"})])
def test_one_other_answer_among_truth_values_is_named(tmp_path: Path, truths: int, kinds: set[str]) -> None:
    rows = [f"Is sign {n} there?,{'FALSE' if n % 3 else 'TRUE'}" for n in range(truths)]
    table = read_text(tmp_path, "\n".join(["question,answer", *rows, "Where is it?,left"]))
    assert {question.answer_kind for question in table.questions} == kinds
    assert any(f"{truths} of {truths + 1} answers are TRUE or FALSE, 1 are not" in n for n in table.notes)


@pytest.mark.parametrize("other", ["no", "mild", "severe"])
def test_an_answer_changes_no_prompt(tmp_path: Path, other: str) -> None:
    answers = ["no", "mild", "severe", "no", "mild", "severe"]
    before = of_answers(tmp_path / "before", *answers)
    after = of_answers(tmp_path / "after", *answers[:5], other)
    assert [render(q, "text").text for q in before.questions] == [render(q, "text").text for q in after.questions]


def test_kinds_that_the_user_states_are_kept(tmp_path: Path) -> None:
    rows = [
        f"us_{n}.png,Is it so?,{answer},{kind}"
        for n, (answer, kind) in enumerate((("no", "yes_no"), ("a bit", "open")))
    ]
    table = read_text(tmp_path, "\n".join(["image,question,answer,answer_type", *rows]))
    assert [question.answer_kind for question in table.questions] == ["yes_no", "text"]
