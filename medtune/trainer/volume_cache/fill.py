"""Fills the cache of volumes of a recipe: what is there is left, what is broken is named, and the rest is made."""

import contextlib
import errno
import functools
import hashlib
import shutil
from collections.abc import Callable, Iterator
from dataclasses import fields
from pathlib import Path
from typing import NamedTuple

from medtune.data.prepared.work.claims import WHOLE, Work, claimed
from medtune.data.prepared.work.processes import in_processes
from medtune.data.prepared.work.work_folder import DIED, Share
from medtune.data.types import MediaRef
from medtune.models.volumes.ctvit_code_input import CodesInput
from medtune.models.weights.loading_options import Loading
from medtune.trainer.recipe.schema import Recipe
from medtune.trainer.volume_cache.entries import EntryOf, Task, by_tower, by_transform, make_entries
from medtune.trainer.volume_cache.wanted import Wanted

GB = 1e9
_WORK = Work("fills this cache", "Wait for it; several processes share the work with --share K/N.")


class Filled(NamedTuple):
    """What came of filling a cache.

    Attributes:
        made: The number of entries that were made.
        there: The number of those that were there before.
        broken: The scans of which there is no entry, and why, in the order of the data.
    """

    made: int
    there: int
    broken: tuple[tuple[Path, str], ...]


def fill(recipe: Recipe, wanted: Wanted, *, processes: int, share: Share, say: Callable[[str], None]) -> Filled:
    """Makes the entries of one share of the scans that the cache does not have, one task for each scan.

    Args:
        recipe: The recipe.
        wanted: What its runs read.
        processes: The number of processes.
        share: Which share of the scans.
        say: Prints what will be written, before anything is, and how far the work is.
    """
    cache, entry_of = wanted.cache, _entry_of(recipe, wanted)
    mine = [refs for number, refs in enumerate(wanted.scans) if share.holds(number)]
    with _claimed(wanted, share):
        cache.remove_unfinished()
        # Whether an entry is there is asked for all before the first is made.
        missing = [tuple(ref for ref in refs if not cache.holds(wanted.input.entry(ref, cache))) for refs in mine]
        tasks = [Task(cache.folder, entry_of, refs) for refs in missing if refs]
        left = sum(len(task.refs) for task in tasks)
        say(_plan(wanted, [task.refs for task in tasks]))
        reasons: dict[int, list[str | None]] = {}
        try:
            for done in in_processes(make_entries, tasks, processes=processes):
                reasons[done.number] = done.result or [DIED] * len(tasks[done.number].refs)
                if len(reasons) % max(1, len(tasks) // 10) == 0:
                    say(f"{len(reasons)} of {len(tasks)} scans are done")
        except OSError as error:
            if error.errno not in (errno.ENOSPC, errno.EDQUOT):
                raise
            raise ValueError(
                f"{cache.folder}: {error.strerror}. What is finished is kept, nothing is half-written; make room and "
                "give the same command again"
            ) from error
    broken = [
        (ref.path, why.removeprefix(f"{ref.path}: "))
        for number in sorted(reasons)
        for ref, why in zip(tasks[number].refs, reasons[number], strict=True)
        if why is not None
    ]
    return Filled(left - len(broken), sum(map(len, mine)) - left, tuple(broken))


def _entry_of(recipe: Recipe, wanted: Wanted) -> EntryOf:
    if not isinstance(wanted.input, CodesInput):
        return functools.partial(by_transform, wanted.input.prepare)
    loading = Loading(**{field.name: getattr(recipe.model, field.name) for field in fields(Loading)})
    return functools.partial(by_tower, recipe.model.name, recipe.train.seed, loading)


@contextlib.contextmanager
def _claimed(wanted: Wanted, share: Share) -> Iterator[None]:
    kind = hashlib.sha256(repr(wanted.input).encode()).hexdigest()[:16]
    folder = wanted.cache.folder / f".filling-{kind}"
    name = WHOLE if share.of == 1 else f"share-{share.number}-of-{share.of}"
    try:
        with claimed(folder, name, _WORK):
            yield
    finally:
        with contextlib.suppress(OSError):
            folder.rmdir()


def _plan(wanted: Wanted, scans: list[tuple[MediaRef, ...]]) -> str:
    number = sum(map(len, scans))
    lines = [f"cache      {wanted.cache.folder}: {wanted.volumes} volumes, {wanted.input.kept_as}"]
    if number:
        each, free = wanted.entry_bytes(scans), _free(wanted.cache.folder)
        room = f"at most {size_said(each)} each and {size_said(number * each)} in all; {size_said(free)} are free"
        lines.append(f"to write   {number} volumes of {len(scans)} scans, {room}")
        if number * each > free:
            lines.append("WARNING    this may not fit on the disk")
    else:
        lines.append("to write   nothing: every volume is there")
    return "\n".join(lines)


def size_said(size: float) -> str:
    """Returns a number of bytes in words.

    Example:
        >>> size_said(512), size_said(8_388_608), size_said(2.05e12)
        ('512 bytes', '8.4 MB', '2050.0 GB')
    """
    if size < 1e5:
        return f"{size:.0f} bytes"
    return f"{size / 1e6:.1f} MB" if size < GB else f"{size / GB:.1f} GB"


def _free(folder: Path) -> int:
    there = next(each for each in (folder, *folder.parents) if each.exists())
    return shutil.disk_usage(there).free
