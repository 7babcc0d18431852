import csv
from pathlib import Path

from bench.measuring.ctlesionvqa_release import write_raw
from bench.measuring.workload import workload


def test_every_question_has_80_to_120_characters(tmp_path: Path) -> None:
    write_raw(tmp_path, rows=2000, items=4, test_items=1)
    (table,) = tmp_path.glob("*.csv")
    with table.open(encoding="utf-8", newline="") as file:
        lengths = [len(row["question"]) for row in csv.DictReader(file)]
    assert len(lengths) == 2000
    assert min(lengths) >= 80
    assert max(lengths) <= 120


def test_as_many_questions_are_asked_about_a_scan_as_the_paper_counts() -> None:
    simulation = workload("ctlesionvqa").simulation
    assert simulation is not None
    assert simulation.questions_per_item == 43
