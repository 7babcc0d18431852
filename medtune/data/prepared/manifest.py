"""Writes and reads manifest.json, which describes a prepared folder, and names all files of the folder."""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from functools import cache
from pathlib import Path

from pydantic import TypeAdapter, ValidationError

from medtune.data.catalog import nearest
from medtune.data.files import file_digest, json_file, text_fields
from medtune.data.prepared.lookalikes import Lookalikes
from medtune.data.prepared.origins import ORIGINS
from medtune.data.prepared.splits import Fractions
from medtune.data.raw.rejects import REJECTS
from medtune.data.types import Provenance, Split, UnofficialSplit

FORMAT_VERSION = 10
MANIFEST = "manifest.json"
QUESTIONS = "questions.arrow"
MEDIA = "media.arrow"
MEDIA_FOLDER = "media"
PROMPTS = "prompts.json"
CACHE_FOLDER = "cache"
ENTRIES = frozenset({MANIFEST, QUESTIONS, MEDIA, MEDIA_FOLDER, REJECTS, PROMPTS, ORIGINS, CACHE_FOLDER})
AGAIN = "Run `medtune prepare` again."
_TABLES = "tables"
_SEALED = (QUESTIONS, MEDIA, ORIGINS)
_ABSENT = "-"


@dataclass(frozen=True, slots=True)
class Manifest:
    """The description that a prepared folder carries in manifest.json."""

    format_version: int
    medtune_version: str
    benchmark: str
    source: str
    title: str  # The source's name for people.
    provenance: Provenance  # Released, the user's own, reconstructed or simulated.
    licence: str
    url: str  # Where the raw files can be found.
    patient_unit: str  # What stands for a patient, in the source's words.
    stands_for_patient: str  # The same as a noun: "patient" if the files say whose images they are, else e.g. "image".
    seed: int  # The seed that decided the splits and the order of options.
    limit: int | None  # The highest number of patients that was taken; None for all.
    fractions: Fractions  # The shares of train, val and test.
    own_splits: tuple[Split, ...]  # The splits that the source brings; the others were drawn.
    counts: Mapping[Split, Mapping[str, int]]
    num_patients: Mapping[Split, int]
    num_media: int  # The number of media items, each counted once for each set of items that are shown together.
    identical_media: int  # The number of files whose content another file has too; their patients share a split.
    lookalikes: Lookalikes  # What was found out about images that look alike.
    notes: tuple[str, ...]  # What the source left out on purpose.
    # "ours", or the name of the official prompts in prompts.json and the scenarios that they leave to our wording;
    # every run on this folder uses them.
    prompts: str
    without_media: bool  # Whether the folder holds questions alone, which can be scored but not shown to a model.
    # How a set was divided that is meant for evaluation only, or whose own split was not kept; None where nothing was
    # divided against the release.
    unofficial_split: UnofficialSplit | None
    # The number of test questions about a "patient", an "image" or a "look-alike" (or what else stands for a patient)
    # that another split holds too, or whose text train holds too (`Source.text_unit`, e.g. "report"), by kind, where a
    # split of the data was kept although it shares them; empty where splits share nothing.
    split_leaks: Mapping[str, int]
    # The number of questions that could not be taken, by kind; rejects.jsonl lists them one by one.
    rejected: Mapping[str, int]
    data_hash: str  # The SHA-256 over all rows, the same for two users with the same files.

    @property
    def warnings(self) -> tuple[str, ...]:
        """Returns the notes that begin with a mark in capitals, of what a user should see before a run."""
        return tuple(note for note in self.notes if note.partition(":")[0].isupper())

    @property
    def leaks(self) -> str:
        """Says how many test questions are about what another split holds too; "" if splits share nothing.

        Where an image stands for a patient, its number is stated once.
        """
        total = sum(self.counts["test"].values())
        told = dict(self.split_leaks)
        if self.stands_for_patient != "patient" and told.get("image") == told.get("patient"):
            told.pop("patient", None)
        found = (f"{count} about a shared {what}" for what, count in told.items())
        return f"of {total} test questions {', '.join(found)}" if told else ""


