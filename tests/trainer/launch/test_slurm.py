"""`--slurm` writes a script and submits it once; a job that is queued again goes on with its own run."""

import json
import os
import shlex
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from medtune.trainer.commands.cli import main
from medtune.trainer.launch.marks import claim
from medtune.trainer.launch.slurm import queue_again, slurm_job
from medtune.trainer.launch.started import ALONE, Started, address_of, count, first_host, how_started
from medtune.trainer.recipe.read import read_recipe
from tests.ranks import Forked, medtune_forked
from tests.trainer.conftest import Capture, Told
from tests.trainer.launch.started_ranks import arguments, by_srun, by_torchrun, job, wait_for_training

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


def test_dry_prints_a_script_that_bash_reads(prepared_tiny: Path, tmp_path: Path, shown: Told) -> None:
    out = tmp_path / "a run"
    script = shown(main(arguments("run", prepared_tiny, out, extra=("--slurm", JOB, "--dry"))))
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


SERIES = "gpus=4,time=24:00:00,partition=long"


def test_each_run_of_a_series_is_on_one_machine(prepared_tiny: Path, tmp_path: Path, refused: Told) -> None:
    words = arguments("run", prepared_tiny, tmp_path / "run", extra=("--seeds", "3", "--slurm", JOB))
    assert "nodes is 2; each run of a series is on one machine" in refused(main(words))


def test_a_series_is_an_array_job_with_a_last_job_that_pools(
    prepared_tiny: Path, tmp_path: Path, programs: Path, shown: Told
) -> None:
    calls = stand_in(programs, "sbatch", "echo 4711")
    words = arguments("run", prepared_tiny, tmp_path / "run", extra=("--seeds", "3", "--slurm", SERIES))
    assert "submitted 3 runs as job 4711" in shown(main(words))
    launch = tmp_path / "run" / "launch"
    assert calls.read_text().splitlines() == [
        f"--parsable {launch / 'runs.sh'}",
        f"--parsable --dependency=afterok:4711 {launch / 'pool.sh'}",
    ]
    runs, pool = ((launch / name).read_text() for name in ("runs.sh", "pool.sh"))
    assert "#SBATCH --array=1-3" in runs
    assert "#SBATCH --gpus-per-node=4" in runs
    assert "gpus" not in pool
    # Each task is the command of one run, as bash reads it.
    stand_in(programs, "srun")
    for task in ("1", "3"):
        subprocess.run(["bash", launch / "runs.sh"], env={**os.environ, "SLURM_ARRAY_TASK_ID": task}, check=True)
    first, third = ((programs / "srun.calls").read_text()).splitlines()
    assert f"--out {tmp_path / 'run' / 'seed_0'}" in first
    assert "--slurm" not in first
    assert "train.seed=2" in third
    *_, last = pool.strip().splitlines()
    assert shlex.split(last)[1:4] == ["-m", "medtune", "run"]
    assert shlex.split(last)[-1] == "--resume"
    assert "--seeds" in last
    assert "--slurm" not in last


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
    prepared_tiny: Path, tmp_path: Path, programs: Path, refused: Told, shown: Told
) -> None:
    words = arguments("train", prepared_tiny, tmp_path / "run", extra=("--slurm", JOB))
    calls = stand_in(programs, "sbatch", "echo Submitted batch job 4711")
    assert "Submitted batch job 4711" in shown(main(words))
    assert calls.read_text().split() == [str(tmp_path / "run" / "launch" / "job.sh")]
    stand_in(programs, "sbatch", "echo 'invalid partition' >&2; exit 1")
    assert "invalid partition" in refused(main(words))


