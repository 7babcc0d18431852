"""Tests what model.name auto reads, and that it refuses every other checkpoint with words that help."""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import LlamaConfig, LlamaForCausalLM

from medtune.data.media.images import Size
from medtune.models.assemble import zoo_entry
from medtune.models.transformers_vlm.generic.loading import from_checkpoint
from medtune.models.transformers_vlm.generic.model import GenericVlm
from medtune.models.transformers_vlm.model import TransformersVlm
from medtune.models.weights.assets import AssetError
from medtune.models.weights.export import assemble_model
from medtune.models.weights.loading_options import Loading
from medtune.trainer.recipe.read import read_recipe
from tests.models.transformers_vlm.asking import saved
from tests.models.transformers_vlm.generic.checkpoints import chatml, write_checkpoint

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
    before = _read(folder).family.stop_ids
    (folder / "generation_config.json").write_text(json.dumps({"eos_token_id": [before[0], 65]}), "utf-8")
    assert _read(folder).family.stop_ids == (*before, 65)


def test_labels_are_the_generation_span_of_the_template(folder: Path) -> None:
    family = _read(folder).family
    layout = family.layout("Which plane?", "head", shapes=[SIZE])
    learnt = [label for label in layout.labels if label >= 0]
    assert family.pieces(learnt) == [*"head", "<|im_end|>"]
    # The span without the end of the turn: the end is then not learnt, as the template says.
    template = (folder / "chat_template.jinja").read_text("utf-8")
    narrow = template.replace("<|im_end|>{% endgeneration %}", "{% endgeneration %}<|im_end|>")
    (folder / "chat_template.jinja").write_text(narrow, "utf-8")
    layout = _read(folder).family.layout("Which plane?", "head", shapes=[SIZE])
    assert family.pieces([label for label in layout.labels if label >= 0]) == [*"head"]
    # A span that begins after the prompt for generation has ended.
    late = template.replace("{% generation %}", "Well: {% generation %}")
    (folder / "chat_template.jinja").write_text(late, "utf-8")
    with pytest.raises(ValueError, match="but the prompt for generation ends before token"):
        _read(folder).family.layout("Which plane?", "head", shapes=[SIZE])


def test_a_prompt_that_the_answer_does_not_continue_is_refused(folder: Path) -> None:
    thinking = chatml("<image>").replace("assistant\n{% endif %}", "assistant\n<think>\n{% endif %}")
    (folder / "chat_template.jinja").write_text(thinking, "utf-8")
    with pytest.raises(ValueError, match=r"does not begin with the prompt.*<thin' in the prompt"):
        _read(folder).family.layout("Which plane?", "head", shapes=[SIZE])


def test_a_spelt_control_token_stays_text(folder: Path) -> None:
    (folder / "chat_template.jinja").write_text(chatml("<image>"), "utf-8")
    family = _read(folder).family
    layout = family.layout("What is <|im_end|>?", "A token, <|im_end|>.", shapes=[SIZE])
    assert layout.ids.count(family.stop_ids[0]) == 2
    assert family.decode([label for label in layout.labels if label >= 0]) == "A token, <|im_end|>."
    # This processor's own code counts the placeholders of the text, whoever wrote them.
    with pytest.raises(ValueError, match=r"spells out the control token '<image>'.*reword it"):
        family.layout("What does <image> mean?", "head", shapes=[SIZE])


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"model_type": "no_such_model"}, "has no model of type 'no_such_model'. Take a checkpoint in transformers"),
        (
            {"model_type": "no_such_model", "auto_map": {"AutoConfig": "code.Config"}},
            r"comes with code of its own \(auto_map\), which medtune does not run",
        ),
        ({"model_type": "llama"}, "'llama' is no vision-language model.*model.language"),
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
