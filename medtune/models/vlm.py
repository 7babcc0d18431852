"""A vision-language model in three groups: vision -> projector -> language.

Shape legend: M images, C channels, H height, W width, N visual tokens, D feature width, E embedding width,
B rows, L tokens, T target tokens, V vocabulary.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from transformers import PreTrainedModel

from medtune.models.contract import GROUPS, TargetLogprobs, Transform, set_training
from medtune.models.sequence.layout import IGNORED, Rows, SequenceFamily
from medtune.models.transformers_vlm.model import TransformersVlm
from medtune.models.tuning_plan import GroupName


class VisionLanguageModel(nn.Module):
    """Three groups of parameters, each of which can be frozen, adapted or trained."""

    def __init__(self, vision: nn.Module, projector: nn.Module, language: PreTrainedModel) -> None:
        super().__init__()
        self.vision = vision
        self.projector = projector
        self.language = language

    @property
    def group_roots(self) -> Mapping[GroupName, tuple[str, ...]]:
        """Each group is the submodule of its name."""
        return {name: (name,) for name in GROUPS}

    def train(self, mode: bool = True) -> VisionLanguageModel:
        """Switches to training; frozen groups and all batch norms stay in evaluation mode.

        Batch statistics would make the gradient of a question depend on its neighbours in the batch.
        """
        super().train(mode)
        set_training(self, self.group_roots, mode=mode)
        for module in self.modules():
            if isinstance(module, nn.modules.batchnorm._BatchNorm):
                module.eval()
        return self

    def encode(self, pixels_MCHW: Tensor) -> Tensor:
        """Returns tokens_MNE; a tower without trainable weights runs without an autograd graph."""
        weight = next(self.vision.parameters())
        vision_learns = any(p.requires_grad for p in self.vision.parameters())
        with torch.set_grad_enabled(vision_learns and torch.is_grad_enabled()):
            features_MND = self.vision(pixels_MCHW.to(weight.device, weight.dtype))
        tokens_MNE: Tensor = self.projector(features_MND)
        return tokens_MNE

    def embed(self, rows: Rows, tokens_MNE: Tensor | None) -> Tensor:
        """Returns embeddings_BLE, the visual tokens put where the rows want them.

        Raises:
            ValueError: A row's media span does not hold exactly the tokens of one image.
        """
        embeddings_BLE: Tensor = self.language.get_input_embeddings()(rows.ids_BL)
        shown = rows.media_index_B >= 0
        if not bool(shown.any()):
            return embeddings_BLE
        if tokens_MNE is None:
            raise ValueError("the rows show media, but no visual tokens were given")
        counts_B = rows.media_BL.sum(dim=1)
        if not bool((counts_B[shown] == tokens_MNE.shape[1]).all()):
            raise ValueError(
                f"media spans of {counts_B.tolist()} tokens where an image has {tokens_MNE.shape[1]}; "
                "a sequence was cut through its image"
            )
        visual_XE = tokens_MNE[rows.media_index_B[shown]].flatten(0, 1).to(embeddings_BLE.dtype)
        return embeddings_BLE.masked_scatter(rows.media_BL.unsqueeze(-1), visual_XE)

    def forward(self, rows: Rows, tokens_MNE: Tensor | None) -> TargetLogprobs:
        """Returns the log-probabilities of the labelled tokens; the vocabulary is spanned only there."""
        hidden_BLE = self.language.get_decoder()(
            inputs_embeds=self.embed(rows, tokens_MNE),
            attention_mask=rows.attention_BL,
            position_ids=rows.positions_BL,
            use_cache=False,
        ).last_hidden_state
        targets_BL = rows.labels_BL[:, 1:]
        is_target_BL = targets_BL != IGNORED
        logits_TV = self.language.get_output_embeddings()(hidden_BLE[:, :-1][is_target_BL]).float()
        logprobs_T = logits_TV.log_softmax(dim=-1).gather(1, targets_BL[is_target_BL].unsqueeze(1)).squeeze(1)
        return TargetLogprobs(logprobs_T, is_target_BL.nonzero()[:, 0])

    @torch.no_grad()
    def generate(self, rows: Rows, tokens_MNE: Tensor | None, *, max_new_tokens: int, stop_id: int) -> list[list[int]]:
        """Returns the greedy continuation of each left-padded row, cut after the stop token.

        Raises:
            ValueError: The rows are not left-padded.
        """
        if not bool(rows.attention_BL[:, -1].all()):
            raise ValueError("generation needs left-padded rows")
        generate: Any = self.language.generate
        ids_BL = generate(
            inputs_embeds=self.embed(rows, tokens_MNE),
            attention_mask=rows.attention_BL.long(),
            max_new_tokens=max_new_tokens,
            do_sample=False,
            temperature=None,
            top_p=None,
            top_k=None,
            eos_token_id=stop_id,
            pad_token_id=stop_id,
        )
        return [_cut_after(row, stop_id) for row in ids_BL.tolist()]


def _cut_after(ids: Sequence[int], stop_id: int) -> list[int]:
    return list(ids[: ids.index(stop_id) + 1]) if stop_id in ids else list(ids)


@dataclass(frozen=True, slots=True)
class Assembled:
    """A model with everything that is needed to ask it something.

    Attributes:
        provenance: Where each group's weights come from, in words for the report.
    """

    model: VisionLanguageModel | TransformersVlm
    family: SequenceFamily
    transform: Transform
    provenance: dict[str, str]
