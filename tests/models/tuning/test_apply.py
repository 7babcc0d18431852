"""Tests which parameters learn, and that a run notices it when others do."""

import re
from dataclasses import replace
from typing import Any

import pytest
import torch

from medtune.models.contract import Assembled
from medtune.models.sequence.packing import PackedRows, Shown, pack
from medtune.models.sequence.tree import grow
from medtune.models.tuning.adapters import merged
from medtune.models.tuning.apply import GradientAudit, adapt, apply_tuning, recompute_activations
from medtune.models.tuning.optimizer import parameters_by_part
from medtune.models.tuning.plan import Lora, PartTuning, Tuning
from medtune.models.tuning.quantize import adapted_modules, adapted_weight
from medtune.models.vlm import VisionLanguageModel
from medtune.models.weights.checkpoint import trainable_names
from tests.models.twins import EVERY_TWIN, OF_TRANSFORMERS, TWINS, expanded, fresh, layout, row_each, seen


def _nano(tuning: Tuning) -> tuple[Assembled, VisionLanguageModel]:
    assembled = fresh("nano_pocket")
    apply_tuning(assembled.model, tuning, seed=0)
    assembled.model.train()
    return assembled, _model(assembled)


def _model(assembled: Assembled) -> VisionLanguageModel:
    assert isinstance(assembled.model, VisionLanguageModel)
    return assembled.model


def _rows(assembled: Assembled, *, with_media: bool = True) -> PackedRows:
    tree = grow([assembled.template.layout("Q?", "yes", shapes=[None] if with_media else [])], [0])
    return pack([[Shown(tree, 0 if with_media else None)]], pad_id=assembled.template.pad_id)


def _loss(assembled: Assembled, model: VisionLanguageModel) -> torch.Tensor:
    torch.manual_seed(3)
    loss: torch.Tensor = -model(_rows(assembled), model.encode(torch.randn(1, 3, 32, 32))).logprobs_T.sum()
    return loss


def test_targets_choose_among_them() -> None:
    _, model = _nano(Tuning(language=PartTuning("lora", lora=Lora(targets=r".*\.(q|v)_proj"))))
    adapted = {name.split(".")[-2] for name, _ in model.named_modules() if name.endswith(".lora_A")}
    assert adapted == {"q_proj", "v_proj"}


