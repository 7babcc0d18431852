"""Tests that targets are read a few at a time with the log-probabilities and gradients of the plain way."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
import torch
from peft import LoraConfig, inject_adapter_in_model
from torch import Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves
from transformers import (
    AyaVisionConfig,
    AyaVisionForConditionalGeneration,
    CohereConfig,
    CohereForCausalLM,
    Gemma2Config,
    Gemma2ForCausalLM,
    GraniteConfig,
    GraniteForCausalLM,
    LlamaConfig,
    LlamaForCausalLM,
    PreTrainedModel,
)

from medtune.models import target_logprobs
from medtune.models.assemble import zoo_entry
from medtune.models.target_logprobs import OfStates, Targets, of_logits, whole_logits_because
from medtune.trainer.contracts.of_losses import tried_pass
from medtune.trainer.losses import Loss, find_loss
from medtune.trainer.recipe.loss import LossSettings
from tests.models.twins import EVERY_TWIN, layout, row_each, seen, twin

TARGETS, WIDTH, VOCABULARY = 40, 16, 300
SIZES: dict[str, Any] = {
    "vocab_size": VOCABULARY, "hidden_size": WIDTH, "intermediate_size": 32, "num_hidden_layers": 1,
    "num_attention_heads": 2, "num_key_value_heads": 1, "head_dim": 8, "initializer_range": 0.5, "pad_token_id": 0,
}  # fmt: skip
IDS = torch.randint(VOCABULARY, (TARGETS,), generator=torch.Generator().manual_seed(0))
WEIGHTS = torch.randn(TARGETS, generator=torch.Generator().manual_seed(1))
"""How much each target counts in the loss; some count the other way."""


@pytest.fixture(autouse=True)
def few_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """Reads seven targets at a time, the last chunk with fewer."""
    monkeypatch.setattr(target_logprobs, "LOGITS_AT_ONCE", 7 * VOCABULARY + 5)


def _language(*, tied: bool = False) -> PreTrainedModel:
    torch.manual_seed(0)
    return LlamaForCausalLM(LlamaConfig(**SIZES, tie_word_embeddings=tied))


def _states(language: PreTrainedModel, *, confident: bool) -> Tensor:
    states_TE = torch.randn(TARGETS, WIDTH, generator=torch.Generator().manual_seed(2))
    if not confident:
        return states_TE
    weight: Any = language.get_output_embeddings().weight
    sharp_TE: Tensor = 0.1 * states_TE + 8 * weight.detach().float()[IDS] / weight.detach().float()[IDS].norm(
        dim=1, keepdim=True
    )
    return sharp_TE


class _Learnt:
    """What a way gives: log-probabilities, and the gradients of states and output layer."""

    def __init__(self, language: PreTrainedModel, states_TE: Tensor, *, plain: bool, ids: Tensor = IDS) -> None:
        layer: Any = language.get_output_embeddings()
        layer.weight.grad = None
        states_TE = states_TE.detach().clone().requires_grad_()
        read = of_logits(layer(states_TE), ids, ids).read() if plain else OfStates(language, states_TE, ids, ids).read()
        self.logprobs, self.likeliest = read.logprobs_T.detach(), read.is_likeliest_T
        # The backward pass runs outside of autocast in training.
        with torch.autocast("cpu", enabled=False):
            (read.logprobs_T * WEIGHTS).sum().backward()
        assert states_TE.grad is not None
        self.of_states, self.of_weight = states_TE.grad, layer.weight.grad

    def apart(self, other: _Learnt) -> float:
        """Returns the largest difference relative to the largest value, of all that a way gives."""
        mine = [self.logprobs, self.of_states, *([] if self.of_weight is None else [self.of_weight])]
        others = [other.logprobs, other.of_states, *([] if other.of_weight is None else [other.of_weight])]
        return max(
            float((a.double() - b.double()).abs().max() / b.double().abs().max())
            for a, b in zip(mine, others, strict=True)
        )


KINDS = {
    "float32": (torch.float32, None, 3e-6),
    "bfloat16 weights": (torch.bfloat16, None, 3e-2),
    "float16 weights": (torch.float16, None, 3e-3),
    "bfloat16 autocast": (torch.float32, torch.bfloat16, 3e-2),
}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("learns", [True, False])
@pytest.mark.parametrize("confident", [True, False])
def test_both_ways_give_the_same(kind: str, learns: bool, confident: bool) -> None:
    dtype, autocast, within = KINDS[kind]
    language: Any = _language()
    language.to(dtype)
    language.requires_grad_(learns)
    states_TE = _states(language, confident=confident).to(dtype)
    with torch.autocast("cpu", autocast or torch.bfloat16, enabled=autocast is not None):
        mine, plain = (_Learnt(language, states_TE, plain=each) for each in (False, True))
        shifted = _Learnt(language, states_TE, plain=True, ids=IDS.roll(1))
    assert mine.apart(plain) < within
    assert mine.of_states.dtype == dtype
    assert torch.equal(mine.likeliest, plain.likeliest)
    assert mine.apart(shifted) > 10 * within


def test_a_tied_embedding_gets_the_gradients_of_both_its_ends() -> None:
    language = _language(tied=True)
    embedding: Any = language.get_input_embeddings()
    found = []
    for plain in (False, True):
        embedding.weight.grad = None
        states_TE = embedding(IDS)
        layer: Any = language.get_output_embeddings()
        read = of_logits(layer(states_TE), IDS, IDS).read() if plain else OfStates(language, states_TE, IDS, IDS).read()
        (read.logprobs_T * WEIGHTS).sum().backward()
        found.append(embedding.weight.grad.clone())
    torch.testing.assert_close(found[0], found[1], rtol=1e-4, atol=1e-5)


def test_no_targets_at_all_have_no_log_probabilities() -> None:
    language = _language()
    nothing = torch.zeros(0, dtype=torch.int64)
    read = OfStates(language, torch.zeros(0, WIDTH, requires_grad=True), nothing, nothing).read()
    assert read.logprobs_T.shape == (0,)
    read.logprobs_T.sum().backward()


class _Logits(TorchDispatchMode):
    """Notes the most rows of logits that one tensor has."""

    def __init__(self, layer: nn.Linear) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.most = 0
        self._vocabulary = layer.weight.shape[0]
        self._weight = layer.weight.untyped_storage().data_ptr()

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        made = func(*args, **(kwargs or {}))
        for each in tree_leaves(made):
            # A transposed view of the weight is as wide as logits are.
            is_own = isinstance(each, Tensor) and each.untyped_storage().data_ptr() != self._weight
            if is_own and each.dim() >= 2 and each.shape[-1] == self._vocabulary:
                self.most = max(self.most, each.shape[:-1].numel())
        return made


def smoothing(share: float) -> Loss:
    return find_loss(LossSettings("label_smoothing", {"smoothing": share}))


@pytest.mark.parametrize("learns", [True, False])
@pytest.mark.parametrize("share", [0.0, 0.1, 0.5])
def test_label_smoothing_is_that_of_torch(learns: bool, share: float) -> None:
    language = _language()
    language.requires_grad_(learns)
    layer: Any = language.get_output_embeddings()
    found = []
    for is_ours in (True, False):
        layer.weight.grad = None
        states_TE = _states(language, confident=False).requires_grad_()
        if is_ours:
            with _Logits(layer) as logits:
                numbers_T = smoothing(share)(Targets([OfStates(language, states_TE, IDS, IDS)]), tried_pass())
                assert isinstance(numbers_T, Tensor)
                numbers_T.sum().backward()
            assert logits.most == 7
        else:
            numbers_T = nn.functional.cross_entropy(layer(states_TE), IDS, label_smoothing=share, reduction="none")
            numbers_T.sum().backward()
        assert states_TE.grad is not None
        found.append([numbers_T.detach(), states_TE.grad, *([layer.weight.grad] if learns else [])])
    for mine, theirs in zip(*found, strict=True):
        torch.testing.assert_close(mine, theirs, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("autocast", [True, False])
def test_what_is_read_in_chunks_is_what_whole_logits_give(autocast: bool) -> None:
    language: Any = _language()
    layer = language.get_output_embeddings()

    def entropy(logprobs_CV: Tensor, id_C: Tensor) -> Tensor:
        return -(logprobs_CV.exp() * logprobs_CV).sum(dim=1)

    found = []
    for whole in (True, False):
        layer.weight.grad = None
        states_TE = _states(language, confident=False).requires_grad_()
        with torch.autocast("cpu", torch.bfloat16, enabled=autocast):
            part = of_logits(layer(states_TE), IDS, IDS) if whole else OfStates(language, states_TE, IDS, IDS)
            entropy_T = Targets([part]).words(entropy)
        (entropy_T * torch.arange(TARGETS)).sum().backward()
        assert states_TE.grad is not None
        found.append((entropy_T.detach(), states_TE.grad, layer.weight.grad))
    for one, other in zip(*found, strict=True):
        assert float((one - other).abs().max() / one.abs().max()) < (3e-2 if autocast else 3e-6)


def test_a_function_of_no_model_has_no_gradient_and_one_of_another_shape_is_refused() -> None:
    language = _language()
    states_TE = _states(language, confident=False).requires_grad_()
    read = Targets([OfStates(language, states_TE, IDS, IDS)])
    read.words(lambda logprobs_CV, id_C: torch.ones(len(id_C))).sum().backward()
    assert states_TE.grad is not None
    assert not states_TE.grad.any()
    with pytest.raises(ValueError, match=r"shape \(7, 300\) .* has to return one number for each, \(7,\)"):
        read.words(lambda logprobs_CV, id_C: logprobs_CV)


@contextmanager
def _one_at_a_time(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    with monkeypatch.context() as patch:
        patch.setattr(target_logprobs, "LOGITS_AT_ONCE", 1)
        yield


@pytest.mark.parametrize("name", EVERY_TWIN)
def test_each_model_goes_the_way_that_it_says(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    assembled = twin(name)
    model = assembled.model
    layer: Any = model.of_transformers.get_output_embeddings()
    rows = row_each(assembled, [layout(assembled, name)], [0])
    encoded = seen(assembled, name, 0)
    with _one_at_a_time(monkeypatch), _Logits(layer) as logits:
        model(rows, encoded).logprobs_T.sum().backward()
    assert len(rows.target_id_T) > 1
    if model.whole_logits_because is None:
        assert logits.most == 1
    else:
        assert "own forward" in model.whole_logits_because
        assert logits.most >= len(rows.target_id_T)


def test_only_the_generic_entry_holds_whole_logits() -> None:
    assert not [name for name in EVERY_TWIN if twin(name).model.whole_logits_because is not None]


def test_the_full_size_models_read_a_few_targets_at_a_time() -> None:
    for name in ("qwen25vl_7b", "llama32_11b_vision", "medgemma_4b", "internvl3_8b", "qwen3vl_8b", "m3d_llama2"):
        assert zoo_entry(name).skeleton().whole_logits_because is None, name


def _own_forward(language: PreTrainedModel, states_TE: Tensor) -> Tensor:
    """Returns the logits that the model's own forward makes of these states."""
    decoder: Any = language.get_decoder()
    hook = decoder.register_forward_hook(
        lambda module, inputs, output: output.__class__(last_hidden_state=states_TE.unsqueeze(0))
    )
    try:
        logits_BTV: Tensor = language(input_ids=IDS.unsqueeze(0)).logits
        return logits_BTV[0]
    finally:
        hook.remove()


