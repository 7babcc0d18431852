"""Tests that the official result files of ReXSonoVQA are scored as they are, without the videos."""

import json
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from medtune.benchmarks import published
from medtune.benchmarks.facets import DURATION_BINS
from medtune.benchmarks.rexsonovqa import benchmark
from medtune.benchmarks.rexsonovqa.official_report import report, report_tables
from medtune.benchmarks.rexsonovqa.rubric import ScoredItem, constant_letter, question_type, verdict
from medtune.data.types import Condition, Prediction, PredictionKey, Question
from medtune.eval.scoring.score import score_phase
from medtune.eval.scoring.tables import Table
from medtune.trainer.commands.cli import main
from tests.benchmarks.rexsonovqa.score_files import read_scored
from tests.eval.answers import generated
from tests.examples import write_example

ERRORS = ["none", "wrong_conclusion", "wrong_visual_evidence", "both_fail", "unknown"]
ITEMS = st.lists(
    st.builds(
        ScoredItem,
        is_mcq=st.booleans(),
        question_type=st.sampled_from(["Type1", "Type2"]),
        duration=st.sampled_from(DURATION_BINS),
        score=st.sampled_from([0, 0.5, 1, 2]),
        error_type=st.sampled_from(ERRORS),
    )
)


@given(ITEMS)
def test_order_of_items_does_not_matter(items: list[ScoredItem]) -> None:
    assert report(items) == report(items[::-1])


@given(ITEMS)
def test_groups_add_up(items: list[ScoredItem]) -> None:
    found = report(items)
    for whole, parts in ((found.mcq, found.mcq_by_type), (found.free, found.free_by_duration)):
        assert sum(each.n for each in parts.values()) == whole.n
        assert sum(each.total for each in parts.values()) == whole.total
    assert sum(found.errors.values()) == sum(not item.is_mcq and item.score in (0, 1) for item in items)


def test_of_nothing() -> None:
    found = report([])
    assert (found.mcq.mean, found.free.mean, found.free_share) == (0, 0, 0)
    assert report_tables(found)[0].rows[0][1] == 0
    assert constant_letter([]) == {}


def test_unjudged_rows_are_refused() -> None:
    with pytest.raises(ValueError, match="was it judged"):
        read_scored([{"question": "[FREE]", "duration": 3.0, "eval_score": None, "eval_max_score": 2}])


def test_older_types_have_their_present_name() -> None:
    assert question_type("Type4_DisambiguationSafetyDecision") == "Type2_ArtifactResolutionOptimization"
    assert question_type("TypeX") == "TypeX"


def scored(video: dict[str, str], blind: dict[str, str] | None = None) -> dict[str, Table]:
    settings: list[tuple[Condition, dict[str, str]]] = [("image", video), ("text_only", blind or {})]
    predictions = [
        Prediction(PredictionKey(id_, condition, "generation", 0), text=text)
        for condition, texts in settings
        for id_, text in texts.items()
    ]
    return {table.title: table for table in score_phase(benchmark().examples, predictions, benchmark()).tables}


def test_tables_show_ours_beside_the_papers_models() -> None:
    one, two, free = (question.id for question in benchmark().examples)
    video = {one: "A", two: "C", free: verdict(1, "wrong_conclusion")}
    found = scored(video, {one: "A", two: "A", free: verdict(0, "both_fail")})
    beside = found["The paper's models (Tables A1 to A8) and ours"]
    assert beside.rows[-1] == ("ours", 1.0, 1.0, 0.5, 0.0, 1.0, 0.0)
    assert "accuracy 1, free mean 1" in beside.notes[0]
    assert [row[0] for row in beside.rows[:-1]] == [*published("rexsonovqa")["mcq"]]
    crossing = found["Multiple choice, blind against video"]
    assert crossing.rows == (("correct", 1, 0, 1), ("incorrect", 1, 0, 1), ("total", 2, 0, 2))
    assert found["Free response, blind against video"].rows[-1] == ("total", 0, 1, 0, 0, 1)
    questions = {question.id: question for question in benchmark().examples}
    for title, facet in (("Figure 6: by type", "task"), ("Figure 7: by clip duration", "duration")):
        rows = found[f"{title}, with the video and blind"].rows
        for row in rows:
            chosen = [id_ for id_ in (one, two) if questions[id_].facets[facet] == row[1]]
            if str(row[0]).startswith("multiple"):
                blind = 100 * sum(id_ == one for id_ in chosen) / len(chosen)
                assert row[2:] == (len(chosen), 100.0, blind, 100.0 - blind)
            else:
                assert row[1:] == (questions[free].facets[facet], 1, 1.0, 0.0, 1.0)
        assert sum(int(str(row[2])) for row in rows) == 3
    composition = found["Figure 5: the questions by type and clip duration"].rows
    assert sum(int(str(row[3])) for row in composition) == 2 * len(questions)


