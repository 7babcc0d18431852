"""CTLesionVQA (DeepTumorVQA): lesions in abdominal CT, as multiple choice and free text, versions 1 and 2.

A number in free text scores its mean relative accuracy; every other answer scores 1 if it is right and 0 otherwise.
"subtype_mean" is the average of version 1, unweighted over subtypes; "question_mean" weighs questions, as version 2
does. Mean relative accuracy follows the paper's strict definition; a table shows the other definitions too.
The official prompts of version 2 are read from its evaluation kit and ask for a letter (`model.answer_format: letter`).
Version 1 has no published prompts, so its questions are asked in our words.

Source: CTLesionVQA = DeepTumorVQA, arXiv 2505.18915 (v1) and 2605.09679 (v2);
https://github.com/Schuture/DeepTumorVQA at 1df7460 (branch v2).

Says which changes of a training scan leave the answer to a question true.

No scan is mirrored, because no question is about a patient with the liver on the left. A scan is not moved (which also
scales it) where the answer is a size, depends on a size (staging, resection, enlargement) or says where in the scan
something lies; counts of lesions and comparisons of two organs survive it. Hounsfield units are not changed where the
answer is a density or depends on one: fat, attenuation, phase, and cyst or tumor, which the release separates by a
threshold.

Source: the logic of each subtype is in arXiv 2505.18915, Table 5, for v1.

The official prompts of version 2: a system turn, then what the kit's `build_prompt` returns.

There is a template for each kind of answer and each set of facts about patient and scan that a row holds. A volume is
announced in the kit's words for volumes, or in its words for videos or single slices where a model is shown those. A
served agent is asked in the templates "agent: ...", which begin with the kit's system turn for agents. Version 1 has no
published prompts and is asked in our words.

Source: Schuture/DeepTumorVQA@1df7460 (branch v2), src/deeptumorvqa/data/prompt.py.
"""

import re
from collections.abc import Mapping, Sequence
from itertools import combinations

from medtune.benchmarks import example
from medtune.benchmarks.ctlesionvqa import reply_parsers, scoring
from medtune.benchmarks.ctlesionvqa.construction.oracle import oracle
from medtune.benchmarks.ctlesionvqa.paper_tables import REPEATS, missing, references
from medtune.benchmarks.ctlesionvqa.published_tables import published_tables
from medtune.benchmarks.ctlesionvqa.sources.ctlesionvqa.kit_results import result_rows
from medtune.benchmarks.ctlesionvqa.sources.ctlesionvqa.scan_facts import PATIENT_CELLS
from medtune.benchmarks.ctlesionvqa.sources.ctlesionvqa.tables import INPUT_MODE
from medtune.benchmarks.ctlesionvqa.subtypes import answer_type, is_v2, subtype
from medtune.benchmarks.ctlesionvqa.tables import LESION_FACETS, SUBGROUPS, judge_task, repeat_tables, tables
from medtune.benchmarks.ctlesionvqa.v2_board import v2_board
from medtune.data.media.augment import NO_CHANGES, Change
from medtune.data.raw.lettered_options import LETTERS
from medtune.data.types import AnswerFormat, Prompt, Question
from medtune.eval.asking.answerer import AnswerProtocol
from medtune.eval.asking.choice_prompt import render_choice
from medtune.eval.asking.official_prompts import SHOWN_GAP, OfficialPrompts, ShownAs
from medtune.eval.benchmark import Benchmark

_MOVE: frozenset[Change] = frozenset({"move"})
_GREY: frozenset[Change] = frozenset({"grey"})
_BOTH = _MOVE | _GREY

