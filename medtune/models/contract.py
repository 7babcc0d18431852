"""The interface of a model, by which answering, training and the commands use every model in the same way.

Shape legend: M media items, X features.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol, Self

from torch import Tensor, nn
from transformers import PreTrainedModel
from transformers.modeling_layers import GradientCheckpointingLayer

from medtune.data.media.load import Shape
from medtune.data.types import Media, MediaKind, MediaRef, Sampling
from medtune.models.features.kept_features import Kept, KeptFeatures
from medtune.models.replies import Wanted
from medtune.models.sequence.builder import Template
from medtune.models.sequence.packing import PackedRows, PromptRows
from medtune.models.target_logprobs import TargetLogprobs, Targets
from medtune.models.tuning.plan import PartName

PARTS: tuple[PartName, ...] = ("vision", "projector", "language")

# Opaque on purpose: only the transform and the model that belong together look inside.
MediaItem = Any
"""One media item as a transform prepares it for the tower."""
MediaBatch = Any
"""Several prepared media items, as `Model.encode` takes them."""
Encoded = Any
"""Encoded media items, as the language model is shown them: visual tokens for the rows, or states to attend to."""
Reading = Callable[[Targets], Any]
"""What is made of the target tokens of a forward pass, such as a loss: a tensor, or a tuple of tensors."""


class Transform(Protocol):
    """Turns media items into the input of a tower; runs in the processes that load data."""

    @property
    def kinds(self) -> tuple[MediaKind, ...]: ...

    @property
    def sampling(self) -> Sampling | None:
        """The rule that chooses the frames of a video; None where the transform takes no videos."""
        ...

    def shape(self, ref: MediaRef, /) -> Shape | None:
        """Returns the size or the frames of a media item, which the sequence needs before the item is decoded."""
        ...

    def __call__(self, media: Media, /) -> MediaItem: ...

    def stack(self, items: Sequence[MediaItem], /) -> MediaBatch: ...


class Model(nn.Module, ABC):
    """A vision-language model whose parameters belong to three parts: vision, projector and language.

    This is an abstract class, not a Protocol, because torch and peft need an nn.Module, and Python's types cannot
    express "a module that also has these methods". The numbers in `rows.media_S` refer to the batch that was encoded.

    Attributes:
        kept: The features of media items that are kept; models of one run share them.
    """

    kept: KeptFeatures

    @property
    @abstractmethod
    def part_roots(self) -> Mapping[PartName, tuple[str, ...]]:
        """The names of the modules and parameters of each part, its roots.

        A parameter belongs to the part whose root is the longest that its name begins with.
        """

    @property
    @abstractmethod
    def plain_because(self) -> str | None:
        """The reason, in words, why each sequence needs a row of its own; None where sequences may share a tree."""

    @property
    @abstractmethod
    def packs_trees(self) -> bool:
        """Whether a row may hold several trees, each with an image of its own."""

    @property
    def mixes_images(self) -> bool:
        """Whether tokens see images that stand behind them, so that a row may show the media of one tree alone."""
        return False

    @property
    @abstractmethod
    def whole_logits_because(self) -> str | None:
        """The reason, in words, why the logits of all target tokens are held at once; None where they are not."""

    @property
    @abstractmethod
    def of_transformers(self) -> PreTrainedModel:
        """The largest module that is a model of transformers: the whole model, or its language model."""

    def train(self, mode: bool = True) -> Self:
        """Switches between training and evaluation mode; frozen parts stay in evaluation mode."""
        super().train(mode)
        set_training(self, mode=mode)
        return self

    @property
    def kept_parts(self) -> tuple[PartName, ...]:
        """The parts whose output for a media item is kept while none of them learns; none where nothing is kept."""
        return ()

    def made(self, media: MediaBatch, /) -> list[Kept]:
        """Returns for each item what `kept_parts` make of it."""
        raise ValueError(f"{type(self).__name__} keeps nothing of media items")

    def features(self, media: MediaBatch, /) -> Tensor | None:
        """Returns the features_MX of the vision tower; None where images have different numbers of features."""
        return None

    @abstractmethod
    def encode(self, media: MediaBatch, /) -> Encoded:
        """Returns the encoded media items; moves its input to the model's device and type."""

    @abstractmethod
    def forward(self, rows: PackedRows, encoded: Encoded | None, /, reading: Reading = Targets.read) -> Any:
        """Returns what `reading` makes of the target tokens; without it, their `TargetLogprobs`.

        It is made within the pass, while strategies that divide the weights have gathered those of the output layer.
        """

    @abstractmethod
    def reply(
        self, rows: PackedRows, encoded: Encoded | None, wanted: Sequence[Wanted], /
    ) -> tuple[list[list[int]], TargetLogprobs]:
        """Returns the ids of replies that grow behind one row, and what the same pass says of the row's targets.

        It is for models whose sequences may share a row.
        """

    @abstractmethod
    def generate(
        self, rows: PromptRows, encoded: Encoded | None, /, *, max_new_tokens: int, stop_ids: tuple[int, ...]
    ) -> list[list[int]]:
        """Returns the greedy continuation of each left-padded row, cut behind the first end token.

        This is the plain way, with a row for each prompt.
        """

    @abstractmethod
    def save(self, folder: Path) -> Path: ...


