"""`--slurm` writes a script and submits it once; a job that is queued again goes on with its own run."""

import json
import os
import shlex
import signal
import subprocess
from pathlib import Path

import pytest

from medtune.trainer.commands.cli import main
from medtune.trainer.launch.slurm import claim, queue_again, slurm_job
from tests.ranks import medtune_forked
from tests.trainer.launch.started_ranks import arguments, job

JOB = "nodes=2,gpus=8,time=24:00:00,partition=long"


@pytest.fixture
def programs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder first on PATH, for programs that stand in for SLURM's; it notes how each is called."""
    folder = tmp_path / "programs"
    folder.mkdir()
    monkeypatch.setenv("PATH", f"{folder}{os.pathsep}{os.environ['PATH']}")
    return folder


def stand_in(folder: Path, name: str, body: str = "") -> Path:
    path = folder / name
    path.write_text(f'#!/bin/bash\necho "$@" >> {shlex.quote(str(folder / name))}.calls\n{body}\n')
    path.chmod(0o755)
    return folder / f"{name}.calls"


def test_dry_prints_a_script_that_bash_reads(
    prepared_tiny: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "a run"
    assert main(arguments("run", prepared_tiny, out, extra=("--slurm", JOB, "--dry"))) == 0
    script = capsys.readouterr().out
    assert not out.exists(), "--dry writes nothing"
    assert subprocess.run(["bash", "-n"], input=script, text=True, check=False).returncode == 0
    for line in ("nodes=2", "ntasks-per-node=1", "gpus-per-node=8", "time=24:00:00", "partition=long", "requeue",
                 "open-mode=append", "signal=USR2@120"):  # fmt: skip
        assert f"#SBATCH --{line}\n" in script
    words = shlex.split(script.splitlines()[-1])
    assert words[:3] == ["srun", "--kill-on-bad-exit=1", "--ntasks-per-node=1"]
    assert words[words.index("--out") + 1] == str(out)
    assert words[words.index("--nodes") + 1] == "2"
    assert words[words.index("--devices") + 1] == "8"
    assert "--slurm" not in words
    assert "--dry" not in words
    assert "--requeue" in words


def test_several_runs_are_not_one_job(prepared_tiny: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = arguments("run", prepared_tiny, tmp_path / "run", extra=("--seeds", "3", "--slurm", JOB))
    assert main(words) == 1
    assert "leave --nodes and --slurm out" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("nodes=2,gpus=8", "time is None; wanted for instance time=24:00:00"),
        ("time=1day", "time is '1day'"),
        ("time=1:00:00,partion=x", "no key 'partion'; did you mean partition"),
        ("time=1:00:00,gpus=eight", "gpus is 'eight'; wanted a number above 0"),
        ("time=1:00:00,time=2:00:00", "time is given twice"),
        ("time", "'time' of 'time' has no value"),
    ],
)
def test_typing_mistakes_are_told(text: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        slurm_job(text, nodes=1, devices=None)
    assert slurm_job("time=60,nodelist=a1,a2,exclusive=", nodes=1, devices=None).options["nodelist"] == "a1,a2"


def test_a_job_is_submitted_once(
    prepared_tiny: Path, tmp_path: Path, programs: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = arguments("train", prepared_tiny, tmp_path / "run", extra=("--slurm", JOB))
    calls = stand_in(programs, "sbatch", "echo Submitted batch job 4711")
    assert main(words) == 0
    assert "Submitted batch job 4711" in capsys.readouterr().out
    assert calls.read_text().split() == [str(tmp_path / "run" / "launch" / "job.sh")]
    stand_in(programs, "sbatch", "echo 'invalid partition' >&2; exit 1")
    assert main(words) == 1
    assert "invalid partition" in capsys.readouterr().err


def test_no_sbatch_is_told(
    prepared_tiny: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert main(arguments("run", prepared_tiny, tmp_path / "run", extra=("--slurm", JOB))) == 1
    assert "there is no sbatch on the PATH" in capsys.readouterr().err


def test_a_job_goes_on_with_its_own_run_and_no_other(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = tmp_path / "run"
    for name, value in job(1, 1).items():
        monkeypatch.setenv(name, value)
    assert claim(run, resume=False) is False
    # Killed after environment.json and before recipe.yaml: the run had not begun.
    (run / "environment.json").write_text("{}")
    assert claim(run, resume=False) is False
    assert not (run / "environment.json").exists()
    (run / "recipe.yaml").write_text("")
    assert claim(run, resume=False) is True, "the same job, queued again"
    monkeypatch.setenv("SLURM_JOB_NAME", "bash")
    with pytest.raises(FileExistsError, match="is not empty"):
        claim(run, resume=False)
    monkeypatch.setenv("SLURM_JOB_NAME", "train")
    monkeypatch.setenv("SLURM_JOB_ID", "4712")
    with pytest.raises(FileExistsError, match="continue that run with --resume"):
        claim(run, resume=False)
    monkeypatch.setenv("SLURM_RESTART_COUNT", "1")
    with pytest.raises(FileExistsError):
        claim(run, resume=False)
    assert claim(run, resume=True) is True


def test_a_restart_does_not_go_on_with_a_foreign_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = tmp_path / "run"
    monkeypatch.setenv("TORCHELASTIC_RUN_ID", "none")
    assert claim(run, resume=False) is False
    (run / "recipe.yaml").write_text("")
    with pytest.raises(FileExistsError):
        claim(run, resume=False)
    monkeypatch.setenv("TORCHELASTIC_RESTART_COUNT", "1")
    assert claim(run, resume=False) is True, "the same launcher"
    begun = run / "launch" / "begun_by.json"
    begun.write_text(json.dumps({"torchrun": "none/another/1/2"}))
    with pytest.raises(FileExistsError):
        claim(run, resume=False)


def test_slurm_is_asked_once_to_queue_again(
    programs: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    calls = stand_in(programs, "scontrol")
    monkeypatch.delenv("SLURM_JOB_ID", raising=False)
    queue_again()
    assert "no SLURM job" in capsys.readouterr().err
    monkeypatch.setenv("SLURM_JOB_ID", "4711")
    queue_again()
    assert calls.read_text().split() == ["requeue", "4711"]
    stand_in(programs, "scontrol", "echo 'not allowed' >&2; exit 1")
    queue_again()
    assert "not allowed; continue with --resume" in capsys.readouterr().err


@pytest.mark.parametrize("devices", [pytest.param(1, marks=pytest.mark.slow), pytest.param(2, marks=pytest.mark.soak)])
def test_a_job_near_its_time_limit_is_queued_again_and_ends_the_run(
    prepared_tiny: Path, tmp_path: Path, programs: Path, devices: int
) -> None:
    """The script of --slurm with a stand-in for srun, which warns the command as SLURM does."""
    calls = stand_in(programs, "scontrol")
    run = tmp_path / "run"
    stand_in(programs, "srun", f'''
        shift 2
        "$@" & child=$!
        if [ ! -e {run}/warned ]; then
            until grep -q . {run}/metrics.csv 2>/dev/null; do sleep 0.2; done
            touch {run}/warned
            kill -{signal.SIGUSR2.value} $child
        fi
        wait $child''')  # fmt: skip
    steps = ("train.max_steps=60", "eval.every_steps=60")
    words = arguments("train", prepared_tiny, run, *steps, extra=("--slurm", f"devices={devices},time=60", "--dry"))
    script = medtune_forked(*words)
    again = []
    for count in range(2):
        variables = {**job(1, 1), "SLURM_RESTART_COUNT": str(count)}
        done = subprocess.run(
            ["bash"], input=script, text=True, env={**os.environ, **variables}, check=False, capture_output=True
        )
        again.append((done.returncode, calls.read_text().split() if calls.exists() else []))
    assert again == [(130, ["requeue", "4711"]), (0, ["requeue", "4711"])], done.stderr[-3000:]
    assert (run / "checkpoints" / "last.safetensors").is_file()
