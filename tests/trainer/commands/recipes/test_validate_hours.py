"""Tests of `medtune validate --probe`, called as on the command line."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from medtune.trainer.commands import validate_hours
from medtune.trainer.commands.cli import main
from medtune.trainer.plan.devices import Devices
from tests.trainer.conftest import QUICK

Capture = pytest.CaptureFixture[str]
PROBE = ("--probe", "--probe-size", "2")


def validated(root: Path, *arguments: str, fields: tuple[str, ...] = ()) -> int:
    return main(["validate", "nano_busi_lora", *PROBE, *arguments, "--set", f"data.root={root}", *QUICK, *fields])


def test_hours_of_another_kind_of_device_are_not_converted(prepared_tiny: Path, capsys: Capture) -> None:
    assert validated(prepared_tiny, "--devices", "2x8xA100-80GB") == 0
    said = capsys.readouterr().out
    assert "counted for the run" in said, "the recipe's own single device, and not sixteen that nobody measured"
    assert "2 x 8 x A100 are another kind of device: these hours hold for CPU and are not converted" in said
    for phase in ("zero-shot", "training", "validations", "final", "audit", "total"):
        assert f"\n  {phase}" in said.split("hours  ")[1]


@pytest.mark.slow
def test_hours_of_the_same_kind_are_stated_for_all_devices(
    prepared_tiny: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    here = Devices(1, "NVIDIA A100-SXM4-80GB", 85.0)
    monkeypatch.setattr(validate_hours, "this_machine", lambda: here)
    assert validated(prepared_tiny, "--devices", "2x8xA100-80GB") == 0
    said = capsys.readouterr().out
    assert "counted for each of 16 devices like it" in said
    assert "another kind" not in said


@pytest.mark.parametrize(
    ("arguments", "fields", "message"),
    [
        (("--no-weights",), (), "--probe runs the model, so that it needs the weights: leave out --no-weights"),
        (("--probe-size", "1"), (), "--probe-size is 1; it takes at least 2"),
    ],
)
def test_a_probe_that_cannot_run_is_refused(
    arguments: tuple[str, ...], fields: tuple[str, ...], message: str, prepared_tiny: Path, capsys: Capture
) -> None:
    assert validated(prepared_tiny, *arguments, fields=fields) == 1
    assert message in capsys.readouterr().err


def test_a_served_model_has_no_hours_here(capsys: Capture) -> None:
    assert main(["validate", "endpoint_fetal_gauge", "--probe"]) == 1
    assert "this one is behind an endpoint, whose speed is the server's own" in capsys.readouterr().err


def test_a_launcher_is_refused(prepared_tiny: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RANK", "1")
    monkeypatch.setenv("WORLD_SIZE", "2")
    assert validated(prepared_tiny) == 1
    assert "start the command once, without torchrun or srun" in capsys.readouterr().err


def test_without_data_or_weights_nothing_is_probed(tmp_path: Path, prepared_tiny: Path, capsys: Capture) -> None:
    assert validated(tmp_path / "nowhere") == 1
    said = capsys.readouterr().out
    assert "hours: nothing could be probed without what is missing above" in said
    assert "probing " not in said
    fields = (f"model.weights={tmp_path / 'no_weights'}", "model.name=qwen25vl_7b")
    assert validated(prepared_tiny, fields=fields) == 1
    said = capsys.readouterr().out
    assert "hours: nothing could be probed without what is missing above" in said
    assert "weights: " in said


def test_a_probe_that_does_not_fit_says_so(
    prepared_tiny: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(validate_hours, "this_machine", lambda: Devices(1, "Tiny", 0.001))
    assert validated(prepared_tiny, "--devices", "1xA100-80GB") == 1
    assert "hours: the probe runs in one process, which needs" in capsys.readouterr().out


@pytest.mark.soak
def test_a_signal_ends_the_probe_and_leaves_nothing(prepared_tiny: Path, tmp_path: Path) -> None:
    scratch = tmp_path / "tmp"
    scratch.mkdir()
    arguments = [
        "validate",
        "nano_busi_lora",
        "--probe",
        "--probe-size",
        "500",
        "--set",
        f"data.root={prepared_tiny}",
        *QUICK,
    ]
    with subprocess.Popen(
        [sys.executable, "-m", "medtune", *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        cwd=tmp_path,
        env={**os.environ, "PYTHONUNBUFFERED": "1", "TMPDIR": str(scratch)},
    ) as process:
        until = time.monotonic() + 300
        while not list(scratch.glob("medtune-probe-*/stage_1/checkpoints")) and time.monotonic() < until:
            assert process.poll() is None, process.communicate()[0][-2000:]
            time.sleep(0.1)
        time.sleep(1)
        process.send_signal(signal.SIGTERM)
        output, _ = process.communicate(timeout=300)
    assert process.returncode == 130, output[-2000:]
    assert not list(scratch.glob("medtune-probe-*"))
