"""The contract of a source: its example is prepared twice with the same result, and without any patient's name."""

import json
import re
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from medtune.benchmarks import find_source
from medtune.data import catalog
from medtune.data.prepared.read import Prepared
from medtune.data.prepared.write import prepare
from medtune.data.raw.source import Source, SourceTable
from medtune.data.types import SPLITS
from medtune.trainer.contracts.contract import Contract

LIMIT = 12
"""The number of patients that a simulation makes for the check."""
SEED = 3
_LONG = 6
"""The smallest number of characters of a name that is searched for; a shorter one may occur in pixels by chance."""


@dataclass(frozen=True, slots=True)
class Example:
    """A source that is checked, with its example read and prepared.

    Attributes:
        name: The name of the source.
        source: The source itself.
        root: The folder of the raw files.
        table: The questions and media that the source read there.
        prepared: The prepared folder that was made from the same files.
        scratch: A folder for more files, empty at first.
    """

    name: str
    source: Source
    root: Path
    table: SourceTable
    prepared: Prepared
    scratch: Path


@contextmanager
def opened(name: str, *, write_example: Callable[[Path], None] | None = None) -> Iterator[Example]:
    """Gives the source of a name, with its example in temporary folders.

    Args:
        name: The name of the source.
        write_example: Writes the example; None takes the source's own one, or for a simulation its settings.
    """
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        source = find_source(name)
        write, root = write_example or source.write_example, folder / "raw"
        if write is not None:
            write(root)
        elif source.write_settings is not None:
            root.mkdir()
            source.write_settings(root, LIMIT)
        else:
            raise ValueError("Source.write_example is missing; write a function that makes a tiny folder to be read")
        for each in ("read", "more"):
            (folder / each).mkdir()
        table = source.read(root, SEED, folder / "read")
        yield Example(name, source, root, table, _prepared(name, root, folder / "prepared"), folder / "more")


def _prepared(name: str, root: Path, out: Path) -> Prepared:
    return prepare(find_source(name), benchmark="contract", root=root, out=out, seed=SEED, limit=LIMIT)


def it_says_where_it_comes_from(example: Example) -> Iterator[str]:
    """Complains about an empty field that describes the source, and about an invalid address."""
    source = example.source
    for field in ("title", "licence", "patient_unit"):
        if not getattr(source, field):
            yield f"Source.{field} is empty; fill it in"
    if not re.match(r"https?://", source.url):
        yield f"Source.url is {source.url!r}; give an address that begins with https://"
    if source.provenance not in ("released", "reconstruction", "synthetic"):
        yield f"Source.provenance is {source.provenance!r}; it must be released, reconstruction or synthetic"
    if not catalog.find(catalog.SOURCES, example.name).first_line():
        yield "the module has no docstring; open it with a sentence that says what the source reads"


def its_ids_are_unique_and_its_media_listed(example: Example) -> Iterator[str]:
    """Complains about questions with the same id, questions without media, and a source without questions."""
    questions = example.table.questions
    if not questions:
        yield "reading the example gives no question; `write_example` has to write what `read` takes"
    if len({question.id for question in questions}) != len(questions):
        yield "two questions have the same id; ids have to be unique in the table"
    for media_id in sorted({question.media_id for question in questions} - set(example.table.media)):
        yield f"a question is about the media {media_id!r}, which SourceTable.media does not hold"


def its_answers_are_among_the_options_and_its_tasks_are_named(example: Example) -> Iterator[str]:
    """Complains about an answer that is no option, about equal or too few options, and about a missing task."""
    for question in example.table.questions:
        if not question.facets.get("task"):
            yield f"question {question.id}: the facet 'task' is missing; scores are broken down by it"
        if question.answer_kind in ("choice", "yes_no"):
            if question.answer not in question.options:
                yield f"question {question.id}: the answer {question.answer!r} is not among its options"
            if len(set(question.options)) != len(question.options) or len(question.options) < 2:
                yield f"question {question.id}: give at least two options that all differ"


def reading_twice_gives_one_table(example: Example) -> Iterator[str]:
    """Complains if reading the same files with the same seed gives other questions."""
    scratch = example.scratch / "read"
    scratch.mkdir()
    if example.source.read(example.root, SEED, scratch).questions != example.table.questions:
        yield "`read` gives other questions when it is called again; sort the files, and draw with the seed alone"


