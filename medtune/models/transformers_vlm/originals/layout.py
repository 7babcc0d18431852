"""The record of a folder in its authors' own layout, and what the layouts share: texts, tokens, settings."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from functools import lru_cache, partial
from pathlib import Path
from typing import Any

import transformers
from transformers import CONFIG_MAPPING, PreTrainedConfig
from transformers.models.auto.modeling_auto import MODEL_FOR_CAUSAL_LM_MAPPING_NAMES

from medtune.models.weights.key_map import Deferred, KeyMap
from medtune.models.weights.tokenizer import read_json, read_tokenizer

_TURNED = """{% set ns = namespace(turns=[]) %}{% for message in messages %}{% if message['content'] is string %}\
{% set said = message['content'] %}{% else %}{% set part_ns = namespace(said='') %}\
{% for part in message['content'] %}{% if part['type'] == 'image' %}{% set part_ns.said = part_ns.said + 'IMAGE\\n' %}\
{% elif part['type'] == 'video' %}{% set part_ns.said = part_ns.said + 'VIDEO\\n' %}\
{% else %}{% set part_ns.said = part_ns.said + part['text'] %}{% endif %}{% endfor %}\
{% set said = part_ns.said %}{% endif %}\
{% set ns.turns = ns.turns + [{'role': message['role'], 'content': said}] %}{% endfor %}\
{% set messages = ns.turns +%}"""
"""Turns the parts of a conversation into texts, for templates that take texts alone."""

HF = "Take the checkpoint in transformers' own format (an -hf repository of the same authors), if there is one"


def turns(before: str, between: str, behind: str, system: str = "") -> str:
    """Returns a chat template of texts: system, then before + question + between, then answer + behind."""
    return (
        f"{{{{ {system!r} }}}}{{% for message in messages %}}{{% if message['role'] == 'user' %}}"
        f"{{{{ {before!r} + message['content'] + {between!r} }}}}"
        f"{{% else %}}{{{{ message['content'] + {behind!r} }}}}{{% endif %}}{{% endfor %}}"
    )


CHATML = partial(turns, "<|im_start|>user\n", "<|im_end|>\n<|im_start|>assistant\n", "<|im_end|>\n")


@dataclass(frozen=True, slots=True)
class Original:
    """A folder in its authors' own layout."""

    config: PreTrainedConfig  # The configuration of transformers' own class.
    processor: Callable[[], Any]  # Puts the processor together around the folder's tokenizer.
    key_map: KeyMap  # The rules that name its tensors.
    words: Mapping[str, str] = field(default_factory=dict)  # Where prompts and tower come from, for weights.json.
    # Cuts tensors that hold several weights in an order of their own.
    parted: Callable[[Deferred], Deferred] = lambda tensors: tensors
    tower: str | None = None  # The folder or hub id of a tower, whose tensors are read where the checkpoint holds none.


def refuse(folder: Path, key: str, found: object, hint: str) -> ValueError:
    return ValueError(
        f"{folder}/config.json: {key} is {found!r}, which transformers' own class does not know, and the code of a "
        f"checkpoint is never run. {hint}, or serve it and name it as model.endpoint"
    )


def text_fields(folder: Path, said: Mapping[str, Any], kind: str) -> dict[str, Any]:
    if kind not in MODEL_FOR_CAUSAL_LM_MAPPING_NAMES:
        raise refuse(folder, "its language model", kind, HF)
    known = {each.name for each in fields(CONFIG_MAPPING[kind])} | {"rope_theta", "rope_scaling", "head_dim"}
    left_out = ("architectures", "dtype", "torch_dtype", "auto_map", "transformers_version", "model_type")
    return {"model_type": kind, **{k: v for k, v in said.items() if k in known and k not in left_out}}


def stamp(folder: Path) -> tuple[int, ...]:
    return tuple(path.stat().st_mtime_ns for path in sorted(folder.glob("*token*")))


@lru_cache(maxsize=2)
def kept_tokenizer(folder: Path, stamp: tuple[int, ...]) -> Any:
    """Returns the folder's tokenizer, to be asked and not changed."""
    return read_tokenizer(folder)


def normalisation(folder: Path, default: Mapping[str, Any]) -> dict[str, Any]:
    path = folder / "preprocessor_config.json"
    told = read_json(path) if path.is_file() else {}
    return {**default, **{key: told[key] for key in ("image_mean", "image_std") if key in told}}


def with_tokens(folder: Path, named: Mapping[str, str], *, added: tuple[str, ...]) -> Any:
    tokenizer = read_tokenizer(folder)
    known = tokenizer.get_vocab()
    if absent := [token for token in named.values() if token not in known and token not in added]:
        raise ValueError(f"{folder}: its tokenizer has no token {absent[0]!r}; is it that of another model?")
    tokenizer.add_tokens([token for token in added if token not in known], special_tokens=True)
    roles = {role: getattr(tokenizer, role) for role in ("bos_token", "eos_token", "unk_token", "pad_token")}
    return transformers.PreTrainedTokenizerFast(
        tokenizer_object=tokenizer.backend_tokenizer,
        extra_special_tokens=dict(named),
        clean_up_tokenization_spaces=False,
        **{role: token for role, token in roles.items() if token is not None},
    )


def pictured(template: str, image: str, video: str, *, apart: str = "\\n") -> str:
    return _TURNED.replace("IMAGE\\n", image + apart).replace("VIDEO\\n", video + apart) + template
