"""Facts about a random, tiny model that are stated by hand, so that tests can compare the model with them."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Twin:
    """Names of a tiny model's modules and parameters, written by hand.

    They are written as a shell expands them: `layers.{0,1}.mlp.{up,down}_proj` stands for four names.

    Attributes:
        vision: Layers of the tower that LoRA adapts; empty where the tower has none that LoRA could adapt.
        projector: Layers of the projector that LoRA adapts; empty likewise.
        language: Layers of the language model that LoRA adapts. The same layers are held in 4 bits by
            `model.language_bits: 4`.
        projector_weights: Parameters of the projector that learn when it is trained whole.
        unreached: Adapted layers on which no answer depends, so that no gradient reaches their adapters.
        volume: Shape of a small input of the tower, (channels, three sides), where the tower takes volumes.
        video: Whether the tower takes videos and nothing else.
        processor_writes_videos: Whether the processor of transformers writes a video as the model reads it, so that
            tests can ask transformers about one.
    """

    vision: tuple[str, ...]
    projector: tuple[str, ...]
    language: tuple[str, ...]
    projector_weights: tuple[str, ...]
    unreached: tuple[str, ...] = ()
    volume: tuple[int, int, int, int] | None = None
    video: bool = False
    processor_writes_videos: bool = True
