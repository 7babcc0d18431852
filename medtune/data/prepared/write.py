"""Makes a prepared folder: reads a source's raw files, copies media, divides patients into splits and writes tables.

A media item's id is made from its content, and a question's from its task, its media id and its place among the
questions that share both, so that ids are the same for all users. The words of a question take part only where
nothing is shown.
"""

import hashlib
import json
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Literal, NamedTuple

import PIL.Image

from medtune.data.kept_rows import KeptRows
from medtune.data.prepared import lookalikes as alikes
from medtune.data.prepared import question_rows, splits
from medtune.data.prepared.copy_media import IMAGE_SUFFIX, CopiedFile, unlink_media
from medtune.data.prepared.manifest import FORMAT_VERSION, Manifest, write_manifest, write_prompts
from medtune.data.prepared.origins import write_origins
from medtune.data.prepared.read import Prepared, Prompts, open_prepared
from medtune.data.prepared.same_picture import same_pictures, too_many_images
from medtune.data.prepared.split_leaks import repeated_texts
from medtune.data.prepared.splits import DEFAULT_DIVISION, Division
from medtune.data.prepared.tables import StoredMedia, data_hash, write_tables
from medtune.data.prepared.work.take import Origin, Taken, check_folders, take
from medtune.data.prepared.work.work_folder import WorkFolder, work_folder
from medtune.data.raw.rejects import MAX_REJECTED, REJECTS, count_rejects, write_rejects
from medtune.data.raw.source import Reject, Source
from medtune.data.types import SPLITS, MediaRef, Question, Split
from medtune.version import __version__

ID_HEX = 16
MediaForm = Literal["linked", "copied", "left out"]
"""How media get into the folder: films and volumes are linked where the disk allows it. Media that are left out need
not be there; the folder can then be scored but not run."""


def prepare(
    source: Source,
    *,
    benchmark: str,
    root: Origin,
    out: Path,
    seed: int = 0,
    limit: int | None = None,
    division: Division = DEFAULT_DIVISION,
    max_rejected: float = MAX_REJECTED,
    media: MediaForm = "linked",
    prompts: Callable[[Sequence[Question]], Prompts] | None = None,
    processes: int = 1,
    show_cells: Path | None = None,
) -> Prepared:
    """Reads a source, copies each media file once, assigns splits, and writes the prepared folder `out` as a whole.

    A folder that medtune prepared earlier is replaced. The same files, seed and limit give one user the same bytes, and
    all users the same data_hash. What is finished when anything goes wrong is kept beside `out`, and the next call
    continues with it. Questions that cannot be read, or whose media cannot be read, are left out, counted in the
    manifest and listed in rejects.jsonl. If they are too many, they are listed in a file beside `out` instead.

    Args:
        root: The folder of raw files, or the file or hub data set for a source that reads one; None for a simulation.
        seed: Decides the splits, the order of options that a benchmark draws, and the patients that a limit takes.
        limit: The highest number of patients to take, chosen so that every task's answers stay present; None takes all.
        prompts: Chooses the official prompts for the questions that were taken; None keeps our own wording.
        processes: The number of processes that draw and copy media; it changes no byte. With 1 this process does it,
            and a file that crashes a decoder ends it; the next call then copies in a process of its own, and rejects
            that file.
        show_cells: A file for what the cells of rejected rows hold, which nothing else states; None writes none.
    """
    splits.check_fractions(division.fractions)
    check_folders(source, root, out)
    division = division.allowed_by(source)
    with work_folder(out, source, processes=processes) as work:
        # What was taken uses disk, and memory with some sources: nothing holds it once it is read.
        content = _read(
            source,
            take(
                source,
                root,
                work,
                seed=seed,
                limit=limit,
                max_share=max_rejected,
                keep=out.with_name(f"{out.name}.{REJECTS}"),
                cells=show_cells,
                without_media=media == "left out",
            ),
            work,
            media,
            division,
        )
        groups = _groups(content.media, work)
        content = _divided(content, groups, division, text_unit=source.text_unit, seed=seed)
        official = prompts(content.questions) if prompts else None
        manifest = _manifest(source, content, groups, division, official, benchmark=benchmark, seed=seed, limit=limit)
        write_tables(work.draft, content.questions, content.media.rows)
        write_manifest(work.draft, manifest)
        if official:
            write_prompts(work.draft, official.templates)
        if content.rejected:
            write_rejects(work.draft / REJECTS, content.rejected, root)
    return open_prepared(out)


