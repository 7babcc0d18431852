"""Adapts any vision-language model of transformers to `medtune.models.contract.Model`, by its own forward alone.

Shape legend: B rows, L tokens, T target tokens.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from transformers import GenerationConfig, PreTrainedModel

from medtune.models.contract import Encoded, Model, TargetLogprobs, read_targets, root_of, set_training
from medtune.models.sequence.end_tokens import cut_behind
from medtune.models.sequence.packing import PackedRows, media_of_rows
from medtune.models.sequence.prompts import PromptRows
from medtune.models.transformers_vlm.generic.module_parts import find_parts
from medtune.models.transformers_vlm.model import sequence_padding
from medtune.models.transformers_vlm.wiring import Pixels
from medtune.models.tuning.plan import PartName

PLAIN = (
    "it is read by the generic entry, which gives the model's own forward one sequence a row, as nothing proves that "
    "this architecture could share one"
)


class GenericVlm(Model):
    """A model of transformers that is given the outputs of its own processor and computes everything itself.

    Each row runs the tower. Rows whose images have the same shapes are read in one pass, if the processor joins images.

    Args:
        whole: The model.
        by_token: For each argument that says something of every token, its value by the token's id.
        axes: The axis along which each argument of several media is joined; media without one have a pass of their own.
    """

    def __init__(
        self, whole: PreTrainedModel, by_token: Mapping[str, Mapping[int, int]], axes: Mapping[str, int]
    ) -> None:
        super().__init__()
        self.whole = whole
        self._roots = find_parts(whole)
        self._by_token = by_token
        self._axes = axes
        self._keeps_logits = "logits_to_keep" in inspect.signature(whole.forward).parameters

    @property
    def part_roots(self) -> Mapping[PartName, tuple[str, ...]]:
        """The names of the modules and parameters of each part, as seen from this module."""
        return {part: tuple(f"whole.{root}" for root in roots) for part, roots in self._roots.items()}

    def train(self, mode: bool = True) -> GenericVlm:
        """Switches between training and evaluation mode; frozen parts stay in evaluation mode."""
        super().train(mode)
        set_training(self, mode=mode)
        return self

    @property
    def plain_because(self) -> str:
        """The reason why each sequence has a row of its own."""
        return PLAIN

    @property
    def packs_trees(self) -> bool:
        """Always False, because a row holds one sequence."""
        return False

    @property
    def of_transformers(self) -> PreTrainedModel:
        """The wrapped model."""
        return self.whole

    def features(self, media: Sequence[Pixels]) -> Tensor | None:
        """Returns None, because images differ in their number of features."""
        return None

    def encode(self, media: Sequence[Pixels]) -> Encoded:
        """Returns the outputs of the processor, moved to the model's device and type; each pass runs the tower."""
        weight = next(p for name, p in self.named_parameters() if root_of(name, self.part_roots)[0] == "vision")
        return [
            {name: t.to(weight.device, weight.dtype if t.is_floating_point() else t.dtype) for name, t in one.items()}
            for one in media
        ]

    def forward(self, rows: PackedRows, encoded: Encoded | None) -> TargetLogprobs:
        """Returns the log-probabilities of the target tokens.

        Raises:
            ValueError: A row holds more than one sequence, or shows media that were not encoded.
        """
        attention_BL = sequence_padding(rows.mask_BLL, self.plain_because)
        index_B = media_of_rows(rows.media_BL, rows.media_S).index_B
        read = []
        for chosen_B in _alike(index_B, encoded, self._axes):
            number_B = torch.full_like(index_B, -1)
            number_B[chosen_B] = torch.arange(len(chosen_B), device=index_B.device)
            mine_T = number_B[rows.target_row_T] >= 0
            place_T = rows.target_place_T[mine_T]
            places, column_T = place_T.unique(return_inverse=True)
            keeps = {"logits_to_keep": places} if self._keeps_logits else {}
            length = int(attention_BL[chosen_B].sum(dim=1).max())
            inputs = self._inputs(
                rows.ids_BL[chosen_B, :length],
                attention_BL[chosen_B, :length],
                _shown(index_B[chosen_B], encoded, self._axes),
            )
            logits_BLV = self.whole(**inputs, **keeps, use_cache=False).logits
            logits_TV = logits_BLV[number_B[rows.target_row_T][mine_T], column_T if keeps else place_T]
            read.append(read_targets(logits_TV, rows.target_id_T[mine_T], rows.target_sequence_T[mine_T]))
        return TargetLogprobs(torch.cat([r.logprobs_T for r in read]), torch.cat([r.sequence_T for r in read]))

    def _inputs(self, ids_BL: Tensor, attention_BL: Tensor, media: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """Returns the arguments of the model; the outputs of the processor about single tokens are made anew."""
        by_token = {}
        for name, values in self._by_token.items():
            made_BL = torch.zeros_like(ids_BL)
            for one, value in values.items():
                if value:
                    made_BL[(ids_BL == one) & attention_BL] = value
            by_token[name] = made_BL
        return {"input_ids": ids_BL, "attention_mask": attention_BL.long(), **by_token, **media}

    @torch.no_grad()
    def generate(
        self, rows: PromptRows, encoded: Encoded | None, *, max_new_tokens: int, stop_ids: tuple[int, ...]
    ) -> list[list[int]]:
        """Returns the greedy continuation of each left-padded row by the model's own `generate`, cut after its end.

        Args:
            rows: The prompts.
            encoded: The encoded media; None where no row shows any.
            max_new_tokens: Largest number of tokens of a reply.
            stop_ids: Ids of the tokens that end a reply.

        Raises:
            ValueError: The rows are not left-padded, or show media that were not encoded.
        """
        if not bool(rows.attention_BL[:, -1].all()):
            raise ValueError("generation needs left-padded rows")
        index_B = media_of_rows(rows.media_BL, rows.media_S).index_B
        replies: dict[int, list[int]] = {}
        for chosen_B in _alike(index_B, encoded, self._axes):
            length = int(rows.attention_BL[chosen_B].sum(dim=1).max())
            inputs = self._inputs(
                rows.ids_BL[chosen_B, -length:],
                rows.attention_BL[chosen_B, -length:],
                _shown(index_B[chosen_B], encoded, self._axes),
            )
            greedy = GenerationConfig(
                max_new_tokens=max_new_tokens,
                do_sample=False,
                eos_token_id=list(stop_ids),
                pad_token_id=stop_ids[0],
            )
            with _settings(self.whole, greedy):
                model: Any = self.whole
                said_BN = model.generate(**inputs)
            replies.update(
                (row, cut_behind(ids[length:], stop_ids))
                for row, ids in zip(chosen_B.tolist(), said_BN.tolist(), strict=True)
            )
        return [replies[row] for row in range(len(replies))]

    def save(self, folder: Path) -> Path:
        """Writes the model as a checkpoint of transformers, which other tools can read, and returns its folder."""
        self.whole.save_pretrained(folder)
        return folder


@contextmanager
def _settings(whole: PreTrainedModel, settings: GenerationConfig) -> Iterator[None]:
    """Replaces the checkpoint's own settings of generation, which would fill in a penalty on repetitions."""
    model: Any = whole
    kept = model.generation_config
    model.generation_config = settings
    try:
        yield
    finally:
        model.generation_config = kept


def _alike(index_B: Tensor, encoded: Encoded | None, axes: Mapping[str, int]) -> list[Tensor]:
    """Returns the indices of the rows that one pass can read: those without media, or with media of the same shapes.

    Media that the processor does not join have a pass of their own.

    Raises:
        ValueError: A row shows media, but none were encoded.
    """
    if encoded is None and bool((index_B >= 0).any()):
        raise ValueError("the rows show media, but none were encoded")
    shapes = [tuple((name, tuple(t.shape)) for name, t in one.items()) for one in encoded or ()]
    groups: dict[object, list[int]] = {}
    for row, index in enumerate(index_B.tolist()):
        joins = index < 0 or encoded is None or encoded[index].keys() <= axes.keys()
        groups.setdefault((None if index < 0 else shapes[index], None if joins else row), []).append(row)
    return [torch.tensor(rows, device=index_B.device) for rows in groups.values()]


def _shown(index_B: Tensor, encoded: Encoded, axes: Mapping[str, int]) -> dict[str, Tensor]:
    """Returns the media of rows that all show media of the same shapes, joined as the processor joins them."""
    shown = [encoded[index] for index in index_B.tolist() if index >= 0]
    if len(shown) == 1:
        return dict(shown[0])
    return {name: torch.cat([one[name] for one in shown], dim=axes[name]) for name in shown[0]} if shown else {}
