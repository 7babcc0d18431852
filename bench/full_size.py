"""Times a model at full size on a GPU, with random weights, on a benchmark's questions about one media item.

The questions share the encoded media item, or each question is computed on its own; both are timed, for answering and
for training. The default model is M3D-LaMed on Llama 2, which reads a CT. `python -m bench full_size qwen25vl_7b`
measures a model that reads an image.
"""

import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import PIL.Image
import torch

from bench.measuring.measured import GB, Limit, Measured
from bench.measuring.random_weights import PICTURE_PX, random_weights
from bench.measuring.subjects import Simulated, first_simulated
from bench.shared_prefix import Work, answering, device_text, training, two_ways, widest_apart
from medtune.benchmarks import find_source
from medtune.data.media.volumes.cache import VolumeCache
from medtune.data.prepared.write import prepare
from medtune.data.types import MediaGroup, MediaKind
from medtune.models.contract import Assembled
from medtune.models.tuning.apply import apply_tuning, recompute_activations
from medtune.models.tuning.plan import Tuning
from medtune.models.tuning.quantize import resolved, set_types
from medtune.models.volumes.volume_parts import VolumeInput
from medtune.trainer.devices.ranks import device_of_rank

NUM_COMPARED = 2
BATCH_TOKENS = 16_384
MEMORY_GB = 80.0
"""The limit of memory in GB: that of the smallest GPU on which the models' papers train."""

NUM_PATIENTS = 16


class Targets(NamedTuple):
    """The speedups that sharing has to reach: the ratio of the time without sharing to the time with it."""

    answering: float
    training: float


TARGETS: Mapping[MediaKind, Targets] = {"volume": Targets(8.0, 3.0), "image": Targets(4.0, 1.3)}
"""The targets by kind of media. They differ because benchmarks ask many questions about a CT and few about an image."""


def bench(subject: str | None) -> Measured:
    """Returns the figures of the model named `subject`; None means "m3d_llama2"."""
    device = device_of_rank(0)
    if device.type != "cuda":
        raise ValueError("the bench 'full_size' needs a GPU with 80 GB; on a CPU take `python -m bench shared_prefix`")
    return measured(subject or "m3d_llama2", device=device)


def measured(model: str, *, device: torch.device, num_questions: int | None = None) -> Measured:
    """Returns both comparisons, answering and training, on one simulated CT or image, whichever the model reads."""
    assembled = random_weights(model, device)
    kind: MediaKind = "volume" if isinstance(assembled.transform, VolumeInput) else "image"
    asked = first_simulated(kind)
    benchmark = asked.benchmark
    apply_tuning(assembled.model, Tuning(), seed=0)
    recompute_activations(assembled.model)
    precision = resolved("auto", device)
    with tempfile.TemporaryDirectory() as scratch:
        groups = one_item(asked, Path(scratch), num_questions=num_questions)
        assembled = _keeping(assembled, Path(scratch))
        few = [replace(groups[0], questions=groups[0].questions[:NUM_COMPARED])]
        apart = [
            widest_apart(answering(assembled, few, benchmark, precision="32-true")),
            widest_apart(learning(assembled, training(assembled, few, benchmark, precision="32-true", steps=1))),
        ]
        set_types(assembled.model, precision)
        if device.type == "cuda":
            torch.cuda.reset_peak_memory_stats(device)
        works = [
            answering(assembled, groups, benchmark, precision=precision, batch_tokens=BATCH_TOKENS),
            learning(assembled, training(assembled, groups, benchmark, precision=precision, steps=1)),
        ]
        ways = tuple(
            two_ways(title, work, apart=found, target=target)
            for title, work, found, target in zip(
                ("answering", "training with LoRA"), works, apart, TARGETS[kind], strict=True
            )
        )
    count = sum(parameter.numel() for parameter in assembled.model.parameters())
    return Measured(
        f"{model} with random weights ({count / 1e9:.2f} billion), {len(groups[0].questions)} questions about one "
        f"{groups[0].media[0].kind}, {precision}, {device_text(device)}",
        ways,
        (Limit("memory of the device", torch.cuda.max_memory_allocated(device) / GB, MEMORY_GB, "GB"),)
        if device.type == "cuda"
        else (),
    )


def learning(assembled: Assembled, work: Work) -> Work:
    """Returns the same work done with the model in training mode, in which activations are recomputed."""

    def learn(share_prefix: bool) -> torch.Tensor:
        assembled.model.train()
        try:
            return work(share_prefix)
        finally:
            assembled.model.eval()

    return learn


def one_item(asked: Simulated, scratch: Path, *, num_questions: int | None = None) -> list[MediaGroup]:
    """Returns one media group: the first simulated CT or image, with the questions about several of them."""
    source, raw = find_source(asked.simulation.source), scratch / "raw"
    if source.write_settings is None:
        raise ValueError(f"{asked.name} names {source.name!r} as its simulation, which has no `write_settings`")
    source.write_settings(raw, NUM_PATIENTS)
    prepared = prepare(source, benchmark=asked.name, root=raw, out=scratch / "data")
    wanted = num_questions or asked.simulation.questions_per_item
    groups: Sequence[MediaGroup] = prepared.groups("train")
    questions = [question for group in groups for question in group.questions if question.options]
    if len(questions) < wanted:
        raise ValueError(f"wanted {wanted} questions with options, there are {len(questions)}")
    shown = groups[0].media[0]
    if shown.kind == "image":
        large = scratch / "large.png"
        PIL.Image.open(shown.path).resize(PICTURE_PX).save(large)
        shown = replace(shown, path=large)
    return [replace(groups[0], media=(shown,), questions=tuple(questions[:wanted]))]


def _keeping(assembled: Assembled, scratch: Path) -> Assembled:
    """Returns the model with a cache of prepared volumes in `scratch`, as in a training run.

    The warm-up fills the cache, so the preparation of a volume is not timed.
    """
    transform = assembled.transform
    if not isinstance(transform, VolumeInput):
        return assembled
    return replace(assembled, transform=replace(transform, cache=VolumeCache(scratch / "cache")))
