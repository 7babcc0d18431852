"""Compares twins of three modules with a plain run of their language model; batches and kept features change nothing.

What the doctor compares too, on files, stands in tests/models/proof/test_proof.py.
"""

from typing import Any

import pytest
import torch
from torch import Tensor

from medtune.models.contract import Assembled
from medtune.models.features.kept_features import KeptFeatures
from medtune.models.sequence.builder import Sequence
from medtune.models.sequence.packing import PackedRows, pad_left
from medtune.models.vlm import VisionLanguageModel
from tests.models.twins import OF_THREE_MODULES, fresh, layout, row_each, seen, shown, twin

QUESTION, ANSWER = "Which plane?", "abdomen"
each_twin = pytest.mark.parametrize("name", OF_THREE_MODULES)


def _own(assembled: Assembled) -> VisionLanguageModel:
    assert isinstance(assembled.model, VisionLanguageModel)
    return assembled.model


def _embedded(assembled: Assembled, laid: Sequence, visual_NE: Tensor | None) -> Tensor:
    """Returns the sequence's embeddings, with the visual tokens put in by hand."""
    embeddings_LE: Tensor = _own(assembled).language.get_input_embeddings()(torch.tensor(laid.ids)).clone()
    for span in laid.media_spans:
        assert visual_NE is not None
        embeddings_LE[span.start : span.stop] = visual_NE
    return embeddings_LE


@torch.no_grad()
def _told(assembled: Assembled, laid: Sequence, visual_NE: Tensor | None) -> list[float]:
    """Returns the log-probability of each learnt token by transformers' own forward of the language model."""
    embeddings_LE = _embedded(assembled, laid, visual_NE)
    logits_LV = _own(assembled).language(inputs_embeds=embeddings_LE.unsqueeze(0)).logits[0]
    logprobs_LV = logits_LV.float().log_softmax(-1)
    return [float(logprobs_LV[place - 1, label]) for place, label in enumerate(laid.labels) if label >= 0]


@torch.no_grad()
def _ours(name: str, *, change: Any = None) -> list[float]:
    assembled = twin(name)
    laid: PackedRows = row_each(assembled, [layout(assembled, name, ANSWER, QUESTION)], [0])
    laid = change(laid) if change else laid
    found: list[float] = assembled.model(laid, seen(assembled, name, 0)).logprobs_T.tolist()
    return found


@each_twin
def test_logits_equal_transformers_own_forward(name: str) -> None:
    assembled = twin(name)
    with torch.no_grad():
        visual_NE = seen(assembled, name, 0)[0]
    assert _ours(name) == pytest.approx(
        _told(assembled, layout(assembled, name, ANSWER, QUESTION), visual_NE), abs=2e-4
    )


@each_twin
def test_batch_of_one_equals_batch_of_six(name: str) -> None:
    """The rows differ in length, show either of two media items or none, and are padded on either side."""
    assembled, media = twin(name), [0, 1, None, 0, 1, None]
    stop, pad = assembled.template.stop_ids, assembled.template.pad_id

    def laid(n: int, answer: str | None) -> Sequence:
        question = "Plane?" + "x" * (3 * n)
        if media[n] is None:
            return assembled.template.layout(question, answer, shapes=())
        return layout(assembled, name, answer, question)

    with torch.no_grad():
        both = seen(assembled, name, 1, 2)
        answered = [laid(n, ANSWER[: n + 1]) for n in range(6)]
        together = assembled.model(row_each(assembled, answered, media), both)
        asked = [laid(n, None) for n in range(6)]
        many = assembled.model.generate(pad_left(asked, media, pad_id=pad), both, max_new_tokens=4, stop_ids=stop)
        for n, item in enumerate(media):
            shown = None if item is None else both[item : item + 1]
            index: list[int | None] = [None if item is None else 0]
            one = assembled.model(row_each(assembled, [answered[n]], index), shown).logprobs_T.tolist()
            assert together.logprobs_T[together.sequence_T == n].tolist() == pytest.approx(one, abs=2e-4), n
            left = pad_left([asked[n]], index, pad_id=pad)
            assert assembled.model.generate(left, shown, max_new_tokens=4, stop_ids=stop) == [many[n]], n


@each_twin
def test_a_row_cut_through_its_media_is_refused(name: str) -> None:
    def cut(laid: PackedRows) -> PackedRows:
        return laid._replace(media_BL=laid.media_BL & (laid.media_BL.cumsum(1) > 1))

    with pytest.raises(ValueError, match="cut through its image"):
        _ours(name, change=cut)


