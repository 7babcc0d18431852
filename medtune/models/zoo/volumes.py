"""The published models over volumes, one function each: each as released, and as a model that sees a crop of organs.

Source of the key maps: BAAI-DCAI/M3D@63e72005 (M3D-LaMed); StanfordMIMI/Merlin@2489a96b and merlin-vlm 0.0.7 (Merlin's
report model); StanfordMIMI/Merlin issue 36 (the image encoders in the two files differ, so that each model is read from
its own file).
"""

import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial

import torch
from torch import Tensor
from transformers import LlamaConfig, Phi3Config, PreTrainedConfig

from medtune.data.media.volumes.transforms import ct_chat as ct_chat_input
from medtune.data.media.volumes.transforms import m3d as m3d_input
from medtune.data.media.volumes.transforms import merlin as merlin_input
from medtune.data.media.volumes.transforms import radfm as radfm_input
from medtune.models.assemble import ZooEntry
from medtune.models.projectors.coca import CoCaConfig, CoCaProjector
from medtune.models.projectors.linear import linear
from medtune.models.projectors.perceiver import PerceiverConfig, PerceiverProjector
from medtune.models.projectors.spatial_pool import SpatialPoolProjector
from medtune.models.sequence.volumes import ADDED_TOKENS, M3D, REPORT_STOP_ID, CTChat, Merlin, RadFM
from medtune.models.towers.ctvit import CTViT
from medtune.models.towers.merlin_resnet import MerlinResNet, MerlinResNetConfig
from medtune.models.towers.radfm_vit import RadFMViT
from medtune.models.towers.vit3d import M3DViT, M3DViTConfig
from medtune.models.volumes.ctvit_code_input import as_codes
from medtune.models.volumes.organ_cropped import cropped
from medtune.models.volumes.volume_parts import RadFMInput, VolumeInput, VolumeParts, chosen, skeleton
from medtune.models.weights.key_map import Deferred, KeyMap, Rule, rename
from medtune.models.weights.loading_options import CODES, DEFAULT, Loading
from medtune.models.weights.releases import volume_release as radfm_keys
from medtune.models.weights.releases.volume_release import Release, release_entry

_MODULES = ((0, "conv1"), (1, "bn1"), (4, "layer1"), (5, "layer2"), (6, "layer3"), (7, "layer4"))
_PEFT = r"decode_text\.text_decoder\.base_model\.model\."

LORA_SCALE = 16 / 512
"""The scale alpha / r of the report model's adapter.

Source: merlin-vlm 0.0.7.
"""

REPORT = KeyMap(
    checkpoint="Merlin's report model",
    rules=(
        *(rename(f"encode_image.vision_model.features.{index}.", f"vision.net.{name}.") for index, name in _MODULES),
        rename("adapter.linear2.", "projector.each."),
        Rule(_PEFT + r"(.+?)\.base_layer\.(.+)", (r"language.\1.\2",)),
        Rule(_PEFT + r"((?!.*\.lora_).+)", (r"language.\1",)),
    ),
    left_out=(_PEFT + r".+\.rotary_emb\.inv_freq",),
)
"""The key map of the report model's tensors after `merged`, which removes the tensors of the adapter."""

LAMED = KeyMap(
    checkpoint="an M3D-LaMed checkpoint",
    rules=(
        rename("model.vision_tower.vision_tower.", "vision.vit."),
        # The names of a projector with a single layer hold no number.
        Rule(r"model\.mm_projector\.projector\.(weight|bias)", (r"projector.mlp.0.\1",)),
        rename("model.mm_projector.projector.", "projector.mlp."),
        Rule(r"(model\.(embed_tokens|layers|norm)\..+|lm_head\.weight)", (r"language.\1",)),
    ),
    left_out=(
        r"model\.vision_tower\.vision_tower\.blocks\.\d+\.norm_cross_attn\..+",
        # These modules segment organs; answering questions does not need them.
        r"model\.(seg_module|seg_projector)\..+",
        r"model\.layers\.\d+\.self_attn\.rotary_emb\.inv_freq",
    ),
)


def merged(tensors: Deferred, *, scale: float = LORA_SCALE) -> Deferred:
    """Returns the report model's tensors without adapters: each adapted weight W is replaced by W + scale * B A.

    Args:
        scale: Scale of the adapters, alpha / r.
    """
    halves = re.compile(r"(.+)\.lora_([AB])\.default\.weight")
    plain = {name: read for name, read in tensors.items() if not halves.fullmatch(name)}
    for stem in sorted({m[1] for name in tensors if (m := halves.fullmatch(name))}):
        names = [f"{stem}.base_layer.weight", f"{stem}.lora_B.default.weight", f"{stem}.lora_A.default.weight"]
        if absent := [name for name in names if name not in tensors]:
            raise ValueError(f"the adapter of {stem} is not whole: {', '.join(absent)} missing")
        plain[names[0]] = partial(_adapted, *(tensors[name] for name in names), scale=scale)
    return plain


