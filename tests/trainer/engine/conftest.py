"""Fixtures of the tests of `medtune eval RUN --engine`: a trained run, and stand-ins that serve its export."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
import torch

from medtune.trainer.commands.cli import main
from medtune.trainer.commands.runs.export import export_run
from medtune.trainer.engine.kept_export import kept_export
from medtune.trainer.experiment.run_folder import RunFolder
from medtune.trainer.exporting.write import Wanted
from tests.models.server.stand_in import StandIn, serving
from tests.models.server.tiny_model import TinyModel

SETTINGS = (
    "model.name=nano_qwen25vl", "model.answer_format=letter", "log.wandb=disabled", "train.max_steps=2",
    "eval.every_steps=2", "eval.val_questions=2", "eval.max_new_tokens=4",
)  # fmt: skip


@pytest.fixture(scope="session")
def trained(prepared_tiny: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Returns the folder of a run that trained a tiny model of transformers."""
    out = tmp_path_factory.mktemp("run") / "run"
    data = f"data.root={prepared_tiny}"
    assert main(["train", "nano_busi_lora", "--out", str(out), "--limit", "8", "--set", data, *SETTINGS]) == 0
    return out


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Keeps exports in the test's folder."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path / "cache"


Started = Callable[..., StandIn]


def export(root: Path, out: Path) -> object:
    """Writes the merged model of a run without a proof, which tests/trainer/exporting is about."""
    return export_run(root, out, Wanted(as_adapter=False, dtype="base", device=torch.device("cpu"), samples=0))


@pytest.fixture
def started(trained: Path) -> Iterator[Started]:
    """Starts stand-ins that serve the export of the run."""
    with ExitStack() as stack:

        def of(fault: str = "") -> StandIn:
            server = StandIn(TinyModel(kept_export(RunFolder(trained), export)))
            server.fault = fault
            stack.enter_context(serving(server))
            return server

        yield of
