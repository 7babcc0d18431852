"""The board of version 2 has the numbers of the official scorer, by super-type and over all questions."""

from dataclasses import replace
from string import ascii_uppercase

import pytest

from medtune.benchmarks import find_benchmark
from medtune.benchmarks.ctlesionvqa.v2_board import FORMATS, v2_board, v2_rows
from medtune.eval.benchmark import Evidence
from medtune.eval.studies.cells import StudyAnswers, study_cells
from tests.trainer.recipe.test_paper_rows import evidence_of_right_answers

CT = find_benchmark("ctlesionvqa")


def right_by_letter() -> Evidence:
    """Returns right answers to the examples, of which choices are letters: the official scorer reads nothing else."""
    evidence = evidence_of_right_answers(CT)
    rows = []
    for row in evidence.rows("image"):
        said, question = row.prediction, row.question
        assert said is not None
        if question.answer_kind == "choice":
            said = replace(said, text=ascii_uppercase[question.options.index(question.answer)])
        rows.append(replace(row, prediction=said))
    return replace(evidence, parsed={"image": {evidence.parser: rows}})


def test_right_answers_have_full_marks_in_every_cell_that_they_fill_and_the_counts_are_those_asked() -> None:
    evidence = right_by_letter()
    cells = study_cells([v2_board()], [StudyAnswers("right", None, [{"final": evidence}])])
    filled = {cell.column: cell for cell in cells if cell.ours is not None}
    assert filled
    assert all(cell.ours == pytest.approx(1.0) for cell in filled.values())
    for format_, (are_choices, _) in FORMATS.items():
        rows = v2_rows(evidence.rows("image"), are_choices=are_choices)
        of_parts = sum(cell.n for name, cell in filled.items() if name.startswith(format_) and "overall" not in name)
        assert filled[f"{format_}: overall"].n == len(rows) == of_parts


def test_a_wrong_answer_lowers_its_super_type_and_the_whole_as_the_scorer_says() -> None:
    evidence = right_by_letter()
    rows = list(evidence.rows("image"))
    number = next(place for place, row in enumerate(rows) if row.question.answer_kind == "choice")
    said = rows[number].prediction
    assert said is not None
    rows[number] = replace(rows[number], prediction=replace(said, text="no letter"))
    changed = replace(evidence, parsed={"image": {evidence.parser: rows}})
    cells = {
        cell.column: cell
        for cell in study_cells([v2_board()], [StudyAnswers("wrong", None, [{"final": changed}])])
        if cell.ours is not None
    }
    are_choices, aggregate = FORMATS["multiple choice"]
    official = aggregate(v2_rows(rows, are_choices=are_choices))["overall"]
    assert isinstance(official, dict)
    assert cells["multiple choice: overall"].ours == official["accuracy"] < 1
    assert cells["free text: overall"].ours == pytest.approx(1.0)
