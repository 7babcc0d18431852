"""Tests the nn_ models: the weights of their base model, and the crop that they see."""

from pathlib import Path

import pytest
import torch

from medtune.data.media.volumes.formats.abdomen_atlas import find_cases
from medtune.data.media.volumes.transforms.organ_crop import TARGETS, CroppedTransform
from medtune.data.types import MediaRef
from medtune.models.assemble import zoo_entry
from medtune.models.media_reader import read_item
from medtune.models.nano.volume import llama, tokenizer
from medtune.models.volumes.volume_parts import VolumeInput
from medtune.models.weights.export import assemble_model
from medtune.models.weights.loading_options import Loading
from medtune.models.zoo.nano_volumes import m3d_parts
from tests.models.volumes.test_volume_parts import TWINS, answered, own_model


@pytest.fixture(scope="session")
def real_ref(shared_real: Path) -> MediaRef:
    case = find_cases(shared_real)["ct_trunk"]
    return MediaRef(case.scan, kind="volume", masks=tuple(sorted(case.masks.items())))


@pytest.mark.parametrize("name", TWINS)
def test_twin_has_its_bases_weights_and_crops_around_the_papers_organs(name: str) -> None:
    base, cropped = (zoo_entry(n).assemble(0) for n in (name, name.replace("nano_", "nano_nn_")))
    ours, theirs = own_model(base).state_dict(), own_model(cropped).state_dict()
    assert all(torch.equal(ours[key], theirs[key]) for key in ours)
    assert isinstance(cropped.transform, VolumeInput)
    assert isinstance(base.transform, VolumeInput)
    prepare = cropped.transform.prepare
    assert isinstance(prepare, CroppedTransform)
    assert (prepare.then, prepare.organs, prepare.margin_mm) == (base.transform.prepare, TARGETS, 20.0)
    assert zoo_entry(name.replace("nano_", "nano_nn_")).by_organ


def test_organs_and_margin_are_the_recipes_to_choose() -> None:
    loading = Loading(crop_organs=("liver",), crop_margin_mm=0.0)
    transform = zoo_entry("nano_nn_merlin").assemble(0, loading).transform
    assert isinstance(transform, VolumeInput)
    assert isinstance(transform.prepare, CroppedTransform)
    assert (transform.prepare.organs, transform.prepare.margin_mm) == (("liver",), 0.0)
    with pytest.raises(ValueError, match=r"model\.crop_"):
        assemble_model("nano_merlin", 0, loading)


@pytest.mark.slow
@pytest.mark.parametrize("name", TWINS)
def test_crop_of_a_real_scan_is_another_answer(name: str, real_ref: MediaRef) -> None:
    logprobs = []
    for organs in (("liver",), ("pancreas",)):
        assembled = zoo_entry(name.replace("nano_", "nano_nn_")).assemble(0, Loading(crop_organs=organs))
        item = read_item(real_ref, assembled.transform)
        model = own_model(assembled).eval()
        with torch.no_grad():
            tokens = model.encode(assembled.transform.stack([item]))
            logprobs.append(model(answered(assembled, "12 cm"), tokens).logprobs_T)
    assert (logprobs[0] - logprobs[1]).abs().max() > 1e-4


def test_more_tokens_than_the_context_are_refused_by_name() -> None:
    parts = m3d_parts(llama())
    parts.language.max_position_embeddings = 20
    with pytest.raises(ValueError, match=r"reads 20 \(max_position_embeddings\); 8 of them are the media's"):
        parts.limited(tokenizer()).layout("how large is the liver?", "12 cm")
