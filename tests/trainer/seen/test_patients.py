"""Tests that a model is never evaluated without a word on patients that it was trained on."""

import json
from pathlib import Path

import pytest

from medtune.benchmarks import find_source
from medtune.data.prepared.read import open_prepared
from medtune.data.prepared.write import prepare
from medtune.models.weights.checkpoint import read_about
from medtune.trainer.commands.cli import main
from medtune.trainer.seen import UNKNOWN, Learnt, comparable, learnt_from, read_learnt
from tests.trainer.conftest import Nano

SHORT = ("train.max_steps=1", "eval.every_steps=1", "eval.val_questions=2")


@pytest.fixture(scope="module")
def trained(prepared_tiny: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("trained") / "run"
    assert Nano(prepared_tiny).here("train", out, *SHORT) == 0
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
    found: dict[str, object] = json.loads((run / "results.json").read_text())
    return found


def _learnt(folder: Path) -> Learnt:
    prepared = open_prepared(folder)
    return learnt_from(prepared.groups("train"), prepared.contents)


def test_a_checkpoint_names_the_patients_and_media_of_its_training(trained: Path, prepared_tiny: Path) -> None:
    learnt = read_learnt(read_about(trained / "checkpoints" / "best.safetensors"))
    assert learnt == _learnt(prepared_tiny)
    assert learnt is not None
    assert len(learnt.patients) == len({q.patient_id for q in open_prepared(prepared_tiny).questions("train")})


def test_another_split_of_the_same_data_is_flagged_everywhere(
    trained: Path, prepared_tiny: Path, prepared_anew: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
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
    assert Nano(prepared_anew).here("train", out, *SHORT, f"model.checkpoint={best}") == 0
    first, both = (read_learnt(read_about(run / "checkpoints" / "best.safetensors")) for run in (trained, out))
    assert first is not None
    assert both == _learnt(prepared_anew).joined([first])


def test_a_checkpoint_that_does_not_say_is_not_called_clean(
    nano: Nano, trained: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
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
