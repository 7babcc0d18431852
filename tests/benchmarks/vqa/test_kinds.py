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


def of_many_answers(folder: Path, *answers: str, text: str = "What is it?") -> SourceTable:
    """Returns the table of one question that is asked of no picture, again and again."""
    return read_text(folder, "\n".join(["question,answer", *(f'"{text}",{answer}' for answer in answers)]))


@pytest.mark.parametrize(
    ("answers", "odd", "said"),
    [
        ([*["yes", "no"] * 20, "yse"], "'yse' (data.csv, row 42)", "40 of 41 answers to 'What is it?' are yes or no"),
        (
            [*["ja", "nein"] * 20, "jein"],
            "'jein' (data.csv, row 42)",
            "40 of 41 answers to 'What is it?' are ja or nein",
        ),
        (["n/b", *["1", "2.5"] * 20], "'n/b' (data.csv, row 2)", "40 of 41 answers to 'What is it?' are numbers"),
        ([*["j", "n"] * 20, "jj"], "'jj' (data.csv, row 42)", "40 of 41 answers to 'What is it?' are 'j' or 'n'"),
        ([*["TRUE", "FALSE"] * 20, "x", "x"], "'x' (data.csv, row 42)", "40 of 42 answers to 'What is it?' are yes or"),
    ],
)
def test_a_few_odd_answers_that_make_all_of_them_text_are_named_loudly(
    tmp_path: Path, answers: list[str], odd: str, said: str
) -> None:
    table = of_many_answers(tmp_path, *answers)
    assert {question.answer_kind for question in table.questions} == {"text"}
    (note,) = (note for note in table.notes if note.startswith("ODD ANSWERS: "))
    assert odd in note
    assert said in note
    assert f"all {len(answers)} are free text" in note
    assert not any("of several kinds" in note for note in table.notes)


def test_a_misspelt_class_is_named_loudly_and_a_rare_one_is_not(tmp_path: Path) -> None:
    labels = ["benign", "malignant"] * 20
    for others, is_named in ((["malignnt"], True), (["normal"], False), (["benign 2"], False)):
        rows = ["label", *labels, *others]
        table = read_text(tmp_path, "\n".join(rows), TableOptions(question="What is it?"))
        notes = [note for note in table.notes if note.startswith("ODD ANSWERS: ")]
        assert bool(notes) == is_named
        assert all("'malignnt' (data.csv, row 42)" in note and "'malignant'" in note for note in notes)


def test_too_few_answers_have_no_odd_one(tmp_path: Path) -> None:
    notes = of_many_answers(tmp_path, *["yes", "no"] * 5, "yse").notes
    assert not any(note.startswith("ODD ANSWERS") for note in notes)


@pytest.mark.parametrize("words", [("j", "n"), ("vorhanden", "nicht vorhanden")])
def test_two_answers_in_other_words_are_told_to_be_text(tmp_path: Path, words: tuple[str, str]) -> None:
    table = of_answers(tmp_path / "text", *words * 3, text="Ist eine Zyste zu sehen?")
    assert {question.answer_kind for question in table.questions} == {"text"}
    (note,) = (note for note in table.notes if "two different answers" in note)
    assert f"{words[0]!r} and {words[1]!r}" in note
    assert "--answers" in note
    assert "--options" in note
    (tmp_path / "closed").mkdir()
    rows = [f"us_{n}.png,Ist eine Zyste zu sehen?,{words[n % 2]},{n}" for n in range(6)]
    said = TableOptions(answers={words[0]: "ja", words[1]: "nein"})
    closed = read_text(tmp_path / "closed", "\n".join(["image,question,answer,patient", *rows]), said)
    assert {question.options for question in closed.questions} == {("ja", "nein")}
    assert not any("two different answers" in note for note in closed.notes)