@dataclass(frozen=True, slots=True)
class Assembled:
    """A model with everything that is needed to ask it questions.

    Attributes:
        model: The model with its weights.
        template: Lays out a question as the model's sequence of tokens.
        transform: Turns a media item into the input of the model's tower.
        provenance: Where the weights of each part come from, in words for the report; and where the words come from
            that the model is shown beside a question, if there are such words.
        words: These words by the field of the recipe that sets them: system_prompt or time_sentence.
        opened: The text with which the prompt opens a thought, so that each reply goes on behind it; "" if none.
    """

    model: Model
    template: Template
    transform: Transform
    provenance: dict[str, str]
    words: dict[str, str] = field(default_factory=dict)
    opened: str = ""


def root_of(name: str, roots: Mapping[PartName, tuple[str, ...]]) -> tuple[PartName, str]:
    """Returns the part to which a module or parameter belongs, and the root that decides it.

    Args:
        name: Full name of the module or parameter.
        roots: The names with which the modules and parameters of each part begin; the longest that fits decides.

    Example:
        >>> roots = {"vision": ("visual",), "projector": ("visual.merger",), "language": ("lm",)}
        >>> root_of("visual.merger.mlp", roots), root_of("visual.blocks", roots)
        (('projector', 'visual.merger'), ('vision', 'visual'))
    """
    fitting = [
        (root, part) for part, own in roots.items() for root in own if name == root or name.startswith(f"{root}.")
    ]
    if not fitting:
        raise ValueError(f"the parameter {name} belongs to none of the parts {', '.join(PARTS)}")
    root, part = max(fitting, key=lambda pair: len(pair[0]))
    return part, root


def parameters_of_parts(model: Model) -> dict[PartName, list[tuple[str, nn.Parameter]]]:
    """Returns each part's parameters with their full names, in the model's order."""
    roots, found = model.part_roots, {part: list[tuple[str, nn.Parameter]]() for part in PARTS}
    for name, parameter in model.named_parameters():
        found[root_of(name, roots)[0]].append((name, parameter))
    return found


def set_training(model: Model, *, mode: bool) -> None:
    """Switches parts that learn to training mode if `mode` is True, and all other parts to evaluation mode."""
    roots = model.part_roots
    learning = {root_of(name, roots)[0] for name, p in model.named_parameters() if p.requires_grad}
    # A root may lie inside another (Qwen's merger inside its tower), so the outer ones go first.
    for root, part in sorted((root, part) for part, own in roots.items() for root in own):
        if (module := dict(model.named_modules()).get(root)) is not None:
            module.train(mode and part in learning)
    for module in model.modules():
        if isinstance(module, GradientCheckpointingLayer) and module.gradient_checkpointing:
            # Whether a layer is recomputed depends on its own flag, and dropout on the flags of its submodules. Frozen
            # layers below a trained projector are thus recomputed too, but without dropout.
            module.training = mode
