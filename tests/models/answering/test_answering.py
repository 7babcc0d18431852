"""Compares answers with and without shared rows with transformers' own forward and with each other."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import PIL.Image
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from transformers import Gemma2Config, Gemma2ForCausalLM, LlamaConfig, LlamaForCausalLM

from medtune.data.media.load import BLANKS
from medtune.data.types import MediaGroup, MediaRef, Prediction, Prompt, Question, Request
from medtune.models.answering import LaidOutRequest, budgeted
from medtune.models.contract import Assembled
from medtune.models.replies import drawn
from medtune.models.sequence.builder import IGNORED
from medtune.models.sequence.builder import Sequence as Layout
from medtune.models.sequence.packing import Shown, pack
from medtune.models.sequence.tree import grow
from medtune.models.vlm import VisionLanguageModel
from tests.models.twins import cpu_answerer, fresh, twin

PICTURES = TemporaryDirectory()
OPTIONS = ("normal", "benign lesion", "malignant lesion", "no")


@pytest.fixture(scope="module")
def nano() -> Assembled:
    assembled = fresh("nano_pocket")
    assembled.model.eval()
    return assembled


def _model(nano: Assembled) -> VisionLanguageModel:
    assert isinstance(nano.model, VisionLanguageModel)
    return nano.model


def _picture(seed: int) -> Path:
    """Returns a picture of noise, as a file."""
    path = Path(PICTURES.name) / f"{seed}.png"
    if not path.exists():
        noise_HWC = np.random.default_rng(seed).integers(0, 255, (40, 50, 3), dtype=np.uint8)
        PIL.Image.fromarray(noise_HWC).save(path)
    return path


def _request(number: int, *, reading: str = "likelihood", condition: str = "image") -> Request:
    question = Question(f"q{number}", "m", f"Question {number}?", OPTIONS, "no", "choice", "p")
    prompt = Prompt(question.text * number, OPTIONS, "no")
    return Request(question, prompt, reading, condition)  # type: ignore[arg-type]


def _group(requests: Sequence[Request], seed: int = 1) -> MediaGroup:
    return MediaGroup("m", (MediaRef(_picture(seed)),), tuple(r.question for r in requests))


def _answers(
    nano: Assembled, requests: Sequence[Request], *, batch_tokens: int = 4096, seed: int = 1, share: bool = True
) -> list[Prediction]:
    answerer = cpu_answerer(nano, batch_tokens=batch_tokens, max_new_tokens=6, share_prefix=share)
    by_key = {p.key: p for p in answerer.answer(_group(requests, seed), requests)}
    return [by_key[r.question.id, r.condition, r.reading, r.repeat] for r in requests]  # type: ignore[index]


def test_what_sequences_share_is_computed_once_however_long_it_is(
    nano: Assembled, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A budget below the length of one prompt once gave each option and each reply a row of its own."""
    kind, computed = type(nano.model), []
    forward, reply = kind.forward, kind.reply

    def counted(self, rows, *rest):  # type: ignore[no-untyped-def]
        computed.append(rows.num_tokens)
        return (forward if len(rest) == 1 else reply)(self, rows, *rest)

    monkeypatch.setattr(kind, "forward", counted)
    monkeypatch.setattr(kind, "reply", counted)
    common = "A long description. " * 20
    asked = [
        replace(request, prompt=replace(request.prompt, text=common + request.question.text))
        for reading in ("likelihood", "generation")
        for request in (_request(n, reading=reading) for n in range(1, 7))
    ]
    lengths = [len(nano.template.layout(request.prompt.text, None).ids) for request in asked[:6]]
    told = _answers(nano, asked, batch_tokens=64)
    assert len(computed) == 1, "one tree of options and replies"
    assert computed[0] < min(lengths) + 6 * (20 + sum(len(option) + 1 for option in OPTIONS))
    plain = _answers(nano, asked, batch_tokens=64, share=False)
    assert [each.text for each in told] == [each.text for each in plain]
    for one, other in zip(told[:6], plain[:6], strict=True):
        assert one.option_logprobs == pytest.approx(other.option_logprobs, abs=1e-4)


def test_the_same_text_without_an_image_is_asked_once(nano: Assembled, monkeypatch: pytest.MonkeyPatch) -> None:
    forward, calls = type(nano.model).forward, []

    def counted(self, rows, tokens_MNE):  # type: ignore[no-untyped-def]
        calls.append(rows)
        return forward(self, rows, tokens_MNE)

    monkeypatch.setattr(type(nano.model), "forward", counted)
    first, second = _request(1, condition="text_only"), _request(1, condition="text_only")
    second = replace(second, question=replace(second.question, id="another"))
    one, other = _answers(nano, [first, second])
    assert one.option_logprobs == other.option_logprobs
    assert one.option_tokens == other.option_tokens == tuple(len(option) + 1 for option in OPTIONS)
    assert [int(rows.target_sequence_T.max()) for rows in calls] == [len(OPTIONS) - 1]


def test_rows_cut_through_their_image_are_refused(nano: Assembled) -> None:
    rows = pack([[Shown(grow([nano.template.layout("Q", "A")], [0]), 0)]], pad_id=nano.template.pad_id)
    cut = rows._replace(media_BL=rows.media_BL & (torch.arange(rows.ids_BL.shape[1]) != 8))
    with pytest.raises(ValueError, match="cut through its image"):
        _model(nano).embed(cut, torch.zeros(1, 8, 32))


@given(st.lists(st.integers(1, 300), max_size=40), st.integers(1, 1000))
def test_budget_holds_and_every_prompt_is_taken_once(lengths: list[int], budget: int) -> None:
    asked = [
        LaidOutRequest(
            _request(number),
            number % 2 or None,
            (Layout((0,) * length, (IGNORED,) * length, tuple(range(length)), ()),),
        )
        for number, length in enumerate(lengths)
    ]
    batches = list(budgeted(asked, new_tokens=5, batch_tokens=budget))
    taken = [each.request.question.id for batch in batches for each in batch]
    assert sorted(taken) == sorted(each.request.question.id for each in asked)
    for batch in batches:
        assert len(batch) == 1 or (max(len(each.layouts[0].ids) for each in batch) + 5) * len(batch) <= budget
        assert len({each.media is None for each in batch}) == 1


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
    capped = Gemma2ForCausalLM(Gemma2Config(**SIZES, num_key_value_heads=1, head_dim=4, final_logit_softcapping=30.0))
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
    answerer = cpu_answerer(
        twin(name), batch_tokens=batch_tokens, max_new_tokens=5, temperature=temperature, seed=seed, share_prefix=share
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
