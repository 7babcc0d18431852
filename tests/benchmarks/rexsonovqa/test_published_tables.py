"""The recorded replies of the paper's models give every cell of its tables that they can: difference 0."""

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from medtune.benchmarks.facets import duration_bin
from medtune.benchmarks.rexsonovqa import benchmark
from medtune.benchmarks.rexsonovqa.rubric import is_kept, question_type
from medtune.benchmarks.rexsonovqa.tables import tables
from medtune.data.types import Condition, Prediction, PredictionKey, Question
from medtune.eval.evidence import Evidence
from medtune.eval.judge.verdicts import JUDGE_MARK
from medtune.eval.scoring.parse_replies import parse_all
from medtune.eval.studies.cells import StudyAnswers, StudyCell, study_cells
from tests.eval.golden import recorded

MODELS = {
    "gemini-3-pro": "Gemini 3 Pro",
    "llava-video-72b": "LLaVA-Video-72B",
    "qwen3.5-397b": "Qwen3.5-397B",
    "seed-2.0-pro": "Seed 2.0 Pro",
}
FOLDERS = {"gemini_scores": "Gemini 3 Pro", "seed_scores": "Seed 2.0 Pro"}
LETTERS = "ABCDEFGH"
FIGURES = {"figure6_mcq", "figure6_free", "figure7_mcq", "figure7_free"}
Said = tuple[Question, Mapping[Condition, str]]


def question(id_: str, *, key: str | None, type_: str, duration: float) -> Question:
    facets = {"task": question_type(type_), "duration": duration_bin(duration), "format": "mcq" if key else "free"}
    options = tuple(f"option {letter}" for letter in LETTERS) if key else ()
    answer = f"option {key}" if key else "the reference"
    kind = "choice" if key else "rubric"
    return Question(id_, id_, "?", options, answer, kind, id_, facets)  # type: ignore[arg-type]


def evidence_of(said: Iterator[Said], *, parser: str) -> Evidence:
    asked = list(said)
    predictions = [
        Prediction(PredictionKey(each.id, condition, "generation", 0), text=text)
        for each, replies in asked
        for condition, text in replies.items()
    ]
    questions = [each for each, _ in asked]
    return Evidence(questions, predictions, parse_all(questions, predictions, benchmark()), parser)


def cells(model: str, said: Iterator[Said], *, parser: str) -> list[StudyCell]:
    answers = StudyAnswers(model, model, [{"zero_shot": evidence_of(said, parser=parser)}])
    return study_cells(benchmark().published_tables(), [answers])


def parser_of(model: str) -> str:
    return "recoded" if model == "Gemini 3 Pro" else "official"


def judged(score: float, error: str | None) -> str:
    return JUDGE_MARK + json.dumps({"score": score, "error_type": error})


def of_recorded_scores(rows: Mapping[str, Any], columns: Mapping[str, Any]) -> Iterator[Said]:
    for kind in ("mcq", "free"):
        for row in rows[kind]:
            each = dict(zip(columns[kind], row, strict=True))
            if each["keep"] is not True:
                continue
            key = each.get("key")
            asked = question(each["id"], key=key, type_=each["type"], duration=each["duration"])
            yield asked, {"image": each["reply_letter"] or "" if key else judged(each["score"], each["error_type"])}


def test_golden_recorded_scores_give_the_cells() -> None:
    golden = recorded("rexsonovqa_published_scores.json")["rows"]
    names = [name for name in golden if name != "columns"]
    assert names
    for name in names:
        model = MODELS[name]
        found = cells(model, of_recorded_scores(golden[name], golden["columns"]), parser=parser_of(model))
        compared = [each for each in found if each.difference is not None]
        assert {each.table for each in compared} == (
            {"mcq", "free", "section5", *FIGURES} if "gemini" in name else {"mcq", "free"}
        )
        # Without blind replies the cells of the video alone: 2 and 4 outcomes, and 10 numbers of section 5.
        assert len(compared) == (16 if "gemini" in name else 6)
        assert {each.difference for each in compared} == {0.0}, [each for each in compared if each.difference]


def of_outcomes(rows: Mapping[str, Any], columns: Mapping[str, Any]) -> Iterator[Said]:
    for number, row in enumerate(rows["mcq"]):
        each = dict(zip(columns["mcq"], row, strict=True))
        asked = question(f"mcq{number}", key="A", type_="Type1", duration=3.0)
        yield (
            asked,
            {"image": "A" if each["video_correct"] else "B", "text_only": "A" if each["blind_correct"] else "B"},
        )
    for number, row in enumerate(rows["free"]):
        each = dict(zip(columns["free"], row, strict=True))
        asked = question(f"free{number}", key=None, type_="Type1", duration=3.0)
        yield (
            asked,
            {
                "image": judged(each["video_score"], each["video_error"]),
                "text_only": judged(each["blind_score"], each["blind_error"]),
            },
        )


def test_golden_outcomes_blind_and_with_the_video_give_every_cell() -> None:
    golden = recorded("rexsonovqa_cross_setting.json")["rows"]
    for name in (name for name in golden if name != "columns"):
        found = cells(MODELS[name], of_outcomes(golden[name], golden["columns"]), parser="official")
        compared = [each for each in found if each.table in ("mcq", "free")]
        assert len(compared) == 8 + 24
        assert {each.difference for each in compared} == {0.0}, [each for each in compared if each.difference]


def test_golden_crossings_are_those_of_a_runs_report() -> None:
    golden = recorded("rexsonovqa_cross_setting.json")
    assert golden["expected"]
    for name, expected in golden["expected"].items():
        evidence = evidence_of(of_outcomes(golden["rows"][name], golden["rows"]["columns"]), parser="official")
        found = {table.title: table for table in tables(evidence)}
        mcq, free = (found[f"{format_}, blind against video"] for format_ in ("Multiple choice", "Free response"))
        assert [[*row[1:]] for row in mcq.rows] == expected["mcq_2x2_with_totals"]
        assert [[*row[1:]] for row in free.rows] == expected["free_4x4_with_totals"]
        (_, *ours) = found["The paper's models (Tables A1 to A8) and ours"].rows[-1]
        accuracies = ("mcq_video_accuracy", "free_video_mean", "mcq_blind_accuracy", "free_blind_mean")
        rates = ("mcq_recovery_rate", "mcq_loss_rate")
        assert ours == pytest.approx([expected[key] for key in (*accuracies, *rates)], rel=1e-12)
        better, same, worse = expected["free_improved_same_worse"]
        assert free.notes == (f"With video {better} better, {same} the same, {worse} worse.",)


@pytest.mark.parametrize("folder", FOLDERS)
def test_released_score_files_give_the_cells(shared_real: Path, folder: str) -> None:
    def said() -> Iterator[Said]:
        for file in sorted((shared_real / "rexsonovqa" / folder).glob("*/score_pred_*.json")):
            for number, row in enumerate(json.loads(file.read_text("utf-8"))):
                if not is_kept(row):
                    continue
                is_mcq = "judge_error_type" not in row
                id_ = f"{file.parent.name} {file.stem} {number}"
                key = "A" if is_mcq else None
                asked = question(id_, key=key, type_=row["question_type"], duration=row["duration"])
                right = "A" if row["eval_score"] else "B"
                yield asked, {"image": right if is_mcq else judged(row["eval_score"], row["judge_error_type"])}

    model = FOLDERS[folder]
    found = cells(model, said(), parser=parser_of(model))
    compared = [each for each in found if each.difference is not None]
    assert len(compared) >= 6
    assert {each.difference for each in compared} == {0.0}, [each for each in compared if each.difference]