def table_digests(folder: Path) -> str:
    """Returns the beginnings of the SHA-256 of the bytes of `_SEALED`, hex; 400,000 questions take 0.3 s."""
    paths = (folder / name for name in _SEALED)
    return " ".join(file_digest(path)[:16] if path.is_file() else _ABSENT for path in paths)


def write_manifest(folder: Path, manifest: Manifest) -> None:
    """Writes manifest.json behind the tables, whose digests it holds, and no time and no path.

    Two runs write the same bytes.
    """
    text = json.dumps({**asdict(manifest), _TABLES: table_digests(folder)}, indent=2, ensure_ascii=False)
    (folder / MANIFEST).write_text(text + "\n", encoding="utf-8")


def near_folder(missing: Path) -> str:
    """Returns the end of a sentence: where a missing folder was looked for, and which one beside it may be meant."""
    beside = [each.name for each in missing.parent.iterdir() if each.is_dir()] if missing.parent.is_dir() else []
    seen_from = "" if missing.is_absolute() else f" below {Path.cwd()}, where paths begin"
    return f"{seen_from}.{nearest(missing.name, beside)}"


def read_manifest(folder: Path) -> Manifest:
    """Returns the manifest of a prepared folder whose tables hold the bytes that were written with it."""
    if not folder.is_dir():
        raise FileNotFoundError(
            f"{folder}: there is no such folder{near_folder(folder)} Make it with "
            f"`medtune prepare BENCHMARK --from DIR --out {folder}`."
        )
    path = folder / MANIFEST
    if not path.is_file():
        raise ValueError(
            f"{folder}: this folder was not prepared by medtune (it has no {MANIFEST}). "
            f"Give a prepared one, or make it with `medtune prepare BENCHMARK --from {folder} --out DIR`."
        )
    read = json_file(path, dict, "an object; this manifest is damaged", todo=AGAIN)
    version = read.get("format_version")
    if not isinstance(version, int):
        raise ValueError(f"{path}: this is no manifest of medtune (it states no format_version). {AGAIN}")
    if version != FORMAT_VERSION:
        todo = "Upgrade medtune, or run" if version > FORMAT_VERSION else "Run"
        raise ValueError(
            f"{path}: wanted format {FORMAT_VERSION}, this folder has format {version}, written by medtune "
            f"{read.get('medtune_version')}. {todo} `medtune prepare` again."
        )
    _check_tables(folder, read.pop(_TABLES, None))
    names = {field.name for field in fields(Manifest)}
    if set(read) != names:
        wrong = ", ".join(sorted(names ^ set(read)))
        raise ValueError(f"{path}: these entries are missing or unknown: {wrong}. {AGAIN}")
    try:
        manifest: Manifest = _typed().validate_python(read)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        field = ".".join(map(str, first["loc"]))
        raise ValueError(
            f"{path}: this manifest is damaged ({field}: {first['msg']}, got {first['input']!r:.60}). {AGAIN}"
        ) from error
    return manifest


def _check_tables(folder: Path, digests: object) -> None:
    # Folders that were prepared before these digests have none, or those of the first two alone.
    if digests is None or str(digests) == (now := table_digests(folder)):
        return
    for name, before, found in zip(_SEALED, str(digests).split(), now.split(), strict=False):
        if before != found:
            raise ValueError(
                f"{folder / name}: this table is not as it was prepared: damaged, changed, missing, or from another "
                "folder. Copy the folder again as a whole, or run `medtune prepare` again."
            )


@cache
def _typed() -> TypeAdapter[Manifest]:
    return TypeAdapter(Manifest)


def write_prompts(folder: Path, templates: Mapping[str, str]) -> None:
    """Writes prompts.json, which holds the official templates by scenario, verbatim."""
    text = json.dumps(dict(sorted(templates.items())), indent=1, ensure_ascii=False)
    (folder / PROMPTS).write_text(text + "\n", encoding="utf-8")


def read_prompts(folder: Path) -> Mapping[str, str] | None:
    """Returns the official templates of a prepared folder by scenario; None where it has none."""
    path = folder / PROMPTS
    if not path.is_file():
        return None
    return text_fields(path, json_file(path, dict, "an object of texts", todo=AGAIN), todo=AGAIN)
