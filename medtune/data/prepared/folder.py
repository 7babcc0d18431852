"""Prepared folders: `prepare` makes one from raw files, `open_prepared` reads it without delay."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import pyarrow as pa

import medtune
from medtune.data.media.organ_masks import masks_of
from medtune.data.prepared import content_ids, file_format, question_origins, question_rows, rejects, splits
from medtune.data.prepared.atomic_folder import check_replaceable, new_folder
from medtune.data.prepared.copy_media import store_media
from medtune.data.prepared.file_format import Manifest
from medtune.data.prepared.near_duplicates import near_duplicates
from medtune.data.prepared.splits import DEFAULT_FRACTIONS, Fractions
from medtune.data.raw.source import Source
from medtune.data.types import SPLITS, MediaGroup, MediaKind, MediaRef, Question, Split, UnofficialSplit

# Media ids are hexadecimal.
_OF = ":"


@dataclass(frozen=True, slots=True)
class Prepared:
    """A prepared folder; rows become Questions only when they are asked for.

    Attributes:
        by_organ: Whether questions about several organs of a volume are several groups, each with its target. The
            organ is then part of the media id.
    """

    root: Path
    manifest: Manifest
    _questions: pa.Table = field(repr=False)
    _media: Mapping[str, MediaRef] = field(repr=False)
    by_organ: bool = False

    @property
    def data_hash(self) -> str:
        """SHA-256 over all rows: what a run logs to say which data it saw."""
        return self.manifest.data_hash

    @property
    def kinds(self) -> frozenset[MediaKind]:
        """What kinds of media it holds."""
        return frozenset(ref.kind for ref in self._media.values())

    @property
    def templates(self) -> Mapping[str, str] | None:
        """The official prompts by scenario that it was prepared with; None for our wording."""
        return file_format.read_prompts(self.root)

    @property
    def organs(self) -> frozenset[str]:
        """Of which organs any of its volumes has a mask."""
        return frozenset(organ for ref in self._media.values() for organ, _ in ref.masks)

    @property
    def cache_folder(self) -> Path:
        """Where media are kept as models read them; made when it is needed, and gone when the folder is made anew."""
        return self.root / file_format.CACHE_FOLDER

    def num_questions(self, split: Split) -> int:
        """Returns how many questions a split has."""
        return sum(self.manifest.counts[split].values())

    def questions(self, split: Split) -> tuple[Question, ...]:
        """Returns all questions of a split, in the folder's order; about 5 seconds for 400 000."""
        start = sum(self.num_questions(earlier) for earlier in SPLITS[: SPLITS.index(split)])
        found = file_format.read_questions(self._questions.slice(start, self.num_questions(split)))
        return tuple(map(self._about_organ, found)) if self.by_organ else tuple(found)

    def groups(self, split: Split) -> tuple[MediaGroup, ...]:
        """Returns the media items of a split, each with all its questions, in the folder's order."""
        found: dict[str, list[Question]] = {}
        for question in self.questions(split):
            found.setdefault(question.media_id, []).append(question)
        return tuple(MediaGroup(media_id, self._ref(media_id), tuple(members)) for media_id, members in found.items())

    def _about_organ(self, question: Question) -> Question:
        organ = question.facets.get("organ", "")
        has_mask = masks_of(organ, (name for name, _ in self._media[question.media_id].masks))
        return replace(question, media_id=f"{question.media_id}{_OF}{organ}") if has_mask else question

    def _ref(self, media_id: str) -> MediaRef:
        if not self.by_organ:
            return self._media[media_id]
        whole, _, organ = media_id.partition(_OF)
        ref = self._media[whole]
        return replace(ref, target=masks_of(organ, (name for name, _ in ref.masks)))


@dataclass(frozen=True, slots=True)
class Prompts:
    """Official prompts to keep in a prepared folder.

    Attributes:
        name: How outputs name them.
        templates: By scenario, verbatim.
        notes: Which questions they cannot ask, and why.
    """

    name: str
    templates: Mapping[str, str]
    notes: tuple[str, ...] = ()


def open_prepared(root: Path) -> Prepared:
    """Opens a prepared folder; tables are mapped into memory, media stay on disk.

    Raises:
        FileNotFoundError: The folder, or a media file in it, is missing.
        ValueError: It is no prepared folder, was written in another format, or is damaged.
    """
    manifest = file_format.read_manifest(root)
    questions = file_format.map_table(root / file_format.QUESTIONS)
    num_stated = sum(sum(tasks.values()) for tasks in manifest.counts.values())
    if questions.num_rows != num_stated:
        raise ValueError(
            f"{root}: the manifest states {num_stated} questions, the table has {questions.num_rows}. "
            f"{file_format.AGAIN}"
        )
    media_folder = root / file_format.MEDIA_FOLDER
    there = set(os.listdir(media_folder)) if media_folder.is_dir() else set()
    media = list(file_format.read_media(file_format.map_table(root / file_format.MEDIA)))
    missing = sorted({file for item in media for file in item.files} - there)
    if missing:
        raise FileNotFoundError(
            f"{media_folder}: {len(missing)} media files are missing, the first is {missing[0]}. "
            f"Copy the folder again as a whole, or run `medtune prepare` again."
        )
    refs = {item.media_id: item.ref(media_folder) for item in media}
    return Prepared(root, manifest, questions, refs)