def reading_the_questions_alone_gives_all_of_them(example: Example) -> Iterator[str]:
    """Complains if `read_questions` leaves out questions that `read` gives, or gives them other answers."""
    if example.source.read_questions is None:
        return
    scratch = example.scratch / "questions"
    scratch.mkdir()
    alone = example.source.read_questions(example.root, SEED, scratch).questions
    if [(q.id, q.text, q.answer) for q in alone] != [(q.id, q.text, q.answer) for q in example.table.questions]:
        yield "`read_questions` gives other questions than `read`; it may differ only where media files are missing"


def its_splits_share_no_patient_and_no_image(example: Example) -> Iterator[str]:
    """Complains about a patient or a media file that occurs in two splits, unless the source keeps the release's leaks.

    Such a source's example has to show them, so that the manifest counts them.
    """
    groups = {split: example.prepared.groups(split) for split in SPLITS}
    if example.source.keeps_leaks:
        if not example.prepared.manifest.split_leaks:
            yield "the source keeps leaks, and the splits of its example share nothing; write an example that does"
        return
    for what in ("patient", "media file"):
        seen: set[str] = set()
        for split in SPLITS:
            here = {
                name
                for group in groups[split]
                for name in ([group.patient_id] if what == "patient" else [ref.path.name for ref in group.media])
            }
            if here & seen:
                yield f"a {what} lies in two splits; check the patient ids that `read` gives"
            seen |= here


def preparing_twice_gives_the_same_bytes(example: Example) -> Iterator[str]:
    """Complains if preparing the same files again gives other bytes."""
    again = _files(_prepared(example.name, example.root, example.scratch / "prepared").root)
    first = _files(example.prepared.root)
    for name in sorted(first.keys() | again.keys()):
        if first.get(name) != again.get(name):
            yield f"the prepared file {name} differs when it is made again; draw with the seed alone"


def no_patient_id_and_no_file_name_gets_through(example: Example) -> Iterator[str]:
    """Complains if a patient's id or the name of a raw file occurs in the prepared folder."""
    prepared = example.prepared
    secrets = {question.patient_id for question in example.table.questions}
    paths = [ref.path for items in example.table.media.values() for ref in items]
    secrets |= {path.name for path in paths} | {path.stem for path in paths}
    asked = [question for split in SPLITS for question in prepared.questions(split)]
    words = {text for question in asked for text in (question.id, question.media_id, question.patient_id)}
    words |= {value for question in asked for value in question.facets.values()}
    words |= set(_strings(json.loads((prepared.root / "manifest.json").read_text("utf-8"))))
    words |= {path.stem for path in prepared.root.rglob("*")}
    for secret in sorted(secrets & words):
        yield f"{secret!r}, a patient's id or the name of a raw file, is in the prepared folder; leave it out of facets"
    long = [secret for secret in secrets if len(secret) >= _LONG]
    for name, content in _files(prepared.root).items():
        if any(holds_name(name.encode() + b"\n" + content, secret) for secret in long):
            yield f"the prepared file {name} holds a patient's id or the name of a raw file"


def holds_name(content: bytes, name: str) -> bool:
    """Returns whether a name stands by itself in a file: "17.png" does not in "8a17.png", which may be a digest."""
    return re.search(rb"(?<![0-9A-Za-z])" + re.escape(name.encode()) + rb"(?![0-9A-Za-z])", content) is not None


def _files(root: Path) -> dict[str, bytes]:
    return {str(path.relative_to(root)): path.read_bytes() for path in sorted(root.rglob("*")) if path.is_file()}


def _strings(value: object) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for part in value.values():
            yield from _strings(part)
    elif isinstance(value, list):
        for part in value:
            yield from _strings(part)


CONTRACT = Contract(
    opened,
    (
        it_says_where_it_comes_from,
        its_ids_are_unique_and_its_media_listed,
        its_answers_are_among_the_options_and_its_tasks_are_named,
        reading_twice_gives_one_table,
        reading_the_questions_alone_gives_all_of_them,
        its_splits_share_no_patient_and_no_image,
        preparing_twice_gives_the_same_bytes,
        no_patient_id_and_no_file_name_gets_through,
    ),
)
