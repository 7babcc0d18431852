"""Tests that a merged model equals the adapted one, and that an export can be read back."""

import json
import sys
from dataclasses import replace
from pathlib import Path

import PIL.Image
import pytest
import torch
from peft.tuners.tuners_utils import BaseTunerLayer
from safetensors.torch import load_file, save_file
from transformers import AutoModelForCausalLM, AutoModelForImageTextToText, AutoTokenizer

from medtune.data.media.volumes.transforms.organ_crop import CroppedTransform
from medtune.data.types import MediaGroup, MediaRef, Prompt, Question, Request
from medtune.models import assemble
from medtune.models.contract import Assembled
from medtune.models.proof.checks import EXPORT_TOLERANCE, Apart, apart
from medtune.models.proof.fresh_process import PLAIN, Proof, ProofError, refuse_beyond, told_by
from medtune.models.tuning.apply import apply_tuning
from medtune.models.tuning.plan import Tuning
from medtune.models.tuning.quantize import quantize_language
from medtune.models.vlm import LANGUAGE_FOLDER, VISION_PROJECTOR_FILE
from medtune.models.volumes.ctvit_code_input import CodesInput
from medtune.models.volumes.volume_parts import RadFMInput, VolumeInput
from medtune.models.weights.export import MANIFEST, assemble_model, merge_adapters, volume_input, write_exported
from medtune.models.weights.hub import PROOF
from medtune.models.weights.loading_options import CODES, Loading
from tests.models.twins import OF_THREE_MODULES, OF_VOLUMES, cpu_answerer, fresh, picture

OPTIONS = ("normal", "benign", "malignant")


def tuned(name: str, *, four_bit: bool = False) -> Assembled:
    """Returns a model whose adapters and projector differ from untrained ones as much as after training."""
    assembled = fresh(name)
    if four_bit:
        quantize_language(assembled.model, precision="32-true", device=torch.device("cpu"))
    apply_tuning(assembled.model, Tuning(), seed=0)
    torch.manual_seed(1)
    with torch.no_grad():
        for parameter_name, parameter in assembled.model.named_parameters():
            if parameter.requires_grad:
                parameter.add_(torch.randn_like(parameter) * (0.05 if "lora_" in parameter_name else 0.01))
    assembled.model.eval()
    return assembled


