"""`medtune.load`: a prepared folder as an object, and its questions with the media that they are about."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import overload

import PIL.Image

from medtune.benchmarks import OWN_QUESTIONS
from medtune.data.catalog import nearest
from medtune.data.media.load import pictures_of
from medtune.data.prepared.read import Prepared, open_prepared
from medtune.data.types import SPLITS, MediaGroup, MediaRef, Question, Split
from medtune.eval.data_label import label_of


@dataclass(frozen=True, repr=False)
class Dataset:
    """A prepared folder. Its questions are read when they are first asked for, its media when they are shown.

    Attributes:
        prepared: The open prepared folder, with its manifest.
    """

    prepared: Prepared

    @property
    def folder(self) -> Path:
        """The folder."""
        return self.prepared.root

    @property
    def benchmark(self) -> str:
        """The name of the benchmark that the folder was prepared for."""
        return self.prepared.manifest.benchmark

    @property
    def notes(self) -> tuple[str, ...]:
        """What a reader of any score on these data has to know, and what `prepare` left out, as sentences."""
        manifest = self.prepared.manifest
        return (*label_of(manifest, prompts=manifest.prompts).notes(), *manifest.notes)

    @cached_property
    def train(self) -> Questions:
        """The questions to learn from."""
        return self._of("train")

    @cached_property
    def val(self) -> Questions:
        """The questions for validations during training."""
        return self._of("val")

    @cached_property
    def test(self) -> Questions:
        """The questions that results are measured on."""
        return self._of("test")

    def _of(self, split: Split) -> Questions:
        return Questions(self.prepared, split, self.prepared.questions(split))

    def __repr__(self) -> str:
        counts = ", ".join(f"{split} {self.prepared.num_questions(split)}" for split in SPLITS)
        return "\n".join((f"{self.folder}: questions of {self.benchmark!r} ({counts})", *self.notes))


def load(folder: str | Path) -> Dataset:
    """Returns the questions and media of a folder that `medtune prepare` wrote.

    Raises:
        FileNotFoundError: The folder, or a media file in it, is missing.
        ValueError: It is no prepared folder, has another format, or is damaged; or it is a file, e.g. a table.
    """
    path = Path(folder).expanduser()
    if path.is_file():
        raise ValueError(
            f"{path} is a file; medtune.load reads a prepared folder. Make one with "
            f"`medtune prepare {OWN_QUESTIONS} --from {path} --out FOLDER`, then load FOLDER"
        )
    return Dataset(open_prepared(path))


@dataclass(frozen=True, repr=False)
class Questions(Sequence[Question]):
    """Questions of one split of a prepared folder, in the folder's order; a slice of them is of this type too.

    Attributes:
        prepared: The open prepared folder.
        split: The split that the questions are from.
        chosen: The questions.
    """

    prepared: Prepared
    split: Split
    chosen: tuple[Question, ...]

    @property
    def benchmark(self) -> str:
        """The name of the benchmark that the folder was prepared for."""
        return self.prepared.manifest.benchmark

    def __len__(self) -> int:
        return len(self.chosen)

    @overload
    def __getitem__(self, place: int) -> Question: ...

    @overload
    def __getitem__(self, place: slice) -> Questions: ...

    def __getitem__(self, place: int | slice) -> Question | Questions:
        if isinstance(place, slice):
            return replace(self, chosen=self.chosen[place])
        return self.chosen[place]

    def __iter__(self) -> Iterator[Question]:
        return iter(self.chosen)

    def __repr__(self) -> str:
        patients = len({question.patient_id for question in self.chosen})
        unit = self.prepared.manifest.stands_for_patient
        return (
            f"{len(self)} questions of {self.benchmark!r}, split {self.split!r}: {len(self._groups)} media groups, "
            f"{patients} patients{'' if unit == 'patient' else f' (one {unit} stands for one)'}"
        )

    def where(self, **facets: str) -> Questions:
        """Returns the questions whose facets have these values, e.g. `where(task="diagnosis")`.

        Raises:
            ValueError: No question has them; the message names the values that there are.
        """
        found = tuple(q for q in self.chosen if all(q.facets.get(name) == value for name, value in facets.items()))
        if not found:
            said = " and ".join(f"{name}={value!r}" for name, value in facets.items())
            raise ValueError(f"no question has {said}.{self._levels(facets)}")
        return replace(self, chosen=found)

    def paths(self, question: Question) -> tuple[Path, ...]:
        """Returns the files of the images, videos or volumes that a question is about.

        Raises:
            ValueError: The question is not one of these.
        """
        return tuple(ref.path for ref in self.media(question))

    def images(self, question: Question) -> tuple[PIL.Image.Image, ...]:
        """Returns the images that a question is about, decoded, with its boxes drawn; of a video some frames.

        Raises:
            FileNotFoundError: A file is missing.
            ValueError: The question is not one of these, a file cannot be decoded, or it is a volume.
        """
        return tuple(picture for ref in self.media(question) for picture in pictures_of(ref))

    def media(self, question: Question) -> tuple[MediaRef, ...]:
        """Returns the references of the media that a question is about.

        Raises:
            ValueError: The question is not one of these.
        """
        if question.media_id not in self._groups:
            raise ValueError(f"the question {question.id!r} is not one of these {len(self)} questions")
        return self._groups[question.media_id].media

    def groups(self) -> tuple[MediaGroup, ...]:
        """Returns the media of these questions, each with those of its questions that are among them.

        Raises:
            ValueError: The folder was prepared without media.
        """
        return tuple(self._groups.values())

    @cached_property
    def _groups(self) -> dict[str, MediaGroup]:
        kept = {question.id for question in self.chosen}
        found = {}
        for group in self.prepared.groups(self.split):
            if members := tuple(question for question in group.questions if question.id in kept):
                found[group.media_id] = replace(group, questions=members)
        return found

    def _levels(self, wanted: dict[str, str]) -> str:
        for name, value in wanted.items():
            there = sorted({q.facets[name] for q in self.chosen if name in q.facets})
            if value not in there:
                if not there:
                    facets = sorted({facet for q in self.chosen for facet in q.facets})
                    return f" The facets that there are: {', '.join(facets) or 'none'}."
                return f"{nearest(value, there)} The values of {name} that there are: {', '.join(there[:20])}."
        return ""
