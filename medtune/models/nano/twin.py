"""The record of a twin: facts about a tiny, random model that are written by hand, for tests to compare with."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Twin:
    """Facts about a tiny model, above all the names of its modules and parameters.

    Names are abbreviated as in a shell: `layers.{0,1}.mlp.{up,down}_proj` stands for four names.

    Attributes:
        vision: Layers of the tower that LoRA adapts; empty where the tower has none that LoRA could adapt.
        projector: Layers of the projector that LoRA adapts; empty likewise.
        language: Layers of the language model that LoRA adapts. The same layers are held in 4 bits by
            `model.language_bits: 4`.
        projector_weights: Parameters of the projector that learn when all of it is trained.
        unreached: Adapted layers on which no answer depends, so that their adapters get no gradient.
        volume: Shape of a small input of the tower, (channels, three sides); None where the tower takes no volumes.
        video: Whether the tower takes videos and nothing else.
    """

    vision: tuple[str, ...]
    projector: tuple[str, ...]
    language: tuple[str, ...]
    projector_weights: tuple[str, ...]
    unreached: tuple[str, ...] = ()
    volume: tuple[int, int, int, int] | None = None
    video: bool = False
