"""Finds the words that a model was trained with in the files of its release, which are read and never run.

medtune ships neither CT-CHAT's system prompt (CC-BY-NC-SA) nor LLaVA-Video's sentence about the frames of a video.
Users who have the releases have both: in the code of CT-CHAT, and in the example of LLaVA-Video's model card.
"""

import ast
import hashlib
import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

_CONVERSATION = ("conversation.py", "llava/conversation.py")
_CARD = "README.md"
_SHOWN = 200
_CONTROL = re.compile(r"^<\|begin_of_text\|>|<\|start_header_id\|>system<\|end_header_id\|>\n\n|<\|eot_id\|>$")
_CODE = re.compile(r"^```[^\n]*\n(.*?)^```", re.DOTALL | re.MULTILINE)


class Words(NamedTuple):
    """Words that a model is shown beside a question.

    Attributes:
        text: The words; empty where there are none.
        origin: Where they come from, for reports.
    """

    text: str
    origin: str

    @property
    def described(self) -> str:
        """The origin and the words; of long words the beginning, with their number and a hash."""
        if not self.text:
            return self.origin
        if len(self.text) <= _SHOWN:
            return f"{self.origin}: {self.text}"
        digest = hashlib.sha256(self.text.encode()).hexdigest()[:16]
        return f"{self.origin}: {self.text[:_SHOWN]} ... ({len(self.text)} characters, SHA-256 {digest})"


def system_prompt_of(folder: Path, said: str | None) -> Words:
    """Returns the system prompt of CT-CHAT: the recipe's, else that of the published conversation.py in the folder.

    Args:
        folder: The folder of the release.
        said: The recipe's model.system_prompt.
    """
    if said is not None:
        return Words(said, "model.system_prompt")
    for path in (folder / name for name in _CONVERSATION):
        if path.is_file():
            for name, value in _assigned(path.read_text("utf-8"), str(path)):
                if name == "conv_llama3" and isinstance(value, ast.Call):
                    for keyword in value.keywords:
                        if keyword.arg == "system" and isinstance(keyword.value, ast.Constant):
                            return Words(_CONTROL.sub("", str(keyword.value.value)), f"{path.name} in {folder.name}")
            raise ValueError(f"{path}: no conv_llama3 with a system prompt; take conversation.py of CT-CHAT")
    return Words(
        "",
        f"none: {folder.name} has no {_CONVERSATION[0]} of the published code; copy it there, or set "
        "model.system_prompt",
    )


def time_sentence_of(folder: Path, said: str | None, *, own: str) -> Words:
    """Returns the sentence about a video's frames: the recipe's, else the model card's, else medtune's own.

    Args:
        folder: The folder of the release.
        said: The recipe's model.time_sentence.
        own: medtune's sentence.
    """
    if said is not None:
        return Words(_checked(said), "model.time_sentence")
    card = folder / _CARD
    if card.is_file():
        for block in _CODE.findall(card.read_text("utf-8")):
            try:
                named = list(_assigned(block, str(card)))
            except ValueError:
                # A block that is no Python code.
                continue
            for name, value in named:
                sentence = _as_sentence(value) if name.startswith("time_instruc") else None
                if sentence is not None:
                    return Words(sentence, f"{_CARD} in {folder.name}")
    return Words(
        own,
        f"medtune's own: {folder.name} has no {_CARD} with the published sentence; copy it there, or set "
        "model.time_sentence",
    )


def _assigned(code: str, where: str) -> Iterator[tuple[str, ast.expr]]:
    try:
        tree = ast.parse(code)
    except SyntaxError as error:
        raise ValueError(f"{where}: not Python code that can be read ({error.msg})") from error
    for statement in tree.body:
        if isinstance(statement, ast.Assign) and isinstance(statement.targets[0], ast.Name):
            yield statement.targets[0].id, statement.value


def _as_sentence(value: ast.expr) -> str | None:
    if not isinstance(value, ast.JoinedStr):
        return None
    text = ""
    for part in value.values:
        if isinstance(part, ast.Constant):
            text += str(part.value).replace("{", "{{").replace("}", "}}")
            continue
        field = _field(part)
        if field is None:
            return None
        text += field
    return text


def _field(part: ast.expr) -> str | None:
    if not isinstance(part, ast.FormattedValue):
        return None
    match part.value:
        case ast.Name(id="video_time"):
            return "{seconds}"
        case ast.Name(id="frame_time"):
            return "{times}"
        case ast.Call(func=ast.Name(id="len")):
            return "{frames}"
    return None


def _checked(sentence: str) -> str:
    try:
        sentence.format(seconds="1.00", frames="1", times="0.00s")
    except (KeyError, IndexError, ValueError) as error:
        raise ValueError(
            f"model.time_sentence {sentence!r}: {error} in braces; it may hold {{seconds}}, {{frames}} and {{times}}"
        ) from error
    return sentence
