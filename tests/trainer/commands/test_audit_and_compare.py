"""Tests of `medtune audit`, `medtune run --seeds` and `medtune power` with a tiny random model."""

import json
import shutil
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from medtune.data.prepared.read import open_prepared
from medtune.data.types import FOLD, Question
from medtune.eval.comparing.compare_file import CompareFile
from medtune.eval.comparing.gain import SEEDS_METHOD
from medtune.eval.results.phase_schema import Level, Phase
from medtune.eval.results.schema import Primary, ResultsFile
from medtune.eval.results.typed_json import json_bytes, read_json, write_document
from medtune.eval.statistics.intervals import METHOD, OVER_FOLDS
from medtune.trainer.commands.cli import main
from medtune.trainer.recipe.read import read_recipe, recipe_to_yaml
from medtune.trainer.training import loggers
from tests.own_questions import prepare_own
from tests.trainer.conftest import QUICK, Capture, Nano, Told, json_of

CHEAP = {
    "model", "random", "majority", "question_prior", "constant_letter", "longest_option", "text_only", "prompt_leak",
    "red_box", "grey_histogram", "thumbnail_regression", "nearest_thumbnail", "train_answer_copy",
    "question_prior_copy", "most_frequent_answer", "likelihood_against_generation", "unparsable_share", "linear_probe",
    "reply_words", "cut_replies", "names_every_option",
}  # fmt: skip
ASKED = {"blank_image", "other_image", "option_permutation", "permuted_accuracy", "stated_answer"}


def audit_of(run: Path) -> dict[str, dict[str, Any]]:
    written = json_of(run / "audit.json")
    assert set(written) == {
        "version", "rows", "collapse", "interval_method", "provenance", "prompts", "stands_for_patient",
    }  # fmt: skip
    return {row["name"]: row for row in written["rows"]}


def test_a_run_leaves_the_cheap_rows_and_audit_adds_the_others(
    nano: Nano, nano_run: Path, tmp_path: Path, shown: Told
) -> None:
    out = shutil.copytree(nano_run, tmp_path / "run")
    assert f"{len(CHEAP)} rows" in nano_run.with_name("screen.txt").read_text("utf-8")
    cheap = audit_of(out)
    assert set(cheap) == CHEAP
    assert {row["phase"] for row in cheap.values()} == {"final", "no model"}
    black = "the same model with a black image"
    reports = [out / "report.html", out / "report.md"]
    assert not any(black in report.read_text("utf-8") for report in reports)
    said = shown(main(["audit", str(out)]))
    assert black in said
    assert all(black in report.read_text("utf-8") for report in reports)
    assert f"report: {out / 'report.html'}" in said
    whole = audit_of(out)
    assert set(whole) == CHEAP | ASKED
    assert all(whole[name] == cheap[name] for name in CHEAP)
    assert "384 standardised features of" in whole["linear_probe"]["note"]
    assert whole["blank_image"]["n"] == whole["model"]["n"] == 9
    answered = (out / "audit" / "predictions.jsonl").read_bytes()
    assert main(["audit", str(out)]) == 0
    assert audit_of(out) == whole
    assert (out / "audit" / "predictions.jsonl").read_bytes() == answered
    assert nano.here("run", out, extra=("--resume",)) == 0
    assert audit_of(out) == whole, "a finished run keeps its full audit"
    assert not list(out.glob(".audit*"))


def test_an_evaluation_alone_can_be_audited_too(nano: Nano, tmp_path: Path, capsys: Capture, shown: Told) -> None:
    out = tmp_path / "eval"
    conditions = "eval.conditions=[image,other_image]"
    assert nano.here("eval", out, conditions, "eval.readings=[generation]", extra=("--limit", "5")) == 0
    assert main(["audit", str(out)]) == 0
    found = audit_of(out)
    assert {row["phase"] for row in found.values()} == {"zero_shot", "no model"}
    assert "likelihood_against_generation" not in found
    assert {"text_only", "other_image", "blank_image"} <= set(found)
    (out / "results.json").unlink()
    capsys.readouterr()
    assert "the run has not ended" in shown(main(["audit", str(out)]))


