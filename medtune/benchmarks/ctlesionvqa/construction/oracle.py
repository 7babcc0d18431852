"""Answers questions from masks with the programs that made them, so that a segmentation model is one more model.

Writes what masks hold as the table of metadata, with a radiology report of each scan, in our words.

Source: CTLesionVQA (arXiv 2505.18915), section 4.5, Table 4 and Figure 6 (nnU-Net as the oracle); appendix A.2 for the
parts of a report.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from medtune.benchmarks.ctlesionvqa.construction.cases import masks_of_media, read_case, read_facts
from medtune.benchmarks.ctlesionvqa.construction.facts import Facts, LesionFacts, metadata_row, write_metadata
from medtune.benchmarks.ctlesionvqa.construction.mask_names import KINDS, LESIONS, adjective, masks_of_case
from medtune.benchmarks.ctlesionvqa.construction.programs import NoAnswerError, run
from medtune.benchmarks.ctlesionvqa.construction.questions import PROGRAM
from medtune.benchmarks.ctlesionvqa.construction.subtypes_asked import PAPER, preset, programs_of
from medtune.data.types import MediaRef, Question
from medtune.eval.benchmark import Oracle, Reasoned

_WINDOW_HU = (-150.0, 250.0)
_ORGAN_RGB, _LESION_RGB = (0, 200, 120), (255, 70, 40)
_SIDES = ("left kidney", "right kidney")
_ORGANS = ("liver", "pancreas", "kidney", "spleen", "colon", "esophagus", "uterus")
_NUMBER = re.compile(r"-?\d+(?:\.\d+)?")


def oracle() -> Oracle:
    return Oracle(look=look, answer=answer, picture=picture, write_table=write_table)


def look(name: str, ref: MediaRef, masks: Path | None, case: str) -> Facts:
    """Returns the facts about a prepared scan from its own masks, or from a folder's masks of a case.

    Organs of which the folder has no mask are taken from the prepared scan, lesions never are.
    """
    own = dict(masks_of_media(ref))
    if masks is not None:
        given = masks_of_case(masks, case)
        own = {mask: files for mask, files in own.items() if mask not in LESIONS} | given
    # A model answers with the masks that it has; that they contradict one another costs it what they cost the answers.
    return replace(read_facts(name, ref.path, own), wrong={})


def answer(question: Question, facts: Any) -> Reasoned:
    """Returns the reply that the question's program gives, "" where it gives none, and the steps to it."""
    program = _program(question)
    if program is None:
        return Reasoned("", "", (("no program", f"a {question.facets.get('subtype')} question states none"),))
    try:
        # A rule for scans without contrast medium was applied when the question was made.
        found, steps = run(program, facts)
    except NoAnswerError as error:
        return Reasoned("", program, (("no answer", str(error)),))
    return Reasoned(_reply(question, found), program, tuple((step.call, step.gave) for step in steps))


def _program(question: Question) -> str | None:
    if PROGRAM in question.facets:
        return question.facets[PROGRAM]
    found = programs_of(question.facets.get("subtype", ""), question.facets.get("organ", ""), preset(PAPER))
    return found[0] if len(found) == 1 else None


def _reply(question: Question, found: float | str) -> str:
    if isinstance(found, str):
        return next((option for option in question.options if option.lower() == found.lower()), found)
    numbers = {option: float(number[0]) for option in question.options if (number := _NUMBER.search(option))}
    if numbers:
        return min(numbers, key=lambda option: abs(numbers[option] - found))
    # As many places as the truth has, which its subtype decides and not its value.
    places = len(question.answer.partition(".")[2]) if _NUMBER.fullmatch(question.answer) else 1
    return f"{found:.{places}f}"


