"""Finds the folder of a release, local or on the hub, its files of weights, and the words that its model learnt with.

medtune ships neither CT-CHAT's system prompt (CC-BY-NC-SA) nor LLaVA-Video's sentence about the frames of a video.
Users who have the releases have both: in the code of CT-CHAT, and in the example of LLaVA-Video's model card. The files
are read and never run.
"""

import ast
import hashlib
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from medtune.models.weights.assets import AssetError
from medtune.models.weights.hub import checkpoint_folder
from medtune.models.weights.tokenizer import read_json

SMALL = ("*.json", "*.model", "*.txt", "*.jinja", "*.md")
"""Patterns for the files of a release that are read and checked before its weights are downloaded or opened."""
INDEX = "model.safetensors.index.json"
_ARCHIVES = ("*.z[0-9][0-9]", "*.zip", "zip.z*", "*.zip.[0-9]*", "*.7z*")

_CONVERSATION = ("conversation.py", "llava/conversation.py")
_CARD = "README.md"
_SHOWN = 200
_CONTROL = re.compile(r"^<\|begin_of_text\|>|<\|start_header_id\|>system<\|end_header_id\|>\n\n|<\|eot_id\|>$")
_CODE = re.compile(r"^```[^\n]*\n(.*?)^```", re.DOTALL | re.MULTILINE)


def release_folder(
    where: str | None, what: str, patterns: Sequence[str] | None = None, *, revision: str | None = None
) -> Path:
    """Returns the folder of a release: a local one, or one that is downloaded once from the hub.

    Args:
        where: Local folder or hub id; None where the user named no folder and the hub has none.
        patterns: Names of the files that are downloaded; None downloads all. A local folder is returned as it is.
    """
    if where is None:
        raise AssetError(f"{what} is not on the hub in a form that can be read; give the local folder that holds it")
    return checkpoint_folder(where, what=what, revision=revision, files=patterns)


def weight_files(folder: Path, patterns: Sequence[str], what: str) -> list[Path]:
    """Returns the files of a checkpoint: those that its index names, or those of the first pattern that fits any."""
    index = folder / INDEX
    if index.is_file():
        named = read_json(index).get("weight_map")
        if not isinstance(named, dict) or not named:
            raise ValueError(f"{index}: names no files (weight_map); copy or download it again")
        paths = [folder / str(name) for name in sorted(set(named.values()))]
        if absent := [path.name for path in paths if not path.is_file()]:
            raise FileNotFoundError(
                f"{folder}: no {', '.join(absent)}, which {INDEX} names; copy or download the missing files of {what}"
            )
        return paths
    for pattern in patterns:
        if paths := sorted(folder.glob(pattern)):
            return paths
    archives = sorted({path.name for pattern in _ARCHIVES for path in folder.glob(pattern)})
    packed = ""
    if archives:
        packed = (
            f". There is an archive in parts ({', '.join(archives[:3])}): join them in their order with "
            "`cat PART... > whole.zip`, and unpack it there with `unzip whole.zip`"
        )
    raise FileNotFoundError(f"{folder}: no {' or '.join(patterns)}, which is where {what} should be{packed}")


class Words(NamedTuple):
    """Words that a model is shown beside a question."""

    text: str  # The words; empty where there are none.
    origin: str  # Where they come from, for reports.

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
    """Returns the system prompt of CT-CHAT: the recipe's, else that of the published conversation.py in the folder."""
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
    """Returns the sentence about a video's frames: the recipe's, else the model card's, else medtune's own."""
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
