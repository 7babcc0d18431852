"""The folder beside a prepared folder in which it is made, and which an interrupted preparation continues.

`.OUT.prepare` holds the prepared folder as far as it is made, what is finished, and the lock of the process that makes
it. It becomes the prepared folder as a whole, and is then gone.
"""

import errno
import os
import shutil
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from medtune.data.files import unique_mark
from medtune.data.kept_rows import NoRoomForRowsError
from medtune.data.lock import Work, locked
from medtune.data.prepared.copy_media import CopiedFile, CopyUnit, copy_unit
from medtune.data.prepared.manifest import ENTRIES, MANIFEST, MEDIA_FOLDER
from medtune.data.prepared.work.finished import Finished, content_key, content_said, path_said
from medtune.data.prepared.work.processes import in_processes, start_server
from medtune.data.progress import progress
from medtune.data.raw.source import MediaFinding, NotFound, Source

_COPYING = (__name__, "nibabel", "scipy.fftpack")
"""The modules that copying needs, also those that are imported when the first volume or picture is met."""
DIED = (
    "the process that read this file died: memory ran out, or a decoder crashed. Export the file again, or give fewer "
    "processes (-j)."
)
_PREPARING = Work("prepares this folder", "Wait for it, or choose another --out.")


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


@dataclass(frozen=True)
class WorkFolder:
    root: Path
    scratch: Path  # A folder for the files that the source makes.
    finished: Finished
    processes: int  # The number of processes that copy files.
    # Whether this process copies all files itself. It does not where an earlier attempt was stopped, which a file that
    # crashes a decoder may have done.
    alone: bool

    @property
    def draft(self) -> Path:
        return self.root / "folder"

    @property
    def media(self) -> Path:
        return self.draft / MEDIA_FOLDER

    def copy(self, units: Sequence[CopyUnit]) -> list[list[CopiedFile | str]]:
        """Copies units, or takes what is finished, and returns each one's copies, or the reasons why there are none."""
        keys = [self._key(unit) for unit in units]
        found = {key: copies for key in keys if (copies := self.finished.copies_before(key, self.media)) is not None}
        # What one key names is copied once.
        left = {key: unit for key, unit in zip(keys, units, strict=True) if key not in found}
        total = len(found) + len(left)
        with progress("copying media", unit="files") as on_done:
            for key, copies in self._copied(left):
                found[key] = [DIED] * len(left[key].files) if copies is None else copies
                if copies is not None:
                    self.finished.keep_copies(key, copies, self.media)
                on_done(len(found), total)
        return [found[key] for key in keys]

    def _copied(self, left: Mapping[str, CopyUnit]) -> Iterator[tuple[str, list[CopiedFile | str] | None]]:
        """Yields the copies of each unit as they come; None where the process died that made them."""
        if self.alone:
            yield from ((key, copy_unit(unit, self.media)) for key, unit in left.items())
            return
        keys, tasks = list(left), [_Task(unit, self.media) for unit in left.values()]
        for done in in_processes(_do, tasks, processes=self.processes):
            yield keys[done.number], done.result

    def find(self, findings: Mapping[str, MediaFinding]) -> dict[str, Any]:
        """Returns what each call finds out, or a `NotFound`; what an earlier attempt found is kept."""
        said = {name: [path_said(p) for p in each.said] if isinstance(each.said, tuple) else each.said
                for name, each in findings.items()}  # fmt: skip
        keys = {name: content_key("found", said[name]) for name in findings}
        found = {name: kept[0] for name in findings if (kept := self.finished.before(keys[name])) is not None}
        left = [name for name in findings if name not in found]
        for name, outcome in self._searched(left, [findings[name] for name in left]):
            if outcome is None or isinstance(outcome, NotFound):
                found[name] = outcome or NotFound(DIED)
            else:
                found[name] = self.finished.keep(keys[name], outcome)[0]
        return {name: found[name] for name in findings}

    def _searched(
        self, names: Sequence[str], findings: Sequence[MediaFinding]
    ) -> Iterator[tuple[str, list[Any] | NotFound | None]]:
        """Yields what each call returns as it comes; None where its process died."""
        if self.alone:
            yield from zip(names, map(_search, findings), strict=True)
            return
        for done in in_processes(_search, findings, processes=self.processes):
            yield names[done.number], done.result

    def _key(self, unit: CopyUnit) -> str:
        kinds = [what for _, what in unit.files]
        if unit.draw is not None:
            return content_key(unit.draw.said, kinds, [str(p.relative_to(unit.draw.folder)) for p, _ in unit.files])
        said = [
            content_said(path, self.scratch) if path.is_relative_to(self.scratch) else path_said(path)
            for path, _ in unit.files
        ]
        return content_key(kinds, said, *([] if unit.frames_per_s is None else [unit.frames_per_s]))

    def keep_only(self, names: set[str]) -> None:
        """Removes the media files that the prepared folder does not name, which earlier attempts have left."""
        for file in self.media.iterdir():
            if file.name not in names:
                file.unlink()


def _search(finding: MediaFinding) -> list[Any] | NotFound:
    """Returns a list of what was found, so that nothing is never found."""
    try:
        return [finding.find()]
    except (ValueError, FileNotFoundError) as error:
        return NotFound(str(error))


class _Task(NamedTuple):
    unit: CopyUnit
    media: Path


def _do(task: _Task) -> list[CopiedFile | str]:
    return copy_unit(task.unit, task.media)


def work_path(out: Path) -> Path:
    """Returns the path of the folder in which a prepared folder is made."""
    return out.absolute().with_name(f".{out.name}.prepare")


@contextmanager
def work_folder(out: Path, source: Source, *, processes: int = 1) -> Iterator[WorkFolder]:
    """Yields the folder in which the prepared folder `out` is made; at the end it becomes `out`.

    If anything goes wrong, it is kept when anything is finished, and the next call continues it.
    """
    root = work_path(out)
    alone = processes == 1 and not root.exists()
    if not alone:
        # Its imports take as long as a source's reading; a simulation draws with the module of its source.
        start_server((*_COPYING, source.read.__module__))
    is_done = False
    try:
        with locked(root / "lock", _PREPARING, out=out) as lock:
            _clear(root)
            scratch = root / "scratch"
            scratch.mkdir()
            (root / "folder" / MEDIA_FOLDER).mkdir(parents=True, exist_ok=True)
            try:
                with Finished(root / "finished.jsonl") as finished:
                    work = WorkFolder(root, scratch, finished, processes, alone)
                    try:
                        yield work
                    finally:
                        is_done = finished.is_empty
                lock.check()
                put_in_place(work.draft, out)
                is_done = True
            finally:
                shutil.rmtree(root if is_done else scratch, ignore_errors=True)
    except NoRoomForRowsError:
        raise
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            raise OSError(
                error.errno,
                f"the disk is full, {out} was not written. Free some space or choose another --out; the same command "
                "continues where this one stopped.",
            ) from error
        raise


def _clear(root: Path) -> None:
    """Removes what an attempt that was killed has left behind, but for what is finished."""
    shutil.rmtree(root / "scratch", ignore_errors=True)
    for path in (root / "folder").iterdir() if (root / "folder").is_dir() else ():
        if path.name != MEDIA_FOLDER:
            path.unlink()
