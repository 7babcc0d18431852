"""Tests that a pass of training reads no value back from the device, forward and backward.

Tensors on the meta device have no values: whoever asks for one fails. What stays on the host may be read.
"""

from contextlib import nullcontext
from copy import deepcopy

import pytest
import torch

from tests.models.twins import EVERY_TWIN, layout, row_each, shown, twin

READS_BACK = {
    "nano_gemma3": "chunked attention on a CPU looks for the keys of a chunk; a GPU takes flex_attention",
    "nano_glm4v": "its tower computes with the sizes of pictures",
    "nano_qwen35": "transformers looks whether its rows have padding",
    "nano_qwen3vl": "transformers adds features of its tower at places that it looks for, in three layers",
}
"""Twins that read values back, all but the first in code of transformers."""


@pytest.mark.parametrize("name", EVERY_TWIN)
def test_a_pass_of_training_reads_nothing_back(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    assembled = twin(name)
    media = shown(assembled, name, 0, 1)
    rows = row_each(assembled, [layout(assembled, name), layout(assembled, name, "arm")], [0, 1])
    model = deepcopy(assembled.model).requires_grad_(True).to("meta")
    # The meta device has no autocast.
    monkeypatch.setattr(torch, "is_autocast_enabled", lambda *_: False)
    monkeypatch.setattr(torch, "autocast", lambda *_, **__: nullcontext())

    def learn() -> None:
        model(rows.to(torch.device("meta")), model.encode(media)).logprobs_T.sum().backward()

    if name in READS_BACK:
        with pytest.raises((NotImplementedError, RuntimeError), match="meta"):
            learn()
        return
    learn()
    assert sum(p.grad is not None for p in model.parameters()) > 10
