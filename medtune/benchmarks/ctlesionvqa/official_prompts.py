"""The official prompts of version 2: a system turn, then what the kit's `build_prompt` returns.

There is a template for each kind of answer and each set of facts about patient and scan that a row holds. A volume is
announced in the kit's words for volumes, or in its words for videos or single slices where a model is shown those. A
served agent is asked in the templates "agent: ...", which begin with the kit's system turn for agents. Version 1 has no
published prompts and is asked in our words.

Source: Schuture/DeepTumorVQA@1df7460 (branch v2), src/deeptumorvqa/data/prompt.py.
"""

import re
from collections.abc import Mapping, Sequence
from itertools import combinations

from medtune.benchmarks.ctlesionvqa.sources.ctlesionvqa.released_pictures import INPUT_MODE
from medtune.benchmarks.ctlesionvqa.subtypes import answer_type
from medtune.data.raw.lettered_options import LETTERS
from medtune.data.types import Question
from medtune.eval.asking.official_prompts import SHOWN_GAP, OfficialPrompts, ShownAs

NOT_V2 = "not of v2"
MULTIPLE_CHOICE = "multiple choice"
VOLUME, VIDEO, IMAGE = "3d_volume", "2d_video", "2d_image"
_AGENT = "agent: "
_ANSWER_TYPES = ("numeric", "binary", "categorical")
_PATIENT = ("sex", "age", "scanner", "contrast")
_SPACING = "spacing"
_ROW_GAP = re.compile(r"\{(\w+)\}")


def official_prompts() -> OfficialPrompts:
    return OfficialPrompts(
        names=_names(),
        scenario=scenario,
        gaps=_gaps,
        answer_format="letter",
        answer=_answer,
        system_until=(SHOWN_GAP,),
        shown=_shown,
        template=lambda shown, scenario: f"{_AGENT}{scenario}" if shown.agent else scenario,
    )


def scenario(question: Question) -> str:
    """Returns the kind of answer and the facts in the row, e.g. "numeric + sex + spacing"; `NOT_V2` for all but v2."""
    if "layout" not in question.printed:
        return NOT_V2
    form = MULTIPLE_CHOICE if question.answer_kind == "choice" else answer_type(question.facets["subtype"])
    return " + ".join([form, *(name for name in (*_PATIENT, _SPACING) if name in question.printed)])


def _names() -> Mapping[str, Sequence[str]]:
    known = [names for count in range(len(_PATIENT) + 1) for names in combinations(_PATIENT, count)]
    forms = [
        (MULTIPLE_CHOICE,),
        (MULTIPLE_CHOICE, _SPACING),
        *((each,) for each in _ANSWER_TYPES),
        ("numeric", _SPACING),
    ]
    scenarios = [" + ".join([form, *names, *scan]) for form, *scan in forms for names in known]
    asking = {f"{mode}{each}": (SHOWN_GAP, "question") for mode in ("", _AGENT) for each in scenarios}
    return {**dict.fromkeys((VOLUME, VIDEO, IMAGE), ()), **asking}


def _shown(shown: ShownAs, question: Question) -> str:
    """Returns the kit's name of the form in which a model is shown a CT, or what the release has in its place.

    The kit has no name for a series of slices, for which its name for volumes is used. An agent is always told that it
    is shown a single slice, even though the kit sends it none.

    Source:
        Schuture/DeepTumorVQA@1df7460 (branch v2), src/deeptumorvqa/eval/agent_evaluator.py (AgentEvaluator.run).
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