SUBTYPES: dict[str, frozenset[Change]] = {
    "lesion volume measurement": _GREY, "organ HU measurement": _MOVE, "organ volume measurement": _GREY,
    "organ HU ratio": _MOVE, "tumor burden percentage": _BOTH, "colon lesion existence": _BOTH,
    "kidney cyst existence": _MOVE, "kidney lesion existence": _BOTH, "kidney tumor existence": _MOVE,
    "liver lesion existence": _BOTH, "pancreatic lesion existence": _BOTH, "PDAC existence": _MOVE,
    "PNET existence": _MOVE, "splenomegaly detection": _GREY, "adjacent organ": _BOTH,
    "inter-segment comparison": _BOTH, "kidney volume comparison": _BOTH, "largest lesion attenuation": _MOVE,
    "largest lesion diameter": _GREY, "largest lesion location": _GREY, "largest lesion slice": _GREY,
    "lesion count by location": _GREY, "lesion counting": _BOTH, "lesion outlier": _BOTH,
    "liver lesion clustering": _BOTH, "organ aggregation": _GREY, "organ enlargement": _GREY,
    "tumor organ HU difference": _MOVE, "bilateral kidney asymmetry": _BOTH,
    "multi-organ lesion burden comparison": _BOTH, "fatty liver": _MOVE, "lesion type classification": _MOVE,
    "pancreatic cyst resectability": _GREY, "pancreatic lesion resectability": _GREY, "pancreatic steatosis": _MOVE,
    "pancreatic tumor staging": _GREY, "PDAC vs PNET classification": _MOVE, "hepatic steatosis grading": _MOVE,
    "portal hypertension assessment": _GREY, "pseudocyst determination": _MOVE, "renal mass characterization": _MOVE,
    "splenomegaly grading": _GREY,
}  # fmt: skip

_LENGTHS = ("1.2 cm", "3.4 cm", "5.0 cm", "7.7 cm")
_CHOICE, _FREE = {"format": "multi_choice"}, {"format": "free_text"}
_LESION = {
    **_CHOICE, "organ": "liver", "diameter": "2-4 cm", "hu_contrast": "25-50 HU", "sex": "F", "age": "60-69",
    "scanner": "Siemens", "phase": "venous",
}  # fmt: skip
_LIVER, _COLON = {**_FREE, "organ": "liver"}, {**_FREE, "organ": "colon"}
_DIFFERENCE = "By how many HU does the lesion differ from the pancreas?"
EXAMPLES = tuple(
    example(name, text, answer, *options, kind=kind, unit=unit, task=task, subtype=subtype_, **facets)
    for name, kind, task, subtype_, text, answer, options, unit, facets in (
        ("existence-choice", "choice", "recognition", "liver lesion existence", "Does the liver hold a lesion?",
         "Yes", ("No", "Yes"), None, _LESION),
        ("existence-text", "yes_no", "recognition", "colon lesion existence", "Does the colon hold a lesion?",
         "No", ("Yes", "No"), None, _COLON),
        ("diameter-choice", "choice", "visual reasoning", "largest lesion diameter", "How long is the largest lesion?",
         "3.4 cm", _LENGTHS, None, _CHOICE),
        ("volume-text", "number", "measurement", "organ volume measurement", "How large is the liver?",
         "1480.5", (), "cc", _LIVER),
        ("difference-text", "number", "visual reasoning", "tumor organ HU difference", _DIFFERENCE,
         "-32.4", (), "HU", _FREE),
        ("location-text", "text", "visual reasoning", "largest lesion location", "Where is the largest lesion?",
         "Head of pancreas", (), None, _FREE),
    )
)  # fmt: skip
NOT_V2 = "not of v2"
MULTIPLE_CHOICE = "multiple choice"
VOLUME, VIDEO, IMAGE = "3d_volume", "2d_video", "2d_image"
_AGENT = "agent: "
_ANSWER_TYPES = ("numeric", "binary", "categorical")
_SPACING = "spacing"
_ROW_GAP = re.compile(r"\{(\w+)\}")


def allowed_changes(question: Question) -> frozenset[Change]:
    """Returns the changes that the question's subtype allows; an unknown subtype allows none."""
    return SUBTYPES.get(subtype(question.facets["subtype"]), NO_CHANGES)


def official_prompts() -> OfficialPrompts:
    return OfficialPrompts(
        names=_names(),
        scenario=scenario,
        gaps=_gaps,
        answer_format="letter",
        answer=_answer,
        system_until=(SHOWN_GAP,),
        shown=_kit_form,
        template=lambda shown, scenario: f"{_AGENT}{scenario}" if shown.agent else scenario,
        needed=is_v2,
    )


def scenario(question: Question) -> str:
    """Returns the kind of answer and the facts in the row, e.g. "numeric + sex + spacing"; `NOT_V2` for all but v2."""
    if not is_v2(question):
        return NOT_V2
    form = MULTIPLE_CHOICE if question.answer_kind == "choice" else answer_type(question.facets["subtype"])
    return " + ".join([form, *(name for name in (*PATIENT_CELLS, _SPACING) if name in question.printed)])


