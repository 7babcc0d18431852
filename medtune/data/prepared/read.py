"""Opens a prepared folder and gives its questions and media groups."""

import os
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from medtune.data.grouping import grouped
from medtune.data.media.masks import OF_CONSTRUCTION, TARGETS, masks_of, named_masks
from medtune.data.prepared.lookalikes import TRAIN_TWIN, Look, Lookalike, lookalike_groups, nearest_lookalikes
from medtune.data.prepared.manifest import (
    AGAIN,
    CACHE_FOLDER,
    MANIFEST,
    MEDIA,
    MEDIA_FOLDER,
    QUESTIONS,
    Manifest,
    read_manifest,
    read_prompts,
)
from medtune.data.prepared.question_rows import count_patients, count_questions
from medtune.data.prepared.splits import NONE_ALIKE, assign_folds, draw_missing_splits
from medtune.data.prepared.tables import map_table, read_media, read_questions
from medtune.data.types import FOLD, SPLITS, MediaGroup, MediaKind, MediaRef, Question, Split

# Media ids are hexadecimal.
_OF, _AND = ":", "+"
_AT_ONCE = 10_000


@dataclass(frozen=True, slots=True)
class Prompts:
    """Official prompts that are kept in a prepared folder."""

    name: str  # The name of the prompts in outputs, with the scenarios that are asked in our wording.
    templates: Mapping[str, str]  # The templates by scenario, verbatim.
    notes: tuple[str, ...] = ()  # The reasons why scenarios are asked in our wording.


