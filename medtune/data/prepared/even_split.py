"""Divides patients into splits of given sizes so that every label is spread over them as evenly as possible."""

from collections import Counter
from collections.abc import Sequence
from heapq import heapify, heappop, heappush


def split_evenly(labels: Sequence[frozenset[str]], sizes: Sequence[int]) -> list[int]:
    """Returns the split (index into `sizes`) of each unit, such as a patient, so that labels are spread evenly.

    The label that the fewest waiting units carry is placed first. Each of its units goes to the split that still lacks
    most of that label, then to the one with most room, then to the first. A split should get its share of a label, and
    at least one unit with it. A full split takes no more, so that the sizes are met exactly. Units are taken in the
    given order: shuffle them first.

    Args:
        labels: The labels that each unit carries.
        sizes: The number of units in each split.

    Source: Sechidis et al., On the Stratification of Multi-Label Data, ECML PKDD 2011, algorithm 1; fixed sizes,
        the minimum of one and the order of ties are our own.
    """
    if sum(sizes) != len(labels):
        raise ValueError(f"sizes {list(sizes)} add up to {sum(sizes)}, there are {len(labels)} units.")
    splits = range(len(sizes))
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
    # Labels by the number of waiting units; a label whose number has changed is in the queue again with the new one.
    queue = [(count, label) for label, count in waiting.items()]
    heapify(queue)

    def place(unit: int, split: int) -> None:
        placed[unit] = split
        room[split] -= 1
        for label in labels[unit]:
            waiting[label] -= 1
            wanted[label][split] -= 1
            if label in carriers:
                heappush(queue, (waiting[label], label))

    while queue:
        count, rarest = heappop(queue)
        if rarest not in carriers or count != waiting[rarest]:
            continue
        for unit in carriers.pop(rarest):
            if unit not in placed:
                place(unit, max((p for p in splits if room[p]), key=lambda p: (wanted[rarest][p], room[p], -p)))
    for unit in range(len(labels)):
        if unit not in placed:
            place(unit, max((p for p in splits if room[p]), key=lambda p: (room[p], -p)))
    return [placed[unit] for unit in range(len(labels))]


def split_sizes(num_units: int, fractions: Sequence[float]) -> list[int]:
    """Returns the sizes of splits with the given fractions: largest remainders, at least one unit per fraction above 0.

    Example:
        >>> split_sizes(10, (0.7, 0.15, 0.15)), split_sizes(3, (0.8, 0.1, 0.1)), split_sizes(5, (0, 0, 1))
        ([7, 2, 1], [1, 1, 1], [0, 0, 5])
    """
    filled = [split for split, fraction in enumerate(fractions) if fraction > 0]
    if num_units < len(filled):
        raise ValueError(f"{num_units} units do not fill {len(filled)} splits.")
    shares = [num_units * fraction / sum(fractions) for fraction in fractions]
    sizes = [max(int(share), 1) if split in filled else 0 for split, share in enumerate(shares)]
    while sum(sizes) < num_units:
        sizes[max(filled, key=lambda split: (shares[split] - sizes[split], -split))] += 1
    while sum(sizes) > num_units:
        sizes[max(filled, key=lambda split: (sizes[split] > 1, sizes[split] - shares[split], sizes[split]))] -= 1
    return sizes