@each_twin
def test_right_padded_generation_is_refused(name: str) -> None:
    assembled = twin(name)
    short, long = (assembled.template.layout(q, None, shapes=()) for q in ("a", "bcd"))
    left = pad_left([short, long], [None, None], pad_id=assembled.template.pad_id)
    right = left._replace(attention_BL=left.attention_BL.flip(1))
    with pytest.raises(ValueError, match="left-padded"):
        assembled.model.generate(right, None, max_new_tokens=2, stop_ids=(0,))


class _Counted:
    """Counts the items that a tower reads."""

    def __init__(self, model: VisionLanguageModel) -> None:
        self.items = 0
        model.vision.register_forward_pre_hook(self._count)

    def _count(self, _: torch.nn.Module, given: tuple[Tensor, ...]) -> None:
        self.items += len(given[0])


@each_twin
@torch.no_grad()
def test_in_evaluation_a_tower_reads_an_item_once_and_the_features_are_its_own(name: str) -> None:
    model = _own(twin(name))
    model.kept.clear()
    media = shown(twin(name), name, 1, 2, 1, 3)
    features_MND = model.vision(model._at_the_tower(media))
    plain_MNE = model.projector(features_MND)
    counted = _Counted(model)
    assert torch.allclose(model.encode(media), plain_MNE, atol=1e-5)
    read = counted.items
    for order in ([3, 0], [1, 1, 2]):
        assert torch.allclose(model.encode(media[order]), plain_MNE[order], atol=1e-5), order
    assert torch.allclose(model.features(media), features_MND.flatten(1), atol=1e-5)
    assert counted.items == read > 0


@torch.no_grad()
def test_changed_weights_training_and_another_type_read_items_anew() -> None:
    name = "nano_nn_m3d_phi3"
    model = _own(fresh(name))
    model.eval()
    media = shown(twin(name), name, 1, 2)
    counted, before = _Counted(model), model.encode(media)
    with torch.autocast("cpu", torch.bfloat16):
        model.encode(media)
    assert counted.items == 4
    for weight in model.vision.parameters():
        weight.mul_(1.5)
    assert not torch.allclose(model.encode(media), before)
    assert counted.items == 6
    model.train()
    model.encode(media)
    assert counted.items == 8
    model.eval()
    with torch.enable_grad():
        model.encode(media)
    assert counted.items == 10, "a tower that learns keeps its graph"


@torch.no_grad()
def test_models_that_share_features_read_an_item_once_while_their_weights_are_equal() -> None:
    name = "nano_nn_m3d_phi3"
    first, second = (_own(fresh(name)) for _ in range(2))
    second.kept = first.kept
    media = shown(twin(name), name, 1, 2)
    counted = _Counted(second)
    first.eval().encode(media)
    second.eval().encode(media)
    assert counted.items == 0
    before = first.encode(media)
    for weight in second.vision.parameters():
        weight.mul_(1.5)
    assert not torch.allclose(second.encode(media), before)
    assert counted.items == 2
    assert torch.equal(first.encode(media), before)


@torch.no_grad()
def test_a_tower_that_a_strategy_trains_is_read_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    """DeepSpeed writes the weights through its own buffers, which no version counts."""
    name = "nano_nn_m3d_phi3"
    model = _own(fresh(name))
    model.eval()
    media = shown(twin(name), name, 1, 2)
    monkeypatch.setattr("torch.distributed.is_initialized", lambda: True)
    before = model.encode(media)
    for weight in model.vision.parameters():
        weight.data.mul_(1.5)
    assert not torch.allclose(model.encode(media), before)
    model.vision.requires_grad_(False)
    counted = _Counted(model)
    model.encode(media)
    model.encode(media)
    assert counted.items == 2, "a frozen one is read once"


@torch.no_grad()
def test_the_kept_features_have_a_limit() -> None:
    name = "nano_nn_m3d_phi3"
    model = _own(fresh(name))
    model.eval()
    media = shown(twin(name), name, 1, 2, 3)
    most = 2 * model.vision(model._at_the_tower(media))[0].nbytes
    model.kept = KeptFeatures(most)
    counted = _Counted(model)
    model.encode(media[:2])
    model.encode(media[:1])
    model.encode(media[2:])
    model.encode(media[:1])
    assert counted.items == 3, "the first was seen again and kept"
    model.encode(media[1:2])
    assert counted.items == 4
    assert len(model.kept) == 2
    assert model.kept.held_bytes <= most