@dataclass(frozen=True, slots=True)
class Prepared:
    """An open prepared folder; its rows become questions only when they are asked for."""

    root: Path
    manifest: Manifest  # The folder's description of itself.
    _questions: pa.Table = field(repr=False)
    _media: Mapping[str, tuple[MediaRef, ...]] = field(repr=False)
    # The look of each media item that was compared with the others, by the name of its file.
    looks: Mapping[str, Look] = field(repr=False)
    # The digest of what each media file shows once it is decoded, by the name of the file.
    contents: Mapping[str, str] = field(repr=False)
    # Whether the questions about the same organs of a volume form a group of their own, with these organs as its
    # target. The organs are then part of the media id.
    by_organ: bool = False
    # The margin of the crop around its target to which each volume is read; None reads all of it.
    crop_mm: float | None = None
    crop_organs: tuple[str, ...] = TARGETS  # The target of all other volumes that are cropped.
    blind: bool = False  # Whether questions come without their media, for models of text alone.
    _rows: Mapping[Split, Sequence[int]] | None = field(default=None, repr=False)
    _in_folds: bool = False
    _fold_of: Sequence[int] = field(default=(), repr=False)

    @property
    def data_hash(self) -> str:
        """The SHA-256 over all rows, which a run logs to say which data it used."""
        return self.manifest.data_hash

    @property
    def kinds(self) -> frozenset[MediaKind]:
        self._require_media()
        return frozenset(ref.kind for items in self._media.values() for ref in items)

    @property
    def templates(self) -> Mapping[str, str] | None:
        """The official prompts in the folder by scenario; None where questions are asked in our wording."""
        return read_prompts(self.root)

    @property
    def organs(self) -> frozenset[str]:
        """The organs of which there are masks that a model may be shown."""
        return frozenset(organ for items in self._media.values() for ref in items for organ in shown_masks(ref))

    def without_masks(self, organs: Collection[str]) -> list[MediaRef]:
        """Returns the volumes that have a mask of none of some organs."""
        volumes = [ref for items in self._media.values() for ref in items if ref.kind == "volume"]
        return [ref for ref in volumes if not set(shown_masks(ref)) & set(organs)]

    @property
    def cache_folder(self) -> Path:
        """The folder of media in the form that models read, made when needed; preparing the data again removes it."""
        return self.root / CACHE_FOLDER

    @property
    def most_items(self) -> int:
        """The largest number of media items that are shown together."""
        return max(map(len, self._media.values()), default=0)

    @property
    def has_turns(self) -> bool:
        return bool(pc.max(pc.list_value_length(self._questions.column("turns"))).as_py())

    def num_questions(self, split: Split) -> int:
        return sum(self.manifest.counts[split].values())

    def questions(self, split: Split) -> tuple[Question, ...]:
        """Returns all questions of a split in the folder's order; 400,000 of them take about 5 seconds."""
        return tuple(self.each_question(split))

    def each_question(self, split: Split) -> Iterator[Question]:
        """Yields the questions of a split in the folder's order, of which few are in memory at a time."""
        rows = self._rows_of(split)
        tables = (self._table_of(rows[first : first + _AT_ONCE]) for first in range(0, len(rows), _AT_ONCE))
        for row, question in zip(rows, read_questions(tables), strict=True):
            asked = self._in_fold(question, split, row) if self._in_folds else question
            yield self._about_organ(asked) if self.by_organ else asked

    def _table_of(self, rows: Sequence[int]) -> pa.Table:
        if isinstance(rows, range):
            return self._questions.slice(rows.start, len(rows))
        return self._questions.take(rows)

    def _rows_of(self, split: Split) -> Sequence[int]:
        if self._rows is not None:
            return self._rows[split]
        start = sum(self.num_questions(earlier) for earlier in SPLITS[: SPLITS.index(split)])
        return range(start, start + self.num_questions(split))

    def asking(self, split: Split, only: Mapping[str, Sequence[str]], *, named_by: str) -> "Prepared":
        """Returns the folder with only those questions of a split whose facets have one of the named values each.

        Args:
            only: The values by facet; without any, the folder itself is returned.
            named_by: The field that names them, for a message.
        """
        if not only:
            return self
        rows: dict[Split, Sequence[int]] = {each: self._rows_of(each) for each in SPLITS}
        whole = replace(self, by_organ=False)
        asked = list(zip(rows[split], whole.each_question(split), strict=True))
        kept = [(row, question) for row, question in asked if has_facets(question, only)]
        if not kept:
            wanted = " and ".join(f"{facet} {' or '.join(values)}" for facet, values in only.items())
            known = known_facets(question for _, question in asked)
            raise ValueError(f"{self.root}: {named_by}: no question of the split {split!r} has {wanted}; {known}")
        rows[split] = [row for row, _ in kept]
        questions = [question for _, question in kept]
        made = replace(
            self.manifest,
            counts={**self.manifest.counts, split: count_questions(questions)[split]},
            num_patients={**self.manifest.num_patients, split: count_patients(questions)[split]},
        )
        return replace(self, manifest=made, _rows=rows)

    def in_folds(self, folds: int | None, fold: int | None = None) -> "Prepared":
        """Returns the folder divided for a cross-validation by patient; without `folds`, the folder itself.

        With `fold`, from 1, that fold is the test split, and the others are train and val. Without it, all folds are
        the test split, and the facet `FOLD` of each question says in which it is. A test split that the source brings
        takes no part. The same folder gives the same folds.
        """
        if folds is None:
            return self
        made = self.manifest
        if made.stands_for_patient != "patient":
            raise ValueError(
                f"{self.root}: folds are made of patients, and these data do not say whose the "
                f"{made.stands_for_patient}s are, so that one person could be in two folds. A table of your own is "
                "prepared with a column of patients, or with --patient where names of files tell them"
            )
        pool = SPLITS[:2] if "test" in made.own_splits else SPLITS
        whole = replace(self, by_organ=False, crop_mm=None, blind=False)
        questions = [question for split in pool for question in whole.questions(split)]
        if not questions or not made.fractions.train:
            raise ValueError(
                f"{self.root}: all questions are in a test split, from which no run may learn; there are no folds"
            )
        shown = {group.media_id: group.media for split in pool for group in whole.groups(split)}
        digests = {
            media_id: tuple(dict.fromkeys(self.contents[ref.path.name] for ref in media)) or (media_id,)
            for media_id, media in shown.items()
        }
        looks = {self.contents[file]: look for file, look in self.looks.items()}
        alike = lookalike_groups(looks).several if made.lookalikes.kept_together else NONE_ALIKE
        numbers = assign_folds(questions, digests, seed=made.seed, folds=folds, alike=alike)
        divided: Sequence[Question] = [
            replace(q, split="test" if fold in (None, number) else "train")
            for q, number in zip(questions, numbers, strict=True)
        ]
        drawn = draw_missing_splits(divided, digests, seed=made.seed, fractions=made.fractions, alike=alike).questions
        rows = {split: [row for row, question in enumerate(drawn) if question.split == split] for split in SPLITS}
        made = replace(made, counts=count_questions(drawn), num_patients=count_patients(drawn), split_leaks={})
        return replace(self, manifest=made, _rows=rows, _in_folds=True, _fold_of=() if fold else numbers)

    def _in_fold(self, question: Question, split: Split, row: int) -> Question:
        # The facet is about the split of the folder; look-alikes are in one fold.
        facets = {name: value for name, value in question.facets.items() if name != TRAIN_TWIN}
        named = {FOLD: f"fold {self._fold_of[row]}"} if self._fold_of else {}
        return replace(question, split=split, facets={**facets, **named})

    def groups(self, split: Split) -> tuple[MediaGroup, ...]:
        """Returns the items of a split that are shown together, with all questions about them, in order."""
        self._require_media()
        found = grouped(self.questions(split), lambda question: question.media_id)
        return tuple(MediaGroup(media_id, self._refs(media_id), tuple(members)) for media_id, members in found.items())

    def media_of(self, question: Question) -> tuple[MediaRef, ...]:
        """Returns the items that are shown with one of the folder's questions."""
        self._require_media()
        return self._refs(question.media_id)

    def _require_media(self) -> None:
        if self.manifest.without_media:
            raise ValueError(
                f"{self.root} was prepared without media: its questions can be scored, but no model can be shown "
                "anything. Run `medtune prepare` again with the media and without --without-media."
            )

    def _about_organ(self, question: Question) -> Question:
        shown = self._media.get(question.media_id, ())
        asked = asked_organs(question, sorted({organ for ref in shown for organ in shown_masks(ref)}))
        return replace(question, media_id=f"{question.media_id}{_OF}{_AND.join(asked)}") if asked else question

    def _refs(self, media_id: str) -> tuple[MediaRef, ...]:
        # Questions that show nothing have no row in the table of media.
        whole, _, asked = media_id.partition(_OF)
        shown = () if self.blind else self._media.get(whole, ())
        if not self.by_organ and self.crop_mm is None:
            return shown
        return tuple(self._aimed(ref, asked.split(_AND)) for ref in shown)

    def _aimed(self, ref: MediaRef, asked: Collection[str]) -> MediaRef:
        target = tuple(organ for organ in shown_masks(ref) if organ in asked)
        if self.crop_mm is None or ref.kind != "volume":
            return replace(ref, target=target)
        others = tuple(organ for organ in shown_masks(ref) if organ in self.crop_organs)
        return replace(ref, target=target or others, crop_mm=self.crop_mm)


