"""What each subtype asks: its program, its words, and the kind of answer, over the organs and lesions of a scan.

Every subtype has ten templates: those of its kind of answer, around its own phrase. Where the literature disagrees on
a threshold, `PRESETS` names each side. Of version 2, portal hypertension is left out: its knowledge base lists four
signs and does not say how they are combined.

Source: arXiv 2505.18915, Table 5, for version 1; `KNOWLEDGE_BASE` of Schuture/DeepTumorVQA@1df7460 (branch v2),
eval/tools.py, for version 2 and the preset "v2"; MrGiovanni/RadGPT, generate_reports/CreateAAReports.py, for the limits
of enlargement, which the paper takes from its reports. Tolerances of comparisons are ours.
"""

from collections.abc import Iterator, Mapping, Sequence
from itertools import combinations
from types import MappingProxyType
from typing import NamedTuple

from medtune.benchmarks.ctlesionvqa.construction.facts import ATTENUATIONS, HYPO
from medtune.benchmarks.ctlesionvqa.construction.mask_names import KINDS, NEIGHBOURS, PARTS, SEGMENTS, adjective
from medtune.benchmarks.ctlesionvqa.construction.programs import (
    EQUAL,
    FATTY,
    KODAMA,
    NO,
    RESECTABILITY,
    SPREADS,
    STAGES,
    YES,
)
from medtune.benchmarks.ctlesionvqa.subtypes import subtype
from medtune.data.catalog import nearest

Slots = Mapping[str, str]
PAPER = "paper"
_PAPER: Mapping[str, str] = {
    "liver": "3000", "spleen": "314.5", "pancreas": "83", "left kidney": "207.6", "right kidney": "207.6",
    "outlier_times": "3", "outlier_lesions": "2", "clusters": "clustered(some(lesions(liver, lesion)), 3)",
    "pancreas_to_spleen": "0.7", "resected": "above(size(largest(lesions(pancreas, cyst))), 3)",
    "type": "graded(hu(largest(lesions({organ}, lesion))), Cyst, 34.8, Tumor)", "typed": "kidney",
}  # fmt: skip
_BY_MASKS = "most(Tumor, peak(lesions({organ}, tumor)), Cyst, peak(lesions({organ}, cyst)))"
PRESETS: Mapping[str, Mapping[str, str]] = MappingProxyType(
    {
        PAPER: _PAPER,
        "by_masks": {**_PAPER, "type": _BY_MASKS, "typed": "kidney pancreas"},
        "v2": {
            **_PAPER, "liver": "1800", "pancreas": "100", "left kidney": "260", "right kidney": "260",
            "outlier_lesions": "3", "clusters": "spread(lesions(liver, lesion), 0.5, 0.75)",
            "resected": "either(above(size(largest(lesions(pancreas, cyst))), 3), "
            "above(diameter(largest(lesions(pancreas, cyst))), 3))",
        },
    }
)  # fmt: skip
"""The rules on which publications disagree, by name; "by_masks" tells cysts from tumors by their masks, not in HU."""

