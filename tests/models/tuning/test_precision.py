"""Tests the number types of every twin, and that bf16-mixed gives finite outputs close to those in float32."""

from itertools import product
from typing import Any

import pytest
import torch

from medtune.models.assemble import zoo_entry
from medtune.models.contract import Model
from medtune.models.tuning.apply import apply_tuning
from medtune.models.tuning.plan import Mode, PartTuning, Precision, Tuning
from medtune.models.tuning.quantize import precise, quantize_language, set_types
from tests.models.twins import EVERY_TWIN, TWINS, in_type, logprobs

CPU = torch.device("cpu")
FILES = (torch.float32, torch.bfloat16, torch.float16)
PRECISIONS: tuple[Precision, ...] = ("32-true", "bf16-mixed", "16-mixed")
QUICK = ("nano_pocket", "nano_qwen25vl")
NORMS = (torch.nn.LayerNorm, torch.nn.GroupNorm, torch.nn.BatchNorm2d, torch.nn.BatchNorm3d)
LORA = Tuning(projector=PartTuning("full"), language=PartTuning("lora"))


def _step(name: str, precision: Precision) -> tuple[torch.Tensor, dict[str, torch.Tensor], set[torch.dtype]]:
    assembled = zoo_entry(name).assemble(0)
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
    """Returns every twin with both 16-bit types: two have both in `make test`, and the others one each, in turn."""
    return [
        pytest.param(name, file, marks=() if name in QUICK or file is FILES[1 + number % 2] else pytest.mark.soak)
        for number, name in enumerate(EVERY_TWIN)
        for file in FILES[1:]
    ]


@pytest.mark.parametrize("name", EVERY_TWIN)
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


@pytest.mark.parametrize("name", EVERY_TWIN)
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
