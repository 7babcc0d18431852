"""Tests reconstructed release folders end to end: validated, trained for two steps and asked, by the real entries."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from medtune.trainer.commands.cli import main
from medtune.trainer.plan.devices import Devices
from tests.models.releases.folders import WRITERS, shrink
from tests.soak import in_suites
from tests.trainer.conftest import Capture, json_of

QUICK = (
    "log.wandb=disabled", "train.max_steps=2", "train.epochs=null", "train.batch_size=2", "train.micro_batch_size=1",
    "train.devices=1", "train.strategy=auto", "train.precision=32-true", "model.dtype=float32",
    "train.optimizer=adamw", "data.workers=0", "eval.every_steps=2", "eval.val_questions=2", "eval.questions=4",
    "eval.conditions=[image]", "eval.max_new_tokens=4",
)  # fmt: skip


@pytest.fixture(scope="module", autouse=True)
def tiny_towers() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        shrink(patch)
        # The plan counts the published language models, whose places these small ones take.
        patch.setattr("medtune.trainer.commands.validate.this_machine", lambda: Devices(1, "GPU", 1000.0))
        yield


# The one that is soonest read is slow; tests/models/releases reads the folders of all in `make test`.
@pytest.mark.parametrize("name", in_suites(WRITERS, slow=("m3d_phi3",)))
def test_a_release_is_validated_trained_and_asked(
    name: str, prepared_ct: Path, tmp_path: Path, capsys: Capture
) -> None:
    (tmp_path / "release").mkdir()
    WRITERS[name](tmp_path / "release")
    settings = ["--set", f"data.root={prepared_ct}", f"model.weights={tmp_path / 'release'}", *QUICK]
    recipe, out = f"{name}_ctlesionvqa", tmp_path / "run"
    assert main(["validate", recipe, *settings]) == 0, str(capsys.readouterr())
    shown = capsys.readouterr().out
    assert "[[" in shown
    assert "visual tokens)" in shown
    assert main(["run", recipe, "--out", str(out), *settings]) == 0
    results = json_of(out / "results.json")
    assert set(results["phases"]) == {"zero_shot", "final"}
    said = json_of(out / "weights.json")
    assert {"vision", "projector", "language"} <= said.keys()
    assert all(said[part] in shown for part in said)
    replies = [json.loads(line) for line in (out / "final" / "predictions.jsonl").read_text().splitlines()]
    assert any(reply.get("text") is not None for reply in replies)
    assert any(reply.get("option_logprobs") for reply in replies)
    assert ",train,loss," in (out / "metrics.csv").read_text()
