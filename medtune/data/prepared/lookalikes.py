"""Joins look-alikes into groups, and finds look-alikes between two sets of media.

All pairs are compared, so that none is missed: 100,000 media take some seconds on one core. A volume or video has
several pictures and is compared with those that have as many; its first picture rules out most of the others.

Shapes: N media, P pictures of each.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from medtune.data.kept_rows import KeptRows
from medtune.data.types import Question, Split

MAX_DISTANCE = 8
"""The highest number of bits in which the hashes of look-alikes differ.

Source: measured on the 780 images of BUSI, which at 8 fall into 600 groups, as many as its release names women.
    Changed copies of 60 of them (scaled, compressed, brighter, cropped by a hundredth, with calipers) differ in at most
    8 bits; no two of 24 heads of different fetuses (HC18) do.
"""
MIN_SPAN = 8
"""The smallest span of grey values, of 256, with which an image has a hash; the value is our own choice."""

Look = int | tuple[int, ...]
"""The perceptual hash of an image, or those of the pictures of a video or volume in their order."""
MAX_PICTURE_DISTANCE = 16
"""The highest number of bits in which the hashes of any one picture of look-alike videos or volumes differ."""
_MAX_EDGES = 200_000
MOST_NAMED = 3
_PLACES = ("locali", "grounding", "detection", "segmentation")
TRAIN_TWIN = "look_alike_in_train"
"""The facet that says whether an image of train is in the same group of look-alikes: "yes" or "no"."""


def max_distance_of(num_pictures: int) -> int:
    """Returns the highest number of bits in which all hashes of look-alikes differ together: 8, or 4.5 for a picture.

    Source: measured on volumes. A real CT (ct_trunk, TotalSegmentator) that is resampled, cut to a window, noisy or
        cropped by two voxels differs from itself in at most 42 of 576 bits. Four real CTs differ from one another in
        at least 220, 24 patients of ct_phantom, who share their shapes, in at least 46. Videos take the same number.
    """
    return MAX_DISTANCE if num_pictures == 1 else num_pictures * 9 // 2


class LookalikeGroups(NamedTuple):
    """The groups into which images fall if every two look-alikes are in one group."""

    group_of: Mapping[str, str]  # The name of each image's group, which is the smallest name of its images.
    num_pairs: int  # The number of pairs whose hashes are near.
    again: tuple[tuple[str, str], ...] = ()  # The pairs that a second check found (`same_picture`).

    def joined(self, again: Sequence[tuple[str, str]]) -> "LookalikeGroups":
        """Returns the groups with more pairs, such as those that a second check finds."""
        group_of = dict(self.group_of)
        for pair in again:
            first, second = sorted(group_of[image] for image in pair)
            group_of = {image: first if group == second else group for image, group in group_of.items()}
        return LookalikeGroups(group_of, self.num_pairs, tuple(again))

    @property
    def several(self) -> dict[str, str]:
        """The group of each image that has look-alikes."""
        return {image: group for group, images in self.members().items() if len(images) > 1 for image in images}

    @property
    def num_groups(self) -> int:
        """The number of groups, with those of a single image."""
        return len(set(self.group_of.values()))

    @property
    def largest(self) -> int:
        """The number of images in the largest group; 0 if there are no images."""
        return max(map(len, self.members().values()), default=0)

    def members(self) -> dict[str, list[str]]:
        found: dict[str, list[str]] = defaultdict(list)
        for image, group in self.group_of.items():
            found[group].append(image)
        return found


class Lookalike(NamedTuple):
    """An image and the one among others that it resembles most, with the number of bits in which they differ."""

    image: str
    other: str
    distance: int


def lookalike_groups(looks: Mapping[str, Look], *, max_distance: int | None = None) -> LookalikeGroups:
    """Returns the groups of look-alikes; media of one group need not look alike if others lead from one to the other.

    Args:
        max_distance: The highest number of bits in which the hashes of look-alikes differ; None takes
            `max_distance_of` the number of their pictures.
    """
    group_of: dict[str, str] = {}
    num_pairs = 0
    for num_pictures, names in _by_pictures(looks).items():
        codes_PN = _codes(looks, names)
        joined, pairs = _joined(codes_PN, max_distance_of(num_pictures) if max_distance is None else max_distance)
        group_of.update({name: names[group] for name, group in zip(names, joined, strict=True)})
        num_pairs += pairs
    return LookalikeGroups(group_of, num_pairs)


def _joined(codes_PN: NDArray[np.uint64], max_distance: int) -> tuple[NDArray[np.intp], int]:
    from scipy.sparse import coo_array
    from scipy.sparse.csgraph import connected_components

    count = codes_PN.shape[1]
    group_N = np.arange(count)

    def joined(edges: Sequence[NDArray[np.intp]]) -> NDArray[np.intp]:
        here, there = (np.concatenate(ends) for ends in zip(*edges, strict=True))
        graph = coo_array((np.ones(len(here), bool), (here, there)), shape=(count, count))
        _, labels = connected_components(graph, directed=False)
        # The first item of a group stands for it, which is the one with the smallest name.
        _, first = np.unique(labels, return_index=True)
        standing: NDArray[np.intp] = first[labels]
        return standing

    num_pairs, waiting = 0, 0
    edges = [np.stack([np.arange(count), group_N])]
    for index, later in _pairs(codes_PN, max_distance):
        num_pairs += len(later)
        apart = later[group_N[later] != group_N[index]]
        waiting += len(apart)
        edges.append(np.stack([np.full(len(apart), index), apart]))
        # A film cut into frames has more pairs than fit into memory, so that they are joined on the way.
        if waiting > _MAX_EDGES:
            group_N, waiting = joined(edges), 0
            edges = [np.stack([np.arange(count), group_N])]
    return joined(edges), num_pairs


def pairs_across(
    looks: Mapping[str, Look], groups: LookalikeGroups, place_of: Mapping[str, str], *, max_distance: int | None = None
) -> int:
    """Returns the number of pairs of look-alikes whose media are in two places, such as splits."""
    crossing = [names for names in groups.members().values() if len({place_of[name] for name in names}) > 1]
    count = 0
    for names in crossing:
        places = np.array([place_of[name] for name in names])
        codes_PN = _codes(looks, names)
        limit = max_distance_of(len(codes_PN)) if max_distance is None else max_distance
        for index, later in _pairs(codes_PN, limit):
            count += int(np.count_nonzero(places[later] != places[index]))
    return count


def nearest_lookalikes(
    looks: Mapping[str, Look], others: Mapping[str, Look], *, max_distance: int | None = None
) -> list[Lookalike]:
    """Returns each item that looks like one of the others, with the nearest of them; sorted by distance and name."""
    theirs_by_pictures = _by_pictures(others)
    found = []
    for num_pictures, names in _by_pictures(looks).items():
        theirs = theirs_by_pictures.get(num_pictures, [])
        if not theirs:
            continue
        limit = max_distance_of(num_pictures) if max_distance is None else max_distance
        codes_PN = _codes(others, theirs)
        for name, code_P in zip(names, _codes(looks, names).T, strict=True):
            places, distances = _alike(codes_PN, code_P, limit)
            if len(places):
                nearest = int(distances.argmin())
                found.append(Lookalike(name, theirs[places[nearest]], int(distances[nearest])))
    return sorted(found, key=lambda pair: (pair.distance, pair))


def _pictures(look: Look) -> tuple[int, ...]:
    return (look,) if isinstance(look, int) else look


def _by_pictures(looks: Mapping[str, Look]) -> dict[int, list[str]]:
    found: dict[int, list[str]] = defaultdict(list)
    for name in sorted(looks):
        found[len(_pictures(looks[name]))].append(name)
    return found


def _codes(looks: Mapping[str, Look], names: Sequence[str]) -> NDArray[np.uint64]:
    return np.array([_pictures(looks[name]) for name in names], dtype=np.uint64).T.copy()


def _alike(
    codes_PN: NDArray[np.uint64], code_P: NDArray[np.uint64], max_distance: int
) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    most = max_distance if len(code_P) == 1 else min(max_distance, MAX_PICTURE_DISTANCE)
    first_N = np.bitwise_count(codes_PN[0] ^ code_P[0])
    places = np.flatnonzero(first_N <= most)
    distances = first_N[places].astype(np.intp)
    for codes_N, code in zip(codes_PN[1:], code_P[1:], strict=True):
        one = np.bitwise_count(codes_N[places] ^ code)
        distances = distances + one
        kept = (one <= most) & (distances <= max_distance)
        places, distances = places[kept], distances[kept]
    return places, distances


def _pairs(codes_PN: NDArray[np.uint64], max_distance: int) -> Iterator[tuple[int, NDArray[np.intp]]]:
    for index in range(codes_PN.shape[1] - 1):
        later, _ = _alike(codes_PN[:, index + 1 :], codes_PN[:, index], max_distance)
        if len(later):
            yield index, later + index + 1


def contradictions(
    questions: Iterable[Question], media_digest: Mapping[str, tuple[str, ...]], group_of: Mapping[str, str]
) -> tuple[str, ...]:
    """Returns for look-alikes with different answers to a question their media ids and the answers, as text.

    Questions about places are left out, because a crop moves what it shows.
    """
    said: dict[tuple[str, str, frozenset[str]], dict[str, list[str]]] = {}
    for question in questions:
        groups = {group_of[each] for each in media_digest[question.media_id] if each in group_of}
        if question.options and not any(word in question.facets.get("task", "") for word in _PLACES):
            for group in groups:
                answers = said.setdefault((group, question.text, frozenset(question.options)), {})
                answers.setdefault(question.answer, []).append(question.media_id)
    return tuple(
        "; ".join(f"{answer} in {' and '.join(ids)}" for answer, ids in answers.items()) + f" ({text!r})"
        for (_, text, _), answers in said.items()
        if len(answers) > 1
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Lookalikes:
    """What was found out about look-alikes when a folder was prepared."""

    max_distance: int  # The highest number of the 64 bits in which the perceptual hashes of look-alikes differ.
    is_simulated: bool  # Whether the images were simulated, so that they were not compared.
    kept_together: bool  # Whether each group of look-alikes was kept in one split where the source brings no split.
    num_images: int  # The number of different images that were compared.
    num_flat: int  # The number of different images, videos and volumes that are too flat to have a hash.
    num_others: int  # The number of different videos and volumes that were compared.
    num_groups: int  # The number of groups, with those of a single item.
    num_pairs: int
    largest: int  # The number of items in the largest group.
    num_across: int  # The number of pairs of look-alikes whose items are in two splits.
    num_twins: int  # The number of val and test questions whose item has a look-alike in train.
    # The number of further pairs of images that the second check found; None where it was not made.
    num_again: int | None = None
    not_searched: str = ""  # Why the second check was not made although there are images; "" where it was.
    # For look-alikes with different answers to a question, their media ids and the answers.
    contradictions: tuple[str, ...] = ()

    @property
    def across(self) -> str:
        """Says how many pairs are in two splits and why; "" if look-alikes were kept together and no pair is."""
        if self.is_simulated or (self.kept_together and not self.num_across):
            return ""
        why = "the source's own split" if self.kept_together else "--split-lookalikes"
        return f"{self.num_across} of {self.num_pairs + (self.num_again or 0)} pairs in two splits by {why}"

    def lines(self) -> tuple[str, ...]:
        """Returns what was found as short lines of plain text."""
        if self.is_simulated:
            return ("not compared: a simulation knows its patients",)
        found = []
        if self.num_images or self.num_others:
            what, rule = self._compared()
            largest = f", the largest group has {self.largest} {what}" if self.num_pairs else ""
            counted = " and ".join(f"{n} {kind}" for n, kind in self._kinds() if n)
            found.append(f"{counted} form {self.num_groups} groups ({rule}); {self.num_pairs} pairs{largest}")
            moved = "show one picture moved, cropped or drawn on (by the correlation of their details)"
            found += [] if self.num_again is None else [f"{self.num_again} more pairs {moved}"]
            found += [self.not_searched] if self.not_searched else []
            near = f"within {self.max_distance} of 64 bits" if self.num_images else "of such hashes"
            near += "" if self.num_again is None else " or of such a correlation"
            found.append(self.across or f"no pair {near} is in two splits")
        found += [f"look-alikes with different answers: {said}" for said in self.contradictions[:MOST_NAMED]]
        if (more := len(self.contradictions) - MOST_NAMED) > 0:
            found.append(f"{more} more look-alikes with different answers stand in manifest.json")
        if self.num_twins:
            found.append(
                f"{self.num_twins} val and test questions have a look-alike in train; they are scored apart too"
            )
        if self.num_flat:
            what = "images" if not self.num_others else "media"
            found.append(f"{self.num_flat} {what} are too flat to be compared; identical ones are in one split")
        return tuple(found)

    def _kinds(self) -> tuple[tuple[int, str], ...]:
        return (self.num_images, "images"), (self.num_others, "videos and volumes")

    def _compared(self) -> tuple[str, str]:
        images = f"perceptual hashes differ in at most {self.max_distance} of 64 bits"
        others = "perceptual hashes of pictures of them differ in at most 4.5 of 64 bits on average"
        if not self.num_others:
            return "images", images
        return ("media", f"{images}, {others}") if self.num_images else ("videos and volumes", others)


def with_train_twins(
    questions: Sequence[Question], media_digest: Mapping[str, tuple[str, ...]], group_of: Mapping[str, str]
) -> Sequence[Question]:
    """Returns the questions, where those of val and test say in the facet `TRAIN_TWIN` whether train has a look-alike.

    If no question of val or test has one, the questions are returned as they are.
    """
    groups = {
        media_id: {group_of[each] for each in digests if each in group_of} for media_id, digests in media_digest.items()
    }
    learnt = {group for question in questions if question.split == "train" for group in groups[question.media_id]}
    held_out: tuple[Split, ...] = ("val", "test")
    if not any(groups[question.media_id] & learnt for question in questions if question.split in held_out):
        return questions
    return KeptRows(
        replace(q, facets={**q.facets, TRAIN_TWIN: "yes" if groups[q.media_id] & learnt else "no"})
        if q.split in held_out
        else q
        for q in questions
    )
