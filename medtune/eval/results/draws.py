"""The file draws.json: what a training drew to the same few questions as it went on."""

from dataclasses import dataclass
from pathlib import Path

from pydantic import with_config

from medtune.eval.results.schema import DOCUMENT
from medtune.eval.results.typed_json import read_json, write_document

DRAWS = "draws.json"


@with_config(DOCUMENT)
@dataclass(frozen=True, slots=True)
class ShownDraw:
    """A reply that was drawn to be looked at."""

    step: int  # The optimizer steps of the run before it.
    question_id: str
    question: str
    answer: str  # The right answer.
    reply: str
    read: str | None  # What was read from the reply; None if nothing was.
    score: float  # The benchmark's own score of the reply.
    paid: float  # The sum of all rewards, each by its weight.


@with_config(DOCUMENT)
@dataclass(frozen=True, slots=True)
class DrawsFile:
    draws: tuple[ShownDraw, ...]


def read_draws(folder: Path) -> tuple[ShownDraw, ...]:
    """Returns the draws that a run folder shows; none where it has no file of them."""
    path = folder / DRAWS
    return read_json(path, DrawsFile).draws if path.is_file() else ()


def write_draws(folder: Path, draws: tuple[ShownDraw, ...]) -> None:
    write_document(folder / DRAWS, DrawsFile(draws))