class Router(torch.nn.Module):
    """Chooses experts with a matrix of its own, as mixtures of experts do, and not with a linear layer."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = torch.nn.Parameter(torch.ones(4, 8))


def _notes_on(targets: str) -> tuple[str, ...]:
    model = _model(fresh("nano_pocket"))
    model.language.model.layers[0].mlp.add_module("router", Router())
    return adapt(model, [Tuning(language=PartTuning("lora", lora=Lora(targets=targets)))], seed=0)


@pytest.mark.parametrize(
    ("targets", "said", "named"),
    [
        ("lm_head", "lm_head", "lm_head"),
        (r".*\.(q|v)_proj|lm_head", "lm_head", "lm_head"),
        (r".*\.(q_proj|embed_tokens)", "embed_tokens", "model.embed_tokens"),
        (r"(?:.*layers.*\.(q|v)_proj)|.*(embed_tokens)", ".*(embed_tokens)", "model.embed_tokens"),
        (r"(q|v|lm|.*v)_(proj|head)", "lm", "lm_head"),
        (r".*mlp\.(gate_proj|router)", "router", "model.layers.0.mlp.router"),
    ],
)
def test_a_target_that_cannot_be_adapted_is_refused_by_its_name(targets: str, said: str, named: str) -> None:
    with pytest.raises(ValueError, match=re.escape(f"targets: {said!r} names {named}, which exists and cannot be")):
        _notes_on(targets)


@pytest.mark.parametrize(
    ("targets", "notes"),
    [
        (r".*\.(q|v)_proj", []),
        (r"(?!lm_head|.*embed_tokens|.*router).*_proj", []),
        (r".*(?<!q|k)_proj", []),
        (r"(?!lm_head|model\.embed_tokens)model\..*\.(?P<which>q|v)_proj", []),
        (r".*\.(q|v|qkv)_proj", ["'qkv' fits no layer of the part and adapts nothing"]),
        (r".*\.q_proj|Wqkv", ["'Wqkv' fits no layer of the part and adapts nothing"]),
        (
            r".*layers.*",
            ["'.*layers.*' also fits model.layers.0.mlp.router, which cannot be adapted and stays as it is"],
        ),
    ],
)
def test_what_targets_do_not_adapt_is_listed(targets: str, notes: list[str]) -> None:
    assert _notes_on(targets) == tuple(f"model.tuning.language.lora.targets: {note}" for note in notes)


@pytest.mark.parametrize(
    ("lora", "dtype", "count"),
    [(Lora(), torch.float32, 14), (Lora(dora=True), torch.float32, 0), (Lora(), torch.bfloat16, 0)],
)
def test_adapters_are_merged_while_a_model_answers(lora: Lora, dtype: torch.dtype, count: int) -> None:
    assembled, model = _nano(Tuning(language=PartTuning("lora", lora=lora)))
    model.eval()
    for name, parameter in model.named_parameters():
        if "lora_" in name:
            parameter.data.normal_(std=0.1, generator=torch.Generator().manual_seed(1))
        elif "base_layer" in name:
            parameter.data = parameter.data.to(dtype)

    def said() -> torch.Tensor:
        with torch.no_grad(), torch.autocast("cpu", dtype, enabled=dtype != torch.float32):
            return _loss(assembled, model)

    before, alone = {name: each.clone() for name, each in model.state_dict().items()}, said()
    with merged(model):
        assert sum(getattr(module, "merged", False) for module in model.modules()) == count
        torch.testing.assert_close(said(), alone, rtol=0, atol=1e-5)
    assert torch.equal(said(), alone)
    assert all(torch.equal(each, before[name]) for name, each in model.state_dict().items())


def test_of_very_many_weights_those_are_merged_that_fit_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    _, model = _nano(Tuning())
    one, *others = [adapted_weight(layer).nbytes for _, layer in adapted_modules(model)]
    monkeypatch.setattr("medtune.models.tuning.adapters.MERGED_BYTES", one + others[0])
    with merged(model):
        assert sum(getattr(module, "merged", False) for module in model.modules()) == 2


def test_table_counts_what_learns() -> None:
    assembled = fresh("nano_pocket")
    sizes = {name: sum(p.numel() for p in assembled.model.get_submodule(name).parameters()) for name in
             ("vision", "projector", "language")}  # fmt: skip
    vision, projector, language = apply_tuning(assembled.model, Tuning(), seed=0)
    assert (vision.mode, vision.parameters, vision.trainable, vision.lr) == ("frozen", sizes["vision"], 0, None)
    assert (projector.trainable, projector.parameters) == (sizes["projector"],) * 2
    rank, hidden, inner = 16, 32, 64
    per_layer = rank * (2 * 2 * hidden + 2 * (hidden + hidden // 2) + 3 * (hidden + inner))
    assert language.trainable == 2 * per_layer
    assert language.adapted_modules == 14


def test_learning_rates_and_weight_decay_go_to_their_groups() -> None:
    tuning = Tuning(projector=PartTuning("full", lr=0.5), language=PartTuning("lora", lr=0.25))
    _, model = _nano(tuning)
    groups = {g["name"]: g for g in parameters_by_part(model, tuning, weight_decay=0.1)}
    assert {name: (g["lr"], g["weight_decay"]) for name, g in groups.items()} == {
        "projector": (0.5, 0.1), "projector_vectors": (0.5, 0.0), "language": (0.25, 0.1),
    }  # fmt: skip
    chosen = [p for g in groups.values() for p in g["params"]]
    assert {id(p) for p in chosen} == {id(p) for p in model.parameters() if p.requires_grad}


@pytest.mark.parametrize("vision", ["frozen", "lora", "full"])
def test_batch_norms_keep_their_statistics(vision: str) -> None:
    how = PartTuning("full") if vision == "full" else PartTuning("lora") if vision == "lora" else PartTuning()
    assembled, model = _nano(Tuning(vision=how))
    before = {n: b.clone() for n, b in model.named_buffers() if "running" in n}
    _loss(assembled, model).backward()
    assert before
    assert all(torch.equal(b, before[n]) for n, b in model.named_buffers() if n in before)


def test_audit_passes_when_all_is_well() -> None:
    assembled, model = _nano(Tuning())
    audit = GradientAudit(model, Tuning())
    _loss(assembled, model).backward()
    audit.judge(audit.reached())


def test_audit_sees_a_group_that_does_not_learn() -> None:
    assembled, model = _nano(Tuning())
    audit = GradientAudit(model, Tuning())
    (-model(_rows(assembled, with_media=False), None).logprobs_T.sum()).backward()
    with pytest.raises(ValueError, match="'projector' \\(full\\) has no gradient"):
        audit.judge(audit.reached())


def test_audit_sees_a_frozen_group_that_learns() -> None:
    assembled, model = _nano(Tuning())
    model.vision.requires_grad_(True)
    audit = GradientAudit(model, Tuning())
    _loss(assembled, model).backward()
    with pytest.raises(ValueError, match="frozen part 'vision'"):
        audit.judge(audit.reached())


def test_same_seed_same_adapters() -> None:
    tuning = replace(Tuning(), language=PartTuning("lora"))
    one, two = _nano(tuning)[1].state_dict(), _nano(tuning)[1].state_dict()
    assert all(torch.equal(one[name], two[name]) for name in one)


@pytest.mark.parametrize("name", OF_TRANSFORMERS)
def test_targets_count_from_the_part_on(name: str) -> None:
    targets = Lora(targets=r"layers\.\d+\.(self_attn|cross_attn)\.(q|v)_proj")
    model = fresh(name).model
    apply_tuning(model, Tuning(PartTuning(), PartTuning(), PartTuning("lora", lora=targets)), seed=0)
    adapted = {each.removesuffix(".lora_A") for each, _ in model.named_modules() if each.endswith(".lora_A")}
    wanted = {each for each in expanded(TWINS[name].language) if each.endswith(("attn.q_proj", "attn.v_proj"))}
    assert adapted == wanted != set()


def test_rows_of_new_tokens_learn_beside_lora() -> None:
    def whole(language: PartTuning, **parts: PartTuning) -> set[str]:
        model = fresh("nano_m3d_llama2").model
        apply_tuning(model, Tuning(language=language, **parts), seed=0)
        return {n for n in trainable_names(model) if n.startswith("language.") and ".lora_" not in n}

    pattern, full = r"model\.embed_tokens\.weight|lm_head\.weight", PartTuning("full")
    rows = {"language.model.embed_tokens.weight", "language.lm_head.weight"}
    assert whole(PartTuning("lora", parameters=pattern), vision=full) == rows
    assert whole(PartTuning("part", parameters=pattern)) == rows
    with pytest.raises(ValueError, match=r"model\.tuning\.language\.parameters: 'wte' fits no parameter of the part"):
        whole(PartTuning("part", parameters="wte"))


LEARNING = {
    "lora": Tuning(language=PartTuning("lora", lora=Lora(dropout=0.2))),
    "full": Tuning(language=PartTuning("full")),
    "alignment": Tuning(language=PartTuning("frozen")),
}
QUICK = ("nano_pocket", "nano_qwen25vl")


def _cases() -> list[Any]:
    """Returns every twin with every way to learn: two have all in `make test`, and the others one of the three each."""
    ways = list(LEARNING)
    return [
        pytest.param(name, how, marks=() if name in QUICK or ways[number % 3] == how else pytest.mark.soak)
        for number, name in enumerate(EVERY_TWIN)
        for how in ways
    ]


def _step(name: str, assembled: Assembled) -> tuple[dict[str, torch.Tensor], int]:
    """Returns the gradients of one backward pass and the number of bytes that were kept for it."""
    kept: dict[int, int] = {}

    def pack(tensor: torch.Tensor) -> torch.Tensor:
        kept[tensor.data_ptr()] = tensor.numel() * tensor.element_size()
        return tensor

    laid = row_each(assembled, [layout(assembled, name, question="Plane? " * 20)], [0])
    encoded = seen(assembled, name, 0)
    torch.manual_seed(2)
    with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
        loss = -assembled.model(laid, encoded).logprobs_T.sum()
    loss.backward()
    model = assembled.model
    return {name: p.grad for name, p in model.named_parameters() if p.grad is not None}, sum(kept.values())


@pytest.mark.parametrize(("name", "how"), _cases())
def test_gradients_are_the_same_and_less_is_kept(name: str, how: str) -> None:
    plain, sparing = fresh(name), fresh(name)
    for assembled in (plain, sparing):
        apply_tuning(assembled.model, LEARNING[how], seed=0)
    recompute_activations(sparing.model)
    plain.model.train()
    sparing.model.train()
    (wanted, most), (found, least) = _step(name, plain), _step(name, sparing)
    assert found.keys() == wanted.keys()
    assert found
    for each, gradient in wanted.items():
        torch.testing.assert_close(found[each], gradient, rtol=1e-5, atol=1e-6)
    assert least < 0.8 * most


def test_evaluation_recomputes_nothing() -> None:
    assembled = fresh("nano_pocket")
    apply_tuning(assembled.model, LEARNING["lora"], seed=0)
    recompute_activations(assembled.model)
    assembled.model.train()
    assembled.model.eval()
    assert not any(module.training for module in assembled.model.modules())
