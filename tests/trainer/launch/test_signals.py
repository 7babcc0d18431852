"""A signal to one rank stops all of them at one step, writes nothing outside the run folder, and resumes exactly."""

import signal
from pathlib import Path

import pytest

from medtune.trainer.experiment.run_folder import RunFolder
from medtune.trainer.launch.slurm import stopped_by
from tests.trainer.launch.moments import Moment, files_of, two_ranks
from tests.trainer.launch.started_ranks import arguments, asked, losses, medtune_ranks

LONG = ("train.max_steps=8", "eval.every_steps=4")
FOREIGN = b"another run's weights"


@pytest.fixture(scope="module")
def whole(prepared_tiny: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The run that nobody stops."""
    folder = tmp_path_factory.mktemp("whole")
    out = folder / "run"
    assert two_ranks(arguments("run", prepared_tiny, out, *LONG), out, None, folder) == [0, 0]
    return out


def stopped_and_resumed(data: Path, whole: Path, folder: Path, moment: Moment) -> None:
    """Asserts that a run which is stopped at a moment and resumed equals the whole one, beside foreign weights."""
    work = folder / "work"
    work.mkdir(parents=True)
    (work / "hpc_ckpt_1.ckpt").write_bytes(FOREIGN)
    out = folder / "run"
    words = arguments("run", data, out, *LONG)
    if moment.number == signal.SIGKILL:
        with pytest.raises(AssertionError, match=f"rank {moment.rank} of 2 died with status -9|another rank has ended|"
                           "Connection closed|Connection reset"):  # fmt: skip
            two_ranks(words, out, moment, work)
    else:
        assert two_ranks(words, out, moment, work) == [0, 0]
        assert stopped_by(out) == signal.Signals(moment.number).name or (out / "report.html").is_file(), moment
    again = ["--resume"] if RunFolder(out).recipe.is_file() else []
    if not again and moment.number == signal.SIGKILL:
        out = folder / "again"
        words = arguments("run", data, out, *LONG)
    assert two_ranks([*words, *again], out, None, work) == [0, 0]
    assert stopped_by(out) is None
    assert losses(out) == pytest.approx(losses(whole), abs=1e-6), moment
    for phase in ("zero_shot", "final"):
        assert sorted(asked(out, phase)) == sorted(asked(whole, phase)), moment
    assert files_of(work) == {"hpc_ckpt_1.ckpt"}, moment
    assert (work / "hpc_ckpt_1.ckpt").read_bytes() == FOREIGN


def test_sigusr1_to_one_rank_in_training(prepared_tiny: Path, whole: Path, tmp_path: Path) -> None:
    stopped_and_resumed(prepared_tiny, whole, tmp_path, Moment(signal.SIGUSR1, 1, "training", 0.0))


@pytest.mark.slow
def test_sigterm_to_one_rank_while_it_answers(prepared_tiny: Path, whole: Path, tmp_path: Path) -> None:
    stopped_and_resumed(prepared_tiny, whole, tmp_path, Moment(signal.SIGTERM, 1, "zero_shot", 0.0))


def test_foreign_weights_in_the_working_directory_are_not_read(prepared_tiny: Path, tmp_path: Path) -> None:
    words = arguments("train", prepared_tiny, tmp_path / "clean")
    assert medtune_ranks(1, words, lambda rank: {}) == [0]
    (tmp_path / "hpc_ckpt_1.ckpt").write_bytes(FOREIGN)
    words = arguments("train", prepared_tiny, tmp_path / "run")
    assert medtune_ranks(1, words, lambda rank: {"SLURM_NTASKS": "1"}, folder=tmp_path) == [0]
    assert losses(tmp_path / "run")[0] == losses(tmp_path / "clean")[0]
    inside = tmp_path / "other" / "lightning"
    inside.mkdir(parents=True)
    (inside / "hpc_ckpt_1.ckpt").write_bytes(FOREIGN)
    words = arguments("train", prepared_tiny, tmp_path / "other")
    assert medtune_ranks(1, words, lambda rank: {"SLURM_NTASKS": "1"}) == [1], "no run of ours writes it there"
