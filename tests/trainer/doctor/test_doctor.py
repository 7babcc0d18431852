"""Tests the command `medtune doctor`, and that the first run of a checkpoint asks for it."""

import shutil
from pathlib import Path

import pytest
from safetensors.torch import load_file, save_file

from medtune.eval.report.run_data import read_run
from medtune.models.nano.transformers_vlm import write_nano
from medtune.models.transformers_vlm.blank_media import blank_image
from medtune.models.weights.folder_hash import weights_hash
from medtune.models.zoo.nano_any_size import build_qwen25vl
from medtune.trainer.commands.cli import main
from medtune.trainer.experiment.experiment import Experiment
from medtune.trainer.runs.run_folder import RunFolder
from tests.trainer.conftest import QUICK, Capture, Told, json_of

NAMES = {
    "weights", "adapter", "template", "image tokens", "end token", "positions", "pixels", "option order", "options",
    "answers are hidden", "media are seen", "replies", "sharing", "template leaks",
}  # fmt: skip


@pytest.fixture
def checkpoint(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A reduced checkpoint of Qwen2.5-VL in a folder, and an empty cache."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    folder = tmp_path / "checkpoint"
    folder.mkdir()
    write_nano(build_qwen25vl(), folder, seed=0)
    return folder


def _settings(data: Path, checkpoint: Path) -> list[str]:
    own = [f"data.root={data}", "model.name=qwen25vl_7b", f"model.weights={checkpoint}", "train.precision=32-true"]
    return ["nano_busi_lora", "--set", *own, *QUICK, "train.max_steps=2", "eval.conditions=[image]"]


def test_the_command_says_pass_or_fail_of_every_check(
    prepared_tiny: Path, checkpoint: Path, tmp_path: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = tmp_path / "told" / "doctor.json"
    arguments = ["doctor", *_settings(prepared_tiny, checkpoint)]
    assert main([*arguments, "--out", str(out)]) == 0
    told = json_of(out)
    assert {check["name"] for check in told["checks"]} == NAMES
    assert {check["name"] for check in told["checks"] if check["passed"] is None} == {"adapter"}
    # The test split has no more.
    assert told["questions"] == 9
    shown = capsys.readouterr().out
    assert "pass  options " in shown
    assert "verified on a CPU in 32-true" in shown
    monkeypatch.setattr(
        "medtune.models.transformers_vlm.sequences.blank_image", lambda width, height: blank_image(28, 28)
    )
    assert main(arguments) == 1
    assert "FAIL  image tokens" in capsys.readouterr().out


@pytest.mark.slow
def test_a_run_keeps_the_proof_and_the_report_states_it(
    prepared_tiny: Path, checkpoint: Path, tmp_path: Path, shown: Told
) -> None:
    out = tmp_path / "run"
    assert "pass  options " in shown(main(["run", *_settings(prepared_tiny, checkpoint), "--out", str(out)]))
    doctor = read_run(out).doctor
    assert doctor is not None
    assert doctor.passed
    assert doctor.weights_hash == weights_hash(checkpoint)
    for name in ("report.html", "report.md"):
        assert "verified on a CPU in 32-true, with medtune" in (out / name).read_text()
    trained = f"model.checkpoint={out / 'checkpoints' / 'best.safetensors'}"
    assert "pass  adapter" in shown(main(["doctor", *_settings(prepared_tiny, checkpoint), trained]))
    again = f"model.adapter={out / 'checkpoints' / 'adapter'}"
    # The weights are compared with their files before the adapter changes them.
    assert "pass  weights" in shown(main(["doctor", *_settings(prepared_tiny, checkpoint), again]))


@pytest.fixture
def begun(monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    """Leaves out everything that a run does behind the proof; holds the folders of the runs that got there."""
    folders: list[Path] = []

    def begin(experiment: Experiment) -> int:
        folders.append(experiment.folder.root)
        return 0

    monkeypatch.setattr("medtune.trainer.experiment.run.run", begin)
    return folders


def test_the_first_run_of_a_checkpoint_is_proven_once(
    prepared_tiny: Path, checkpoint: Path, tmp_path: Path, shown: Told, begun: list[Path]
) -> None:
    first, second = tmp_path / "first", tmp_path / "second"
    assert "pass  options " in shown(main(["run", *_settings(prepared_tiny, checkpoint), "--out", str(first)]))
    moved = checkpoint.rename(tmp_path / "moved")
    said = shown(main(["run", *_settings(prepared_tiny, moved), "--out", str(second)]))
    assert "pass  options " not in said
    assert "doctor: verified on a CPU" in said
    assert RunFolder(second).doctor.read_text() == RunFolder(first).doctor.read_text()
    assert begun == [first, second]


def test_a_checkpoint_that_is_not_proven_stops_the_run(
    prepared_tiny: Path,
    checkpoint: Path,
    tmp_path: Path,
    capsys: Capture,
    shown: Told,
    monkeypatch: pytest.MonkeyPatch,
    begun: list[Path],
) -> None:
    out = tmp_path / "run"
    arguments = ["run", *_settings(prepared_tiny, checkpoint), "--out", str(out)]
    with monkeypatch.context() as patch:
        patch.setattr(
            "medtune.models.transformers_vlm.sequences.blank_image", lambda width, height: blank_image(28, 28)
        )
        assert main(arguments) == 1
        said = capsys.readouterr().out
        assert "FAIL  image tokens" in said
        assert "the run stops here" in said
        assert begun == []
    # A run that stopped is asked again when it is continued; one that was proven is not.
    assert "pass  image tokens" in shown(main([*arguments, "--resume"]))
    assert "doctor" not in shown(main([*arguments, "--resume"]))
    assert begun == [out, out]


def test_models_without_a_checkpoint_are_not_asked(
    prepared_tiny: Path, checkpoint: Path, tmp_path: Path, capsys: Capture, begun: list[Path]
) -> None:
    nano, unproven = tmp_path / "nano", tmp_path / "unproven"
    own = ["nano_busi_lora", "--set", f"data.root={prepared_tiny}", *QUICK]
    assert main(["run", *own, "--out", str(nano)]) == 0
    assert main(["run", *_settings(prepared_tiny, checkpoint), "--no-doctor", "--out", str(unproven)]) == 0
    assert "doctor" not in capsys.readouterr().out
    assert begun == [nano, unproven]
    assert not RunFolder(unproven).doctor.exists()


def test_a_copied_folder_has_the_same_hash_and_other_weights_another(checkpoint: Path, tmp_path: Path) -> None:
    own = weights_hash(checkpoint)
    assert weights_hash(Path(shutil.copytree(checkpoint, tmp_path / "copy"))) == own
    path = checkpoint / "model.safetensors"
    tensors = load_file(path)
    changed = {name: tensor * 1.5 for name, tensor in tensors.items()}
    save_file(changed, path, metadata={"format": "pt"})
    assert weights_hash(checkpoint) != own
