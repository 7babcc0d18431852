"""A model over volumes at full size on a GPU: 43 questions about one CT, by default with M3D-LaMed on Llama 2.

The weights are random, and a tokenizer that spells bytes takes the place of the released one, whose files are behind
licences: how long the work takes depends on neither, but each text has about four times as many tokens as it would
have, which makes the shared image a smaller part of the whole.
"""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import torch

from medtune.data.prepared import prepare
from medtune.data.simulation_settings import write_num_patients
from medtune.data.sources import ct_phantom
from medtune.data.types import MediaGroup
from medtune.data.volumes.cache import VolumeCache
from medtune.eval.benchmark import benchmark
from medtune.models.assemble import zoo_entry
from medtune.models.nano_volume import tokenizer
from medtune.models.precision import narrow_frozen, resolved
from medtune.models.recompute import recompute_activations
from medtune.models.tuning import apply_tuning
from medtune.models.tuning_plan import Tuning
from medtune.models.vlm import Assembled
from medtune.models.volume_vlm import chosen, modules
from medtune.trainer.benches.shared_prefix import answering, device_text, training, two_ways, widest_apart
from medtune.trainer.benching import GB, Limit, Measured
from medtune.trainer.strategies import device_of_rank

NUM_QUESTIONS = 43
"""About one CT, as many as CTLesionVQA asks on average: 395,612 about 9,262."""
NUM_COMPARED = 3
NUM_PATIENTS = 16
"""Whose questions are asked together: a simulated CT has fewer."""
BATCH_TOKENS = 16_384
ANSWERING_TARGET, TRAINING_TARGET = 8.0, 3.0
MEMORY_GB = 80.0
"""Of the smallest device that the papers train on."""


def bench(subject: str | None) -> Measured:
    """Returns the figures of one model, by its name.

    Raises:
        ValueError: There is no GPU, or the model is none over volumes with parts of its own.
    """
    device = device_of_rank(0)
    if device.type != "cuda":
        raise ValueError("the bench 'full_size' needs a GPU with 80 GB; on a CPU take `medtune bench shared_prefix`")
    return measured(subject or "m3d_llama2", device=device, num_questions=NUM_QUESTIONS)


def measured(model: str, *, device: torch.device, num_questions: int) -> Measured:
    """Returns both comparisons for so many questions about one simulated CT.

    Raises:
        ValueError: The model is none over volumes with parts of its own.
    """
    assembled, judged_by = random_weights(model, device), benchmark("ctlesionvqa")
    apply_tuning(assembled.model, Tuning(), seed=0)
    recompute_activations(assembled.model)
    precision = resolved("auto", device)
    with tempfile.TemporaryDirectory() as folder:
        raw = Path(folder) / "raw"
        write_num_patients(raw / ct_phantom.SETTINGS_FILE, NUM_PATIENTS)
        prepared = prepare("ct_phantom", benchmark="ctlesionvqa", root=raw, out=Path(folder) / "data")
        # As a run does it: the volume is brought into the tower's form once, in the warm-up.
        transform = replace(assembled.transform, cache=VolumeCache(prepared.cache_folder))  # type: ignore[type-var]
        assembled = replace(assembled, transform=transform)
        groups = one_ct(prepared.groups("train"), num_questions)
        few = one_ct(groups, NUM_COMPARED)
        apart = [
            widest_apart(answering(assembled, few, judged_by, precision="32-true")),
            widest_apart(training(assembled, few, judged_by, precision="32-true", steps=1)),
        ]
        narrow_frozen(assembled.model, precision)
        if device.type == "cuda":
            torch.cuda.reset_peak_memory_stats(device)
        works = [
            answering(assembled, groups, judged_by, precision=precision, batch_tokens=BATCH_TOKENS),
            training(assembled, groups, judged_by, precision=precision, steps=1),
        ]
        ways = tuple(
            two_ways(title, work, apart=found, target=target)
            for title, work, found, target in zip(
                ("answering", "training with LoRA"), works, apart, (ANSWERING_TARGET, TRAINING_TARGET), strict=True
            )
        )
    count = sum(parameter.numel() for parameter in assembled.model.parameters())
    return Measured(
        f"{model} with random weights ({count / 1e9:.2f} billion), {num_questions} questions about one CT, "
        f"{precision}, {device_text(device)}",
        ways,
        (Limit("memory of the device", torch.cuda.max_memory_allocated(device) / GB, MEMORY_GB, "GB"),)
        if device.type == "cuda"
        else (),
    )


def random_weights(model: str, device: torch.device) -> Assembled:
    """Returns the model as its zoo entry builds it, drawn at random on the device, with a tokenizer of bytes.

    Raises:
        ValueError: The entry has no parts that could be built without its files.
    """
    entry = zoo_entry(model)
    if not entry.variants:
        raise ValueError(f"the bench 'full_size' takes a model over volumes such as m3d_llama2 or merlin, not {model}")
    parts = chosen(entry.variants, None)
    torch.manual_seed(0)
    with device:
        built = modules(parts)
    built.eval()
    return Assembled(
        model=built,
        family=parts.limited(tokenizer()),
        transform=parts.input_of(built.vision),
        provenance=dict.fromkeys(("vision", "projector", "language"), "random (seed 0)"),
    )


def one_ct(groups: Sequence[MediaGroup], num_questions: int) -> list[MediaGroup]:
    """Returns one group: the first CT, asked what all of them are asked, as far as so many questions."""
    asked = [question for group in groups for question in group.questions]
    if len(asked) < num_questions:
        raise ValueError(f"wanted {num_questions} questions, there are {len(asked)}")
    return [replace(groups[0], questions=tuple(asked[:num_questions]))]
