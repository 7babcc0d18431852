"""Compares sequences and tensor names with what was recorded from published checkpoints' own files."""

import json
import re
from collections import Counter
from collections.abc import Callable
from copy import deepcopy
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from safetensors.torch import load_file, save_file
from transformers import AutoConfig

from medtune.data.media.load import Shape
from medtune.data.types import Frames, Size
from medtune.models.assemble import zoo_entry
from medtune.models.nano.transformers_vlm import Nano, write_nano
from medtune.models.sequence.builder import Sequence, Template
from medtune.models.sequence.end_tokens import ended_by, read_generation
from medtune.models.transformers_vlm.families import find_family
from medtune.models.transformers_vlm.loading import read_processor
from medtune.models.transformers_vlm.media import ProcessorTransform
from medtune.models.weights.loading_options import Loading
from medtune.models.zoo.nano_any_size import build_qwen2vl, build_qwen3vl, build_qwen25vl
from medtune.models.zoo.nano_hub import build_gemma3, build_mllama
from tests.golden.files import golden_file, golden_files
from tests.models.transformers_vlm.test_parity import whole
from tests.models.twins import twin

FOLDER = "checkpoints"
NAMES = "hub_key_patterns"
CONTEXT = 128000


def recorded(name: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(golden_file(f"{FOLDER}/{name}.json").read_text("utf-8"))
    return found


FILES = sorted(path.stem for path in golden_files(FOLDER) if path.stem != NAMES) or ["qwen25vl_7b"]
each_file = pytest.mark.parametrize("name", FILES)


def _processor(twin_name: str, **sizes: Any) -> Any:
    """Returns the processor of a twin with the sizes that a published configuration states."""
    transform = twin(twin_name).transform
    assert isinstance(transform, ProcessorTransform)
    made = deepcopy(transform.processor)
    for name, value in sizes.items():
        part, _, field = name.partition("__")
        setattr(getattr(made, part) if field else made, field or part, value)
    return made


def _pixels(lowest: int, highest: int) -> dict[str, int]:
    return {"shortest_edge": lowest, "longest_edge": highest}


def _qwen2(twin_name: str) -> Template:
    size = _pixels(3136, 12845056)
    return _laid_out("qwen2_vl", _processor(twin_name, image_processor__size=size, video_processor__size=size))


def _qwen3() -> Template:
    image, video = _pixels(65536, 16777216), _pixels(4096, 25165824)
    return _laid_out("qwen3_vl", _processor("nano_qwen3vl", image_processor__size=image, video_processor__size=video))


def _llava() -> Template:
    size = {"shortest_edge": 336}
    crop = {"height": 336, "width": 336}
    return _laid_out(
        "llava", _processor("nano_llava", image_processor__size=size, image_processor__crop_size=crop, patch_size=14)
    )


def _gemma() -> Template:
    made = _processor("nano_gemma3")
    return _laid_out("gemma3", type(made)(made.image_processor, made.tokenizer, made.chat_template, 256))


def _laid_out(family: str, processor: Any) -> Template:
    known = find_family(family)
    if known.limit_videos is not None:
        known.limit_videos(processor, None, CONTEXT)
    config = SimpleNamespace(vision_config=SimpleNamespace(tokens_per_second=2))
    return known.sequence(processor, config=config, max_tokens=CONTEXT)


FAMILIES: dict[str, Callable[[], Template]] = {
    "qwen2vl": lambda: _qwen2("nano_qwen2vl"),
    "qwen25vl": lambda: _qwen2("nano_qwen25vl"),
    "qwen3vl": _qwen3,
    "lingshu": lambda: _qwen2("nano_qwen25vl"),
    "medgemma": _gemma,
    "llava15": _llava,
    "llama32": lambda: twin("nano_mllama").template,
}


def template_of(name: str) -> Template:
    """Returns the template of a recorded file, with the sizes of the published configuration."""
    kind = name.partition("_")[0]
    if kind not in FAMILIES:
        pytest.skip(f"{name}: the sizes of its published configuration do not stand in this test")
    return FAMILIES[kind]()


def count_of(sequence: Sequence) -> int:
    return sum(span.stop - span.start for span in sequence.media_spans)


def size_of(text: str) -> Size:
    width, height = text.split("x")
    return Size(int(width), int(height))


def clip_of(text: str) -> Frames:
    """Returns the frames that a key such as "5 frames of 90x60 at 2.0/s" describes."""
    found = re.fullmatch(r"(\d+) frames of (\d+x\d+) at ([\d.]+)/s", text)
    assert found is not None, text
    count, size, per_s = found.groups()
    return Frames(size_of(size), tuple(number / float(per_s) for number in range(int(count))))


READ = {
    "family", "question", "image_tokens", "images", "videos", "texts", "stop_id", "eos_of_tokenizer", "media_id",
    "text_only_has_system",
}  # fmt: skip
"""Keys of a file that the tests here read; ids and texts only where the vendor's tokenizer is on this machine."""


@each_file
def test_golden_files_hold_no_key_that_is_not_read(name: str) -> None:
    said = recorded(name)
    assert said["family"] == name
    assert set(said) <= READ


@each_file
def test_golden_numbers_of_visual_tokens(name: str) -> None:
    said = recorded(name)
    template = template_of(name)
    question = said["question"]
    for text, count in said["image_tokens"].items():
        assert count_of(template.layout(question, None, shapes=[size_of(text)])) == count, text
    for text, video in said["videos"].items():
        assert count_of(template.layout(question, None, shapes=[clip_of(text)])) == video["tokens"], text


@each_file
def test_golden_sequences_hold_as_many_runs_of_visual_tokens(name: str) -> None:
    """The recorded ids hold a run of visual tokens as [id, count]; our layout has the same runs."""
    said = recorded(name)
    template = template_of(name)
    asked: list[tuple[Shape, list[Any]]] = [(size_of(text), ids) for text, ids in said["images"].items()]
    asked += [(clip_of(text), video["ids"]) for text, video in said["videos"].items() if video["ids"]]
    for shape, ids in asked:
        runs = [each[1] for each in ids if isinstance(each, list)]
        spans = template.layout(said["question"], None, shapes=[shape]).media_spans
        assert [span.stop - span.start for span in spans] == runs


@pytest.fixture
def published(shared_real: Path) -> Template:
    """Returns the template of Qwen2.5-VL-7B-Instruct's own small files."""
    folder = shared_real / "qwen25vl_7b"
    processor = read_processor(folder, str(folder))
    family = find_family("qwen2_vl")
    assert family.limit_videos is not None
    family.limit_videos(processor, None, CONTEXT)
    config = AutoConfig.from_pretrained(folder, trust_remote_code=False)
    laid_out = family.sequence(processor, config=config, max_tokens=CONTEXT)
    return ended_by(laid_out, read_generation(folder), processor.tokenizer)


def _runs(sequence: Sequence) -> list[Any]:
    """Returns the ids with each run of visual tokens as [id, count], as they were recorded."""
    ids: list[Any] = list(sequence.ids)
    for span in reversed(sequence.media_spans):
        ids[span.start : span.stop] = [[ids[span.start], span.stop - span.start]]
    return ids


def test_golden_ids_of_qwen25vl_with_its_own_files(published: Template) -> None:
    said = recorded("qwen25vl_7b")
    asked: list[tuple[Shape, list[Any]]] = [(size_of(text), ids) for text, ids in said["images"].items()]
    asked += [(clip_of(text), video["ids"]) for text, video in said["videos"].items() if video["ids"]]
    for shape, ids in asked:
        assert _runs(published.layout(said["question"], None, shapes=[shape])) == ids
    for text, count in said["image_tokens"].items():
        assert count_of(published.layout(said["question"], None, shapes=[size_of(text)])) == count, text
    for text, video in said["videos"].items():
        assert count_of(published.layout(said["question"], None, shapes=[clip_of(text)])) == video["tokens"], text


def test_golden_texts_and_end_tokens_of_qwen25vl_with_its_own_files(published: Template) -> None:
    said = recorded("qwen25vl_7b")
    for text, ids in said["texts"].items():
        laid = published.layout(said["question"], text, shapes=())
        assert [label for label in laid.labels if label >= 0] == [*ids, said["stop_id"]], text
    assert published.stop_ids == (151645, 151643)
    assert published.stop_ids[0] == said["stop_id"] == said["eos_of_tokenizer"]
    blind = published.layout(said["question"], None, shapes=())
    assert ("system" in "".join(published.pieces(blind.ids[:3]))) == said["text_only_has_system"]
    assert said["media_id"] in published.layout("Q", None, shapes=[Size(56, 56)]).ids


def _pattern(name: str) -> str:
    return re.sub(r"(?<=\.)\d+(?=\.)", "N", name)


def _qwen_layers(nano: Nano, patterns: dict[str, int], prefix: str) -> Nano:
    config: Any = nano.config
    config.text_config.num_hidden_layers = patterns[f"{prefix}.layers.N.input_layernorm.weight"]
    config.text_config.layer_types = ["full_attention"] * config.text_config.num_hidden_layers
    vision = config.vision_config
    vision.depth = next(n for name, n in patterns.items() if name.endswith("visual.blocks.N.attn.proj.bias"))
    deep = patterns.get("model.visual.deepstack_merger_list.N.norm.weight")
    if deep is not None:
        vision.deepstack_visual_indexes = list(range(deep))
    return nano


def _gemma_layers(nano: Nano, patterns: dict[str, int]) -> Nano:
    config: Any = nano.config
    text, vision = config.text_config, config.vision_config
    text.num_hidden_layers = patterns["language_model.model.layers.N.input_layernorm.weight"]
    text.layer_types = ["sliding_attention", "full_attention"] * (text.num_hidden_layers // 2)
    vision.num_hidden_layers = patterns["vision_tower.vision_model.encoder.layers.N.mlp.fc1.bias"]
    return nano


REDUCED: dict[str, Callable[[dict[str, int]], Nano]] = {
    "qwen2vl": lambda patterns: _qwen_layers(build_qwen2vl(), patterns, "model"),
    "qwen25vl": lambda patterns: _qwen_layers(build_qwen25vl(), patterns, "model"),
    "qwen3vl": lambda patterns: _qwen_layers(build_qwen3vl(), patterns, "model.language_model"),
    "medgemma": lambda patterns: _gemma_layers(build_gemma3(), patterns),
}
WITH_NAMES = [
    name
    for path in golden_files(FOLDER)
    if path.stem == NAMES
    for name, said in json.loads(path.read_text("utf-8")).items()
    if "patterns" in said
] or ["qwen25vl_7b"]
OLD_PREFIXES = {"medgemma": ("vision_tower.", "vision_tower.vision_model.")}
"""A prefix that today's transformers writes, and the one that the published files have."""
ZOO = {
    "qwen2vl": "nano_qwen2vl", "qwen25vl": "nano_qwen25vl", "qwen3vl": "nano_qwen3vl", "medgemma": "nano_gemma3",
    "llama32": "nano_mllama",
}  # fmt: skip


def test_golden_tensor_names_are_recorded_for_each_kind() -> None:
    assert {name.partition("_")[0] for name in recorded(NAMES)} >= set(REDUCED)


@pytest.mark.parametrize("name", WITH_NAMES)
def test_golden_tensor_names_of_a_model_with_all_its_layers(name: str, tmp_path: Path) -> None:
    """A narrow model with as many layers as the published one has the published names, and is read by them."""
    said, kind = recorded(NAMES)[name], name.partition("_")[0]
    if kind not in REDUCED:
        pytest.skip(f"{name}: this test has no narrow model of its kind")
    write_nano(REDUCED[kind](said["patterns"]), tmp_path, seed=0)
    path = tmp_path / "model.safetensors"
    new, old = OLD_PREFIXES.get(kind, ("", ""))
    tensors = {
        (old + each.removeprefix(new) if each.startswith(new) else each): t for each, t in load_file(path).items()
    }
    assert dict(Counter(map(_pattern, tensors))) == said["patterns"]
    assert len(tensors) == said["total"]
    save_file(tensors, path, metadata={"format": "pt"})
    loaded = zoo_entry(ZOO[kind]).assemble(0, Loading(weights=str(tmp_path)))
    # Every parameter came from the file: the loader refuses missing and unknown names, and no weight is untouched.
    held = {tensor.sum().item() for tensor in tensors.values()}
    assert all(tensor.sum().item() in held for tensor in whole(loaded).state_dict().values())


def test_golden_tensor_names_of_llama_32(tmp_path: Path) -> None:
    """Of Llama 3.2 only some published names are known, in the form of patterns with braces."""
    write_nano(build_mllama(), tmp_path, seed=0)
    names = set(map(_pattern, load_file(tmp_path / "model.safetensors")))
    for seen in recorded(NAMES)["llama32_11b_vision"]["patterns_seen"]:
        start = seen.removesuffix("...")
        for one in _spelt_out(start):
            assert one in names or (seen != start and any(each.startswith(one) for each in names)), one
    loaded = zoo_entry("nano_mllama").assemble(0, Loading(weights=str(tmp_path)))
    assert len(whole(loaded).state_dict()) >= len(names)


def _spelt_out(pattern: str) -> list[str]:
    found = re.search(r"\{([^}]*)\}", pattern)
    if found is None:
        return [pattern]
    return [
        each
        for choice in found.group(1).split(",")
        for each in _spelt_out(pattern[: found.start()] + choice + pattern[found.end() :])
    ]


def test_golden_names_that_differ_are_refused(tmp_path: Path) -> None:
    """A control: one name of another form is neither read nor overlooked."""
    write_nano(build_qwen25vl(), tmp_path, seed=0)
    path = tmp_path / "model.safetensors"
    tensors = {name.replace("visual.merger.ln_q", "visual.merger.norm"): t for name, t in load_file(path).items()}
    save_file(tensors, path, metadata={"format": "pt"})
    with pytest.raises(ValueError, match="1 missing keys"):
        zoo_entry("nano_qwen25vl").assemble(0, replace(Loading(), weights=str(tmp_path)))