YES_NO = (YES, NO)
_MEASURED = ("liver", "spleen", "pancreas", "left kidney", "right kidney")
_ORGANS: Sequence[Slots] = [{"organ": organ} for organ in _MEASURED]
_LESIONS: Sequence[Slots] = [
    {"organ": organ, "kind": kind, "lesion": f"{adjective(organ)} {kind}"}
    for organ, kinds in KINDS.items()
    for kind in kinds
]
_MAIN: Sequence[Slots] = [each for each in _LESIONS if each["organ"] in ("liver", "kidney", "pancreas")]
_PLACED: Sequence[Slots] = [each for each in _LESIONS if each["organ"] in PARTS]
_PARTS: Sequence[Slots] = [
    {**each, "part": part} for each in _PLACED if each["kind"] == "lesion" for part in PARTS[each["organ"]]
]
_SEGMENTS: Sequence[Slots] = [
    {"organ": "liver", "one": a, "other": b, "One": a.capitalize(), "Other": b.capitalize()}
    for pair in combinations(SEGMENTS, 2) for a, b in (pair, pair[::-1])
]  # fmt: skip
_SUMS: Sequence[Slots] = [{"organ": a, "other": b} for a, b in combinations(_MEASURED, 2)]
_RATIOS: Sequence[Slots] = [{"organ": "liver"}, {"organ": "pancreas"}]
_LARGEST = "largest(lesions({organ}, {kind}))"
CLASSES = tuple(each.capitalize() for each in ATTENUATIONS)
_STRUCTURES = tuple(name.replace("_", " ").capitalize() for name in (*_MEASURED, "colon", "esophagus", *NEIGHBOURS))
_LIVER, _SPLEEN = "hu(liver)", "hu(spleen)"
_THERE_IS, _EXISTS = "there is at least one {kind} in the {organ}", "exists(lesions({organ}, {kind}))"
_SIDES = ("Left kidney", "Right kidney", EQUAL)
_BURDENED = "total(in(some(lesions(kidney, lesion)), {}))"
NUMBER = (
    "What is {x}?", "State {x}.", "Give {x}.", "In this CT, what is {x}?", "Determine {x}.", "Report {x}.",
    "Estimate {x} from this scan.", "{X}: what is the value?", "Which value does this CT give for {x}?",
    "Work out {x} from the images.",
)  # fmt: skip
CHOICE = (
    "What is {x}?", "Name {x}.", "State {x}.", "In this CT, what is {x}?", "Determine {x}.", "Which is {x}?",
    "From this scan, name {x}.", "{X}: which is it?", "Looking at this CT, say what is {x}.", "Please give {x}.",
)  # fmt: skip
VERDICT = (
    "Is it true that {x}?", "Does this CT show that {x}?", "Would you say that {x}?", "Is it right that {x}?",
    "Do you find that {x}?", "{X}: yes or no?", "Can one say from this scan that {x}?", "{X}. Is this so?",
    "According to this CT, is it so that {x}?", "Looking at the images, is it the case that {x}?",
)  # fmt: skip


class SubtypeQuestion(NamedTuple):
    """A question that a scan may be asked, in no words yet."""

    subtype: str
    program: str
    phrase: str  # The words that a template surrounds.
    organ: str  # The organ that it is about.
    options: tuple[str, ...] = ()  # The answers to choose from; empty for a number.
    unit: str | None = None  # The unit of a number; "" for a count, and None for other answers.
    places: int = 0  # The decimal places of a number.


class _Row(NamedTuple):
    subtype: str
    program: str
    phrase: str
    over: Sequence[Slots]
    options: tuple[str, ...] | str = ()
    unit: str | None = None
    places: int = 0


def _only(**slots: str) -> Sequence[Slots]:
    return [each for each in _LESIONS if slots.items() <= each.items()]


