"""Assigns whole patients to train, val and test, and checks that no patient and no image is in two splits.

Patients whose images look alike stay together too, where `alike` says which images do, and so do equal questions that
show nothing.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from heapq import heapify, heappop, heappush
from typing import NamedTuple

from medtune.data.prepared.split_leaks import split_leaks
from medtune.data.raw.source import SourceTable
from medtune.data.seeding import stable_int
from medtune.data.types import SPLITS, Question, Split


def split_evenly(labels: Sequence[frozenset[str]], sizes: Sequence[int]) -> list[int]:
    """Returns the split (index into `sizes`) of each unit, such as a patient, so that labels are spread evenly.

    The label that the fewest waiting units carry is placed first. Each of its units goes to the split that still lacks
    most of that label, then to the one with most room, then to the first. A split should get its share of a label, and
    at least one unit with it. A full split takes no more, so that the sizes are met exactly. Units are taken in the
    given order: shuffle them first.

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


class Fractions(NamedTuple):
    """The share of patients that each split gets: all three above 0, or everything in test."""

    train: float
    val: float
    test: float


DEFAULT_FRACTIONS = Fractions(0.7, 0.15, 0.15)
TEST_ONLY = Fractions(0, 0, 1)
NONE_ALIKE: Mapping[str, str] = {}
MOST_TOGETHER = 0.5
"""The largest share of the patients that look-alikes may tie together; the number is our own choice."""


def check_fractions(fractions: Fractions) -> None:
    """Checks that the fractions of the splits are three positive numbers that add up to 1, or (0, 0, 1)."""
    whole = abs(sum(fractions) - 1) < 1e-6 and min(fractions) >= 0
    if not whole or (min(fractions) == 0 and fractions != (0, 0, 1)):
        raise ValueError(
            f"wanted fractions of train, val and test above 0 that add up to 1, or 0, 0, 1 for a test-only set, "
            f"got {', '.join(map(str, fractions))}."
        )


def answer_labels(questions: Iterable[Question]) -> frozenset[str]:
    """Returns the labels that splits are balanced by: the task and answer of a choice question, else the task alone."""
    return frozenset(
        f"{question.facets.get('task', '')}={question.answer if question.options else ''}" for question in questions
    )


def assign_splits(
    questions: Sequence[Question],
    media_digest: Mapping[str, tuple[str, ...]],
    *,
    seed: int,
    fractions: Fractions = DEFAULT_FRACTIONS,
    alike: Mapping[str, str] = NONE_ALIKE,
) -> tuple[Question, ...]:
    """Returns the questions with a split each; patients stay whole, and patients with an identical image stay together.

    A unit is a patient, or several patients with identical images or with images that look alike. Units are ordered by
    (seed, smallest image digest), so that file names, patient ids and the machine do not matter, and divided by
    `split_evenly`, so that each task's answers are spread evenly. A split that the source brought is kept, and holds
    for the whole unit. Other units do not join a val or test that the source brought, so that these stay what the
    source calls so. If the source brought several for images that look alike, the rest of the unit joins the last of
    them: test before val before train.

    Args:
        media_digest: The digests of the pixels, without drawn boxes, of the items of every media id.
    """
    check_fractions(fractions)
    members = _units(questions, _joined(media_digest, alike))
    given = {unit: brought for unit, its_questions in members.items() if (brought := _brought(its_questions))}
    free = sorted(members.keys() - given.keys(), key=lambda unit: (stable_int(seed, "split", unit), unit))
    if free:
        shares = _shares(fractions, {question.split for question in questions})
        num_wanted = sum(share > 0 for share in shares)
        if len(free) < num_wanted:
            raise ValueError(
                f"wanted at least {num_wanted} patients without common images, one for each of train, val and test, "
                f"there are {len(free)}. Add patients or raise the limit."
                + " Questions that show nothing and are the same count as one image."
                + (" Images that look alike count as common; --split-lookalikes ignores that." if alike else "")
            )
        if alike and num_wanted > 1:
            _check_not_all_alike([members[unit] for unit in free], media_digest)
        numbers = split_evenly([answer_labels(members[unit]) for unit in free], split_sizes(len(free), shares))
        given.update({unit: SPLITS[number] for unit, number in zip(free, numbers, strict=True)})
    split_of = {question.id: given[unit] for unit, its_questions in members.items() for question in its_questions}
    if alike:
        # What the source brought for a patient or an identical image weighs more than what it brought for look-alikes.
        for its_questions in _units(questions, media_digest).values():
            if brought := _brought(its_questions):
                split_of.update({question.id: brought for question in its_questions})
    return tuple(q if q.split else replace(q, split=split_of[q.id]) for q in questions)


