"""Finds images that show the same picture moved, cropped or drawn on, which a hash of the whole image lets through.

Each image is compared with the few whose fine detail is most alike (`medtune.data.prepared.alike_details`): the middle
of the one is searched for in the other, about the place that their phases tell, by the correlation of what is finer
than a fortieth of the image. What different patients have in common, such as layers of tissue, is coarser, and the
speckle of two scans is never the same.

Shapes: N images, F frequencies, H height, W width.
"""

import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache, lru_cache
from pathlib import Path
from typing import NamedTuple, TypeVar

import numpy as np
import PIL.Image
from numpy.lib.stride_tricks import sliding_window_view
from numpy.typing import NDArray

from medtune.data.prepared.alike_details import (
    MIN_PEAK,
    MOST_TRIED,
    NUM_FREQUENCIES,
    SIDE,
    SURE_PEAK,
    Shifted,
    detail_spectrum,
    nearest_details,
    shifts,
)
from medtune.data.prepared.lookalikes import Look
from medtune.data.prepared.work.processes import in_processes
from medtune.data.progress import progress

MIN_CORRELATION = 0.75
"""The smallest correlation of one picture.

Source: measured on 60 images of BUSI, 315 of VQA-RAD (radiographs and scans) and 24 heads of different fetuses (HC18):
    of 52,000 pairs of different pictures none has as much. Of copies of BUSI's that are cropped by 10 to 20 %, moved by
    15 % or cropped and drawn on with calipers, 82 to 98 in 100 have it, and 0 to 48 in 100 have a hash within 8 bits.
"""
MOST_IMAGES = 200_000
"""The most images among which copies are searched for; there each takes some 12 ms and 4 kB of memory."""
_LARGEST, _CAP = 128, 256
_MIDDLE = _LARGEST // 2
_SMOOTH = 3 / 128
# The smallest standard deviation of the fine detail, in grey values of 256; what has less is flat, and noise.
_LEAST_DETAIL = 3.0
# The phases tell a place to half a pixel of the small pictures, which is one of the larger.
_ABOUT = 3
_IMAGES_AT_ONCE, _GUESSES_AT_ONCE, _KEPT = 64, 1024, 2**10

Pair = tuple[str, str]
Opened = Callable[[str], PIL.Image.Image]
Detail = NDArray[np.float32]
Task = TypeVar("Task")
Result = TypeVar("Result")


class _Images(NamedTuple):
    names: Sequence[str]
    opened: Opened
    scale: float


class _PictureDetails(NamedTuple):
    details: list[NDArray[np.float16]]
    spectra_NF: NDArray[np.complex64]


class _Kept(NamedTuple):
    """Where the details of all images lie in one file, so that no process holds them all."""

    path: Path
    starts: NDArray[np.int64]
    shapes: NDArray[np.int64]

    def detail(self, place: int) -> Detail:
        h, w = map(int, self.shapes[place])
        with self.path.open("rb") as file:
            values = np.fromfile(file, np.float16, h * w, offset=int(self.starts[place]) * np.float16().itemsize)
        return values.reshape(h, w).astype(np.float32)


class _Guess(NamedTuple):
    one: int
    other: int
    shift: Shifted


class _Guesses(NamedTuple):
    kept: _Kept
    guesses: Sequence[_Guess]