_ROWS: tuple[_Row, ...] = (
    _Row("lesion volume measurement", "total(some(lesions({organ}, {kind})))", "the volume of all {lesion}s together",
         _LESIONS, unit="cm³", places=1),
    _Row("organ HU measurement", "hu({organ})", "the mean HU of the {organ} outside of lesions", _ORGANS, unit="HU",
         places=1),
    _Row("organ volume measurement", "volume({organ})", "the volume of the {organ}", _ORGANS, unit="cm³", places=1),
    _Row("organ HU ratio", "positive(ratio(hu({organ}), hu(spleen)))",
         "the mean HU of the {organ} divided by that of the spleen",
         _RATIOS, unit="", places=2),
    _Row("tumor burden percentage", "percent(total(some(lesions({organ}, {kind}))), volume({organ}))",
         "the share of the {organ} that its {kind}s take up, in percent", _MAIN, unit="%", places=1),
    _Row("colon lesion existence", _EXISTS, _THERE_IS, _only(organ="colon"), YES_NO),
    _Row("kidney cyst existence", _EXISTS, _THERE_IS, _only(organ="kidney", kind="cyst"), YES_NO),
    _Row("kidney lesion existence", _EXISTS, _THERE_IS, _only(organ="kidney", kind="lesion"), YES_NO),
    _Row("kidney tumor existence", _EXISTS, _THERE_IS, _only(organ="kidney", kind="tumor"), YES_NO),
    _Row("liver lesion existence", _EXISTS, _THERE_IS, _only(organ="liver", kind="lesion"), YES_NO),
    _Row("pancreatic lesion existence", _EXISTS, _THERE_IS, _only(organ="pancreas", kind="lesion"), YES_NO),
    _Row("PDAC existence", _EXISTS, "there is a ductal adenocarcinoma (PDAC) in the {organ}", _only(kind="PDAC"),
         YES_NO),
    _Row("PNET existence", _EXISTS, "there is a neuroendocrine tumor (PNET) in the {organ}", _only(kind="PNET"),
         YES_NO),
    _Row("splenomegaly detection", "above(volume(spleen), {limit})", "the volume of the spleen speaks for splenomegaly",
         [{"organ": "spleen"}], YES_NO),
    _Row("adjacent organ", f"neighbour({_LARGEST})", "the structure that lies against the largest {lesion}", _MAIN,
         _STRUCTURES),
    _Row("inter-segment comparison", "compared(count(in(some(lesions(liver, lesion)), {one})), "
         "count(in(some(lesions(liver, lesion)), {other})), 0, {One}, {Other}, Equal)",
         "the one of {one} and {other} of the liver that holds more lesions", _SEGMENTS, "{One}|{Other}|Equal"),
    _Row("kidney volume comparison",
         "compared(volume(left kidney), volume(right kidney), 0.05, Left kidney, Right kidney)",
         "the larger kidney by volume (equal means within 5 %)", [{"organ": "kidney"}], _SIDES),
    _Row("largest lesion attenuation", f"is(attenuation({_LARGEST}), {HYPO})", f"the largest {{lesion}} is {HYPO}",
         _LESIONS,
         YES_NO),
    _Row("largest lesion attenuation", f"attenuation({_LARGEST})",
         "the attenuation of the largest {lesion} beside its organ",
         _LESIONS, CLASSES),
    _Row("largest lesion diameter", f"diameter({_LARGEST})", "the longest axial diameter of the largest {lesion}",
         _LESIONS,
         unit="cm", places=1),
    _Row("largest lesion location", f"place({_LARGEST})", "the part of the {organ} with the largest {lesion}", _PLACED,
         "parts"),
    _Row("largest lesion slice", f"slice({_LARGEST})",
         "the axial slice in which the largest {lesion} is largest, counted "
         "from 1 at the feet to {depth} at the head", _MAIN, unit="", places=0),
    _Row("lesion count by location", "count(in(some(lesions({organ}, {kind})), {part}))",
         "the number of {lesion}s in this part: {part}", _PARTS, unit=""),
    _Row("lesion counting", "count(some(lesions({organ}, {kind})))", "the number of separate {lesion}s", _LESIONS,
         unit=""),
    _Row("lesion outlier", "outlier(lesions({organ}, {kind}), {outlier_times}, {outlier_lesions})",
         "the largest {lesion} has more than {outlier_times} times the volume of the second largest", _MAIN, YES_NO),
    _Row("liver lesion clustering", "{clusters}", "CLUSTERS", [{"organ": "liver"}], "clusters"),
    _Row("organ aggregation", "sum(volume({organ}), volume({other}))", "the volume of {organ} and {other} together",
         _SUMS,
         unit="cm³", places=1),
    _Row("organ enlargement", "above(volume({organ}), {limit})", "the {organ} is enlarged", _ORGANS, YES_NO),
    _Row("tumor organ HU difference", f"contrast({_LARGEST})", "the absolute difference in mean HU between the largest "
         "{lesion} and its organ", _LESIONS, unit="HU", places=1),
    _Row("bilateral kidney asymmetry",
         f"compared({_BURDENED.format('left')}, {_BURDENED.format('right')}, 0.2, Left kidney, "
         "Right kidney)", "the kidney with more lesion volume (equal means within 20 %)", [{"organ": "kidney"}],
         _SIDES),
    _Row("multi-organ lesion burden comparison", "most(Liver, total(lesions(liver, lesion)), Kidney, "
         "total(lesions(kidney, lesion)), Pancreas, total(lesions(pancreas, lesion)))",
         "the organ with the largest volume of lesions", [{"organ": "liver"}], ("Liver", "Kidney", "Pancreas")),
    _Row("fatty liver", f"fatty(plain({_LIVER}), ratio({_LIVER}, {_SPLEEN}))", "the degree of fatty liver by HU",
         [{"organ": "liver"}], FATTY),
    _Row("hepatic steatosis grading", f"kodama(plain({_LIVER}), ratio({_LIVER}, {_SPLEEN}))",
         "the grade of hepatic steatosis after Kodama", [{"organ": "liver"}], KODAMA),
    _Row("pancreatic steatosis", f"below(plain(ratio(hu(pancreas), {_SPLEEN})), {{pancreas_to_spleen}})",
         "the HU of pancreas and spleen speak for a fatty pancreas", [{"organ": "pancreas"}], YES_NO),
    _Row("lesion type classification", "{type}", "the type of the largest {lesion}", _only(kind="lesion"), ("Cyst",
         "Tumor")),
    _Row("pancreatic cyst resectability", "{resected}",
         "the size of the largest pancreatic cyst speaks for its resection",
         [{"organ": "pancreas"}], YES_NO),
    _Row("pancreatic lesion resectability", "resectability(largest(lesions(pancreas, lesion)))",
         "the resectability of the largest pancreatic lesion by its contact with vessels", [{"organ": "pancreas"}],
         RESECTABILITY),
    _Row("pancreatic tumor staging", "stage(largest(lesions(pancreas, tumor)))",
         "the T stage of the largest pancreatic tumor",
         [{"organ": "pancreas"}], STAGES),
    _Row("PDAC vs PNET classification",
         "most(PDAC, peak(lesions(pancreas, PDAC)), PNET, peak(lesions(pancreas, PNET)))",
         "the type of the largest tumor of the pancreas", [{"organ": "pancreas"}], ("PDAC", "PNET")),
    _Row("pseudocyst determination", "above(hu(largest(lesions(pancreas, cyst))), 14.5)",
         "the HU of the largest pancreatic cyst speak for a pseudocyst", [{"organ": "pancreas"}], YES_NO),
    _Row("renal mass characterization",
         "graded(hu(largest(lesions(kidney, lesion))), Simple cyst, 20, Indeterminate, 70, "
         "Solid or hyperattenuating)", "the character of the largest kidney lesion by HU", [{"organ": "kidney"}],
         ("Simple cyst", "Indeterminate", "Solid or hyperattenuating")),
    _Row("splenomegaly grading", "graded(volume(spleen), Normal, {limit}, Mild, 500, Moderate, 800, Severe)",
         "the grade of splenomegaly by volume", [{"organ": "spleen"}], ("Normal", "Mild", "Moderate", "Severe")),
)  # fmt: skip
SUBTYPES = tuple(dict.fromkeys(row.subtype for row in _ROWS))


