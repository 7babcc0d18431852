"""Tests that checkpoints on disk are read completely or refused."""

import json
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file

from medtune.models.assemble import zoo_entry
from medtune.models.weights.assets import AssetError
from medtune.models.weights.hub import kept_weights
from medtune.models.weights.loading_options import Loading
from tests.models.transformers_vlm.asking import saved, whole
from tests.models.twins import picture, twin


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return saved("nano_qwen25vl", tmp_path / "checkpoint")


def _load(folder: Path, **settings: object) -> object:
    return zoo_entry("qwen25vl_7b").assemble(0, Loading(weights=str(folder), **settings))  # type: ignore[arg-type]


def test_local_folder_takes_the_place_of_the_hub(folder: Path) -> None:
    loaded = zoo_entry("qwen25vl_7b").assemble(0, Loading(weights=str(folder)))
    ours, theirs = whole(loaded).state_dict(), whole(twin("nano_qwen25vl")).state_dict()
    assert all(torch.equal(ours[name], theirs[name]) for name in theirs)
    assert str(folder) in loaded.provenance["language"]
    assert kept_weights(str(folder)) == folder


def test_the_plan_of_a_folder_has_the_sizes_of_its_own_config(folder: Path) -> None:
    """Else `validate` would ask for the memory of 8.29 billion parameters for a model of another size."""
    entry = zoo_entry("qwen25vl_7b")
    planned = {name: p.shape for name, p in entry.skeleton(Loading(weights=str(folder))).named_parameters()}
    assert planned == {name: p.shape for name, p in twin("nano_qwen25vl").model.named_parameters()}
    (folder / "config.json").unlink()
    published = entry.skeleton(Loading(weights=str(folder)))
    assert 8.2e9 < sum(p.numel() for p in published.parameters()) < 8.4e9


def test_type_and_image_size_are_those_of_the_recipe(folder: Path) -> None:
    loaded = zoo_entry("qwen25vl_7b").assemble(0, Loading(weights=str(folder), dtype="bfloat16", image_max_pixels=3200))
    assert {p.dtype for p in loaded.model.parameters()} == {torch.bfloat16}
    assert loaded.transform(picture(width=300, height=300))["image_grid_thw"].prod() == 16


def test_one_size_models_refuse_another(tmp_path: Path) -> None:
    where = saved("nano_mllama", tmp_path / "checkpoint")
    with pytest.raises(ValueError, match="scales every image to its own size"):
        zoo_entry("llama32_11b_vision").assemble(0, Loading(weights=str(where), image_max_pixels=9999))


def test_folder_of_another_family_is_refused(tmp_path: Path) -> None:
    where = saved("nano_mllama", tmp_path / "checkpoint")
    with pytest.raises(ValueError, match="a model of type 'mllama'; wanted qwen2_vl or qwen2_5_vl"):
        _load(where)


def test_folder_without_a_processor_is_refused(folder: Path) -> None:
    for file in folder.glob("*processor*"):
        file.unlink()
    with pytest.raises(ValueError, match=r"processor"):
        _load(folder)


def test_missing_and_unknown_tensors_are_refused(folder: Path) -> None:
    """transformers itself would fill missing weights with random numbers and only warn."""
    path = folder / "model.safetensors"
    tensors = load_file(path)
    name = next(n for n in tensors if n.endswith("q_proj.weight"))
    save_file({("other" if n == name else n): t for n, t in tensors.items()}, path, metadata={"format": "pt"})
    with pytest.raises(ValueError, match="1 missing keys"):
        _load(folder)


def test_folder_without_weights_is_refused(folder: Path) -> None:
    (folder / "model.safetensors").unlink()
    assert kept_weights(str(folder)) is None
    with pytest.raises(ValueError, match=r"cannot read its weights"):
        _load(folder)


def test_hub_out_of_reach_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    with pytest.raises(AssetError, match=r"Qwen/Qwen2.5-VL-7B-Instruct: configuration neither kept here"):
        zoo_entry("qwen25vl_7b").assemble(0)


def test_chat_template_of_the_folder_is_used(folder: Path) -> None:
    path = folder / "chat_template.jinja"
    path.write_text(path.read_text().replace("helpful", "terse"))
    loaded = zoo_entry("qwen25vl_7b").assemble(0, Loading(weights=str(folder)))
    assert "terse" in loaded.family.decode(loaded.family.layout("Q", None, shapes=()).ids)
    assert json.loads((folder / "config.json").read_text())["model_type"] == "qwen2_5_vl"
