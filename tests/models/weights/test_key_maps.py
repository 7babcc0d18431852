"""Tests the key maps of published files: tensors that are read, may be left out, or are refused."""

import re

import pytest
import torch
from torch import Tensor, nn

from medtune.models.towers.merlin_resnet import MerlinResNetConfig
from medtune.models.towers.vit3d import M3DViT, M3DViTConfig
from medtune.models.weights.key_map import KeyMap, Rule, at_hand, load_published, rename, translate
from medtune.models.weights.releases import ct_chat_release, volume_release
from medtune.models.zoo import volumes
from tests.models.golden.towers import CONTRASTIVE, MerlinWithHeads

VIT = KeyMap(
    checkpoint="M3D-CLIP's pretrained_ViT.bin",
    rules=(
        # Files from a user's own CLIP training have this prefix; the published file has none.
        rename("vision_encoder.", "vision.vit."),
        Rule("((cls_token|patch_embedding|blocks|norm).*)", (r"vision.vit.\1",)),
    ),
    left_out=(
        r"blocks\.\d+\.norm_cross_attn\..+",
        r"(language_encoder|mm_vision_proj|mm_language_proj)\..+",
        "logit_scale",
    ),
)
"""Source: BAAI-DCAI/M3D@63e72005; BAAI-DCAI/M3D issue 24 (names after one's own CLIP training)."""


def small_vit() -> nn.ModuleDict:
    tower = M3DViT(M3DViTConfig((8, 16, 16), (4, 8, 8), width=12, mlp_width=8, depth=2, heads=2))
    return nn.ModuleDict({"vision": tower})


def file_of(model: nn.Module, ours: str, theirs: str) -> dict[str, Tensor]:
    """Returns a published file for the model: its tensors with other values, under their published names."""
    return {re.sub(ours, theirs, name): torch.full_like(value, 3) for name, value in model.state_dict().items()}


def test_a_whole_file_fills_every_weight() -> None:
    model = small_vit()
    file = file_of(model, r"^vision\.vit\.", "")
    file["blocks.0.norm_cross_attn.weight"] = torch.ones(12)
    load_published(model, at_hand(file), VIT, where="pretrained_ViT.bin")
    for name, value in model.state_dict().items():
        torch.testing.assert_close(value, file[name.removeprefix("vision.vit.")])


def test_one_file_reads_under_the_prefix_of_its_own_training() -> None:
    model = small_vit()
    load_published(model, at_hand(file_of(model, r"^vision\.vit\.", "vision_encoder.")), VIT, where="x")


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda f: f.pop("norm.bias"), r"ViT\.bin: .* 1 missing: vision\.vit\.norm\.bias"),
        (
            lambda f: f.update({"blocks.7.norm1.bias": torch.ones(12)}),
            r"1 left over: vision\.vit\.blocks\.7\.norm1\.bias",
        ),
        (lambda f: f.update({"head.weight": torch.ones(12)}), r"1 not known: head\.weight"),
        (
            lambda f: f.update({"norm.bias": torch.ones(13)}),
            r"norm\.bias is \(13,\) in the file and \(12,\) in the model",
        ),
    ],
    ids=["missing", "left_over", "not_known", "shape"],
)
def test_a_file_that_does_not_fit_is_refused_with_names(change: object, said: str) -> None:
    model = small_vit()
    before = {name: value.clone() for name, value in model.state_dict().items()}
    file = file_of(model, r"^vision\.vit\.", "")
    change(file)  # type: ignore[operator]
    with pytest.raises(ValueError, match=said):
        load_published(model, at_hand(file), VIT, where="ViT.bin")
    for name, value in model.state_dict().items():
        torch.testing.assert_close(value, before[name])


def test_the_checkpoint_of_another_model_is_refused() -> None:
    model = small_vit()
    file = file_of(model, r"^vision\.vit\.", "")
    for key_map in (volume_release.KEY_MAP, volumes.LAMED, volumes.REPORT, ct_chat_release.CT_CLIP):
        with pytest.raises(ValueError, match=f"not {re.escape(key_map.checkpoint)}"):
            load_published(model, at_hand(file), key_map, where="x")


def test_heads_are_read_and_may_not_be_missing() -> None:
    sizes = MerlinResNetConfig((1, 1, 1, 1), (4, 4, 4, 4))
    whole = nn.ModuleDict({"vision": MerlinWithHeads(sizes, phenotypes=3, contrastive_width=2)})
    file = file_of(whole, r"^vision\.(net\.)?", "encode_image.i3_resnet.")
    file |= {"logit_scale": torch.ones([]), "encode_text.linear_layer.weight": torch.ones(2, 2)}
    load_published(whole, at_hand(file), CONTRASTIVE, where="x")
    with pytest.raises(ValueError, match="missing"):
        load_published(whole, at_hand({k: v for k, v in file.items() if "classifier" not in k}), CONTRASTIVE, where="x")


def test_adapters_of_the_report_model_are_added_to_their_weights() -> None:
    stem = "decode_text.text_decoder.base_model.model.model.layers.0.self_attn.q_proj"
    weight, up, down = torch.randn(4, 6), torch.randn(4, 2), torch.randn(2, 6)
    file = {
        f"{stem}.base_layer.weight": weight,
        f"{stem}.lora_A.default.weight": down,
        f"{stem}.lora_B.default.weight": up,
        "decode_text.text_decoder.base_model.model.lm_head.weight": torch.ones(3, 6),
    }
    found = translate(volumes.merged(at_hand(file), scale=0.5), volumes.REPORT, where="x")
    assert set(found) == {"language.model.layers.0.self_attn.q_proj.weight", "language.lm_head.weight"}
    torch.testing.assert_close(found["language.model.layers.0.self_attn.q_proj.weight"](), weight + 0.5 * up @ down)
    with pytest.raises(ValueError, match="not whole"):
        volumes.merged(at_hand({k: v for k, v in file.items() if "lora_B" not in k}))


def test_a_tensor_that_should_be_zero_must_be() -> None:
    name = "visual_transformer.enc_spatial_transformer.norm_out.beta"
    assert translate(at_hand({name: torch.zeros(3)}), ct_chat_release.CT_CLIP, where="x") == {}
    with pytest.raises(ValueError, match=r"norm_out\.beta holds values"):
        translate(at_hand({name: torch.ones(3)}), ct_chat_release.CT_CLIP, where="x")


def test_tensors_are_cut_and_joined_in_order() -> None:
    key_map = KeyMap("x", (Rule("kv", ("k", "v")), Rule("b", ("ab",), part=1), Rule("a", ("ab",), part=0)))
    found = translate(
        at_hand({"kv": torch.arange(4), "b": torch.tensor([9]), "a": torch.tensor([7])}), key_map, where="x"
    )
    assert {name: read().tolist() for name, read in found.items()} == {"k": [0, 1], "v": [2, 3], "ab": [7, 9]}


def test_radfm_leaves_out_what_neither_reads_nor_answers() -> None:
    unread = [
        "embedding_layer.weight",
        "embedding_layer.bert_model.embeddings.position_ids",
        "embedding_layer.transformer_decoder.layers.0.linear1.weight",
        "embedding_layer.cls_head.weight",
        "lang_model.model.layers.39.self_attn.rotary_emb.inv_freq",
    ]
    assert translate(at_hand(dict.fromkeys(unread, torch.ones(1))), volume_release.KEY_MAP, where="x") == {}
