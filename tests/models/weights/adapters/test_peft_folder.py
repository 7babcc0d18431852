"""Tests adapter folders against plain peft: what is written loads there, and what peft wrote loads here."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from peft import LoraConfig, PeftModel, get_peft_model
from safetensors.torch import load_file, save_file
from torch import Tensor

from medtune.models.contract import Assembled
from medtune.models.tuning.apply import apply_tuning
from medtune.models.tuning.plan import Lora, PartTuning, Tuning
from medtune.models.weights.assets import AssetError
from medtune.models.weights.export import assemble_model
from medtune.models.weights.loading_options import Loading
from medtune.models.weights.read_adapter import merge_adapter
from medtune.models.weights.write_adapter import ABOUT, README, WEIGHTS, Base, write_adapter
from tests.models.twins import fresh, logprobs

FULL = PartTuning(mode="full")
pytestmark = pytest.mark.filterwarnings("ignore:Could not find a config file", "ignore:model.adapter")
STANDARD = Tuning()
OWN_RANKS = Tuning(
    vision=PartTuning(mode="lora", lora=Lora(r=4, alpha=4.0)),
    language=PartTuning(mode="lora", lora=Lora(r=8, alpha=12.0, targets=r".*(q|v)_proj")),
)
EMBEDDINGS = Tuning(language=PartTuning(mode="lora", parameters=".*embed_tokens.weight"))
TOWER = Tuning(vision=FULL)


def trained(name: str, tuning: Tuning = STANDARD) -> Assembled:
    """Returns a model whose trainable weights differ from untrained ones as much as after training."""
    assembled = fresh(name)
    apply_tuning(assembled.model, tuning, seed=0)
    torch.manual_seed(1)
    with torch.no_grad():
        for each, parameter in assembled.model.named_parameters():
            if parameter.requires_grad:
                parameter.add_(torch.randn_like(parameter) * (0.1 if "lora_" in each else 0.02))
    assembled.model.eval()
    return assembled


def written(assembled: Assembled, folder: Path, base: Base) -> Path:
    learnt = {name: p for name, p in assembled.model.named_parameters() if p.requires_grad}
    write_adapter(folder, assembled.model, learnt, base, about={"recipe": "a"})
    return folder


def said(assembled: Assembled, name: str) -> list[float]:
    assembled.model.eval()
    with torch.no_grad():
        found: list[float] = logprobs(assembled, name).tolist()
    return found


def in_peft(name: str, folder: Path) -> list[float]:
    base = fresh(name)
    PeftModel.from_pretrained(base.model.of_transformers, str(folder))
    return said(base, name)


def started(name: str, folder: Path, **more: Any) -> Assembled:
    return assemble_model(name, 0, Loading(adapter=str(folder), **more))


@pytest.mark.parametrize(
    ("name", "tuning"),
    [
        ("nano_qwen25vl", STANDARD),
        pytest.param("nano_qwen3vl", OWN_RANKS, marks=pytest.mark.slow),
        ("nano_gemma3", STANDARD),
        pytest.param("nano_mllama", EMBEDDINGS, marks=pytest.mark.slow),
        pytest.param("nano_llava", TOWER, marks=pytest.mark.slow),
    ],
)
def test_plain_peft_and_medtune_read_what_was_trained(name: str, tuning: Tuning, tmp_path: Path) -> None:
    assembled = trained(name, tuning)
    expected, untrained = said(assembled, name), said(fresh(name), name)
    assert expected != pytest.approx(untrained, abs=1e-2), "the training changes nothing: this test would be blind"
    folder = written(assembled, tmp_path / "adapter", Base(name))
    assert in_peft(name, folder) == pytest.approx(expected, abs=1e-6)
    begun = started(name, folder)
    assert said(begun, name) == pytest.approx(expected, abs=1e-4)
    assert "adapter" in begun.provenance["language"]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["adapter"]


def test_ranks_and_scales_of_each_part_stand_in_the_configuration(tmp_path: Path) -> None:
    folder = written(trained("nano_qwen25vl", OWN_RANKS), tmp_path / "adapter", Base("a/b", "main"))
    config = json.loads((folder / "adapter_config.json").read_text())
    assert {config["r"], *config["rank_pattern"].values()} == {4, 8}
    assert {config["lora_alpha"], *config["alpha_pattern"].values()} == {4, 12}
    assert (config["base_model_name_or_path"], config["revision"]) == ("a/b", "main")
    assert config["modules_to_save"] == ["model.visual.merger"]
    assert config["target_modules"] == sorted(config["target_modules"]), "another order in each process"
    assert json.loads((folder / ABOUT).read_text()) == {"recipe": "a"}


def test_a_model_of_three_modules_keeps_its_projector_beside_the_adapter(tmp_path: Path) -> None:
    assembled = trained("nano_pocket")
    folder = written(assembled, tmp_path / "adapter", Base("nano_pocket"))
    assert said(started("nano_pocket", folder), "nano_pocket") == pytest.approx(
        said(assembled, "nano_pocket"), abs=1e-4
    )
    assert "only medtune can put the model together" in (folder / README).read_text()


@pytest.mark.parametrize(
    ("name", "tuning", "reason"),
    [
        ("nano_llava_onevision", STANDARD, "model.image_newline was trained in full, but the module"),
        ("nano_qwen25vl", Tuning(language=PartTuning()), "the run trained no LoRA adapter"),
        ("nano_pocket", Tuning(vision=PartTuning(mode="lora")), "an adapter outside of the language model"),
    ],
)
def test_what_peft_cannot_express_is_said_and_not_written(
    name: str, tuning: Tuning, reason: str, tmp_path: Path
) -> None:
    folder = written(trained(name, tuning), tmp_path / "adapter", Base(name))
    assert [path.name for path in folder.iterdir()] == [README]
    assert reason in (folder / README).read_text()


def test_a_run_on_top_of_an_adapter_writes_none(tmp_path: Path) -> None:
    folder = written(trained("nano_qwen25vl"), tmp_path / "adapter", Base("a", adapter="b"))
    assert "began from the adapter b" in (folder / README).read_text()


def of_peft(folder: Path, **settings: Any) -> list[float]:
    """Writes an adapter with plain peft and returns what its model says."""
    base = fresh("nano_qwen25vl")
    wrapped = get_peft_model(base.model.of_transformers, LoraConfig(**settings))
    torch.manual_seed(2)
    with torch.no_grad():
        for each, parameter in wrapped.named_parameters():
            if "lora_B" in each or "lora_embedding_A" in each or "modules_to_save" in each:
                parameter.add_(torch.randn_like(parameter) * 0.1)
    wrapped.save_pretrained(str(folder))
    return said(base, "nano_qwen25vl")


OF_OTHERS = {
    "suffixes": {"r": 3, "lora_alpha": 7, "target_modules": ["q_proj", "v_proj"]},
    "regex, rsLoRA": {"r": 4, "use_rslora": True, "target_modules": r"model\.language_model\..*_proj"},
    "DoRA, projector": {"r": 2, "use_dora": True, "target_modules": ["o_proj"], "modules_to_save": ["merger"]},
    "embeddings": {"r": 3, "target_modules": ["embed_tokens", "q_proj"], "modules_to_save": ["lm_head"]},
    "patterns": {
        "r": 2, "target_modules": ["q_proj", "up_proj"],
        "rank_pattern": {"up_proj": 5}, "alpha_pattern": {"up_proj": 1},
    },
}  # fmt: skip


@pytest.mark.parametrize(
    "kind",
    [k if k in ("DoRA, projector", "embeddings") else pytest.param(k, marks=pytest.mark.slow) for k in OF_OTHERS],
)
def test_an_adapter_that_plain_peft_wrote_is_read(kind: str, tmp_path: Path) -> None:
    expected = of_peft(tmp_path, **OF_OTHERS[kind])
    found = said(started("nano_qwen25vl", tmp_path), "nano_qwen25vl")
    assert found == pytest.approx(expected, abs=1e-4)
    assert found != pytest.approx(said(fresh("nano_qwen25vl"), "nano_qwen25vl"), abs=1e-3)


@pytest.mark.parametrize(
    ("now", "then"),
    [
        ("model.language_model.layers", "model.layers"),
        ("model.language_model.layers", "language_model.model.layers"),
        ("model.language_model.layers", "language_model.layers"),
    ],
)
def test_names_of_older_versions_are_understood(now: str, then: str, tmp_path: Path) -> None:
    expected = of_peft(tmp_path, r=3, target_modules=["q_proj", "v_proj"])
    rename(tmp_path, lambda name: name.replace(now, then))
    assert said(started("nano_qwen25vl", tmp_path), "nano_qwen25vl") == pytest.approx(expected, abs=1e-4)


def rename(folder: Path, new: Any) -> None:
    tensors: dict[str, Tensor] = load_file(folder / WEIGHTS)
    save_file({new(name): tensor for name, tensor in tensors.items()}, folder / WEIGHTS)


FIRST = "base_model.model.model.language_model.layers.0.self_attn.q_proj.lora_A.weight"
SPOILT: dict[str, tuple[Callable[[dict[str, Tensor]], dict[str, Tensor]], str]] = {
    "a layer is lost": (
        lambda t: {n: v for n, v in t.items() if ".layers.1." not in n},
        "that its target_modules or target_parameters name",
    ),
    "a tensor is lost": (lambda t: {n: v for n, v in t.items() if n != FIRST}, r"q_proj has only one of its matrices"),
    "a layer too many": (
        lambda t: {n.replace("layers.1", "layers.9"): v for n, v in t.items()},
        r"layers\.9\.self_attn",
    ),
    "another rank": (lambda t: {**t, FIRST: torch.zeros(4, 32)}, "q_proj has rank 4, but adapter_config.json says 3"),
    "another width": (lambda t: {**t, FIRST: torch.zeros(3, 5)}, "shapes are not those of this model"),
    "a stranger": (lambda t: {**t, "base_model.model.lm_head.bias": torch.zeros(1)}, "lm_head.bias"),
    "nothing": (lambda t: {}, "it holds no LoRA weights"),
}
SET: dict[str, tuple[dict[str, object], str]] = {
    "IA3": ({"peft_type": "IA3"}, "peft_type is IA3; model.adapter takes LORA alone"),
    "tokens": ({"trainable_token_indices": [1]}, "trainable_token_indices is set"),
    "biases": ({"bias": "all"}, "biases were trained as well"),
}


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("whole")
    of_peft(folder, r=3, target_modules=["q_proj", "v_proj"])
    return folder


@pytest.mark.parametrize("what", SPOILT)
def test_tensors_that_do_not_fit_are_named(what: str, whole: Path, tmp_path: Path) -> None:
    change, message = SPOILT[what]
    shutil.copytree(whole, tmp_path / "spoilt")
    save_file(change(load_file(whole / WEIGHTS)), tmp_path / "spoilt" / WEIGHTS)
    with pytest.raises(ValueError, match=message):
        started("nano_qwen25vl", tmp_path / "spoilt")


def test_an_adapter_of_embeddings_that_the_output_layer_shares_is_refused(tmp_path: Path) -> None:
    of_peft(tmp_path, **OF_OTHERS["embeddings"])
    assembled = fresh("nano_qwen25vl")
    of_transformers: Any = assembled.model.of_transformers
    of_transformers.config.tie_word_embeddings = True
    with pytest.raises(ValueError, match="whose table is the output layer's too"):
        merge_adapter(assembled, str(tmp_path), base="nano_qwen25vl")
    with torch.no_grad():
        of_transformers.get_input_embeddings().weight.add_(1)
    with pytest.raises(ValueError, match="is another table than the model's"):
        merge_adapter(assembled, str(tmp_path), base="nano_qwen25vl")


@pytest.mark.parametrize("what", SET)
def test_adapters_of_other_kinds_are_refused_by_name(what: str, whole: Path, tmp_path: Path) -> None:
    more, message = SET[what]
    shutil.copytree(whole, tmp_path / "odd")
    path = tmp_path / "odd" / "adapter_config.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), **more}))
    with pytest.raises(ValueError, match=message):
        started("nano_qwen25vl", tmp_path / "odd")


def test_another_name_of_the_base_is_warned_of(tmp_path: Path) -> None:
    folder = written(trained("nano_qwen25vl"), tmp_path / "adapter", Base("somebody/another_model"))
    with pytest.warns(UserWarning, match="trained on somebody/another_model; the model here is nano_qwen25vl"):
        begun = started("nano_qwen25vl", folder)
    assert "(it was trained on somebody/another_model)" in begun.provenance["language"]


def test_a_missing_adapter_is_said(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"no adapter_config\.json there"):
        started("nano_qwen25vl", tmp_path)
    with pytest.raises(AssetError, match="no such folder, and the hub did not give it"):
        started("nano_qwen25vl", tmp_path / "none")