def test_no_sbatch_is_told(
    prepared_tiny: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Capture
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


def test_slurm_is_asked_once_to_queue_again(programs: Path, monkeypatch: pytest.MonkeyPatch, capsys: Capture) -> None:
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
    """Bash reads the script of --slurm; a stand-in for srun notes the command, which is warned as SLURM does."""
    calls, noted = stand_in(programs, "scontrol"), tmp_path / "noted"
    stand_in(programs, "srun", f"printf '%s\\0' \"$@\" > {noted}")
    run, steps = tmp_path / "run", ("train.max_steps=60", "eval.every_steps=60")
    words = arguments("train", prepared_tiny, run, *steps, extra=("--slurm", f"devices={devices},time=60", "--dry"))
    subprocess.run(["bash"], input=medtune_forked(*words), text=True, check=True)
    python, of_module, name, *command = noted.read_text().split("\0")[2:-1]
    assert (python, of_module, name) == (sys.executable, "-m", "medtune")
    again = []
    for restart in range(2):
        task = Forked(command, environment={**job(1, 1), "SLURM_RESTART_COUNT": str(restart)})
        if restart == 0:
            wait_for_training(task, run)
            os.kill(task.pid, signal.SIGUSR2)
        said, _ = task.communicate(timeout=500)
        again.append((task.returncode, calls.read_text().split() if calls.exists() else []))
    assert again == [(130, ["requeue", "4711"]), (0, ["requeue", "4711"])], said[-3000:]
    assert (run / "checkpoints" / "last.safetensors").is_file()


def test_ranks_of_torchrun_and_tasks_of_srun_are_found() -> None:
    assert how_started(by_torchrun(2, 2)(3)) == Started(3, 1, 4, 2, 1, "torchrun")
    assert how_started(by_srun(2, 2)(3)) == Started(3, 1, 4, 2, 1, "srun")
    assert how_started(by_srun(2, 1)(1)) == Started(1, 0, 2, 1, 1, "srun")
    assert how_started({**job(2, 2), **by_torchrun(2, 2)(3)}).how == "torchrun", "torchrun inside a job"


@pytest.mark.parametrize(
    "variables",
    [
        pytest.param({}, id="plain"),
        pytest.param(job(2, 2), id="a batch script without srun"),
        pytest.param(by_srun(1, 1)(0), id="one task"),
        pytest.param({**by_srun(1, 4)(0), "SLURM_JOB_NAME": "bash"}, id="srun --pty bash"),
        pytest.param({**by_srun(1, 4)(0), "SLURM_STEP_ID": "4294967290"}, id="the shell of salloc"),
        pytest.param({"SLURM_NTASKS": "1"}, id="SLURM_NTASKS alone"),
        pytest.param({"WORLD_SIZE": "1"}, id="WORLD_SIZE of one"),
    ],
)
def test_a_process_of_its_own_is_alone(variables: dict[str, str]) -> None:
    assert how_started(variables) == ALONE


@pytest.mark.parametrize(
    ("variables", "message"),
    [
        ({"WORLD_SIZE": "2"}, "RANK is not set"),
        ({"RANK": "2", "WORLD_SIZE": "2"}, "ranks count from 0"),
        ({"RANK": "0", "WORLD_SIZE": "3", "LOCAL_WORLD_SIZE": "2", "LOCAL_RANK": "0"}, "the same --nproc-per-node"),
        ({**by_srun(2, 2)(0), "SLURM_STEP_TASKS_PER_NODE": "3,1"}, "srun started 3, 1 tasks on 2 nodes"),
        ({**by_srun(2, 2)(1), "SLURM_NODEID": "1", "SLURM_LOCALID": "0"}, "--distribution=cyclic"),
        ({"OMPI_COMM_WORLD_SIZE": "4"}, "mpirun started 4 processes"),
    ],
)
def test_variables_that_contradict_each_other_are_refused(variables: dict[str, str], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        how_started(variables)


def test_srun_without_tasks_per_node_is_counted_by_its_nodes() -> None:
    given = {name: value for name, value in by_srun(2, 2)(0).items() if name != "SLURM_STEP_TASKS_PER_NODE"}
    assert how_started(given).local_world_size == 2
    with pytest.raises(ValueError, match="leave --ntasks out"):
        how_started({**given, "SLURM_STEP_NUM_TASKS": "5"})


def _counted(variables: dict[str, str], *settings: str, nodes: int | None = None, devices: int | None = None) -> object:
    recipe = read_recipe("nano_busi_lora", settings)
    found = count(how_started(variables), recipe, nodes=nodes, devices=devices, node_rank=None, variables=variables)
    return found.nodes, found.devices, found.starts_ranks


def test_the_launcher_goes_before_the_arguments_and_these_before_the_recipe() -> None:
    eight = "train.devices=8"
    assert _counted({}) == (1, 1, False)
    assert _counted({}, eight) == (1, 8, True)
    assert _counted({}, eight, nodes=2, devices=4) == (2, 4, True)
    assert _counted(by_torchrun(2, 2)(0), eight) == (2, 2, False)
    assert _counted(by_srun(2, 2)(0), eight) == (2, 2, False)
    assert _counted(by_srun(2, 1)(0), eight) == (2, 8, True), "one task a node starts the ranks of its node"
    assert _counted(by_srun(2, 1)(0)) == (2, 1, False), "one task a node and one device: the task is the rank"
    assert _counted(job(1, 4), eight) == (1, 8, True), "a batch script without srun"
    with pytest.raises(ValueError, match="--devices is 4 and torchrun started this on 2 machines with 2 processes"):
        _counted(by_torchrun(2, 2)(0), devices=4)
    with pytest.raises(ValueError, match="--nodes is 3 and srun started"):
        _counted(by_srun(2, 1)(0), nodes=3, devices=8)


def test_nodes_that_would_never_start_are_told(capsys: Capture) -> None:
    with pytest.raises(ValueError, match="put `srun --nodes=2 --ntasks-per-node=1 --kill-on-bad-exit=1` before it"):
        _counted(job(2, 8), nodes=2, devices=8)
    _counted(job(2, 8), devices=8)
    assert "this SLURM job has 2 nodes and the command uses one" in capsys.readouterr().err


def test_the_first_host_of_a_node_list() -> None:
    assert [first_host(text) for text in ("gpu01", "gpu[07-09,12],big1", "a,b", "r[1-2]n[03,05]")] == [
        "gpu01", "gpu07", "a", "r1n03"
    ]  # fmt: skip
    steps = [address_of({"SLURM_JOB_ID": "4711", "SLURM_STEP_ID": s, "SLURM_JOB_NODELIST": "a[1-2]"}) for s in "01"]
    assert [each and each[0] for each in steps] == ["a1", "a1"]
    assert steps[0] != steps[1], "two steps of one job do not meet each other"
