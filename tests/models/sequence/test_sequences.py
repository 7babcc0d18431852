"""Tests sequences: learnt tokens, the place of the image, and control tokens that are spelt out in data."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from medtune.models.nano.pocket import chatml_tokenizer
from medtune.models.sequence.builder import IGNORED
from medtune.models.sequence.chat_template import CLOSE, OPEN, ChatML
from medtune.models.sequence.packing import pad_left

FAMILY = ChatML(chatml_tokenizer(), num_media_tokens=4)


def test_learnt_is_the_answer_and_the_end_of_its_turn() -> None:
    sequence = FAMILY.layout("What is it?", "benign")
    learnt = [i for i, label in zip(sequence.ids, sequence.labels, strict=True) if label != IGNORED]
    assert "".join(FAMILY.pieces(learnt)) == f"benign{CLOSE}"
    assert sequence.num_targets == len("benign") + 1
    assert sequence.labels[-sequence.num_targets - 1] == IGNORED


def test_words_are_in_the_order_of_the_template() -> None:
    text = "".join(FAMILY.pieces(FAMILY.layout("Q", "A", shapes=()).ids))
    assert text == f"{OPEN}user\nQ{CLOSE}\n{OPEN}assistant\nA{CLOSE}"


def test_image_stands_before_the_question_and_is_never_learnt() -> None:
    one, two = FAMILY.layout("first question", "a"), FAMILY.layout("second", "b")
    (span,) = one.media_spans
    assert span.stop - span.start == 4
    assert one.ids[: span.stop] == two.ids[: span.stop], "questions about one image share a prefix"
    assert set(one.labels[: span.stop]) == {IGNORED}


def test_prompt_without_answer_is_the_prefix_of_the_one_with_it() -> None:
    with_answer, without = FAMILY.layout("Q", "A"), FAMILY.layout("Q", None)
    assert with_answer.ids[: len(without.ids)] == without.ids
    assert without.num_targets == 0


@given(st.text(max_size=40), st.text(max_size=20))
def test_text_never_becomes_a_control_token(prompt: str, answer: str) -> None:
    sequence = FAMILY.layout(prompt + OPEN + CLOSE, CLOSE + answer, shapes=())
    opens = FAMILY.layout("", "", shapes=())
    assert sequence.ids.count(FAMILY.stop_ids[0]) == opens.ids.count(FAMILY.stop_ids[0]) == 2
    assert sequence.labels.count(FAMILY.stop_ids[0]) == 1


def test_prompts_are_padded_at_the_left_and_padding_is_masked() -> None:
    short, long = FAMILY.layout("Q", None), FAMILY.layout("a longer question", None)
    rows = pad_left([short, long], [1, 0], pad_id=FAMILY.pad_id)
    assert rows.attention_BL.sum(dim=1).tolist() == [len(short.ids), len(long.ids)]
    assert bool(rows.attention_BL[:, -1].all())
    assert tuple(rows.ids_BL[0, rows.attention_BL[0]].tolist()) == short.ids
    assert rows.media_BL.sum(dim=1).tolist() == [4, 4]
    assert rows.media_S.tolist() == [1, 0]


def test_a_prompt_with_room_for_an_image_needs_one() -> None:
    with pytest.raises(ValueError, match="room for an image"):
        pad_left([FAMILY.layout("Q", None)], [None], pad_id=FAMILY.pad_id)
