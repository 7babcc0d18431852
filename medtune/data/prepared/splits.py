"""Assigns whole patients to train, val and test, and checks that no patient and no image is in two splits.

Patients whose images look alike stay together too, where `alike` says which images do, and so do equal questions that
show nothing.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from heapq import heapify, heappop, heappush
from itertools import compress
from typing import NamedTuple

from medtune.data.kept_rows import KeptRows, repeated
from medtune.data.prepared.split_leaks import split_leaks
from medtune.data.raw.source import Source, SourceTable
from medtune.data.readable import folded
from medtune.data.seeding import stable_int
from medtune.data.types import SPLITS, Question, Split, UnofficialSplit

NONE_ALIKE: Mapping[str, str] = {}
MOST_TOGETHER = 0.5
"""The largest share of the patients that look-alikes may tie together; the number is our own choice."""


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


@dataclass(frozen=True, slots=True, kw_only=True)
class Division:
    """How the patients of a source are divided.

    Attributes:
        fractions: The shares of train, val and test. A source for evaluation only is all test, whatever they say.
        unofficial: Divides by patient a source that is for evaluation only or brings its own split, which is then not
            kept; the manifest says so.
        split_lookalikes: Assigns splits by patient alone, so that images that look alike may be in two splits.
        keep_leaks: Keeps a split of the data that puts a patient or an image into two splits; the manifest counts the
            test questions that it concerns, and every output states them.
    """

    fractions: Fractions = DEFAULT_FRACTIONS
    unofficial: UnofficialSplit | None = None
    split_lookalikes: bool = False
    keep_leaks: bool = False

    def allowed_by(self, source: Source) -> "Division":
        """Returns the division of a source, which may be for evaluation only or keep its leaks in any case."""
        is_test = source.test_only and self.unofficial is None
        fractions = TEST_ONLY if is_test else self.fractions
        return replace(self, fractions=fractions, keep_leaks=self.keep_leaks or source.keeps_leaks)


DEFAULT_DIVISION = Division()


def check_fractions(fractions: Fractions) -> None:
    """Checks that the fractions of the splits are three positive numbers that add up to 1, or (0, 0, 1)."""
    whole = abs(sum(fractions) - 1) < 1e-6 and min(fractions) >= 0
    if not whole or (min(fractions) == 0 and fractions != (0, 0, 1)):
        raise ValueError(
            f"wanted fractions of train, val and test above 0 that add up to 1, or 0, 0, 1 for a test-only set, "
            f"got {', '.join(map(str, fractions))}."
        )


def answer_label(question: Question) -> str:
    """Returns the label that splits are balanced by: the task and answer of a choice question, else the task alone."""
    return f"{question.facets.get('task', '')}={question.answer if question.options else ''}"


def assign_splits(
    questions: Sequence[Question],
    media_digest: Mapping[str, tuple[str, ...]],
    *,
    seed: int,
    fractions: Fractions = DEFAULT_FRACTIONS,
    alike: Mapping[str, str] = NONE_ALIKE,
) -> KeptRows[Question]:
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
    facts = _facts(questions)
    units = _units(facts, _joined(media_digest, alike))
    given = _brought(facts, units)
    free = sorted({*units} - given.keys(), key=lambda unit: (stable_int(seed, "split", unit), unit))
    if free:
        shares = _shares(fractions, {*facts.splits})
        num_wanted = sum(share > 0 for share in shares)
        if len(free) < num_wanted:
            raise ValueError(
                f"wanted at least {num_wanted} patients without common images, one for each of train, val and test, "
                f"there are {len(free)}. Add patients or raise the limit."
                + " Questions that show nothing and are the same count as one image."
                + (" Images that look alike count as common; --split-lookalikes ignores that." if alike else "")
            )
        if alike and num_wanted > 1:
            _check_not_all_alike(facts, units, free, media_digest)
        labels = _labels(facts, units)
        numbers = split_evenly([labels[unit] for unit in free], split_sizes(len(free), shares))
        given.update({unit: SPLITS[number] for unit, number in zip(free, numbers, strict=True)})
    # What the source brought for a patient or an identical image weighs more than what it brought for look-alikes.
    same = _units(facts, media_digest) if alike else units
    nearer = _brought(facts, same) if alike else {}
    return KeptRows(
        question if question.split else replace(question, split=nearer.get(own, given[unit]))
        for question, unit, own in zip(questions, units, same, strict=True)
    )


def same_questions(table: SourceTable, questions: Iterable[Question]) -> Mapping[str, tuple[str, ...]]:
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
            turns = tuple((folded(turn.asked), folded(turn.answer)) for turn in raw.turns)
            asked = (folded(raw.text), tuple(sorted(map(folded, raw.options))), turns)
            found[question.media_id] = (first.setdefault(asked, question.media_id),)
    return found


def with_alike_patients(
    questions: Sequence[Question], media_digest: Mapping[str, tuple[str, ...]], alike: Mapping[str, str]
) -> KeptRows[Question]:
    """Returns the questions, where images that look alike and are in one split count as one patient.

    It is for data that do not say whose images they are: intervals then take such images for one patient's, as splits
    do.
    """
    facts, joined = _facts(questions), _joined(media_digest, alike)
    units = {split: iter(_units(facts.of(split), joined)) for split in SPLITS}
    unit_of = [next(units[split or "test"]) for split in facts.splits]
    first: dict[tuple[Split | None, str], str] = {}
    for patient, split, unit in zip(facts.patients, facts.splits, unit_of, strict=True):
        first[split, unit] = min(first.get((split, unit), patient), patient)
    return KeptRows(
        replace(question, patient_id=first[question.split, unit])
        for question, unit in zip(questions, unit_of, strict=True)
    )


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
    facts = _facts(questions)
    brought = {*facts.splits}
    drawn = [split for split in SPLITS[1:] if split not in brought and getattr(fractions, split)]
    if None in brought or "train" not in brought or not drawn:
        return DrawnSplits(questions, ())
    learnt = facts.of("train")
    unit_of = _units(learnt, _joined(media_digest, alike))
    labels = _labels(learnt, unit_of)
    units = sorted(labels, key=lambda unit: (stable_int(seed, *drawn, unit), unit))
    if len(units) <= len(drawn):
        raise ValueError(
            f"the data bring no {' and no '.join(drawn)}, and train holds {len(units)} patients without common images, "
            f"which cannot be divided into {len(drawn) + 1} splits. Add patients."
        )
    sizes = split_sizes(len(units), (fractions.train, *(getattr(fractions, split) for split in drawn)))
    numbers = split_evenly([labels[unit] for unit in units], sizes)
    moved: dict[str, Split] = {unit: drawn[number - 1] for unit, number in zip(units, numbers, strict=True) if number}
    of_train = iter(unit_of)
    notes = tuple(
        f"the source brings no {split}: {size} of {len(units)} patients of its train are {split} here, by seed {seed}"
        for split, size in zip(drawn, sizes[1:], strict=True)
    )
    return DrawnSplits(
        KeptRows(replace(q, split=moved.get(next(of_train), "train")) if q.split == "train" else q for q in questions),
        notes,
    )


def assign_folds(
    questions: Sequence[Question],
    media_digest: Mapping[str, tuple[str, ...]],
    *,
    seed: int,
    folds: int,
    alike: Mapping[str, str] = NONE_ALIKE,
) -> list[int]:
    """Returns the fold of each question, from 1: units of `assign_splits` are whole, and answers are spread evenly."""
    facts = _facts(questions)
    unit_of = _units(facts, _joined(media_digest, alike))
    labels = _labels(facts, unit_of)
    units = sorted(labels, key=lambda unit: (stable_int(seed, "fold", unit), unit))
    most = len(units) if len(units) > 2 else 0
    # The patients of the other folds are divided into train and val.
    if folds > most or len(units) - -(-len(units) // folds) < 2:
        raise ValueError(
            f"wanted {folds} folds, there are {len(units)} patients without common images. Each fold needs one, and "
            f"the others two, to learn and to validate: {f'take at most {most} folds' if most else 'add patients'}"
        )
    numbers = split_evenly([labels[unit] for unit in units], split_sizes(len(units), (1.0,) * folds))
    fold_of = {unit: number + 1 for unit, number in zip(units, numbers, strict=True)}
    return [fold_of[unit] for unit in unit_of]


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


class _Facts(NamedTuple):
    """What decides the splits: of each question, with equal texts once in memory."""

    media: list[str]  # The media ids.
    patients: list[str]
    splits: list[Split | None]
    labels: list[str]

    def of(self, split: Split) -> "_Facts":
        return self.where([own == split for own in self.splits])

    def where(self, chosen: Sequence[bool]) -> "_Facts":
        media, patients, labels = (
            list(compress(column, chosen)) for column in (self.media, self.patients, self.labels)
        )
        return _Facts(media, patients, list(compress(self.splits, chosen)), labels)


def _facts(questions: Iterable[Question]) -> _Facts:
    found, once = _Facts([], [], [], []), dict[str, str]()
    for question in questions:
        label = answer_label(question)
        found.media.append(once.setdefault(question.media_id, question.media_id))
        found.patients.append(once.setdefault(question.patient_id, question.patient_id))
        found.splits.append(question.split)
        found.labels.append(once.setdefault(label, label))
    return found


def _brought(facts: _Facts, units: Iterable[str]) -> dict[str, Split]:
    """Returns the last of the splits that the source brought for each unit, where it brought one."""
    found: dict[str, Split] = {}
    for split, unit in zip(facts.splits, units, strict=True):
        if split is not None:
            found[unit] = max(found.get(unit, split), split, key=SPLITS.index)
    return found


def _labels(facts: _Facts, units: Iterable[str]) -> dict[str, frozenset[str]]:
    """Returns the labels of the questions of each unit."""
    found: dict[str, set[str]] = defaultdict(set)
    for label, unit in zip(facts.labels, units, strict=True):
        found[unit].add(label)
    return {unit: frozenset(labels) for unit, labels in found.items()}


def _check_not_all_alike(
    facts: _Facts, units: Sequence[str], free: Sequence[str], media_digest: Mapping[str, tuple[str, ...]]
) -> None:
    members: dict[str, set[str]] = {unit: set() for unit in free}
    for patient, unit in zip(facts.patients, units, strict=True):
        if unit in members:
            members[unit].add(patient)
    patients = {unit: len(its_patients) for unit, its_patients in members.items()}
    largest, every = max(free, key=patients.__getitem__), sum(patients.values())
    of_largest = facts.where([unit == largest for unit in units])
    if patients[largest] <= MOST_TOGETHER * every or len({*_units(of_largest, media_digest)}) == 1:
        return
    raise ValueError(
        f"look-alikes tie {patients[largest]} of {every} patients together, who would all be in one split: the "
        "images of this set are so much alike that the perceptual hash cannot tell patients apart. Prepare it with "
        "--split-lookalikes: then splits are by patient alone, and every output says so."
    )


def _units(facts: _Facts, media_digest: Mapping[str, tuple[str, ...]]) -> list[str]:
    """Returns the unit of each question, by the smallest name in it."""
    parent: dict[str, str] = {}

    def root(digest: str) -> str:
        while parent.setdefault(digest, digest) != digest:
            parent[digest] = parent[parent[digest]]
            digest = parent[digest]
        return digest

    first_image: dict[str, str] = {}
    for media_id, patient in zip(facts.media, facts.patients, strict=True):
        for digest in media_digest[media_id]:
            one, other = root(digest), root(first_image.setdefault(patient, digest))
            parent[max(one, other)] = min(one, other)
    return [root(media_digest[media_id][0]) for media_id in facts.media]


def _check_questions(questions: Sequence[Question]) -> None:
    if again := repeated(questions, lambda question: question.id):
        first = min(again, key=lambda question_id: again[question_id][0])
        raise ValueError(
            f"{len(again)} question ids come more than once, the first is {first}. "
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