def has_facets(question: Question, only: Mapping[str, Sequence[str]]) -> bool:
    """Returns whether each facet that `only` names has one of its values there."""
    return all(question.facets.get(facet) in values for facet, values in only.items())


def known_facets(questions: Iterable[Question]) -> str:
    """Returns which values the facets of some questions have, in words, at most eight of each."""
    facets: dict[str, set[str]] = {}
    for question in questions:
        for facet, value in question.facets.items():
            facets.setdefault(facet, set()).add(value)
    return "there are " + "; ".join(f"{facet}: {', '.join(sorted(values)[:8])}" for facet, values in facets.items())


def shown_masks(ref: MediaRef) -> tuple[str, ...]:
    """Returns the masks of a volume that a model may be shown: those of organs."""
    return tuple(name for name, _ in ref.masks if not name.startswith(OF_CONSTRUCTION))


def asked_organs(question: Question, masks: Sequence[str]) -> tuple[str, ...]:
    """Returns the masks of the organs that a question is about; none where that would tell its answer.

    It is about the organs that its words name. Where they name none, the facet "organ" says it, unless the answer may
    be an organ: a row may say there which one is right.
    """
    if named := named_masks(question.text, masks):
        return named
    if question.answer_kind in ("text", "rubric") or named_masks(" ".join(question.options), masks):
        return ()
    return masks_of(question.facets.get("organ", ""), masks)


