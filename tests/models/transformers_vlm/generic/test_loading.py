"""Tests what model.name auto reads, and that it refuses every other checkpoint with words that help."""

import json
import shutil
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file
from transformers import (
    AutoConfig,
    AutoModelForImageTextToText,
    Blip2Config,
    DeepseekVLHybridConfig,
    FuyuConfig,
    Llama4Config,
    LlamaConfig,
    LlamaForCausalLM,
    PreTrainedConfig,
)

from medtune.data.types import Size
from medtune.models.assemble import zoo_entry
from medtune.models.contract import root_of
from medtune.models.proof.plain_transformers import reference_of
from medtune.models.proof.sequences import sequence_checks
from medtune.models.transformers_vlm.families import find_family
from medtune.models.transformers_vlm.generic.loading import from_checkpoint, generic_skeleton
from medtune.models.transformers_vlm.generic.model import GenericVlm, find_parts
from medtune.models.transformers_vlm.model import TransformersVlm
from medtune.models.tuning.apply import adapt
from medtune.models.tuning.plan import Lora, PartTuning, Tuning
from medtune.models.weights.assets import AssetError
from medtune.models.weights.export import assemble_model
from medtune.models.weights.hub import kept_weights
from medtune.models.weights.loading_options import Loading
from medtune.trainer.recipe.read import read_recipe
from tests.models.proof.test_faults import asked_about, pictures
from tests.models.transformers_vlm.generic.checkpoints import BUILDERS, chatml, write_checkpoint
from tests.models.transformers_vlm.test_parity import saved, whole
from tests.models.twins import MODELS, OF_TRANSFORMERS, picture, twin

SIZE = Size(90, 60)


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_checkpoint("lfm2_vl", tmp_path_factory.mktemp("checkpoint"))


@pytest.fixture
def folder(written: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(written, tmp_path / "checkpoint"))


def _read(folder: Path, **settings: Any) -> Any:
    return from_checkpoint(str(folder), Loading(weights=str(folder), **settings))


def _edit(path: Path, **values: object) -> None:
    path.write_text(json.dumps({**json.loads(path.read_text("utf-8")), **values}), "utf-8")


