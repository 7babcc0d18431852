"""Fixtures of the release folders: written once, with tiny towers in the zoo, and without a hub."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from huggingface_hub.errors import LocalEntryNotFoundError
from safetensors import safe_open
from torch import Tensor
from transformers import AutoModelForCausalLM

from medtune.models.contract import Assembled
from medtune.models.weights import hub, key_map
from medtune.models.weights.export import assemble_model
from medtune.models.weights.loading_options import Loading
from tests.models.releases.folders import WRITERS, shrink

Made = dict[str, tuple[Path, dict[str, Tensor]]]
"""The folder of each release, and its weights under medtune's names."""


@pytest.fixture(scope="session")
def releases(tmp_path_factory: pytest.TempPathFactory) -> Made:
    made = {}
    for name, write in WRITERS.items():
        folder = tmp_path_factory.mktemp(name)
        made[name] = (folder, write(folder))
    return made


@pytest.fixture(scope="module", autouse=True)
def tiny_towers() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        shrink(patch)
        yield


@pytest.fixture(autouse=True)
def no_hub(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(where: str, **_: object) -> str:
        raise LocalEntryNotFoundError(f"no network in a test ({where})")

    monkeypatch.setattr(hub, "snapshot_download", refuse)


def read(name: str, folder: Path | str, **settings: Any) -> Assembled:
    return assemble_model(name, 0, Loading(weights=str(folder), **settings))


@pytest.fixture
def values_read(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The readings of tensors' values: an entry for each, with the kind of the file."""
    seen: list[str] = []
    itself, opened, pretrained = key_map._itself, safe_open, AutoModelForCausalLM.from_pretrained

    def of_torch(tensor: Tensor) -> Tensor:
        if not tensor.is_meta:
            seen.append("torch")
        return itself(tensor)

    class Watched:
        def __init__(self, path: Path, **settings: str) -> None:
            self.file: Any = opened(path, **settings)
            self.keys, self.get_slice = self.file.keys, self.file.get_slice

        def get_tensor(self, name: str) -> Tensor:
            seen.append("safetensors")
            tensor: Tensor = self.file.get_tensor(name)
            return tensor

    def of_transformers(*arguments: Any, **settings: Any) -> Any:
        seen.append("transformers")
        return pretrained(*arguments, **settings)

    monkeypatch.setattr(key_map, "_itself", of_torch)
    monkeypatch.setattr(key_map, "safe_open", Watched)
    monkeypatch.setattr(AutoModelForCausalLM, "from_pretrained", of_transformers)
    return seen
