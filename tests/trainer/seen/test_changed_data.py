"""Tests that a run does not go on with other data than it began with, unless the user says so."""

import json
import re
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import PIL.Image
import pytest

from medtune.benchmarks import find_source
from medtune.data.prepared.read import open_prepared
from medtune.data.prepared.tables import map_table, read_media, read_questions, write_tables
from medtune.data.prepared.write import prepare
from medtune.trainer.commands.cli import main
from medtune.trainer.experiment.run_folder import RunFolder
from tests.examples import write_example
from tests.trainer.conftest import QUICK

SHORT = (*QUICK[:1], "train.max_steps=2", "eval.every_steps=1", "eval.val_questions=2", "eval.max_new_tokens=2",
         "eval.readings=[likelihood]", "eval.conditions=[image]")  # fmt: skip


@pytest.fixture
def data(tiny_busi: Path, tmp_path: Path) -> Callable[[str, int], Path]:
    """Prepares the images into a folder of that name, divided by that seed."""

    def make(name: str, seed: int) -> Path:
        prepare(find_source("busi"), benchmark="busi", root=tiny_busi, out=tmp_path / name, seed=seed)
        return tmp_path / name

    return make


def _run(command: str, out: Path, root: Path, *further: str, extra: tuple[str, ...] = ()) -> int:
    return main([command, "nano_busi_lora", "--out", str(out), "--set", f"data.root={root}", *SHORT, *further, *extra])


def _unfinished(out: Path) -> None:
    """Takes from a finished run what it made after its last state, as if it had been killed then."""
    for name in ("results.json", "report.html", "report.md", "audit.json"):
        (out / name).unlink(missing_ok=True)
    shutil.rmtree(out / "final")


def test_data_that_were_prepared_anew_are_refused_with_what_changed(
    data: Callable[[str, int], Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    root, out = data("tiny", 0), tmp_path / "run"
    assert _run("run", out, root) == 0
    _unfinished(out)
    data("tiny", 1)
    assert _run("run", out, root, extra=("--resume",)) == 1
    said = capsys.readouterr().err
    assert "data.root: data hash" in said
    assert "seed 0 before and 1 now" in said
    assert "--accept-changed-data" in said
    assert not (out / "results.json").exists()


def test_accepted_data_are_named_in_every_output(
    data: Callable[[str, int], Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    root, out = data("tiny", 0), tmp_path / "run"
    assert _run("run", out, root) == 0
    learnt = {q.patient_id for q in open_prepared(root).questions("train")}
    _unfinished(out)
    data("tiny", 1)
    asked = {q.patient_id for q in open_prepared(root).questions("test")}
    assert _run("run", out, root, extra=("--resume", "--accept-changed-data")) == 0
    results = json.loads((out / "results.json").read_text())
    assert "after step 2: data.root: data hash" in results["changed_data"]
    assert results["seen_in_training"].startswith(f"{len(asked & learnt)} of the {len(asked)} evaluated patients")
    assert "the data changed: after step 2" in capsys.readouterr().out
    for report in ("report.html", "report.md"):
        assert "Data changed during the run" in (out / report).read_text()
    assert (out / "zero_shot.before_change_1" / "predictions.jsonl").is_file(), "earlier answers are put aside"
    assert RunFolder(out).recorded_label().changed_data == results["changed_data"]
    assert main(["report", str(out)]) == 0


def test_a_changed_training_set_of_a_mixture_is_refused(
    data: Callable[[str, int], Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    root, out = data("tiny", 0), tmp_path / "run"
    # Two sets of one source with different patients: its numbers go on where the others end.
    more = tmp_path / "more_raw"
    write_example("busi", more)
    for path in sorted(more.rglob("*.png")):
        number = int(re.findall(r"\d+", path.name)[0])
        image = PIL.Image.open(path)
        turned = image.transpose(PIL.Image.Transpose.ROTATE_90).resize((image.height + number, image.width))
        turned.save(path.with_name(re.sub(r"\((\d+)\)", lambda found: f"({int(found[1]) + 1000})", path.name)))
        path.unlink()
    prepare(find_source("busi"), benchmark="busi", root=more, out=tmp_path / "more", seed=0, split_lookalikes=True)
    folders = ", ".join(f"{{root: {each}, benchmark: busi}}" for each in (root, tmp_path / "more"))
    both = (f"data.mixture=[{folders}]", "data.allow_lookalikes=true")
    assert _run("run", out, root, *both) == 0
    _unfinished(out)
    prepare(find_source("busi"), benchmark="busi", root=more, out=tmp_path / "more", seed=5, split_lookalikes=True)
    assert _run("run", out, root, *both, extra=("--resume",)) == 1
    said = capsys.readouterr().err
    assert "data.mixture.0: data hash" in said
    assert "seed 0 before and 5 now" in said


def test_edited_tables_are_refused_though_the_manifest_says_the_same(
    data: Callable[[str, int], Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    root, out = data("tiny", 0), tmp_path / "run"
    assert _run("run", out, root) == 0
    _unfinished(out)
    questions = list(read_questions(map_table(root / "questions.arrow")))
    questions[0] = replace(questions[0], answer=questions[1].answer, text="another question")
    write_tables(root, questions, list(read_media(map_table(root / "media.arrow"))))
    assert _run("run", out, root, extra=("--resume",)) == 1
    assert "the questions, answers, splits or media differ" in capsys.readouterr().err


def test_accepting_needs_a_run_that_goes_on(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert _run("run", tmp_path / "run", tmp_path, extra=("--accept-changed-data",)) == 1
    assert "--accept-changed-data is for a run that goes on" in capsys.readouterr().err