def test_free_responses_stay_in_the_tables_where_likelihood_is_primary() -> None:
    *mcq, free = benchmark().examples
    replies = [
        generated(free, verdict(1, "wrong_conclusion")),
        Prediction(PredictionKey(free.id, "text_only", "generation", 0), text=verdict(0, "both_fail")),
    ]
    likely = [
        Prediction(
            PredictionKey(question.id, "image", "likelihood", 0),
            options_shown=question.options,
            option_logprobs=(0.0, -1.0, -1.0, -1.0),
            option_tokens=(1, 1, 1, 1),
        )
        for question in mcq
    ]
    stage = score_phase(benchmark().examples, [*likely, *replies], benchmark(), parser="likelihood")
    found = {table.title: table for table in stage.tables}
    assert found["Free response by clip duration, mean of 0 to 2"].rows[-1] == (DURATION_BINS[-1], 1, 1.0)
    assert found["Overall"].rows[0][1] == len(mcq)
    assert found["The paper's models (Tables A1 to A8) and ours"].rows[-1][2] == 1.0
    assert found["Free response, blind against video"].rows[-1] == ("total", 0, 1, 0, 0, 1)


def test_tables_without_a_blind_run_leave_its_columns_empty() -> None:
    found = scored({benchmark().examples[0].id: "A"})
    assert found["The paper's models (Tables A1 to A8) and ours"].rows[-1][3:] == (None, None, None, None)
    assert "Multiple choice, blind against video" not in found
    assert [*found].count("Figure 7: by clip duration, with the video and blind") == 1
    assert {row[4:] for row in found["Figure 6: by type, with the video and blind"].rows} == {(None, None)}


def test_every_published_row_is_shown_as_its_counts_give_it() -> None:
    rows = {row[0]: row for row in scored({})["The paper's models (Tables A1 to A8) and ours"].rows}
    assert rows["Gemini 3 Pro"][1:6] == pytest.approx([165 / 249, 251 / 265, 105 / 249, 82 / 265, 68 / 144])
    assert rows["LLaVA-Video-72B"][2] == pytest.approx(63 / 265)


def test_keys_follow_the_order_shown() -> None:
    question: Question = benchmark().examples[0]
    shown = question.options[::-1]
    prediction = Prediction(PredictionKey(question.id, "image", "generation", 0), options_shown=shown, text="D")
    stage = score_phase([replace(question)], [prediction], benchmark())
    tables = {table.title: table for table in stage.tables}
    assert tables["Always the same letter"].rows == (("D", 1, 1.0),)
    assert stage.overall.value == 1


Capture = pytest.CaptureFixture[str]
KINDS = ("mcq", "free")


