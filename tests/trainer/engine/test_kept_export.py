"""The export that servers hold: kept for the next time, and never the old one under new weights."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from medtune.trainer.engine.kept_export import kept_export
from medtune.trainer.engine.served_run import served_dtype
from medtune.trainer.experiment.run_folder import RunFolder
from medtune.trainer.recipe.read import read_recipe


def test_an_export_is_kept_until_the_weights_change(trained: Path, tmp_path: Path) -> None:
    run, written = RunFolder(tmp_path / "run"), []
    shutil.copytree(trained, run.root)

    def export(root: Path, out: Path) -> int:
        written.append(out)
        out.mkdir(parents=True)
        return 0

    first = kept_export(run, export)
    assert kept_export(run, export) == first
    assert len(written) == 1
    assert first.name.startswith("nano_qwen25vl-")
    shutil.copy(run.last, run.best)
    changed = bytearray(run.best.read_bytes())
    changed[-1] ^= 1
    run.best.write_bytes(changed)
    assert kept_export(run, export) != first
    assert len(written) == 2


@pytest.mark.parametrize(
    ("settings", "wanted"),
    [
        (["train.precision=32-true"], "float32"),
        (["train.precision=bf16-mixed"], "bfloat16"),
        (["train.precision=16-mixed"], "float16"),
        (["train.precision=bf16-mixed", "model.dtype=bfloat16"], "bfloat16"),
    ],
)
def test_servers_compute_in_the_number_format_of_the_recipe(settings: list[str], wanted: str) -> None:
    recipe = read_recipe("nano_busi_lora", ["model.name=nano_qwen25vl", *settings])
    assert served_dtype(recipe) == wanted
