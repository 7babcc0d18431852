"""The folder beside a prepared folder in which it is made, and which an interrupted preparation continues.

`.OUT.prepare` holds the prepared folder as far as it is made, the journal of what is finished, and claims. It becomes
the prepared folder as a whole, and is then gone.
"""

import errno
import json
import os
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from medtune.data.files import unique_mark
from medtune.data.prepared.copy_media import CopiedFile, Unit, copy_unit
from medtune.data.prepared.manifest import ENTRIES, MANIFEST, MEDIA_FOLDER
from medtune.data.prepared.work.claims import WHOLE, Claim, Journal, claimed, content_key, content_said, path_said
from medtune.data.prepared.work.processes import in_processes, start_server
from medtune.data.progress import progress
from medtune.data.raw.source import Finding, NotFound, Source


def check_replaceable(out: Path) -> None:
    """Checks that a prepared folder may be written to a path: nothing lies there, or an earlier prepared folder."""
    if not out.exists():
        return
    foreign = None if not out.is_dir() else sorted(set(os.listdir(out)) - ENTRIES)
    if foreign is None or foreign or (any(out.iterdir()) and not (out / MANIFEST).is_file()):
        held = f"holds {foreign[0]!r}" if foreign else "was not prepared by medtune"
        raise ValueError(f"{out}: this already exists and {held}; it is left alone. Choose another --out.")


def put_in_place(draft: Path, out: Path) -> None:
    """Makes a finished folder the prepared folder `out`, as a whole; an earlier one is replaced."""
    check_replaceable(out)
    replaced = out.with_name(f".{out.name}.{unique_mark()}.old")
    try:
        if out.exists():
            out.rename(replaced)
        try:
            draft.rename(out)
        except OSError:
            if replaced.exists():
                replaced.rename(out)
            raise
    finally:
        shutil.rmtree(replaced, ignore_errors=True)


_COPYING = (__name__, "nibabel", "scipy.fftpack")
"""The modules that copying needs, also those that are imported when the first volume or picture is met."""
DIED = (
    "the process that read this file died: memory ran out, or a decoder crashed. Export the file again, or give fewer "
    "processes (-j)."
)


class Share(NamedTuple):
    """One of several equal shares of the work, counted from 1."""

    number: int
    of: int

    def holds(self, index: int) -> bool:
        return index % self.of == self.number - 1


@dataclass(frozen=True)
class WorkFolder:
    root: Path
    scratch: Path  # A folder for the files that the source makes, of this process alone.
    claim: Claim
    journal: Journal
    processes: int  # The number of processes that copy files; 1 copies them in this one.

    @property
    def draft(self) -> Path:
        return self.root / "folder"

    @property
    def media(self) -> Path:
        return self.draft / MEDIA_FOLDER

    def copy(self, units: Sequence[Unit]) -> list[list[CopiedFile | str]]:
        """Copies units, or takes what is finished, and returns each one's copies, or the reasons why there are none."""
        keys = [self._key(unit) for unit in units]
        found = {key: finished for key in keys if (finished := self.journal.finished(key)) is not None}
        # What one key names is copied once.
        left = {key: unit for key, unit in zip(keys, units, strict=True) if key not in found}
        with progress("copying media", unit="files") as on_done:
            found |= self._copied(left, lambda done: on_done(len(found) + done, len(found) + len(left)))
        return [found[key] for key in keys]

    def _copied(self, left: Mapping[str, Unit], on_done: Callable[[int], None]) -> dict[str, list[CopiedFile | str]]:
        found: dict[str, list[CopiedFile | str]] = {}
        suspects = [key for key in left if key in self.journal.suspects]
        tasks = [key for key in left if key not in self.journal.suspects]
        if self.processes == 1:
            for key in tasks:
                self.journal.begin(key)
                found[key] = copy_unit(left[key], self.media)
                self.journal.finish(key, found[key])
                on_done(len(found))
            tasks = []
        order = [*tasks, *suspects]
        doing = ([_Task(left[key], self.media) for key in each] for each in (tasks, suspects))
        for done in in_processes(_do, next(doing), processes=self.processes, suspects=next(doing)):
            key = order[done.number]
            if done.result is None:
                self.journal.begin(key)
                found[key] = [DIED] * len(left[key].files)
            else:
                self.journal.finish(key, done.result)
                found[key] = done.result
            on_done(len(found))
        return found

    def find(self, findings: Mapping[str, Finding]) -> dict[str, Any]:
        """Returns what each call finds out, or a `NotFound`; what an interrupted preparation has found is kept."""
        folder = self.root / "findings"
        folder.mkdir(exist_ok=True)
        said = {name: [path_said(p) for p in each.said] if isinstance(each.said, tuple) else each.said
                for name, each in findings.items()}  # fmt: skip
        files = {name: folder / f"{content_key('found', said[name])}.json" for name in findings}
        left = [name for name in findings if not files[name].is_file()]
        tasks = [_Search(findings[name], files[name]) for name in left]
        if self.processes == 1:
            outcomes = [_search(task) for task in tasks]
        else:
            outcomes = [DIED] * len(tasks)
            for done in in_processes(_search, tasks, processes=self.processes):
                outcomes[done.number] = DIED if done.result is None else done.result
        wrong = {name: reason for name, reason in zip(left, outcomes, strict=True) if reason}
        return {
            name: NotFound(wrong[name]) if name in wrong else json.loads(files[name].read_text("utf-8"))
            for name in findings
        }

    def _key(self, unit: Unit) -> str:
        kinds = [what for _, what in unit.files]
        if unit.draw is not None:
            return content_key(unit.draw.said, kinds, [str(p.relative_to(unit.draw.folder)) for p, _ in unit.files])
        said = [
            content_said(path, self.scratch) if path.is_relative_to(self.scratch) else path_said(path)
            for path, _ in unit.files
        ]
        return content_key(kinds, said)

    def keep_only(self, names: set[str]) -> None:
        """Removes the media files that the prepared folder does not name, which earlier attempts have left."""
        for file in self.media.iterdir():
            if file.name not in names:
                file.unlink()


