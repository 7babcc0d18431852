"""merlin: Merlin's report model, an inflated ResNet-152 and a linear layer on RadLLaMA-7B; 1 or 490 visual tokens."""

from __future__ import annotations

from dataclasses import dataclass

from transformers import LlamaConfig

from medtune.data.media.volumes.transforms import merlin as preparation
from medtune.models.assemble import ZooEntry
from medtune.models.projectors.linear import linear
from medtune.models.sequence.merlin import REPORT_STOP_ID, Merlin
from medtune.models.towers.merlin_resnet import MerlinResNet, MerlinResNetConfig
from medtune.models.volumes.volume_parts import VolumeParts
from medtune.models.weights.keymaps import merlin as keys
from medtune.models.weights.releases.volume_release import Release, release_entry

RELEASE = Release(
    # merlin-vlm 0.0.7 reads the first; the second is the file of earlier versions.
    (
        "resnet_gpt2_best_stanford_report_generation_average_mtl.pt",
        "resnet_gpt2_best_stanford_report_generation_average.pt",
        "resnet_gpt2_best_stanford_report_generation_*.pt",
    ),
    keys.REPORT,
    "decode_text.text_decoder.base_model.model.model.embed_tokens.weight",
    adjust=keys.merged,
    tokenizer=("RadLLaMA-7b",),
    tokenizer_hub="StanfordAIMI/RadLLaMA-7b",
)


@dataclass(frozen=True, slots=True)
class VisualTokens:
    """The number of visual tokens: one, as in the paper, or 490, as in the release.

    Attributes:
        pooled: Whether the feature map is averaged to one token.
    """

    pooled: bool

    @property
    def count(self) -> int:
        """The number of tokens per volume."""
        return 1 if self.pooled else 490


POOLED, GRID = VisualTokens(pooled=True), VisualTokens(pooled=False)


def entry() -> ZooEntry:
    """Returns the zoo entry."""
    return release_entry(
        "Merlin: inflated ResNet-152 + linear layer (1 token) + RadLLaMA-7B",
        "MIT",
        {"pooled": parts(POOLED), "grid": parts(GRID)},
        RELEASE,
        hub="stanfordmimi/Merlin",
    )


def parts(tokens: VisualTokens) -> VolumeParts:
    """Returns the parts at full size. RadLLaMA has the architecture of Llama 2 with 7 billion parameters.

    Source: StanfordMIMI/Merlin@2489a96b; the seed paper's Table 2 for the single token.
    """
    tower = MerlinResNetConfig(pooled=tokens.pooled)
    return VolumeParts(
        vision=lambda: MerlinResNet(tower),
        projector=lambda width: linear(tower.width, width),
        language=LlamaConfig(
            # RadLLaMA adds tokens to Llama 2's, among them the stop token. Their number is read from the checkpoint.
            vocab_size=REPORT_STOP_ID + 1,
            hidden_size=4096,
            intermediate_size=11008,
            num_hidden_layers=32,
            num_attention_heads=32,
            max_position_embeddings=4096,
            rms_norm_eps=1e-5,
        ),
        family=lambda tokenizer: Merlin.of_release(tokenizer, num_media_tokens=tokens.count),
        transform=preparation.PUBLIC,
    )
