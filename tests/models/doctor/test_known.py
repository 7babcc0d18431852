"""Changes the folder that both sides of a proof read, and asserts that the recorded facts see it."""

import json
from collections.abc import Callable
from contextlib import nullcontext
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file

from medtune.models.doctor import known
from medtune.models.doctor.find_reference import reference_of
from medtune.models.doctor.reference import Check
from medtune.models.transformers_vlm.families import find_family
from medtune.models.transformers_vlm.generic.loading import family_of, from_checkpoint
from medtune.models.weights.loading_options import DEFAULT, Loading
from medtune.models.zoo.nano_hub import MLLAMA_TEMPLATE
from tests.models.doctor.test_faults import checkpoint, failed
from tests.models.transformers_vlm.generic.checkpoints import BUILDERS, write_checkpoint
from tests.models.twins import OF_TRANSFORMERS

PLAIN = ("nano_qwen25vl", "nano_gemma3")
TEMPLATE, PROCESSOR, CONFIG = "chat_template.jinja", "processor_config.json", "config.json"
WEIGHTS = "model.safetensors"


def _checks(folder: Path) -> dict[str, Check]:
    assembled = from_checkpoint(str(folder), Loading(weights=str(folder)))
    family = family_of(assembled.model.of_transformers.config)
    of_family = None if family is None else find_family(family)
    reference = reference_of(assembled, of_family, folder=folder, loading=DEFAULT, precise=nullcontext)
    return {check.name: check for check in known.known_checks(assembled, reference, nullcontext)}


# The folders of nano_llava_video are its authors' own and have no processor.
FOLDERS = [name for name in (*OF_TRANSFORMERS, *BUILDERS) if name != "nano_llava_video"]


@pytest.mark.parametrize("name", [pytest.param(n, marks=() if n in PLAIN else pytest.mark.soak) for n in FOLDERS])
def test_a_healthy_folder_passes(name: str, tmp_path: Path) -> None:
    write_checkpoint(name, tmp_path) if name in BUILDERS else checkpoint(name, tmp_path)
    checks = _checks(tmp_path)
    assert failed(checks) == set(), [checks[each] for each in failed(checks)]
    assert {"control tokens", "vocabulary"} <= {each for each, check in checks.items() if check.passed}


def _edited(name: str, change: Callable[[Any], object]) -> Callable[[Path], None]:
    def fault(folder: Path) -> None:
        told = json.loads((folder / name).read_text("utf-8"))
        change(told)
        (folder / name).write_text(json.dumps(told), "utf-8")

    return fault


def _template(text: str) -> Callable[[Path], None]:
    return lambda folder: void((folder / TEMPLATE).write_text(text, "utf-8"))


def void(result: object) -> None:
    """Drops a result."""


def _swapped(told: Any) -> None:
    images = told["image_processor"]
    images["image_mean"], images["image_std"] = images["image_std"], images["image_mean"]


def _one_row_short(folder: Path) -> None:
    tensors = load_file(folder / WEIGHTS)
    short = {n: t[:-1].clone() if "embed_tokens" in n or "lm_head" in n else t for n, t in tensors.items()}
    save_file(short, folder / WEIGHTS, metadata={"format": "pt"})
    _edited(CONFIG, lambda told: told["text_config"].update(vocab_size=told["text_config"]["vocab_size"] - 1))(folder)


IMAGE = "<|vision_start|><|image_pad|><|vision_end|>"
VICUNA = (
    "{% for m in messages %}{{ m['role'] | upper }}: {% for p in m['content'] %}{% if p['type'] == 'image' %}"
    "<|vision_start|><|image_pad|><|vision_end|>{% else %}{{ p['text'] }} {% endif %}{% endfor %}{% endfor %}"
    "{% if add_generation_prompt %}ASSISTANT:{% endif %}"
)
FAULTS: dict[str, tuple[str, Callable[[Path], None], str]] = {
    "a template of another model": (
        "control tokens", _template(MLLAMA_TEMPLATE.replace("<|image|>", IMAGE)),
        "'<|start_header_id|>', which is no token of the tokenizer",
    ),
    "a template without control tokens": ("control tokens", _template(VICUNA), "write turns with <|im_start|> and"),
    "mean and deviation exchanged": ("normalisation", _edited(PROCESSOR, _swapped), "have 0.481, 0.458, 0.408 and"),
    "another rotary base": (
        "rope", _edited(CONFIG, lambda told: told["text_config"]["rope_parameters"].update(rope_theta=1e4)),
        "the rotary base is 10000, and checkpoints of qwen2_5_vl have 1e+06",
    ),
    "stretched rotary embeddings": (
        "rope", _edited(CONFIG, lambda c: c["text_config"]["rope_parameters"].update(rope_type="linear", factor=4)),
        "are stretched (linear with 4), and those of qwen2_5_vl are not or yarn",
    ),
    "a row less": ("vocabulary", _one_row_short, "and the tokenizer's '<|video_pad|>' is token 262"),
    "another id of a placeholder": (
        "vocabulary", lambda folder: _edited(CONFIG, lambda told: told.update(video_token_id=261))(folder),
        "config.json has 261 as its video token, and the tokenizer has 262",
    ),
}  # fmt: skip


