"""Asks about a simulated scan in CTLesionVQA's subtypes, with short questions and answers in equal shares."""

from collections.abc import Sequence
from typing import NamedTuple

from medtune.benchmarks.ctlesionvqa.sources.ct_phantom.anatomy import Patient
from medtune.benchmarks.ctlesionvqa.sources.ct_phantom.lesions import (
    ADJECTIVES,
    PLACES,
    SITES,
    WITH_KINDS,
    Lesion,
    Site,
)
from medtune.benchmarks.ctlesionvqa.sources.ct_phantom.metadata_table import HYPO
from medtune.benchmarks.facets import age_decade, contrast_bin, diameter_bin
from medtune.data.raw.lettered_options import choice_question
from medtune.data.seeding import stable_order
from medtune.data.types import Question

MEASUREMENT, RECOGNITION = "measurement", "recognition"
VISUAL, MEDICAL = "visual reasoning", "medical reasoning"
YES, NO = "Yes", "No"
VOLUMES_CM3 = (1.0, 5.0, 12.0, 25.0)
"""The options of questions about volumes, to the nearest of which a volume is rounded.

Each is about the middle of one quarter of all lesions.
"""
_UPPER_ENDS_CM3 = (2.5, 8.0, 17.0)
_NUM_OPTIONS = 4


class Subject(NamedTuple):
    """The facts that all questions about one scan share."""

    media_id: str
    patient: Patient
    seed: int

    def facets(self, task: str, subtype: str, site: Site, lesion: Lesion | None) -> dict[str, str]:
        """Returns the facets that CTLesionVQA breaks scores down by."""
        patient = self.patient
        found = {
            "task": task,
            "subtype": subtype,
            "organ": site,
            "sex": patient.sex,
            "scanner": patient.maker,
            "phase": patient.phase,
        }
        decade = age_decade(patient.age_years)
        found |= {"age": decade} if decade else {}
        if lesion is not None:
            found["diameter"] = diameter_bin(lesion.diameter_mm / 10)
            found["hu_contrast"] = contrast_bin(lesion.contrast_hu)
        return found


def questions(subject: Subject, lesions: Sequence[Lesion]) -> list[Question]:
    """Returns the questions whether each organ has lesions and, if it has, about its largest lesion."""
    asked: list[Question] = []
    for site in SITES:
        largest = next((lesion for lesion in lesions if lesion.site == site), None)
        asked.append(_existence(subject, site, largest))
        if largest is not None:
            asked += [_attenuation(subject, largest), _location(subject, largest)]
            asked += [_kind(subject, largest)] if site in WITH_KINDS else []
    # Only one question for each scan asks for a volume, because its four options make it the longest.
    measured = stable_order([lesion.site for lesion in lesions], subject.seed, subject.media_id, "measured")
    asked += [_volume(subject, lesion) for lesion in lesions if lesion.site in measured[:1]][:1]
    return asked


def _existence(subject: Subject, site: Site, lesion: Lesion | None) -> Question:
    subtype = f"{ADJECTIVES[site]} lesion existence"
    text = f"Is there a lesion in the {site}?"
    return _yes_no(subject, site, lesion, RECOGNITION, subtype, text, is_yes=lesion is not None)


def _attenuation(subject: Subject, lesion: Lesion) -> Question:
    text = f"Is the largest {ADJECTIVES[lesion.site]} lesion {HYPO}?"
    subtype = "largest lesion attenuation"
    return _yes_no(subject, lesion.site, lesion, VISUAL, subtype, text, is_yes=not lesion.is_bright)


def _location(subject: Subject, lesion: Lesion) -> Question:
    text = f"Where is the largest {ADJECTIVES[lesion.site]} lesion?"
    places = PLACES[lesion.site]
    return _choice(subject, lesion, VISUAL, "largest lesion location", text, lesion.place, places)


def _volume(subject: Subject, lesion: Lesion) -> Question:
    labels = [f"{volume:g} cc" for volume in VOLUMES_CM3]
    answer = labels[sum(lesion.volume_cm3 > end for end in _UPPER_ENDS_CM3)]
    text = f"About what volume has the largest {ADJECTIVES[lesion.site]} lesion?"
    return _choice(subject, lesion, MEASUREMENT, "lesion volume measurement", text, answer, labels)


def _kind(subject: Subject, lesion: Lesion) -> Question:
    assert lesion.kind is not None
    text = f"What is the largest {ADJECTIVES[lesion.site]} lesion?"
    return _choice(subject, lesion, MEDICAL, "lesion type classification", text, lesion.kind, ("cyst", "tumor"))


def _yes_no(
    subject: Subject, site: Site, lesion: Lesion | None, task: str, subtype: str, text: str, *, is_yes: bool
) -> Question:
    question_id = f"{subject.media_id}-{subtype.replace(' ', '_')}-{site}"
    return Question(
        id=question_id,
        media_id=subject.media_id,
        text=text,
        options=tuple(stable_order((YES, NO), subject.seed, question_id)),
        answer=YES if is_yes else NO,
        answer_kind="yes_no",
        patient_id=subject.media_id,
        facets=subject.facets(task, subtype, site, lesion) | {"format": "free_text"},
    )


def _choice(
    subject: Subject, lesion: Lesion, task: str, subtype: str, text: str, answer: str, labels: Sequence[str]
) -> Question:
    return choice_question(
        f"{subject.media_id}-{subtype.replace(' ', '_')}-{lesion.site}",
        media_id=subject.media_id,
        text=text,
        answer=answer,
        labels=labels,
        patient_id=subject.media_id,
        facets=subject.facets(task, subtype, lesion.site, lesion) | {"format": "multi_choice"},
        seed=subject.seed,
        num_options=_NUM_OPTIONS,
    )