def same_questions(table: SourceTable, questions: Sequence[Question]) -> Mapping[str, tuple[str, ...]]:
    """Returns for the media id of each question that shows nothing the media id of the first one that asks the same.

    Two questions ask the same if text, options in any order and earlier turns are equal but for case and spaces.
    Questions whose patient is known are left out: different patients may be asked the same.

    Args:
        table: The table of the source, in which a media id stands for the patient where none is known.
    """
    first: dict[object, str] = {}
    found = {}
    for raw, question in zip(table.questions, questions, strict=True):
        if not table.media[raw.media_id] and raw.patient_id == raw.media_id:
            turns = tuple((_plain(turn.asked), _plain(turn.answer)) for turn in raw.turns)
            asked = (_plain(raw.text), tuple(sorted(map(_plain, raw.options))), turns)
            found[question.media_id] = (first.setdefault(asked, question.media_id),)
    return found


def with_alike_patients(
    questions: Sequence[Question], media_digest: Mapping[str, tuple[str, ...]], alike: Mapping[str, str]
) -> list[Question]:
    """Returns the questions, where images that look alike and are in one split count as one patient.

    It is for data that do not say whose images they are: intervals then take such images for one patient's, as splits
    do.
    """
    joined = _joined(media_digest, alike)
    patient_of = {}
    for split in SPLITS:
        for unit in _units([question for question in questions if question.split == split], joined).values():
            patient_of.update(dict.fromkeys((q.id for q in unit), min(q.patient_id for q in unit)))
    return [replace(question, patient_id=patient_of[question.id]) for question in questions]


class DrawnSplits(NamedTuple):
    """The questions after missing splits were taken out of train, and a note about it; no note where none was."""

    questions: Sequence[Question]
    notes: tuple[str, ...]


def draw_missing_splits(
    questions: Sequence[Question],
    media_digest: Mapping[str, tuple[str, ...]],
    *,
    seed: int,
    fractions: Fractions,
    alike: Mapping[str, str] = NONE_ALIKE,
) -> DrawnSplits:
    """Returns the questions with val or test, or both, taken out of train by patient, if the source brings only others.

    A drawn split gets its fraction of train and itself, at least one unit; the splits that the source brings stay as
    they are. Nothing is done where some questions have no split, or where the source brings no train. Units are those
    of `assign_splits`.
    """
    brought = {question.split for question in questions}
    drawn = [split for split in SPLITS[1:] if split not in brought and getattr(fractions, split)]
    if None in brought or "train" not in brought or not drawn:
        return DrawnSplits(questions, ())
    learnt = [question for question in questions if question.split == "train"]
    members = _units(learnt, _joined(media_digest, alike))
    units = sorted(members, key=lambda unit: (stable_int(seed, *drawn, unit), unit))
    if len(units) <= len(drawn):
        raise ValueError(
            f"the data bring no {' and no '.join(drawn)}, and train holds {len(units)} patients without common images, "
            f"which cannot be divided into {len(drawn) + 1} splits. Add patients."
        )
    sizes = split_sizes(len(units), (fractions.train, *(getattr(fractions, split) for split in drawn)))
    numbers = split_evenly([answer_labels(members[unit]) for unit in units], sizes)
    moved = {
        q.id: drawn[number - 1] for unit, number in zip(units, numbers, strict=True) if number for q in members[unit]
    }
    notes = tuple(
        f"the source brings no {split}: {size} of {len(units)} patients of its train are {split} here, by seed {seed}"
        for split, size in zip(drawn, sizes[1:], strict=True)
    )
    return DrawnSplits([replace(q, split=moved[q.id]) if q.id in moved else q for q in questions], notes)


