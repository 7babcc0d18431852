"""Tests checkpoints that a family reads besides its twin: another processor, another language model."""

import datetime
import re
from collections.abc import Callable
from contextlib import nullcontext
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import transformers
from jinja2 import Template
from transformers import Glm46VConfig, Glm46VImageProcessor, Glm46VProcessor, Glm46VVideoProcessor
from transformers.models.smolvlm import processing_smolvlm
from transformers.utils import chat_template_utils

from medtune.data.types import Frames, Size
from medtune.models.assemble import zoo_entry
from medtune.models.contract import Assembled
from medtune.models.nano.transformers_vlm import Nano, text_config, write_nano
from medtune.models.proof.plain_transformers import reference_of
from medtune.models.sequence.chat_template import opened_thought, set_thinking
from medtune.models.transformers_vlm.families import find_family
from medtune.models.transformers_vlm.generic.loading import from_checkpoint
from medtune.models.tuning.apply import adapt
from medtune.models.tuning.plan import Lora, PartTuning, Tuning
from medtune.models.weights.loading_options import Loading, Thinking
from medtune.models.zoo.nano_any_size import build_glm, build_qwen3vl, build_qwen35
from medtune.models.zoo.nano_hub import build_internvl
from tests.models.transformers_vlm.generic.checkpoints import write_checkpoint
from tests.models.transformers_vlm.test_parity import pillow, whole
from tests.models.twins import picture, size_of, twin

QUESTION, ANSWER = "Which plane?", "head"


def internvl35() -> Nano:
    """InternVL3.5: the language model is Qwen3."""
    nano = build_internvl()
    config: Any = nano.config
    rope = {"rope_type": "default", "rope_theta": 1e6}
    text = text_config(nano.processor.tokenizer, model_type="qwen3", head_dim=16, rope_parameters=rope)
    return Nano(type(config)(**{**config.to_dict(), "text_config": text}), nano.processor)


def glm46v() -> Nano:
    """GLM-4.6V: the processor writes the time behind a frame with a decimal and its unit."""
    return _of_46(build_glm(Glm46VConfig, model_type="glm4v_text"))


def _of_46(nano: Nano) -> Nano:
    old = nano.processor
    return Nano(
        nano.config,
        Glm46VProcessor(
            Glm46VImageProcessor(size=dict(old.image_processor.size)),
            old.tokenizer,
            Glm46VVideoProcessor(size=dict(old.video_processor.size)),
            chat_template=old.chat_template,
        ),
    )


