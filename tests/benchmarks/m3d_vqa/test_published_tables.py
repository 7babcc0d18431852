"""The row of a 7B model in the table of closed questions: by task, and beside printed numbers of an unknown mean."""

from dataclasses import replace

import pytest

from medtune.eval.evidence import Evidence
from medtune.eval.scoring.parse_replies import parse_all
from medtune.eval.studies.cells import StudyAnswers, study_cells
from medtune.trainer.studies.study import open_study
from tests.eval.answers import generated


def test_the_row_has_a_cell_by_task_by_the_rule_of_m3ds_code() -> None:
    study = open_study("m3d_vqa")
    row = next(each for each in study.rows if each.published == "M3D-LaMed")
    benchmark = study.sets[0].benchmark
    asked = list(benchmark.examples)
    # The letter with a full stop is right, and so is the word alone by `robust` only.
    said = ["B. coronal", "Yes", "A. a cyst", "in the head"]
    replies = [generated(question, text) for question, text in zip(asked, said, strict=True)]
    evidence = Evidence(asked, replies, parse_all(asked, replies, benchmark), str(row.parser))
    answers = StudyAnswers(row.name, row.published, [{"zero_shot": evidence}], benchmark="m3d_vqa")
    cells = {cell.column: cell for cell in study_cells(study.tables, [answers])}
    assert {name: cell.ours for name, cell in cells.items()} == {
        "plane": 100.0,
        "phase": 0.0,
        "organ": None,
        "abnormality": 100.0,
        "location": None,
        "all questions": pytest.approx(200 / 3),
    }
    whole = cells["all questions"]
    assert (whole.n, whole.printed, whole.difference, whole.rank) == (3, 75.78, None, None)
    assert whole.why.startswith("printed by another rule")
    by_words = replace(answers, runs=[{"zero_shot": replace(evidence, parser="robust")}])
    assert {cell.ours for cell in study_cells(study.tables, [by_words]) if cell.column == "plane"} == {100.0}