def assign_folds(
    questions: Sequence[Question],
    media_digest: Mapping[str, tuple[str, ...]],
    *,
    seed: int,
    folds: int,
    alike: Mapping[str, str] = NONE_ALIKE,
) -> list[int]:
    """Returns the fold of each question, from 1: units of `assign_splits` are whole, and answers are spread evenly."""
    members = _units(questions, _joined(media_digest, alike))
    units = sorted(members, key=lambda unit: (stable_int(seed, "fold", unit), unit))
    most = len(units) if len(units) > 2 else 0
    # The patients of the other folds are divided into train and val.
    if folds > most or len(units) - -(-len(units) // folds) < 2:
        raise ValueError(
            f"wanted {folds} folds, there are {len(units)} patients without common images. Each fold needs one, and "
            f"the others two, to learn and to validate: {f'take at most {most} folds' if most else 'add patients'}"
        )
    numbers = split_evenly([answer_labels(members[unit]) for unit in units], split_sizes(len(units), (1.0,) * folds))
    fold_of = {
        question.id: number + 1 for unit, number in zip(units, numbers, strict=True) for question in members[unit]
    }
    return [fold_of[question.id] for question in questions]


def check_splits(
    questions: Sequence[Question], media_digest: Mapping[str, tuple[str, ...]], *, keep_leaks: bool = False
) -> dict[str, int]:
    """Checks that no split leaks into another and that every question can be scored; no message names a patient.

    Returns:
        The test questions that leaks concern, by kind, as `split_leaks` counts them; empty unless leaks are kept.
    """
    _check_questions(questions)
    counts = Counter(question.split for question in questions)
    empty = [split for split in SPLITS if not counts[split]]
    if empty and set(counts) != {"test"}:
        raise ValueError(
            f"no question is in {' or '.join(empty)}: train, val and test are all needed, unless everything is test. "
            "Raise the limit, or change the fractions or the split that the source brings."
        )
    return split_leaks(questions, media_digest, keep=keep_leaks)


def _shares(fractions: Fractions, brought: set[Split | None]) -> tuple[float, ...]:
    if fractions == TEST_ONLY:
        return fractions
    return tuple(
        0.0 if split in brought and split != "train" else fraction
        for split, fraction in zip(SPLITS, fractions, strict=True)
    )


def _joined(media_digest: Mapping[str, tuple[str, ...]], alike: Mapping[str, str]) -> Mapping[str, tuple[str, ...]]:
    if not alike:
        return media_digest
    return {media_id: tuple(alike.get(each, each) for each in digests) for media_id, digests in media_digest.items()}


def _brought(questions: Iterable[Question]) -> Split | None:
    return max((q.split for q in questions if q.split is not None), key=SPLITS.index, default=None)


def _check_not_all_alike(units: Sequence[Sequence[Question]], media_digest: Mapping[str, tuple[str, ...]]) -> None:
    patients = [len({question.patient_id for question in unit}) for unit in units]
    largest = max(range(len(units)), key=patients.__getitem__)
    if patients[largest] <= MOST_TOGETHER * sum(patients) or len(_units(units[largest], media_digest)) == 1:
        return
    raise ValueError(
        f"look-alikes tie {patients[largest]} of {sum(patients)} patients together, who would all be in one split: the "
        "images of this set are so much alike that the perceptual hash cannot tell patients apart. Prepare it with "
        "--split-lookalikes: then splits are by patient alone, and every output says so."
    )


def _plain(text: str) -> str:
    return " ".join(text.casefold().split())


def _units(questions: Sequence[Question], media_digest: Mapping[str, tuple[str, ...]]) -> dict[str, list[Question]]:
    parent: dict[str, str] = {}

    def root(digest: str) -> str:
        while parent.setdefault(digest, digest) != digest:
            parent[digest] = parent[parent[digest]]
            digest = parent[digest]
        return digest

    first_image: dict[str, str] = {}
    for question in questions:
        for digest in media_digest[question.media_id]:
            one, other = root(digest), root(first_image.setdefault(question.patient_id, digest))
            parent[max(one, other)] = min(one, other)
    members: dict[str, list[Question]] = defaultdict(list)
    for question in questions:
        members[root(media_digest[question.media_id][0])].append(question)
    return members


def _check_questions(questions: Sequence[Question]) -> None:
    repeated = [question_id for question_id, count in Counter(q.id for q in questions).items() if count > 1]
    if repeated:
        raise ValueError(
            f"{len(repeated)} question ids come more than once, the first is {repeated[0]}. "
            "Ids must be unique: correct the source."
        )
    for question in questions:
        if question.split is None:
            raise ValueError(f"question {question.id} has no split. Assign splits first.")
        if question.options and question.answer not in question.options:
            raise ValueError(
                f"question {question.id}: the answer {question.answer!r} is not among the options "
                f"{', '.join(map(repr, question.options))}. Correct the source."
            )