def test_audit_of_other_data_is_refused(nano_run: Path, tmp_path: Path, refused: Told) -> None:
    out = Path(shutil.copytree(nano_run, tmp_path / "run"))
    environment = json_of(out / "environment.json")
    (out / "environment.json").write_text(json.dumps({**environment, "data_hash": "0" * 64}))
    assert "holds other data" in refused(main(["audit", str(out)]))


def test_audit_of_a_benchmark_prints_and_lists_items(
    prepared_tiny: Path, tmp_path: Path, capsys: Capture, shown: Told
) -> None:
    file = tmp_path / "findings.json"
    printed = shown(main(["audit", "busi", "--questions", str(prepared_tiny), "--split", "train", "--out", str(file)]))
    assert "answered from the words alone" in printed
    assert METHOD in printed
    written = json_of(file)
    assert written["interval_method"] == METHOD
    assert written["benchmark"] == "busi"
    assert {finding["name"] for finding in written["findings"]} >= {"blind_solvability", "patients_in_two_splits"}
    assert main(["audit", "fetal_gauge", "--questions", str(prepared_tiny)]) == 1
    assert "prepared for the benchmark 'busi'" in capsys.readouterr().err


def test_seeds_are_runs_of_their_own_with_one_interval(nano: Nano, tmp_path: Path, refused: Told, shown: Told) -> None:
    out = tmp_path / "series"
    quick = ("train.max_steps=3", "eval.readings=[likelihood]", "train.seed=5", "model.tuning.projector.lr=0.5")
    said = shown(nano.here("run", out, *quick, extra=("--seeds", "2")))
    assert "accuracy over 2 seeds" in said
    assert "Holm's correction over the seeds" in said
    assert SEEDS_METHOD in said
    written = json_of(out / "seeds.json")
    assert written["interval_method"] == SEEDS_METHOD
    assert [run["seed"] for run in written["runs"]] == [5, 6]
    gains = [run["final"] - run["zero_shot"] for run in written["runs"]]
    assert written["gain"]["value"] == pytest.approx(sum(gains) / 2)
    assert written["gain"]["per_seed"] == pytest.approx(gains)
    ci95 = written["gain"]["ci95"]
    assert (gains == [0, 0]) if ci95 is None else (ci95[0] <= written["gain"]["value"] <= ci95[1])
    assert set(written["by"]["task"]) == {"diagnosis", "lesion_localisation", "red_box_grounding"}
    for index, run in enumerate(written["runs"]):
        results = json_of(out / f"seed_{index}" / "results.json")
        assert results["phases"]["final"]["overall"]["value"] == run["final"]
        assert results["gain"]["permutation_p"] == run["permutation_p"]
    lower, higher = sorted((run["permutation_p"], run["permutation_p_holm"]) for run in written["runs"])
    assert lower[1] == pytest.approx(min(1.0, 2 * lower[0]))
    assert higher[1] == pytest.approx(max(lower[1], higher[0]))
    assert "is not empty" in refused(nano.here("run", out, *quick, extra=("--seeds", "2")))
    assert nano.here("run", out, *quick, extra=("--seeds", "2", "--resume")) == 0
    assert json_of(out / "seeds.json") == written
    assert "needs" in shown(main(["power", "--gain", "0.2", "--run", str(out / "seed_0")]))


def in_folds(data: Path, out: Path, *more: str) -> list[str]:
    settings = ["data.benchmark=vqa", f"data.root={data}", *QUICK, "train.max_steps=2", "eval.readings=[likelihood]"]
    return ["run", "nano_busi_lora", "--folds", "3", "--out", str(out), *more, "--set", *settings]