def picture(question: Question, ref: MediaRef, masks: Path | None, case: str, facts: Any) -> NDArray[np.uint8]:
    """Returns the slice that a question is about, RGB, (H, W, 3), with the outlines of its organ and lesions."""
    own = dict(masks_of_media(ref))
    if masks is not None:
        own = {mask: files for mask, files in own.items() if mask not in LESIONS} | masks_of_case(masks, case)
    scan, regions, _ = read_case(ref.path, own)
    site = question.facets.get("organ", "").rpartition(" ")[2]
    lesions = [lesion for lesion in facts.lesions if lesion.organ == site]
    stem = {"pancreas": ("pancrea",)}.get(site, (site,))
    named = {name: each for name, each in regions.items() if name.startswith(stem)}
    if lesions:
        number = lesions[0].slice - 1
    else:
        ends = [(each.box[2].start + each.box[2].stop) // 2 for each in named.values()]
        number = ends[0] if ends else scan.hu_IJK.shape[2] // 2
    low, high = _WINDOW_HU
    grey_IJ = np.clip((scan.hu_IJK[:, :, number].astype(np.float32) - low) / (high - low), 0, 1)
    shown_IJC = np.repeat((255 * grey_IJ).astype(np.uint8)[:, :, None], 3, axis=2)
    everything = tuple(slice(0, length) for length in scan.hu_IJK.shape[:2])
    for name, each in sorted(named.items(), key=lambda pair: pair[0] in LESIONS):
        if "segment" in name:
            continue
        mask_IJ = each.on((everything[0], everything[1], slice(number, number + 1)))[:, :, 0]
        shown_IJC[_outline(mask_IJ)] = _LESION_RGB if name in LESIONS else _ORGAN_RGB
    return np.ascontiguousarray(shown_IJC.swapaxes(0, 1))


def _outline(mask_IJ: NDArray[np.bool_]) -> NDArray[np.bool_]:
    from scipy import ndimage

    edge_IJ: NDArray[np.bool_] = mask_IJ & ~ndimage.binary_erosion(mask_IJ)
    return edge_IJ


def write_table(path: Path, facts: Sequence[Any]) -> None:
    """Writes the table of metadata with its 79 columns, reports included, as Parquet."""
    rows = []
    for each in facts:
        try:
            stage = str(run("stage(largest(lesions(pancreas, tumor)))", each)[0])
        except NoAnswerError:
            stage = None
        rows.append(metadata_row(each, stage=stage, report=report(each)))
    write_metadata(path, rows)


def report(facts: Facts, rules: Mapping[str, str] | None = None) -> str:
    """Returns the report; sizes are stated where a mask shows the organ, and nothing is said of other organs.

    Args:
        rules: The preset that says above which volume an organ is enlarged; None is that of the paper.
    """
    limits = preset(PAPER) if rules is None else rules
    phase = facts.about.get("contrast")
    lines = [f"CT of the abdomen{f', {phase} phase' if phase else ''}", "", "FINDINGS"]
    for organ in (organ for organ in _ORGANS if organ in facts.organs):
        lines += ["", *_organ(facts, organ, limits)]
    return "\n".join([*lines, "", "IMPRESSION", *_impression(facts)])


def _organ(facts: Facts, organ: str, limits: Mapping[str, str]) -> Iterator[str]:
    measured = facts.organs[organ]
    sides = [side for side in _SIDES if side in facts.organs] if organ == "kidney" else [organ]
    if organ in limits or organ == "kidney":
        large = [side for side in sides if facts.organs[side].volume_cm3 > float(limits[side])]
        size = (
            f"enlarged ({', '.join(large)})" if large and organ == "kidney" else "enlarged" if large else "not enlarged"
        )
        volumes = ", ".join(f"{side} {facts.organs[side].volume_cm3:.1f} cm³" for side in sides)
        brightness = f", {measured.hu_mean:.1f} ± {measured.hu_sd:.1f} HU" if measured.hu_mean is not None else ""
        yield f"{organ.capitalize()}: {size}. Volume: {volumes}{brightness}."
    else:
        yield f"{organ.capitalize()}:"
    lesions = facts.of_kind(organ, "lesion")
    yield from (f"  {number}. {_lesion(facts, each)}" for number, each in enumerate(lesions, start=1))
    if not lesions and organ in KINDS:
        yield f"  No {adjective(organ)} lesion."
    for kind in KINDS.get(organ, ())[1:]:
        if of_kind := facts.of_kind(organ, kind):
            yield f"  {kind}: {len(of_kind)}, together {sum(each.volume_cm3 for each in of_kind):.1f} cm³."


def _lesion(facts: Facts, lesion: LesionFacts) -> str:
    place = f"{lesion.place}, " if lesion.place else ""
    beside = f", {lesion.attenuation}" if lesion.attenuation else ""
    return (
        f"{place}{lesion.long_cm:.1f} x {lesion.short_cm:.1f} cm in slice {lesion.slice} of {facts.shape[2]}, "
        f"{lesion.volume_cm3:.1f} cm³{beside} ({lesion.hu_mean:.1f} ± {lesion.hu_sd:.1f} HU)."
    )


def _impression(facts: Facts) -> Iterator[str]:
    found = False
    for organ in (organ for organ in KINDS if organ in facts.organs):
        if lesions := facts.of_kind(organ, "lesion"):
            found, first = True, lesions[0]
            many, beside = str(len(lesions)), f", {first.attenuation}" if first.attenuation else ""
            place = f" ({first.place})" if first.place else ""
            total = sum(each.volume_cm3 for each in lesions)
            yield (
                f"{many} {adjective(organ)} lesion{'s' * (len(lesions) > 1)}, the largest{place} "
                f"{first.long_cm:.1f} x {first.short_cm:.1f} cm{beside}; "
                f"{total:.1f} cm³ in all."
            )
    if not found:
        yield "No lesion in the organs that have a mask."
