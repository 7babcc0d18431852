"""Reads the tokenizer of a folder: tokenizer.json, or the sentencepiece file tokenizer.model that older releases have.

A tokenizer.model is converted for the tokenizers library. transformers converts it in two ways, of which one drops the
blank that LLaMA's tokenizer puts before a text, so that the conversion is compared with sentencepiece itself.
"""

from pathlib import Path
from typing import Any

import transformers
from sentencepiece import SentencePieceProcessor
from transformers import CONFIG_MAPPING, AutoTokenizer, LlamaTokenizer, PreTrainedConfig, PreTrainedTokenizerFast

from medtune.data.json_text import json_value
from medtune.models.sequence.template_limits import refuse_endless
from medtune.models.weights.folder_check import why_unread

SETTING = "trust_remote_code"

CONVERTED, SENTENCEPIECE, _VOCABULARY = "tokenizer.json", "tokenizer.model", "vocab.json"
_CONFIG = "tokenizer_config.json"
_ROLES = ("bos", "eos", "unk")
_PROBES = ("How large is the liver?", "5.2 cm\n(3 x 4 mm)", "Größe: 12,5 µm", "no")
"""Texts by which a converted tokenizer is compared with sentencepiece."""


def refuse_own_code(folder: Path, said: str, error: Exception) -> None:
    """Explains an error of transformers if it came from a checkpoint's wish to run code; otherwise does nothing."""
    if SETTING not in str(error):
        return
    wanting = sorted(path.name for path in folder.glob("*.json") if _names_code(path))
    raise ValueError(
        f"{said}: it wants to run code of its own (auto_map in {', '.join(wanting) or 'its files'}), which medtune "
        f"never does, because code can do anything on this machine. Take the checkpoint in a form that transformers "
        f"{transformers.__version__} reads by itself (often an -hf repository of the same authors), or convert it"
    ) from error


def _names_code(path: Path) -> bool:
    try:
        said = json_value(path.read_text("utf-8"))
    except (OSError, ValueError):
        return False
    return isinstance(said, dict) and "auto_map" in said


def tokenizer_folder(folders: list[Path], *, of: str) -> Path:
    """Returns the first folder that holds a tokenizer."""
    for folder in folders:
        if any((folder / name).is_file() for name in (CONVERTED, SENTENCEPIECE, _VOCABULARY)):
            return folder
    places = " or ".join(dict.fromkeys(map(str, folders)))
    raise FileNotFoundError(f"{of}: no tokenizer ({CONVERTED} or {SENTENCEPIECE}) in {places}")


def read_tokenizer(folder: Path) -> PreTrainedTokenizerFast:
    tokenizer_folder([folder], of="model.weights")
    said = _read_config(folder)
    if (folder / CONVERTED).is_file() or not (folder / SENTENCEPIECE).is_file():
        return _auto(folder)
    path = folder / SENTENCEPIECE
    try:
        pieces = SentencePieceProcessor(model_file=str(path))
    except (RuntimeError, OSError) as error:
        raise ValueError(f"{path}: not a sentencepiece file; copy or download it again ({error})") from error
    if not str(said.get("tokenizer_class") or "LlamaTokenizer").startswith(("LlamaTokenizer", "InternLM2Tokenizer")):
        return _auto(folder)
    return _converted(folder, pieces, said)


def _converted(folder: Path, pieces: SentencePieceProcessor, said: dict[str, Any]) -> PreTrainedTokenizerFast:
    ids = {"bos": pieces.bos_id(), "eos": pieces.eos_id(), "unk": pieces.unk_id()}
    # RadFM's tokenizer_config.json names the empty text as each of the three.
    unnamed = [role for role in _ROLES if not said.get(f"{role}_token") and ids[role] >= 0]
    named: dict[str, Any] = {f"{role}_token": pieces.id_to_piece(ids[role]) for role in unnamed}
    try:
        tokenizer: Any = LlamaTokenizer.from_pretrained(folder, local_files_only=True, trust_remote_code=False, **named)
    except Exception as error:
        raise _unreadable(folder, error) from error
    encode = tokenizer.backend_tokenizer.encode
    for text in _PROBES:
        found, wanted = encode(text, add_special_tokens=False).ids, pieces.encode(text)
        if found != wanted:
            raise ValueError(
                f"{folder / SENTENCEPIECE}: transformers converts it to another tokenizer: {text!r} becomes {found}, "
                f"sentencepiece itself gives {wanted}; save it once as {CONVERTED} and compare the two"
            )
    return _of_tokenizers(folder, tokenizer)


def _auto(folder: Path) -> PreTrainedTokenizerFast:
    path = folder / "config.json"
    # transformers warns about a configuration that it does not know, which says nothing about the tokenizer.
    known = not path.is_file() or read_json(path).get("model_type") in CONFIG_MAPPING
    how: dict[str, Any] = {} if known else {"config": PreTrainedConfig()}
    try:
        tokenizer: Any = AutoTokenizer.from_pretrained(folder, local_files_only=True, trust_remote_code=False, **how)
    except Exception as error:
        refuse_own_code(folder, str(folder), error)
        raise _unreadable(folder, error) from error
    return _of_tokenizers(folder, tokenizer)


def _of_tokenizers(folder: Path, tokenizer: object) -> PreTrainedTokenizerFast:
    if not isinstance(tokenizer, PreTrainedTokenizerFast):
        raise ValueError(f"{folder}: the tokenizer is not one of the tokenizers library; save it as {CONVERTED}")
    refuse_endless(tokenizer)
    refuse_no_length(tokenizer, folder)
    return tokenizer


def refuse_no_length(tokenizer: Any, folder: Path) -> None:
    """Refuses a tokenizer whose longest text is no number, with which every text would be compared."""
    if not isinstance(most := getattr(tokenizer, "model_max_length", 0), int | float):
        raise ValueError(
            f"{folder / _CONFIG}: model_max_length is {most!r:.60}; wanted a number. Copy the folder again."
        )


def _unreadable(folder: Path, error: Exception) -> ValueError:
    if isinstance(error, RecursionError):
        why = f"{_CONFIG} names the empty text as a token; give bos_token, eos_token and unk_token their names"
    else:
        why = why_unread(error)
    return ValueError(f"{folder}: no tokenizer ({CONVERTED} or {SENTENCEPIECE}) that can be read: {why}")


def _read_config(folder: Path) -> dict[str, Any]:
    path = folder / _CONFIG
    return read_json(path) if path.is_file() else {}


def read_json(path: Path) -> dict[str, Any]:
    try:
        said = json_value(path.read_text("utf-8"))
    except ValueError as error:
        raise ValueError(f"{path}: damaged ({error}). Copy or download it again.") from error
    if not isinstance(said, dict):
        raise ValueError(f"{path}: not a JSON object")
    return said