@pytest.mark.slow
def test_folds_are_runs_of_their_own_whose_answers_are_pooled(
    tmp_path: Path, refused: Told, shown: Told, monkeypatch: pytest.MonkeyPatch
) -> None:
    groups: list[str] = []
    build = loggers.build_loggers

    def noted(*arguments: Any, **named: Any) -> list[Any]:
        groups.append(named["group"])
        return build(*arguments, **named)

    monkeypatch.setattr(loggers, "build_loggers", noted)
    data = prepare_own(tmp_path, None, patients=9)
    out = tmp_path / "cv"
    said = shown(main(in_folds(data.root, out)))
    assert groups == ["nano_busi_lora cv"] * 3
    assert "of fold 3 of 3, by patient" in said
    whole = json_of(out / "results.json")
    assert whole["phases"]["final"]["overall"]["n"] == whole["gain"]["n"] == 18
    assert whole["gain"]["num_patients"] == 9
    assert OVER_FOLDS in whole["interval_method"]
    assert whole["interval_method"] in said
    by_fold = whole["phases"]["final"]["by"][FOLD]
    for number in (1, 2, 3):
        alone = json_of(out / f"fold-{number}" / "results.json")
        assert by_fold[f"fold {number}"]["value"] == alone["phases"]["final"]["overall"]["value"]
        assert alone["phases"]["final"]["overall"]["n"] == 6
    report = (out / "report.md").read_text("utf-8")
    assert "in 3 runs what is not in their fold" in report
    # As after a kill in the last fold.
    (out / "fold-3" / "results.json").unlink()
    (out / "results.json").unlink()
    kept = (out / "fold-1" / "results.json").stat().st_mtime_ns
    assert "is not empty" in refused(main(in_folds(data.root, out)))
    assert main(in_folds(data.root, out, "--resume")) == 0
    assert (out / "fold-1" / "results.json").stat().st_mtime_ns == kept
    # What a process did not do itself took it no time.
    assert {**json_of(out / "results.json"), "seconds": whole["seconds"]} == whole
    assert main(["report", str(out)]) == 0
    train = [
        "train",
        *in_folds(data.root, tmp_path / "one")[1:2],
        "--set",
        *in_folds(data.root, out)[7:],
        "data.folds=3",
    ]
    assert "set data.fold=1" in refused(main(train))
    predict = ["predict", str(out), "--from", str(data.root), "--out", str(tmp_path / "answers.csv")]
    assert f"for instance {out / 'fold-1'}" in refused(main(predict))


def test_power_needs_numbers_or_a_run(refused: Told, shown: Told) -> None:
    arguments = ["--baseline", "0.5", "--gain", "0.2", "--questions-per-patient", "10"]
    assert "needs 20 patients for a power of 0.8" in shown(main(["power", *arguments, "--icc", "0.1"]))


@pytest.mark.soak
def test_the_red_box_alone_answers_most_of_the_demos_grounding(tmp_path: Path) -> None:
    """The README has the figures of this test: 0.61 where guessing gives 0.25."""
    assert main(["prepare", "fetal_gauge", "--source", "fetal_phantom", "--out", str(tmp_path / "demo")]) == 0
    out = tmp_path / "findings.json"
    assert main(["audit", "fetal_gauge", "--questions", str(tmp_path / "demo"), "--out", str(out)]) == 0
    found = {each["name"]: each for each in json_of(out)["findings"]}
    box, grey = found["red_box"], found["grey_histogram"]
    assert (round(box["value"], 2), box["chance"], box["n"]) == (0.61, 0.25, 240)
    assert (round(grey["value"], 2), round(grey["chance"], 2), grey["n"]) == (0.58, 0.34, 800)
    assert box["flag"]
    assert grey["flag"]


Write = Callable[..., Path]


@pytest.fixture
def write_run(prepared_tiny: Path, tmp_path: Path) -> Write:
    """Writes a run that answers the first `right` questions correctly and leaves the last `skipped` unanswered."""
    prepared = open_prepared(prepared_tiny)

    def write(name: str, *, right: int, skipped: int = 0) -> Path:
        root = tmp_path / name
        (root / "final").mkdir(parents=True)
        recipe = read_recipe("nano_busi_lora", [f"data.root={prepared_tiny}"])
        (root / "recipe.yaml").write_text(recipe_to_yaml(recipe))
        about = {"data_hash": prepared.data_hash, "provenance": "synthetic", "prompts": "ours"}
        (root / "environment.json").write_text(json.dumps({"recipe": "nano_busi_lora", **about}))
        overall = Level(n=9, unparsable=0, unanswered=0)
        results = ResultsFile(
            benchmark="busi",
            benchmark_version="1.0",
            model="nano_pocket",
            primary=Primary(name="accuracy", higher_is_better=True),
            phases={"final": Phase(parser="robust", overall=overall)},
            data_hash=about["data_hash"],
            provenance="synthetic",
            prompts="ours",
        )
        write_document(root / "results.json", results)
        questions = prepared.questions("test")
        lines = [_line(q, number < right) for number, q in enumerate(questions[: len(questions) - skipped])]
        (root / "final" / "predictions.jsonl").write_text("".join(lines))
        return root

    return write