@pytest.fixture(autouse=True)
def here(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    """Changes into a folder with the image that every model is asked about."""
    folder = tmp_path_factory.mktemp("picture")
    PIL.Image.fromarray(picture().pixels_HWC).save(folder / "m.png")
    monkeypatch.chdir(folder)


def read_back(name: str, folder: Path) -> Assembled:
    assembled = assemble_model(name, 7, Loading(weights=str(folder)))
    assembled.model.eval()
    return assembled


def said(assembled: Assembled) -> list[float]:
    answerer = cpu_answerer(assembled, max_new_tokens=4)
    question = Question("q", "m", "What is it?", OPTIONS, OPTIONS[0], "choice", "p")
    request = Request(question, Prompt(question.text, OPTIONS, OPTIONS[0]), "likelihood", "image")
    (prediction,) = answerer.answer(MediaGroup("m", (MediaRef(Path("m.png")),), (question,)), [request])
    return list(prediction.option_logprobs or ())


@pytest.mark.parametrize("name", ["nano_pocket", "nano_qwen25vl", "nano_mllama", "nano_gemma3"])
def test_merged_exported_and_read_back_it_says_the_same(name: str, tmp_path: Path) -> None:
    assembled = tuned(name)
    untrained, adapted = said(fresh(name)), said(assembled)
    assert adapted != pytest.approx(untrained, abs=1e-2), "the adapters change nothing: this test would be blind"
    assert merge_adapters(assembled.model) > 0
    assert not any(isinstance(module, BaseTunerLayer) for module in assembled.model.modules())
    assert said(assembled) == pytest.approx(adapted, abs=1e-4)
    write_exported(assembled, tmp_path, name=name, base_weights=None)
    read = read_back(name, tmp_path)
    assert said(read) == pytest.approx(adapted, abs=1e-4)
    assert all("exported" in text for text in read.provenance.values())


def test_weights_in_4_bits_are_not_merged() -> None:
    with pytest.raises(ValueError, match=r"is in 4 bits; load the model without model\.language_bits"):
        merge_adapters(tuned("nano_pocket", four_bit=True).model)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_all_weights_are_merged_in_float32_and_rounded_once(dtype: torch.dtype) -> None:
    in_full, narrow = tuned("nano_qwen25vl"), tuned("nano_qwen25vl")
    merge_adapters(in_full.model)
    merge_adapters(narrow.model, dtype=dtype)
    expected = in_full.model.state_dict()
    assert all(torch.equal(p, expected[name].to(dtype)) for name, p in narrow.model.named_parameters())


@pytest.mark.parametrize("name", OF_THREE_MODULES)
def test_every_weight_of_a_model_of_three_modules_is_read_back(name: str, tmp_path: Path) -> None:
    assembled = tuned(name)
    merge_adapters(assembled.model)
    write_exported(assembled, tmp_path, name=name, base_weights=None)
    found, expected = read_back(name, tmp_path).model.state_dict(), assembled.model.state_dict()
    assert found.keys() == expected.keys()
    assert all(torch.equal(found[key], tensor) for key, tensor in expected.items())


@pytest.mark.soak
def test_merged_pocket_says_the_same(tmp_path: Path) -> None:
    assembled = tuned("pocket")
    adapted = said(assembled)
    merge_adapters(assembled.model)
    assert said(assembled) == pytest.approx(adapted, abs=1e-3)
    write_exported(assembled, tmp_path, name="pocket", base_weights=None)
    assert said(read_back("pocket", tmp_path)) == pytest.approx(adapted, abs=1e-3)


def test_an_export_is_read_by_transformers_alone(tmp_path: Path) -> None:
    for name in ("nano_pocket", "nano_qwen25vl"):
        assembled = tuned(name)
        merge_adapters(assembled.model)
        (tmp_path / name).mkdir()
        write_exported(assembled, tmp_path / name, name=name, base_weights=None)
    whole = AutoModelForImageTextToText.from_pretrained(tmp_path / "nano_qwen25vl")
    assert whole.config.model_type == "qwen2_5_vl"
    language = AutoModelForCausalLM.from_pretrained(tmp_path / "nano_pocket" / LANGUAGE_FOLDER)
    tokenizer = AutoTokenizer.from_pretrained(tmp_path / "nano_pocket" / LANGUAGE_FOLDER)
    assert len(tokenizer) == language.get_input_embeddings().num_embeddings


@pytest.fixture
def exported(tmp_path: Path) -> Path:
    assembled = fresh("nano_pocket")
    write_exported(assembled, tmp_path, name="nano_pocket", base_weights=None)
    return tmp_path


def test_an_export_of_another_model_is_refused(exported: Path) -> None:
    with pytest.raises(ValueError, match="an export of the model 'nano_pocket'"):
        assemble_model("pocket", 0, Loading(weights=str(exported)))


def test_half_an_export_is_refused(exported: Path) -> None:
    (exported / LANGUAGE_FOLDER / "model.safetensors").rename(exported / "elsewhere")
    with pytest.raises(ValueError, match="no such file; copy the folder again"):
        assemble_model("nano_pocket", 0, Loading(weights=str(exported)))


def test_parts_of_another_shape_are_refused(exported: Path) -> None:
    parts = load_file(exported / VISION_PROJECTOR_FILE)
    first = next(iter(parts))
    save_file(
        {**{k: v for k, v in parts.items() if k != first}, "stranger": torch.zeros(1)}, exported / VISION_PROJECTOR_FILE
    )
    with pytest.raises(ValueError, match=r"1 missing .*1 not known \['stranger'\]"):
        assemble_model("nano_pocket", 0, Loading(weights=str(exported)))


def test_the_manifest_names_the_model(exported: Path) -> None:
    manifest = json.loads((exported / MANIFEST).read_text())
    assert manifest["model"] == "nano_pocket"
    assert set(manifest["provenance"]) == {"vision", "projector", "language"}


WITHOUT_WEIGHTS = ("radfm", "m3d_llama2", "m3d_phi3", "ct_chat", "merlin", "pocket_ct", "parts")
CROPPED = ("nn_radfm", "nn_m3d_llama2", "nn_m3d_phi3", "nn_ct_chat", "nn_merlin")


@pytest.mark.parametrize("name", OF_VOLUMES)
def test_every_twin_reads_volumes_as_its_entry_says(name: str) -> None:
    found = volume_input(name, 0)
    assert found is not None
    assert found == assemble_model(name, 0).transform


@pytest.mark.parametrize("name", [*WITHOUT_WEIGHTS, *CROPPED])
def test_real_models_are_neither_assembled_nor_fetched(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    entry = assemble.zoo_entry(name)
    variants: list[str | None] = [each for each in entry.variants if each != CODES]
    for variant in variants or [None]:
        vision = "resnet3d" if name == "parts" else None
        found = volume_input(name, 0, Loading(variant=variant, vision=vision))
        assert isinstance(found, VolumeInput)
        assert isinstance(found.prepare, CroppedTransform) == (name in CROPPED)
        assert isinstance(found, RadFMInput) == name.endswith("radfm")
        if variant is not None:
            own = entry.variants[variant].transform
            assert (found.prepare.then if isinstance(found.prepare, CroppedTransform) else found.prepare) == own


def test_a_model_of_pictures_reads_no_volumes_as_such() -> None:
    assert volume_input("nano_qwen25vl", 0) is None
    assert volume_input("nano_gemma3", 0, Loading(volumes_as="slices")) is None


@pytest.mark.parametrize("cropped", [False, True])
def test_codes_are_those_of_the_run_s_tower(cropped: bool, tmp_path: Path) -> None:
    name = "nano_nn_ct_chat" if cropped else "nano_ct_chat"
    coders = []
    for seed in (0, 1):
        alone = volume_input(name, seed, Loading(variant=CODES))
        assembled = assemble_model(name, seed, Loading(variant=CODES))
        assert isinstance(alone, CodesInput)
        assert isinstance(assembled.transform, CodesInput)
        assert (alone.coder.digest, alone.prepare) == (assembled.transform.coder.digest, assembled.transform.prepare)
        coders.append(alone.coder.digest)
    assert coders[0] != coders[1]
    # An exported folder has a tower of its own, here that of another seed.
    folder = tmp_path / "exported"
    folder.mkdir()
    write_exported(assembled, folder, name=name, base_weights=None)
    exported = volume_input(name, 0, Loading(variant=CODES, weights=str(folder)))
    assert isinstance(exported, CodesInput)
    assert exported.coder.digest == coders[1]


def test_a_wrong_setting_is_refused() -> None:
    with pytest.raises(ValueError, match=r"model.variant: no 'publik'.* Did you mean 'public'"):
        volume_input("ct_chat", 0, Loading(variant="publik"))
    with pytest.raises(ValueError, match=r"does not take model\.video_frames"):
        volume_input("merlin", 0, Loading(video_frames=3))


NONE, MUCH = Apart(0.0, 0.0), Apart(0.5, 2.0)


def proof(*, difference: Apart = NONE, moved: Apart = MUCH) -> Proof:
    return Proof(4, "made up", "transformers 5", "float32", difference, EXPORT_TOLERANCE["float32"], moved, None)


def test_values_that_are_no_numbers_are_infinitely_far_apart() -> None:
    assert apart([[float("nan")]], [[1.0]]).largest == float("inf")
    with pytest.raises(ProofError, match="inf at most"):
        refuse_beyond(proof(difference=apart([[float("nan")]], [[1.0]])))


@pytest.mark.parametrize("difference", [Apart(2e-4, 5e-4), Apart(5e-5, 2e-3)])
def test_beyond_either_tolerance_is_refused(difference: Apart) -> None:
    refuse_beyond(proof(difference=Apart(5e-5, 5e-4)))
    with pytest.raises(ProofError, match=r"the export is not the trained model.*Nothing was written"):
        refuse_beyond(proof(difference=difference))


def test_a_proof_that_could_tell_nothing_says_so(tmp_path: Path) -> None:
    blind = proof(moved=Apart(1e-5, 1e-4))
    assert "could not tell the trained model from the untrained one" in " ".join(blind.sentences())
    equal = replace(blind, tensors="57 tensors equal those in memory bit by bit")
    assert "but the export is equal to the merged model: 57 tensors equal" in " ".join(equal.sentences())
    blind.write(tmp_path)
    assert json.loads((tmp_path / PROOF).read_text())["tells_trained_from_untrained"] is False
    assert "could not tell" not in " ".join(proof().sentences())


def test_a_reader_that_fails_or_sees_other_tokens_is_named(tmp_path: Path) -> None:
    with pytest.raises(ProofError, match=r"cannot be read by a fresh process \(status 1\): ValueError: broken"):
        told_by((sys.executable, "-c", "raise ValueError('broken')"), {}, tmp_path)
    other = "import sys, json; open(sys.argv[2], 'w').write(json.dumps({'other_ids': 'sample 0: 7 and 8'}))"
    with pytest.raises(ProofError, match="other tokens than medtune; sample 0: 7 and 8"):
        told_by((sys.executable, "-c", other), {}, tmp_path)


def test_the_plain_reader_knows_nothing_of_medtune() -> None:
    source = Path(PLAIN[-1]).read_text("utf-8")
    assert "import medtune" not in source
    assert "from medtune" not in source
    assert "-I" in PLAIN
