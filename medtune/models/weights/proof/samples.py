"""The questions of a proof: a media item, a question and an answer each, and how likely a model finds the answers.

A program that reads an export with medtune in a fresh process, where no other library can put the model together.

python -m medtune.models.weights.proof.samples TASK.json RESULT.json
"""

import json
import sys
from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import PIL.Image
import torch

from medtune.data.media.load import Shape
from medtune.data.plugins import name_folders
from medtune.data.types import Frames, Image, Media, Size, Video, Volume
from medtune.models.contract import Assembled, Transform
from medtune.models.sequence.builder import IGNORED
from medtune.models.sequence.packing import Shown, pack
from medtune.models.sequence.tree import grow
from medtune.models.tuning.quantize import Precise
from medtune.models.volumes.volume_parts import VolumeInput
from medtune.models.weights.export import assemble_model
from medtune.models.weights.loading_options import Loading
from medtune.version import __version__

_QUESTIONS = ("Which plane is shown?", "Is a lesion seen?", "What is the organ?", "Describe the finding.")
_ANSWERS = ("abdomen", "no", "the left kidney", "a bright spot near the edge")
SYNTHETIC = "random media and made-up questions, drawn from a seed"


@dataclass(frozen=True, slots=True)
class Sample:
    media: Media
    text: str  # The text of the user's turn.
    answer: str  # The answer whose log-probability is compared.


def synthetic_samples(transform: Transform, *, count: int, seed: int) -> list[Sample]:
    """Returns made-up questions about random media of the kind that a model reads."""
    draw = np.random.default_rng(seed)
    return [
        Sample(_random_media(transform, draw), _QUESTIONS[n % len(_QUESTIONS)], _ANSWERS[n % len(_ANSWERS)])
        for n in range(count)
    ]


def _random_media(transform: Transform, draw: np.random.Generator) -> Media:
    if isinstance(transform, VolumeInput):
        hu_IJK = draw.integers(-900, 900, (48, 48, 32)).astype(np.int16)
        inside = np.zeros(hu_IJK.shape, bool)
        inside[8:40, 8:40, 8:24] = True
        organs = transform.prepare.organs
        return Volume(hu_IJK, (4.0, 4.0, 6.0), "LPS", dict.fromkeys(organs, inside), tuple(organs[:1]))
    if "image" in transform.kinds:
        return Image(draw.integers(0, 256, (96, 128, 3), dtype=np.uint8))
    frames = transform.sampling.at_most if transform.sampling else 1
    return Video(draw.integers(0, 256, (frames, 96, 128, 3), dtype=np.uint8), tuple(map(float, range(frames))))


@torch.no_grad()
def answer_logprobs(assembled: Assembled, samples: Sequence[Sample], *, precise: Precise) -> list[list[float]]:
    """Returns the log-probability of each token of each answer, computed by medtune."""
    device = next(assembled.model.parameters()).device
    assembled.model.eval()
    found: list[list[float]] = []
    with precise():
        for sample in samples:
            layout = assembled.family.layout(sample.text, sample.answer, shapes=[_shape(sample.media)])
            rows = pack([[Shown(grow([layout], [0]), 0)]], pad_id=assembled.family.pad_id)
            item = assembled.transform(sample.media)
            encoded = assembled.model.encode(assembled.transform.stack([item]))
            found.append(assembled.model(rows.to(device), encoded).logprobs_T.float().tolist())
    return found


def _shape(media: Media) -> Shape | None:
    if isinstance(media, Image):
        return Size(media.pixels_HWC.shape[1], media.pixels_HWC.shape[0])
    if isinstance(media, Video):
        return Frames(Size(media.frames_THWC.shape[2], media.frames_THWC.shape[1]), media.times_s)
    return None


def write_samples(folder: Path, assembled: Assembled, samples: Sequence[Sample]) -> list[dict[str, Any]]:
    """Writes the images into a folder and returns a record of each sample, for a process that reads them back.

    Videos and volumes are always made up, so that the process draws them again from their seed.
    """
    records: list[dict[str, Any]] = []
    for number, sample in enumerate(samples):
        shapes = [_shape(sample.media)]
        asked = assembled.family.layout(sample.text, None, shapes=shapes)
        told = assembled.family.layout(sample.text, sample.answer, shapes=shapes)
        file = None
        if isinstance(sample.media, Image):
            file = folder / f"sample_{number}.png"
            PIL.Image.fromarray(sample.media.pixels_HWC).save(file)
        records.append(
            {
                "media": file and str(file),
                "text": sample.text,
                "answer": sample.answer,
                "marks_prefix": getattr(assembled.model, "marks_prefix", False),
                "asked_ids": list(asked.ids),
                "told_ids": [label for label in told.labels if label != IGNORED],
                "lead_ids": list(told.ids[len(asked.ids) : len(told.ids) - told.num_targets]),
            }
        )
    return records


def read_samples(records: Sequence[dict[str, Any]], transform: Transform, *, seed: int) -> list[Sample]:
    """Returns the samples that `write_samples` wrote, whose made-up media were drawn from a seed."""
    drawn = synthetic_samples(transform, count=len(records), seed=seed)
    return [
        Sample(
            Image(np.asarray(PIL.Image.open(record["media"]).convert("RGB"))) if record["media"] else again.media,
            record["text"],
            record["answer"],
        )
        for record, again in zip(records, drawn, strict=True)
    ]


def main(task_file: str, result_file: str) -> None:
    task = json.loads(Path(task_file).read_text("utf-8"))
    name_folders(map(Path, task["plugins"]))
    device, dtype = torch.device(task["device"]), getattr(torch, task["dtype"])
    loading: dict[str, Any] = {
        key: tuple(value) if isinstance(value, list) else value for key, value in task["loading"].items()
    }
    assembled = assemble_model(task["name"], task["seed"], Loading(**loading))
    assembled.model.to(device)
    precise = nullcontext if dtype == torch.float32 else partial(torch.autocast, device.type, dtype)
    samples = read_samples(task["samples"], assembled.transform, seed=task["seed"])
    told = answer_logprobs(assembled, samples, precise=precise)
    Path(result_file).write_text(json.dumps({"reader": f"medtune {__version__}", "logprobs": told}), "utf-8")


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2])