class _Media(NamedTuple):
    ids: Mapping[str, str]  # The content id of each of the source's media ids.
    files: Mapping[str, Sequence[CopiedFile]]  # The copied files of the items of each content id.
    rows: list[StoredMedia]
    num_sources: int  # The number of raw files; identical ones became one copied file.
    # The name of what each file shows, by the file's digest: the same for files that show the same.
    names: Mapping[str, str]

    def shown(self, media_id: str) -> tuple[str, ...]:
        return tuple(self.names[file.digest] for file in self.files[media_id])


class _Content(NamedTuple):
    """What the folder will hold: first with the splits that the data bring, then with a split for each question."""

    questions: Sequence[Question]  # Once divided, in the order of the folder.
    media: _Media
    form: MediaForm
    own_splits: frozenset[Split | None]
    repeated: Mapping[str, tuple[str, ...]]  # By media id, what is the same question, for questions that show nothing.
    stands_for_patient: str
    notes: tuple[str, ...]  # What the source left out, and how the splits were drawn.
    rejected: tuple[Reject, ...]
    leaks: Mapping[str, int] = {}  # What two splits share -> the number of test questions that it concerns.


def _read(source: Source, taken: Taken, work: WorkFolder, form: MediaForm, division: Division) -> _Content:
    media = _undescribed(taken) if form == "left out" else _described(taken)
    work.keep_only({file for row in media.rows for file in row.files})
    if form == "left out":
        work.media.rmdir()
    elif form == "copied":
        unlink_media(work.media)
    raw = taken.table.questions
    questions: Sequence[Question] = with_content_ids(raw, media.ids, question_rows.hash_patients(raw, source.name))
    write_origins(work.draft, source.name, raw, questions)
    if division.unofficial is not None:
        questions = _without_its_split(source, questions)
    return _Content(
        questions,
        media,
        form,
        own_splits=frozenset(question.split for question in questions),
        repeated=splits.same_questions(taken.table, questions),
        stands_for_patient=taken.table.stands_for_patient,
        notes=taken.table.notes,
        rejected=taken.rejected,
    )


def _divided(
    content: _Content, groups: alikes.LookalikeGroups, division: Division, *, text_unit: str, seed: int
) -> _Content:
    """Returns the content with splits, which are those of the data where these have some."""
    media, fractions, stands_for_patient = content.media, division.fractions, content.stands_for_patient
    # Questions that show nothing share no image with others; their media id stands for one.
    digests = {media_id: media.shown(media_id) or (media_id,) for media_id in media.files}
    # What is the same question without media is drawn together, yet a split of the data may hold it several times.
    drawn = {**digests, **content.repeated}
    alike = splits.NONE_ALIKE if division.split_lookalikes else groups.several
    questions, notes = splits.draw_missing_splits(content.questions, drawn, seed=seed, fractions=fractions, alike=alike)
    questions = splits.assign_splits(questions, drawn, seed=seed, fractions=fractions, alike=alike)
    # Before look-alikes count as one patient: groups in two splits may be named after the same image.
    leaks = splits.check_splits(questions, digests, keep_leaks=division.keep_leaks)
    if stands_for_patient != "patient" and not division.split_lookalikes:
        questions = splits.with_alike_patients(questions, digests, groups.several)
    if shared := leaks.pop("patient", 0):
        # Where the data name no patients, it is the image, or what else stands for one, that two splits share.
        leaks[stands_for_patient] = max(shared, leaks.get(stands_for_patient, 0))
    questions = alikes.with_train_twins(questions, digests, groups.several)
    questions = question_rows.sort_questions(questions, list(media.files))
    twins = sum(q.split == "test" and q.facets.get(alikes.TRAIN_TWIN) == "yes" for q in questions)
    if division.keep_leaks and twins:
        leaks["look-alike"] = twins
    if division.keep_leaks and text_unit and (texts := repeated_texts(questions)):
        leaks[text_unit] = texts
    return content._replace(questions=questions, notes=(*content.notes, *notes), leaks=leaks)


