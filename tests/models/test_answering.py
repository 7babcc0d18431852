"""The plain path against transformers' own forward, and its negative controls."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from medtune.data.types import Image, MediaGroup, MediaRef, Prediction, Prompt, Question, Request
from medtune.models.answering import PlainAnswerer, budgeted
from medtune.models.assemble import zoo_entry
from medtune.models.vlm import Assembled, VisionLanguageModel

OPTIONS = ("normal", "benign lesion", "malignant lesion", "no")


@pytest.fixture(scope="module")
def nano() -> Assembled:
    assembled = zoo_entry("nano_pocket").assemble(0)
    assembled.model.eval()
    return assembled


def _model(nano: Assembled) -> VisionLanguageModel:
    assert isinstance(nano.model, VisionLanguageModel)
    return nano.model


def _image(ref: MediaRef) -> Image:
    seed = int(ref.path.stem)
    return Image(np.random.default_rng(seed).integers(0, 255, (40, 50, 3), dtype=np.uint8))


def _request(number: int, *, reading: str = "likelihood", condition: str = "image") -> Request:
    question = Question(f"q{number}", "m", f"Question {number}?", OPTIONS, "no", "choice", "p")
    prompt = Prompt(question.text * number, OPTIONS, "no")
    return Request(question, prompt, reading, condition)  # type: ignore[arg-type]


def _group(requests: Sequence[Request], seed: int = 1) -> MediaGroup:
    return MediaGroup("m", MediaRef(Path(f"{seed}.png")), tuple(r.question for r in requests))


def _answers(
    nano: Assembled, requests: Sequence[Request], *, batch_tokens: int = 4096, seed: int = 1
) -> list[Prediction]:
    answerer = PlainAnswerer(
        nano, load_media=_image, device=torch.device("cpu"), batch_tokens=batch_tokens, max_new_tokens=6
    )
    by_key = {p.key: p for p in answerer.answer(_group(requests, seed), requests)}
    return [by_key[r.question.id, r.condition, r.reading, r.repeat] for r in requests]  # type: ignore[index]


def test_option_logprobs_equal_transformers_own_forward(nano: Assembled) -> None:
    request = _request(1)
    (prediction,) = _answers(nano, [request])
    pixels_CHW = nano.transform(_image(MediaRef(Path("1.png"))))
    with torch.no_grad():
        visual_NE = nano.model.encode(pixels_CHW.unsqueeze(0))[0]
        for option, logprob, count in zip(
            OPTIONS, prediction.option_logprobs or (), prediction.option_tokens or (), strict=True
        ):
            row = nano.family.layout(request.prompt.text, option)
            embeddings_LE = _model(nano).language.get_input_embeddings()(torch.tensor(row.ids)).clone()
            (span,) = row.media_spans
            embeddings_LE[span.start : span.stop] = visual_NE
            logits_LV = _model(nano).language(inputs_embeds=embeddings_LE.unsqueeze(0)).logits[0]
            targets = range(len(row.ids) - row.num_targets, len(row.ids))
            expected = sum(float(logits_LV[t - 1].log_softmax(-1)[row.ids[t]]) for t in targets)
            assert logprob == pytest.approx(expected, abs=1e-4)
            assert count == row.num_targets == len(option) + 1


def test_answers_do_not_depend_on_neighbours(nano: Assembled) -> None:
    requests = [_request(n) for n in (1, 2, 5)] + [_request(n, reading="generation") for n in (1, 2, 5)]
    alone, together = _answers(nano, requests, batch_tokens=1), _answers(nano, requests)
    for one, many in zip(alone, together, strict=True):
        assert one.text == many.text
        assert one.option_logprobs == (pytest.approx(many.option_logprobs, abs=1e-4) if many.option_logprobs else None)


def test_generation_equals_token_by_token_argmax(nano: Assembled) -> None:
    (prediction,) = _answers(nano, [_request(1, reading="generation")])
    row = nano.family.layout(_request(1).prompt.text, None)
    with torch.no_grad():
        visual_NE = nano.model.encode(nano.transform(_image(MediaRef(Path("1.png")))).unsqueeze(0))[0]
        embed = _model(nano).language.get_input_embeddings()
        embeddings_LE = embed(torch.tensor(row.ids)).clone()
        (span,) = row.media_spans
        embeddings_LE[span.start : span.stop] = visual_NE
        said: list[int] = []
        while len(said) < 6 and (not said or said[-1] != nano.family.stop_id):
            logits_V = _model(nano).language(inputs_embeds=embeddings_LE.unsqueeze(0)).logits[0, -1]
            said.append(int(logits_V.argmax()))
            embeddings_LE = torch.cat([embeddings_LE, embed(torch.tensor([said[-1]]))])
    assert prediction.text == nano.family.decode(said).strip()
    assert prediction.finish_reason == ("stop" if said[-1] == nano.family.stop_id else "length")


@pytest.mark.parametrize("broken", ["other image", "no image", "positions", "mask"])
def test_negative_controls_move_the_answer(nano: Assembled, monkeypatch: pytest.MonkeyPatch, broken: str) -> None:
    requests = [_request(1), _request(4)]
    right = [p.option_logprobs or () for p in _answers(nano, requests)]
    if broken == "other image":
        wrong = _answers(nano, requests, seed=2)
    elif broken == "no image":
        wrong = _answers(nano, [_request(1, condition="text_only"), _request(4, condition="text_only")])
    else:
        forward = type(nano.model).forward

        def tampered(self, rows, tokens_MNE):  # type: ignore[no-untyped-def]
            if broken == "positions":
                shifted_BL = rows.positions_BL + torch.arange(rows.positions_BL.shape[1]) % 2
                return forward(self, rows._replace(positions_BL=shifted_BL), tokens_MNE)
            swapped = rows._replace(attention_BL=rows.attention_BL & (torch.arange(rows.ids_BL.shape[1]) != 9))
            return forward(self, swapped, tokens_MNE)

        monkeypatch.setattr(type(nano.model), "forward", tampered)
        wrong = _answers(nano, requests)
    for before, after in zip(right, wrong, strict=True):
        assert max(abs(a - b) for a, b in zip(before, after.option_logprobs or (), strict=True)) > 1e-2


def test_rows_cut_through_their_image_are_refused(nano: Assembled) -> None:
    from medtune.models.sequence.layout import pad_rows

    rows = pad_rows([nano.family.layout("Q", "A")], [0], pad_id=nano.family.pad_id, side="right")
    cut = rows._replace(media_BL=rows.media_BL & (torch.arange(rows.ids_BL.shape[1]) != 8))
    with pytest.raises(ValueError, match="cut through its image"):
        _model(nano).embed(cut, torch.zeros(1, 16, 32))


@given(st.lists(st.integers(1, 300), max_size=40), st.integers(1, 1000))
def test_budget_holds_and_every_row_is_taken_once(lengths: list[int], budget: int) -> None:
    batches = list(budgeted(lengths, batch_tokens=budget))
    assert sorted(i for batch in batches for i in batch) == list(range(len(lengths)))
    for batch in batches:
        assert len(batch) == 1 or max(lengths[i] for i in batch) * len(batch) <= budget
