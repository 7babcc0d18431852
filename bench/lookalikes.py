"""Times the search for pictures that are moved, cropped or drawn on against the comparison of every two pictures.

Chest-like and breast-like pictures are drawn, which resemble each other as such scans do. Both ways search 280 of each
kind, of which half are changed copies of the others; every planted copy that the plain way finds has to be found. Then
the quick way searches a twentieth, a quarter and all of 20,000 pictures, in one process, and its CPU time is counted.
"""

import math
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from itertools import cycle
from pathlib import Path

import numpy as np
import PIL.Image

from bench.measuring.alike.every_pair import same_pairs
from bench.measuring.alike.scans import CHANGES, SCANS
from bench.measuring.measured import Limit, Measured, TwoWays, timed
from medtune.data.prepared.perceptual_hash import perceptual_hash
from medtune.data.prepared.same_picture import same_pictures
from medtune.data.prepared.work.processes import in_processes, usable_cores

NUM_IMAGES, NUM_PLANTED, AT_ONCE = 20_000, 140, 100
TARGET, MOST_MS, MOST_GROWTH = {"chest-like": 20.0, "breast-like": 1.5}, 5.0, 1.2


def bench(subject: str | None) -> Measured:
    """Returns the figures for at most `subject` pictures of each kind, 20,000 if it is None."""
    if subject is not None and (not subject.isdigit() or int(subject) < 400):
        raise ValueError(f"bench lookalikes takes a number of pictures, at least 400, not {subject!r}")
    return measured(NUM_IMAGES if subject is None else int(subject))


def measured(num_images: int, *, num_planted: int = NUM_PLANTED) -> Measured:
    """Returns the figures for a twentieth, a quarter and all of so many pictures of each kind."""
    ways, limits = [], []
    for kind in SCANS:
        ways.append(both_ways(kind, num_planted))
        limits += _growth(kind, (num_images // 20, num_images // 4, num_images))
    return Measured(f"{num_images} pictures of each kind, {usable_cores()} cores", tuple(ways), tuple(limits))


def both_ways(kind: str, num_planted: int) -> TwoWays:
    """Returns the times of both ways on pictures and copies, and how many planted copies the quick one misses."""
    plain = [SCANS[kind](number) for number in range(num_planted)]
    copies = [change(image) for image, change in zip(plain, cycle(CHANGES.values()), strict=False)]
    images = [*plain, *copies]
    planted = {(number, number + num_planted) for number in range(num_planted)}
    names = [f"{number:04}" for number in range(len(images))]
    with tempfile.TemporaryDirectory() as folder:
        for name, image in zip(names, images, strict=True):
            image.save(Path(folder) / f"{name}.png")
        opened = partial(_opened, Path(folder))
        looks = {name: perceptual_hash(np.asarray(opened(name).convert("RGB"))) or 0 for name in names}
        search: Callable[[], Sequence[tuple[str, str]]] = partial(same_pictures, looks, opened, group_of={})
        search()
        found, quick_s = timed(search)
        wanted, plain_s = timed(lambda: same_pairs([opened(name) for name in names]))
    quick = {(int(one), int(other)) for one, other in found} & planted
    every = wanted & planted
    return TwoWays(
        title=f"{len(images)} {kind} pictures, {num_planted} of them planted copies ({len(quick)} found, {len(every)} "
        "by every two)",
        quick="those whose detail is alike",
        plain="every two pictures",
        quick_s=quick_s,
        plain_s=plain_s,
        apart=float(len(every - quick)),
        tolerance=0.0,
        target=TARGET[kind],
    )


def _growth(kind: str, counts: Sequence[int]) -> list[Limit]:
    with tempfile.TemporaryDirectory() as folder:
        parts = [range(start, min(start + AT_ONCE, counts[-1])) for start in range(0, counts[-1], AT_ONCE)]
        tasks = [(kind, Path(folder), part) for part in parts]
        looks: dict[str, int] = {}
        for done in in_processes(_drawn, tasks, processes=usable_cores()):
            looks |= done.result or {}
        opened = partial(_opened, Path(folder))
        cpu_s = {}
        for count in counts:
            some: Mapping[str, int] = {name: looks[name] for name in sorted(looks)[:count]}
            start = time.process_time()
            same_pictures(some, opened, group_of={})
            cpu_s[count] = time.process_time() - start
    limits = [
        Limit(f"CPU for each of {count} {kind} pictures", 1000 * cpu_s[count] / count, MOST_MS, "ms")
        for count in counts
    ]
    grown = [
        math.log(cpu_s[large] / cpu_s[small]) / math.log(large / small)
        for small, large in ((counts[0], counts[2]), (counts[1], counts[2]))
    ]
    return [*limits, Limit(f"the power by which that of all {kind} pictures grows", max(grown), MOST_GROWTH, "")]


def _drawn(task: tuple[str, Path, Sequence[int]]) -> dict[str, int]:
    kind, folder, numbers = task
    looks = {}
    for number in numbers:
        image = SCANS[kind](number)
        image.save(folder / f"{number:06}.png", compress_level=1)
        looks[f"{number:06}"] = perceptual_hash(np.asarray(image.convert("RGB"))) or 0
    return looks


def _opened(folder: Path, name: str) -> PIL.Image.Image:
    return PIL.Image.open(folder / f"{name}.png")