def _manifest(
    source: Source,
    content: _Content,
    groups: alikes.LookalikeGroups,
    division: Division,
    official: Prompts | None,
    *,
    benchmark: str,
    seed: int,
    limit: int | None,
) -> Manifest:
    questions, media = content.questions, content.media
    num_files = len({name for question in questions for name in media.shown(question.media_id)})
    return Manifest(
        format_version=FORMAT_VERSION,
        medtune_version=__version__,
        benchmark=benchmark,
        source=source.name,
        title=source.title,
        provenance=source.provenance,
        licence=source.licence,
        url=source.url,
        patient_unit=source.patient_unit,
        stands_for_patient=content.stands_for_patient,
        seed=seed,
        limit=limit,
        fractions=division.fractions,
        own_splits=tuple(split for split in SPLITS if split in content.own_splits),
        counts=question_rows.count_questions(questions),
        num_patients=question_rows.count_patients(questions),
        num_media=len(media.rows),
        identical_media=media.num_sources - num_files,
        lookalikes=_find_lookalikes(source, questions, media, groups, kept_together=not division.split_lookalikes),
        notes=(*content.notes, *(official.notes if official else ())),
        prompts=official.name if official else "ours",
        without_media=content.form == "left out",
        unofficial_split=division.unofficial,
        split_leaks=content.leaks,
        rejected=count_rejects(content.rejected),
        data_hash=data_hash(questions, media.rows),
    )


def _described(taken: Taken) -> _Media:
    media, copied = taken.table.media, taken.copied
    ids = media_content_ids(taken.table.questions, media, copied)
    files = {ids[media_id]: [copied[ref.path] for ref in items] for media_id, items in media.items()}
    rows = [stored_row(ids[media_id], ref, copied) for media_id, items in media.items() for ref in items]
    num_sources = len({ref.path for items in media.values() for ref in items})
    return _Media(ids, files, rows, num_sources, shown_names(file for each in files.values() for file in each))


def _undescribed(taken: Taken) -> _Media:
    ids = question_content_ids(taken.table.questions)
    files = {each: [CopiedFile(each, file="")] for each in ids.values()}
    return _Media(ids, files, [], len(ids), {each: each for each in files})


def _without_its_split(source: Source, questions: Sequence[Question]) -> Sequence[Question]:
    if not source.test_only and all(question.split is None for question in questions):
        raise ValueError(
            f"the source {source.name!r} brings no split and is divided by patient anyway: leave --unofficial-split "
            "out."
        )
    return KeptRows(replace(question, split=None) for question in questions)


def _looks(media: _Media) -> dict[str, alikes.Look]:
    found: dict[str, alikes.Look] = {}
    for file in (file for files in media.files.values() for file in files):
        if file.look is not None:
            found[media.names[file.digest]] = file.look
        elif file.content and file.content.pictures:
            found[media.names[file.digest]] = file.content.pictures
    return found


def _groups(media: _Media, work: WorkFolder) -> alikes.LookalikeGroups:
    """Returns the groups of images that look alike, those that show one picture in another frame included."""
    looks = _looks(media)
    groups = alikes.lookalike_groups(looks)
    again = same_pictures(
        {name: look for name, look in looks.items() if isinstance(look, int)},
        partial(_opened, work.media),
        group_of=groups.group_of,
        processes=work.processes,
        scratch=work.root,
    )
    return groups.joined(again)


def _opened(folder: Path, digest: str) -> PIL.Image.Image:
    return PIL.Image.open(folder / f"{digest}{IMAGE_SUFFIX}")


def _find_lookalikes(
    source: Source,
    questions: Collection[Question],
    media: _Media,
    groups: alikes.LookalikeGroups,
    *,
    kept_together: bool,
) -> alikes.Lookalikes:
    split_of = {name: q.split for q in questions if q.split for name in media.shown(q.media_id)}
    kind_of = {row.file: row.kind for row in media.rows}
    digests = {media_id: media.shown(media_id) for media_id in media.files}
    kinds = {
        media.names[file.digest]: kind_of[file.file] for files in media.files.values() for file in files if file.file
    }
    num_images_compared = sum(kinds[name] == "image" for name in groups.group_of)
    not_searched = too_many_images(num_images_compared)
    return alikes.Lookalikes(
        max_distance=alikes.MAX_DISTANCE,
        is_simulated=source.provenance == "synthetic",
        kept_together=kept_together,
        num_images=num_images_compared,
        num_flat=len(kinds) - len(groups.group_of),
        num_others=len(groups.group_of) - num_images_compared,
        num_groups=groups.num_groups,
        num_pairs=groups.num_pairs,
        largest=groups.largest,
        num_across=alikes.pairs_across(_looks(media), groups, split_of)
        + sum(split_of[one] != split_of[other] for one, other in groups.again),
        num_again=None if not_searched or num_images_compared < 2 else len(groups.again),
        not_searched=not_searched,
        contradictions=alikes.contradictions(questions, digests, groups.several),
        num_twins=sum(question.facets.get(alikes.TRAIN_TWIN) == "yes" for question in questions),
    )


