"""The patients and media files that a model was trained on, as a checkpoint states them, and who of them is asked.

A checkpoint carries them among its facts, as does every export of it. Patients stand there as the keyed hashes of their
prepared folders, which only the user who has the key can make; media by the hash of what they show once decoded, which
is the same in every file format.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from medtune.data.prepared.question_rows import patient_key
from medtune.data.types import MediaGroup

_PATIENTS, _MEDIA, _KEY, _BEFORE = "learnt_patients", "learnt_media", "learnt_patient_key", "learnt_before"
_NOT_RECORDED = "not recorded"
_DIGITS = 16
"""Hexadecimal digits of a patient, and of a media file's content. Source: `HASH_HEX` of data/prepared/privacy.py."""


@dataclass(frozen=True, slots=True)
class Learnt:
    """What a model was trained on.

    Attributes:
        patients: The hashes of the patients, 16 hexadecimal digits each.
        media: The beginnings of the hashes of what the media show once they are decoded, 16 hexadecimal digits each.
        keys: A fingerprint of each patient key with which the patients were hashed. Hashes of other keys cannot be
            compared.
        is_whole: Whether this is all; False if an earlier training did not record what it learnt from.
    """

    patients: frozenset[str] = frozenset()
    media: frozenset[str] = frozenset()
    keys: frozenset[str] = frozenset()
    is_whole: bool = True

    def facts(self) -> dict[str, str]:
        """Returns the fields as a checkpoint holds them, the hashes one behind the other."""
        found = {
            _PATIENTS: "".join(sorted(self.patients)),
            _MEDIA: "".join(sorted(self.media)),
            _KEY: "".join(sorted(self.keys)),
        }
        return found if self.is_whole else {**found, _BEFORE: _NOT_RECORDED}

    def joined(self, others: Iterable[Learnt]) -> Learnt:
        """Returns what this training and earlier ones saw together."""
        every = (self, *others)
        return Learnt(
            frozenset().union(*(each.patients for each in every)),
            frozenset().union(*(each.media for each in every)),
            frozenset().union(*(each.keys for each in every)),
            all(each.is_whole for each in every),
        )


NOTHING = Learnt()
UNKNOWN = Learnt(is_whole=False)


def learnt_facts(facts: Mapping[str, str]) -> dict[str, str]:
    """Returns those of a checkpoint's facts that say what it was trained on, for an export of it."""
    return {name: facts[name] for name in (_PATIENTS, _MEDIA, _KEY, _BEFORE) if name in facts}


def read_learnt(facts: Mapping[str, str]) -> Learnt | None:
    """Returns what a checkpoint's facts say that it was trained on; None if they say nothing."""
    if _PATIENTS not in facts:
        return None
    patients, media, keys = (frozenset(_cut(facts.get(name, ""))) for name in (_PATIENTS, _MEDIA, _KEY))
    return Learnt(patients, media, keys, is_whole=_BEFORE not in facts)


def _cut(text: str) -> Iterator[str]:
    return (text[start : start + _DIGITS] for start in range(0, len(text), _DIGITS))


def learnt_from(groups: Iterable[MediaGroup], contents: Mapping[str, str]) -> Learnt:
    """Returns what training on these media groups teaches.

    Args:
        groups: The media groups.
        contents: The digest of what each media file shows, as `Prepared.contents` has it.
    """
    patients: set[str] = set()
    media: set[str] = set()
    for group in groups:
        patients.add(group.patient_id)
        media.update(_shown(group, contents))
    return Learnt(frozenset(patients), frozenset(media), frozenset([_fingerprint()]))


def comparable(learnt: Learnt) -> bool:
    """Returns whether all that a model learnt from is known, under this user's patient key."""
    return learnt.is_whole and learnt.keys <= {_fingerprint()}


def asked_again(learnt: Learnt, groups: Sequence[MediaGroup], contents: Mapping[str, str]) -> str:
    """Returns how much of what is asked was trained on, in numbers of patients and questions; "" if nothing was.

    A question was trained on if its patient was, or what it shows.

    Args:
        learnt: What the model was trained on.
        groups: The media groups that are asked about.
        contents: The digest of what each media file shows, as `Prepared.contents` has it.
    """
    seen = [g for g in groups if g.patient_id in learnt.patients or not learnt.media.isdisjoint(_shown(g, contents))]
    if not seen:
        return ""
    patients, of = ({group.patient_id for group in each} for each in (seen, groups))
    questions, there = (sum(len(group.questions) for group in each) for each in (seen, groups))
    return f"{len(patients)} of the {len(of)} evaluated patients and {questions} of the {there} questions about them"


def _shown(group: MediaGroup, contents: Mapping[str, str]) -> set[str]:
    return {contents[ref.path.name][:_DIGITS] for ref in group.media}


def _fingerprint() -> str:
    return hashlib.sha256(b"medtune patient key" + patient_key()).hexdigest()[:_DIGITS]
