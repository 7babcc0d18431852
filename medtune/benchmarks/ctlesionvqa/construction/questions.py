"""Turns the facts about scans into questions, as multiple choice and as free text.

Which questions a scan is asked, in which words, with which options and in which order, is drawn from the scan's name,
the program and the seed. Wrong numbers are values that other scans have, where they are plausible: how many of them lie
below the truth is drawn as well, so that its rank says nothing.
"""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from functools import lru_cache

from medtune.benchmarks.ctlesionvqa.construction.facts import Facts
from medtune.benchmarks.ctlesionvqa.construction.programs import NoAnswerError, answers, run
from medtune.benchmarks.ctlesionvqa.construction.subtypes_asked import (
    YES_NO,
    SubtypeQuestion,
    every_question,
    templates,
)
from medtune.benchmarks.ctlesionvqa.subtypes import category
from medtune.benchmarks.facets import age_decade, contrast_bin, diameter_bin, phase, scanner, sex
from medtune.data.seeding import stable_int, stable_order
from medtune.data.types import AnswerKind, Question

MOST = 2
"""The largest number of questions of one subtype about one scan: ours; the paper has 43 questions a scan."""
NUM_OPTIONS = 4
FORMATS = ("free_text", "multi_choice")
PROGRAM = "program"
"""The facet that holds a question's program."""
# The least difference of two options, as a share of the answer, and in units; a plausible option is at most four times
# as large or small.
_APART_SHARE, _PLAUSIBLE = 0.15, 4.0
_APART = {"cm³": 0.2, "cm": 0.3, "HU": 8.0, "%": 0.2, "": 1.0}
_APART_RATIO = 0.1


def questions(
    cases: Sequence[Facts],
    rules: Mapping[str, str],
    *,
    seed: int,
    wanted: Callable[[SubtypeQuestion, str], bool] = lambda asked, kind: True,
) -> list[Question]:
    """Returns the questions about scans under a preset's rules; the facts of all scans give the wrong options."""
    known = lru_cache(maxsize=None)(lambda program: [float(each) for each in answers(program, cases)])
    return [question for facts in cases for question in _of_scan(facts, rules, seed, wanted, known)]


def _of_scan(
    facts: Facts,
    rules: Mapping[str, str],
    seed: int,
    wanted: Callable[[SubtypeQuestion, str], bool],
    known: Callable[[str], Sequence[float]],
) -> Iterator[Question]:
    told: dict[str, dict[str, tuple[SubtypeQuestion, float | str]]] = {}
    for asked in every_question(rules, depth=facts.shape[2]):
        if any(wanted(asked, kind) for kind in FORMATS):
            try:
                answer, _ = run(asked.program, facts)
            except NoAnswerError:
                continue
            # A size that is too small to be written has no relative accuracy.
            if not asked.places or float(said(asked, answer)):
                told.setdefault(asked.subtype, {})[asked.program] = asked, answer
    for name, each in told.items():
        for program in stable_order(each, seed, facts.name, name)[:MOST]:
            asked, answer = each[program]
            for kind in FORMATS:
                if wanted(asked, kind) and (question := _question(facts, asked, answer, kind, seed, known)):
                    yield question


def question_key(scan: str, subtype: str, program: str, kind: str) -> str:
    """Returns the id of a question before `prepare` gives it one made of content."""
    return f"{scan} {subtype} {program} {kind}"


def said(asked: SubtypeQuestion, answer: float | str) -> str:
    """Returns an answer as the question writes it, without its unit."""
    return answer if isinstance(answer, str) else f"{answer:.{asked.places}f}".replace("-0.0", "0.0")


