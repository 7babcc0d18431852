"""Full-size models with random weights on a GPU: the questions about one CT, or one image, that its benchmark asks.

By default M3D-LaMed on Llama 2 with 43 questions about a CT; `medtune bench full_size qwen25vl_7b` shows a picture.
"""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import PIL.Image
import torch

from medtune.benchmarks import find_benchmark, find_source
from medtune.benchmarks.ctlesionvqa.sources import ct_phantom
from medtune.benchmarks.fetal_gauge.sources import fetal_phantom
from medtune.benchmarks.simulators.settings import write_num_patients
from medtune.data.media.volumes.cache import VolumeCache
from medtune.data.prepared.folder import prepare
from medtune.data.types import MediaGroup
from medtune.models.contract import Assembled
from medtune.models.tuning.apply import apply_tuning
from medtune.models.tuning.gradient_checkpointing import recompute_activations
from medtune.models.tuning.plan import Tuning
from medtune.models.tuning.precision import narrow_frozen, resolved
from medtune.models.volumes.volume_input import VolumeInput
from medtune.models.weights.random_weights import PICTURE_PX, random_weights
from medtune.trainer.benches.figures.measured import GB, Limit, Measured
from medtune.trainer.benches.shared_prefix import Work, answering, device_text, training, two_ways, widest_apart
from medtune.trainer.experiment.strategies import device_of_rank

NUM_COMPARED = 2
BATCH_TOKENS = 16_384
MEMORY_GB = 80.0
"""Of the smallest device that the papers train on."""


class Subject(NamedTuple):
    """What is asked about one media item.

    Attributes:
        num_questions: As many as the benchmark asks about one on average.
        answering_target: How many times as fast sharing has to be.
    """

    benchmark: str
    source: str
    settings_file: str
    num_questions: int
    answering_target: float
    training_target: float


# 395,612 questions about 9,262 CTs; 93,451 about 42,036 images. Source: the two papers' counts.
CT = Subject("ctlesionvqa", "ct_phantom", ct_phantom.SETTINGS_FILE, 43, 8.0, 3.0)
PICTURE = Subject("fetal_gauge", "fetal_phantom", fetal_phantom.SETTINGS_FILE, 2, 4.0, 1.3)


def bench(subject: str | None) -> Measured:
    """Returns the figures of one model, by its name.

    Raises:
        ValueError: There is no GPU, or the model cannot be built without its files.
    """
    device = device_of_rank(0)
    if device.type != "cuda":
        raise ValueError("the bench 'full_size' needs a GPU with 80 GB; on a CPU take `medtune bench shared_prefix`")
    model = subject or "m3d_llama2"
    return measured(model, PICTURE if model == "qwen25vl_7b" else CT, device=device)


def measured(model: str, asked: Subject, *, device: torch.device) -> Measured:
    """Returns both comparisons about one simulated CT or picture.

    Raises:
        ValueError: The model cannot be built without its files.
    """
    assembled, benchmark = random_weights(model, device), find_benchmark(asked.benchmark)
    apply_tuning(assembled.model, Tuning(), seed=0)
    recompute_activations(assembled.model)
    precision = resolved("auto", device)
    with tempfile.TemporaryDirectory() as scratch:
        groups = one_item(asked, Path(scratch))
        assembled = _keeping(assembled, Path(scratch))
        few = [replace(groups[0], questions=groups[0].questions[:NUM_COMPARED])]
        apart = [
            widest_apart(answering(assembled, few, benchmark, precision="32-true")),
            widest_apart(learning(assembled, training(assembled, few, benchmark, precision="32-true", steps=1))),
        ]
        narrow_frozen(assembled.model, precision)
        if device.type == "cuda":
            torch.cuda.reset_peak_memory_stats(device)
        works = [
            answering(assembled, groups, benchmark, precision=precision, batch_tokens=BATCH_TOKENS),
            learning(assembled, training(assembled, groups, benchmark, precision=precision, steps=1)),
        ]
        targets = (asked.answering_target, asked.training_target)
        ways = tuple(
            two_ways(title, work, apart=found, target=target)
            for title, work, found, target in zip(
                ("answering", "training with LoRA"), works, apart, targets, strict=True
            )
        )
    count = sum(parameter.numel() for parameter in assembled.model.parameters())
    return Measured(
        f"{model} with random weights ({count / 1e9:.2f} billion), {asked.num_questions} questions about one "
        f"{groups[0].media.kind}, {precision}, {device_text(device)}",
        ways,
        (Limit("memory of the device", torch.cuda.max_memory_allocated(device) / GB, MEMORY_GB, "GB"),)
        if device.type == "cuda"
        else (),
    )


def learning(assembled: Assembled, work: Work) -> Work:
    """Returns the work done in training mode: only there are activations recomputed."""

    def learn(share_prefix: bool) -> torch.Tensor:
        assembled.model.train()
        try:
            return work(share_prefix)
        finally:
            assembled.model.eval()

    return learn


def one_item(asked: Subject, scratch: Path) -> list[MediaGroup]:
    """Returns one group: the first simulated CT or picture, asked what several of them are asked, as far as wanted."""
    raw = scratch / "raw"
    write_num_patients(raw / asked.settings_file, 16)
    prepared = prepare(find_source(asked.source), benchmark=asked.benchmark, root=raw, out=scratch / "data")
    groups: Sequence[MediaGroup] = prepared.groups("train")
    questions = [question for group in groups for question in group.questions if question.options]
    if len(questions) < asked.num_questions:
        raise ValueError(f"wanted {asked.num_questions} questions with options, there are {len(questions)}")
    media = groups[0].media
    if media.kind == "image":
        large = scratch / "large.png"
        PIL.Image.open(media.path).resize(PICTURE_PX).save(large)
        media = replace(media, path=large)
    return [replace(groups[0], media=media, questions=tuple(questions[: asked.num_questions]))]


def _keeping(assembled: Assembled, scratch: Path) -> Assembled:
    """Returns the model as a run has it: a volume is brought into the tower's form once, in the warm-up."""
    transform = assembled.transform
    if not isinstance(transform, VolumeInput):
        return assembled
    return replace(assembled, transform=replace(transform, cache=VolumeCache(scratch / "cache")))