def _adapted(
    weight: Callable[[], Tensor], up: Callable[[], Tensor], down: Callable[[], Tensor], *, scale: float
) -> Tensor:
    before = weight()
    return torch.addmm(before.float(), up().float(), down().float(), alpha=scale).to(before.dtype)


def ct_chat() -> ZooEntry:
    """ct_chat: CT-CHAT, CTViT codes with attentional pooling on Llama-3.1-8B; needs its weights in a local folder."""
    # peft takes seconds to import, and no other model needs it.
    from medtune.models.weights.releases.ct_chat_release import (
        LANGUAGE_FOLDER,
        PROJECTOR_FILE,
        assemble_ct_chat,
        read_ct_chat_tower,
    )

    # "public" is the release's volume of 480 x 480 x 240 voxels, "paper" is the paper's of 300 x 300 x 600, and "codes"
    # stands for the code ids of the release's volume.
    parts = ct_chat_parts()
    variants = {
        "public": parts, "paper": replace(parts, transform=ct_chat_input.PAPER), CODES: as_codes(parts)
    }  # fmt: skip

    def volume_input(_: int, loading: Loading) -> VolumeInput:
        seen = chosen(variants, loading.variant)
        return seen.input_of(lambda: read_ct_chat_tower(seen, loading))

    return ZooEntry(
        "CT-CHAT: CTViT codes + attentional pooling (256 tokens) + Llama-3.1-8B-Instruct",
        "CC-BY-NC-SA-4.0; Llama 3.1 Community License",
        lambda seed, loading=DEFAULT: assemble_ct_chat(chosen(variants, loading.variant), loading),
        lambda _=DEFAULT: skeleton(parts),
        files=(PROJECTOR_FILE,),
        folder=f"CT-CLIP_v2.pt, {PROJECTOR_FILE} and, in {LANGUAGE_FOLDER}, Llama-3.1-8B-Instruct with its tokenizer",
        variants=variants,
        volume_input=volume_input,
        takes=("weights", "dtype", "variant", "system_prompt"),
        one_question=True,
    )


def ct_chat_parts() -> VolumeParts:
    """Returns the parts at full size, with the release's volume of 480 x 480 x 240.

    Source: ibrahimethemhamamci/CT-CHAT@33c9b973; Grattafiori et al. 2024, arXiv 2407.21783.
    """
    return VolumeParts(
        vision=CTViT,
        projector=lambda width: CoCaProjector(CoCaConfig(), width),
        language=LlamaConfig(
            vocab_size=128256 + len(ADDED_TOKENS),
            hidden_size=4096,
            intermediate_size=14336,
            num_hidden_layers=32,
            num_attention_heads=32,
            num_key_value_heads=8,
            max_position_embeddings=131072,
            rms_norm_eps=1e-5,
            rope_parameters={
                "rope_type": "llama3",
                "rope_theta": 500000.0,
                "factor": 8.0,
                "low_freq_factor": 1.0,
                "high_freq_factor": 4.0,
                "original_max_position_embeddings": 8192,
            },
        ),
        template=CTChat,
        transform=ct_chat_input.ENCODE,
    )


def m3d_llama2() -> ZooEntry:
    """m3d_llama2: M3D-LaMed on Llama-2-7B-chat, a 3D ViT with spatial pooling to 256 tokens."""
    parts = m3d_llama2_parts()
    return _m3d(parts, "Llama-2-7B-chat", "Llama 2 Community License", "GoodBaiBai88/M3D-LaMed-Llama-2-7B")


def m3d_phi3() -> ZooEntry:
    """m3d_phi3: M3D-LaMed on Phi-3-mini-4k, a 3D ViT with spatial pooling to 256 tokens."""
    return _m3d(m3d_phi3_parts(), "Phi-3-mini-4k-instruct", "MIT", "GoodBaiBai88/M3D-LaMed-Phi-3-4B")


def _m3d(parts: VolumeParts, language: str, licence: str, hub: str) -> ZooEntry:
    return release_entry(
        f"M3D-LaMed: MONAI ViT + spatial pooling (256 tokens) + {language}",
        licence,
        {"slices8": parts, "hu_minmax": replace(parts, transform=m3d_input.HU_MINMAX)},
        Release(("*.safetensors",), LAMED, "model.embed_tokens.weight"),
        hub=hub,
    )


def m3d_llama2_parts() -> VolumeParts:
    """Returns the parts at full size. The release adds four tokens to Llama 2's 32000.

    Source: BAAI-DCAI/M3D@63e72005; Touvron et al. 2023, arXiv 2307.09288.
    """
    return _m3d_on(_llama2_7b(32004))


def m3d_phi3_parts() -> VolumeParts:
    """Returns the parts at full size; the size of the vocabulary is read from the checkpoint.

    Source: BAAI-DCAI/M3D@63e72005; Abdin et al. 2024, arXiv 2404.14219 (the sizes are transformers' defaults).
    """
    return _m3d_on(Phi3Config())


def _m3d_on(language: PreTrainedConfig) -> VolumeParts:
    return VolumeParts(
        vision=M3DViT,
        projector=lambda width: SpatialPoolProjector(M3DViTConfig().width, width),
        language=language,
        template=M3D,
        transform=m3d_input.SLICES8,
    )