def shown_names(files: Iterable[CopiedFile]) -> Mapping[str, str]:
    """Returns for the digest of each file the smallest digest among the files that show the same.

    >>> from medtune.data.prepared.decoded_content import Content
    >>> scan = Content("voxels", ())
    >>> shown_names([CopiedFile("b", "b.nii", content=scan), CopiedFile("a", "a.nii.gz", content=scan)])
    {'b': 'a', 'a': 'a'}
    """
    shown = {file.digest: file.content.digest if file.content else file.digest for file in files}
    first: dict[str, str] = {}
    for digest in sorted(shown):
        first.setdefault(shown[digest], digest)
    return {digest: first[content] for digest, content in shown.items()}


def media_content_ids(
    questions: Iterable[Question], media: Mapping[str, tuple[MediaRef, ...]], stored: Mapping[Path, CopiedFile]
) -> dict[str, str]:
    """Returns an id made from content for each of the source's media ids.

    It is the first 16 hex digits of SHA-256 over the content of the file and the part of it that is shown, or over
    those of all items in their order. Media of the same content (a file that the release holds twice) get "-copy2",
    "-copy3", ... in the source's order. Where nothing is shown, the id is made from the questions.
    """
    seen: Counter[str] = Counter()
    asked = () if all(media.values()) else questions
    unseen = question_content_ids(question for question in asked if not media[question.media_id])
    ids = {}
    for media_id, items in media.items():
        said = [_media_record(ref, stored) for ref in items]
        # A single item's id is that of its own content, without the list around it.
        text = json.dumps(said[0] if len(said) == 1 else said)
        content = hashlib.sha256(text.encode()).hexdigest()[:ID_HEX]
        ids[media_id] = _numbered(content, seen, "-copy") if items else unseen[media_id]
    return ids


def _media_record(ref: MediaRef, stored: Mapping[Path, CopiedFile]) -> list[object]:
    clip = [ref.start_s, ref.end_s, ref.region] if ref.kind == "video" else []
    return [stored[ref.path].digest, [list(box) for box in ref.boxes], *clip]


def question_content_ids(questions: Iterable[Question]) -> dict[str, str]:
    """Returns an id made from its questions for each of the source's media ids, for a folder without media.

    It is the first 16 hex digits of SHA-256 over the questions about the media item. Items with the same questions get
    "-copy2", "-copy3", ... in the source's order.
    """
    said: dict[str, list[object]] = {}
    for question in questions:
        row = [question.text, question.options, question.answer, sorted(question.facets.items()), *question.turns]
        said.setdefault(question.media_id, []).append(row)
    seen: Counter[str] = Counter()
    return {
        media_id: _numbered(hashlib.sha256(json.dumps(rows).encode()).hexdigest()[:ID_HEX], seen, "-copy")
        for media_id, rows in said.items()
    }


def stored_row(media_id: str, ref: MediaRef, stored: Mapping[Path, CopiedFile]) -> StoredMedia:
    masks = tuple((organ, stored[path].file) for organ, path in ref.masks)
    file = stored[ref.path]
    encoding = None if ref.encoding is None else stored[ref.encoding].file
    clip = ref.start_s, ref.end_s, ref.region
    return StoredMedia(
        media_id, ref.kind, file.file, ref.boxes, *clip, masks, encoding, file.look, *(file.content or ())[:2]
    )


def with_content_ids(
    questions: Iterable[Question], ids: Mapping[str, str], patients: Mapping[str, str]
) -> KeptRows[Question]:
    """Returns the questions with `<task>-<media id>` as id; the second one of a task on a media item gets "-2"."""
    seen: Counter[str] = Counter()
    found = KeptRows[Question]()
    for question in questions:
        media_id = ids[question.media_id]
        question_id = _numbered(f"{question.facets.get('task', 'question')}-{media_id}", seen, "-")
        patient = patients[question.patient_id]
        found.append(replace(question, id=question_id, media_id=media_id, patient_id=patient))
    return found


def _numbered(name: str, seen: Counter[str], mark: str) -> str:
    seen[name] += 1
    return name if seen[name] == 1 else f"{name}{mark}{seen[name]}"