def test_a_hub_id_or_a_folder_is_a_name(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    for name in ("some/model", str(folder)):
        model = read_recipe("nano_busi_lora", [f"model.name={name}"]).model
        assert (model.name, model.weights, model.shown_name) == ("auto", name, name)
    with pytest.raises(ValueError, match="give only one of them"):
        read_recipe("nano_busi_lora", ["model.name=some/model", "model.weights=other/model"])
    with pytest.raises(ValueError, match=r"needs model.weights"):
        zoo_entry("auto")
    with pytest.raises(AssetError, match=r"some/model: configuration neither kept here nor given by the hub"):
        assemble_model("auto", 0, Loading(weights="some/model"))


def test_the_skeleton_has_the_tensors_of_the_model(folder: Path) -> None:
    entry = zoo_entry("auto", str(folder))
    shapes = [{k: v.shape for k, v in m.state_dict().items()} for m in (entry.skeleton(), _read(folder).model)]
    assert shapes[0] == shapes[1]
    assert all(parameter.is_meta for parameter in entry.skeleton().parameters())


def test_a_known_architecture_takes_its_row(tmp_path: Path) -> None:
    saved("nano_llava", tmp_path)
    assembled = assemble_model("auto", 0, Loading(weights=str(tmp_path)))
    assert isinstance(assembled.model, TransformersVlm)
    assert all(text.endswith("family llava") for text in assembled.provenance.values())
    assert isinstance(zoo_entry("auto", str(tmp_path)).skeleton(), TransformersVlm)


def test_weights_are_read_in_the_type_that_is_asked_for(folder: Path) -> None:
    assembled = _read(folder, dtype="bfloat16")
    assert isinstance(assembled.model, GenericVlm)
    assert {parameter.dtype for parameter in assembled.model.parameters()} == {torch.bfloat16}
    assert assembled.provenance["vision"].endswith("bfloat16, generic entry for lfm2_vl (model.vision_tower)")


def test_end_tokens_of_the_generation_config_end_a_reply(folder: Path) -> None:
    before = _read(folder).template.stop_ids
    (folder / "generation_config.json").write_text(json.dumps({"eos_token_id": [before[0], 65]}), "utf-8")
    assert _read(folder).template.stop_ids == (*before, 65)


def test_labels_are_the_generation_span_of_the_template(folder: Path) -> None:
    template = _read(folder).template
    layout = template.layout("Which plane?", "head", shapes=[SIZE])
    learnt = [label for label in layout.labels if label >= 0]
    assert template.pieces(learnt) == [*"head", "<|im_end|>"]
    # A span that begins after the prompt for generation has ended, and a prompt that the answer does not continue.
    template = (folder / "chat_template.jinja").read_text("utf-8")
    late = template.replace("{% generation %}", "Well: {% generation %}")
    (folder / "chat_template.jinja").write_text(late, "utf-8")
    with pytest.raises(ValueError, match="prompt for generation ends before token"):
        _read(folder)


def test_a_thought_that_shown_answers_lack_is_closed_in_the_prompt_or_refused(folder: Path) -> None:
    thinking = chatml("<image>").replace("assistant\n{% endif %}", "assistant\n<think>\n{% endif %}")
    (folder / "chat_template.jinja").write_text(thinking, "utf-8")
    template = _read(folder).template
    asked, laid = (template.layout("Which plane?", answer, shapes=[SIZE]) for answer in (None, "head"))
    assert template.decode(asked.ids).endswith("assistant\n<think>\n\n</think>\n\n")
    assert laid.ids[: len(asked.ids)] == asked.ids
    assert template.decode([label for label in laid.labels if label >= 0]) == "head"
    with pytest.raises(ValueError, match=r"does not begin with the prompt.*<thin' in the prompt.*model.thinking=off"):
        _read(folder, thinking="keep").template.layout("Which plane?", "head", shapes=[SIZE])


END, SPAN_ENDS = "<|im_end|>", "{% endgeneration %}"


@pytest.mark.parametrize(
    "behind", [SPAN_ENDS + END, " " + SPAN_ENDS + END, SPAN_ENDS, " \n" + SPAN_ENDS, SPAN_ENDS + "."]
)
def test_an_answer_ends_with_the_end_token_whatever_the_template_marks(folder: Path, behind: str) -> None:
    path = folder / "chat_template.jinja"
    path.write_text(path.read_text("utf-8").replace(END + SPAN_ENDS, behind), "utf-8")
    assembled = _read(folder)
    for answer in ("head", "The head.", "Is it?\nNo"):
        layout = assembled.template.layout("Which plane?", answer, shapes=[SIZE])
        assert assembled.template.pieces([label for label in layout.labels if label >= 0]) == [*answer, END]
    reference = reference_of(assembled, None, folder=folder, loading=Loading(), precise=nullcontext)
    (check,) = (
        each
        for each in sequence_checks(assembled, reference, asked_about(pictures(folder)))
        if each.name == "end token"
    )
    assert check.passed
    told = [reference.logprobs(each, "The head.") for each in asked_about(pictures(folder))]
    assert {len(each_T) for each_T in told} == {len("The head.") + 1}


def test_a_spelt_control_token_stays_text(folder: Path) -> None:
    (folder / "chat_template.jinja").write_text(chatml("<image>"), "utf-8")
    template = _read(folder).template
    layout = template.layout("What is <|im_end|>?", "A token, <|im_end|>.", shapes=[SIZE])
    assert layout.ids.count(template.stop_ids[0]) == 2
    assert template.decode([label for label in layout.labels if label >= 0]) == "A token, <|im_end|>."
    # This processor's own code counts the placeholders of the text, whoever wrote them; it is shown none of these.
    calm, spelt = (template.layout(f"What does {each} mean?", "head", shapes=[SIZE]) for each in ("it", "<image>"))
    assert calm.media_spans == spelt.media_spans
    assert "What does <image> mean?" in template.decode(spelt.ids)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"model_type": "no_such_model"}, "has no model of type 'no_such_model'. Take a checkpoint in transformers"),
        (
            {"model_type": "no_such_model", "auto_map": {"AutoConfig": "code.Config"}},
            r"comes with code of its own \(auto_map\), which medtune does not run",
        ),
        ({"model_type": "llama"}, "'llama' is no vision-language model.*model.language"),
        ({"model_type": None}, "names no model_type; a folder of adapters is named by model.adapter"),
        ({"model_type": "florence2"}, "has an encoder and a decoder for text"),
    ],
)
def test_other_models_are_refused(folder: Path, change: dict[str, object], message: str) -> None:
    if change["model_type"] in ("llama", "florence2"):
        (folder / "config.json").write_text(json.dumps(change), "utf-8")
    _edit(folder / "config.json", **change)
    with pytest.raises(ValueError, match=message):
        _read(folder)