def _llama2_7b(vocab_size: int) -> LlamaConfig:
    return LlamaConfig(
        vocab_size=vocab_size,
        hidden_size=4096,
        intermediate_size=11008,
        num_hidden_layers=32,
        num_attention_heads=32,
        max_position_embeddings=4096,
        rms_norm_eps=1e-5,
    )


@dataclass(frozen=True, slots=True)
class MerlinTokens:
    """Merlin's number of visual tokens: one, as in the paper, or 490, as in the release."""

    pooled: bool  # Whether the feature map is averaged to one token.

    @property
    def count(self) -> int:
        """The number of tokens per volume."""
        return 1 if self.pooled else 490


POOLED, GRID = MerlinTokens(pooled=True), MerlinTokens(pooled=False)


def merlin() -> ZooEntry:
    """merlin: Merlin's report model, an inflated ResNet-152 and a linear layer on RadLLaMA-7B; 1 or 490 tokens."""
    release = Release(
        # merlin-vlm 0.0.7 reads the first; the second is the file of earlier versions.
        (
            "resnet_gpt2_best_stanford_report_generation_average_mtl.pt",
            "resnet_gpt2_best_stanford_report_generation_average.pt",
            "resnet_gpt2_best_stanford_report_generation_*.pt",
        ),
        REPORT,
        "decode_text.text_decoder.base_model.model.model.embed_tokens.weight",
        adjust=merged,
        tokenizer=("RadLLaMA-7b",),
        tokenizer_hub="StanfordAIMI/RadLLaMA-7b",
    )
    return release_entry(
        "Merlin: inflated ResNet-152 + linear layer (1 token) + RadLLaMA-7B",
        "MIT",
        {"pooled": merlin_parts(POOLED), "grid": merlin_parts(GRID)},
        release,
        hub="stanfordmimi/Merlin",
    )


def merlin_parts(tokens: MerlinTokens) -> VolumeParts:
    """Returns the parts at full size. RadLLaMA has the architecture of Llama 2 with 7 billion parameters.

    It adds tokens to Llama 2's, among them the stop token. Their number is read from the checkpoint.

    Source: StanfordMIMI/Merlin@2489a96b; the seed paper's Table 2 for the single token.
    """
    tower = MerlinResNetConfig(pooled=tokens.pooled)
    return VolumeParts(
        vision=lambda: MerlinResNet(tower),
        projector=lambda width: linear(tower.width, width),
        language=_llama2_7b(REPORT_STOP_ID + 1),
        template=lambda tokenizer: Merlin.of_release(tokenizer, num_media_tokens=tokens.count),
        transform=merlin_input.PUBLIC,
    )


def radfm() -> ZooEntry:
    """radfm: RadFM, a 3D ViT with a perceiver resampler on LLaMA-13B; needs its weights in a local folder."""
    parts = radfm_parts()
    return release_entry(
        "RadFM: 3D ViT + perceiver resampler (32 tokens) + LLaMA-13B",
        "not stated",
        {"paper": parts, "public": replace(parts, transform=radfm_input.PUBLIC)},
        Release(
            ("pytorch_model.bin",),
            radfm_keys.KEY_MAP,
            "lang_model.model.embed_tokens.weight",
            tokenizer=("Language_files",),
        ),
        # The hub has the checkpoint only as a zip archive in several parts.
        hub=None,
    )


def radfm_parts() -> VolumeParts:
    """Returns the parts at full size, with the paper's volume of 256 x 256 x 64.

    Source: chaoyi-wu/RadFM@9efba84c, Quick_demo/Language_files/config.json; Touvron et al. 2023, arXiv 2302.13971.
    """
    return VolumeParts(
        vision=RadFMViT,
        projector=lambda width: PerceiverProjector(PerceiverConfig(), width),
        language=LlamaConfig(
            vocab_size=32000,
            hidden_size=5120,
            intermediate_size=13824,
            num_hidden_layers=40,
            num_attention_heads=40,
            max_position_embeddings=2048,
            rms_norm_eps=1e-6,
        ),
        template=RadFM,
        transform=radfm_input.PAPER,
        seen_as=lambda transform, _: RadFMInput(transform),
    )


def nn_ct_chat() -> ZooEntry:
    """nn_ct_chat: CT-CHAT, which sees a crop around target organs instead of the whole scan."""
    return cropped("ct_chat")


def nn_m3d_llama2() -> ZooEntry:
    """nn_m3d_llama2: M3D-LaMed on Llama 2, which sees a crop around target organs instead of the whole scan."""
    return cropped("m3d_llama2")


def nn_m3d_phi3() -> ZooEntry:
    """nn_m3d_phi3: M3D-LaMed on Phi-3, which sees a crop around target organs instead of the whole scan."""
    return cropped("m3d_phi3")


def nn_merlin() -> ZooEntry:
    """nn_merlin: Merlin, which sees a crop around target organs instead of the whole scan."""
    return cropped("merlin")


def nn_radfm() -> ZooEntry:
    """nn_radfm: RadFM, which sees a crop around target organs instead of the whole scan."""
    return cropped("radfm")
