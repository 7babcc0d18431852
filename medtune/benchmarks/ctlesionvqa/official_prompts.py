"""Reads the official prompts of version 2 from its evaluation kit: a system turn, then the text of `build_prompt`.

The kit is a clone of the branch v2, or a folder with its prompt.py; the code is read and never run. Each way through
the code is one template, chosen by the kind of answer and by the facts about patient and scan that the row holds. A
volume is announced in the kit's words for volumes, or in its words for videos or single slices where a model is shown
those. A served agent is asked behind the kit's system turn for agents. Version 1 has no published prompts and is asked
in our words.

Source: Schuture/DeepTumorVQA@1df7460 (branch v2), src/deeptumorvqa/data/prompt.py.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import combinations
from pathlib import Path

from medtune.benchmarks.ctlesionvqa.sources.ctlesionvqa.released_pictures import INPUT_MODE
from medtune.benchmarks.ctlesionvqa.subtypes import answer_type
from medtune.benchmarks.medical_kits.prompts.kit_interpreter import KitCode, Value
from medtune.data.raw.lettered_options import LETTERS
from medtune.data.types import Question
from medtune.eval.asking.official_prompts import SHOWN_GAP, OfficialPrompts, ShownAs

NOT_V2 = "not of v2"
MULTIPLE_CHOICE = "multiple choice"
VOLUME, VIDEO, IMAGE = "3d_volume", "2d_video", "2d_image"
_SYSTEMS = {"": "SYSTEM_PROMPT_VQA", "agent: ": "SYSTEM_PROMPT_AGENT"}
_FILE, _TYPES_FILE = "prompt.py", Path("eval/metrics.py")
_FOLDERS = (".", "data", "deeptumorvqa/data", "src/deeptumorvqa/data")
_TYPES = "SUBTYPE_ANSWER_TYPE"
_ANSWER_TYPES = ("numeric", "binary", "categorical")
_PATIENT = ("sex", "age", "scanner", "contrast")
_SPACING = "spacing"
_KNOWN = (
    "medtune reads https://github.com/Schuture/DeepTumorVQA at 1df7460 (branch v2): take that, or leave --prompts out."
)
_ROW_GAP = re.compile(r"\{(\w+)\}")


def official_prompts() -> OfficialPrompts:
    """Returns how the official prompts are read and filled."""
    return OfficialPrompts(
        read=read,
        scenario=scenario,
        gaps=_gaps,
        answer_format="letter",
        answer=_answer,
        system_until=(SHOWN_GAP,),
        shown=_shown,
        template=lambda shown, scenario: f"agent: {scenario}" if shown.agent else scenario,
    )


def scenario(question: Question) -> str:
    """Returns the kind of answer and the facts in the row, e.g. "numeric + sex + spacing"; `NOT_V2` for all but v2."""
    if "layout" not in question.printed:
        return NOT_V2
    form = MULTIPLE_CHOICE if question.answer_kind == "choice" else answer_type(question.facets["subtype"])
    return " + ".join([form, *(name for name in (*_PATIENT, _SPACING) if name in question.printed)])


def read(folder: Path) -> Mapping[str, str]:
    """Returns the templates by scenario, and the words that announce a CT by the kit's name of how the CT is shown.

    Raises:
        FileNotFoundError: The kit's file is missing.
        ValueError: The kit's file is not the version that medtune knows.
    """
    path = next((file for place in _FOLDERS if (file := folder / place / _FILE).is_file()), None)
    if path is None:
        raise FileNotFoundError(
            f"{folder}: wanted {_FILE} of DeepTumorVQA's evaluation kit: give a clone of "
            "https://github.com/Schuture/DeepTumorVQA, branch v2, or its folder src/deeptumorvqa/data; check --prompts"
        )
    _check_types(path.parent.parent / _TYPES_FILE)
    code = KitCode(path, known=_KNOWN)
    found = {way: code.result("_modality_blurb", way) for way in (VOLUME, VIDEO, IMAGE)}
    if not all(found.values()):
        raise ValueError(f"{path}: _modality_blurb does not say what {', '.join(found)} are. {_KNOWN}")
    systems = {mode: code.constant(name) for mode, name in _SYSTEMS.items()}
    # The name of each kind of answer stands for the subtypes that ask for it.
    given: dict[str, Value] = {_TYPES: {each: each for each in _ANSWER_TYPES}}
    asking = KitCode(path, known=_KNOWN, given=given, returned={"_modality_blurb": f"{{{SHOWN_GAP}}}"})
    for name, row, form in _rows():
        text = asking.result("build_prompt", row, VOLUME, form)
        if not text.startswith(f"{{{SHOWN_GAP}}}") or "{question}" not in text:
            raise ValueError(
                f"{path}: wanted build_prompt to say first what is shown, and to ask the question; for {name!r} it "
                f"does not. {_KNOWN}"
            )
        found |= {f"{mode}{name}": f"{system}\n\n{text}" for mode, system in systems.items()}
    return found


def _rows() -> Iterator[tuple[str, dict[str, Value], str]]:
    """Yields each scenario, a row of it with gaps for cells, and the kit's name of the format."""
    known = [names for count in range(len(_PATIENT) + 1) for names in combinations(_PATIENT, count)]
    forms: list[tuple[str, str, Sequence[str]]] = [
        (MULTIPLE_CHOICE, "categorical", ()),
        (MULTIPLE_CHOICE, "numeric", (_SPACING,)),
        *((each, each, ()) for each in _ANSWER_TYPES),
        ("numeric", "numeric", (_SPACING,)),
    ]
    for form, asked, scan in forms:
        column, fmt = ("mc_question", "mc") if form == MULTIPLE_CHOICE else ("question", "freeform")
        for names in known:
            cells = (*names, *scan, *(("shape",) if scan else ()))
            row: dict[str, Value] = {name: f"{{{name}}}" for name in cells}
            yield " + ".join([form, *names, *scan]), row | {column: "{question}", "question_subtype": asked}, fmt


def _check_types(path: Path) -> None:
    """Checks that the kit and medtune agree on the kind of answer of every subtype.

    Raises:
        ValueError: They disagree.
    """
    if not path.is_file():
        return
    try:
        nodes = ast.parse(path.read_text("utf-8")).body
        (said,) = [
            ast.literal_eval(node.value)
            for node in nodes
            if isinstance(node, ast.AnnAssign | ast.Assign) and node.value and _names(node) == [_TYPES]
        ]
        other = [name for name, each in dict(said).items() if answer_type(name) != each]
    except (SyntaxError, ValueError, TypeError) as error:
        raise ValueError(f"{path}: wanted a dict {_TYPES} ({type(error).__name__}). {_KNOWN}") from None
    if other:
        raise ValueError(f"{path}: {_TYPES} has other kinds of answers than medtune for {', '.join(other)}. {_KNOWN}")


def _names(node: ast.AnnAssign | ast.Assign) -> list[str]:
    targets = [node.target] if isinstance(node, ast.AnnAssign) else node.targets
    return [target.id for target in targets if isinstance(target, ast.Name)]


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
    """Returns the answer in the form that the prompt asks for: a letter, "yes" or "no", or a phrase or number."""
    if question.answer_kind == "choice":
        return LETTERS[question.options.index(said)]
    return said.lower() if question.answer_kind == "yes_no" else said
