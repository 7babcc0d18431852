"""Chooses the other patient whose media each group is shown under the condition "other_image"."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from medtune.data.types import MediaGroup, MediaKind

_Kind = tuple[MediaKind, frozenset[str], tuple[str, ...]]


def other_groups(groups: Sequence[MediaGroup], *, seed: int) -> list[MediaGroup | None]:
    """Returns for each media group the other patient's group that is shown instead; None if there is one patient.

    The patients are shuffled with the seed into a ring, and each is shown media of the next patient. A group is shown
    the next patient's group of the same kind: an image or video with the same set of tasks, so that a question about a
    red box is shown another red box, or a volume with the same target organ. If the next patient has none, the patient
    after that is taken, and if nobody has one, the first group of the next patient. Several groups of a kind take
    turns.
    """
    by_patient: dict[str, list[MediaGroup]] = {}
    for group in groups:
        by_patient.setdefault(group.patient_id, []).append(group)
    if len(by_patient) < 2:
        return [None] * len(groups)
    patients = list(by_patient)
    ring = [patients[number] for number in np.random.default_rng(seed).permutation(len(patients))]
    by_kind = {patient: _by_kind(found) for patient, found in by_patient.items()}
    place = {patient: number for number, patient in enumerate(ring)}
    turn: dict[tuple[str, _Kind], int] = {}
    chosen: list[MediaGroup | None] = []
    for group in groups:
        kind = _kind(group)
        number = turn[group.patient_id, kind] = turn.get((group.patient_id, kind), -1) + 1
        after = place[group.patient_id] + 1
        others = (ring[(after + step) % len(ring)] for step in range(len(ring) - 1))
        same = next((by_kind[other][kind] for other in others if kind in by_kind[other]), None)
        candidates = same or by_patient[ring[after % len(ring)]][:1]
        chosen.append(candidates[number % len(candidates)])
    return chosen


def _by_kind(groups: Sequence[MediaGroup]) -> dict[_Kind, list[MediaGroup]]:
    found: dict[_Kind, list[MediaGroup]] = {}
    for group in groups:
        found.setdefault(_kind(group), []).append(group)
    return found


def _kind(group: MediaGroup) -> _Kind:
    # The tasks of a scan are left out because they reveal what it shows: no question asks for the size of a lesion in
    # a healthy organ.
    asking = group.questions if group.media.kind != "volume" else ()
    tasks = frozenset(question.facets.get("task", "") for question in asking)
    return group.media.kind, tasks, group.media.target
