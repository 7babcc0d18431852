"""Defines the label that every output carries: the origin of the data, the author of the prompts, and their split."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, fields
from typing import TYPE_CHECKING, Annotated

from pydantic import Field

if TYPE_CHECKING:
    from medtune.data.prepared.manifest import Manifest

Fact = Annotated[str, Field(exclude_if=lambda text: not text)]
"""A text that is left out of a file if it is empty."""
UNKNOWN = "unknown"
NOT_RECORDED = "not recorded"
_MEANING = {
    "synthetic": (
        "Synthetic data",
        "The images were made by a simulation. The numbers show that the method works, not how it does on patients.",
    ),
    "reconstruction": (
        "Reconstructed questions",
        "The questions were rebuilt from source data after the paper's description; they are not the released ones.",
    ),
}
_BETWEEN = "; "
PATIENT = "patient"
"""The unit that stands for a patient where the data say whose images they are."""
_LOOKALIKES = "Look-alikes are images that a perceptual hash cannot tell from one another."

OF_TRAINING = ("unofficial_training", "learnt_lookalikes", "seen_in_training", "changed_data")
"""The fields that a prepared folder does not tell, but a run."""


@dataclass(frozen=True, kw_only=True)
class DataLabel:
    """The label of a set of numbers; its fields have the same names in every JSON file.

    Attributes:
        provenance: Origin of the data: "released", "own" (the user's), "reconstruction" or "synthetic".
        prompts: Author of the prompts: "ours", or the name of the official prompts or of a kit's.
        unofficial_split: Unit by which a benchmark for evaluation alone was divided into splits of our own, e.g.
            "patient"; left out if the official split was used.
        unofficial_training: Sets for evaluation alone that the model was trained on; left out if there are none.
        stands_for_patient: Unit that is kept in one split, and a cluster of intervals: "patient" if the data say
            whose images they are, else what stands for a patient, e.g. "image"; left out if it is not recorded.
        split_lookalikes: Number of pairs of images that look alike and lie in two splits, and why; left out if
            look-alikes were kept together.
        learnt_lookalikes: Images of other folders that the model learnt from although they look like evaluated ones;
            left out if there are none.
        split_leaks: Number of test questions about a patient, an image or a text that another split of the data holds
            too; left out if the splits share none.
        seen_in_training: Evaluated patients and questions that the weights were trained on before, "not recorded" if
            trained weights do not say; left out if there are none.
        changed_data: When and how the data changed while the run was interrupted; left out if they did not.
    """

    provenance: Fact
    prompts: Fact
    unofficial_split: Fact = ""
    unofficial_training: Fact = ""
    stands_for_patient: Fact = ""
    split_lookalikes: Fact = ""
    learnt_lookalikes: Fact = ""
    split_leaks: Fact = ""
    seen_in_training: Fact = ""
    changed_data: Fact = ""

    @property
    def of_training(self) -> dict[str, str]:
        return {name: getattr(self, name) for name in OF_TRAINING}

    def facts(self) -> dict[str, str]:
        """Returns the fields by name, for a JSON file; empty ones are left out."""
        return {name: text for name, text in asdict(self).items() if text}

    @property
    def origin(self) -> str:
        return "the user's own" if self.provenance == "own" else self.provenance

    def banners(self) -> tuple[tuple[str, str], ...]:
        """Returns (name, meaning) of each reason why the numbers are not the benchmark's own, most serious first."""
        found = []
        if self.unofficial_split:
            meaning = (
                "The benchmark is for evaluation alone, or its own split was not kept; here it was divided by "
                f"{self.unofficial_split}. The numbers are about a part of it and not comparable with published ones."
            )
            found.append(("Unofficial split", meaning))
        if self.unofficial_training:
            meaning = (
                f"The model learnt from what is for evaluation alone, divided for that: {self.unofficial_training}. It "
                "must not be ranked on that benchmark."
            )
            found.append(("Trained on an evaluation set", meaning))
        if self.seen_in_training == NOT_RECORDED:
            meaning = (
                "On which patients the weights were trained, before this run or in a trainer of the user's own, is not "
                "recorded. Whether these are among the evaluated ones is unknown."
            )
            found.append(("Training patients not recorded", meaning))
        elif self.seen_in_training:
            meaning = (
                f"The weights were trained on {self.seen_in_training}. Such answers may be remembered, so that neither "
                "the score nor a gain says how the model does on new patients."
            )
            found.append(("Evaluated on patients of its training", meaning))
        if self.changed_data:
            meaning = (
                f"The data changed while the run was interrupted, and it went on with them: {self.changed_data}. What "
                "was learnt before and after that is from different data."
            )
            found.append(("Data changed during the run", meaning))
        if self.split_leaks:
            meaning = (
                f"The split of the data was kept as it is: {self.split_leaks}. Such answers may be remembered, so that "
                "the score does not say how the model does on new patients."
            )
            found.append(("Training holds what the test asks about", meaning))
        if alike := self._lookalikes():
            meaning = (
                f"{_LOOKALIKES} Here: {alike}. An answer about an image with a look-alike in train may be "
                "remembered, so go by the score without such images."
            )
            found.append(("Look-alikes in training and test", meaning))
        return (*found, *([_MEANING[self.provenance]] if self.provenance in _MEANING else []))

    def notes(self) -> tuple[str, ...]:
        """Returns the label as short lines of plain text, for tables."""
        found = [f"Data: {self.origin}. Prompts: {self.prompts}."]
        if self.split_leaks:
            found.append(f"Leaks of the data's own split: {self.split_leaks}.")
        if self.seen_in_training == NOT_RECORDED:
            found.append("Whether evaluated patients were trained on before is not recorded.")
        elif self.seen_in_training:
            found.insert(0, f"TRAINED ON what is evaluated: {self.seen_in_training}.")
        if self.changed_data:
            found.insert(0, f"The data changed during the run: {self.changed_data}.")
        if alike := self._lookalikes():
            found.append(f"Look-alikes: {alike}.")
        if learnt := self.training_note():
            found.insert(0, learnt)
        if note := self.patient_note():
            found.append(f"Patients: {note}.")
        if self.unofficial_split:
            found.insert(0, f"Unofficial split by {self.unofficial_split}: not comparable with published numbers.")
        return tuple(found)

    def patient_note(self) -> str:
        """Returns a clause that says what stands for a patient; "" if patients are known or nothing is recorded."""
        unit = self.stands_for_patient
        if unit in ("", PATIENT):
            return ""
        return (
            f"one {unit} stands for one patient, because the data do not say whose the {several(unit, 2)} are, so "
            "that train and test may share patients"
        )

    def _lookalikes(self) -> str:
        return _BETWEEN.join(filter(None, (self.split_lookalikes, self.learnt_lookalikes)))

    def training_note(self) -> str:
        """Returns the line about the evaluation sets that the model was trained on; "" if there are none."""
        learnt = self.unofficial_training
        return f"Trained on sets for evaluation alone: {learnt}." if learnt else ""


LABEL_FIELDS = tuple(field.name for field in fields(DataLabel))


def label_of(manifest: Manifest, *, prompts: str, **of_training: str) -> DataLabel:
    """Returns the label of numbers about a prepared folder; a run adds the fields of `OF_TRAINING`."""
    return DataLabel(
        provenance=manifest.provenance,
        prompts=prompts,
        unofficial_split=manifest.unofficial_split or "",
        stands_for_patient=manifest.stands_for_patient,
        split_lookalikes=manifest.lookalikes.across,
        split_leaks=manifest.leaks,
        **of_training,
    )


def several(unit: str, number: int) -> str:
    """Returns a noun, or several joined by "or", in the singular for 1 and else in the plural.

    >>> several("image or film", 3)
    'images or films'
    """
    if number == 1:
        return unit
    return " or ".join(f"{each[:-1]}ies" if each.endswith("y") else f"{each}s" for each in unit.split(" or "))


def recorded_label(facts: Mapping[str, object]) -> DataLabel:
    """Returns the label that `facts` wrote into a JSON file; its fields are unknown if another tool wrote the file."""
    unknown = {"provenance": UNKNOWN, "prompts": NOT_RECORDED}
    return DataLabel(**{name: str(facts.get(name) or unknown.get(name, "")) for name in LABEL_FIELDS})


def unofficial_sets(learnt: Iterable[Manifest], *, before: Iterable[str] = ()) -> str:
    """Returns the sets for evaluation alone that a model was trained on, e.g. "my_films by patient"; "" if none."""
    found = [each for said in before if said for each in said.split(_BETWEEN)]
    found += [f"{each.benchmark} by {each.unofficial_split}" for each in learnt if each.unofficial_split]
    return _BETWEEN.join(dict.fromkeys(found))
