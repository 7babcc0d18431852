"""ReXSonoVQA's own prompts, read from its repository or from a folder that holds that of its paper.

In the repository, SYSTEM_PROMPT_VIDEO and SYSTEM_PROMPT_FRAMES are read from inference_qa_youtube.py, the latter with
the text that the script sends behind the frames; it asks a server, which is sent the frames as pictures. The prompt of
the blind setting is read from inference_qa_check.py beside it; the condition "text_only" then uses it. No code is run.
A folder with the paper's prompts holds index.json, with a list "prompts" of objects with file and kind, and the text
file of the kind "inference"; the paper prints no prompt for frames or for the blind setting, so that these are asked
with the one that it prints. All are system prompts; the user's turn is the clip and the question as released.

Source: rajpurkarlab/RexSonoVQA@c2b931f, inference_qa_youtube.py and inference_qa_check.py; arXiv 2604.10916, Figure A4.
"""

from __future__ import annotations

import ast
import json
from collections.abc import Mapping
from pathlib import Path

from medtune.benchmarks.rexsonovqa.letter_parsers import LETTERS
from medtune.data.types import Question
from medtune.eval.asking.official_prompts import PICTURES_GAP, OfficialPrompts

VIDEO, FRAMES, BLIND = "video", "frames", "blind"
_CODE, _CODE_BLIND = "inference_qa_youtube.py", "inference_qa_check.py"
_QUESTION, _USER = "question", "user"
# The names in the script for the pictures and the question, and the gaps that stand for them.
_SENT_GAPS = {"len(frames_b64)": PICTURES_GAP, "question": _QUESTION}
_FRAMES_PER_S = 5.0


def official_prompts() -> OfficialPrompts:
    """Returns how the official prompts are read and filled."""
    return OfficialPrompts(
        read=read,
        scenario=lambda question: VIDEO,
        gaps=lambda question: {_QUESTION: as_released(question), _USER: ""},
        answer_format="letter",
        answer=_answer,
        system_until=(_USER, _QUESTION),
        blind=BLIND,
        template=lambda shown, scenario: FRAMES if shown.videos_as_pictures else scenario,
        pictures_per_s=_FRAMES_PER_S,
    )


def as_released(question: Question) -> str:
    """Returns the question with its lettered options in the style of its release, which is either "A." or "A)"."""
    mark = question.printed.get("option_mark", ".")
    lettered = [f"{letter}{mark} {option}" for letter, option in zip(LETTERS, question.options, strict=False)]
    return "\n".join([question.text, *lettered])


def read(folder: Path) -> Mapping[str, str]:
    """Returns the templates: with the video, with its frames as pictures, and without it, if the folder holds them.

    Raises:
        FileNotFoundError: The folder holds neither the repository's file nor the index.json of the paper's prompts.
        ValueError: A file is broken.
    """
    if (folder / _CODE).is_file():
        found = {VIDEO: _assigned(folder / _CODE, "SYSTEM_PROMPT_VIDEO")}
        found[FRAMES] = _assigned(folder / _CODE, "SYSTEM_PROMPT_FRAMES")
        if (folder / _CODE_BLIND).is_file():
            found[BLIND] = _returned(folder / _CODE_BLIND, "create_system_prompt")
    elif (folder / "index.json").is_file():
        found = {VIDEO: _paper(folder)}
    else:
        raise FileNotFoundError(
            f"{folder}: wanted {_CODE} of ReXSonoVQA's repository, or index.json with the paper's prompts; check "
            "--prompts"
        )
    templates = {name: f"{said.strip()}\n\n{{{_QUESTION}}}" for name, said in found.items()}
    if FRAMES in found:
        templates[FRAMES] = f"{found[FRAMES].strip()}\n\n{{{_USER}}}{_said_with_frames(folder / _CODE)}"
    return templates


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


def _said_with_frames(path: Path) -> str:
    """Returns the text that the script sends behind the frames, with gaps for their number and for the question."""
    sent = [node for node in ast.walk(_tree(path)) if isinstance(node, ast.Dict) and _is_sent_text(node)]
    said = [value for node in sent for key, value in zip(node.keys, node.values, strict=True) if _is_text(key, "text")]
    # Where the script sends the video itself, the text behind it is the question alone.
    texts = [text for text in said if isinstance(text, ast.JoinedStr)]
    if len(texts) != 1:
        raise ValueError(f"{path}: wanted one text of the type input_text with gaps. Copy it from the benchmark again.")
    parts = []
    for part in texts[0].values:
        if isinstance(part, ast.FormattedValue):
            name = ast.unparse(part.value)
            if name not in _SENT_GAPS or part.conversion != -1 or part.format_spec is not None:
                raise ValueError(f"{path}: no gap {{{name}}} is known. Copy it from the benchmark again.")
            parts.append(f"{{{_SENT_GAPS[name]}}}")
        else:
            parts.append(_text(part, path, "the text of the type input_text"))
    return "".join(parts)


def _is_sent_text(node: ast.Dict) -> bool:
    pairs = zip(node.keys, node.values, strict=True)
    return any(_is_text(key, "type") and _is_text(value, "input_text") for key, value in pairs)


def _is_text(node: ast.expr | None, text: str) -> bool:
    return isinstance(node, ast.Constant) and node.value == text


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