def preset(name: str) -> Mapping[str, str]:
    if name not in PRESETS:
        raise ValueError(f"no preset {name!r}.{nearest(name, list(PRESETS))} Known are {', '.join(PRESETS)}.")
    return PRESETS[name]


def every_question(rules: Mapping[str, str], *, depth: int | str = "{depth}") -> Iterator[SubtypeQuestion]:
    """Yields all questions that any scan of `depth` axial slices may be asked under a preset's rules."""
    spread = "spread" in rules["clusters"]
    for row in _ROWS:
        for slots in row.over:
            if row.program == "{type}" and slots["organ"] not in rules["typed"].split():
                continue
            filled = {**slots, **rules, "limit": rules.get(slots["organ"], ""), "depth": str(depth)}
            # A rule may itself have gaps for the organ.
            program = row.program.format_map(filled).format_map(filled)
            phrase, options = row.phrase.format_map(filled), row.options
            if options == "clusters":
                phrase = "the spread of lesions over the liver" if spread else "the lesions of the liver are clustered"
                options = SPREADS if spread else YES_NO
            elif options == "parts":
                options = tuple(part.capitalize() for part in PARTS[slots["organ"]])
            elif isinstance(options, str):
                options = tuple(options.format_map(filled).split("|"))
            yield SubtypeQuestion(row.subtype, program, phrase, slots["organ"], options, row.unit, row.places)


def templates(asked: SubtypeQuestion) -> tuple[str, ...]:
    """Returns the ten questions in which something may be asked."""
    frames = NUMBER if not asked.options else VERDICT if asked.options == YES_NO else CHOICE
    return tuple(frame.format(x=asked.phrase, X=asked.phrase[0].upper() + asked.phrase[1:]) for frame in frames)


def programs_of(subtype_name: str, organ: str, rules: Mapping[str, str]) -> list[str]:
    """Returns the programs that a subtype has for an organ; for a released question, whose row holds no program."""
    wanted = subtype(subtype_name)
    found = [each for each in every_question(rules) if each.subtype == wanted]
    return [each.program for each in found if len(found) == 1 or each.organ == organ]
