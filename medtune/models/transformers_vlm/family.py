"""The record of a family of transformers' vision-language models: its wiring and what its tower takes.

A family passes images to the decoder in one of two ways:

- *in the sequence*: visual tokens take the place of placeholder tokens in the row (`visual_tokens`);
- *beside the sequence*: the row holds a single token for the image, and the later tokens attend to the image's states
  through cross-attention layers (`mllama`).

Shape legend: B rows, C columns, L new tokens, K all tokens so far, S media spans, E embedding width.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol, Self

import torch
from torch import Tensor, nn
from transformers import Cache, PreTrainedModel

from medtune.data.media.load import Shape
from medtune.data.types import Frames, Video
from medtune.models.attention import Carried, carried, sees
from medtune.models.features.kept_features import Kept
from medtune.models.placing import placed
from medtune.models.sequence.builder import refuse_several
from medtune.models.sequence.packing import ShownSpan
from medtune.models.transformers_vlm.conversation import Conversations
from medtune.models.transformers_vlm.positions import on_grids
from medtune.models.transformers_vlm.sequences import ProcessorSequences, placeholders_of
from medtune.models.tuning.plan import PartName

Pixels = Mapping[str, Tensor]
"""One prepared media item: the tower's arguments by name. The first axis of each counts images, frames or patches."""


class Step(NamedTuple):
    """The tokens that the decoder reads in one pass: whole rows, or the next tokens of each row.

    Attributes:
        ids_BL: Token ids, int64.
        positions_BL: Position ids, int64, (B, L), or (B, L, 3) for M-RoPE.
        seen: Who sees whom among all tokens so far, the cached ones included. Either bool (B, K), False at padding, for
            rows in which a token sees all tokens before it; or int64 (B, C, K), the columns of trees.
        media_BL: bool, True at visual tokens; all False when a reply is continued.
        attends_BLS: bool, True at the tokens that attend to a media span of their row through cross-attention
            (`attended_spans`); False for spans that the row does not have. No spans where the family has no such
            layers.
        spans: The media spans of each row. Either all rows have some, or none has any.
        is_plain: Whether each row holds one sequence alone.
    """

    ids_BL: Tensor
    positions_BL: Tensor
    seen: Tensor
    media_BL: Tensor
    attends_BLS: Tensor
    spans: tuple[tuple[ShownSpan, ...], ...]
    is_plain: bool = False

    @property
    def shows_media(self) -> bool:
        """Whether the rows show media; False for rows of text alone."""
        return all(self.spans)

    @property
    def has_columns(self) -> bool:
        """Whether `seen` holds the columns of trees."""
        return self.seen.dim() == 3

    def part(self, rows: Sequence[int]) -> Step:
        if len(rows) == len(self.spans):
            return self
        here_B = torch.tensor(rows)
        chosen_B = placed(here_B, self.ids_BL.device)
        return Step(
            self.ids_BL[chosen_B],
            self.positions_BL[chosen_B],
            self.seen[chosen_B],
            self.media_BL[here_B.to(self.media_BL.device)],
            self.attends_BLS[chosen_B],
            tuple(self.spans[row] for row in rows),
            self.is_plain,
        )

    def attention_mask(self, decoder: nn.Module, *, blocks: bool = False) -> Carried:
        """Returns `seen` as a decoder takes it.

        Args:
            blocks: Whether the tokens of an image see one another both ways; for columns alone.
        """
        if not self.has_columns:
            return self.seen.long()
        is_whole = self.ids_BL.shape[1] == self.seen.shape[2]
        config: Any = decoder.config
        return carried(config.get_text_config(), self.seen, is_plain=self.is_plain, is_whole=is_whole, blocks=blocks)


def attended_spans(seen: Tensor, media_BL: Tensor, spans: Sequence[Sequence[ShownSpan]]) -> Tensor:
    """Returns attends_BLS for whole rows or prompts: which tokens attend to which media span of their row.

    A token attends to the spans that it sees, up to the next one: a span ends the sight of those before it, unless it
    adjoins them.

    Source:
        transformers, models/mllama/processing_mllama.py, `get_cross_attention_token_mask`.
    """
    length = media_BL.shape[1]
    shape = (*media_BL.shape, max(map(len, spans), default=0))
    attends_BLS = torch.zeros(shape, dtype=torch.bool, device=seen.device)
    for row, shown in enumerate(spans):
        if not shown:
            continue
        place_X = placed(media_BL[row].nonzero()[:, 0], seen.device)
        stop_S = torch.tensor([span.length for span in shown]).cumsum(0)
        stop_S = placed(stop_S, seen.device)
        last_S = place_X[stop_S - 1]
        first_S = torch.cat([place_X[:1], place_X[stop_S[:-1]]])
        if seen.dim() == 3:
            columns_1CL = seen[row : row + 1]
            sees_LS = sees(columns_1CL, columns_1CL[:, :, first_S], window=None)[0]
            next_1CS = columns_1CL[:, :, first_S[1:]]
            sees_SS = sees(next_1CS, columns_1CL[:, :, last_S[:-1]], window=None)[0]
            adjoins_S = (first_S[1:] == last_S[:-1] + 1) & sees_SS.diagonal()
        else:
            sees_LS = torch.arange(length, device=first_S.device).unsqueeze(1) >= first_S
            adjoins_S = first_S[1:] == last_S[:-1] + 1
        run_S = torch.nn.functional.pad((~adjoins_S).cumsum(0), (1, 0))
        hides_SS = run_S.unsqueeze(1) > run_S
        hidden_LS = sees_LS.float() @ hides_SS.float() > 0
        attends_BLS[row, :, : len(shown)] = sees_LS & ~hidden_LS
    return attends_BLS


