"""Makes the ids of media and questions in a prepared folder from what they hold, the same for all users."""

import hashlib
import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from medtune.data.prepared.copy_media import CopiedFile
from medtune.data.prepared.tables import StoredMedia
from medtune.data.types import MediaRef, Question


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


ID_HEX = 16


def media_content_ids(
    questions: Iterable[Question], media: Mapping[str, tuple[MediaRef, ...]], stored: Mapping[Path, CopiedFile]
) -> dict[str, str]:
    """Returns an id made from content for each of the source's media ids.

    It is the first 16 hex digits of SHA-256 over the content of the file and the part of it that is shown, or over
    those of all items in their order. Media of the same content (a file that the release holds twice) get "-copy2",
    "-copy3", ... in the source's order. Where nothing is shown, the id is made from the questions.
    """
    seen: Counter[str] = Counter()
    unseen = question_content_ids(question for question in questions if not media[question.media_id])
    ids = {}
    for media_id, items in media.items():
        said = [_shown(ref, stored) for ref in items]
        # A single item's id is that of its own content, without the list around it.
        text = json.dumps(said[0] if len(said) == 1 else said)
        content = hashlib.sha256(text.encode()).hexdigest()[:ID_HEX]
        ids[media_id] = _numbered(content, seen, "-copy") if items else unseen[media_id]
    return ids


def _shown(ref: MediaRef, stored: Mapping[Path, CopiedFile]) -> list[object]:
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
        media_id, ref.kind, file.file, ref.boxes, *clip, masks, encoding, file.look, *(file.content or ())
    )


def with_content_ids(
    questions: Sequence[Question], ids: Mapping[str, str], patients: Mapping[str, str]
) -> list[Question]:
    """Returns the questions with `<task>-<media id>` as id; the second one of a task on a media item gets "-2"."""
    seen: Counter[str] = Counter()
    found = []
    for question in questions:
        media_id = ids[question.media_id]
        question_id = _numbered(f"{question.facets.get('task', 'question')}-{media_id}", seen, "-")
        patient = patients[question.patient_id]
        found.append(replace(question, id=question_id, media_id=media_id, patient_id=patient))
    return found


def _numbered(name: str, seen: Counter[str], mark: str) -> str:
    seen[name] += 1
    return name if seen[name] == 1 else f"{name}{mark}{seen[name]}"
