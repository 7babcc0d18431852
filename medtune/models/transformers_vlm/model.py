"""A transformers vision-language model that answers as `medtune.models.contract.Model` asks.

Shape legend: B rows, L tokens, T target tokens, E embedding width, V vocabulary.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import torch
from torch import Tensor, nn
from transformers import Cache, DynamicCache, PreTrainedModel

from medtune.models.contract import Encoded, TargetLogprobs, set_training
from medtune.models.sequence.layout import IGNORED, Rows
from medtune.models.transformers_vlm.wiring import Pixels, Step, Wiring
from medtune.models.tuning_plan import GroupName


class TransformersVlm(nn.Module):
    """The whole transformers model, unchanged, and the wiring of its family.

    Images are encoded once and shown to as many rows as ask for them; the vocabulary is spanned only where there are
    labels; positions come from the layout, never from the model.
    """

    def __init__(self, whole: PreTrainedModel, wiring: Wiring) -> None:
        super().__init__()
        self.whole = whole
        self._wiring = wiring

    @property
    def group_roots(self) -> Mapping[GroupName, tuple[str, ...]]:
        """The family's groups, named from this module on."""
        return {group: tuple(f"whole.{root}" for root in roots) for group, roots in self._wiring.roots.items()}

    def train(self, mode: bool = True) -> TransformersVlm:
        """Switches to training; frozen groups stay in evaluation mode."""
        super().train(mode)
        set_training(self, self.group_roots, mode=mode)
        return self

    def encode(self, media: Sequence[Pixels]) -> Encoded:
        """Returns what the decoder is shown of each image; keeps no graph where neither tower nor projector learns."""
        weight = next(self.whole.parameters())
        placed = [
            {name: t.to(weight.device, weight.dtype if t.is_floating_point() else t.dtype) for name, t in one.items()}
            for one in media
        ]
        return self._wiring.encode(self.whole, placed)

    def forward(self, rows: Rows, encoded: Encoded | None) -> TargetLogprobs:
        """Returns the log-probabilities of the labelled tokens.

        Rows with and without media are read apart: transformers' cross-attention layers are skipped only where no row
        shows an image.

        Raises:
            ValueError: A row shows media that were not encoded, or was cut through its image.
        """
        parts = [self._targets(rows, chosen_B, encoded) for chosen_B in _alike(rows)]
        if len(parts) == 1:
            return parts[0]
        logprobs_T, row_T = (torch.cat([part[i] for part in parts]) for i in (0, 1))
        order_T = row_T.argsort(stable=True)
        return TargetLogprobs(logprobs_T[order_T], row_T[order_T])

    def _targets(self, rows: Rows, chosen_B: Tensor, encoded: Encoded | None) -> TargetLogprobs:
        part = Rows(*(tensor[chosen_B] for tensor in rows))
        hidden_BLE = self._hidden(_first_step(part), encoded, None)
        targets_BL = part.labels_BL[:, 1:]
        is_target_BL = targets_BL != IGNORED
        logits_TV = self._output(hidden_BLE[:, :-1][is_target_BL])
        logprobs_T = logits_TV.log_softmax(dim=-1).gather(1, targets_BL[is_target_BL].unsqueeze(1)).squeeze(1)
        return TargetLogprobs(logprobs_T, chosen_B[is_target_BL.nonzero()[:, 0]])

    def _hidden(self, step: Step, encoded: Encoded | None, cache: Cache | None) -> Tensor:
        if encoded is None and bool((step.media_index_B >= 0).any()):
            raise ValueError("the rows show media, but none were encoded")
        return self._wiring.hidden(self.whole, step, encoded, cache)

    def _output(self, hidden_XE: Tensor) -> Tensor:
        logits_XV: Tensor = self.whole.get_output_embeddings()(hidden_XE)
        return logits_XV.float()

    @torch.no_grad()
    def generate(self, rows: Rows, encoded: Encoded | None, *, max_new_tokens: int, stop_id: int) -> list[list[int]]:
        """Returns the greedy continuation of each left-padded row, cut after the stop token.

        Our own loop, since transformers' `generate` cannot be given an encoded image and M-RoPE positions.

        Raises:
            ValueError: The rows are not left-padded.
        """
        if not bool(rows.attention_BL[:, -1].all()):
            raise ValueError("generation needs left-padded rows")
        replies: dict[int, list[int]] = {}
        for chosen_B in _alike(rows):
            part = Rows(*(tensor[chosen_B] for tensor in rows))
            said = self._continue(part, encoded, max_new_tokens=max_new_tokens, stop_id=stop_id)
            replies.update(zip(chosen_B.tolist(), said, strict=True))
        return [replies[row] for row in range(len(replies))]

    def _continue(self, rows: Rows, encoded: Encoded | None, *, max_new_tokens: int, stop_id: int) -> list[list[int]]:
        cache = DynamicCache(config=self.whole.config.get_text_config())
        step = _first_step(rows)
        chosen_BN = rows.ids_BL[:, :0]
        stopped_B = torch.zeros(len(rows.ids_BL), dtype=torch.bool, device=rows.ids_BL.device)
        while True:
            hidden_BLE = self._hidden(step, encoded, cache)
            next_B = self._output(hidden_BLE[:, -1]).argmax(dim=-1)
            chosen_BN = torch.cat([chosen_BN, next_B.unsqueeze(1)], dim=1)
            stopped_B |= next_B == stop_id
            if bool(stopped_B.all()) or chosen_BN.shape[1] == max_new_tokens:
                return [_cut_after(ids, stop_id) for ids in chosen_BN.tolist()]
            step = _next_step(step, next_B)


def _alike(rows: Rows) -> list[Tensor]:
    """Returns the indices of rows that show media and of rows that do not, empty ones left out."""
    shown_B = rows.media_index_B >= 0
    return [chosen_B for chosen_B in (shown_B.nonzero()[:, 0], (~shown_B).nonzero()[:, 0]) if len(chosen_B)]


def _first_step(rows: Rows) -> Step:
    return Step(
        ids_BL=rows.ids_BL,
        positions_BL=rows.positions_BL,
        attention_BK=rows.attention_BL,
        media_BL=rows.media_BL,
        sees_media_BL=rows.media_BL.cumsum(dim=1) > 0,
        media_index_B=rows.media_index_B,
    )


def _next_step(step: Step, ids_B: Tensor) -> Step:
    """Returns the step of one more token per row, one position further on every axis."""
    new_B1 = torch.ones_like(step.media_BL[:, -1:])
    return Step(
        ids_BL=ids_B.unsqueeze(1),
        positions_BL=step.positions_BL[:, -1:] + 1,
        attention_BK=torch.cat([step.attention_BK, new_B1], dim=1),
        media_BL=~new_B1,
        sees_media_BL=step.sees_media_BL[:, -1:],
        media_index_B=step.media_index_B,
    )


def _cut_after(ids: list[int], stop_id: int) -> list[int]:
    return ids[: ids.index(stop_id) + 1] if stop_id in ids else ids