def _line(question: Question, is_right: bool) -> str:
    said = question.answer if is_right else next(option for option in question.options if option != question.answer)
    return json.dumps({"question_id": question.id, "text": said}) + "\n"


def test_two_runs_are_compared_and_written(write_run: Write, tmp_path: Path, shown: Told) -> None:
    first, second = write_run("one", right=3), write_run("two", right=8, skipped=1)
    out = tmp_path / "out"
    said = shown(main(["compare", str(first), str(second), "--out", str(out)]))
    assert "two (final) against one (final): accuracy on busi 1.0" in said
    assert "Compared: 8 questions that both answered" in said
    assert "1 that only one (final) answered" in said
    assert json_bytes(read_json(out / "compare.json", CompareFile)) == (out / "compare.json").read_bytes()
    written = json_of(out / "compare.json")
    assert written["overall"]["difference"] == pytest.approx(5 / 8)
    assert written["overall"]["mcnemar_p"] == pytest.approx(2 * 0.5**5)
    assert set(written["by_task"]) == {"diagnosis", "lesion_localisation", "red_box_grounding"}
    # The page is the one of several runs, over the comparison that was printed.
    assert "two (final) minus one (final)" in (out / "report.html").read_text()
    assert "| two (final) minus one (final) | 8 |" in (out / "report.md").read_text()


def test_a_report_of_three_runs_pairs_them_with_holms_correction(write_run: Write, tmp_path: Path, shown: Told) -> None:
    runs = [write_run("one", right=0), write_run("two", right=9), write_run("three", right=9)]
    recipe = runs[2] / "recipe.yaml"
    recipe.write_text(recipe.read_text().replace("max_steps: ", "max_steps: 9"))
    shown(main(["report", *map(str, runs), "--out", str(tmp_path / "out")]))
    text = (tmp_path / "out" / "report.md").read_text()
    _, *table = [line for line in text.splitlines() if " minus " in line]
    assert [line.split(" | ")[0] for line in table] == ["| two minus one", "| three minus one", "| three minus two"]
    plain, corrected = (float(cell.strip(" |")) for cell in table[0].split(" | ")[-2:])
    assert corrected == pytest.approx(min(1.0, 3 * plain), abs=0.01)
    assert table[2].split(" | ")[4] == "0.000"
    (setting,) = [line for line in text.splitlines() if line.startswith("| train.max\\_steps")]
    assert len(set(setting.strip("| ").split(" | ")[1:])) == 2


def test_runs_whose_data_are_gone_are_shown_and_not_paired(write_run: Write, tmp_path: Path, shown: Told) -> None:
    runs = [write_run("one", right=0), write_run("two", right=9)]
    shown(main(["report", *map(str, runs), "--out", str(tmp_path / "out"), "--questions", str(tmp_path / "nowhere")]))
    text = (tmp_path / "out" / "report.md").read_text()
    assert "| one |" in text
    assert " minus " not in text
    assert "nowhere" in text


def test_run_against_a_file_of_another_tool(write_run: Write, prepared_tiny: Path, tmp_path: Path, shown: Told) -> None:
    run, file = write_run("one", right=0), tmp_path / "theirs.jsonl"
    file.write_text("".join(_line(question, True) for question in open_prepared(prepared_tiny).questions("test")))
    said = shown(main(["compare", str(run), "--predictions", str(file)]))
    assert "theirs.jsonl against one (final)" in said
    assert "1.000" in next(line for line in said.splitlines() if line.startswith("all questions"))
    assert "theirs.jsonl: Data: synthetic. Prompts: those of the tool that answered." in said
    assert "one (final): Data: synthetic. Prompts: ours." in said


