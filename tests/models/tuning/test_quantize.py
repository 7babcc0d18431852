"""Tests QLoRA: which layers are held in 4 bits, their outputs, and the answers of adapters that are read back."""

from copy import deepcopy
from itertools import product
from pathlib import Path
from typing import Any

import bitsandbytes as bnb
import pytest
import torch
from torch import nn

from medtune.models.assemble import zoo_entry
from medtune.models.contract import Assembled, Model
from medtune.models.sequence.packing import PackedRows, Shown, pack
from medtune.models.sequence.tree import grow
from medtune.models.tuning.apply import PartRow, apply_tuning
from medtune.models.tuning.plan import Lora, Mode, PartTuning, Precision, Tuning
from medtune.models.tuning.quantize import precise, quantize_language, resolved, set_types, unpacked
from medtune.models.weights.checkpoint import load_trained, trainable_names, write_trained
from tests.models.twins import EVERY_TWIN, ONE_OF_EACH_KIND, TWINS, expanded, fresh, in_type, kinds_then_all, logprobs

CPU = torch.device("cpu")


@pytest.mark.parametrize(
    ("units", "limit", "precision"),
    [
        ({"avx512_bf16": True}, "", "bf16-mixed"),
        ({"amx_bf16": True}, "AVX512_CORE_AMX", "bf16-mixed"),
        ({"avx512_bf16": True}, "AVX512_CORE", "32-true"),
        ({"avx512_bf16": True, "amx_bf16": True}, "avx2", "32-true"),
        ({"avx512_bf16": False}, "", "32-true"),
    ],
)
def test_auto_is_bfloat16_where_the_cpu_and_onednn_compute_it(
    units: dict[str, bool], limit: str, precision: Precision, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(torch.cpu, "get_capabilities", lambda: units)
    monkeypatch.setenv("ONEDNN_MAX_CPU_ISA", limit)
    assert resolved("auto", CPU) == precision
    assert resolved("bf16-mixed", CPU) == "bf16-mixed"


def _quantized(
    name: str, tuning: Tuning | None = None, precision: Precision = "32-true"
) -> tuple[Assembled, tuple[PartRow, ...]]:
    assembled = fresh(name)
    quantize_language(assembled.model, precision=precision, device=CPU)
    rows = apply_tuning(assembled.model, tuning or Tuning(projector=PartTuning("frozen")), seed=0)
    return assembled, rows


def _rows(assembled: Assembled) -> PackedRows:
    tree = grow([assembled.template.layout("Is there a cyst?", "yes", shapes=())], [0])
    return pack([[Shown(tree, None)]], pad_id=assembled.template.pad_id)


def _logprobs(assembled: Assembled) -> torch.Tensor:
    read: torch.Tensor = assembled.model(_rows(assembled), None).logprobs_T
    return read


def _stirred(model: nn.Module) -> None:
    """Gives the adapters random values, because at zero they would change nothing."""
    torch.manual_seed(1)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if ".lora_B" in name:
                parameter.normal_(std=0.1)


def _unpacked(model: Model) -> Model:
    """Returns the same model with plain layers that hold the dequantised weights."""
    plain = deepcopy(model)
    for name, layer in list(plain.named_modules()):
        if isinstance(layer, bnb.nn.Linear4bit):
            plain.set_submodule(name, unpacked(layer))
    return plain


@kinds_then_all
def test_just_the_language_models_linear_layers_are_held_in_4_bits(name: str) -> None:
    model = fresh(name).model
    quantize_language(model, precision="32-true", device=CPU)
    found = {each for each, module in model.named_modules() if isinstance(module, bnb.nn.Linear4bit)}
    assert found == expanded(TWINS[name].language) != set()
    assert all(model.get_parameter(f"{each}.weight").dtype == torch.uint8 for each in found)
    rest = {n: p for n, p in model.named_parameters() if n.rpartition(".")[0] not in found}
    assert {p.dtype for p in rest.values()} == {torch.float32}


@pytest.mark.parametrize("name", ONE_OF_EACH_KIND)
def test_answers_and_gradients_are_those_of_the_weights_that_the_4_bits_stand_for(name: str) -> None:
    assembled, _ = _quantized(name)
    _stirred(assembled.model)
    assembled.model.train()
    plain = Assembled(_unpacked(assembled.model), assembled.template, assembled.transform, {})
    found, wanted = _logprobs(assembled), _logprobs(plain)
    torch.testing.assert_close(found, wanted, rtol=1e-4, atol=1e-5)
    found.sum().backward()
    wanted.sum().backward()
    for (path, one), (other_path, two) in zip(
        [(n, p.grad) for n, p in assembled.model.named_parameters() if ".lora_" in n],
        [(n.replace(".base_layer", ""), p.grad) for n, p in plain.model.named_parameters() if ".lora_" in n],
        strict=True,
    ):
        assert path == other_path
        torch.testing.assert_close(one, two, rtol=1e-3, atol=1e-5)
    # The loss of precision is visible: with the original weights, the answers differ.
    untouched = fresh(name)
    assembled.model.eval()
    with torch.no_grad():
        assert (_logprobs(_quantized(name)[0]) - _logprobs(untouched)).abs().max() > 1e-3


def test_evaluation_computes_what_training_does() -> None:
    assembled, _ = _quantized("nano_pocket")
    _stirred(assembled.model)
    assembled.model.train()
    learning = _logprobs(assembled).detach()
    assembled.model.eval()
    with torch.no_grad():
        torch.testing.assert_close(_logprobs(assembled), learning, rtol=0, atol=1e-6)
    assembled.model.train()
    _logprobs(assembled).sum().backward()
    assert all(p.grad is not None for n, p in assembled.model.named_parameters() if ".lora_" in n)


@pytest.mark.parametrize("name", ONE_OF_EACH_KIND)
def test_adapters_on_a_newly_quantised_base_answer_the_same(name: str, tmp_path: Path) -> None:
    assembled, _ = _quantized(name)
    _stirred(assembled.model)
    assembled.model.eval()
    path = tmp_path / "adapters.safetensors"
    learnt = trainable_names(assembled.model)
    assert all(".lora_" in each for each in learnt)
    write_trained(path, {n: p for n, p in assembled.model.named_parameters() if n in learnt}, about={})
    again, _ = _quantized(name)
    again.model.eval()
    with torch.no_grad():
        assert not torch.equal(_logprobs(again), _logprobs(assembled))
        load_trained(again.model, path)
        assert torch.equal(_logprobs(again), _logprobs(assembled))


def test_table_counts_weights_not_bytes() -> None:
    plain = apply_tuning(fresh("nano_pocket").model, Tuning(), seed=0)
    _, held = _quantized("nano_pocket", Tuning())
    assert [row.parameters for row in held] == [row.parameters for row in plain]
    assert [row.trainable for row in held] == [row.trainable for row in plain]
    per_layer = 2 * 32 * 32 + 2 * 32 * 16 + 3 * 32 * 64
    assert [row.quantized for row in held] == [0, 0, 2 * per_layer]
    skeleton = zoo_entry("nano_pocket").skeleton()
    quantize_language(skeleton, precision="auto", device=torch.device("meta"))
    assert apply_tuning(skeleton, Tuning(), seed=0) == held


def test_bfloat16_leaves_the_4_bits_alone() -> None:
    assembled, _ = _quantized("nano_pocket", precision="bf16-mixed")
    held = assembled.model.get_parameter("language.model.layers.0.self_attn.q_proj.base_layer.weight").clone()
    set_types(assembled.model, "bf16-mixed")
    after = assembled.model.get_parameter("language.model.layers.0.self_attn.q_proj.base_layer.weight")
    assert torch.equal(held, after)
    assert after.dtype == torch.uint8
    with precise("bf16-mixed", CPU)():
        found = _logprobs(assembled)
    found.sum().backward()
    assert found.isfinite().all()
    wide, _ = _quantized("nano_pocket")
    torch.testing.assert_close(found, _logprobs(wide), rtol=0.05, atol=0.1)


def test_4_bits_cannot_learn() -> None:
    with pytest.raises(ValueError, match=r"language\..* is to learn, but model.language_bits holds it in 4 bits"):
        _quantized("nano_pocket", Tuning(language=PartTuning("full")))
    part = PartTuning("lora", parameters=r".*layers\.0\.mlp\.up_proj\.weight", lora=Lora(targets=".*q_proj"))
    with pytest.raises(ValueError, match=r"up_proj\.weight is to learn, but"):
        _quantized("nano_pocket", Tuning(language=part))


FILES = (torch.float32, torch.bfloat16, torch.float16)
PRECISIONS: tuple[Precision, ...] = ("32-true", "bf16-mixed", "16-mixed")
QUICK = ("nano_pocket", "nano_qwen25vl")
NORMS = (torch.nn.LayerNorm, torch.nn.GroupNorm, torch.nn.BatchNorm2d, torch.nn.BatchNorm3d)
LORA = Tuning(projector=PartTuning("full"), language=PartTuning("lora"))


def _step(name: str, precision: Precision) -> tuple[torch.Tensor, dict[str, torch.Tensor], set[torch.dtype]]:
    assembled = fresh(name)
    apply_tuning(assembled.model, Tuning(projector=PartTuning("full"), language=PartTuning("lora")), seed=0)
    set_types(assembled.model, precision)
    assembled.model.train()
    with precise(precision, CPU)():
        # For volume 0, two codes of CT-CHAT's tower are so near to a feature that bfloat16 takes the other one.
        found = logprobs(assembled, name, seed=2)
    (-found.sum()).backward()
    gradients = {n: p.grad for n, p in assembled.model.named_parameters() if p.grad is not None}
    return found.detach(), gradients, _frozen_types(assembled.model)


def _frozen_types(model: Model) -> set[torch.dtype]:
    """Returns the types of what does not learn, apart from norms."""
    norms = {id(p) for m in model.modules() if isinstance(m, NORMS) for p in m.parameters()}
    return {p.dtype for p in model.parameters() if not p.requires_grad and id(p) not in norms}


def _learning(model: Model) -> dict[str, torch.Tensor]:
    return {name: p for name, p in model.named_parameters() if p.requires_grad}


def _from_16_bits() -> list[Any]:
    """Returns every twin with both 16-bit types: in `make test` two have both, and every third of the others one."""
    return [
        pytest.param(
            name,
            file,
            marks=() if name in QUICK or (number % 3, file) == (0, FILES[1 + number % 2]) else pytest.mark.soak,
        )
        for number, name in enumerate(EVERY_TWIN)
        for file in FILES[1:]
    ]


@kinds_then_all
def test_bfloat16_is_finite_and_close_to_float32(name: str) -> None:
    wide, wanted, _ = _step(name, "32-true")
    narrow, found, stored = _step(name, "bf16-mixed")
    assert stored == {torch.bfloat16}
    assert narrow.dtype == torch.float32
    assert narrow.isfinite().all()
    # The bound allows for 8 bits of mantissa in a few layers whose weights have a standard deviation of 0.2.
    assert float((narrow - wide).abs().mean()) < 0.15
    assert found.keys() == wanted.keys()
    assert all(gradient.dtype == torch.float32 and gradient.isfinite().all() for gradient in found.values())
    one, two = (torch.cat([each[n].flatten() for n in sorted(each)]) for each in (found, wanted))
    assert float(torch.nn.functional.cosine_similarity(one, two, dim=0)) > 0.98


@pytest.mark.parametrize(("name", "file"), _from_16_bits())
def test_what_learns_is_float32_from_a_file_in_16_bits(name: str, file: torch.dtype) -> None:
    narrow, wide = in_type(name, file).model, in_type(name, torch.float32).model
    for model in (narrow, wide):
        apply_tuning(model, LORA, seed=0)
    mine, theirs = _learning(narrow), _learning(wide)
    assert {p.dtype for p in mine.values()} == {torch.float32}
    adapters = [each for each in mine if ".lora_" in each]
    # An adapter that was rounded to 16 bits on the way would differ in the third digit.
    assert adapters
    assert all(torch.equal(mine[each], theirs[each]) for each in adapters)
    stored_as: dict[Precision, torch.dtype] = {"32-true": torch.float32, "bf16-mixed": torch.bfloat16}
    for precision, stored in stored_as.items():
        set_types(narrow, precision)
        assert _frozen_types(narrow) == {stored}
        assert {p.dtype for p in _learning(narrow).values()} == {torch.float32}
        assert {b.dtype for b in narrow.buffers() if b.is_floating_point()} <= {torch.float32}


@kinds_then_all
def test_gradients_of_a_float16_release_can_be_unscaled(name: str) -> None:
    """GradScaler refuses gradients in float16, which is how 16-mixed broke on a release in float16."""
    assembled = in_type(name, torch.float16)
    apply_tuning(assembled.model, LORA, seed=0)
    set_types(assembled.model, "16-mixed")
    assembled.model.train()
    scaler = torch.amp.GradScaler("cpu", init_scale=16.0)
    learning = _learning(assembled.model)
    optimizer = torch.optim.AdamW(learning.values())
    with precise("16-mixed", CPU)():
        loss = -logprobs(assembled, name).sum()
    scaler.scale(loss).backward()
    scaler.unscale_(optimizer)
    before = {each: p.detach().clone() for each, p in learning.items()}
    scaler.step(optimizer)
    assert any(not torch.equal(before[each], p) for each, p in learning.items())


def _tunings(name: str) -> list[Tuning]:
    """Returns combinations of the parts' modes, which put float32 before, behind and between 16 bits."""
    vision: Mode = "lora" if TWINS[name].vision else "full"
    projector: Mode = "lora" if TWINS[name].projector else "full"
    modes: list[tuple[Mode, Mode, Mode]] = [
        ("frozen", "frozen", "lora"), ("full", "frozen", "frozen"), ("frozen", "full", "frozen"),
        ("frozen", "frozen", "full"), (vision, projector, "lora"), ("full", "full", "full"),
    ]  # fmt: skip
    norms = PartTuning("part", parameters=r".*(norm|embed_tokens).*")
    chosen = [Tuning(*(PartTuning(mode) for mode in each)) for each in modes]
    return [*chosen, Tuning(PartTuning("frozen"), PartTuning("frozen"), norms)]


@pytest.mark.soak
@pytest.mark.parametrize("name", EVERY_TWIN)
def test_every_combination_of_file_precision_and_mode_computes(name: str) -> None:
    for file, precision, tuning in product(FILES, PRECISIONS, _tunings(name)):
        _computes(name, file, precision, tuning)


@pytest.mark.slow
@pytest.mark.parametrize("name", QUICK)
def test_every_pair_of_file_precision_and_mode_computes(name: str) -> None:
    """A third of the combinations: each two of the three meet, because one number follows from the other two."""
    for (first, file), (second, tuning) in product(enumerate(FILES), enumerate(_tunings(name))):
        _computes(name, file, PRECISIONS[(first + second) % len(PRECISIONS)], tuning)


@pytest.mark.parametrize(("name", "vision"), [("nano_ct_chat", "frozen"), ("nano_internvl", "full")])
def test_a_frozen_norm_takes_an_input_in_float32(name: str, vision: Mode) -> None:
    """On a CPU, torch's norms refuse an input in float32 if their own weights are in 16 bits."""
    tuning = Tuning(PartTuning(vision), PartTuning("frozen"), PartTuning("lora"))
    _computes(name, torch.float32, "bf16-mixed", tuning)


def _computes(name: str, file: torch.dtype, precision: Precision, tuning: Tuning) -> None:
    where = f"{file} {precision} {tuning}"
    assembled = in_type(name, file)
    apply_tuning(assembled.model, tuning, seed=0)
    set_types(assembled.model, precision)
    assembled.model.train()
    with precise(precision, CPU)():
        found = logprobs(assembled, name)
    (-found.sum()).backward()
    grads = [p.grad for p in _learning(assembled.model).values() if p.grad is not None]
    assert found.dtype == torch.float32, where
    assert found.isfinite().all(), where
    assert {grad.dtype for grad in grads} == {torch.float32}, where


def test_a_weight_that_float16_cannot_hold_is_named() -> None:
    model = in_type("nano_pocket", torch.bfloat16).model.requires_grad_(False)
    with torch.no_grad():
        model.get_parameter("projector.mix.weight")[0] = 1e5
    with pytest.raises(ValueError, match=r"projector\.mix\.weight holds values that float16 cannot"):
        set_types(model, "16-mixed")


def test_adapters_on_4_bits_are_float32_and_the_codes_do_not_depend_on_the_file_s_type() -> None:
    pytest.importorskip("bitsandbytes")
    narrow = in_type("nano_pocket", torch.bfloat16).model
    wide = in_type("nano_pocket", torch.bfloat16).model.float()
    for model in (narrow, wide):
        quantize_language(model, precision="bf16-mixed", device=CPU)
        apply_tuning(model, LORA, seed=0)
        set_types(model, "bf16-mixed")
    mine, theirs = dict(narrow.named_parameters()), dict(wide.named_parameters())
    assert {p.dtype for p in _learning(narrow).values()} == {torch.float32}
    assert sum(p.dtype == torch.uint8 for p in mine.values()) == 14
    assert all(torch.equal(mine[each], theirs[each]) for each in mine)
