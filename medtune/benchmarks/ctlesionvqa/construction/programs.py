"""Small functional programs over the facts of a scan: each question has one, and it says how its answer comes about.

A program is a nested call such as `count(in(lesions(liver, lesion), segment 3))`. Its words are names of organs, kinds,
parts and answers; its numbers are thresholds, so that a program says by itself which rule it follows.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from medtune.benchmarks.ctlesionvqa.construction.facts import Facts, LesionFacts
from medtune.benchmarks.ctlesionvqa.construction.mask_names import ARTERIES, VEINS

YES, NO = "Yes", "No"
EQUAL = "Equal"
STAGES = ("T1", "T2", "T3", "T4")
RESECTABILITY = ("Resectable", "Borderline resectable", "Unresectable")
_STAGE_CM = (2.0, 4.0)
_ENCASED_DEGREES = 180.0
# Segments that share a border. Source: Couinaud's segments, radiologyassistant.nl, "Anatomy of the liver segments".
_BORDERS = frozenset(
    frozenset(pair) for pair in ("12", "14", "17", "18", "23", "24", "34", "45", "48", "56", "58", "67", "78")
)
Value = float | str | LesionFacts | tuple[LesionFacts, ...]

SPREADS = ("Highly clustered", "Somewhat clustered", "Widely distributed")
FATTY = ("No fatty liver", "Mild", "Moderate to severe")
KODAMA = ("G0", "G1", "G2", "G3")
_Call = Callable[..., Value]


class NoAnswerError(ValueError):
    """What a program asks about is not in the scan, or has no mask."""


class ProgramStep(NamedTuple):
    """One call of a program that was carried out, with what it gave, in words."""

    call: str
    gave: str


def run(program: str, facts: Facts) -> tuple[float | str, list[ProgramStep]]:
    """Returns the answer of a program and the steps to it; raises NoAnswerError where the facts hold none.

    >>> from medtune.benchmarks.ctlesionvqa.construction.facts import OrganFacts
    >>> facts = Facts("case", (9, 9, 9), (1, 1, 1), {"liver": OrganFacts(1293.74, 111.3, 17.4)}, (), {}, {})
    >>> run("volume(liver)", facts)[0]
    1293.74
    >>> [step.gave for step in run("exists(lesions(liver, lesion))", facts)[1]]
    ['no lesion', 'No']
    """
    steps: list[ProgramStep] = []
    found = _value(program, facts, steps)
    if not isinstance(found, float | int | str):
        raise ValueError(f"the program {program!r} ends in a list, wanted a number or a word at its end")
    return found, steps


def _value(said: str, facts: Facts, steps: list[ProgramStep]) -> Value:
    call = re.fullmatch(r"(\w+)\((.*)\)", said)
    if call is None:
        try:
            return float(said)
        except ValueError:
            return said
    if call[1] not in _CALLS:
        raise ValueError(f"a program holds the unknown call {call[1]!r}; known are {', '.join(_CALLS)}")
    inner = _split(call[2])
    given = [_value(each, facts, steps) for each in inner]
    found = _CALLS[call[1]](facts, *given)
    steps.append(ProgramStep(said if not any("(" in each for each in inner) else f"{call[1]}(...)", _worded(found)))
    return found


def _split(inside: str) -> list[str]:
    depth, parts = 0, [""]
    for letter in inside:
        depth += (letter == "(") - (letter == ")")
        if letter == "," and not depth:
            parts.append("")
        else:
            parts[-1] += letter
    return [part.strip() for part in parts]


def _worded(found: Value) -> str:
    if isinstance(found, LesionFacts):
        place = f", {found.place}" if found.place else ""
        return (
            f"a {found.kind} of the {found.organ}{place}: {found.long_cm:.1f} x {found.short_cm:.1f} cm, "
            f"{found.volume_cm3:.1f} cm³, {found.hu_mean:.1f} HU, slice {found.slice}"
        )
    if isinstance(found, tuple):
        return "; ".join(map(_worded, found)) if found else "no lesion"
    return found if isinstance(found, str) else f"{found:.4g}"


def _organ(facts: Facts, organ: str) -> str:
    if organ not in facts.organs or organ in facts.wrong:
        raise NoAnswerError(facts.wrong.get(organ, f"there is no mask of the {organ}"))
    return organ


def _volume(facts: Facts, organ: str) -> float:
    return facts.organs[_organ(facts, organ)].volume_cm3


def _hu(facts: Facts, of: str | LesionFacts) -> float:
    if isinstance(of, LesionFacts):
        return of.hu_mean
    hu = facts.organs[_organ(facts, of)].hu_mean
    if hu is None:
        raise NoAnswerError(f"every voxel of the {of} is lesion")
    return hu


def _lesions(facts: Facts, organ: str, kind: str) -> tuple[LesionFacts, ...]:
    return facts.of_kind(_organ(facts, organ), kind)


def _some(_: Facts, lesions: tuple[LesionFacts, ...]) -> tuple[LesionFacts, ...]:
    if not lesions:
        raise NoAnswerError("there is no such lesion")
    return lesions


def _in(facts: Facts, lesions: tuple[LesionFacts, ...], place: str) -> tuple[LesionFacts, ...]:
    if any(each.place is None for each in lesions):
        raise NoAnswerError("no masks say in which part of the organ its lesions lie")
    return tuple(each for each in lesions if each.place == place)


def _place(_: Facts, lesion: LesionFacts) -> str:
    if lesion.place is None:
        raise NoAnswerError("no masks say in which part of the organ it lies")
    return lesion.place.capitalize()


def _attenuation(_: Facts, lesion: LesionFacts) -> str:
    if lesion.attenuation is None:
        raise NoAnswerError("the brightness of the organ is not known")
    return lesion.attenuation.capitalize()


def _contrast(_: Facts, lesion: LesionFacts) -> float:
    if lesion.organ_hu is None:
        raise NoAnswerError("the brightness of the organ is not known")
    return abs(lesion.hu_mean - lesion.organ_hu)


def _neighbour(_: Facts, lesion: LesionFacts) -> str:
    if not lesion.touches:
        raise NoAnswerError("no other organ lies against it")
    return lesion.touches[0].capitalize()


def _compared(_: Facts, a: float, b: float, tolerance: float, one: str, other: str, equal: str = EQUAL) -> str:
    if abs(a - b) <= tolerance * max(a, b):
        return equal
    return one if a > b else other


def _most(_: Facts, *pairs: Value) -> str:
    named = sorted(
        ((float(str(value)), str(name)) for name, value in zip(pairs[::2], pairs[1::2], strict=True)), reverse=True
    )
    if named[0][0] <= 0 or (len(named) > 1 and named[0][0] == named[1][0]):
        raise NoAnswerError("none has more than the others")
    return named[0][1]


def _graded(_: Facts, value: float, *cuts: Value) -> str:
    """Returns the name of the range that a value lies in; names and the upper ends between them alternate."""
    return next(
        (str(name) for name, end in zip(cuts[::2], cuts[1::2], strict=False) if value <= float(str(end))), str(cuts[-1])
    )


def _outlier(_: Facts, lesions: tuple[LesionFacts, ...], times: float, at_least: float) -> str:
    if len(lesions) < max(at_least, 2):
        raise NoAnswerError("too few lesions to compare")
    return _yes(lesions[0].volume_cm3 > times * lesions[1].volume_cm3)


def _clustered(facts: Facts, lesions: tuple[LesionFacts, ...], more_than: float) -> str:
    """Returns whether more lesions than that lie within three segments that border on one another."""
    numbers = [str(each.place)[-1] for each in _some(facts, lesions) if each.place is not None]
    if len(numbers) < len(lesions):
        raise NoAnswerError("no masks say in which segments the lesions lie")
    found = 0
    for middle in "12345678":
        ends = [end for end in "12345678" if frozenset((middle, end)) in _BORDERS]
        for one in ends:
            found = max(found, *(sum(n in (middle, one, other) for n in numbers) for other in ends))
    return _yes(found > more_than)


def _spread(facts: Facts, lesions: tuple[LesionFacts, ...], in_one: float, in_two: float) -> str:
    if len(lesions) < 2 or any(each.place is None for each in lesions):
        raise NoAnswerError("too few lesions, or no masks of segments")
    places = [each.place for each in lesions]
    counts = sorted((places.count(place) for place in set(places)), reverse=True)
    if counts[0] / len(places) > in_one:
        return SPREADS[0]
    return SPREADS[1] if sum(counts[:2]) / len(places) >= in_two else SPREADS[2]


def _fatty(_: Facts, liver_hu: float, ratio: float) -> str:
    """Source: the two signs are those of `KNOWLEDGE_BASE` in Schuture/DeepTumorVQA@1df7460, eval/tools.py."""
    return FATTY[2] if liver_hu < 40 else FATTY[1] if ratio < 1 else FATTY[0]


def _kodama(_: Facts, liver_hu: float, ratio: float) -> str:
    """Source: Kodama 2007, Radiology 245(1):95, as in `KNOWLEDGE_BASE`; the worse of the two signs counts."""
    by_hu, by_ratio = sum(liver_hu < end for end in (58, 51, 39)), sum(ratio < end for end in (1.0, 0.8, 0.5))
    return KODAMA[max(by_hu, by_ratio)]


def _stage(_: Facts, tumor: LesionFacts) -> str:
    """Source: AJCC, 8th edition, as in `KNOWLEDGE_BASE`; contact with an artery stands for its invasion."""
    if any(tumor.contact_degrees.get(vessel, 0) > 0 for vessel in ARTERIES):
        return STAGES[3]
    return STAGES[sum(tumor.long_cm > end for end in _STAGE_CM)]


def _resectability(_: Facts, lesion: LesionFacts) -> str:
    """Source: NCCN, as in `KNOWLEDGE_BASE`; a vein that is touched over more than 180 degrees counts as narrowed."""
    if not lesion.contact_degrees:
        raise NoAnswerError("no masks show the vessels around the pancreas")
    arteries, veins = (
        max((lesion.contact_degrees.get(v, 0.0) for v in each), default=0.0) for each in (ARTERIES, VEINS)
    )
    if arteries > _ENCASED_DEGREES:
        return RESECTABILITY[2]
    return RESECTABILITY[1] if arteries > 0 or veins > _ENCASED_DEGREES else RESECTABILITY[0]


def _ratio(_: Facts, a: float, b: float) -> float:
    if b <= 0:
        raise NoAnswerError("the divisor is not above 0")
    return a / b


def _positive(_: Facts, value: float) -> float:
    if value <= 0:
        raise NoAnswerError("the value is not above 0")
    return value


def _without_contrast(facts: Facts, value: Value) -> Value:
    phase = facts.about.get("contrast", "").lower()
    if phase and phase not in ("plain", "non-contrast"):
        raise NoAnswerError("the rule holds for scans without contrast medium")
    return value


def _yes(is_so: bool) -> str:
    return YES if is_so else NO


_CALLS: Mapping[str, _Call] = {
    "volume": _volume,
    "part": lambda facts, organ, part: facts.parts[organ][part],
    "hu": _hu,
    "lesions": _lesions,
    "some": _some,
    "in": _in,
    "largest": lambda facts, lesions: _some(facts, lesions)[0],
    "count": lambda _, lesions: len(lesions),
    "total": lambda _, lesions: sum((each.volume_cm3 for each in lesions), 0.0),
    "exists": lambda _, lesions: _yes(bool(lesions)),
    "diameter": lambda _, lesion: lesion.long_cm,
    "slice": lambda _, lesion: lesion.slice,
    "size": lambda _, lesion: lesion.volume_cm3,
    "peak": lambda _, lesions: lesions[0].volume_cm3 if lesions else 0.0,
    "place": _place,
    "attenuation": _attenuation,
    "contrast": _contrast,
    "neighbour": _neighbour,
    "touched": lambda _, lesion: "|".join(each.capitalize() for each in lesion.touches),
    "stage": _stage,
    "resectability": _resectability,
    "sum": lambda _, *values: sum(values),
    "ratio": _ratio,
    "percent": lambda facts, a, b: 100 * _ratio(facts, a, b),
    "above": lambda _, value, limit: _yes(value > limit),
    "below": lambda _, value, limit: _yes(value < limit),
    "is": lambda _, value, wanted: _yes(str(value).lower() == wanted),
    "both": lambda _, *said: _yes(all(each == YES for each in said)),
    "either": lambda _, *said: _yes(any(each == YES for each in said)),
    "compared": _compared,
    "most": _most,
    "graded": _graded,
    "outlier": _outlier,
    "clustered": _clustered,
    "spread": _spread,
    "fatty": _fatty,
    "kodama": _kodama,
    "plain": _without_contrast,
    "positive": _positive,
}


def answers(program: str, cases: Sequence[Facts]) -> list[float | str]:
    """Returns the answers of a program for all scans that it has one for."""
    found = []
    for facts in cases:
        try:
            found.append(run(program, facts)[0])
        except NoAnswerError:
            continue
    return found
