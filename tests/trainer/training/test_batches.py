"""Tests that a packed step gives the same loss and gradients as one row per question, for each family."""

from collections import Counter
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

import numpy as np
import PIL.Image
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from bench.measuring.unmixed import unmixed
from medtune.data.types import AnswerKind, MediaGroup, MediaRef, Question
from medtune.eval.asking.choice_prompt import render_choice
from medtune.models.contract import Assembled
from medtune.models.sequence.packing import ROW_TOKENS
from medtune.trainer.training.batches import MicroBatch, MicroBatches
from medtune.trainer.training.sampling import Balanced, StepOrder
from tests.models.twins import all_seen, leaking, moved
from tests.trainer.one_step import batch_of, furthest, learning, loss_and_gradients

OPTIONS = ("normal", "benign", "malignant")
SHARING = (
    "nano_pocket", "nano_internvl", "nano_llava", "nano_llava_onevision", "nano_mllama", "nano_qwen25vl",
    "nano_qwen2vl", "nano_qwen3vl", "nano_glm4v",
)  # fmt: skip
each_family = pytest.mark.parametrize("name", SHARING)


@pytest.fixture(scope="module")
def pictures(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("pictures")
    for number in range(3):
        pixels_HWC = np.random.default_rng(number).integers(0, 255, (40, 50, 3), dtype=np.uint8)
        PIL.Image.fromarray(pixels_HWC).save(folder / f"{number}.png")
    return folder


def _group(pictures: Path, number: int, questions: int) -> MediaGroup:
    asked = tuple(
        Question(f"q{number}-{i}", str(number), f"What is {'so ' * i}odd?", OPTIONS, OPTIONS[i % 3], "choice", "p")
        for i in range(questions)
    )
    return MediaGroup(str(number), (MediaRef(pictures / f"{number}.png"),), asked)


SHOWN_AND_BLIND = pytest.mark.parametrize("name", ["nano_pocket", "nano_mllama", "nano_qwen25vl", "nano_gemma3"])


def _passes(pictures: Path, assembled: Assembled, *, world_size: int, share: float) -> list[MicroBatch]:
    """Returns all forward passes of one step of three groups, over all devices; each pass has at most one group."""
    groups = [_group(pictures, 0, 3), _group(pictures, 1, 1), _group(pictures, 2, 2)]
    data = replace(unmixed(groups, lambda question: render_choice(question, "text"), seed=0), text_only_share=share)
    order = StepOrder(data.row(), batch_size=3, micro_batch_size=1, world_size=world_size)
    devices = [
        MicroBatches(
            data,
            order,
            rank=rank,
            template=assembled.template,
            transform=assembled.transform,
            share_prefix=assembled.model.plain_because is None,
            row_tokens=ROW_TOKENS if assembled.model.packs_trees else 0,
        )
        for rank in range(world_size)
    ]
    return [device[number] for number in range(order.accumulate) for device in devices]


def _sum_of(assembled: Assembled, batches: list[MicroBatch]) -> tuple[float, dict[str, Tensor]]:
    """The loss and the gradients of a step, summed over its forward passes."""
    model, whole = assembled.model, 0.0
    model.zero_grad()
    for batch in batches:
        read = model(batch.rows, None if batch.media is None else model.encode(batch.media))
        counted_T = read.logprobs_T.where(read.sequence_T < batch.num_counted, 0.0)
        loss = -counted_T.sum() / batch.step_target_tokens
        loss.backward()
        whole += float(loss.detach())
    return whole, {n: p.grad.clone() for n, p in model.named_parameters() if p.grad is not None}


@SHOWN_AND_BLIND
def test_devices_with_and_without_media_run_the_same_layers_for_the_sum_of_one(name: str, pictures: Path) -> None:
    nano = learning(name)
    alone, spread = (_passes(pictures, nano, world_size=n, share=0.4) for n in (1, 2))
    assert sorted(batch.num_shown for batch in alone) == [0, 1, 1]
    assert any(batch.media is None for batch in alone)
    # Each pass of two devices holds rows with an image and rows without, the last one of the second device too.
    assert [batch.num_counted for batch in spread].count(0) == 1
    for batch in spread:
        assert batch.media is not None
        assert batch.rows.media_S.numel() > 0
        assert int(batch.rows.target_sequence_T.max()) >= batch.num_counted or batch.num_counted == 0
    loss, gradients = _sum_of(nano, alone)
    other_loss, other_gradients = _sum_of(nano, spread)
    assert other_loss == pytest.approx(loss, rel=1e-5)
    assert furthest({n: other_gradients[n] for n in gradients}, gradients) < 1e-4
    every_pass = [_sum_of(nano, [batch])[1].keys() for batch in spread]
    assert all(reached == every_pass[0] for reached in every_pass)
    # Without what is borrowed the devices would not agree on what they ran.
    apart = [_sum_of(nano, [batch])[1].keys() for batch in alone]
    assert any(reached != apart[0] for reached in apart)


@SHOWN_AND_BLIND
def test_a_blind_model_is_trained_on_text_alone(name: str, pictures: Path) -> None:
    nano = learning(name)
    batches = _passes(pictures, nano, world_size=2, share=1.0)
    assert all(batch.media is None and batch.rows.media_S.numel() == 0 for batch in batches)
    _, gradients = _sum_of(nano, batches)
    assert not any("projector" in n or "vision" in n or "visual" in n for n, g in gradients.items() if g.any())


def _batch(pictures: Path, assembled: Assembled, *, share_prefix: bool) -> MicroBatch:
    groups = [_group(pictures, 0, 4), _group(pictures, 1, 1), _group(pictures, 2, 4)]
    return batch_of(groups, assembled, share_prefix=share_prefix)


@each_family
def test_a_packed_step_has_the_loss_and_gradients_of_a_row_per_question(name: str, pictures: Path) -> None:
    nano = learning(name)
    packed, plain = _batch(pictures, nano, share_prefix=True), _batch(pictures, nano, share_prefix=False)
    loss, gradients = loss_and_gradients(nano, packed)
    plain_loss, plain_gradients = loss_and_gradients(nano, plain)
    assert loss == pytest.approx(plain_loss, rel=1e-5)
    assert furthest(gradients, plain_gradients) < 1e-4
    assert (packed.rows.media_S.numel(), plain.rows.media_S.numel()) == (3, 9)


@each_family
@pytest.mark.parametrize("broken", ["mask", "positions", "image", "leak"])
def test_negative_controls_move_the_gradients(name: str, broken: str, pictures: Path) -> None:
    nano = learning(name)
    batch = _batch(pictures, nano, share_prefix=True)
    rows = batch.rows
    if broken == "mask":
        wrong = all_seen(rows)
    elif broken == "positions":
        wrong = moved(rows)
    elif broken == "image":
        wrong = rows._replace(media_S=rows.media_S.roll(1))
    else:
        wrong = leaking(rows, int(rows.target_place_T.min()) - 2)
    _, right = loss_and_gradients(nano, batch)
    _, wronged = loss_and_gradients(nano, batch._replace(rows=wrong))
    assert furthest(wronged, right) > 1e-2


def test_a_step_is_divided_by_all_its_target_tokens(pictures: Path) -> None:
    batch = _batch(pictures, learning("nano_pocket"), share_prefix=True)
    assert batch.step_target_tokens == batch.rows.target_id_T.numel()
    assert sorted(set(batch.rows.target_sequence_T.tolist())) == list(range(9))


def _groups(answers: list[list[tuple[str, str]]]) -> list[MediaGroup]:
    """Returns one media group for each list of (subtype, answer); every question has options."""
    return [
        MediaGroup(
            str(number),
            (MediaRef(Path("x.png")),),
            tuple(
                Question(
                    f"{number}-{i}", str(number), "?", ("yes", "no", "maybe"), answer, "choice", "p",
                    {"task": "t", "subtype": subtype},
                )
                for i, (subtype, answer) in enumerate(asked)
            ),
        )
        for number, asked in enumerate(answers)
    ]  # fmt: skip


def _asked(balanced: Balanced, epoch: int) -> list[Question]:
    return [q for number in balanced.groups_in(epoch) for q in balanced.group(number, epoch).questions]


def _counts(balanced: Balanced, epoch: int) -> Counter[tuple[str, str]]:
    return Counter((q.facets["subtype"], q.answer) for q in _asked(balanced, epoch))


UNEVEN = _groups([[("a", "no"), ("b", "yes")]] * 9 + [[("a", "yes"), ("b", "no")]] * 3)


def _free(answers: Iterable[str], answer_kind: AnswerKind = "text") -> list[MediaGroup]:
    """Returns one question without options for each answer, each about a media item of its own."""
    asked = {"task": "t", "subtype": "s"}
    return [
        MediaGroup(
            str(n), (MediaRef(Path("x.png")),), (Question(str(n), str(n), "?", (), said, answer_kind, "p", asked),)
        )
        for n, said in enumerate(answers)
    ]


def _sentences(count: int) -> list[str]:
    return [f"Turn the probe by {number} degrees." for number in range(count)]


def test_every_answer_of_a_subtype_is_asked_equally_often() -> None:
    counts = _counts(Balanced(UNEVEN, strength=1.0, seed=0), 0)
    assert counts == {("a", "no"): 3, ("a", "yes"): 3, ("b", "yes"): 3, ("b", "no"): 3}


def test_free_answers_are_balanced_however_they_are_written() -> None:
    groups = _free(["no"] * 50 + ["No."] * 47 + ["Yes"] * 3)
    counts = _counts(Balanced(groups, strength=1.0, seed=0), 0)
    assert counts["s", "no"] + counts["s", "No."] == 3 == counts["s", "Yes"]
    groups = _free(["liver"] * 60 + ["spleen"] * 30 + ["left kidney"] * 20)
    assert set(_counts(Balanced(groups, strength=1.0, seed=0), 0).values()) == {20}


def test_free_sentences_of_their_own_starve_nothing() -> None:
    groups = _free([*_sentences(80), *["The liver is normal."] * 40, *["Tilt it."] * 2])
    assert len(_asked(Balanced(groups, strength=1.0, seed=0), 0)) == 122
    assert len(_asked(Balanced(_free(_sentences(50)), strength=1.0, seed=0), 0)) == 50


def test_a_frequent_sentence_is_asked_as_often_as_all_the_others_together() -> None:
    groups = _free([*["No abnormality."] * 500, *_sentences(40), *["A cyst."] * 2])
    counts = _counts(Balanced(groups, strength=1.0, seed=0), 0)
    assert (counts["s", "No abnormality."], counts.total()) == (42, 84)


def test_zero_is_a_frequent_number_and_a_measure_is_not() -> None:
    measured = [f"{number}.5" for number in range(30)]
    groups = _free([*["0"] * 60, *["0.0"] * 40, *measured], "number")
    counts = _counts(Balanced(groups, strength=1.0, seed=0), 0)
    assert counts["s", "0"] + counts["s", "0.0"] == 30
    assert all(counts["s", number] == 1 for number in measured)


def test_an_answer_that_hardly_occurs_starves_no_other() -> None:
    groups = _groups([[("a", "yes"), ("a", "no")]] * 100 + [[("a", "maybe")]] * 2)
    assert len(_asked(Balanced(groups, strength=1.0, seed=0), 0)) == 202


def test_nothing_is_forgotten_over_the_epochs() -> None:
    balanced = Balanced(UNEVEN, strength=1.0, seed=0)
    seen = Counter(q.id for epoch in range(3) for q in _asked(balanced, epoch))
    assert set(seen) == {q.id for group in UNEVEN for q in group.questions}
    assert {seen[q.id] for group in UNEVEN[:9] for q in group.questions} == {1}


def test_strength_zero_asks_everything_and_a_half_thins_in_part() -> None:
    assert len(_asked(Balanced(UNEVEN, strength=0.0, seed=0), 0)) == 24
    assert _counts(Balanced(UNEVEN, strength=0.5, seed=0), 4)["a", "no"] == round(3**0.5 * 9**0.5)


def test_groups_that_are_asked_nothing_are_left_out() -> None:
    balanced = Balanced(UNEVEN, strength=1.0, seed=0)
    for epoch in range(5):
        assert all(balanced.group(number, epoch).questions for number in balanced.groups_in(epoch))
    assert any(len(balanced.groups_in(epoch)) < len(UNEVEN) for epoch in range(5))


@given(sizes=st.lists(st.integers(1, 40), min_size=1, max_size=3), strength=st.floats(0, 1), epoch=st.integers(0, 99))
@settings(max_examples=60, deadline=None)
def test_an_epoch_asks_exactly_what_the_strength_says(sizes: list[int], strength: float, epoch: int) -> None:
    answers = ("yes", "no", "maybe")
    groups = _groups([[("a", answers[i])] for i, size in enumerate(sizes) for _ in range(size)])
    counts = _counts(Balanced(groups, strength=strength, seed=1), epoch)
    frequent = [size for size in sizes if size**2 >= sum(sizes)]
    rare = sum(sizes) - sum(frequent)
    least = min([*frequent, rare] if len(frequent) == 1 and rare else frequent, default=0)
    for i, size in enumerate(sizes):
        thinned = max(1, round(least**strength * size ** (1 - strength)))
        assert counts["a", answers[i]] == (thinned if size in frequent else size)


def test_strength_is_checked() -> None:
    with pytest.raises(ValueError, match="from 0 to 1, got 2"):
        Balanced(UNEVEN, strength=2, seed=0)