class EncodedItems(Protocol):
    """Encoded media items of a family, which can be taken apart, so that those of other batches can be put together."""

    def parted(self) -> list[Kept]:
        """Returns the tensors of each item."""
        ...

    @classmethod
    def joined(cls, items: Sequence[Kept], /) -> Self:
        """Returns items that were taken apart as a batch."""
        ...


@dataclass(frozen=True, slots=True)
class Wiring:
    """The parts of a family's model and the functions that run them.

    Attributes:
        roots: Names of each part's modules and parameters in the transformers model.
        encode: Function of the model and prepared media items that returns the encoded items for `hidden`.
        hidden: Function of the model, the step, the encoded items and the cache that returns hidden_BLE, the states
            before the output layer. It also fills the cache, where one is given.
        encoded: The type of the encoded items.
        plain_because: Reason why the decoder cannot be told who sees whom, so that every sequence needs a row of its
            own; None where it takes columns.
        attends: Whether tokens attend to media beside the sequence, so that `hidden` needs attends_BLS.
    """

    roots: Mapping[PartName, tuple[str, ...]]
    encode: Callable[[PreTrainedModel, Sequence[Pixels]], EncodedItems]
    hidden: Callable[[PreTrainedModel, Step, Any, Cache | None], Tensor]
    encoded: type[EncodedItems]
    plain_because: str | None = None
    attends: bool = False


@dataclass(frozen=True, slots=True)
class Family:
    """The facts about a family that medtune states itself; the rest is read from the checkpoint.

    Attributes:
        model_types: Values of `model_type` in config.json by which a checkpoint of the family is recognised.
        towers: Values of `model_type` in its tower's configuration; none where the family reads any tower.
        wiring: The parts of the model and the functions that run them.
        on_grids: Whether positions have three axes (M-RoPE), on which visual tokens stand on the grids of their item.
        writer: Returns a processor that writes videos as the model reads them, given the checkpoint's own; None where
            that one does.
        pixels: Names of the processor's outputs for an image that the tower takes.
        video: Turns a video into the tower's arguments; None where the family takes no videos.
        frames_as_images: Whether a video is written as so many images.
        any_size: Whether images keep their shape and are only scaled down above a number of pixels
            (`model.image_max_pixels`); otherwise all images are scaled to one size or cut into tiles.
        image_frames: Number of equal frames as which the processor counts an image in its limits of pixels.
        limit_videos: Sets the largest number of pixels of a frame (`model.video_max_pixels`; None takes the vendor's)
            and of a whole video in a processor, given the number of tokens that the language model reads; None where
            all frames are scaled to one size.
        one_item: Whether the family is shown one media item at a time, because its processor cuts or writes an image
            otherwise where others are shown with it; questions about several are refused.
    """

    model_types: tuple[str, ...]
    wiring: Wiring
    pixels: tuple[str, ...]
    video: Callable[[Any, Video], Pixels] | None = None
    any_size: bool = False
    image_frames: int = 1
    limit_videos: Callable[[Any, int | None, int], None] | None = None
    one_item: bool = False
    towers: tuple[str, ...] = ()
    on_grids: bool = False
    frames_as_images: bool = False
    writer: Callable[[Any], Any] | None = None

    @property
    def processor_writes_videos(self) -> bool:
        """Whether the processor of transformers writes a video as the model reads it, so that it can be asked."""
        return self.writer is None

    def reads(self, config: Any) -> bool:
        """Returns whether a checkpoint is of the family, by its configuration: its own type and that of its tower."""
        if not self.towers or config.model_type not in self.model_types:
            return config.model_type in self.model_types
        return config.vision_config.model_type in self.towers

    def sequence(self, processor: Any, *, config: Any, max_tokens: int) -> ProcessorSequences:
        """Returns the sequences of a model.

        Args:
            processor: The checkpoint's processor.
            config: The checkpoint's configuration.
            max_tokens: Number of tokens that the language model can read.
        """
        named = (*processor.image_token_ids[:1], *processor.video_token_ids[:1])
        return ProcessorSequences(
            processor,
            Conversations(processor if self.writer is None else self.writer(processor)),
            placeholders=placeholders_of(processor.tokenizer, frozenset(each for each in named if each is not None)),
            max_tokens=max_tokens,
            refuse=self._refuse,
            positions=on_grids(processor, config) if self.on_grids else None,
            frames_as_images=self.frames_as_images,
        )

    def _refuse(self, shapes: Sequence[Shape | None]) -> None:
        if self.one_item:
            refuse_several(len(shapes))
        if self.video is None and any(isinstance(shape, Frames) for shape in shapes):
            raise ValueError("this family takes no videos; choose another model.name")


def parts(vision: str, *projector: str) -> dict[PartName, tuple[str, ...]]:
    """Returns the modules of the three parts, with the names that most families give their language model.

    Args:
        vision: Name of the tower's module in the transformers model.
        projector: Names of the projector's modules and parameters.
    """
    return {"vision": (vision,), "projector": projector, "language": ("model.language_model", "lm_head")}


def language_model(whole: PreTrainedModel) -> nn.Module:
    """Returns the module of most families that turns embeddings into hidden states."""
    return whole.get_submodule("model.language_model")
