"""A source turns raw files on disk, in their own layout, into questions and media."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from medtune.data.prepared.rejects import Reject
from medtune.data.types import MediaRef, Provenance, Question


@dataclass(frozen=True, slots=True)
class Missing:
    """A media file that questions are about and that the user's folder lacks.

    Attributes:
        file: Where it belongs, relative to the folder.
        fetch: Where it is to be had: a URL, or words.
    """

    file: str
    fetch: str


def missing_media(rejects: Iterable[Reject], folder: Path, *, fetch: str) -> tuple[Missing, ...]:
    """Returns the media files that rejects name and that are not there, each once; `fetch` says where they are from."""
    paths = dict.fromkeys(reject.media for reject in rejects if reject.media is not None and not reject.media.exists())
    return tuple(Missing(str(path.relative_to(folder)), fetch) for path in paths)


@dataclass(frozen=True, slots=True)
class SourceTable:
    """What a source read: questions, and the media that their `media_id` names.

    Ids need only be unique in the table, and patient ids may be the files' own: `prepare` replaces the first by ids
    made from content, the second by keyed hashes.

    Attributes:
        notes: What was left out on purpose and why, with counts and without file names; `prepare` puts them in the
            manifest.
        rejects: Questions that could not be read or have no media, one each: a row that would have given two gives two,
            and an image of which that is unknown counts like the source's average one.
        missing: Media files to fetch, each once.
    """

    questions: Sequence[Question]
    media: Mapping[str, MediaRef]
    notes: tuple[str, ...] = ()
    rejects: tuple[Reject, ...] = ()
    missing: tuple[Missing, ...] = ()


@dataclass(frozen=True, slots=True)
class Source:
    """One source.

    Attributes:
        licence: Of the raw files.
        name: The name of the module that the source lies in; filled in by whoever finds it there.
        patient_unit: What stands for a patient, in words, where the files name none.
        read: (root, seed, scratch) -> table. `root` is the user's folder, None for a simulation; `scratch` is
            an empty folder for images that are files nowhere else: a simulation's, those inside a table or a film.
            Question.split is set only where the files come with a split of their own.
        write_example: Writes a small synthetic tree in the source's own layout, for tests.
        write_settings: (folder, number of patients): writes a simulation's settings into the folder, which `read` then
            takes as its root. None for a source that reads the user's files.
        test_only: The release is for evaluation: everything is test, unless the user asks for a split of their own.
        answer_in: (cells by column, question) -> the true answer in the question's words, as another tool's copy of
            its row states it; None where it states none. None for a source whose rows need no reading.
    """

    title: str
    licence: str
    url: str
    provenance: Provenance
    patient_unit: str
    read: Callable[[Path | None, int, Path], SourceTable]
    write_example: Callable[[Path], None] | None
    write_settings: Callable[[Path, int], None] | None = None
    test_only: bool = False
    answer_in: Callable[[Mapping[str, str], Question], str | None] | None = None
    name: str = ""
