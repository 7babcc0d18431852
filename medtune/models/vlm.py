"""A vision-language model that is put together from a tower, a projector and a language model.

Shape legend: M images, C channels, H height, W width, N visual tokens, D feature width, E embedding width,
B rows, L tokens, S media spans, T target tokens.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import chain
from pathlib import Path
from typing import Any, Self

import torch
from safetensors.torch import save_file
from torch import Tensor, nn
from transformers import Cache, DynamicCache, PreTrainedModel

from medtune.models.attention import Carried, carried, take_columns
from medtune.models.contract import PARTS, Model, Reading
from medtune.models.features.kept_features import Kept, KeptFeatures, WeightsDigest, can_keep, named
from medtune.models.last_layer import read_alone
from medtune.models.placing import placed
from medtune.models.replies import NewTokens, Wanted, grown, places_read
from medtune.models.sequence.end_tokens import cut_behind
from medtune.models.sequence.packing import PackedRows, PromptRows
from medtune.models.target_logprobs import OfStates, TargetLogprobs, Targets, whole_logits_because
from medtune.models.tuning.plan import PartName

LANGUAGE_FOLDER = "language"
"""Name of the folder in a saved model that holds the language model in transformers' format."""
VISION_PROJECTOR_FILE = "vision_projector.safetensors"
_ONE_FILE = "1TB"


