"""Counts and lists the questions of a source that cannot be taken, and refuses a source with too many of them."""

import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import islice
from pathlib import Path

from medtune.data.json_text import json_value
from medtune.data.raw.source import HubId, Reject

REJECTS = "rejects.jsonl"
MAX_REJECTED = 0.01
"""The share of a source's questions that may be rejected unless the user sets another (our own choice)."""
_NUM_SHOWN = 5


def count_rejects(rejects: Sequence[Reject]) -> dict[str, int]:
    """Returns the number of rejected questions by kind of reason, the most frequent first."""
    return dict(Counter(reject.kind for reject in rejects).most_common())


def rejects_table(by_kind: Mapping[str, int], num_taken: int) -> str:
    """Returns a plain-text table of the rejected questions, one kind of reason a line."""
    total = sum(by_kind.values())
    share = total / (total + num_taken)
    lines = [f"rejected {total} of {total + num_taken} questions ({share:.1%}):"]
    return "\n".join([*lines, *(f"  {count:>7}  {kind}" for kind, count in by_kind.items())])


def write_rejects(
    path: Path, rejects: Sequence[Reject], root: Path | HubId | None, *, for_the_user: bool = False
) -> None:
    """Writes rejects.jsonl: a JSON object for each different reject, with the number of questions that it cost.

    Args:
        root: The folder or table of the source; "media" is the place of the media file in it, without a name: [3]/[1]
            is the first entry of the folder's third one, in order of names.
        for_the_user: Adds what the cells hold and the paths of media, which may name a patient.
    """
    folder = (root if root.is_dir() else root.parent) if isinstance(root, Path) else None
    listed: dict[Path, dict[str, int]] = {}
    with path.open("w", encoding="utf-8") as file:
        for reject, count in _counted(rejects):
            row = {name: getattr(reject, name) for name in ("file", "row", "field", "reason")}
            row |= {"media": _place(reject.media, folder, listed), "count": count}
            if for_the_user:
                row |= {"cell": reject.cell, "media": str(reject.media or "")}
            file.write(json.dumps(row, ensure_ascii=False) + "\n")


def _counted(rejects: Iterable[Reject]) -> list[tuple[Reject, int]]:
    """Returns the different rejects, each with its number; questions about a lost file differ by their number alone."""
    kinds: dict[Reject, tuple[Reject, int]] = {}
    for reject in rejects:
        kind = reject if reject.file else replace(reject, row=0)
        first, count = kinds.get(kind, (reject, 0))
        kinds[kind] = first, count + 1
    return list(kinds.values())


def _place(media: Path | None, folder: Path | None, listed: dict[Path, dict[str, int]]) -> str:
    if media is None or folder is None or not media.is_relative_to(folder):
        return ""
    found = []
    for name in media.relative_to(folder).parts:
        if folder not in listed:
            names = sorted(each.name for each in folder.iterdir() if not each.name.startswith("."))
            listed[folder] = {each: number for number, each in enumerate(names, start=1)}
        if name not in listed[folder]:
            break  # The file is missing: its folder is told.
        found.append(f"[{listed[folder][name]}]")
        folder /= name
    return "/".join(found)


def first_rejects(path: Path) -> str:
    """Returns the first rejects of a rejects.jsonl as lines for the screen."""
    with path.open(encoding="utf-8") as file:
        rows = [json_value(line) for line in islice(file, _NUM_SHOWN)]
    places = ((row, Path(row["media"]) if row["media"] else None) for row in rows)
    return _lines((Reject(r["file"], r["row"], r["field"], r["reason"], place), r["count"]) for r, place in places)


def _lines(counted: Iterable[tuple[Reject, int]]) -> str:
    return "\n".join(f"  {reject}{f' ({count} questions)' if count > 1 else ''}" for reject, count in counted)


def check_rejected_share(
    rejects: Sequence[Reject], root: Path | HubId | None, *, num_taken: int, max_share: float, keep: Path
) -> None:
    """Checks the share of a source's questions that is rejected; `keep` lists the rejects if they are too many."""
    if not rejects or len(rejects) <= max_share * (len(rejects) + num_taken):
        return
    keep.parent.mkdir(parents=True, exist_ok=True)
    write_rejects(keep, rejects, root)
    hint = " Questions whose media are missing can be prepared for scoring alone: --without-media."
    first = _lines(_counted(rejects)[:_NUM_SHOWN])
    raise ValueError(
        f"{rejects_table(count_rejects(rejects), num_taken)}\nThe first of them:\n{first}\nAll are in {keep}. "
        f"This is more than the share of {max_share:g} that is allowed: correct the files, or allow more with "
        f"--max-rejected.{hint if any(reject.media for reject in rejects) else ''}"
    )