@pytest.fixture(scope="module")
def raw(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The example's questions; its videos are removed, as nobody may pass them on."""
    folder = tmp_path_factory.mktemp("rex") / "raw"
    write_example("rexsonovqa", folder)
    shutil.rmtree(folder / "videos")
    return folder


@pytest.fixture(scope="module")
def questions(raw: Path) -> Path:
    return prepared(raw, raw.parent / "prepared")


def prepared(raw: Path, out: Path) -> Path:
    assert main(["prepare", "rexsonovqa", "--from", str(raw), "--without-media", "--out", str(out)]) == 0
    return out


def score(questions: Path, *paths: Path, out: Path, more: tuple[str, ...] = ()) -> int:
    given = ["--predictions", *map(str, paths), "--questions", str(questions), "--out", str(out)]
    return main(["score", "rexsonovqa", *given, *more])


def scores(out: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((out / "scores.json").read_text())
    return found


def shuffled(row: dict[str, Any]) -> dict[str, Any]:
    """Returns a multiple-choice row with its options in the other order, as the official shuffle leaves it."""
    first, *lines = row["question"].split("\n")
    turned = [f"{letter}. {line[3:]}" for letter, line in zip("ABCD", lines[::-1], strict=True)]
    answer = "ABCD"[3 - "ABCD".index(row["answer"])]
    return {**row, "question": "\n".join([first, *turned]), "answer": answer, "original_question": row["question"]}


def write_results(raw: Path, folder: Path, *, scored: bool) -> None:
    """Writes result files: the first letter of each set is right, every free response has 1 point."""
    for kind in KINDS:
        (folder / f"scores_{kind}").mkdir(parents=True, exist_ok=True)
        for file in sorted((raw / "benchmark_questions" / kind).glob("*.json")):
            rows = []
            for row in json.loads(file.read_text()):
                row = shuffled(row) if kind == "mcq" else row
                reply = f"{row['answer']}" if kind == "mcq" else "The probe goes up."
                whole = f"Answer: {reply}\nIt fits." if kind == "mcq" else reply
                row |= {"model_prediction": reply, "inference_metadata": {"raw_response": whole, "latency_ms": 3}}
                verdict = (
                    {"judge_error_type": "wrong_conclusion", "judge_explanation": "half"} if kind == "free" else {}
                )
                rows.append({**row, "eval_score": 1, "eval_max_score": 2, **verdict} if scored else row)
            name = f"{'score_' if scored else ''}pred_{file.name}"
            (folder / f"scores_{kind}" / name).write_text(json.dumps(rows[::-1]))
        (folder / f"scores_{kind}" / "batch_summary.json").write_text('{"total_items": 9}')


def test_a_folder_of_scores_in_any_order(raw: Path, questions: Path, tmp_path: Path, capsys: Capture) -> None:
    write_results(raw, tmp_path / "model", scored=True)
    assert score(questions, tmp_path / "model", out=tmp_path / "out") == 0
    found = scores(tmp_path / "out")
    assert (found["overall"]["value"], found["overall"]["n"]) == (1.0, 6)
    assert found["metrics"]["image"]["official"]["rubric"] == found["metrics"]["image"]["robust"]["rubric"]
    assert (found["metrics"]["image"]["official"]["rubric"]["value"], found["unscored"]) == (1.0, 0)
    assert found["file_rows"] == {
        "rows": 18,
        "repeated": 0,
        "left_out": {"not kept by the authors": 6},
        "unanswered": 0,
    }
    said = capsys.readouterr().out
    assert "Rows: 18, 6 left out (not kept by the authors), 0 that repeat a reply" in said
    assert "6 verdicts of the files' own judge were taken" in said
    again = tmp_path / "out" / "matched.jsonl"
    assert f"for `medtune judge` and `medtune compare`: {again}" in said
    assert score(questions, again, out=tmp_path / "again") == 0
    own = scores(tmp_path / "again")
    assert own["metrics"] == found["metrics"]
    assert not (tmp_path / "again" / "matched.jsonl").exists()


def test_replies_without_scores_wait_for_a_judge(raw: Path, questions: Path, tmp_path: Path) -> None:
    write_results(raw, tmp_path / "model", scored=False)
    assert score(questions, tmp_path / "model", out=tmp_path / "out") == 0
    found = scores(tmp_path / "out")
    assert (found["overall"]["value"], found["unscored"]) == (1.0, 6)


def test_replies_beside_their_scores_count_once(raw: Path, questions: Path, tmp_path: Path) -> None:
    for scored in (False, True):
        write_results(raw, tmp_path / "model", scored=scored)
    folders = [tmp_path / "model" / f"scores_{kind}" for kind in KINDS]
    assert score(questions, *folders, out=tmp_path / "out") == 0
    found = scores(tmp_path / "out")
    assert (found["file_rows"]["rows"], found["file_rows"]["repeated"], found["unscored"]) == (36, 12, 0)


def test_two_models_in_one_folder_are_refused(raw: Path, questions: Path, tmp_path: Path, capsys: Capture) -> None:
    for model in ("one", "two"):
        write_results(raw, tmp_path / "both" / model, scored=True)
    file = next((tmp_path / "both" / "two" / "scores_free").glob("score_pred_*.json"))
    rows = json.loads(file.read_text())
    rows[-1]["model_prediction"] = rows[-1]["inference_metadata"]["raw_response"] = "Another reply."
    file.write_text(json.dumps(rows))
    assert score(questions, tmp_path / "both", out=tmp_path / "out") == 1
    said = capsys.readouterr().err
    assert f"{file}, row 3 and " in said
    assert "with different replies" in said


def test_broken_and_foreign_files_are_named(raw: Path, questions: Path, tmp_path: Path, capsys: Capture) -> None:
    write_results(raw, tmp_path / "model", scored=True)
    (tmp_path / "empty").mkdir()
    assert score(questions, tmp_path / "empty", out=tmp_path / "out") == 1
    assert "holds no result files of ReXSonoVQA" in capsys.readouterr().err
    assert score(questions, tmp_path / "modle", out=tmp_path / "out") == 1
    assert "there is no such file or folder of predictions" in capsys.readouterr().err
    file = sorted((tmp_path / "model" / "scores_mcq").glob("score_pred_*.json"))[0]
    rows = json.loads(file.read_text())
    file.write_text(file.read_text()[:300])
    assert score(questions, tmp_path / "model", out=tmp_path / "out") == 1
    assert f"{file}: broken or cut-off JSON (line 1" in capsys.readouterr().err
    rows[-1]["question"] = rows[-1]["question"].replace("reason A", "cause A")
    file.write_text(json.dumps(rows))
    assert score(questions, tmp_path / "model", out=tmp_path / "out") == 1
    assert "nothing was scored" in capsys.readouterr().err
    file.write_text(json.dumps([{"question": "[MCQ] Why?", "answer": "A"}]))
    assert score(questions, tmp_path / "model", out=tmp_path / "out") == 1
    assert f"{file}, row 1: wanted a field 'model_prediction', there are question, answer." in capsys.readouterr().err


@pytest.fixture(scope="module")
def real_questions(shared_real: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CONFIG_HOME", str(tmp_path_factory.getbasetemp() / "config"))
        return prepared(shared_real / "rexsonovqa", tmp_path_factory.mktemp("real") / "prepared")


MODELS = {
    "gemini_scores": "Gemini 3 Pro",
    "seed_scores": "Seed 2.0 Pro",
    "qwen_scores": "Qwen3.5-397B",
    "llava_scores": "LLaVA-Video-72B",
}
RECODED = "Gemini 3 Pro"


@pytest.mark.parametrize("more", [("--parser", "official"), ()], ids=["official", "default"])
@pytest.mark.parametrize("folder", MODELS)
def test_official_files_give_the_published_numbers(
    shared_real: Path, real_questions: Path, tmp_path: Path, folder: str, more: tuple[str, ...]
) -> None:
    results = shared_real / "rexsonovqa" / folder
    if not results.is_dir():
        pytest.skip(f"{results} is not among the real files; the repository of the benchmark has it")
    assert score(real_questions, results, out=tmp_path, more=more) == 0
    found, numbers = scores(tmp_path), published("rexsonovqa")
    right, _, n = numbers["mcq"][MODELS[folder]][-1]
    assert found["overall"]["n"] == n
    assert found["overall"]["value"] == pytest.approx(right / n)
    assert (found["unscored"], found["file_rows"]["unanswered"]) == (0, 0)
    two, conclusion, evidence, zero, n_free = numbers["free"][MODELS[folder]][-1]
    tables = {table["title"]: table for table in found["tables"]}
    points = (2 * two + conclusion + evidence) / n_free
    column = "free mean recoded" if MODELS[folder] == RECODED else "free mean"
    read = tables["How answers are read"]
    assert [row[read["columns"].index(column)] for row in read["rows"]] == pytest.approx([points] * len(read["rows"]))
    if MODELS[folder] != RECODED:
        errors = {row[0]: row[1] for row in tables["Errors, percent of all free responses"]["rows"]}
        assert sorted(errors.values()) == sorted((conclusion, evidence, zero))
        assert found["metrics"]["image"][found["parser"]]["rubric"]["value"] == pytest.approx(points)
