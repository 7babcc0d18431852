"""Adapts a vision-language model of transformers to `medtune.models.contract.Model`.

Shape legend: B rows, L tokens, T target tokens, N new tokens, E embedding width; in a tower H heads, S patches of all
segments, K segments of one length, N patches of such a segment, D width of a head.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import groupby, pairwise
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from transformers import Cache, DynamicCache, PreTrainedModel
from transformers.integrations.sdpa_attention import sdpa_attention_forward
from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS

from medtune.models.attention import take_columns
from medtune.models.contract import Encoded, Model, Reading, root_of
from medtune.models.features.kept_features import Kept, KeptFeatures, WeightsDigest, can_keep, named, on_device
from medtune.models.last_layer import read_alone
from medtune.models.placing import placed
from medtune.models.replies import NewTokens, Wanted, grown, places_read
from medtune.models.sequence.end_tokens import cut_behind
from medtune.models.sequence.packing import PackedRows, PromptRows, spans_of_rows
from medtune.models.target_logprobs import OfStates, TargetLogprobs, Targets, whole_logits_because
from medtune.models.transformers_vlm.family import EncodedItems, Pixels, Step, Wiring, attended_spans, language_model
from medtune.models.transformers_vlm.visual_tokens import stays_on_host
from medtune.models.tuning.plan import PartName

SEGMENTS = "medtune_segments_like_flash"
"""Name of the attention. transformers hands all patches with their boundaries to functions whose name holds "flash"."""


class TransformersVlm(Model):
    """An unchanged model of transformers, run through the wiring of its family.

    Each image is encoded once, however many rows show it. Logits are computed only at the places of target tokens.
    The layout of the sequence gives the positions; the model never computes them itself.
    """

    kept_parts: tuple[PartName, ...] = ("vision", "projector")
    packs_trees = False

    def __init__(self, whole: PreTrainedModel, wiring: Wiring) -> None:
        super().__init__()
        self.whole = whole
        self._wiring = wiring
        self.kept = KeptFeatures()
        self._digest = WeightsDigest()
        if wiring.plain_because is None:
            take_columns(language_model(whole))
        for root in wiring.roots["vision"]:
            attend_segments_together(whole.get_submodule(root))

    @property
    def part_roots(self) -> Mapping[PartName, tuple[str, ...]]:
        return {part: tuple(f"whole.{root}" for root in roots) for part, roots in self._wiring.roots.items()}

    @property
    def plain_because(self) -> str | None:
        return self._wiring.plain_because

    @property
    def mixes_images(self) -> bool:
        # transformers' Mllama lets a token in front of all images attend to every image of its row.
        return self._wiring.attends

    @property
    def whole_logits_because(self) -> str | None:
        return whole_logits_because(self.whole)

    @property
    def of_transformers(self) -> PreTrainedModel:
        return self.whole

    def encode(self, media: Sequence[Pixels]) -> Encoded:
        """Returns the encoded images, as the decoder takes them.

        A tower and a projector that do not learn encode an image once: the result is kept for the next epoch, phase or
        condition.
        """
        weights = list(self._encoding(nn.Module.named_parameters))
        if not can_keep((p for _, p in weights), self.kept, self):
            return self._encoded(media)
        digest, device = self._digest.of([*weights, *self._encoding(nn.Module.named_buffers)]), weights[0][1].device
        outlives = not any(weight.requires_grad for _, weight in weights)
        found = self.kept.read(
            [named(digest, item) for item in media],
            lambda place: self.made([media[place]])[0],
            device=device,
            outlives=outlives,
        )
        return self._wiring.encoded.joined([on_device(each, device) for each in found])

    @torch.no_grad()
    def made(self, media: Sequence[Pixels]) -> list[Kept]:
        return self._encoded(media).parted()

    def _encoding(self, named_tensors: Callable[..., Iterator[tuple[str, Tensor]]]) -> Iterator[tuple[str, Tensor]]:
        for root in (root for part in self.kept_parts for root in self._wiring.roots[part]):
            owner, _, name = root.rpartition(".")
            inside = self.whole.get_submodule(owner)
            alone = getattr(inside, name)
            if isinstance(alone, nn.Module):
                yield from named_tensors(alone, prefix=root)
            elif named_tensors is nn.Module.named_parameters:
                yield root, alone

    def _encoded(self, media: Sequence[Pixels]) -> EncodedItems:
        weight = next(p for name, p in self.named_parameters() if root_of(name, self.part_roots)[0] == "vision")
        items = [
            {name: t if stays_on_host(self.whole, name) else _in_place(t, weight) for name, t in one.items()}
            for one in media
        ]
        return self._wiring.encode(self.whole, items)

    def forward(self, rows: PackedRows, encoded: Encoded | None, reading: Reading = Targets.read) -> Any:
        """Returns what `reading` makes of the target tokens.

        Rows with and without media are read apart: transformers' cross-attention layers are skipped only where no row
        shows an image.
        """
        step = self._whole_rows(rows)
        return reading(Targets([self._targets(rows, step, chosen, encoded) for chosen in _alike(step)]))

    def _targets(self, rows: PackedRows, step: Step, chosen: list[int], encoded: Encoded | None) -> OfStates:
        row_T, place_T, id_T, sequence_T = (
            rows.target_row_T, rows.target_place_T, rows.target_id_T, rows.target_sequence_T
        )  # fmt: skip
        if len(chosen) < len(step.spans):
            number_B = torch.full((len(step.spans),), -1, device=row_T.device)
            number_B[chosen] = torch.arange(len(chosen), device=number_B.device)
            number_T = number_B[row_T]
            mine_T = number_T >= 0
            row_T, place_T, id_T, sequence_T = (each[mine_T] for each in (number_T, place_T, id_T, sequence_T))
        with read_alone(language_model(self.whole), row_T, place_T):
            hidden_BLE = self._hidden(step.part(chosen), encoded, None)
        return OfStates(self.whole, hidden_BLE[row_T, place_T], id_T, sequence_T)

    def _hidden(self, step: Step, encoded: Encoded | None, cache: Cache | None) -> Tensor:
        if encoded is None and any(step.spans):
            raise ValueError("the rows show media, but none were encoded")
        return self._wiring.hidden(self.whole, step, encoded, cache)

    @torch.no_grad()
    def reply(
        self, rows: PackedRows, encoded: Encoded | None, wanted: Sequence[Wanted]
    ) -> tuple[list[list[int]], TargetLogprobs]:
        if self.plain_because is not None:
            raise ValueError(f"replies cannot grow in one row: {self.plain_because}")
        row = self._whole_rows(rows)
        # Without a configuration, layers with a window keep all keys, some of which other branches still need.
        cache = DynamicCache()

        def read(new: NewTokens | None) -> Tensor:
            if new is not None:
                return self._hidden(_next_tokens(row, new), encoded, cache)[0]
            with read_alone(language_model(self.whole), *places_read(rows, wanted)):
                return self._hidden(row, encoded, cache)[0]

        ids, read_TE = grown(rows, wanted, read, self.whole.get_output_embeddings())
        return ids, OfStates(self.whole, read_TE, rows.target_id_T, rows.target_sequence_T).read()

    def _whole_rows(self, rows: PackedRows) -> Step:
        why = self.plain_because
        seen = rows.columns_BCL if why is None else sequence_padding(rows, why)
        return self._step(rows, rows.columns_BCL, seen=seen, is_plain=rows.is_plain)

    def _step(self, rows: PackedRows | PromptRows, columns: Tensor, *, seen: Tensor, is_plain: bool = False) -> Step:
        spans = spans_of_rows(rows.media_BL, rows.media_S, rows.length_S)
        none = columns.new_zeros((*rows.media_BL.shape, 0), dtype=torch.bool)
        return Step(
            ids_BL=rows.ids_BL,
            positions_BL=rows.positions_BL,
            seen=seen,
            media_BL=rows.media_BL,
            attends_BLS=attended_spans(columns, rows.media_BL, spans) if self._wiring.attends else none,
            spans=spans,
            is_plain=is_plain,
        )

    @torch.no_grad()
    def generate(
        self, rows: PromptRows, encoded: Encoded | None, *, max_new_tokens: int, stop_ids: tuple[int, ...]
    ) -> list[list[int]]:
        """Returns the greedy continuation of each left-padded row, cut behind the first end token.

        The method has a loop of its own because transformers' `generate` takes neither an encoded image nor M-RoPE
        positions.
        """
        if not bool(rows.attention_BL[:, -1].all()):
            raise ValueError("generation needs left-padded rows")
        step = self._step(rows, rows.attention_BL, seen=rows.attention_BL)
        replies: dict[int, list[int]] = {}
        for chosen in _alike(step):
            said = self._continue(step.part(chosen), encoded, max_new_tokens=max_new_tokens, stop_ids=stop_ids)
            replies.update(zip(chosen, said, strict=True))
        return [replies[row] for row in range(len(replies))]

    def _continue(
        self, step: Step, encoded: Encoded | None, *, max_new_tokens: int, stop_ids: tuple[int, ...]
    ) -> list[list[int]]:
        cache = DynamicCache(config=self.whole.config.get_text_config())
        chosen_BN = step.ids_BL[:, :0]
        stopped_B = torch.zeros(len(step.ids_BL), dtype=torch.bool, device=step.ids_BL.device)
        while True:
            hidden_BLE = self._hidden(step, encoded, cache)
            next_B = self.whole.get_output_embeddings()(hidden_BLE[:, -1]).argmax(dim=-1)
            chosen_BN = torch.cat([chosen_BN, next_B.unsqueeze(1)], dim=1)
            stopped_B |= torch.isin(next_B, next_B.new_tensor(stop_ids))
            if bool(stopped_B.all()) or chosen_BN.shape[1] == max_new_tokens:
                return [cut_behind(ids, stop_ids) for ids in chosen_BN.tolist()]
            step = _next_step(step, next_B)

    def save(self, folder: Path) -> Path:
        self.whole.save_pretrained(folder)
        return folder


def _in_place(tensor: Tensor, weight: Tensor) -> Tensor:
    moved = placed(tensor, weight.device)
    return moved.to(weight.dtype) if tensor.is_floating_point() else moved


def _alike(step: Step) -> list[list[int]]:
    groups = ([row for row, spans in enumerate(step.spans) if bool(spans) == shown] for shown in (True, False))
    return [rows for rows in groups if rows]


def sequence_padding(rows: PackedRows, because: str) -> Tensor:
    """Returns bool (B, L), False at padding, for rows that hold one sequence each."""
    attention_BL = rows.counted
    if not rows.is_plain:
        raise ValueError(f"a row holds more than one sequence, but each needs its own: {because}")
    return attention_BL


def _next_tokens(row: Step, new: NewTokens) -> Step:
    return Step(
        ids_BL=new.ids_1A,
        positions_BL=new.positions_1A,
        seen=new.columns_1CK,
        media_BL=torch.zeros_like(new.ids_1A, dtype=torch.bool),
        attends_BLS=row.attends_BLS[:, new.leaf_A],
        spans=row.spans,
    )


def _next_step(step: Step, ids_B: Tensor) -> Step:
    new_B1 = torch.ones_like(step.media_BL[:, -1:])
    return Step(
        ids_BL=ids_B.unsqueeze(1),
        positions_BL=step.positions_BL[:, -1:] + 1,
        seen=torch.cat([step.seen, new_B1], dim=1),
        media_BL=~new_B1,
        attends_BLS=step.attends_BLS[:, -1:],
        spans=step.spans,
    )


class _Run(NamedTuple):
    length: int
    number: int

    @property
    def patches(self) -> int:
        return self.length * self.number


def attend_segments_together(tower: nn.Module) -> None:
    """Lets a tower attend to all segments (windows, frames or pictures) of one length in one call, in place.

    transformers calls the attention function once for each segment, 1,260 times for one picture in Qwen2.5-VL's tower.
    Here a picture takes at most four calls in a layer: whole windows, those of its right and lower edge, and the one in
    its corner. Nothing is padded and no mask is made. Towers without segments stay as they are.
    """
    ALL_ATTENTION_FUNCTIONS.register(SEGMENTS, attend)
    for module in tower.modules():
        config: Any = getattr(module, "config", None)
        has_segments = "cu_seqlens" in inspect.signature(type(module).forward).parameters
        if has_segments and getattr(config, "_attn_implementation", None) == "sdpa":
            config._attn_implementation = SEGMENTS


def attend(
    module: nn.Module,
    query_1HSD: Tensor,
    key_1HSD: Tensor,
    value_1HSD: Tensor,
    attention_mask: Tensor | None,
    *,
    cu_seq_lens_q: Tensor,
    scaling: float | None = None,
    dropout: float = 0.0,
    **_: object,
) -> tuple[Tensor, None]:
    """Returns the output (1, S, H, D) of each patch's attention to its segment, as transformers' functions do.

    Args:
        attention_mask: Always None.
        cu_seq_lens_q: Where each segment begins, and where the last one ends.
    """
    runs = _runs(cu_seq_lens_q.tolist())
    sizes = [run.patches for run in runs]
    split = [each.split(sizes, dim=2) for each in (query_1HSD, key_1HSD, value_1HSD)]
    found: dict[int, Tensor] = {}
    for length in dict.fromkeys(run.length for run in runs):
        mine = [number for number, run in enumerate(runs) if run.length == length]
        query, key, value = (_stacked([parts[number] for number in mine], length) for parts in split)
        said_KNHD, _none = sdpa_attention_forward(
            module, query, key, value, attention_mask=None, dropout=dropout, scaling=scaling, is_causal=False
        )
        said = said_KNHD.flatten(0, 1).split([sizes[number] for number in mine])
        found.update(zip(mine, said, strict=True))
    return torch.cat([found[number] for number in range(len(runs))]).unsqueeze(0), None


def _runs(boundaries: Sequence[int]) -> list[_Run]:
    """Returns the runs of segments of one length.

    >>> [tuple(run) for run in _runs([0, 4, 8, 10, 14])]
    [(4, 2), (2, 1), (4, 1)]
    """
    lengths = [stop - start for start, stop in pairwise(boundaries)]
    return [_Run(length, len(list(same))) for length, same in groupby(lengths)]


def _stacked(parts_1HSD: Sequence[Tensor], length: int) -> Tensor:
    whole_1HSD = parts_1HSD[0] if len(parts_1HSD) == 1 else torch.cat(list(parts_1HSD), dim=2)
    _, heads, patches, width = whole_1HSD.shape
    return whole_1HSD.reshape(heads, patches // length, length, width).transpose(0, 1)
