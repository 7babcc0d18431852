"""Tests a run on code ids: half of the scans have saved codes, the frozen tower encodes each of the others once."""

import json
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import torch

from medtune.benchmarks import find_source
from medtune.data.media.volumes.formats.abdomen_atlas import find_cases
from medtune.data.media.volumes.transforms import ct_chat as preparation
from medtune.data.prepared.write import prepare
from medtune.data.types import MediaRef
from medtune.models.assemble import zoo_entry
from medtune.models.media_reader import read_item
from medtune.models.towers.ctvit import CTViT
from medtune.models.volumes import ctvit_code_input
from medtune.models.weights.loading_options import CODES, Loading
from medtune.trainer.commands.cli import main
from tests.examples import write_example
from tests.trainer.conftest import Capture, Told, json_of

QUICK = (
    "log.wandb=disabled", "train.max_steps=2", "train.batch_size=2", "eval.conditions=[image,text_only]",
    "model.name=nano_ct_chat", "model.vision=null", "model.projector=null", "model.variant=codes",
    "model.tuning.vision.mode=frozen", "data.workers=1",
)  # fmt: skip


def run(root: Path, out: Path, *overrides: str) -> int:
    return main(["run", "nano_ct_lora", "--out", str(out), "--set", f"data.root={root}", *QUICK, *overrides])


@pytest.fixture(scope="module", autouse=True)
def fewer_voxels() -> Iterator[None]:
    """Lets the tiny model read a third of the voxels, to save time; its patches still divide the example's scans."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(preparation, "ENCODE", preparation.CTChatTransform(size=(320, 320, 160)))
        yield


@pytest.fixture(scope="module")
def prepared_codes(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The example of CTLesionVQA; every second scan has the encoding that the tiny model's tower gives for it."""
    root, out = tmp_path_factory.mktemp("codes"), tmp_path_factory.mktemp("prepared_codes") / "ct"
    write_example("ctlesionvqa", root)
    (root / "encodings").mkdir()
    assembled = zoo_entry("nano_ct_chat").assemble(0, Loading(variant=CODES))
    tower = assembled.model.vision
    assert isinstance(tower, CTViT)
    for name, case in sorted(find_cases(root).items())[::2]:
        ids_thw = read_item(MediaRef(case.scan, kind="volume"), assembled.transform)
        np.savez(root / "encodings" / f"{name}.npz", arr=tower.decode_ids(ids_thw[None]).numpy())
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CONFIG_HOME", str(tmp_path_factory.getbasetemp() / "config"))
        prepare(find_source("ctlesionvqa"), benchmark="ctlesionvqa", root=root, out=out)
    return out


@pytest.fixture(scope="module")
def whole_run(prepared_codes: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("runs") / "run"
    assert run(prepared_codes, out) == 0
    return out


@pytest.mark.slow
def test_run_trains_reports_and_asks_about_a_blank_scan(whole_run: Path) -> None:
    results = json_of(whole_run / "results.json")
    assert results["model"] == "nano_ct_chat"
    assert set(results["phases"]) == {"zero_shot", "final"}
    assert (whole_run / "report.html").is_file()
    assert main(["audit", str(whole_run)]) == 0
    rows = {row["name"] for row in json_of(whole_run / "audit.json")["rows"]}
    assert {"blank_image", "linear_probe"} <= rows


@pytest.mark.slow
def test_each_scan_is_encoded_once(
    whole_run: Path, prepared_codes: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept = sorted((prepared_codes / "cache").iterdir())
    assert kept
    assert all(f"-{CODES}-" in path.name and path.stat().st_size < 1000 for path in kept)
    encodings = {path.name[:32] for path in (prepared_codes / "media").glob("*.npz")}
    assert len(encodings) == 5
    assert 0 < sum(path.name[:32] in encodings for path in kept) < len(kept)

    def refuse(*_: object) -> None:
        raise AssertionError("a scan was encoded again")

    monkeypatch.setattr(ctvit_code_input, "load_volume", refuse)
    monkeypatch.setattr(ctvit_code_input, "read_encoding", refuse)
    assert run(prepared_codes, tmp_path / "again") == 0
    assert sorted((prepared_codes / "cache").iterdir()) == kept
    again = (tmp_path / "again" / "final" / "predictions.jsonl").read_bytes()
    assert again == (whole_run / "final" / "predictions.jsonl").read_bytes()


@pytest.mark.slow
def test_volumes_give_the_same_run(whole_run: Path, prepared_codes: Path, tmp_path: Path) -> None:
    assert run(prepared_codes, tmp_path / "volumes", "model.variant=public", "data.cache=false") == 0
    for phase in ("zero_shot", "final"):
        found = _logprobs(tmp_path / "volumes" / phase)
        torch.testing.assert_close(found, _logprobs(whole_run / phase), rtol=0, atol=1e-5)


def _logprobs(folder: Path) -> list[list[float]]:
    rows = [json.loads(line) for line in (folder / "predictions.jsonl").read_text().splitlines()]
    return [row["option_logprobs"] for row in rows]


@pytest.mark.parametrize(("setting", "field"), [
    ("model.tuning.vision.mode=full", "model.tuning.vision.mode is full"),
    ("model.tuning.vision.mode=lora", "model.tuning.vision.mode is lora"),
    ("train.stages=[{name: one, max_steps: 1, tuning: {vision: {mode: full}}}]", "train.stages.0.tuning.vision.mode"),
])  # fmt: skip
def test_a_tower_that_is_to_learn_is_refused(setting: str, field: str, tmp_path: Path, refused: Told) -> None:
    more = ["train.max_steps=null"] if "stages" in setting else []
    said = refused(run(tmp_path / "nothing", tmp_path / "run", setting, *more))
    assert "model.variant is codes" in said
    assert field in said


def test_codes_are_not_changed(tmp_path: Path, capsys: Capture) -> None:
    assert run(tmp_path / "nothing", tmp_path / "run", "data.augment=[move]") == 1
    assert "data.augment is move and model.variant is codes" in capsys.readouterr().err
