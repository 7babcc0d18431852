"""Tests replies that are drawn at a temperature: their distribution, and that seeds repeat them in any batch."""

from collections.abc import Sequence
from contextlib import nullcontext
from typing import Any

import pytest
import torch
from transformers import LlamaConfig, LlamaForCausalLM

from medtune.data.media.load import BLANKS
from medtune.data.types import MediaGroup, Prompt, Question, Request
from medtune.models.answering import LocalAnswerer
from medtune.models.replies.growing import drawn
from tests.models.twins import twin

SIZES: dict[str, Any] = {
    "vocab_size": 5,
    "hidden_size": 8,
    "intermediate_size": 8,
    "num_hidden_layers": 1,
    "num_attention_heads": 2,
}


def tiny() -> LlamaForCausalLM:
    torch.manual_seed(0)
    return LlamaForCausalLM(LlamaConfig(**SIZES, initializer_range=0.5))


def test_draws_have_the_frequencies_of_the_softmax() -> None:
    model, number = tiny(), 4000
    ids_BL = torch.tensor([[1, 2]]).expand(number, 2)
    with torch.no_grad():
        wanted_V = (model(ids_BL[:1]).logits[0, -1] / 0.7).softmax(-1)
        with drawn(model, temperature=0.7, seeds=range(number)):
            chosen_B = model(ids_BL).logits[:, -1].argmax(-1)
    share_V = torch.bincount(chosen_B, minlength=5) / number
    sigma_V = (wanted_V * (1 - wanted_V) / number).sqrt()
    assert wanted_V.max() < 0.9
    assert bool(((share_V - wanted_V).abs() < 4.5 * sigma_V).all()), (share_V, wanted_V)


def test_the_model_is_as_greedy_as_before_when_the_context_ends() -> None:
    model, ids_BL = tiny(), torch.tensor([[1, 2]])
    with torch.no_grad():
        before = model(ids_BL).logits
        with drawn(model, temperature=1.0, seeds=[7]):
            assert not torch.equal(model(ids_BL).logits, before)
        assert torch.equal(model(ids_BL).logits, before)


def test_what_cannot_be_drawn_is_refused() -> None:
    with pytest.raises(ValueError, match="must be above 0"), drawn(tiny(), temperature=0.0, seeds=[1]):
        pass
    model = tiny()
    with drawn(model, temperature=1.0, seeds=[1, 2]), pytest.raises(ValueError, match="2 seeds for a batch of 1 rows"):
        model(torch.tensor([[1, 2]]))
    capped = tiny()
    capped.config.final_logit_softcapping = 30.0
    with (
        pytest.raises(ValueError, match=r"changes its logits by final_logit_softcapping.*set eval\.temperature=0"),
        drawn(capped, temperature=1.0, seeds=[1]),
    ):
        pass
    with (
        pytest.raises(ValueError, match="no language model of transformers"),
        drawn(torch.nn.Linear(2, 2), temperature=1.0, seeds=[1]),
    ):
        pass


def asked(*, questions: int = 3, repeats: int = 3) -> list[Request]:
    found = [Question(f"q{n}", "m", f"Question {n}?", (), "no", "text", "p") for n in range(questions)]
    return [
        Request(question, Prompt(question.text * (number + 1), (), "no"), "generation", repeat=repeat)
        for number, question in enumerate(found)
        for repeat in range(repeats)
    ]


def replies(
    name: str,
    requests: Sequence[Request],
    *,
    temperature: float,
    seed: int = 0,
    batch_tokens: int = 4096,
    share: bool = True,
) -> dict[tuple[str, int], str | None]:
    answerer = LocalAnswerer(
        twin(name),
        device=torch.device("cpu"),
        batch_tokens=batch_tokens,
        max_new_tokens=5,
        precise=nullcontext,
        temperature=temperature,
        seed=seed,
        share_prefix=share,
    )
    group = MediaGroup("m", (BLANKS["image"],), tuple(request.question for request in requests))
    return {(each.key.question_id, each.key.repeat): each.text for each in answerer.answer(group, requests)}


@pytest.mark.parametrize("name", ["nano_pocket", "nano_qwen25vl"])
def test_replies_repeat_to_the_bit_and_each_repeat_is_another_draw(name: str) -> None:
    """In plain rows one model generates with transformers' loop, the other with medtune's."""
    said = replies(name, asked(), temperature=1.0)
    assert said == replies(name, asked(), temperature=1.0, share=False)
    assert said == replies(name, asked(), temperature=1.0)
    assert said == replies(name, list(reversed(asked())), temperature=1.0, batch_tokens=1)
    assert said != replies(name, asked(), temperature=1.0, seed=1)
    assert len(set(said.values())) > len(said) // 2


@pytest.mark.parametrize("name", ["nano_pocket", "nano_qwen25vl"])
def test_a_cold_model_says_what_the_greedy_one_says(name: str) -> None:
    greedy = replies(name, asked(), temperature=0.0)
    assert replies(name, asked(), temperature=1e-4) == greedy
    assert len(set(greedy.values())) <= 3