@pytest.mark.parametrize(
    ("kind", "config", "change"),
    [
        (Gemma2ForCausalLM, Gemma2Config, {"final_logit_softcapping": 3.0}),
        (CohereForCausalLM, CohereConfig, {"logit_scale": 0.0625}),
        (GraniteForCausalLM, GraniteConfig, {"logits_scaling": 8.0}),
    ],
)
def test_logits_that_a_model_changes_are_read_as_its_own_forward_gives_them(
    kind: Any, config: Any, change: dict[str, float]
) -> None:
    torch.manual_seed(0)
    language = kind(config(**SIZES, **change))
    states_TE = _states(language, confident=False)
    why = whole_logits_because(language)
    assert why is not None
    assert next(iter(change)) in why
    expected = of_logits(_own_forward(language, states_TE), IDS, IDS).read()
    read = OfStates(language, states_TE, IDS, IDS).read()
    torch.testing.assert_close(read.logprobs_T, expected.logprobs_T)
    unchanged = of_logits(language.get_output_embeddings()(states_TE), IDS, IDS).read()
    assert (read.logprobs_T - unchanged.logprobs_T).abs().max() > 0.1


def test_the_class_decides_whether_a_setting_changes_logits() -> None:
    text = {"model_type": "cohere2", **SIZES, "logit_scale": 0.0625, "layer_types": ["full_attention"]}
    config = AyaVisionConfig(text_config=text, vision_config={"num_hidden_layers": 1, "image_size": 28})
    with torch.device("meta"):
        language = AyaVisionForConditionalGeneration(config)
    assert whole_logits_because(language) is None


def _adapted(language: PreTrainedModel) -> None:
    inject_adapter_in_model(LoraConfig(r=2, target_modules="lm_head", init_lora_weights=False), language)


def _biased(language: PreTrainedModel) -> None:
    layer = nn.Linear(WIDTH, VOCABULARY)
    language.set_output_embeddings(layer)


def _hooked(language: PreTrainedModel) -> None:
    layer: Any = language.get_output_embeddings()
    layer.register_forward_hook(lambda module, inputs, logits: 2 * logits)


@pytest.mark.parametrize(
    ("change", "said"), [(_adapted, "more than a product"), (_biased, "a bias"), (_hooked, "a hook")]
)
def test_an_output_layer_of_another_kind_is_read_the_plain_way(change: Any, said: str) -> None:
    language = _language()
    change(language)
    why = whole_logits_because(language)
    assert why is not None
    assert said in why
    states_TE = _states(language, confident=False)
    layer: Any = language.get_output_embeddings()
    expected = of_logits(layer(states_TE), IDS, IDS).read()
    assert torch.equal(OfStates(language, states_TE, IDS, IDS).read().logprobs_T, expected.logprobs_T)
