"""What the rest of medtune needs from a model, whichever way it is assembled.

Shape legend: M media items, X features, T target tokens, V vocabulary.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple, Protocol

import torch
from torch import Tensor, nn
from transformers.modeling_layers import GradientCheckpointingLayer

from medtune.data.media.load import Shape
from medtune.data.media.videos.sampling import Sampling
from medtune.data.types import Media, MediaKind, MediaRef
from medtune.models.sequence.packing import PackedRows
from medtune.models.sequence.prompts import PromptRows
from medtune.models.tuning.plan import PartName

GROUPS: tuple[PartName, ...] = ("vision", "projector", "language")

# Opaque on purpose: only the transform and the model that belong together look inside.
MediaItem = Any
"""One media item, ready for the tower: what a transform makes of it."""
MediaBatch = Any
"""Several of them, as `encode` takes them."""
Encoded = Any
"""What the language model is shown: visual tokens to be put into the rows, or states to be attended to."""


class TargetLogprobs(NamedTuple):
    """Log-probabilities of the target tokens.

    Attributes:
        logprobs_T: Natural logarithm, float32.
        sequence_T: Whose token each is.
    """

    logprobs_T: Tensor
    sequence_T: Tensor

    def sums(self, num_sequences: int) -> Tensor:
        """Returns the log-probability of each whole answer, float32 (num_sequences,)."""
        zeros = torch.zeros(num_sequences, device=self.logprobs_T.device)
        return zeros.index_add(0, self.sequence_T, self.logprobs_T)


def read_targets(logits_TV: Tensor, id_T: Tensor, sequence_T: Tensor) -> TargetLogprobs:
    """Returns the log-probability of each target token's id."""
    logprobs_T = logits_TV.float().log_softmax(dim=-1).gather(1, id_T.unsqueeze(1)).squeeze(1)
    return TargetLogprobs(logprobs_T, sequence_T)


class Transform(Protocol):
    """How a media item becomes a tower's input; runs in the processes that load data."""

    @property
    def kinds(self) -> tuple[MediaKind, ...]:
        """What it takes."""
        ...

    @property
    def sampling(self) -> Sampling | None:
        """Which frames of a video it takes; None where it takes no videos."""
        ...

    def shape(self, ref: MediaRef, /) -> Shape | None:
        """Returns what the sequence needs to know of a media item before it is decoded."""
        ...

    def __call__(self, media: Media, /) -> MediaItem:
        """Returns one item on the CPU.

        Raises:
            ValueError: The item is of another kind, or of a shape that the tower cannot take.
        """
        ...

    def stack(self, items: Sequence[MediaItem], /) -> MediaBatch:
        """Returns several items as one batch."""
        ...


class Model(Protocol):
    """A vision-language model in three groups of parameters.

    `rows.media_S` counts the items of the batch that was encoded.
    """

    @property
    def part_roots(self) -> Mapping[PartName, tuple[str, ...]]:
        """Names of the modules and parameters that begin each group; the longest that fits a name decides."""
        ...

    @property
    def plain_because(self) -> str | None:
        """Why each sequence needs a row of its own; None where those that begin alike may share it as a tree."""
        ...

    @property
    def packs_trees(self) -> bool:
        """Whether a row may hold several trees, each with an image of its own."""
        ...

    def features(self, media: MediaBatch, /) -> Tensor | None:
        """Returns features_MX of the vision tower; None where images differ in how many they have."""
        ...

    def encode(self, media: MediaBatch, /) -> Encoded:
        """Returns what the language model is shown; moves its input to its own device and type."""
        ...

    def __call__(self, rows: PackedRows, encoded: Encoded | None, /) -> TargetLogprobs:
        """Returns the log-probabilities of the target tokens."""
        ...

    def generate(
        self, rows: PromptRows, encoded: Encoded | None, /, *, max_new_tokens: int, stop_id: int
    ) -> list[list[int]]:
        """Returns the greedy continuation of each left-padded row, cut after the stop token."""
        ...


class Grouped(Protocol):
    """A module that knows its groups."""

    @property
    def part_roots(self) -> Mapping[PartName, tuple[str, ...]]:
        """As `Model.part_roots`."""
        ...

    def named_parameters(self) -> Iterator[tuple[str, nn.Parameter]]:
        """As torch.nn.Module's."""
        ...


def root_of(name: str, roots: Mapping[PartName, tuple[str, ...]]) -> tuple[PartName, str]:
    """Returns the group that a module or parameter belongs to, and the root that says so.

    Raises:
        ValueError: No group claims it.

    Example:
        >>> roots = {"vision": ("visual",), "projector": ("visual.merger",), "language": ("lm",)}
        >>> root_of("visual.merger.mlp", roots), root_of("visual.blocks", roots)
        (('projector', 'visual.merger'), ('vision', 'visual'))
    """
    fitting = [
        (root, group) for group, own in roots.items() for root in own if name == root or name.startswith(f"{root}.")
    ]
    if not fitting:
        raise ValueError(f"the parameter {name} belongs to none of the groups {', '.join(GROUPS)}")
    root, group = max(fitting, key=lambda pair: len(pair[0]))
    return group, root


def part_parameters(model: Grouped, group: PartName) -> list[tuple[str, nn.Parameter]]:
    """Returns the group's parameters with their full names, in the model's order."""
    roots = model.part_roots
    return [(name, p) for name, p in model.named_parameters() if root_of(name, roots)[0] == group]


def set_training(model: nn.Module, roots: Mapping[PartName, tuple[str, ...]], *, mode: bool) -> None:
    """Switches each group to training where it learns and `mode` asks for it, else to evaluation: no dropout there."""
    learning = {root_of(name, roots)[0] for name, p in model.named_parameters() if p.requires_grad}
    # A root may lie inside another (Qwen's merger inside its tower), so the outer ones go first.
    for root, group in sorted((root, group) for group, own in roots.items() for root in own):
        if (module := dict(model.named_modules()).get(root)) is not None:
            module.train(mode and group in learning)
    for module in model.modules():
        if isinstance(module, GradientCheckpointingLayer) and module.gradient_checkpointing:
            # Recomputing goes by the layer's own flag, dropout by those of its parts: frozen layers below a projector
            # that learns are recomputed too, without dropout.
            module.training = mode
