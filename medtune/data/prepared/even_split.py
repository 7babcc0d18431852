"""Divides units into parts of given sizes so that every label is spread as evenly as it can be."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from heapq import heapify, heappop, heappush


def split_evenly(labels: Sequence[frozenset[str]], sizes: Sequence[int]) -> list[int]:
    """Returns the part (index into `sizes`) of each unit.

    The label that the fewest waiting units carry goes first; each of its units goes to the part that still wants
    most of that label, then to the one with most room, then to the first. A part wants its share of a label, and
    one unit of it at least. A full part takes no more, so the sizes come out exactly. Units are taken in the order
    given: shuffle them first.

    Raises:
        ValueError: The sizes do not add up to the number of units.

    Source: Sechidis et al., On the Stratification of Multi-Label Data, ECML PKDD 2011, algorithm 1; fixed sizes,
        the minimum of one and the order of ties are our own.
    """
    if sum(sizes) != len(labels):
        raise ValueError(f"sizes {list(sizes)} add up to {sum(sizes)}, there are {len(labels)} units.")
    parts = range(len(sizes))
    room = list(sizes)
    waiting = Counter(label for unit in labels for label in unit)
    wanted = {
        label: [max(1.0, count * size / len(labels)) if size else 0.0 for size in sizes]
        for label, count in waiting.items()
    }
    carriers: dict[str, list[int]] = {label: [] for label in waiting}
    for unit, carried in enumerate(labels):
        for label in carried:
            carriers[label].append(unit)
    placed: dict[int, int] = {}
    # Labels by what waits for them; a label whose count has changed since is there again, with the new one.
    queue = [(count, label) for label, count in waiting.items()]
    heapify(queue)

    def place(unit: int, part: int) -> None:
        placed[unit] = part
        room[part] -= 1
        for label in labels[unit]:
            waiting[label] -= 1
            wanted[label][part] -= 1
            if label in carriers:
                heappush(queue, (waiting[label], label))

    while queue:
        count, rarest = heappop(queue)
        if rarest not in carriers or count != waiting[rarest]:
            continue
        for unit in carriers.pop(rarest):
            if unit not in placed:
                place(unit, max((p for p in parts if room[p]), key=lambda p: (wanted[rarest][p], room[p], -p)))
    for unit in range(len(labels)):
        if unit not in placed:
            place(unit, max((p for p in parts if room[p]), key=lambda p: (room[p], -p)))
    return [placed[unit] for unit in range(len(labels))]


def part_sizes(num_units: int, fractions: Sequence[float]) -> list[int]:
    """Returns whole sizes that add up to `num_units`: largest remainders, one unit at least per fraction above 0.

    Raises:
        ValueError: There are fewer units than parts to fill.

    Example:
        >>> part_sizes(10, (0.7, 0.15, 0.15)), part_sizes(3, (0.8, 0.1, 0.1)), part_sizes(5, (0, 0, 1))
        ([7, 2, 1], [1, 1, 1], [0, 0, 5])
    """
    filled = [part for part, fraction in enumerate(fractions) if fraction > 0]
    if num_units < len(filled):
        raise ValueError(f"{num_units} units do not fill {len(filled)} parts.")
    shares = [num_units * fraction / sum(fractions) for fraction in fractions]
    sizes = [max(int(share), 1) if part in filled else 0 for part, share in enumerate(shares)]
    while sum(sizes) < num_units:
        sizes[max(filled, key=lambda part: (shares[part] - sizes[part], -part))] += 1
    while sum(sizes) > num_units:
        sizes[max(filled, key=lambda part: (sizes[part] > 1, sizes[part] - shares[part], sizes[part]))] -= 1
    return sizes
