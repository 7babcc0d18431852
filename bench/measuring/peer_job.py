"""What medtune and a peer are both given: a model, images, questions and the adapter that a training begins with."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import PIL.Image
import torch

from bench.measuring.peers_qwen import TOKEN_PX
from medtune.data.types import MediaGroup, MediaRef, Prompt, Question
from medtune.models.assemble import zoo_entry
from medtune.models.contract import Assembled
from medtune.models.tuning.apply import B, adapt, set_learning
from medtune.models.tuning.plan import PartTuning, Tuning
from medtune.models.weights.loading_options import Loading
from medtune.models.weights.write_adapter import Base, peft_adapter, write_peft_files

LR = 1e-3
WEIGHT_DECAY = 0.01
OPTIONS = ("liver", "left kidney", "spleen", "none of these")
TUNING = Tuning(projector=PartTuning(), language=PartTuning(mode="lora", lr=LR))
"""Adapters of the language model; the tower and the projector are frozen."""
_BLOCK_PX = 16
_ADAPTER_STD = 0.02


class Trainable(NamedTuple):
    """A model with adapters, and the values that these begin with."""

    assembled: Assembled  # The model.
    start: dict[str, torch.Tensor]  # The beginning values of all parameters that learn, by name.


def opened(weights: Path) -> Assembled:
    """Returns the model of a folder of transformers, in float32 and without adapters."""
    return zoo_entry("nano_qwen25vl").assemble(0, Loading(weights=str(weights), dtype="float32"))


def trainable(weights: Path, adapter: Path, *, seed: int = 0) -> Trainable:
    """Returns the model with adapters drawn from the seed, and writes these in peft's format.

    The second matrices are not zero, as they would be in a new adapter, so that the first loss already shows whether
    both sides read the same adapter.
    """
    assembled = opened(weights)
    adapt(assembled.model, [TUNING], seed=seed)
    set_learning(assembled.model, TUNING)
    with torch.no_grad():
        for name, parameter in assembled.model.named_parameters():
            if B in name:
                parameter.normal_(std=_ADAPTER_STD)
    learning = {name: each for name, each in assembled.model.named_parameters() if each.requires_grad}
    adapter.mkdir(parents=True)
    write_peft_files(adapter, peft_adapter(assembled.model, learning, Base(str(weights))), about={})
    return Trainable(assembled, {name: each.detach().clone() for name, each in learning.items()})


def write_image(path: Path, *, visual_tokens: int, seed: int) -> None:
    """Writes a PNG file that the model reads as that many tokens: squares of random grey.

    The squares are constant over the blocks of a JPEG, so that they come out of one as they went in: lmms-eval gives
    the model images as JPEG of quality 85.

    Args:
        path: The file.
        visual_tokens: The number of tokens: the square of an even number of tokens a side.
        seed: Seed of the picture.
    """
    side = round(visual_tokens**0.5) * TOKEN_PX
    squares = side // _BLOCK_PX
    levels = np.random.default_rng(seed).integers(0, 256, (squares, squares), dtype=np.uint8)
    grey = levels.repeat(_BLOCK_PX, axis=0).repeat(_BLOCK_PX, axis=1)
    PIL.Image.fromarray(np.stack([grey] * 3, axis=-1)).save(path)


def groups(folder: Path, *, images: int, questions: int, visual_tokens: int) -> list[MediaGroup]:
    """Writes images into a folder and returns questions about them, whose answers depend on image and question."""
    found = []
    for image in range(images):
        path = folder / f"{image}.png"
        write_image(path, visual_tokens=visual_tokens, seed=image)
        asked = tuple(
            Question(
                f"{image}-{number}", str(image), f"Where is lesion number {number:02d} of this scan?", OPTIONS,
                OPTIONS[(image + number) % len(OPTIONS)], "choice", str(image),
            )
            for number in range(questions)
        )  # fmt: skip
        found.append(MediaGroup(str(image), (MediaRef(path),), asked))
    return found


def rendered(question: Question) -> Prompt:
    """Returns the prompt of a question, which lists its options."""
    return Prompt(f"{question.text} {' or '.join(question.options)}?", question.options, question.answer)


def rows_of(asked: Sequence[MediaGroup]) -> list[dict[str, Any]]:
    """Returns the questions of the groups as a peer is given them: image file, prompt, options and answer."""
    found = []
    for group in asked:
        for question in group.questions:
            prompt = rendered(question)
            found.append(
                {
                    "image": str(group.media[0].path),
                    "prompt": prompt.text,
                    "options": list(prompt.choices),
                    "answer": prompt.target,
                }
            )
    return found
