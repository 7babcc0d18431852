"""Takes what a source holds into a work folder: its questions, and copies of its media."""

import shutil
import traceback
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

from medtune.data.media.dicom import says_burned_in
from medtune.data.media.images import holds_others
from medtune.data.media.videos.container import VIDEO_SUFFIXES, hides_damage
from medtune.data.prepared import question_rows
from medtune.data.prepared.copy_media import CopiedFile, copy_media
from medtune.data.prepared.work.work_folder import WorkFolder, check_replaceable
from medtune.data.raw.rejects import check_rejected_share, write_rejects
from medtune.data.raw.source import HubId, Reject, Source, SourceTable

Origin = Path | HubId | None
"""Where raw data are: a folder or file, a data set of the hub, or nowhere in the case of a simulation."""

_BURNED_IN = (
    "files say that text is burned into their pixels (BurnedInAnnotation YES), which may name a patient: look at them "
    "before a run, whose report and server are shown them, and cover the text or leave them out"
)
_UNCHECKED = (
    "films are of H.265 without hashes of their pictures: where such a file is damaged inside, its decoder shows wrong "
    "pictures and says nothing. Hold the files against the archive's, or export them as H.264"
)
_NOT_IN_HU = (
    "volumes have no value of -80 or less, as the fat and air of a CT have: they are an MRI, or a CT without its "
    "rescale intercept. Models of CTs take their values for Hounsfield units; export the CT again, or ask about slices "
    "as images"
)


def read_source(source: Source, root: Origin, seed: int, scratch: Path, *, without_media: bool = False) -> SourceTable:
    """Returns the table that a source reads from a folder, a file or a hub data set; None is for a simulation."""
    if isinstance(root, HubId):
        if source.read_hub is None:
            raise ValueError(f"{root}: the source {source.name!r} reads files: give their folder with --from DIR.")
        return source.read_hub(root, seed, scratch)
    read = source.read_questions if without_media and source.read_questions else source.read
    try:
        return read(root, seed, scratch)
    except (ArithmeticError, AttributeError, LookupError, NameError, TypeError, UnicodeError) as error:
        # A source of somebody's own may raise anything, and "missing 1 argument" does not say whose mistake it is.
        # The last line of its own file is named, not one of a decoder.
        frames = traceback.extract_tb(error.__traceback__)
        last = [frame for frame in frames if frame.filename == frames[:2][-1].filename][-1]
        raise ValueError(
            f"{last.filename}, line {last.lineno}: the source {source.name!r} cannot read {root or 'its settings'}: "
            f"{type(error).__name__}: {error}"
        ) from error


def check_folders(source: Source, root: Origin, out: Path) -> None:
    """Checks that there is something to read and that `out` may be written."""
    if source.provenance != "synthetic" and root is None:
        raise ValueError(f"the source {source.name!r} reads files: give their folder with --from DIR ({source.url}).")
    if isinstance(root, Path):
        if not root.exists():
            raise FileNotFoundError(f"{root}: there is no such folder to read {source.name!r} from. Check --from.")
        if out.resolve().is_relative_to(root.resolve()):
            raise ValueError(f"{out}: the prepared folder must not lie in the raw one, {root}. Choose another --out.")
    check_replaceable(out)


class Taken(NamedTuple):
    """A source's questions whose media were copied, the copied files by the source's paths, and what was rejected."""

    table: SourceTable
    copied: Mapping[Path, CopiedFile]
    rejected: tuple[Reject, ...]


def take(
    source: Source,
    root: Origin,
    work: WorkFolder,
    *,
    seed: int,
    limit: int | None,
    max_share: float,
    keep: Path,
    cells: Path | None,
    without_media: bool,
) -> Taken:
    """Reads the source and copies its media into the draft folder; questions with broken media are rejected.

    `without_media` leaves the media where they are, or missing.
    """
    table = read_source(source, root, seed, work.scratch, without_media=without_media)
    if cells is not None:
        write_rejects(cells, table.rejects, root, for_the_user=True)
    check_rejected_share(table.rejects, root, num_taken=len(table.questions), max_share=max_share, keep=keep)
    table = _with_made_questions(
        source, question_rows.limit_patients(question_rows.check_table(source.name, table), limit, seed), work
    )
    check_rejected_share(table.rejects, root, num_taken=len(table.questions), max_share=max_share, keep=keep)
    if without_media:
        return Taken(table, {}, table.rejects)
    copied, broken = copy_media(table.media, work.media, draws=table.draws, work=work.copy)
    table = replace(table, notes=(*table.notes, *_notes_on_media(copied)))
    if source.provenance == "synthetic":
        # A simulation draws many patients from few shapes and knows them all: what looks alike is not one patient.
        copied = {path: _without_look(file) for path, file in copied.items()}
    shutil.rmtree(work.scratch)
    table, lost = question_rows.without_media(table, broken)
    rejected = (*table.rejects, *lost)
    # Rows that could not be read are a share of the whole table, which a limit has cut.
    if cells is not None:
        write_rejects(cells, rejected, root, for_the_user=True)
    counted = rejected if limit is None else lost
    check_rejected_share(counted, root, num_taken=len(table.questions), max_share=max_share, keep=keep)
    return Taken(table, copied, rejected)


def _notes_on_media(copied: Mapping[Path, CopiedFile]) -> Iterator[str]:
    if found := sum(path.is_file() and holds_others(path) for path, file in copied.items() if file.size is not None):
        yield f"files with several pictures (MPO, as phones write them): {found}; the first picture of each was taken"
    if found := sum(path.exists() and says_burned_in(path) for path in copied):
        yield f"TEXT IN THE PICTURES: {found} of {len(copied)} {_BURNED_IN}"
    if found := sum(file.content is not None and not file.content.is_in_hu for file in copied.values()):
        yield f"NO HOUNSFIELD UNITS: {found} {_NOT_IN_HU}"
    if found := sum(path.suffix.lower() in VIDEO_SUFFIXES and hides_damage(path) for path in copied if path.is_file()):
        yield f"DAMAGE WOULD NOT SHOW: {found} {_UNCHECKED}"


def _with_made_questions(source: Source, table: SourceTable, work: WorkFolder) -> SourceTable:
    """Returns the table with the questions that are made of its media, where a source makes them so."""
    if table.ask is None:
        return table
    found = work.find({media_id: table.findings[media_id] for media_id in table.media})
    return question_rows.check_table(source.name, table.ask(table, found))


def _without_look(file: CopiedFile) -> CopiedFile:
    content = file.content._replace(pictures=()) if file.content else None
    return replace(file, look=None, content=content)
