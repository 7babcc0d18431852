"""What every output says about the data behind its numbers: whose they are, in whose words asked, and how divided."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, fields
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from medtune.data.prepared.manifest import Manifest

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


@dataclass(frozen=True, slots=True)
class DataLabel:
    """One per set of numbers; its fields have the same names in every JSON file.

    Attributes:
        provenance: Of the data that were asked about: "released", "reconstruction" or "synthetic".
        prompts: Whose words asked: "ours", or which official ones.
        unofficial_split: By what a benchmark for evaluation alone was divided to be asked about; "" where it was not.
        unofficial_training: Every set for evaluation alone that the model learnt from, as `unofficial_sets` says it.
    """

    provenance: str
    prompts: str
    unofficial_split: str = ""
    unofficial_training: str = ""

    def facts(self) -> dict[str, str]:
        """Returns the fields by name, for a JSON file; those that say nothing are left out."""
        return {name: text for name, text in asdict(self).items() if text}

    def banners(self) -> tuple[tuple[str, str], ...]:
        """Returns name and meaning of all that makes the numbers other than a benchmark's own; most serious first."""
        found = []
        if self.unofficial_split:
            meaning = (
                f"The benchmark is for evaluation alone; here it was divided by {self.unofficial_split} so that it can "
                "train. The numbers are about a part of it, and are not comparable with published ones."
            )
            found.append(("Unofficial split", meaning))
        if self.unofficial_training:
            meaning = (
                f"The model learnt from what is for evaluation alone, divided for that: {self.unofficial_training}. It "
                "must not be ranked on that benchmark."
            )
            found.append(("Trained on an evaluation set", meaning))
        return (*found, *([_MEANING[self.provenance]] if self.provenance in _MEANING else []))

    def notes(self) -> tuple[str, ...]:
        """Returns the same in short lines of plain text, for tables."""
        found = [f"Data: {self.provenance}. Prompts: {self.prompts}."]
        if learnt := self.training_note():
            found.insert(0, learnt)
        if self.unofficial_split:
            found.insert(0, f"Unofficial split by {self.unofficial_split}: not comparable with published numbers.")
        return tuple(found)

    def training_note(self) -> str:
        """Returns the line about what the model learnt of evaluation sets; "" where it learnt none."""
        learnt = self.unofficial_training
        return f"Trained on sets for evaluation alone: {learnt}." if learnt else ""


LABEL_FIELDS = tuple(field.name for field in fields(DataLabel))


def label_of(manifest: Manifest, *, prompts: str, unofficial_training: str = "") -> DataLabel:
    """Returns the label of numbers about a prepared folder."""
    return DataLabel(manifest.provenance, prompts, manifest.unofficial_split or "", unofficial_training)


def recorded_label(facts: Mapping[str, object]) -> DataLabel:
    """Returns the label that `facts` wrote into a JSON file; a file of another tool says nothing."""
    provenance, prompts, *divided = (str(facts.get(name) or "") for name in LABEL_FIELDS)
    return DataLabel(provenance or UNKNOWN, prompts or NOT_RECORDED, *divided)


def unofficial_sets(learnt: Iterable[Manifest], *, before: Iterable[str] = ()) -> str:
    """Returns the sets for evaluation alone among those learnt, e.g. "my_films by patient"; "" where there is none.

    Args:
        learnt: Manifests of the prepared folders.
        before: What the weights that training starts from had learnt, each in the form of the result.
    """
    found = [each for said in before if said for each in said.split(_BETWEEN)]
    found += [f"{each.benchmark} by {each.unofficial_split}" for each in learnt if each.unofficial_split]
    return _BETWEEN.join(dict.fromkeys(found))
