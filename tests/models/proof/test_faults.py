"""Plants faults, each of which the doctor has to find under its name."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import PIL.Image
import pytest
import torch

from medtune.data.types import MEDIA_MARK, MediaRef, Prompt, Question, Turn
from medtune.models.assemble import zoo_entry
from medtune.models.contract import Assembled
from medtune.models.proof.answers import Asking
from medtune.models.proof.checks import TOLERANCE, Check, computing_type
from medtune.models.proof.plain_transformers import reference_of
from medtune.models.proof.proof import proof
from medtune.models.proof.questions import AskedQuestion
from medtune.models.proof.weights import adapter_check, weights_check
from medtune.models.transformers_vlm import positions
from medtune.models.transformers_vlm.families import find_family
from medtune.models.tuning.plan import Precision
from medtune.models.tuning.quantize import NARROW, precise, set_types
from medtune.models.weights.checkpoint import BASE, base_samples, write_trained
from medtune.models.weights.loading_options import DEFAULT, Loading
from tests.models.transformers_vlm.test_parity import saved
from tests.models.twins import MODELS, OF_TRANSFORMERS, picture

WORDS = ("benign", "malignant tissue", "normal")


def asked_about(refs: list[MediaRef], *, per_media: int = 2) -> list[AskedQuestion]:
    """Returns a few questions about each media item; every third has letters as replies."""
    found = []
    for number, ref in enumerate(refs):
        for again in range(per_media):
            right = WORDS[(number + again) % 3]
            text = f"Which kind of tissue does scan {number} show{' here' * again}?"
            question = Question(f"q{number}-{again}", f"m{number}", text, WORDS, right, "choice", "p")
            found.append(AskedQuestion(question, (ref,), Prompt(text, WORDS, right)))
    return found


def conversations(refs: list[MediaRef]) -> list[AskedQuestion]:
    """Returns questions about two items in two orders, with earlier turns, with places in the texts, and about none."""
    first, later = f"{MEDIA_MARK}Which kind is it?", f"{MEDIA_MARK}And this one?"
    asked = Question("later", "later", later, WORDS, WORDS[0], "choice", "p", turns=(Turn(first, "Tissue."),))
    found = [AskedQuestion(asked, tuple(refs[:2]), Prompt(later, WORDS, WORDS[0]))]
    shown = (tuple(refs[:2]), tuple(refs[1::-1]), (refs[0],), ())
    for number, has_turn in ((0, False), (1, False), (1, True), (2, True), (3, False)):
        between = f"Is {MEDIA_MARK} older than {MEDIA_MARK}?" if number == 1 else "What do they show?"
        text = between if number == 1 and not has_turn else f"Which kind of tissue is in place {number}?"
        turns, right = (Turn(between, "Tissue."),) * has_turn, WORDS[number % 3]
        question = Question(f"q{number}-{len(turns)}", f"m{number}", text, WORDS, right, "choice", "p", turns=turns)
        found.append(AskedQuestion(question, shown[number], Prompt(text, WORDS, right)))
    return found


def pictures(folder: Path, count: int = 2) -> list[MediaRef]:
    """Writes pictures of different sizes."""
    refs = []
    for number in range(count):
        path = folder / f"picture_{number}.png"
        PIL.Image.fromarray(picture(number, width=90 - 20 * number, height=60 + 7 * number).pixels_HWC).save(path)
        refs.append(MediaRef(path))
    return refs


def checkpoint(name: str, folder: Path, *, dtype: torch.dtype = torch.float32) -> Path | None:
    """Writes a twin of transformers as a checkpoint with files of a type; None for the other twins."""
    if name not in OF_TRANSFORMERS:
        return None
    saved(name, folder)
    if dtype is not torch.float32:
        from safetensors.torch import load_file, save_file

        path = folder / "model.safetensors"
        save_file({k: v.to(dtype) for k, v in load_file(path).items()}, path, metadata={"format": "pt"})
    return folder


def opened(name: str, folder: Path | None, loading: Loading = DEFAULT) -> Assembled:
    """Returns the model as medtune reads it from the folder."""
    where = replace(loading, weights=None if folder is None else str(folder))
    assembled = zoo_entry(name).assemble(0, where)
    assembled.model.eval()
    return assembled


def _family(name: str) -> str | None:
    """Returns the family of a twin; other names are those of families."""
    return MODELS[name].family if name in MODELS else name


def examined(
    name: str,
    assembled: Assembled,
    folder: Path | None,
    questions: list[AskedQuestion],
    *,
    precision: Precision = "32-true",
) -> dict[str, Check]:
    """Returns the checks of a model by name, on a CPU."""
    family, device = _family(name), torch.device("cpu")
    set_types(assembled.model.requires_grad_(False), precision)
    own = precise(precision, device)
    reference = reference_of(
        assembled, find_family(family) if family else None, folder=folder, loading=DEFAULT, precise=own
    )
    tolerance = TOLERANCE[computing_type(assembled.model, NARROW.get(precision))]
    asking = Asking(device, own, tolerance, max_new_tokens=6)
    return {check.name: check for check in proof(assembled, reference, questions, asking)}


def failed(checks: dict[str, Check]) -> set[str]:
    """Returns the names of the checks that failed."""
    return {name for name, check in checks.items() if check.passed is False}


NAME = "nano_qwen25vl"
ABOUT = {"model": NAME, "lora": '{"language": {"alpha": 8.0}}'}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    found = checkpoint(NAME, tmp_path / "checkpoint")
    assert found is not None
    return found


def _examined(assembled: Assembled, folder: Path, tmp_path: Path) -> Any:
    return examined(NAME, assembled, folder, asked_about(pictures(tmp_path)))


def _layer(assembled: Assembled) -> tuple[str, Any]:
    """Returns a layer in the middle of the language model."""
    named = dict(assembled.model.named_modules())
    return next((name, m) for name, m in named.items() if name.endswith("layers.1.self_attn.q_proj"))


def test_another_template(folder: Path, tmp_path: Path) -> None:
    assembled = opened(NAME, folder)
    template = folder / "chat_template.jinja"
    template.write_text(template.read_text().replace("You are a helpful assistant.", "You are a radiologist."))
    checks = _examined(assembled, folder, tmp_path)
    assert checks["template"].passed is False
    assert "question q0-0: token at place 18 is 'h' (71), expected 'r' (81)" in checks["template"].detail
    assert checks["end token"].passed
    assert checks["pixels"].passed


def test_another_end_token(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assembled = opened(NAME, folder)
    monkeypatch.setattr(assembled.template, "_stop_id", 256)
    checks = _examined(assembled, folder, tmp_path)
    assert checks["end token"].passed is False
    assert checks["end token"].detail == (
        "answers are learnt to end with '<|endoftext|>' (256), and by the checkpoint's template they end with "
        "'<|im_end|>' (258)"
    )
    assert checks["template"].passed
    assert checks["positions"].passed


def test_rounded_values(folder: Path) -> None:
    assembled = opened(NAME, folder)
    weight = assembled.model.get_parameter("whole.lm_head.weight")
    weight.data = weight.data.half().float()
    rounded = weights_check(assembled.model, folder, read_as=torch.float32)
    assert rounded.passed is False
    assert "values differ" in rounded.detail


def test_a_transposed_key(folder: Path) -> None:
    assembled = opened(NAME, folder)
    name, layer = _layer(assembled)
    layer.weight.data = layer.weight.data.T.contiguous()
    check = weights_check(assembled.model, folder, read_as=torch.float32)
    assert check.passed is False
    assert check.detail.startswith(f"{name}.weight (")
    assert check.detail.endswith("it is transposed in memory")


def test_the_learnt_reply_is_that_of_another_option(folder: Path, tmp_path: Path) -> None:
    questions = asked_about(pictures(tmp_path))
    turned = replace(questions[1].prompt, choices=tuple(reversed(questions[1].prompt.choices)))
    questions[1] = replace(questions[1], prompt=replace(turned, target="benign"))
    checks = examined(NAME, opened(NAME, folder), folder, questions)
    assert failed(checks) == {"option order"}
    assert checks["option order"].detail.startswith("question q0-1: the right answer 'malignant tissue' is option 2")


def test_a_stale_adapter(folder: Path, tmp_path: Path) -> None:
    """Trained weights that were learnt over other weights, or with another scale, are named."""
    model = opened(NAME, folder).model
    path = tmp_path / "best.safetensors"
    write_trained(path, {}, about={**ABOUT, BASE: base_samples(model, set())})
    assert adapter_check(model, path, ABOUT).passed
    other = opened(NAME, None).model
    with torch.no_grad():
        for parameter in other.parameters():
            parameter.add_(0.01)
    stale = adapter_check(other, path, ABOUT)
    assert stale.passed is False
    assert "was trained over other weights: whole." in stale.detail
    scaled = adapter_check(model, path, {**ABOUT, "lora": '{"language": {"alpha": 16.0}}'})
    assert scaled.passed is False
    assert "trained with other adapters (model.tuning.*.lora) than the recipe has" in scaled.detail


def test_a_shifted_position(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    placed = positions.placed

    def shifted(*arguments: Any) -> Any:
        run = placed(*arguments)
        return run._replace(advance=run.advance + 1)

    monkeypatch.setattr(positions, "placed", shifted)
    checks = _examined(opened(NAME, folder), folder, tmp_path)
    assert checks["positions"].passed is False
    assert "position at place 51 is" in checks["positions"].detail
    assert checks["image tokens"].passed
    assert checks["template"].passed
    # A single position moves the answers little, so the likelihoods may stay within their tolerance.
    assert failed(checks) <= {"positions", "options", "replies"}