def same_pictures(
    looks: Mapping[str, Look],
    opened: Opened,
    *,
    group_of: Mapping[str, str],
    processes: int = 1,
    scratch: Path | None = None,
) -> list[Pair]:
    """Returns the pairs of images that show the same picture; of more than `MOST_IMAGES` images none.

    Args:
        opened: Opens an image by its name, also in another process where there are several.
        group_of: The group of look-alikes of each image; two images of one group are not compared.
        scratch: The folder for files of 40 kB an image that are gone in the end; None takes the system's.
    """
    names = sorted(name for name, look in looks.items() if isinstance(look, int))
    if not 1 < len(names) <= MOST_IMAGES:
        return []
    groups: dict[str, int] = {}
    group_N = np.array([groups.setdefault(group_of.get(name, name), len(groups)) for name in names], dtype=np.intp)
    if len(groups) == 1:
        return []
    with tempfile.TemporaryDirectory(prefix="scratch-", dir=scratch) as folder:
        kept, spectra_NF = _described(names, opened, Path(folder), processes)
        tasks = [_Guesses(kept, guesses) for guesses in _guessed(spectra_NF, group_N)]
        del spectra_NF
        found: set[tuple[int, int]] = set()
        with progress("comparing pictures that are alike", unit="parts") as on_done:
            for number, pairs in enumerate(_worked(_confirmed, tasks, processes), start=1):
                found.update(pairs)
                on_done(number, len(tasks))
    return [(names[one], names[other]) for one, other in sorted(found)]


def too_many_images(count: int) -> str:
    """Says why copies are not searched for among so many images; "" where they are."""
    if count <= MOST_IMAGES:
        return ""
    return (
        f"{count} images were NOT searched for pictures that are moved, cropped or drawn on: the search takes at most "
        f"{MOST_IMAGES}. Such copies may lie in two splits"
    )


def _worked(do: Callable[[Task], Result], tasks: Sequence[Task], processes: int) -> Iterator[Result]:
    """Yields the results in the order of the tasks."""
    if processes == 1 or len(tasks) < 2:
        yield from map(do, tasks)
        return
    early: dict[int, Result] = {}
    due = 0
    for done in in_processes(do, tasks, processes=processes):
        if done.result is None:
            raise MemoryError("a process that compared pictures died: memory ran out. Give fewer processes (-j).")
        early[done.number] = done.result
        while due in early:
            yield early.pop(due)
            due += 1


def _described(
    names: Sequence[str], opened: Opened, folder: Path, processes: int
) -> tuple[_Kept, NDArray[np.complex64]]:
    scale = _LARGEST / float(np.median([max(_size(name, opened)) for name in names]))
    tasks = [
        _Images(names[start : start + _IMAGES_AT_ONCE], opened, scale)
        for start in range(0, len(names), _IMAGES_AT_ONCE)
    ]
    spectra_NF = np.memmap(folder / "spectra", np.complex64, "w+", shape=(len(names), NUM_FREQUENCIES))
    shapes: list[tuple[int, ...]] = []
    with (
        (folder / "details").open("wb") as file,
        progress("looking at the detail of pictures", unit="pictures") as on_done,
    ):
        for described in _worked(_describe, tasks, processes):
            spectra_NF[len(shapes) : len(shapes) + len(described.details)] = described.spectra_NF
            for detail in described.details:
                detail.tofile(file)
                shapes.append(detail.shape)
            on_done(len(shapes), len(names))
    sizes = np.array(shapes, dtype=np.int64)
    starts = np.concatenate([[0], sizes.prod(axis=1).cumsum()[:-1]])
    return _Kept(folder / "details", starts, sizes), spectra_NF


def _size(name: str, opened: Opened) -> tuple[int, int]:
    with opened(name) as image:
        return image.size


def _describe(images: _Images) -> _PictureDetails:
    """Returns the images on one scale, so that a cropped copy is not stretched: half of them fit into `_LARGEST`."""

    # One image at a time is open and in memory.
    def thumbnail(name: str) -> PIL.Image.Image:
        with images.opened(name) as image:
            w, h = (min(max(round(edge * images.scale), 8), _CAP) for edge in image.size)
            return image.convert("L").resize((w, h), PIL.Image.Resampling.BOX)

    thumbnails = list(map(thumbnail, images.names))
    spectra_NF = np.stack([detail_spectrum(_fine(each, SIDE)) for each in thumbnails])
    return _PictureDetails([_fine(each, _LARGEST).astype(np.float16) for each in thumbnails], spectra_NF)


