"""Tests along which axis the outputs of a processor are joined, and that joined media answer as single ones do."""

import tempfile
from functools import cache
from pathlib import Path

import pytest
import torch

from medtune.models.contract import Assembled
from medtune.models.sequence.packing import Shown, pack
from medtune.models.sequence.tree import grow
from medtune.models.transformers_vlm.conversation import Conversations
from medtune.models.transformers_vlm.generic.loading import from_checkpoint
from medtune.models.transformers_vlm.generic.media import processor_outputs
from medtune.models.transformers_vlm.generic.model import GenericVlm
from medtune.models.weights.loading_options import Loading
from tests.models.transformers_vlm.generic.checkpoints import BUILDERS, write_checkpoint
from tests.models.twins import picture, size_of

JOINED = (picture(0), picture(1), picture(2))


@cache
def _read(name: str) -> Assembled:
    with tempfile.TemporaryDirectory() as folder:
        write_checkpoint(name, Path(folder))
        return from_checkpoint(folder, Loading(weights=folder))


def _logprobs(assembled: Assembled, axes: dict[str, int]) -> torch.Tensor:
    """Returns the log-probabilities of one answer about three images of one size, with their outputs joined so."""
    whole = assembled.model.of_transformers
    assert isinstance(assembled.model, GenericVlm)
    model = GenericVlm(whole, assembled.model._by_token, assembled.model._joins, axes).eval()
    layout = assembled.template.layout("Which plane?", "head", shapes=[size_of(JOINED[0])])
    rows = pack([[Shown(grow([layout], [n]), n)] for n in range(len(JOINED))], pad_id=assembled.template.pad_id)
    with torch.no_grad():
        read = model(rows, model.encode(assembled.transform.stack([assembled.transform(each) for each in JOINED])))
    ordered_T: torch.Tensor = read.logprobs_T[torch.argsort(read.sequence_T, stable=True)]
    return ordered_T


@pytest.mark.parametrize("name", BUILDERS)
def test_the_axis_is_found_out(name: str) -> None:
    nano = BUILDERS[name]()
    outputs = processor_outputs(Conversations(nano.processor), nano.processor, nano.config)
    last = {"pixel_values": 3, "pixel_values_videos": 3} if name == "minicpm_v" else {}
    assert outputs.axes == {each: last.get(each, 0) for each in (*outputs.image, *(outputs.video or ()))}


@pytest.mark.parametrize("name", ["lfm2_vl", "minicpm_v"])
def test_media_that_are_not_joined_are_read_one_by_one_with_the_same_result(name: str) -> None:
    assembled = _read(name)
    assert isinstance(assembled.model, GenericVlm)
    joined = _logprobs(assembled, dict(assembled.model._axes))
    assert torch.allclose(_logprobs(assembled, {}), joined, atol=2e-4)
    # The images are told apart, so that the comparison says something.
    assert joined.reshape(len(JOINED), -1).std(dim=0).max() > 0.01


def test_joining_along_another_axis_fails() -> None:
    with pytest.raises((RuntimeError, ValueError, IndexError)):
        _logprobs(_read("minicpm_v"), {"pixel_values": 0, "target_sizes": 0})
