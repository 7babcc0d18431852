"""SIGKILL at seeded moments of a run, of `prepare` and of an export: what goes on ends as if nothing had happened."""

import os
import random
import signal
import time
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import pytest

from medtune.trainer.runs.run_folder import RunFolder
from tests.ranks import Forked, medtune_forked
from tests.trainer.conftest import Nano, same_weights

SEED = 53
TIMES = {"run": 18, "prepare": 6, "export": 6}
"""How often each is killed; the moments of a run lie in loading, answering, training, validation and saving."""
LONG = ("train.max_steps=8", "eval.every_steps=2", "train.save_every_steps=1", "eval.val_questions=6")
pytestmark = pytest.mark.soak


class Whole(NamedTuple):
    """What nobody stopped, by what it is, and the seconds that each took."""

    folder: Path
    seconds: dict[str, float]


def _timed(words: Sequence[str]) -> float:
    begin = time.monotonic()
    medtune_forked(*words)
    return time.monotonic() - begin


def _words(kind: str, out: Path, *, raw: Path, prepared: Path, run: Path) -> list[str]:
    return {
        "run": Nano(prepared).arguments("run", out, *LONG),
        "prepare": ["prepare", "busi", "--from", str(raw), "--out", str(out), "-j", "2"],
        "export": ["export", str(run), "--out", str(out), "--no-proof"],
    }[kind]


@pytest.fixture(scope="module")
def whole(tiny_busi: Path, prepared_tiny: Path, tmp_path_factory: pytest.TempPathFactory) -> Whole:
    folder, seconds = tmp_path_factory.mktemp("whole"), {}
    for kind in TIMES:
        words = _words(kind, folder / kind, raw=tiny_busi, prepared=prepared_tiny, run=folder / "run")
        seconds[kind] = _timed(words)
    return Whole(folder, seconds)


def _killed(words: Sequence[str], after_s: float) -> None:
    process = Forked(list(words))
    deadline = time.monotonic() + after_s
    while time.monotonic() < deadline and process.poll() is None:
        time.sleep(0.005)
    if process.poll() is None:
        os.killpg(process.pid, signal.SIGKILL)
    process.communicate(60)


def _contents(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def _moments() -> list[tuple[str, float]]:
    draw = random.Random(SEED)
    return [(kind, draw.uniform(0.05, 0.95)) for kind, number in TIMES.items() for _ in range(number)]


@pytest.mark.parametrize(("kind", "share"), _moments(), ids=lambda each: f"{each}"[:6])
def test_a_killed_command_ends_as_if_nothing_had_happened(
    kind: str, share: float, whole: Whole, tiny_busi: Path, prepared_tiny: Path, tmp_path: Path
) -> None:
    out = tmp_path / kind
    words = _words(kind, out, raw=tiny_busi, prepared=prepared_tiny, run=whole.folder / "run")
    _killed(words, share * whole.seconds[kind])
    if kind == "run":
        again = ["--resume"] if RunFolder(out).recipe.is_file() else []
        medtune_forked(*words, *again)
        for phase in ("zero_shot", "final"):
            one, other = (each / phase / "predictions.jsonl" for each in (out, whole.folder / "run"))
            assert one.read_bytes() == other.read_bytes(), phase
        assert same_weights(out, whole.folder / "run")
        return
    # A folder that is there is whole; else the same command makes it.
    if not out.exists():
        medtune_forked(*words)
    assert _contents(out) == _contents(whole.folder / kind)
    assert [path.name for path in tmp_path.iterdir()] == [kind]