def _fine(image: PIL.Image.Image, side: int) -> Detail:
    from scipy.ndimage import gaussian_filter

    w, h = (max(4, round(edge * side / _LARGEST)) for edge in image.size)
    small = np.asarray(image.resize((w, h), PIL.Image.Resampling.BOX), dtype=np.float32)
    return np.asarray(small - gaussian_filter(small, max(1.0, _SMOOTH * side)), dtype=np.float32)


def _guessed(spectra_NF: NDArray[np.complex64], group_N: NDArray[np.intp]) -> Iterator[list[_Guess]]:
    """Yields the pairs whose phases agree, some at a time."""
    waiting: list[_Guess] = []
    seen: set[tuple[int, int]] = set()
    with progress("looking for pictures that are alike", unit="pictures") as on_done:
        for one, others in nearest_details(spectra_NF, group_N):
            fresh = [int(other) for other in sorted(others) if (min(one, other), max(one, other)) not in seen]
            seen.update((min(one, other), max(one, other)) for other in fresh)
            moved = shifts(spectra_NF[one], spectra_NF[fresh]) if fresh else []
            best = sorted((shift.peak for shift in moved), reverse=True)[:MOST_TRIED][-1:]
            least = max(MIN_PEAK, min([SURE_PEAK, *best]))
            waiting += [
                _Guess(one, other, shift) for other, shift in zip(fresh, moved, strict=True) if shift.peak >= least
            ]
            on_done(one + 1, len(group_N))
            if len(waiting) >= _GUESSES_AT_ONCE:
                yield waiting
                waiting = []
    if waiting:
        yield waiting


def _confirmed(task: _Guesses) -> list[tuple[int, int]]:
    """Returns the pairs of which the middle of one image is found in the other."""
    detail = lru_cache(maxsize=_KEPT)(task.kept.detail)
    found = []
    for guess in task.guesses:
        one, other = detail(guess.one), detail(guess.other)
        scale = _LARGEST // SIDE
        down, right = guess.shift.down * scale, guess.shift.right * scale
        if max(_correlation(one, other, down, right), _correlation(other, one, -down, -right)) >= MIN_CORRELATION:
            found.append((min(guess.one, guess.other), max(guess.one, guess.other)))
    return found


def _correlation(one: Detail, other: Detail, down: int, right: int) -> float:
    """Returns the highest correlation of the middle of one detail in the other, about the place that is told."""
    if min(one.shape) < _MIDDLE or min(other.shape) < _MIDDLE:
        return 0.0
    top, left = ((edge - _MIDDLE) // 2 for edge in one.shape)
    middle = one[top : top + _MIDDLE, left : left + _MIDDLE]
    middle = middle - middle.mean()
    rows = _about(top + down, other.shape[0])
    columns = _about(left + right, other.shape[1])
    part = other[rows.start : rows.stop + _MIDDLE - 1, columns.start : columns.stop + _MIDDLE - 1]
    products = np.einsum("pqyx,yx->pq", sliding_window_view(part, middle.shape), middle)
    sums, squares = (_windows(len(rows)) @ each @ _windows(len(columns)).T for each in (part, part**2))
    least = _LEAST_DETAIL * _MIDDLE
    lengths = np.sqrt(np.maximum(squares - sums**2 / _MIDDLE**2, least**2))
    return float((products / lengths).max() / max(float(np.linalg.norm(middle)), least))


@cache
def _windows(count: int) -> Detail:
    """Returns the matrix that adds up each of several neighbouring windows."""
    return np.asarray(sum(np.eye(count, count + _MIDDLE - 1, k) for k in range(_MIDDLE)), dtype=np.float32)


def _about(place: int, edge: int) -> range:
    last = edge - _MIDDLE
    return range(min(max(place - _ABOUT, 0), last), min(max(place + _ABOUT, 0), last) + 1)
