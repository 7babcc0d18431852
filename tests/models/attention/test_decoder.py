"""Compares decoders that read columns with plain transformers; negative controls must fail."""

from pathlib import Path

import pytest
import torch
from transformers import BloomConfig, BloomForCausalLM, MistralConfig, MistralForCausalLM

from medtune.models.assemble import zoo_entry
from medtune.models.attention.columns import PLACE
from medtune.models.attention.decoder import NAME, carried, take_columns
from medtune.models.sequence.builder import IGNORED, Sequence
from medtune.models.sequence.packing import PackedRows, Shown, pack
from medtune.models.sequence.tree import grow
from tests.models.tampering import all_seen

COMMON = tuple(range(1, 12))
ENDS = ((20, 21, 22, 23, 24, 25, 26, 27), (20, 21, 30, 31, 32, 33, 34), (35, 36, 37))
WINDOW = 6


def _windowed() -> MistralForCausalLM:
    torch.manual_seed(0)
    config = MistralConfig(
        vocab_size=40,
        hidden_size=32,
        intermediate_size=64,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        sliding_window=WINDOW,
        initializer_range=0.3,
    )
    model: MistralForCausalLM = MistralForCausalLM(config).eval()
    return model


@torch.no_grad()
def test_a_window_slides_over_each_sequence_and_not_over_the_row() -> None:
    model = _windowed()
    plain = torch.stack([model(torch.tensor([COMMON + end])).logits[0, -1] for end in ENDS])
    take_columns(model)
    laid = [Sequence(ids, (IGNORED,) * len(ids), tuple(range(len(ids))), ()) for ids in (COMMON + end for end in ENDS)]
    tree = grow(laid, range(len(laid)))
    rows = pack([[Shown(tree, None)]], pad_id=0)

    def read(rows: PackedRows) -> torch.Tensor:
        mask = carried(model.config, rows.columns_BCL, is_plain=rows.is_plain, is_whole=True)
        hidden_BLE = model.get_decoder()(
            input_ids=rows.ids_BL, attention_mask=mask, position_ids=rows.positions_BL
        ).last_hidden_state
        logits_RV: torch.Tensor = model.lm_head(hidden_BLE[0, list(tree.leaves)])
        return logits_RV

    torch.testing.assert_close(read(rows), plain, rtol=0, atol=1e-5)
    by_row_BCL = rows.columns_BCL.clone()
    by_row_BCL[:, PLACE] = torch.arange(by_row_BCL.shape[2])
    for wrong in (all_seen(rows), rows._replace(columns_BCL=by_row_BCL)):
        assert float((read(wrong) - plain).abs().max()) > 1e-2


@torch.no_grad()
def test_masks_of_two_axes_keep_their_meaning() -> None:
    """transformers drops them in silence where no maker of masks is registered."""
    model, ids_BL = _windowed(), torch.tensor([[7, 7, *COMMON[:4]]])
    padding_BL = torch.tensor([[0, 0, 1, 1, 1, 1]])
    wanted = model(torch.tensor([COMMON[:4]])).logits[0, -1]
    take_columns(model)
    found = model(ids_BL, attention_mask=padding_BL).logits[0, -1]
    torch.testing.assert_close(found, wanted, rtol=0, atol=1e-5)
    assert float((model(ids_BL).logits[0, -1] - wanted).abs().max()) > 1e-2


def test_a_decoder_with_an_attention_of_its_own_is_refused() -> None:
    model = BloomForCausalLM(BloomConfig(vocab_size=20, hidden_size=16, n_layer=1, n_head=2))
    with pytest.raises(ValueError, match="BloomForCausalLM computes its attention in a way of its own"):
        take_columns(model)


@pytest.mark.parametrize("name", ["nano_pocket", "nano_gemma3"])
def test_a_saved_model_does_not_name_the_attention(name: str, tmp_path: Path) -> None:
    """Other tools read the checkpoint, and know no attention of that name."""
    zoo_entry(name).assemble(0).model.save(tmp_path)
    written = list(tmp_path.rglob("*.json"))
    assert written
    assert not any(NAME in path.read_text() for path in written)
