"""Chooses the other patient whose media each group is shown under the condition "other_image"."""

from collections.abc import Sequence

import numpy as np

from medtune.data.types import MediaGroup, MediaKind

_Kinds = tuple[MediaKind, ...]
_Sort = tuple[_Kinds, frozenset[str], tuple[tuple[str, ...], ...]]


def other_groups(groups: Sequence[MediaGroup], *, seed: int) -> list[MediaGroup | None]:
    """Returns for each media group the other patient's group that is shown instead; None if no other can be shown.

    The patients are shuffled with the seed into a ring, and each is shown media of the next patient. A group is shown
    the next patient's group of the same sort, with as many items of the same kinds: images or videos with the same set
    of tasks, so that a question about a red box is shown another red box, or volumes with the same target organs. If
    the next patient has none, the patient after that is taken, and if nobody has one, the first group of the next
    patient that has as many items of the same kinds. Several groups of a sort take turns.
    """
    by_patient: dict[str, list[MediaGroup]] = {}
    for group in groups:
        by_patient.setdefault(group.patient_id, []).append(group)
    if len(by_patient) < 2:
        return [None] * len(groups)
    patients = list(by_patient)
    ring = [patients[number] for number in np.random.default_rng(seed).permutation(len(patients))]
    by_sort = {patient: _by_sort(found) for patient, found in by_patient.items()}
    place = {patient: number for number, patient in enumerate(ring)}
    turn: dict[tuple[str, _Sort], int] = {}
    chosen: list[MediaGroup | None] = []
    for group in groups:
        sort, kinds = _sort(group), _kinds(group)
        if not kinds:
            chosen.append(None)
            continue
        number = turn[group.patient_id, sort] = turn.get((group.patient_id, sort), -1) + 1
        after = place[group.patient_id] + 1
        others = [ring[(after + step) % len(ring)] for step in range(len(ring) - 1)]
        same = next((by_sort[other][sort] for other in others if sort in by_sort[other]), None)
        alike = (each for other in others for each in by_patient[other] if _kinds(each) == kinds)
        candidates: Sequence[MediaGroup | None] = same or [next(alike, None)]
        chosen.append(candidates[number % len(candidates)])
    return chosen


def _by_sort(groups: Sequence[MediaGroup]) -> dict[_Sort, list[MediaGroup]]:
    found: dict[_Sort, list[MediaGroup]] = {}
    for group in groups:
        found.setdefault(_sort(group), []).append(group)
    return found


def _kinds(group: MediaGroup) -> _Kinds:
    return tuple(ref.kind for ref in group.media)


def _sort(group: MediaGroup) -> _Sort:
    # The tasks of a scan are left out because they reveal what it shows: no question asks for the size of a lesion in
    # a healthy organ.
    asking = group.questions if "volume" not in _kinds(group) else ()
    tasks = frozenset(question.facets.get("task", "") for question in asking)
    return _kinds(group), tasks, tuple(ref.target for ref in group.media)