def _question(
    facts: Facts,
    asked: SubtypeQuestion,
    answer: float | str,
    kind: str,
    seed: int,
    known: Callable[[str], Sequence[float]],
) -> Question | None:
    key = seed, question_key(facts.name, asked.subtype, asked.program, kind)
    truth, unit, options = said(asked, answer), asked.unit or None, tuple[str, ...]()
    if kind == "multi_choice":
        labels = (
            _words(facts, asked, truth, key)
            if asked.options
            else _numbers(asked, float(truth), known(asked.program), key)
        )
        if len(labels) < 2:
            return None
        shown = {label: f"{label} {asked.unit}" if asked.unit else label for label in labels}
        options, truth = tuple(stable_order(shown.values(), *key, "order")), shown[truth]
    elif asked.options == YES_NO:
        options = tuple(stable_order(YES_NO, *key, "order"))
    answer_kind: AnswerKind = (
        "choice" if kind == "multi_choice" else "yes_no" if options else "text" if asked.options else "number"
    )
    return Question(
        id=key[1],
        media_id=facts.name,
        text=templates(asked)[stable_int(*key, "template") % len(templates(asked))],
        options=options,
        answer=truth,
        answer_kind=answer_kind,
        patient_id=facts.name,
        unit=unit if answer_kind == "number" else None,
        facets=_facets(facts, asked, kind),
    )


def _words(facts: Facts, asked: SubtypeQuestion, truth: str, key: tuple[int, str]) -> list[str]:
    right_too: Collection[str] = ()
    if asked.program.startswith("neighbour("):
        # Whatever else touches the lesion would be a right answer as well, and what no mask shows may be one.
        touched, _ = run(asked.program.replace("neighbour(", "touched(", 1), facts)
        right_too = str(touched).split("|")
    others = [each for each in asked.options if each != truth and each not in right_too]
    return [truth, *stable_order(others, *key, "distractors")[: NUM_OPTIONS - 1]]


def _numbers(asked: SubtypeQuestion, truth: float, known: Sequence[float], key: tuple[int, str]) -> list[str]:
    """Returns the truth and wrong numbers as they are written; each differs from the truth and from the others."""
    unit = asked.unit or ""
    least = _APART_RATIO if asked.places == 2 else _APART[unit]
    apart = max(least, _APART_SHARE * abs(truth)) if unit or asked.places else least
    low, high = (truth - 8 * apart, truth + 8 * apart) if unit == "HU" else (truth / _PLAUSIBLE, _PLAUSIBLE * truth)
    if not asked.places:
        # A count: what is asked about is there at least once, unless the truth itself is none.
        low, high = min(1.0, truth), max(high, truth + NUM_OPTIONS)
    real = stable_order({f"{each:.6f}" for each in known if low <= each <= high}, *key, "distractors")
    wanted = {-1: stable_int(*key, "below") % NUM_OPTIONS}
    wanted[1] = NUM_OPTIONS - 1 - wanted[-1]
    found: dict[int, list[float]] = {-1: [], 1: []}
    for side in (-1, 1, -1, 1):
        drawn = (truth + side * apart * (step + stable_int(*key, side, step) % 100 / 200) for step in range(1, 9))
        for value in (*map(float, real), *drawn):
            others = [truth, *found[-1], *found[1]]
            if len(found[side]) >= wanted[side]:
                break
            rounded = round(value, asked.places)
            if (
                (rounded - truth) * side > 0
                and low <= rounded
                and all(abs(rounded - other) >= apart for other in others)
            ):
                found[side].append(rounded)
        # A side without room for plausible numbers leaves them to the other.
        wanted[-side] = NUM_OPTIONS - 1 - len(found[side]) if len(found[side]) < wanted[side] else wanted[-side]
    return [said(asked, each) for each in (truth, *found[-1], *found[1])]


def _facets(facts: Facts, asked: SubtypeQuestion, kind: str) -> dict[str, str]:
    site = asked.organ.rpartition(" ")[2]
    largest = next(iter(facts.of_kind(site, "lesion")), None)
    about, age = facts.about, facts.about.get("age", "")
    found = {
        "task": category(asked.subtype) or "",
        "subtype": asked.subtype,
        "organ": asked.organ,
        "format": kind,
        PROGRAM: asked.program,
        "diameter": diameter_bin(largest.long_cm) if largest else "",
        "hu_contrast": contrast_bin(largest.hu_mean - largest.organ_hu)
        if largest and largest.organ_hu is not None
        else "",
        "sex": sex(about.get("sex", "")) or "",
        "age": (age_decade(float(age)) if age.replace(".", "", 1).isdigit() else "") or "",
        "scanner": scanner(about["scanner"]) if about.get("scanner") else "",
        "phase": phase(about["contrast"]) if about.get("contrast") else "",
    }
    return {name: value for name, value in found.items() if value}
