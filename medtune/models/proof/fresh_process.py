"""Compares an exported folder, read by a fresh process, with the model that was trained, on a few questions."""

import json
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, NamedTuple

import PIL.Image

from medtune.data.types import Image
from medtune.models.contract import Assembled
from medtune.models.proof.checks import Apart
from medtune.models.proof.questions import AskedQuestion, decoded, laid_out
from medtune.models.sequence.builder import IGNORED
from medtune.models.weights.hub import PROOF

PLAIN = (sys.executable, "-I", str(Path(__file__).with_name("plain_reader.py")))
"""The command of a reader that knows transformers and peft only."""
OWN = (sys.executable, "-m", "medtune.models.proof.own_reader")
"""The command of a reader that puts the model together with medtune."""


class ProofError(ValueError):
    """An export does not say what the trained model says; the message names the figures."""


@dataclass(frozen=True, slots=True)
class Proof:
    samples: int
    origin: str  # Where the samples come from, in words.
    reader: str  # The program that read the export, with versions.
    dtype: str
    difference: Apart  # How far the export lies from the trained model.
    tolerance: Apart
    # How far training has moved the same answers. Where this is hardly more than the tolerance, the proof could not
    # tell the trained model from the untrained one.
    training_moved: Apart
    # How far the model with its language part in 4 bits, which was trained and evaluated, lies from the one that is
    # exported, which rests on the 16-bit weights; None where nothing was in 4 bits.
    four_bits_gap: Apart | None
    # How the tensors of the merged model's files were found equal to those in memory, in words; None where they were
    # not compared.
    tensors: str | None = None

    @property
    def tells(self) -> bool:
        """Whether the proof could tell the trained model from the untrained one."""
        return self.training_moved.largest > 2 * self.tolerance.largest or (
            self.training_moved.mean > 2 * self.tolerance.mean
        )

    def sentences(self) -> list[str]:
        """Returns the figures in words, for the printed lines and the model card."""
        lines = [
            f"Proven with {self.reader} in a fresh process, on {self.samples} samples ({self.origin}): "
            f"log-probabilities of answers differ by {self.difference.mean:.2g} in the mean and "
            f"{self.difference.largest:.2g} at most; allowed in {self.dtype} are {self.tolerance.mean:g} and "
            f"{self.tolerance.largest:g}.",
            f"Training moved the same log-probabilities by {self.training_moved.mean:.2g} in the mean and "
            f"{self.training_moved.largest:.2g} at most.",
        ]
        if not self.tells and self.tensors is not None:
            lines.append(
                f"That is hardly more than the tolerance, but the export is equal to the merged model: {self.tensors}."
            )
        elif not self.tells:
            lines.append(
                "That is hardly more than the tolerance: the proof says that the folder can be read, but could not "
                "tell the trained model from the untrained one."
            )
        if self.four_bits_gap is not None:
            lines.append(
                "The model was trained and evaluated with its language model in 4 bits; the adapters were merged into "
                "the base model's own weights. On these samples the two differ by "
                f"{self.four_bits_gap.mean:.2g} in the mean and {self.four_bits_gap.largest:.2g} at most, so that the "
                "scores of the run are not exactly those of the export."
            )
        return lines

    def write(self, folder: Path) -> None:
        record = {**asdict(self), "tells_trained_from_untrained": self.tells}
        for name in ("difference", "tolerance", "training_moved", "four_bits_gap"):
            pair: Apart | None = getattr(self, name)
            record[name] = None if pair is None else pair._asdict()
        (folder / PROOF).write_text(json.dumps(record, indent=1) + "\n", "utf-8")


def written_questions(folder: Path, assembled: Assembled, questions: Sequence[AskedQuestion]) -> list[dict[str, Any]]:
    """Writes the images into a folder and returns a record of each question, for a process that reads them back.

    Videos and volumes are always made up, so that the process draws them again from their seed.
    """
    records: list[dict[str, Any]] = []
    for number, each in enumerate(questions):
        asked = laid_out(each, None, assembled.template, assembled.transform)
        told = laid_out(each, each.prompt.target, assembled.template, assembled.transform)
        media, file = decoded(each.media[0], assembled.transform), None
        if isinstance(media, Image):
            file = folder / f"sample_{number}.png"
            PIL.Image.fromarray(media.pixels_HWC).save(file)
        records.append(
            {
                "media": file and str(file),
                "text": each.prompt.text,
                "answer": each.prompt.target,
                "marks_prefix": getattr(assembled.model, "marks_prefix", False),
                "asked_ids": list(asked.ids),
                "told_ids": [label for label in told.labels if label != IGNORED],
                "lead_ids": list(told.ids[len(asked.ids) : len(told.ids) - told.num_targets]),
            }
        )
    return records


class Told(NamedTuple):
    """What a fresh process said about the samples."""

    reader: str  # The program, with versions.
    logprobs: list[list[float]]  # The log-probability of each token of each answer.


def told_by(reader: Sequence[str], task: Mapping[str, Any], scratch: Path) -> Told:
    """Returns what a fresh process says after it has read an export."""
    asked, answered = scratch / "task.json", scratch / "result.json"
    asked.write_text(json.dumps(task), "utf-8")
    done = subprocess.run([*reader, str(asked), str(answered)], capture_output=True, text=True, check=False)
    if done.returncode != 0 or not answered.is_file():
        last = (done.stderr.strip() or "it said nothing").splitlines()[-1]
        raise ProofError(f"the export cannot be read by a fresh process (status {done.returncode}): {last}")
    result = json.loads(answered.read_text("utf-8"))
    if other := result.get("other_ids"):
        raise ProofError(f"the export's processor makes other tokens than medtune; {other}")
    return Told(result["reader"], result["logprobs"])


def refuse_beyond(proof: Proof) -> None:
    """Refuses an export that differs from the trained model by more than the tolerance."""
    if proof.difference.mean > proof.tolerance.mean or proof.difference.largest > proof.tolerance.largest:
        raise ProofError(
            f"the export is not the trained model: read by {proof.reader}, log-probabilities of answers differ by "
            f"{proof.difference.mean:.2g} in the mean and {proof.difference.largest:.2g} at most; allowed in "
            f"{proof.dtype} are {proof.tolerance.mean:g} and {proof.tolerance.largest:g} (training moved them by "
            f"{proof.training_moved.mean:.2g} and {proof.training_moved.largest:.2g}). Nothing was written. Try "
            "--dtype float32, or report this with the recipe"
        )