class VisionLanguageModel(Model):
    """A model of a tower, a projector and a language model, each of which can be frozen, adapted or trained."""

    part_roots: Mapping[PartName, tuple[str, ...]] = {name: (name,) for name in PARTS}
    kept_parts: tuple[PartName, ...] = ("vision",)
    plain_because = None
    packs_trees = True

    def __init__(self, vision: nn.Module, projector: nn.Module, language: PreTrainedModel) -> None:
        super().__init__()
        self.vision = vision
        self.projector = projector
        self.language = language
        self.kept = KeptFeatures()
        self._digest = WeightsDigest()
        take_columns(language)

    @property
    def whole_logits_because(self) -> str | None:
        return whole_logits_because(self.language)

    @property
    def of_transformers(self) -> PreTrainedModel:
        return self.language

    def train(self, mode: bool = True) -> Self:
        """Switches between training and evaluation mode; frozen parts and batch norms stay in evaluation mode.

        Batch statistics would make the gradient of a question depend on its neighbours in the batch.
        """
        super().train(mode)
        for module in self.modules():
            if isinstance(module, nn.modules.batchnorm._BatchNorm):
                module.eval()
        return self

    def encode(self, pixels_MCHW: Tensor) -> Tensor:
        """Returns tokens_MNE; a tower without trainable weights runs without an autograd graph.

        A tower that does not learn reads an item once: its features are kept for the next epoch, phase or condition.
        """
        tokens_MNE: Tensor = self.projector(self._features(pixels_MCHW))
        return tokens_MNE

    @torch.no_grad()
    def features(self, pixels_MCHW: Tensor) -> Tensor:
        return self._features(pixels_MCHW).flatten(1)

    def _features(self, pixels_MCHW: Tensor) -> Tensor:
        weights = list(self.vision.parameters())
        with torch.set_grad_enabled(torch.is_grad_enabled() and any(weight.requires_grad for weight in weights)):
            if can_keep(weights, self.kept, self):
                return self._kept_features(pixels_MCHW)
            features_MND: Tensor = self.vision(self._at_the_tower(pixels_MCHW))
            return features_MND

    def _kept_features(self, pixels_MCHW: Tensor) -> Tensor:
        state = list(chain(self.vision.named_parameters(), self.vision.named_buffers()))
        digest = self._digest.of(state)
        names = [named(digest, each) for each in pixels_MCHW]
        device, outlives = state[0][1].device, not any(weight.requires_grad for _, weight in state)
        found = self.kept.read(
            names, lambda place: self.made(pixels_MCHW[place : place + 1])[0], device=device, outlives=outlives
        )
        return torch.stack([placed(features_ND, device) for (features_ND,) in found])

    def made(self, pixels_MCHW: Tensor) -> list[Kept]:
        return [(features_ND,) for features_ND in self.vision(self._at_the_tower(pixels_MCHW))]

    def _at_the_tower(self, pixels_MCHW: Tensor) -> Tensor:
        weight = next(chain(self.vision.parameters(), self.language.parameters()))
        # Integers are code ids of a tower that ran before, which keep their type.
        moved_MCHW = placed(pixels_MCHW, weight.device)
        return moved_MCHW.to(weight.dtype) if pixels_MCHW.is_floating_point() else moved_MCHW

    def embed(self, rows: PackedRows | PromptRows, tokens_MNE: Tensor | None) -> Tensor:
        """Returns embeddings_BLE, with the visual tokens in the places of the media spans."""
        embeddings_BLE: Tensor = self.language.get_input_embeddings()(rows.ids_BL)
        if rows.media_S.numel() == 0:
            return embeddings_BLE
        if tokens_MNE is None:
            raise ValueError("the rows show media, but no visual tokens were given")
        places = int(rows.media_BL.sum())
        if places != rows.media_S.numel() * tokens_MNE.shape[1]:
            raise ValueError(
                f"{rows.media_S.numel()} media spans of {places} tokens together where an image has "
                f"{tokens_MNE.shape[1]}; a sequence was cut through its image"
            )
        device = embeddings_BLE.device
        visual_XE = tokens_MNE[placed(rows.media_S, device)].flatten(0, 1).to(embeddings_BLE.dtype)
        where = [placed(each, device) for each in rows.media_BL.nonzero(as_tuple=True)]
        return embeddings_BLE.index_put(tuple(where), visual_XE)

    def forward(self, rows: PackedRows, tokens_MNE: Tensor | None, reading: Reading = Targets.read) -> Any:
        """Returns what `reading` makes of the target tokens; logits are computed only for these, a few at a time."""
        with read_alone(self.language.get_decoder(), rows.target_row_T, rows.target_place_T):
            hidden_BLE = self._hidden(rows, tokens_MNE, None)
        read_TE = hidden_BLE[rows.target_row_T, rows.target_place_T]
        return reading(Targets([OfStates(self.language, read_TE, rows.target_id_T, rows.target_sequence_T)]))

    def _hidden(self, rows: PackedRows, tokens_MNE: Tensor | None, cache: Cache | None) -> Tensor:
        mask = carried(self.language.config.get_text_config(), rows.columns_BCL, is_plain=rows.is_plain, is_whole=True)
        return self._decoded(self.embed(rows, tokens_MNE), mask, rows.positions_BL, cache)

    def _decoded(self, embeddings_BLE: Tensor, mask: Carried, positions_BL: Tensor, cache: Cache | None) -> Tensor:
        hidden_BLE: Tensor = self.language.get_decoder()(
            inputs_embeds=embeddings_BLE,
            attention_mask=mask,
            position_ids=positions_BL,
            past_key_values=cache,
            use_cache=cache is not None,
        ).last_hidden_state
        return hidden_BLE

    @torch.no_grad()
    def reply(
        self, rows: PackedRows, tokens_MNE: Tensor | None, wanted: Sequence[Wanted]
    ) -> tuple[list[list[int]], TargetLogprobs]:
        # Without a configuration, layers with a window keep all keys, some of which other branches still need.
        cache, config = DynamicCache(), self.language.config.get_text_config()

        def read(new: NewTokens | None) -> Tensor:
            if new is None:
                with read_alone(self.language.get_decoder(), *places_read(rows, wanted)):
                    return self._hidden(rows, tokens_MNE, cache)[0]
            mask = carried(config, new.columns_1CK, is_plain=False, is_whole=False)
            return self._decoded(self.language.get_input_embeddings()(new.ids_1A), mask, new.positions_1A, cache)[0]

        ids, read_TE = grown(rows, wanted, read, self.language.get_output_embeddings())
        return ids, OfStates(self.language, read_TE, rows.target_id_T, rows.target_sequence_T).read()

    @torch.no_grad()
    def generate(
        self, rows: PromptRows, tokens_MNE: Tensor | None, *, max_new_tokens: int, stop_ids: tuple[int, ...]
    ) -> list[list[int]]:
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
            eos_token_id=list(stop_ids),
            pad_token_id=stop_ids[0],
            # Ranks that share a divided model agree in turns, and not by equally many steps.
            synced_gpus=False,
        )
        return [cut_behind(row, stop_ids) for row in ids_BL.tolist()]

    def save(self, folder: Path) -> Path:
        """Writes the language model into a folder of its own, and the tower and projector into a file beside it."""
        save_pretrained: Any = self.language.save_pretrained
        save_pretrained(folder / LANGUAGE_FOLDER, max_shard_size=_ONE_FILE)
        own = {name: t.contiguous() for name, t in self.state_dict().items() if not name.startswith("language.")}
        save_file(own, folder / VISION_PROJECTOR_FILE, metadata={"format": "pt"})
        return folder / LANGUAGE_FOLDER
