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
from medtune.data.prepared.manifest import read_manifest, write_manifest
from medtune.data.prepared.read import open_prepared
from medtune.data.prepared.splits import Division
from medtune.data.prepared.tables import map_table, read_media, read_questions, write_tables
from medtune.data.prepared.write import prepare
from medtune.data.types import Split
from medtune.eval.learnt import UNKNOWN, Learnt, asked_again, comparable, learnt_from, looks_learnt, read_learnt
from medtune.models.weights.checkpoint import read_about
from medtune.trainer.commands.cli import main
from medtune.trainer.runs.run_folder import RunFolder
from tests.data.prepared.content.scans import body, prepared, write_bodies, write_forms
from tests.examples import write_example
from tests.trainer.conftest import QUICK, Capture, Nano, Told, json_of
from tests.twins import write_twins

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


@pytest.fixture(scope="module")
def broken_off(tiny_busi: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with prepared images, tiny, and a run on them without its end."""
    folder = tmp_path_factory.mktemp("broken_off")
    prepare(find_source("busi"), benchmark="busi", root=tiny_busi, out=folder / "tiny", seed=0)
    assert _run("run", folder / "run", folder / "tiny") == 0
    _unfinished(folder / "run")
    return folder


@pytest.fixture
def begun(broken_off: Path, tmp_path: Path) -> tuple[Path, Path]:
    """The prepared folder and the run, to be changed."""
    shutil.copytree(broken_off, tmp_path, dirs_exist_ok=True)
    return tmp_path / "tiny", tmp_path / "run"


def test_data_that_were_prepared_anew_are_refused_with_what_changed(
    begun: tuple[Path, Path], data: Callable[[str, int], Path], refused: Told
) -> None:
    root, out = begun
    data("tiny", 1)
    said = refused(_run("run", out, root, extra=("--resume",)))
    assert "data.root: data hash" in said
    assert "seed 0 before and 1 now" in said
    assert "--accept-changed-data" in said
    assert not (out / "results.json").exists()


def test_accepted_data_are_named_in_every_output(
    begun: tuple[Path, Path], data: Callable[[str, int], Path], capsys: Capture
) -> None:
    root, out = begun
    learnt = {q.patient_id for q in open_prepared(root).questions("train")}
    data("tiny", 1)
    asked = {q.patient_id for q in open_prepared(root).questions("test")}
    assert _run("run", out, root, extra=("--resume", "--accept-changed-data")) == 0
    results = json_of(out / "results.json")
    assert "after step 2: data.root: data hash" in results["changed_data"]
    assert results["seen_in_training"].startswith(f"{len(asked & learnt)} of the {len(asked)} evaluated patients")
    assert "the data changed: after step 2" in capsys.readouterr().out
    for report in ("report.html", "report.md"):
        assert "Data changed during the run" in (out / report).read_text()
    assert (out / "zero_shot.before_change_1" / "predictions.jsonl").is_file(), "earlier answers are put aside"
    assert RunFolder(out).recorded_label().changed_data == results["changed_data"]
    assert main(["report", str(out)]) == 0


def test_a_changed_training_set_of_a_mixture_is_refused(
    data: Callable[[str, int], Path], tmp_path: Path, refused: Told
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
    apart = Division(split_lookalikes=True)
    prepare(find_source("busi"), benchmark="busi", root=more, out=tmp_path / "more", seed=0, division=apart)
    folders = ", ".join(f"{{root: {each}, benchmark: busi}}" for each in (root, tmp_path / "more"))
    both = (f"data.mixture=[{folders}]", "data.allow_lookalikes=true")
    assert _run("run", out, root, *both) == 0
    _unfinished(out)
    prepare(find_source("busi"), benchmark="busi", root=more, out=tmp_path / "more", seed=5, division=apart)
    said = refused(_run("run", out, root, *both, extra=("--resume",)))
    assert "data.mixture.0: data hash" in said
    assert "seed 0 before and 5 now" in said


def test_edited_tables_are_refused_though_the_manifest_says_the_same(begun: tuple[Path, Path], refused: Told) -> None:
    root, out = begun
    questions = list(read_questions([map_table(root / "questions.arrow")]))
    questions[0] = replace(questions[0], answer=questions[1].answer, text="another question")
    manifest = read_manifest(root)
    write_tables(root, questions, list(read_media(map_table(root / "media.arrow"))))
    assert "questions.arrow: this table is not as it was" in refused(_run("run", out, root, extra=("--resume",)))
    write_manifest(root, manifest)
    assert "the questions, answers, splits or media differ" in refused(_run("run", out, root, extra=("--resume",)))


SHORT_OF_PATIENTS = ("train.max_steps=1", "eval.every_steps=1", "eval.val_questions=2")


@pytest.fixture(scope="module")
def trained(prepared_tiny: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("trained") / "run"
    assert Nano(prepared_tiny).here("train", out, *SHORT_OF_PATIENTS) == 0
    return out


@pytest.fixture(scope="module")
def prepared_anew(tiny_busi: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same images, divided with another seed."""
    out = tmp_path_factory.mktemp("anew") / "tiny"
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CONFIG_HOME", str(tmp_path_factory.getbasetemp() / "config"))
        prepare(find_source("busi"), benchmark="busi", root=tiny_busi, out=out, seed=1)
    return out


def _results(run: Path) -> dict[str, object]:
    found: dict[str, object] = json_of(run / "results.json")
    return found


def _learnt(folder: Path) -> Learnt:
    prepared = open_prepared(folder)
    return learnt_from(prepared.groups("train"), prepared.contents, prepared.looks)


def test_a_checkpoint_names_the_patients_and_media_of_its_training(trained: Path, prepared_tiny: Path) -> None:
    learnt = read_learnt(read_about(trained / "checkpoints" / "best.safetensors"))
    assert learnt == _learnt(prepared_tiny)
    assert learnt is not None
    assert len(learnt.patients) == len({q.patient_id for q in open_prepared(prepared_tiny).questions("train")})


def test_another_split_of_the_same_data_is_flagged_everywhere(
    trained: Path, prepared_tiny: Path, prepared_anew: Path, tmp_path: Path, capsys: Capture
) -> None:
    learnt = {q.patient_id for q in open_prepared(prepared_tiny).questions("train")}
    asked = open_prepared(prepared_anew).questions("test")
    seen = [q for q in asked if q.patient_id in learnt]
    patients, of = ({q.patient_id for q in each} for each in (seen, asked))
    assert seen
    out = tmp_path / "evaluated"
    limits = ["eval.conditions=[image]", "eval.readings=[likelihood]", "log.wandb=disabled"]
    status = main(["eval", str(trained), "--out", str(out), "--set", f"data.root={prepared_anew}", *limits])
    assert status == 0
    words = (
        f"{len(patients)} of the {len(of)} evaluated patients and {len(seen)} of the {len(asked)} questions about them"
    )
    assert _results(out)["seen_in_training"] == words
    assert f"trained on before: {words}" in capsys.readouterr().out
    for report in ("report.html", "report.md"):
        assert "Evaluated on patients of its training" in (out / report).read_text(), report
        assert words in (out / report).read_text(), report


def test_copies_under_new_names_of_what_was_trained_on_are_marked_everywhere(
    trained: Path, tiny_busi: Path, tmp_path: Path, capsys: Capture
) -> None:
    """No image and no patient is the same: only the perceptual hashes, which the weights carry, know them again."""
    raw, asked, out = write_twins(tiny_busi, tmp_path / "raw"), tmp_path / "asked", tmp_path / "out"
    prepare(find_source("busi"), benchmark="busi", root=raw, out=asked)
    groups, known = (
        open_prepared(asked).groups("train"),
        read_learnt(read_about(trained / "checkpoints/best.safetensors")),
    )
    assert known is not None
    assert asked_again(known, groups, open_prepared(asked).contents) == ""
    words = looks_learnt(known, groups, open_prepared(asked))
    assert re.match(r"[1-9]\d* of the \d+ evaluated media look like media that the weights were trained on", words)
    limits = ["eval.split=train", "eval.conditions=[image]", "eval.readings=[likelihood]", "log.wandb=disabled"]
    assert main(["eval", str(trained), "--out", str(out), "--set", f"data.root={asked}", *limits]) == 0
    assert f"look-alikes: {words}" in capsys.readouterr().out
    assert _results(out)["learnt_lookalikes"] == words
    assert words in (out / "report.md").read_text()


@pytest.mark.parametrize("form", ["scan.nii", "scaled.nii.gz", "series"])
def test_a_learnt_scan_is_known_again_in_another_format(form: str, tmp_path: Path) -> None:
    forms = write_forms(tmp_path / "forms", body(0))
    splits: tuple[Split, ...] = ("train", "train", "val", "test")
    learnt = prepared([forms["scan.nii.gz"], *write_bodies(tmp_path / "a", (1, 2, 3))], splits, tmp_path / "learnt")
    asked = prepared([*write_bodies(tmp_path / "b", (4, 5, 6)), forms[form]], splits, tmp_path / "asked")
    known = learnt_from(learnt.groups("train"), learnt.contents, learnt.looks)
    words = "1 of the 1 evaluated patients and 1 of the 1 questions about them"
    assert asked_again(known, asked.groups("test"), asked.contents) == words
    assert asked_again(known, asked.groups("val"), asked.contents) == ""


def test_what_an_earlier_training_did_not_record_stays_unknown() -> None:
    learnt = Learnt(frozenset(["a" * 16])).joined([UNKNOWN])
    again = read_learnt(learnt.facts())
    assert again == learnt
    assert again is not None
    assert not comparable(again)
    assert comparable(Learnt())


def test_patients_of_another_key_are_not_called_clean() -> None:
    assert not comparable(Learnt(frozenset(["a" * 16]), keys=frozenset(["b" * 16])))


def test_the_own_test_split_is_not_flagged(trained: Path, prepared_tiny: Path, tmp_path: Path) -> None:
    out = tmp_path / "evaluated"
    limits = ["eval.conditions=[image]", "eval.readings=[likelihood]", "log.wandb=disabled"]
    assert main(["eval", str(trained), "--out", str(out), "--set", *limits]) == 0
    assert "seen_in_training" not in _results(out)


def test_training_on_from_a_checkpoint_remembers_both_trainings(
    nano: Nano, trained: Path, prepared_anew: Path, tmp_path: Path
) -> None:
    out = tmp_path / "second"
    best = trained / "checkpoints" / "best.safetensors"
    assert Nano(prepared_anew).here("train", out, *SHORT_OF_PATIENTS, f"model.checkpoint={best}") == 0
    first, both = (read_learnt(read_about(run / "checkpoints" / "best.safetensors")) for run in (trained, out))
    assert first is not None
    assert both == _learnt(prepared_anew).joined([first])


def test_a_checkpoint_that_does_not_say_is_not_called_clean(
    nano: Nano, trained: Path, tmp_path: Path, capsys: Capture
) -> None:
    from safetensors.torch import load_file, save_file

    best = trained / "checkpoints" / "best.safetensors"
    about = {name: text for name, text in read_about(best).items() if not name.startswith("learnt_")}
    older = tmp_path / "older.safetensors"
    save_file(load_file(best), older, metadata={"format": "pt", "medtune": json.dumps(about)})
    out = tmp_path / "evaluated"
    limits = ("eval.conditions=[image]", "eval.readings=[likelihood]")
    assert nano.here("eval", out, f"model.checkpoint={older}", *limits) == 0
    assert _results(out)["seen_in_training"] == "not recorded"
    assert "Training patients not recorded" in (out / "report.md").read_text()
