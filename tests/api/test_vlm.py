"""Tests `medtune.Vlm`: a model in memory says what the same checkpoint says through a recipe, and stays as it was."""

import json
import shutil
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest
import torch
from peft import LoraConfig, PeftModel, PromptTuningConfig, get_peft_model
from transformers import AutoModelForImageTextToText, AutoProcessor, AutoTokenizer

import medtune
from medtune.data.types import Reading
from medtune.eval.learnt import learnt_from, seen_before
from medtune.models.answering import LocalAnswerer
from medtune.models.transformers_vlm.generic.loading import read_config, read_generic
from medtune.models.weights.export import MANIFEST
from medtune.models.weights.loading_options import Loading
from medtune.models.weights.write_adapter import ABOUT
from tests.models.transformers_vlm.generic.checkpoints import write_checkpoint


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_checkpoint("lfm2_vl", tmp_path_factory.mktemp("checkpoint"))


def loaded(checkpoint: Path) -> tuple[Any, Any]:
    return AutoModelForImageTextToText.from_pretrained(checkpoint), AutoProcessor.from_pretrained(checkpoint)


def test_a_model_in_memory_says_what_its_checkpoint_says(checkpoint: Path, prepared_tiny: Path) -> None:
    questions = medtune.load(prepared_tiny).test
    model, processor = loaded(checkpoint)
    model.train()
    frozen = dict(model.named_modules())["lm_head"].eval()
    modes = [module.training for module in model.modules()]
    readings: tuple[Reading, ...] = ("likelihood", "generation")
    here = medtune.evaluate(
        medtune.Vlm(model, processor, max_new_tokens=4), questions, readings=readings, progress=False
    )
    assert [module.training for module in model.modules()] == modes
    assert not frozen.training

    where = str(checkpoint)
    assembled = read_generic(where, read_config(where), Loading(weights=where))
    assembled.model.eval()
    plain = LocalAnswerer(
        assembled, device=torch.device("cpu"), batch_tokens=4096, max_new_tokens=4, precise=nullcontext, batch_size=1
    )
    there = medtune.evaluate(plain, questions, readings=readings, progress=False)
    assert here.replies == there.replies
    assert here.scores.parser == there.scores.parser == "likelihood"
    for mine, its in zip(here.predictions, there.predictions, strict=True):
        assert (mine.option_logprobs is None) == (its.option_logprobs is None)
        assert mine.option_logprobs == pytest.approx(its.option_logprobs, abs=1e-4)
    # The image matters: the model is no stand-in.
    assert len({said.option_logprobs for said in here.predictions if said.option_logprobs}) > 1


def test_adapters_of_peft_stay_active(checkpoint: Path, prepared_tiny: Path) -> None:
    questions = medtune.load(prepared_tiny).test[:2]
    said = []
    for scale in (0.0, 1.0):
        model, processor = loaded(checkpoint)
        adapted = get_peft_model(model, LoraConfig(target_modules=["q_proj"], init_lora_weights=False))
        with torch.no_grad():
            for name, weight in adapted.named_parameters():
                if "lora_B" in name:
                    weight.mul_(scale)
        vlm = medtune.Vlm(adapted, processor)
        found = medtune.evaluate(vlm, questions, readings=("likelihood",), progress=False)
        said.append([each.option_logprobs for each in found.predictions])
    assert said[0] != said[1]


def test_what_was_learnt_is_compared_with_what_is_asked(checkpoint: Path, prepared_tiny: Path, tmp_path: Path) -> None:
    data = medtune.load(prepared_tiny)
    groups, prepared = data.test.groups()[:2], data.test.prepared
    facts = learnt_from(groups, prepared.contents, prepared.looks).facts()
    model, processor = loaded(checkpoint)
    exported, adapter, plain = (tmp_path / name for name in ("exported", "adapter", "plain"))
    shutil.copytree(checkpoint, exported)
    (exported / MANIFEST).write_text(json.dumps({"about": facts}))
    for folder in (adapter, plain):
        get_peft_model(loaded(checkpoint)[0], LoraConfig(target_modules=["q_proj"])).save_pretrained(folder)
    (adapter / ABOUT).write_text(json.dumps(facts))
    adapted = PeftModel.from_pretrained(loaded(checkpoint)[0], adapter)
    learnt, asked = ({group.patient_id for group in each} for each in (groups, data.test.groups()))
    counted = f"{len(learnt)} of the {len(asked)} evaluated patients and "
    for vlm, said in (
        (medtune.Vlm(model, processor), ""),
        (medtune.Vlm(loaded(exported)[0], processor), counted),
        (medtune.Vlm(model, processor, trained=exported), counted),
        (medtune.Vlm(adapted, processor, trained=adapter), counted),
        (medtune.Vlm(adapted, processor), "not recorded"),
        (medtune.Vlm(adapted, processor, trained=plain), "not recorded"),
    ):
        found = medtune.evaluate(vlm, data, readings=("likelihood",), progress=False)
        assert found.label.seen_in_training.startswith(said)
        assert bool(found.label.seen_in_training) == bool(said)
        assert ("TRAINED ON what is evaluated" in str(found)) == (said == counted)
        # The command compares by the same function.
        assert seen_before(vlm.trained, data.test.groups(), prepared).again == found.label.seen_in_training
    with pytest.raises(ValueError, match="is no folder that medtune export wrote, no adapter and no checkpoint"):
        medtune.Vlm(model, processor, trained=tmp_path / "nowhere")


def test_what_is_no_model_or_no_processor_is_refused(checkpoint: Path, prepared_tiny: Path) -> None:
    model, processor = loaded(checkpoint)
    questions = medtune.load(prepared_tiny).test
    both: Any = (model, processor)
    nothing: Any = None
    tokenizer: Any = AutoTokenizer.from_pretrained(checkpoint)
    with pytest.raises(TypeError, match=r"medtune\.Vlm\(model, processor\)"):
        medtune.evaluate(model, questions)
    with pytest.raises(TypeError, match=r"medtune\.Vlm\(model, processor\)"):
        medtune.evaluate(both, questions)
    with pytest.raises(TypeError, match="got no processor; the second argument is what AutoProcessor"):
        medtune.Vlm(model, nothing)
    with pytest.raises(TypeError, match="which is no processor for images"):
        medtune.Vlm(model, tokenizer)
    with pytest.raises(TypeError, match="a Linear is no model of transformers"):
        medtune.Vlm(torch.nn.Linear(1, 1), processor)
    for wrong in ("max_new_tokens", "batch_size"):
        settings: Any = {wrong: 0}
        with pytest.raises(ValueError, match=rf"medtune\.Vlm: {wrong} is 0; it must be at least 1"):
            medtune.Vlm(model, processor, **settings)
    prompts = get_peft_model(model, PromptTuningConfig(task_type="CAUSAL_LM", num_virtual_tokens=2))
    with pytest.raises(ValueError, match="learnt prompts are put in by peft's own forward"):
        medtune.Vlm(prompts, processor)