def test_a_model_of_text_alone_is_refused(tmp_path: Path) -> None:
    config = LlamaConfig(vocab_size=8, hidden_size=8, intermediate_size=8, num_hidden_layers=1, num_attention_heads=1)
    LlamaForCausalLM(config).save_pretrained(tmp_path)
    with pytest.raises(ValueError, match="is no vision-language model of transformers that answers in words"):
        assemble_model("auto", 0, Loading(weights=str(tmp_path)))


@pytest.mark.parametrize(
    ("template", "message"),
    [
        (None, "no chat template.*put a chat_template.jinja into it"),
        (chatml(""), "drops the image"),
        (chatml("<image>").replace("{{ part['text'] }}", ""), "drops or repeats the question"),
        ("{{ raise_exception('no images please') }}", "refuses a question about an image: no images please"),
    ],
)
def test_a_template_that_cannot_ask_is_refused_before_weights_are_read(
    folder: Path, template: str | None, message: str
) -> None:
    (folder / "model.safetensors").unlink()
    path = folder / "chat_template.jinja"
    path.unlink() if template is None else path.write_text(template, "utf-8")
    with pytest.raises(ValueError, match=message):
        _read(folder)


def test_no_image_processor_and_settings_of_other_models_are_refused(folder: Path) -> None:
    with pytest.raises(ValueError, match=r"model.video_frames is set, but the generic entry"):
        _read(folder, video_frames=4)
    with pytest.raises(ValueError, match=r"model.volumes_as is set, but the generic entry"):
        _read(folder, volumes_as="slices")
    (folder / "processor_config.json").unlink()
    with pytest.raises(ValueError, match="processor"):
        _read(folder)


def test_weights_that_are_not_whole_are_refused(folder: Path) -> None:
    _edit(folder / "config.json", projector_hidden_size=64)
    with pytest.raises(ValueError, match="cannot read its weights"):
        _read(folder)


# By hand: the vision tower, the projector, the language model.
PARTS = {
    "lfm2_vl": ("model.vision_tower", "model.multi_modal_projector", "model.language_model lm_head"),
    "llava_next": ("model.vision_tower", "model.image_newline model.multi_modal_projector",
                   "model.language_model lm_head"),
    "mistral3": ("model.vision_tower", "model.multi_modal_projector", "model.language_model lm_head"),
    "pixtral": ("model.vision_tower", "model.multi_modal_projector", "model.language_model lm_head"),
    "ovis2": ("model.vision_tower", "model.visual_embeddings_table", "model.language_model lm_head"),
    "gemma4": ("model.vision_tower", "model.embed_vision", "model.language_model lm_head"),
    "gemma3n": ("model.vision_tower model.audio_tower", "model.embed_vision model.embed_audio",
                "model.language_model lm_head"),
    "qwen25_omni": ("model.audio_tower model.visual", "model.visual.merger", "model.language_model lm_head"),
    "qwen3_omni": ("model.audio_tower model.visual", "model.visual.merger_list model.visual.merger",
                   "model.language_model lm_head"),
    "minicpm_v": ("model.vision_tower", "model.merger", "model.language_model lm_head"),
    "smolvlm": ("model.vision_model", "model.connector", "model.text_model lm_head"),
    "idefics3": ("model.vision_model", "model.connector", "model.text_model lm_head"),
    "deepseek_vl": ("model.vision_model", "model.aligner", "model.language_model lm_head"),
    "cohere2_vision": ("model.vision_tower", "model.multi_modal_projector", "model.language_model lm_head"),
}  # fmt: skip
# Full-size architectures on the meta device: a Q-Former, two towers, a merger inside the tower.
OTHERS: dict[str, tuple[PreTrainedConfig, tuple[str, str, str]]] = {
    "blip-2": (Blip2Config(), ("vision_model", "query_tokens qformer language_projection", "language_model")),
    "deepseek_vl_hybrid": (DeepseekVLHybridConfig(), (
        "model.high_res_vision_model model.vision_model",
        "model.high_res_vision_alpha model.high_res_vision_neck model.high_res_vision_proj model.aligner",
        "model.language_model lm_head",
    )),
    "glm4v": (AutoConfig.for_model("glm4v"), ("model.visual", "model.visual.merger", "model.language_model lm_head")),
}  # fmt: skip


