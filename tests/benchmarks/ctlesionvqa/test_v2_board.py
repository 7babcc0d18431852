"""The board of version 2 has the numbers of the official scorer, by super-type and over all questions."""

from dataclasses import replace
from pathlib import Path
from string import ascii_uppercase

import pytest

from medtune.benchmarks import find_benchmark
from medtune.benchmarks.ctlesionvqa.v2_board import FORMATS, place_by_the_tool, v2_board, v2_rows
from medtune.eval.evidence import Evidence
from medtune.eval.studies.cells import StudyAnswers, study_cells
from medtune.eval.studies.page import StudyReport, paper_shaped
from medtune.trainer.studies.study import find_study, open_study
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
    assert all(cell.ours == pytest.approx(100.0) for cell in filled.values())
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
    assert cells["multiple choice: overall"].ours == official["accuracy"] * 100 < 100
    assert cells["free text: overall"].ours == pytest.approx(100.0)


HEAD = "model,params,input,mode,overall,recog,meas,visr,medr,source\n"
BOARD = (
    "Radiologist,-,3D vol,direct,70.0,71.0,72.0,73.0,74.0,invented\n"
    "First FT,4B,2D,direct,60.0,61.0,62.0,63.0,64.0,invented\n"
    "Second,4B,2D,direct,50.0,51.0,52.0,53.0,54.0,invented\n"
    "An agent,4B,2D+tools,oracle,65.0,66.0,67.0,68.0,69.0,invented\n"
)
FREE = "First FT,4B,2D,direct,30.5,31.0,32.0,33.0,34.0,invented\n"


@pytest.fixture
def kit(tmp_path: Path) -> Path:
    """Returns a folder as the release has it, with invented rows."""
    folder = tmp_path / "kit"
    (folder / "metadata").mkdir(parents=True)
    (folder / "metadata" / "leaderboard.csv").write_text(HEAD + BOARD, encoding="utf-8")
    (folder / "metadata" / "leaderboard_freeform.csv").write_text(HEAD + FREE, encoding="utf-8")
    return folder


def test_the_published_rows_are_those_of_the_release(kit: Path) -> None:
    board = v2_board(kit)
    assert board.printed["First FT"] == {
        "multiple choice: measurement": 62.0,
        "multiple choice: recognition": 61.0,
        "multiple choice: visual reasoning": 63.0,
        "multiple choice: medical reasoning": 64.0,
        "multiple choice: overall": 60.0,
        "free text: measurement": 32.0,
        "free text: recognition": 31.0,
        "free text: visual reasoning": 33.0,
        "free text: medical reasoning": 34.0,
        "free text: overall": 30.5,
    }
    assert board.others("multiple choice: overall") == [70.0, 60.0, 50.0]
    assert board.num_printed == 4 * 5 + 5


def test_the_rank_is_that_of_its_own_tool(kit: Path) -> None:
    evidence = right_by_letter()
    answers = StudyAnswers("ours", "First FT", [{"final": evidence}])
    cells = {cell.column: cell for cell in study_cells([v2_board(kit)], [answers])}
    assert cells["multiple choice: overall"].rank == 1
    assert cells["multiple choice: overall"].difference == 40.0
    # The tool sorts by the rounded percentage and puts ours behind its equals; an agent above it does not count.
    others = v2_board(kit).others("multiple choice: overall")
    assert [place_by_the_tool(value, others) for value in (70.1, 70.04, 60.04, 59.96, 59.94, 49.9)] == [
        1,
        2,
        3,
        3,
        3,
        4,
    ]


def test_a_study_reads_the_board_from_the_release_and_shows_the_rank(kit: Path) -> None:
    without = open_study("ctlesionvqa_v2", overrides=[f"kits.ctlesionvqa={kit / 'nowhere'}"])
    assert without.tables[0].num_printed == 0
    assert {row.published for row in without.rows} == {None}
    file = kit.parent / "board.yaml"
    text = find_study("ctlesionvqa_v2").read_text("utf-8").replace("downloads/DeepTumorVQA}", f"{kit}}}")
    for known in ("RadFM FT", "M3D-Phi3 FT", "M3D-Llama2 FT", "Merlin FT", "Qwen3-VL-4B FT (organ)"):
        text = text.replace(f"published: {known}", "published: First FT")
    file.write_text(text, encoding="utf-8")
    opened = open_study(str(file), rows=["RadFM"])
    row = StudyAnswers("RadFM", "First FT", [{"final": right_by_letter()}], benchmark="ctlesionvqa")
    report = StudyReport(
        name="board",
        title="Board",
        scale="full",
        benchmarks=("ctlesionvqa",),
        source="",
        banners=(),
        tables=opened.tables,
        rows=(row,),
        cells=tuple(study_cells(opened.tables, [row])),
        runs=(),
        left_out={},
        missing=(),
        fetch="",
    )
    shaped = paper_shaped(report, opened.tables[0])
    ranks = {line[0]: line[shaped.columns.index("RadFM, rank")] for line in shaped.rows}
    assert ranks["multiple choice: overall"] == "1 of 4"
    assert ranks["free text: overall"] == "1 of 2"
    assert ranks["multiple choice: recognition"] is None


@pytest.mark.parametrize(
    ("file", "text", "message"),
    [
        ("leaderboard.csv", None, "holds no leaderboard.csv, neither in it nor in metadata"),
        ("leaderboard_freeform.csv", HEAD + FREE.replace("33.0", "many"), "line 2, visr: wanted a percentage"),
        ("leaderboard.csv", BOARD, "line 2, meas: wanted a percentage, got None"),
    ],
)
def test_a_broken_release_is_named(kit: Path, file: str, text: str | None, message: str) -> None:
    path = kit / "metadata" / file
    path.unlink() if text is None else path.write_text(text, encoding="utf-8")
    with pytest.raises((ValueError, FileNotFoundError), match=message):
        v2_board(kit)
