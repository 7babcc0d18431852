"""Which layers an adapter's settings name: as in peft, but within a limit of time; errors name the field."""

import dataclasses
import json
import time
from pathlib import Path
from typing import Any

import pytest
from peft import LoraConfig
from peft.tuners.tuners_utils import check_target_module_exists
from peft.utils.other import get_pattern_key

from medtune.models.weights.adapter_settings import CONFIG, read_settings, spelled_out, targets, value_of

NAMES = [
    f"model.{part}.layers.{number}.{block}.{layer}"
    for part in ("language_model", "visual")
    for number in (0, 1, 11)
    for block, layer in (("self_attn", "q_proj"), ("mlp", "down_proj"), ("mlp.experts.3", "up_proj"))
] + ["lm_head", "model.visual.merger", "q_proj", "layers.1.q_proj"]
"""Names of layers of several depths, some of which end or begin alike."""
BOMB = r"(\w|\w|\w\w|\.|\.)+[^\w.]"


@pytest.mark.parametrize(
    "settings",
    [
        {"target_modules": ["q_proj", "up_proj"]},
        {"target_modules": ["self_attn.q_proj", "lm_head"]},
        {"target_modules": r".*language_model.*\.(q_proj|down_proj)"},
        {"target_modules": ["q_proj", "down_proj"], "exclude_modules": ["layers.0.self_attn.q_proj"]},
        {"target_modules": ["q_proj", "down_proj"], "exclude_modules": r".*visual.*"},
        {"target_modules": ["q_proj", "up_proj"], "layers_to_transform": [1]},
        {"target_modules": ["q_proj", "up_proj"], "layers_to_transform": 11, "layers_pattern": "layers"},
        {"target_modules": ["q_proj", "up_proj"], "layers_to_transform": [3], "layers_pattern": ["h", "experts"]},
        {"target_modules": ["q_proj", "merger"], "modules_to_save": ["merger", "visual"]},
    ],
)
def test_the_layers_are_those_that_peft_adapts(settings: dict[str, Any]) -> None:
    config = LoraConfig(**settings)
    expected = [bool(check_target_module_exists(config, name)) for name in NAMES]
    assert [targets(config, name, where="a") for name in NAMES] == expected
    assert 0 < sum(expected) < len(NAMES)
    spelled = spelled_out(config, NAMES, where="a")
    assert [bool(check_target_module_exists(spelled, name)) for name in NAMES if name in spelled.target_modules] == (
        [True] * sum(expected)
    )


@pytest.mark.parametrize("keys", [["q_proj", "down_proj"], [r"layers\.1.*"], [r"^lm_head$", "self_attn.q_proj"]])
def test_ranks_are_those_that_peft_takes(keys: list[str]) -> None:
    ranks = {key: number for number, key in enumerate(keys, 2)}
    expected = [ranks.get(get_pattern_key(keys, name), 99) for name in NAMES]
    assert [value_of(ranks, name, 99, where="a") for name in NAMES] == expected
    assert len(set(expected)) > 1


@pytest.mark.parametrize("field", ["target_modules", "exclude_modules", "layers_pattern", "modules_to_save"])
def test_an_expression_that_would_run_for_hours_is_refused_within_seconds(
    field: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("medtune.models.tuning.name_pattern.LIMIT_S", 0.3)
    own: dict[str, Any] = {"target_modules": ["q_proj"], "layers_to_transform": [1]}
    if field == "target_modules":
        own = {}
    config = dataclasses.replace(LoraConfig(**own), **{field: [BOMB] if field == "modules_to_save" else BOMB})
    names = [f"{'a' * 60}.layers.{number}.q_proj" for number in range(400)]
    began = time.monotonic()
    with pytest.raises(ValueError, match=rf"^a/adapter_config\.json: {field}: .* takes longer than 0.3 s"):
        [targets(config, name, where="a/adapter_config.json") for name in names]
    assert time.monotonic() - began < 5


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"r": "8"}, r"r is '8'; wanted a whole number above 0"),
        ({"lora_alpha": float("nan")}, r"lora_alpha is nan; wanted a number"),
        ({"target_modules": {"q": 1}}, r"target_modules is {'q': 1}; wanted names of modules"),
        ({"modules_to_save": "lm_head"}, r"modules_to_save is 'lm_head'; wanted a list of names"),
        ({"rank_pattern": [4]}, r"rank_pattern is \[4\]; wanted ranks by name"),
        ({"base_model_name_or_path": 5}, r"base_model_name_or_path is 5; wanted a name"),
        ({"layers_to_transform": "1"}, r"layers_to_transform is '1'; wanted numbers of layers"),
        ({"target_modules": "q", "layers_to_transform": [1]}, r"peft .* does not read it"),
        ({"peft_type": ["LORA"]}, r"peft_type is \['LORA'\]"),
    ],
)
def test_a_value_of_another_form_is_named(changed: dict[str, Any], message: str, tmp_path: Path) -> None:
    (tmp_path / CONFIG).write_text(json.dumps({"peft_type": "LORA", "r": 4, "lora_alpha": 8, **changed}))
    with pytest.raises(ValueError, match=rf"adapter_config\.json: {message}"):
        read_settings(tmp_path)


@pytest.mark.parametrize("content", [b"", b"{", b"[1]", b"\xff\xfe{}", b"[" * 100_000, b"null", b"\x00" * 40])
def test_a_file_that_is_no_settings_is_named(content: bytes, tmp_path: Path) -> None:
    (tmp_path / CONFIG).write_bytes(content)
    with pytest.raises(ValueError, match=r"adapter_config\.json: .*Copy the adapter again"):
        read_settings(tmp_path)