def test_runs_of_one_name_go_by_their_folders(write_run: Write, shown: Told) -> None:
    first, second = write_run("a/run", right=3), write_run("b/run", right=5)
    assert f"{second} against {first}" in shown(main(["compare", str(first), str(second)]))


def test_moved_data_are_named(write_run: Write, prepared_tiny: Path, tmp_path: Path, refused: Told) -> None:
    first, second = write_run("one", right=3), write_run("two", right=5)
    for run in (first, second):
        recipe = read_recipe(str(run / "recipe.yaml"), [f"data.root={tmp_path / 'gone'}"])
        (run / "recipe.yaml").write_text(recipe_to_yaml(recipe))
    assert "gone" in refused(main(["compare", str(first), str(second)]))
    assert main(["compare", str(first), str(second), "--questions", str(prepared_tiny)]) == 0


def test_other_parsers_data_and_questions_are_refused(
    write_run: Write, tmp_path: Path, capsys: Capture, refused: Told
) -> None:
    first, second = write_run("one", right=3), write_run("two", right=5)
    assert "robust, strict" in refused(main(["compare", str(first), str(second), "--parser", "likelihood"]))
    results = json_of(second / "results.json")
    results["phases"]["final"]["parser"] = "strict"
    (second / "results.json").write_text(json.dumps(results))
    assert main(["compare", str(first), str(second)]) == 1
    assert "different parsers: robust and strict; name one that fits both with --parser" in capsys.readouterr().err
    assert main(["compare", str(first), str(second), "--parser", "robust"]) == 0
    file = tmp_path / "other.jsonl"
    file.write_text('{"question_id": "elsewhere", "text": "benign"}\n')
    assert "elsewhere" in refused(main(["compare", str(first), "--predictions", str(file)]))


def test_what_is_missing_is_named(write_run: Write, tmp_path: Path, refused: Told) -> None:
    first, second = write_run("one", right=3), write_run("two", right=5)
    for arguments, message in (
        ([str(first)], "two run folders, or one run folder and --predictions"),
        ([str(first), str(second), "--predictions", "x"], "two run folders, or one run folder and --predictions"),
        ([str(first), str(tmp_path / "none")], "no recipe.yaml"),
        ([str(first), "--predictions", str(tmp_path / "none.jsonl")], "no prediction file"),
        ([str(first), str(second), "--phase", "zero_shot"], "no phase 'zero_shot'; there are: final"),
        ([str(first), str(first)], "two different runs"),
    ):
        assert message in refused(main(["compare", *arguments]))
    (second / "results.json").unlink()
    assert "--resume" in refused(main(["compare", str(first), str(second)]))


DRAWN = ("eval.repeats=3", "eval.temperature=1.5", "eval.readings=[generation]", "eval.conditions=[image]")


def test_a_run_with_repeats_counts_every_reply_and_can_be_compared(
    nano: Nano, tmp_path: Path, capsys: Capture, shown: Told
) -> None:
    run, first = tmp_path / "run", tmp_path / "first.jsonl"
    assert "zero-shot: mean of 3 passes" in shown(nano.here("eval", run, *DRAWN))
    lines = [json.loads(line) for line in (run / "zero_shot" / "parsed.jsonl").read_text().splitlines()]
    right: defaultdict[int, list[bool]] = defaultdict(list)
    for line in lines:
        right[line["repeat"]].append(line["robust"] == line["answer"])
    overall = json_of(run / "results.json")["phases"]["zero_shot"]["overall"]
    assert (overall["n"], overall["repeats"], len(lines)) == (9, 3, 27)
    assert overall["value"] == pytest.approx(sum(map(sum, right.values())) / 27)
    assert "mean of 3 passes" in (run / "report.html").read_text("utf-8")
    said = (run / "zero_shot" / "predictions.jsonl").read_text().splitlines(keepends=True)
    first.write_text("".join(line for line in said if not json.loads(line)["repeat"]))
    capsys.readouterr()
    assert "run (zero-shot): mean of 3 passes." in shown(main(["compare", str(run), "--predictions", str(first)]))
