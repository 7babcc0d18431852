"""The patients and media files that a model was trained on, as a checkpoint states them, and who of them is asked.

A checkpoint carries them among its facts, as does every export of it. Patients stand there as the keyed hashes of their
prepared folders, which only the user who has the key can make; media by the hash of what they show once decoded, which
is the same in every file format, and by perceptual hashes, which find them again where they were encoded or cut anew.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from medtune.data.prepared.lookalikes import Look, nearest_lookalikes
from medtune.data.prepared.question_rows import patient_key
from medtune.data.prepared.read import Prepared
from medtune.data.types import MediaGroup
from medtune.eval.data_label import NOT_RECORDED, recorded_label, unofficial_sets

_PATIENTS, _MEDIA, _KEY, _BEFORE = "learnt_patients", "learnt_media", "learnt_patient_key", "learnt_before"
_LOOKS = "learnt_looks"
_DIGITS = 16
"""Hexadecimal digits of a patient, and of a media file's content. Source: `HASH_HEX` of data/prepared/privacy.py."""


@dataclass(frozen=True, slots=True)
class Learnt:
    """What a model was trained on."""

    patients: frozenset[str] = frozenset()  # The hashes of the patients, 16 hexadecimal digits each.
    # The beginnings of the hashes of what the media show once they are decoded, 16 hexadecimal digits each.
    media: frozenset[str] = frozenset()
    # A fingerprint of each patient key with which the patients were hashed. Hashes of other keys cannot be compared.
    keys: frozenset[str] = frozenset()
    is_whole: bool = True  # Whether this is all; False if an earlier training did not record what it learnt from.
    looks: frozenset[Look] = frozenset()  # The perceptual hashes of the media that have one.

    def facts(self) -> dict[str, str]:
        """Returns the fields as a checkpoint holds them, the hashes one behind the other."""
        found = {
            _PATIENTS: "".join(sorted(self.patients)),
            _MEDIA: "".join(sorted(self.media)),
            _KEY: "".join(sorted(self.keys)),
            _LOOKS: ",".join(sorted(map(_look_text, self.looks))),
        }
        return found if self.is_whole else {**found, _BEFORE: NOT_RECORDED}

    def knows(self, shown: str) -> bool:
        """Returns whether a media file that shows this (a digest) was learnt."""
        return shown[:_DIGITS] in self.media

    def joined(self, others: Iterable[Learnt]) -> Learnt:
        """Returns what this training and earlier ones saw together."""
        every = (self, *others)
        return Learnt(
            frozenset().union(*(each.patients for each in every)),
            frozenset().union(*(each.media for each in every)),
            frozenset().union(*(each.keys for each in every)),
            all(each.is_whole for each in every),
            frozenset().union(*(each.looks for each in every)),
        )


NOTHING = Learnt()
UNKNOWN = Learnt(is_whole=False)


def learnt_facts(facts: Mapping[str, str]) -> dict[str, str]:
    """Returns those of a checkpoint's facts that say what it was trained on, for an export of it."""
    return {name: facts[name] for name in (_PATIENTS, _MEDIA, _KEY, _LOOKS, _BEFORE) if name in facts}


def read_learnt(facts: Mapping[str, str]) -> Learnt | None:
    """Returns what a checkpoint's facts say that it was trained on; None if they say nothing."""
    if _PATIENTS not in facts:
        return None
    patients, media, keys = (frozenset(_cut(facts.get(name, ""))) for name in (_PATIENTS, _MEDIA, _KEY))
    looks = frozenset(_look(text) for text in facts.get(_LOOKS, "").split(",") if text)
    return Learnt(patients, media, keys, is_whole=_BEFORE not in facts and _LOOKS in facts, looks=looks)


def _look_text(look: Look) -> str:
    return f"{look:0{_DIGITS}x}" if isinstance(look, int) else "".join(map(_look_text, look))


def _look(text: str) -> Look:
    pictures = tuple(int(each, 16) for each in _cut(text))
    return pictures[0] if len(pictures) == 1 else pictures


def _cut(text: str) -> Iterator[str]:
    return (text[start : start + _DIGITS] for start in range(0, len(text), _DIGITS))