def prepare(
    source: Source,
    *,
    benchmark: str,
    root: Path | None,
    out: Path,
    seed: int = 0,
    limit: int | None = None,
    fractions: Fractions = DEFAULT_FRACTIONS,
    max_rejected: float = rejects.MAX_REJECTED,
    unofficial_split: UnofficialSplit | None = None,
    prompts: Callable[[Sequence[Question]], Prompts] | None = None,
) -> Prepared:
    """Reads a source, stores each media file once, assigns splits, and writes the prepared folder `out` as a whole.

    A folder that medtune prepared is replaced. The same files, seed and limit give the same bytes for one user, and the
    same data_hash for all. `root` is None for a simulation. `limit` takes at most so many patients, chosen by seed
    so that every task's answers stay present. Questions that cannot be read, or whose media cannot, are left out,
    counted in the manifest and listed in rejects.jsonl; where they are too many, they are listed beside `out`. A source
    for evaluation alone is all test; `unofficial_split` divides it by patient instead, and the manifest says so.
    `prompts` chooses the official prompts of the questions taken; None is our wording.

    Raises:
        FileNotFoundError: `root` or a file of it is missing.
        ValueError: The source cannot be read, more than the share `max_rejected` of its questions is rejected, the
            splits would leak, or `out` holds something else.
        OSError: The disk is full, or cannot be written; nothing is left behind.
    """
    splits.check_fractions(fractions)
    _check_folders(source, root, out)
    if unofficial_split is not None and not source.test_only:
        raise ValueError(f"the source {source.name!r} is not for evaluation alone: leave --unofficial-split out.")
    if source.test_only and unofficial_split is None:
        fractions = splits.TEST_ONLY
    keep = out.with_name(f"{out.name}.{rejects.REJECTS}")
    with new_folder(out) as draft:
        scratch = draft / "scratch"
        scratch.mkdir()
        table = source.read(root, seed, scratch)
        rejects.check_share(table.rejects, num_taken=len(table.questions), max_share=max_rejected, keep=keep)
        table = question_rows.limited(question_rows.checked(source.name, table), limit, seed)
        media_folder = draft / file_format.MEDIA_FOLDER
        media_folder.mkdir()
        stored, broken = store_media(table.media, media_folder)
        shutil.rmtree(scratch)
        table, lost = question_rows.without(table, broken)
        rejected = (*table.rejects, *lost)
        # Rows that could not be read are a share of the whole table, which a limit has cut.
        in_share = rejected if limit is None else lost
        rejects.check_share(in_share, num_taken=len(table.questions), max_share=max_rejected, keep=keep)
        ids = content_ids.media_ids(table.media, stored)
        files = {ids[media_id]: stored[ref.path] for media_id, ref in table.media.items()}
        digests = {media_id: file.digest for media_id, file in files.items()}
        media = [content_ids.row(ids[name], ref, stored) for name, ref in table.media.items()]
        notes, identical = table.notes, len({ref.path for ref in table.media.values()})
        questions: Sequence[Question] = content_ids.renamed(
            table.questions, ids, question_rows.hashes(table.questions, source.name)
        )
        question_origins.write_origins(draft, source.name, [question.id for question in table.questions], questions)
        # Each list of 800,000 questions is a third of a gigabyte: none outlives the next.
        del table
        questions, carved = splits.carve_val(questions, digests, seed=seed, fractions=fractions)
        questions = splits.assign_splits(questions, digests, seed=seed, fractions=fractions)
        splits.check_splits(questions, digests)
        questions = question_rows.ordered(questions, list(files))
        worded = prompts(questions) if prompts else None
        split_of = {digests[question.media_id]: question.split for question in questions if question.split}
        manifest = Manifest(
            format_version=file_format.FORMAT_VERSION,
            medtune_version=medtune.__version__,
            benchmark=benchmark,
            source=source.name,
            title=source.title,
            provenance=source.provenance,
            licence=source.licence,
            url=source.url,
            patient_unit=source.patient_unit,
            seed=seed,
            limit=limit,
            fractions=fractions,
            counts=question_rows.counts(questions),
            num_patients=question_rows.num_patients(questions),
            num_media=len(media),
            identical_media=identical - len(split_of),
            near_duplicates=near_duplicates(
                {file.digest: file.look for file in files.values() if file.look is not None}, split_of
            ),
            notes=(*notes, *carved, *(worded.notes if worded else ())),
            prompts=worded.name if worded else "ours",
            unofficial_split=unofficial_split,
            rejected=rejects.counts(rejected),
            data_hash=file_format.data_hash(questions, media),
        )
        file_format.write_tables(draft, questions, media)
        file_format.write_manifest(draft, manifest)
        if worded:
            file_format.write_prompts(draft, worded.templates)
        if rejected:
            rejects.write_rejects(draft / rejects.REJECTS, rejected)
    return open_prepared(out)


def _check_folders(source: Source, root: Path | None, out: Path) -> None:
    if source.provenance != "synthetic" and root is None:
        raise ValueError(f"the source {source.name!r} reads files: give their folder with --from DIR ({source.url}).")
    if root is not None:
        if not root.is_dir():
            raise FileNotFoundError(f"{root}: there is no such folder to read {source.name!r} from. Check --from.")
        if out.resolve().is_relative_to(root.resolve()):
            raise ValueError(f"{out}: the prepared folder must not lie in the raw one, {root}. Choose another --out.")
    check_replaceable(out)