CLIP = {"image_mean": list(known.CLIP[0]), "image_std": list(known.CLIP[1])}
HALF = {"image_mean": [0.5] * 3, "image_std": [0.5] * 3}


@pytest.mark.parametrize(
    ("name", "other"), [("nano_qwen3vl", CLIP), ("nano_llava_onevision", CLIP), ("nano_mllama", HALF)]
)
def test_the_normalisation_of_another_tower_is_seen(name: str, other: dict[str, Any], tmp_path: Path) -> None:
    """What the class of a processor has by default is no excuse where the vendors' files are known."""
    checkpoint(name, tmp_path)
    _edited(PROCESSOR, lambda told: told["image_processor"].update(other))(tmp_path)
    assert failed(_checks(tmp_path)) == {"normalisation"}


def test_the_turns_of_another_language_model_are_seen(tmp_path: Path) -> None:
    """LLaVA's family knows several ways of writing turns, and a Llama is not asked in Mistral's."""
    checkpoint("nano_llava", tmp_path)
    path = tmp_path / TEMPLATE
    inst = (
        path.read_text("utf-8").replace("{{ message['role'] | upper }}: ", "[INST] ").replace("ASSISTANT:", "[/INST]")
    )
    path.write_text(inst, "utf-8")
    assert failed(_checks(tmp_path)) == {"control tokens"}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_changed_folder_fails_under_the_facts_name(fault: str, tmp_path: Path) -> None:
    name, change, message = FAULTS[fault]
    checkpoint("nano_qwen25vl", tmp_path)
    change(tmp_path)
    checks = _checks(tmp_path)
    assert failed(checks) == {name}, checks
    assert message in checks[name].detail


def test_rows_of_the_embedding_in_other_places_are_seen_where_weights_have_learnt(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A bigram model of the text stands for a learnt one: its output layer says what follows each letter."""
    monkeypatch.setattr(known, "REAL", 0)
    checkpoint("nano_qwen25vl", tmp_path)
    assembled = from_checkpoint(str(tmp_path), Loading(weights=str(tmp_path)))
    whole: Any = assembled.model.of_transformers
    ids = assembled.transform.processor.tokenizer(known.PLAIN).input_ids  # type: ignore[attr-defined]
    embedding, output = whole.get_input_embeddings(), whole.get_output_embeddings()
    width = embedding.weight.shape[1]
    torch.manual_seed(0)
    with torch.no_grad():
        for layer in whole.model.language_model.layers:
            layer.self_attn.o_proj.weight.zero_()
            layer.mlp.down_proj.weight.zero_()
        embedding.weight.copy_(torch.nn.functional.normalize(torch.randn(len(embedding.weight), width), dim=1))
        output.weight.zero_()
        for now, then in set(pairwise(ids)):
            output.weight[then] += 1.5 * embedding.weight[now]
    reference = reference_of(assembled, find_family("qwen2_vl"), folder=tmp_path, loading=DEFAULT, precise=nullcontext)

    def told() -> Check:
        return known.known_checks(assembled, reference, nullcontext)[-2]

    assert told().passed, told()
    with torch.no_grad():
        embedding.weight.copy_(embedding.weight.roll(1, dims=0))
    assert told().passed is False


@pytest.mark.parametrize("ends", [True, False])
def test_a_reply_that_never_ends_is_seen_where_weights_have_learnt(
    ends: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An output layer that sees the last token alone stands for a learnt one: it says the end of a turn, or letters."""
    monkeypatch.setattr(known, "REAL", 0)
    checkpoint("nano_qwen25vl", tmp_path)
    assembled = from_checkpoint(str(tmp_path), Loading(weights=str(tmp_path)))
    whole: Any = assembled.model.of_transformers
    asked = assembled.family.layout(known.ASKED, None, shapes=()).ids
    letter = assembled.transform.processor.tokenizer("a").input_ids[0]  # type: ignore[attr-defined]
    embedding, output = whole.get_input_embeddings().weight, whole.get_output_embeddings().weight
    with torch.no_grad():
        for layer in whole.model.language_model.layers:
            layer.self_attn.o_proj.weight.zero_()
            layer.mlp.down_proj.weight.zero_()
        embedding.copy_(torch.nn.functional.normalize(torch.randn(embedding.shape), dim=1))
        output.zero_()
        said = assembled.family.stop_ids[0] if ends else letter
        for each in (asked[-1], letter):
            output[said] += embedding[each]
    reference = reference_of(assembled, find_family("qwen2_vl"), folder=tmp_path, loading=DEFAULT, precise=nullcontext)
    check = known.known_checks(assembled, reference, nullcontext)[-1]
    assert check.name == "replies end"
    assert check.passed is ends, check