def _names() -> Mapping[str, Sequence[str]]:
    known = [names for count in range(len(PATIENT_CELLS) + 1) for names in combinations(PATIENT_CELLS, count)]
    forms = [
        (MULTIPLE_CHOICE,),
        (MULTIPLE_CHOICE, _SPACING),
        *((each,) for each in _ANSWER_TYPES),
        ("numeric", _SPACING),
    ]
    scenarios = [" + ".join([form, *names, *scan]) for form, *scan in forms for names in known]
    asking = {f"{mode}{each}": (SHOWN_GAP, "question") for mode in ("", _AGENT) for each in scenarios}
    return {**dict.fromkeys((VOLUME, VIDEO, IMAGE), ()), **asking}


def _kit_form(shown: ShownAs, question: Question) -> str:
    """Returns the kit's name of the form in which a model is shown a CT, or what the release has in its place.

    The kit has no name for a series of slices, for which its name for volumes is used. An agent is always told that it
    is shown a single slice, even though the kit sends it none.

    Source: Schuture/DeepTumorVQA@1df7460 (branch v2), src/deeptumorvqa/eval/agent_evaluator.py (AgentEvaluator.run).
    """
    if shown.agent:
        return IMAGE
    ways = {"slice": IMAGE, "video": VIDEO}
    return question.printed.get(INPUT_MODE) or ways.get(shown.volumes or "", VOLUME)


def _gaps(question: Question) -> Mapping[str, str | None]:
    inside = {"question": question.text, **dict(zip(LETTERS, question.options, strict=False))}
    layout = question.printed.get("layout", "{question}")
    return {**question.printed, "question": _ROW_GAP.sub(lambda gap: inside.get(gap[1], gap[0]), layout)}


def _answer(question: Question, said: str) -> str:
    if question.answer_kind == "choice":
        return LETTERS[question.options.index(said)]
    return said.lower() if question.answer_kind == "yes_no" else said


def benchmark() -> Benchmark:
    return Benchmark(
        title="CTLesionVQA (DeepTumorVQA)",
        version="1.1",
        licence="v1 CC BY-NC-ND 4.0, v2 CC BY 4.0",
        url="https://github.com/Schuture/DeepTumorVQA",
        citation="DeepTumorVQA. arXiv:2505.18915 (2025); version 2: arXiv:2605.09679 (2026).",
        sources=("ctlesionvqa", "ct_masks", "ct_phantom"),
        facets=("task", "subtype", "format", "organ", *LESION_FACETS, *SUBGROUPS),
        class_facet="subtype",
        render=render,
        parsers={
            "robust": reply_parsers.robust,
            "official": reply_parsers.official,
            "vsi": reply_parsers.vsi,
            "vsi_original": reply_parsers.vsi_original,
        },
        metrics={
            "subtype_mean": scoring.subtype_mean(),
            "question_mean": scoring.question_mean(),
            "multi_choice": scoring.subtype_mean().only(scoring.is_multiple_choice),
            "free_text": scoring.subtype_mean().only(scoring.is_free_text),
            "mra": scoring.question_mean().only(scoring.is_number),
            "sensitivity": scoring.right_share().only(scoring.is_positive),
            "specificity": scoring.right_share().only(scoring.is_negative),
            "youden": scoring.youden(),
        },
        # The paper does not say whether training or answering was repeated; an evaluation can repeat only answering.
        protocol=AnswerProtocol(
            None, repeats=REPEATS, max_new_tokens=None, source='arXiv 2505.18915, appendix F: "5 repeated experiments"'
        ),
        examples=EXAMPLES,
        tables=tables,
        repeat_tables=repeat_tables,
        references=references,
        missing=missing,
        allowed_changes=allowed_changes,
        judging=judge_task(),
        official=official_prompts(),
        result_rows=result_rows,
        oracle=oracle(),
        size_facets=LESION_FACETS,
        published_tables=published_tables,
        tables_in_kit=lambda kit: (v2_board(kit),),
    )


def render(question: Question, answer_format: AnswerFormat) -> Prompt:
    """Returns the prompt: the question with its lettered options, or with the form that a free answer should have."""
    match question.answer_kind:
        case "choice":
            return render_choice(question, answer_format)
        case "yes_no":
            how = f"Answer {' or '.join(question.options)}."
            return Prompt(f"{question.text}\n{how}", question.options, question.answer)
        case "number":
            unit = f", in {question.unit}" if question.unit else ""
            return Prompt(f"{question.text}\nAnswer with one number{unit}.", (), question.answer)
        case _:
            return Prompt(f"{question.text}\nAnswer with a short phrase.", (), question.answer)