@pytest.mark.parametrize("name", BUILDERS)
def test_parts_of_checkpoints_are_those_named_by_hand(name: str) -> None:
    found = generic_skeleton(BUILDERS[name]().config).part_roots
    named = dict(zip(("vision", "projector", "language"), PARTS[name], strict=True))
    assert {part: " ".join(root.removeprefix("whole.") for root in roots) for part, roots in found.items()} == named


@pytest.mark.parametrize("name", OTHERS)
def test_parts_of_other_layouts_are_those_named_by_hand(name: str) -> None:
    config, named = OTHERS[name]
    with torch.device("meta"):
        found = find_parts(AutoModelForImageTextToText.from_config(config))
    assert tuple(" ".join(found[part]) for part in ("vision", "projector", "language")) == named


@pytest.mark.parametrize(
    "name", [name if name == "nano_qwen3vl" else pytest.param(name, marks=pytest.mark.slow) for name in OF_TRANSFORMERS]
)
def test_parts_of_known_families_are_those_of_their_rows(name: str) -> None:
    family = MODELS[name].family
    assert family is not None
    whole, named = twin(name).model.of_transformers, find_family(family).wiring.roots
    found = find_parts(whole)
    for parameter, _ in whole.named_parameters():
        assert root_of(parameter, found)[0] == root_of(parameter, named)[0], parameter


@pytest.mark.parametrize("targets", [None, ".*"])
def test_llama_4s_router_which_returns_two_values_is_not_adapted_and_its_experts_can_be(targets: str | None) -> None:
    sizes = {"hidden_size": 32, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 32}
    more = {"vocab_size": 64, "num_key_value_heads": 2, "head_dim": 16, "num_local_experts": 2, "pad_token_id": 0}
    eyes = {"image_size": 28, "patch_size": 14, "vision_output_dim": 32, "projector_input_dim": 32}
    config = Llama4Config(
        text_config={**sizes, **more, "intermediate_size_mlp": 32},
        vision_config={**sizes, **eyes, "projector_output_dim": 32},
    )
    model = GenericVlm(AutoModelForImageTextToText.from_config(config), {})
    notes = adapt(model, [Tuning(language=PartTuning(mode="lora", lora=Lora(targets=targets)))], seed=0)
    adapted = {name.split(".lora_A")[0].rpartition(".")[2] for name, _ in model.named_parameters() if "lora_A" in name}
    assert {"q_proj", "gate_proj"} <= adapted
    assert "router" not in adapted
    assert ("experts" in adapted) == (targets is not None)
    assert any("feed_forward.experts.gate_up_proj" in note for note in notes) == (targets is None), notes
    logits = model.whole(input_ids=torch.arange(1, 9).unsqueeze(0)).logits
    assert logits.isfinite().all()
    logits.sum().backward()
    assert all(p.grad is not None and p.grad.any() for name, p in model.named_parameters() if ".lora_B" in name)


def test_a_model_without_a_tower_is_refused_with_the_top_of_its_modules() -> None:
    with pytest.raises(ValueError, match=r"(?s)no vision was found in Fuyu.*model.vision_embed_tokens: Linear"):
        generic_skeleton(FuyuConfig())
    with pytest.raises(ValueError, match="no language was found in IdeficsForVisionText2Text"):
        generic_skeleton(AutoConfig.for_model("idefics"))


@pytest.fixture
def qwen_folder(tmp_path: Path) -> Path:
    return saved("nano_qwen25vl", tmp_path / "checkpoint")