EXPERTS: dict[str, Any] = {"num_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 24}


def glm4v_moe() -> Nano:
    """GLM-4.5V: a dense layer, and one with four experts and a shared one."""
    own = {"n_routed_experts": 4, "n_shared_experts": 1, "n_group": 1, "topk_group": 1, "first_k_dense_replace": 1}
    chosen = {"num_experts_per_tok": 2, "moe_intermediate_size": 24}
    return build_glm(transformers.Glm4vMoeConfig, **own, **chosen)


RELATIVES: dict[str, Callable[[], Nano]] = {
    "internvl": internvl35,
    "glm46v": glm46v,
    "qwen3_vl_moe": lambda: build_qwen3vl(transformers.Qwen3VLMoeConfig, mlp_only_layers=[], **EXPERTS),
    "qwen3_5_moe": lambda: build_qwen35(transformers.Qwen3_5MoeConfig, shared_expert_intermediate_size=24, **EXPERTS),
    "glm4v_moe": glm4v_moe,
}


def _loaded(model_type: str, folder: Path, **settings: Any) -> Assembled:
    write_nano(RELATIVES[model_type](), folder, seed=0)
    assembled = from_checkpoint(str(folder), Loading(weights=str(folder), **settings))
    assert whole(assembled).config.model_type == model_type
    assert "family" in assembled.provenance["vision"]
    assembled.model.eval()
    return assembled


@pytest.mark.parametrize("model_type", ["qwen3_vl_moe", "qwen3_5_moe", "glm4v_moe"])
def test_a_model_with_experts_says_that_they_do_not_learn(model_type: str, tmp_path: Path) -> None:
    lora = Tuning(language=PartTuning("lora", lora=Lora(r=4)))
    notes = [note for note in adapt(_loaded(model_type, tmp_path).model, [lora], seed=0) if "tuning.language" in note]
    assert re.search(r"\d+\.\d% of the part's weights do not learn.*\.mlp\.experts\.gate_up_proj \(", notes[0])


def test_the_limit_of_an_image_counts_it_once_where_the_processor_counts_a_pair_of_frames(tmp_path: Path) -> None:
    assembled = _loaded("glm46v", tmp_path, image_max_pixels=6 * 28 * 28)
    image = picture(width=400, height=300)
    assert 4 <= assembled.transform(image)["pixel_values"].shape[0] / 4 <= 6
    spans = assembled.template.layout(QUESTION, None, shapes=[size_of(image)]).media_spans
    assert sum(span.stop - span.start for span in spans) == assembled.transform(image)["pixel_values"].shape[0] / 4
    with pytest.raises(ValueError, match=r"model.image_max_pixels is 3000; .* wants at least 3136"):
        from_checkpoint(str(tmp_path), Loading(weights=str(tmp_path), image_max_pixels=3000))


def test_seconds_of_a_clip_are_not_cut_short_by_rounding() -> None:
    """The third frame is 3 s behind the first, whose difference in floating-point numbers is a little less."""
    times_s = (1.1, 2.6, 4.1, 5.6)
    assert times_s[2] - times_s[0] < 3
    template = twin("nano_glm4v").template
    laid = template.layout(QUESTION, None, shapes=[Frames(Size(90, 60), times_s)])
    assert template.decode(laid.ids[laid.media_spans[1].stop :]).startswith("3")


def test_the_doctor_scales_images_by_the_same_limit(tmp_path: Path) -> None:
    assembled = _loaded("glm46v", tmp_path, image_max_pixels=6 * 28 * 28)
    loading = Loading(weights=str(tmp_path), image_max_pixels=6 * 28 * 28)
    reference: Any = reference_of(
        assembled, find_family("glm4v"), folder=tmp_path, loading=loading, precise=nullcontext
    )
    told = reference.processor.image_processor(images=[pillow(picture(width=400, height=300))], return_tensors="pt")
    ours = assembled.transform(picture(width=400, height=300))
    assert told["image_grid_thw"].tolist() == ours["image_grid_thw"].tolist()


def write_thinking(folder: Path) -> None:
    """Writes a tiny Qwen3.5 that is asked with a thought that has begun, and has answered with an empty one."""
    nano = build_qwen35()
    opened = "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
    header = "<|im_start|>{{ message['role'] }}\n"
    assert opened in nano.processor.chat_template
    assert header in nano.processor.chat_template
    nano.processor.chat_template = nano.processor.chat_template.replace(
        opened, opened.replace("assistant\n", "assistant\n<think>\n")
    ).replace(header, header + "{% if message['role'] == 'assistant' %}<think>\n\n</think>\n\n{% endif %}")
    write_nano(nano, folder, seed=0)


@pytest.mark.parametrize(
    ("mode", "end", "learnt", "opened"),
    [
        ("off", "<think>\n\n</think>\n\n", ANSWER, ""),
        ("on", "<think>\n", f"\n</think>\n\n{ANSWER}", "<think>\n"),
        ("keep", "<think>\n", f"\n</think>\n\n{ANSWER}", "<think>\n"),
    ],
)
def test_an_open_thought_is_closed_in_the_prompt_or_kept(
    mode: Thinking, end: str, learnt: str, opened: str, tmp_path: Path
) -> None:
    write_thinking(tmp_path)
    made = from_checkpoint(str(tmp_path), Loading(weights=str(tmp_path), thinking=mode))
    asked, laid = (made.template.layout(QUESTION, answer, shapes=[Size(90, 60)]) for answer in (None, ANSWER))
    assert made.template.decode(asked.ids).endswith(f"assistant\n{end}")
    assert laid.ids[: len(asked.ids)] == asked.ids
    assert made.template.decode([label for label in laid.labels if label >= 0]) == learnt
    assert made.opened == opened


class Templated:
    """A processor of which only the chat template matters."""

    def __init__(self, template: str) -> None:
        self.chat_template = template

    def apply_chat_template(self, turns: list[dict[str, Any]], *, tokenize: bool, add_generation_prompt: bool) -> str:
        assert not tokenize
        told = [{"role": turn["role"], "content": turn["content"][0]["text"]} for turn in turns]
        return str(Template(self.chat_template).render(messages=told, add_generation_prompt=add_generation_prompt))


TURNS = "{% for m in messages %}<{{ m['role'] }}>{{ m['content'] }}{% endfor %}"
ASKED = TURNS + "{% if add_generation_prompt %}<assistant>OPENED{% endif %}"
SWITCH = "{% if enable_thinking is defined and not enable_thinking %}<think></think>{% endif %}"


@pytest.mark.parametrize(
    ("opened", "off", "on"),
    [
        ("", "", ""),
        ("<think>\n", "<think>\n\n</think>\n\n", "<think>\n"),
        ("<thinking>", "<thinking>\n</thinking>\n\n", "<thinking>"),
        ("[THINK]", "[THINK]\n[/THINK]\n\n", "[THINK]"),
        ("◁think▷", "◁think▷\n◁/think▷\n\n", "◁think▷"),
        ("<think>\n\n</think>\n\n", "<think>\n\n</think>\n\n", "<think>\n\n</think>\n\n"),
        (SWITCH, "<think></think>", ""),
        ("{% if enable_thinking %}<think>{% else %}<think></think>{% endif %}", "<think></think>", "<think>"),
    ],
)
def test_templates_of_many_makes_ask_without_a_thought_or_with_one(opened: str, off: str, on: str) -> None:
    modes: tuple[tuple[Thinking, str], ...] = (("off", off), ("on", on))
    for mode, wanted in modes:
        processor = Templated(ASKED.replace("OPENED", opened))
        set_thinking(processor, mode)
        turns = [{"role": "user", "content": [{"type": "text", "text": "Q?"}]}]
        said = processor.apply_chat_template(turns, tokenize=False, add_generation_prompt=True)
        assert said == f"<user>Q?<assistant>{wanted}"
        assert opened_thought(processor) == ("" if "/" in wanted else wanted)


LLAMA_DAY = """{%- if not date_string is defined %}{%- if strftime_now is defined %}
{%- set date_string = strftime_now("%d %b %Y") %}{%- endif %}{%- endif %}Today Date: {{ date_string }}"""
GRANITE_DAY = """{%- set system = "Today's Date: " + strftime_now('%B %d, %Y') + "." %}{{ system }}"""
IN_MACRO = """{%- macro day(how) %}{{ strftime_now(how) }}{% endmacro %}{{ day('%A, %-d.%m.%y (%j) %H:%M') }}"""


@pytest.mark.parametrize(
    ("shown", "wanted"),
    [
        ("The current date is {{ strftime_now('%Y-%m-%d') }}.", "The current date is 2024-07-26."),
        (LLAMA_DAY, "Today Date: 26 Jul 2024"),
        (GRANITE_DAY, "Today's Date: July 26, 2024."),
        (IN_MACRO, "Friday, 26.07.24 (208) 00:00"),
    ],
)
def test_prompts_name_the_same_day_in_every_phase_and_export(
    shown: str, wanted: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_checkpoint("mistral3", tmp_path / "base")
    template = tmp_path / "base" / "chat_template.jinja"
    template.write_text(template.read_text("utf-8").replace("<s>", f"<s>{shown}", 1), "utf-8")
    loading = Loading(weights=str(tmp_path / "base"))
    where, said = loading.weights or "", set()
    for day in (1, 2, 3):
        clock = SimpleNamespace(now=partial(datetime.datetime, 2030, 1, day))
        monkeypatch.setattr(chat_template_utils, "datetime", clock)
        made = from_checkpoint(where, loading)
        assert made.provenance["day in prompts"].startswith("2024-07-26")
        said.add(made.template.decode(made.template.layout(QUESTION, None, shapes=[Size(90, 60)]).ids))
        reference: Any = reference_of(made, None, folder=Path(where), loading=loading, precise=nullcontext)
        turns = [{"role": "user", "content": [{"type": "text", "text": "Q"}]}]
        assert wanted in reference.processor.apply_chat_template(turns)
        made.template.save(made.model.save(tmp_path / f"export{day}"))
        exported = transformers.AutoProcessor.from_pretrained(tmp_path / f"export{day}")
        assert wanted in exported.apply_chat_template(turns)
        where = str(tmp_path / f"export{day}")
    assert len(said) == 1
    assert wanted in said.pop()


def test_a_processor_that_needs_another_package_says_which(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(processing_smolvlm, "num2words", None)
    write_checkpoint("idefics3", tmp_path)
    for name in ("processor_config.json", "tokenizer_config.json"):
        file = tmp_path / name
        file.write_text(file.read_text("utf-8").replace("Idefics3", "SmolVLM"), "utf-8")
    config = tmp_path / "config.json"
    config.write_text(config.read_text("utf-8").replace("idefics3", "smolvlm"), "utf-8")
    (tmp_path / "video_preprocessor_config.json").write_text(
        '{"video_processor_type": "SmolVLMVideoProcessor"}', "utf-8"
    )
    with pytest.raises(ValueError, match=r"cannot read its processor.*num2words"):
        zoo_entry("smolvlm2_2b").assemble(0, Loading(weights=str(tmp_path)))


def test_an_entry_of_the_generic_reader_takes_its_own_type_alone(tmp_path: Path) -> None:
    write_checkpoint("idefics3", tmp_path)
    with pytest.raises(ValueError, match="a model of type 'idefics3'; wanted 'gemma4'"):
        zoo_entry("gemma4_e4b").assemble(0, Loading(weights=str(tmp_path)))
