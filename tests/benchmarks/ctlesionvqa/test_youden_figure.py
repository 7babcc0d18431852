"""Ours in Figure 6 is sensitivity + specificity - 1 of the answers in Table 4, with a rank among the printed ones."""

from dataclasses import replace

import pytest

from medtune.benchmarks import find_benchmark
from medtune.eval.evidence import Evidence
from medtune.eval.scoring.parse_replies import parse_all
from medtune.eval.studies.cells import StudyAnswers, study_cells
from tests.eval.answers import generated

CT = find_benchmark("ctlesionvqa")


def test_the_index_is_that_of_the_rates_of_table_4() -> None:
    choice = next(each for each in CT.examples if each.answer_kind == "choice")
    asked = [
        replace(
            choice,
            id=f"q{number}",
            media_id=f"m{number}",
            patient_id=f"p{number}",
            options=("Yes", "No"),
            answer="Yes" if number % 2 else "No",
            facets={**choice.facets, "subtype": "kidney tumor existence", "task": "recognition"},
        )
        for number in range(20)
    ]
    # Right are 8 of the 10 that are ill, and 7 of the 10 others.
    said = [
        generated(each, "Yes" if is_said else "No")
        for number, each in enumerate(asked)
        for is_said in [number < 16 if number % 2 else number < 6]
    ]
    evidence = Evidence(asked, said, parse_all(asked, said, CT), "robust")
    tables = [each for each in CT.published_tables() if each.name in ("table4", "figure6")]
    answers = StudyAnswers("ours", "RadFM", [{"final": evidence}])
    cells = {cell.column: cell for cell in study_cells(tables, [answers]) if cell.ours is not None}
    rates = [cells[f"kidney_tumor_{rate}"].ours for rate in ("sens", "spec")]
    assert rates == [pytest.approx(80.0), pytest.approx(70.0)]
    index = cells["kidney tumor existence"]
    assert index.ours == pytest.approx(0.8 + 0.7 - 1)
    assert index.printed == pytest.approx(0.752 + 0.986 - 1)
    assert index.difference == pytest.approx(0.5 - 0.738)
    # Above it are RadFM, both nnM3D and the oracle.
    assert index.rank == 5
