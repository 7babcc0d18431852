"""Tests the transform of models over volumes that is had without the model."""

from pathlib import Path

import pytest

from medtune.data.media.volumes.transforms.organ_crop import CroppedTransform
from medtune.models import assemble
from medtune.models.volumes.ctvit_code_input import CodesInput
from medtune.models.volumes.volume_parts import RadFMInput, VolumeInput
from medtune.models.weights.export import assemble_model, volume_input, write_exported
from medtune.models.weights.loading_options import CODES, Loading
from tests.models.twins import OF_VOLUMES

WITHOUT_WEIGHTS = ("radfm", "m3d_llama2", "m3d_phi3", "ct_chat", "merlin", "pocket_ct", "parts")
CROPPED = ("nn_radfm", "nn_m3d_llama2", "nn_m3d_phi3", "nn_ct_chat", "nn_merlin")


@pytest.mark.parametrize("name", OF_VOLUMES)
def test_every_twin_reads_volumes_as_its_entry_says(name: str) -> None:
    found = volume_input(name, 0)
    assert found is not None
    assert found == assemble_model(name, 0).transform


@pytest.mark.parametrize("name", [*WITHOUT_WEIGHTS, *CROPPED])
def test_real_models_are_neither_assembled_nor_fetched(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    entry = assemble.zoo_entry(name)
    variants: list[str | None] = [each for each in entry.variants if each != CODES]
    for variant in variants or [None]:
        vision = "resnet3d" if name == "parts" else None
        found = volume_input(name, 0, Loading(variant=variant, vision=vision))
        assert isinstance(found, VolumeInput)
        assert isinstance(found.prepare, CroppedTransform) == (name in CROPPED)
        assert isinstance(found, RadFMInput) == name.endswith("radfm")
        if variant is not None:
            own = entry.variants[variant].transform
            assert (found.prepare.then if isinstance(found.prepare, CroppedTransform) else found.prepare) == own


def test_a_model_of_pictures_reads_no_volumes_as_such() -> None:
    assert volume_input("nano_qwen25vl", 0) is None
    assert volume_input("nano_gemma3", 0, Loading(volumes_as="slices")) is None


@pytest.mark.parametrize("cropped", [False, True])
def test_codes_are_those_of_the_run_s_tower(cropped: bool, tmp_path: Path) -> None:
    name = "nano_nn_ct_chat" if cropped else "nano_ct_chat"
    coders = []
    for seed in (0, 1):
        alone = volume_input(name, seed, Loading(variant=CODES))
        assembled = assemble_model(name, seed, Loading(variant=CODES))
        assert isinstance(alone, CodesInput)
        assert isinstance(assembled.transform, CodesInput)
        assert (alone.coder.digest, alone.prepare) == (assembled.transform.coder.digest, assembled.transform.prepare)
        coders.append(alone.coder.digest)
    assert coders[0] != coders[1]
    # An exported folder has a tower of its own, here that of another seed.
    folder = tmp_path / "exported"
    folder.mkdir()
    write_exported(assembled, folder, name=name, base_weights=None)
    exported = volume_input(name, 0, Loading(variant=CODES, weights=str(folder)))
    assert isinstance(exported, CodesInput)
    assert exported.coder.digest == coders[1]


def test_a_wrong_setting_is_refused() -> None:
    with pytest.raises(ValueError, match=r"model.variant: no 'publik'.* Did you mean 'public'"):
        volume_input("ct_chat", 0, Loading(variant="publik"))
    with pytest.raises(ValueError, match=r"does not take model\.video_frames"):
        volume_input("merlin", 0, Loading(video_frames=3))