class _Search(NamedTuple):
    finding: Finding
    file: Path


def _search(task: _Search) -> str:
    """Writes what a call finds into a file and returns "", or returns why it found nothing."""
    try:
        found = task.finding.find()
    except (ValueError, FileNotFoundError) as error:
        return str(error)
    draft = task.file.with_name(f".{unique_mark()}")
    draft.write_text(json.dumps(found), "utf-8")
    draft.replace(task.file)
    return ""


class _Task(NamedTuple):
    unit: Unit
    media: Path


def _do(task: _Task) -> list[CopiedFile | str]:
    return copy_unit(task.unit, task.media)


def work_path(out: Path) -> Path:
    """Returns the path of the folder in which a prepared folder is made."""
    return out.absolute().with_name(f".{out.name}.prepare")


@contextmanager
def work_folder(out: Path, source: Source, *, processes: int = 1, share: Share | None = None) -> Iterator[WorkFolder]:
    """Yields the folder in which the prepared folder `out` is made; at the end it becomes `out`, unless it is a share.

    If anything goes wrong, it is kept when media files are finished, and the next call continues it.
    """
    if processes > 1:
        # Its imports take as long as a source's reading; a simulation draws with the module of its source.
        start_server((*_COPYING, source.read.__module__))
    root = work_path(out)
    name = WHOLE if share is None else f"share-{share.number}-of-{share.of}"
    is_done = False
    try:
        with claimed(root / "claims", name) as claim:
            if share is None:
                _clear(root)
            scratch = root / f"scratch-{unique_mark()}"
            scratch.mkdir()
            (root / "folder" / MEDIA_FOLDER).mkdir(parents=True, exist_ok=True)
            try:
                with Journal(root / "journal", root / "folder" / MEDIA_FOLDER) as journal:
                    work = WorkFolder(root, scratch, claim, journal, processes)
                    try:
                        yield work
                    finally:
                        is_done = share is None and journal.is_empty and not any((root / "findings").glob("*.json"))
                if share is None:
                    claim.check()
                    put_in_place(work.draft, out)
                    is_done = True
            finally:
                shutil.rmtree(scratch, ignore_errors=True)
                if is_done:
                    shutil.rmtree(root, ignore_errors=True)
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            raise OSError(
                error.errno,
                f"the disk is full, {out} was not written. Free some space or choose another --out; the same command "
                "continues where this one stopped.",
            ) from error
        raise


def _clear(root: Path) -> None:
    for path in root.iterdir():
        if path.name.startswith("scratch-"):
            shutil.rmtree(path, ignore_errors=True)
    for path in (root / "folder").iterdir() if (root / "folder").is_dir() else ():
        if path.name != MEDIA_FOLDER:
            path.unlink()
