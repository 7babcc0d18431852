"""ReXSonoVQA's own prompts, read from its repository or from a folder that holds that of its paper.

In the repository, SYSTEM_PROMPT_VIDEO is read from inference_qa_youtube.py, and the prompt of the blind setting from
inference_qa_check.py beside it; the condition "text_only" then uses the latter. No code is run. A folder with the
paper's prompts holds index.json, with a list "prompts" of objects with file and kind, and the text file of the kind
"inference"; the paper prints no prompt for the blind setting. Both are system prompts; the user's turn is the clip and
the question as released.

Source: rajpurkarlab/RexSonoVQA@c2b931f, inference_qa_youtube.py and inference_qa_check.py; arXiv 2604.10916, Figure A4.
"""

from __future__ import annotations

import ast
import json
from collections.abc import Mapping
from pathlib import Path

from medtune.benchmarks.rexsonovqa.letter_parsers import LETTERS
from medtune.data.types import Question
from medtune.eval.asking.official_prompts import OfficialPrompts

VIDEO, BLIND = "video", "blind"
_CODE, _CODE_BLIND = "inference_qa_youtube.py", "inference_qa_check.py"
_QUESTION = "question"


def official_prompts() -> OfficialPrompts:
    """Returns how the official prompts are read and filled."""
    return OfficialPrompts(
        read=read,
        scenario=lambda question: VIDEO,
        gaps=lambda question: {_QUESTION: as_released(question)},
        answer_format="letter",
        answer=_answer,
        system_until=_QUESTION,
        blind=BLIND,
    )


def as_released(question: Question) -> str:
    """Returns the question with its lettered options in the style of its release, which is either "A." or "A)"."""
    mark = question.printed.get("option_mark", ".")
    lettered = [f"{letter}{mark} {option}" for letter, option in zip(LETTERS, question.options, strict=False)]
    return "\n".join([question.text, *lettered])


def read(folder: Path) -> Mapping[str, str]:
    """Returns the template for questions with the video and, if the folder holds it, the one without the video.

    Raises:
        FileNotFoundError: The folder holds neither the repository's file nor the index.json of the paper's prompts.
        ValueError: A file is broken.
    """
    if (folder / _CODE).is_file():
        found = {VIDEO: _assigned(folder / _CODE, "SYSTEM_PROMPT_VIDEO")}
        if (folder / _CODE_BLIND).is_file():
            found[BLIND] = _returned(folder / _CODE_BLIND, "create_system_prompt")
    elif (folder / "index.json").is_file():
        found = {VIDEO: _paper(folder)}
    else:
        raise FileNotFoundError(
            f"{folder}: wanted {_CODE} of ReXSonoVQA's repository, or index.json with the paper's prompts; check "
            "--prompts"
        )
    return {name: f"{said.strip()}\n\n{{{_QUESTION}}}" for name, said in found.items()}


def _paper(folder: Path) -> str:
    path = folder / "index.json"
    try:
        listed = json.loads(path.read_text("utf-8"))["prompts"]
        (entry,) = [each for each in listed if each["kind"] == "inference"]
        return (folder / str(entry["file"])).read_text("utf-8")
    except (ValueError, KeyError, TypeError) as error:
        raise ValueError(
            f"{path}: wanted an object with a list 'prompts' that holds one of kind 'inference' "
            f"({type(error).__name__}). Copy it again."
        ) from None


def _assigned(path: Path, name: str) -> str:
    for node in ast.walk(_tree(path)):
        if isinstance(node, ast.Assign) and any(isinstance(t, ast.Name) and t.id == name for t in node.targets):
            return _text(node.value, path, name)
    raise ValueError(f"{path}: wanted a text {name}, there is none. Copy it from the benchmark again.")


def _returned(path: Path, name: str) -> str:
    for node in ast.walk(_tree(path)):
        if isinstance(node, ast.FunctionDef) and node.name == name:
            said = [each.value for each in ast.walk(node) if isinstance(each, ast.Return) and each.value is not None]
            if len(said) == 1:
                return _text(said[0], path, name)
    raise ValueError(f"{path}: wanted a function {name} that returns a text. Copy it from the benchmark again.")


def _text(node: ast.expr, path: Path, name: str) -> str:
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return node.value
    raise ValueError(f"{path}: {name} is no plain text. Copy it from the benchmark again.")


def _tree(path: Path) -> ast.Module:
    try:
        return ast.parse(path.read_text("utf-8"))
    except (SyntaxError, ValueError) as error:
        raise ValueError(f"{path}: no Python that could be read ({error}). Copy it from the benchmark again.") from None


def _answer(question: Question, said: str) -> str:
    """Returns the answer in the form with which the prompt asks a reply to begin; a free response is unchanged."""
    if said not in question.options:
        return said
    return f"Answer: {LETTERS[question.options.index(said)]}"