def _load(qwen_folder: Path, **settings: object) -> object:
    return zoo_entry("qwen25vl_7b").assemble(0, Loading(weights=str(qwen_folder), **settings))  # type: ignore[arg-type]


def test_local_folder_takes_the_place_of_the_hub(qwen_folder: Path) -> None:
    loaded = zoo_entry("qwen25vl_7b").assemble(0, Loading(weights=str(qwen_folder)))
    ours, theirs = whole(loaded).state_dict(), whole(twin("nano_qwen25vl")).state_dict()
    assert all(torch.equal(ours[name], theirs[name]) for name in theirs)
    assert str(qwen_folder) in loaded.provenance["language"]
    assert kept_weights(str(qwen_folder)) == qwen_folder


def test_the_plan_of_a_folder_has_the_sizes_of_its_own_config(qwen_folder: Path) -> None:
    """Else `validate` would ask for the memory of 8.29 billion parameters for a model of another size."""
    entry = zoo_entry("qwen25vl_7b")
    planned = {name: p.shape for name, p in entry.skeleton(Loading(weights=str(qwen_folder))).named_parameters()}
    assert planned == {name: p.shape for name, p in twin("nano_qwen25vl").model.named_parameters()}
    (qwen_folder / "config.json").unlink()
    published = entry.skeleton(Loading(weights=str(qwen_folder)))
    assert 8.2e9 < sum(p.numel() for p in published.parameters()) < 8.4e9


def test_type_and_image_size_are_those_of_the_recipe(qwen_folder: Path) -> None:
    loaded = zoo_entry("qwen25vl_7b").assemble(
        0, Loading(weights=str(qwen_folder), dtype="bfloat16", image_max_pixels=3200)
    )
    assert {p.dtype for p in loaded.model.parameters()} == {torch.bfloat16}
    assert loaded.transform(picture(width=300, height=300))["image_grid_thw"].prod() == 16


def test_one_size_models_refuse_another(tmp_path: Path) -> None:
    where = saved("nano_mllama", tmp_path / "checkpoint")
    with pytest.raises(ValueError, match="scales every image to its own size"):
        zoo_entry("llama32_11b_vision").assemble(0, Loading(weights=str(where), image_max_pixels=9999))


def test_folder_of_another_family_is_refused(tmp_path: Path) -> None:
    where = saved("nano_mllama", tmp_path / "checkpoint")
    with pytest.raises(ValueError, match="a model of type 'mllama'; wanted qwen2_vl or qwen2_5_vl"):
        _load(where)


def test_folder_without_a_processor_is_refused(qwen_folder: Path) -> None:
    for file in qwen_folder.glob("*processor*"):
        file.unlink()
    with pytest.raises(ValueError, match=r"processor"):
        _load(qwen_folder)


def test_missing_and_unknown_tensors_are_refused(qwen_folder: Path) -> None:
    """transformers itself would fill missing weights with random numbers and only warn."""
    path = qwen_folder / "model.safetensors"
    tensors = load_file(path)
    name = next(n for n in tensors if n.endswith("q_proj.weight"))
    save_file({("other" if n == name else n): t for n, t in tensors.items()}, path, metadata={"format": "pt"})
    with pytest.raises(ValueError, match="1 missing keys"):
        _load(qwen_folder)


def test_folder_without_weights_is_refused(qwen_folder: Path) -> None:
    (qwen_folder / "model.safetensors").unlink()
    assert kept_weights(str(qwen_folder)) is None
    with pytest.raises(ValueError, match=r"cannot read its weights"):
        _load(qwen_folder)


def test_hub_out_of_reach_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    with pytest.raises(AssetError, match=r"Qwen/Qwen2.5-VL-7B-Instruct: configuration neither kept here"):
        zoo_entry("qwen25vl_7b").assemble(0)


def test_chat_template_of_the_folder_is_used(qwen_folder: Path) -> None:
    path = qwen_folder / "chat_template.jinja"
    path.write_text(path.read_text().replace("helpful", "terse"))
    loaded = zoo_entry("qwen25vl_7b").assemble(0, Loading(weights=str(qwen_folder)))
    assert "terse" in loaded.template.decode(loaded.template.layout("Q", None, shapes=()).ids)
    assert json.loads((qwen_folder / "config.json").read_text())["model_type"] == "qwen2_5_vl"
