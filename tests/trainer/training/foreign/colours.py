"""A LightningModule of a stranger, and a prepared folder that it learns at once: the colour of a picture."""

import csv
import random
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import lightning.pytorch as pl
import numpy as np
import PIL.Image
import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader

import medtune
from medtune.benchmarks import find_source
from medtune.data.prepared.splits import Division
from medtune.data.prepared.write import prepare
from medtune.data.types import MediaGroup, Prediction, Request

COLOURS = {"red": (200, 20, 20), "green": (20, 200, 20), "blue": (20, 20, 200)}
QUIET: dict[str, Any] = {
    "accelerator": "cpu", "logger": False, "enable_checkpointing": False, "enable_progress_bar": False,
    "enable_model_summary": False,
}  # fmt: skip


def write_colours(folder: Path, number: int = 36) -> Path:
    """Writes pictures of one colour each with a table of questions about them, and returns the table."""
    rng = np.random.default_rng(0)
    rows = []
    for place in range(number):
        colour = list(COLOURS)[place % 3]
        pixels = np.clip(np.array(COLOURS[colour]) + rng.integers(-20, 20, (12, 12, 3)), 0, 255)
        PIL.Image.fromarray(pixels.astype(np.uint8)).save(folder / f"{place}.png")
        rows.append((f"{place}.png", "Which colour is this?", " | ".join(COLOURS), colour, f"p{place // 2}"))
    with (folder / "colours.csv").open("w", newline="") as file:
        csv.writer(file).writerows([("image", "question", "options", "answer", "patient"), *rows])
    return folder / "colours.csv"


def prepared_colours(folder: Path) -> Path:
    """Prepares the pictures and returns the prepared folder."""
    raw, out = folder / "raw", folder / "prepared"
    raw.mkdir()
    apart = Division(split_lookalikes=True)
    prepare(find_source("table"), benchmark="vqa", root=write_colours(raw), out=out, division=apart)
    return out


def mean_colour(image: PIL.Image.Image) -> Tensor:
    """Returns how far each channel lies above the mean of all pictures."""
    return torch.tensor(np.asarray(image, dtype=np.float32).mean((0, 1)) / 80 - 1)


class Stranger(pl.LightningModule):
    """A linear layer over the mean colour; at first it says the same colour of every picture."""

    def __init__(self, lr: float = 2.0) -> None:
        super().__init__()
        self.lr = lr
        self.layer = nn.Linear(3, 3)
        self.dropout = nn.Dropout(0.05)
        nn.init.zeros_(self.layer.weight)
        nn.init.zeros_(self.layer.bias)

    def training_step(self, batch: Sequence[tuple[Tensor, int]], batch_idx: int) -> Tensor:
        means, labels = torch.stack([mean for mean, _ in batch]), torch.tensor([label for _, label in batch])
        # Each kind of random numbers decides what is learnt.
        means = means + 0.01 * random.random() + 0.01 * float(np.random.rand())
        return nn.functional.cross_entropy(self.dropout(self.layer(means)), labels)

    def configure_optimizers(self) -> torch.optim.Optimizer:
        return torch.optim.SGD(self.parameters(), lr=self.lr)

    def colour(self, images: list[PIL.Image.Image], prompt: str) -> str:
        """Returns the reply to a question; where it is asked in training mode, it is wrong."""
        assert not self.training
        assert not torch.is_grad_enabled()
        # A model that draws uses up random numbers.
        torch.rand(3), random.random(), np.random.rand()
        scores = self.layer(mean_colour(images[0]).to(self.device)) if images else torch.zeros(3)
        return list(COLOURS)[int(scores.argmax())]


class Validating(Stranger):
    """The same, whose trainer validates."""

    def validation_step(self, batch: Sequence[tuple[Tensor, int]], batch_idx: int) -> None:
        """Measures nothing: the callback does."""


class Answering(Validating):
    """The same, which is asked itself."""

    def answer(self, group: MediaGroup, requests: Sequence[Request]) -> Iterator[Prediction]:
        for request in requests:
            images = [PIL.Image.open(ref.path).convert("RGB") for ref in group.media]
            yield Prediction(request.key, text=self.colour(images, request.prompt.text))


def loader(prepared: Path, split: str = "train") -> DataLoader[Any]:
    """Returns the batches of a split, in an order that torch's random numbers decide."""
    questions = getattr(medtune.load(prepared), split)
    samples: Any = [(mean_colour(questions.images(q)[0]), list(COLOURS).index(q.answer)) for q in questions]
    return DataLoader(samples, batch_size=4, shuffle=split == "train", collate_fn=list)
