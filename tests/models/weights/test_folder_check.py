"""A folder of weights whose index leads out of it, or whose configuration names code, is refused before it is read."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from medtune.models.weights.folder_check import check_folder
from medtune.models.weights.hub import checkpoint_folder, kept_folder, kept_weights

INDEX = "model.safetensors.index.json"
READERS: list[Callable[[Path], object]] = [
    check_folder,
    lambda folder: checkpoint_folder(str(folder), what="weights"),
    lambda folder: kept_folder(str(folder)),
    lambda folder: kept_weights(str(folder)),
]


@pytest.mark.parametrize("read", READERS)
@pytest.mark.parametrize("name", ["../outside.safetensors", "/etc/outside.safetensors", "a/../../x", "..\\x", "C:\\x"])
def test_an_index_that_leads_out_of_its_folder(name: str, read: Callable[[Path], object], tmp_path: Path) -> None:
    (tmp_path / INDEX).write_text(json.dumps({"weight_map": {"a.weight": "model.safetensors", "b.weight": name}}))
    with pytest.raises(ValueError, match=r"index\.json: weight_map names .*, which lies outside the folder"):
        read(tmp_path)


@pytest.mark.parametrize("content", [b"{", b"[]", b'{"weight_map": ["a"]}', b'{"weight_map": {"a": 1}}', b"[" * 99_999])
def test_an_index_that_is_none(content: bytes, tmp_path: Path) -> None:
    (tmp_path / "pytorch_model.bin.index.json").write_bytes(content)
    with pytest.raises(ValueError, match=r"pytorch_model\.bin\.index\.json: .*Copy or download the folder again"):
        check_folder(tmp_path)


@pytest.mark.parametrize("place", ["attn_implementation", "_attn_implementation", "experts_implementation"])
def test_a_configuration_that_names_compiled_code(place: str, tmp_path: Path) -> None:
    config = {"model_type": "llava", "text_config": {place: {"": "stranger/kernel"}}}
    (tmp_path / "config.json").write_text(json.dumps(config))
    with pytest.raises(ValueError, match=rf"config\.json: {place} is .*stranger/kernel.* medtune runs no code"):
        check_folder(tmp_path)
    (tmp_path / "config.json").write_text(json.dumps({"text_config": {place: "flash_attention_2"}}))
    check_folder(tmp_path)