def learnt_from(groups: Iterable[MediaGroup], contents: Mapping[str, str], looks: Mapping[str, Look]) -> Learnt:
    """Returns what training on these media groups teaches; contents and looks are those of `Prepared`."""
    patients: set[str] = set()
    media: set[str] = set()
    seen: set[Look] = set()
    for group in groups:
        patients.add(group.patient_id)
        media.update(_digests(group, contents))
        seen.update(looks[ref.path.name] for ref in group.media if ref.path.name in looks)
    return Learnt(frozenset(patients), frozenset(media), frozenset([_fingerprint()]), looks=frozenset(seen))


def comparable(learnt: Learnt) -> bool:
    """Returns whether all that a model learnt from is known, under this user's patient key."""
    return learnt.is_whole and learnt.keys <= {_fingerprint()}


def asked_again(learnt: Learnt, groups: Sequence[MediaGroup], contents: Mapping[str, str]) -> str:
    """Returns how much of what is asked was trained on, in numbers of patients and questions; "" if nothing was.

    A question was trained on if its patient was, or what it shows.
    """
    seen = [g for g in groups if g.patient_id in learnt.patients or not learnt.media.isdisjoint(_digests(g, contents))]
    if not seen:
        return ""
    patients, of = ({group.patient_id for group in each} for each in (seen, groups))
    questions, there = (sum(len(group.questions) for group in each) for each in (seen, groups))
    return f"{len(patients)} of the {len(of)} evaluated patients and {questions} of the {there} questions about them"


def looks_learnt(learnt: Learnt, groups: Sequence[MediaGroup], evaluated: Prepared) -> str:
    """Returns how many of the media that are asked about look like learnt ones, in words; "" if none does.

    Media that were learnt themselves, in whatever file format, are left out: `asked_again` counts them.
    """
    files = {ref.path.name for group in groups for ref in group.media}
    new = {name for name in files if evaluated.contents[name][:_DIGITS] not in learnt.media}
    asked = {name: evaluated.looks[name] for name in new if name in evaluated.looks}
    known = {str(number): look for number, look in enumerate(learnt.looks)}
    alike = {pair.image for pair in nearest_lookalikes(asked, known)}
    if not alike:
        return ""
    questions = sum(len(g.questions) for g in groups if any(ref.path.name in alike for ref in g.media))
    return (
        f"{len(alike)} of the {len(files)} evaluated media look like media that the weights were trained on, and "
        f"{questions} questions are about them"
    )


class SeenBefore(NamedTuple):
    """What of the evaluated media groups a model's weights were trained on."""

    # Numbers of patients and questions; `NOT_RECORDED` if trained weights do not say what they were trained on, or say
    # it under another user's patient key; "" if none of the patients and media was trained on, or the weights are those
    # of others.
    again: str = ""
    alike: str = ""  # How many other media look like ones that were trained on; "" if none does.
    unofficial: str = ""  # The sets for evaluation alone that were trained on, in the form of `unofficial_sets`.


NOT_TRAINED = SeenBefore()


def learnt_before(trained: Iterable[Mapping[str, str]]) -> Learnt:
    """Returns what weights were trained on, as the facts say it that their exports, adapters, checkpoints carry."""
    return NOTHING.joined(read_learnt(facts) or UNKNOWN for facts in trained)


def seen_before(trained: Sequence[Mapping[str, str]], groups: Sequence[MediaGroup], evaluated: Prepared) -> SeenBefore:
    """Returns how much of the evaluated media groups was trained on, by the facts of `learnt_before`."""
    if not trained:
        return NOT_TRAINED
    learnt = learnt_before(trained)
    again = asked_again(learnt, groups, evaluated.contents) or ("" if comparable(learnt) else NOT_RECORDED)
    unofficial = unofficial_sets([], before=[recorded_label(facts).unofficial_training for facts in trained])
    return SeenBefore(again, looks_learnt(learnt, groups, evaluated), unofficial)


def _digests(group: MediaGroup, contents: Mapping[str, str]) -> set[str]:
    return {contents[ref.path.name][:_DIGITS] for ref in group.media}


def _fingerprint() -> str:
    return hashlib.sha256(b"medtune patient key" + patient_key()).hexdigest()[:_DIGITS]