def open_prepared(root: Path) -> Prepared:
    """Opens a prepared folder; its tables are mapped into memory, and its media stay on disk."""
    manifest = read_manifest(root)
    questions = map_table(root / QUESTIONS)
    num_stated = sum(sum(tasks.values()) for tasks in manifest.counts.values())
    if questions.num_rows != num_stated:
        raise ValueError(
            f"{root}: the manifest states {num_stated} questions, the table has {questions.num_rows}. {AGAIN}"
        )
    if lacking := {*SPLITS} - (manifest.counts.keys() & manifest.num_patients.keys()):
        raise ValueError(f"{root / MANIFEST}: counts or num_patients lacks the split {min(lacking)}. {AGAIN}")
    media_folder = root / MEDIA_FOLDER
    there = set(os.listdir(media_folder)) if media_folder.is_dir() else set()
    media = list(read_media(map_table(root / MEDIA)))
    missing = sorted({file for item in media for file in item.files} - there)
    if missing:
        raise FileNotFoundError(
            f"{media_folder}: {len(missing)} media files are missing, the first is {missing[0]}. "
            f"Copy the folder again as a whole, or run `medtune prepare` again."
        )
    refs: dict[str, tuple[MediaRef, ...]] = {}
    for item in media:
        refs[item.media_id] = (*refs.get(item.media_id, ()), item.ref(media_folder))
    looks: dict[str, Look] = {item.file: item.pictures for item in media if item.pictures}
    looks |= {item.file: item.look for item in media if item.look is not None}
    # An image is stored under the digest of its pixels.
    contents = {item.file: item.content or item.file.partition(".")[0] for item in media}
    return Prepared(root, manifest, questions, refs, looks, contents)


@dataclass(frozen=True, slots=True)
class ShownMedia:
    """What the media of some splits show, as text and numbers that a checkpoint can keep."""

    contents: Collection[str]  # The digests of what is decoded: of pixels, voxels or frames.
    looks: Mapping[str, Look]  # The look of each of them that has one, by digest.


class SharedMedia(NamedTuple):
    same: frozenset[str]  # The digests of the media that were learnt as well, in any file format.
    # The other evaluated media that look like learnt ones, each with the nearest of them, by digest.
    alike: tuple[Lookalike, ...]


def shown_media(prepared: Prepared, splits: Collection[Split]) -> ShownMedia:
    """Returns what the media of some splits of a prepared folder show."""
    files = {ref.path.name for split in splits for group in prepared.groups(split) for ref in group.media}
    looks = {prepared.contents[file]: look for file, look in prepared.looks.items() if file in files}
    return ShownMedia(frozenset(prepared.contents[file] for file in files), looks)


def shared_content(learnt: ShownMedia, evaluated: ShownMedia) -> SharedMedia:
    """Returns the evaluated media that were learnt too: what is the same once decoded, and what looks like it."""
    same = frozenset(learnt.contents) & frozenset(evaluated.contents)
    others = {digest: look for digest, look in evaluated.looks.items() if digest not in same}
    return SharedMedia(same, tuple(nearest_lookalikes(others, learnt.looks)))
