"""How a process was started is read from the variables of its launcher, also in the odd corners of a SLURM job."""

import pytest

from medtune.trainer.launch.slurm import address_of, first_host
from medtune.trainer.launch.started import ALONE, Started, count, how_started
from medtune.trainer.recipe.read import read_recipe
from tests.trainer.launch.started_ranks import by_srun, by_torchrun, job


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


def test_nodes_that_would_never_start_are_told(capsys: pytest.CaptureFixture[str]) -> None:
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
