"""`medtune.load`: a prepared folder as an object."""

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from medtune.api.questions import Questions
from medtune.benchmarks import OWN_QUESTIONS
from medtune.data.prepared.read import Prepared, open_prepared
from medtune.data.types import SPLITS, Split
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
