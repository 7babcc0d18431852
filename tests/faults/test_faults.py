"""Broken inputs of every kind are refused in a line that names them: a part of them here, 1,800 in the soak.

An input that was once a fault of its own stands in the generator of its kind, so that it is drawn again.
"""

import os
import random
import signal
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest

from medtune.models.nano.transformers_vlm import write_nano
from medtune.models.zoo.nano_any_size import build_qwen25vl
from medtune.trainer.commands.cli import main
from tests.faults.film_files import film_files
from tests.faults.harness import PLANTED, Broken, Generator, Tally, tried
from tests.faults.picture_files import picture_files, series_folders
from tests.faults.prepared_files import prepared_files
from tests.faults.recipe_texts import recipe_texts
from tests.faults.run_files import EXPORT_VERBS, RUN_VERBS, WEIGHTS_VERBS, run_files
from tests.faults.saved_states import saved_states
from tests.faults.server_replies import server_replies
from tests.faults.system_errors import system_errors
from tests.faults.table_files import table_files
from tests.faults.volume_files import volume_files
from tests.soak import in_suites

SHARES = {
    "recipes": (60, 300), "volumes": (80, 200), "replies": (80, 200), "prepared": (40, 150), "system": (8, 50),
    "pictures": (60, 250), "series": (30, 100), "films": (20, 100), "states": (20, 50), "runs": (0, 100),
    "tables": (40, 150), "exports": (0, 75), "weights": (0, 75),
}  # fmt: skip
"""The inputs of each kind, here and in the soak; with a run to damage the soak alone has time."""
HERE = [(kind, number) for kind, (number, _) in SHARES.items() if number]
SOAK = [(kind, number) for kind, (_, number) in SHARES.items()]


VERBS = {"runs": RUN_VERBS, "exports": EXPORT_VERBS, "weights": WEIGHTS_VERBS}
RUN = ("log.wandb=disabled", "train.max_steps=4", "eval.every_steps=2", "eval.max_new_tokens=4", "eval.questions=6")


@pytest.fixture
def damaged_run(tmp_path: Path, tiny_busi: Path, prepared_tiny: Path) -> tuple[Path, Path]:
    """A finished run with an audit, and a table to predict."""
    run, table = tmp_path / "run", tmp_path / "table.csv"
    settings = ["--set", f"data.root={prepared_tiny}", *RUN]
    assert main(["run", "nano_busi_lora", "--out", str(run), *settings]) == 0
    assert main(["audit", str(run)]) == 0
    picture = next((tiny_busi / "benign").glob("*.png"))
    table.write_text(f"image,question,options\n{picture},What does it show?,benign|normal\n")
    return run, table


@pytest.mark.parametrize(("kind", "number"), in_suites([*HERE, *SOAK], plain=HERE))
def test_a_broken_input_is_refused_in_a_line(
    kind: str, number: int, tmp_path: Path, prepared_tiny: Path, tiny_busi: Path, request: pytest.FixtureRequest
) -> None:
    generators: dict[str, Generator] = {
        "recipes": recipe_texts,
        "volumes": volume_files,
        "replies": server_replies,
        "prepared": partial(prepared_files, whole=prepared_tiny),
        "system": partial(system_errors, raw=tiny_busi, prepared=prepared_tiny),
        "pictures": picture_files,
        "series": series_folders,
        "films": film_files,
        "states": saved_states,
        "tables": table_files,
    }
    if kind in VERBS:
        whole, table = request.getfixturevalue("damaged_run")
        if kind == "exports":
            assert main(["export", str(whole), "--out", str(tmp_path / "exported"), "--no-proof"]) == 0
            whole = tmp_path / "exported"
        if kind == "weights":
            write_nano(build_qwen25vl(), whole := tmp_path / "checkpoint", seed=0)
        settings = (f"data.root={prepared_tiny}", *RUN)
        generators[kind] = partial(
            run_files, whole=whole, prepared=prepared_tiny, table=table, settings=settings, verbs=VERBS[kind]
        )
    tally = tried(generators[kind], tmp_path, seed=number, number=number)
    print(f"{kind}: {tally}")
    assert tally.inputs == number
    assert tally.faults == 0, "\n".join([str(tally), *tally.found])


def faulty(draw: random.Random, folder: Path) -> Iterator[Broken]:
    """Yields an input of each fault that ends no process, and two that are none."""

    def refused(text: str, kind: type[Exception] = ValueError) -> None:
        raise kind(text)

    yield Broken("taken", lambda: None)
    yield Broken("refused", partial(refused, "a.yaml: wrong"), "a.yaml", is_certain=True)
    yield Broken("silent", lambda: None, is_certain=True)
    yield Broken("no name", partial(refused, "wrong"), "a.yaml")
    yield Broken("another error", partial(refused, "a.yaml", KeyError), "a.yaml")
    yield Broken("leak", partial(refused, f"a.yaml: {PLANTED}"), "a.yaml")


def killed(draw: random.Random, folder: Path) -> Iterator[Broken]:
    yield Broken("killed", partial(os.kill, os.getpid(), signal.SIGSEGV))


def test_the_faults_are_told_apart(tmp_path: Path) -> None:
    tally = tried(faulty, tmp_path, seed=0, number=6)
    assert str(tally) == "6 inputs, 2 tracebacks, 0 hangs, 1 silent, 1 leaks, 0 signals"
    assert str(tried(killed, tmp_path, seed=0, number=1)) == (
        "1 inputs, 0 tracebacks, 0 hangs, 0 silent, 0 leaks, 1 signals"
    )
    assert Tally().faults == 0


@pytest.mark.parametrize(
    "arguments",
    [
        ["prepare", "busi", "--from", "{raw}", "--out", "{long}"],
        ["validate", "nano_busi_lora", "--set", "data.root={long}"],
        ["run", "nano_busi_lora", "--out", "{long}", "--set", "data.root={prepared}", "log.wandb=disabled"],
        ["report", "{long}"],
        ["compare", "{long}", "{long}"],
        ["export", "{long}", "--out", "{long}"],
        ["list", "recipes", "--plugins", "{long}"],
    ],
)
def test_a_name_that_no_file_system_takes_is_said_in_a_line(
    arguments: list[str], tiny_busi: Path, prepared_tiny: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    places = {"raw": tiny_busi, "prepared": prepared_tiny, "long": tmp_path / ("x" * 300)}
    assert main([each.format(**places) for each in arguments]) == 1
    (line,) = [each for each in capsys.readouterr().err.splitlines() if each.startswith("medtune: ")]
    assert line.endswith(": its name is longer than the file system allows. Give a shorter one.")
    assert "xxx" in line
