"""Tests of `medtune compare` on run folders that the tests write themselves."""

import json
import xml.etree.ElementTree as ET
from collections.abc import Callable
from pathlib import Path

import pytest

from medtune.data.prepared.read import open_prepared
from medtune.data.types import Question
from medtune.eval.comparing.compare_file import CompareFile
from medtune.eval.results.phase_schema import Level, Phase
from medtune.eval.results.schema import Primary, ResultsFile
from medtune.eval.results.typed_json import json_bytes, read_json, write_document
from medtune.trainer.commands.cli import main
from medtune.trainer.recipe.read import read_recipe, recipe_to_yaml

Capture = pytest.CaptureFixture[str]
Write = Callable[..., Path]


@pytest.fixture
def write_run(prepared_tiny: Path, tmp_path: Path) -> Write:
    """Writes a run that answers the first `right` questions correctly and leaves the last `skipped` unanswered."""
    prepared = open_prepared(prepared_tiny)

    def write(name: str, *, right: int, skipped: int = 0, version: str = "1.0", data_hash: str | None = None) -> Path:
        root = tmp_path / name
        (root / "final").mkdir(parents=True)
        recipe = read_recipe("nano_busi_lora", [f"data.root={prepared_tiny}"])
        (root / "recipe.yaml").write_text(recipe_to_yaml(recipe))
        about = {"data_hash": data_hash or prepared.data_hash, "provenance": "synthetic", "prompts": "ours"}
        (root / "environment.json").write_text(json.dumps({"recipe": "nano_busi_lora", **about}))
        overall = Level(n=9, unparsable=0, unanswered=0)
        results = ResultsFile(
            benchmark="busi",
            benchmark_version=version,
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


def test_two_runs_are_compared_and_written(write_run: Write, tmp_path: Path, capsys: Capture) -> None:
    first, second = write_run("one", right=3), write_run("two", right=8, skipped=1)
    out = tmp_path / "out"
    assert main(["compare", str(first), str(second), "--out", str(out)]) == 0
    said = capsys.readouterr().out
    assert "two (final) against one (final): accuracy on busi 1.0" in said
    assert "Compared: 8 questions that both answered" in said
    assert "1 that only one (final) answered" in said
    assert json_bytes(read_json(out / "compare.json", CompareFile)) == (out / "compare.json").read_bytes()
    written = json.loads((out / "compare.json").read_text())
    assert written["overall"]["difference"] == pytest.approx(5 / 8)
    assert written["overall"]["mcnemar_p"] == pytest.approx(2 * 0.5**5)
    assert set(written["by_task"]) == {"diagnosis", "lesion_localisation", "red_box_grounding"}
    assert "compare.svg" in (out / "compare.md").read_text()
    ET.fromstring((out / "compare.svg").read_text())


def test_run_against_a_file_of_another_tool(
    write_run: Write, prepared_tiny: Path, tmp_path: Path, capsys: Capture
) -> None:
    run, file = write_run("one", right=0), tmp_path / "theirs.jsonl"
    file.write_text("".join(_line(question, True) for question in open_prepared(prepared_tiny).questions("test")))
    assert main(["compare", str(run), "--predictions", str(file)]) == 0
    said = capsys.readouterr().out
    assert "theirs.jsonl against one (final)" in said
    assert "1.000" in next(line for line in said.splitlines() if line.startswith("all questions"))
    assert "theirs.jsonl: Data: synthetic. Prompts: those of the tool that answered." in said
    assert "one (final): Data: synthetic. Prompts: ours." in said


def test_runs_of_one_name_go_by_their_folders(write_run: Write, capsys: Capture) -> None:
    first, second = write_run("a/run", right=3), write_run("b/run", right=5)
    assert main(["compare", str(first), str(second)]) == 0
    assert f"{second} against {first}" in capsys.readouterr().out


def test_moved_data_are_named(write_run: Write, prepared_tiny: Path, tmp_path: Path, capsys: Capture) -> None:
    first, second = write_run("one", right=3), write_run("two", right=5)
    for run in (first, second):
        recipe = read_recipe(str(run / "recipe.yaml"), [f"data.root={tmp_path / 'gone'}"])
        (run / "recipe.yaml").write_text(recipe_to_yaml(recipe))
    assert main(["compare", str(first), str(second)]) == 1
    assert "gone" in capsys.readouterr().err
    assert main(["compare", str(first), str(second), "--questions", str(prepared_tiny)]) == 0


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"version": "0.9"}, "different benchmarks: busi 1.0 and busi 0.9"),
        ({"data_hash": "ab" * 32}, "different data"),
    ],
)
def test_unlike_runs_are_refused(write_run: Write, capsys: Capture, change: dict[str, str], message: str) -> None:
    first, second = write_run("one", right=3), write_run("two", right=5, **change)
    assert main(["compare", str(first), str(second)]) == 1
    assert message in capsys.readouterr().err


def test_other_parsers_data_and_questions_are_refused(write_run: Write, tmp_path: Path, capsys: Capture) -> None:
    first, second = write_run("one", right=3), write_run("two", right=5)
    assert main(["compare", str(first), str(second), "--parser", "likelihood"]) == 1
    assert "robust, strict" in capsys.readouterr().err
    results = json.loads((second / "results.json").read_text())
    results["phases"]["final"]["parser"] = "strict"
    (second / "results.json").write_text(json.dumps(results))
    assert main(["compare", str(first), str(second)]) == 1
    assert "different parsers: robust and strict; name one that fits both with --parser" in capsys.readouterr().err
    assert main(["compare", str(first), str(second), "--parser", "robust"]) == 0
    file = tmp_path / "other.jsonl"
    file.write_text('{"question_id": "elsewhere", "text": "benign"}\n')
    assert main(["compare", str(first), "--predictions", str(file)]) == 1
    assert "elsewhere" in capsys.readouterr().err


def test_what_is_missing_is_named(write_run: Write, tmp_path: Path, capsys: Capture) -> None:
    first, second = write_run("one", right=3), write_run("two", right=5)
    for arguments, message in (
        ([str(first)], "two run folders, or one run folder and --predictions"),
        ([str(first), str(second), "--predictions", "x"], "two run folders, or one run folder and --predictions"),
        ([str(first), str(tmp_path / "none")], "no recipe.yaml"),
        ([str(first), "--predictions", str(tmp_path / "none.jsonl")], "no prediction file"),
        ([str(first), str(second), "--phase", "zero_shot"], "no phase 'zero_shot'; there are: final"),
        ([str(first), str(first)], "two different runs"),
    ):
        assert main(["compare", *arguments]) == 1
        assert message in capsys.readouterr().err
    (second / "results.json").unlink()
    assert main(["compare", str(first), str(second)]) == 1
    assert "--resume" in capsys.readouterr().err
