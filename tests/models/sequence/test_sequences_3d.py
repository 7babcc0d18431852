"""Tests the layouts of the published 3D models; tests/models/golden compares them with recorded values."""

import pytest
from transformers import PreTrainedTokenizerFast

from medtune.models.nano.pocket import chatml_tokenizer
from medtune.models.sequence.builder import IGNORED, Sequence, Span, Template
from medtune.models.sequence.volumes import ADDED_TOKENS, END_HEAD, END_TURN, HEAD, M3D, OPEN, CTChat, Merlin, RadFM


def tokenizer() -> PreTrainedTokenizerFast:
    """Returns a tokenizer of bytes with opening and closing tokens and the tokens of Llama 3's turns."""
    fast = chatml_tokenizer()
    fast.add_special_tokens(
        {"bos_token": "<s>", "additional_special_tokens": [OPEN, HEAD, END_HEAD, END_TURN, *ADDED_TOKENS]}
    )
    return fast


def families() -> dict[str, Template]:
    return {
        "radfm": RadFM(tokenizer(), tokens_per_scan=5),
        "m3d": M3D(tokenizer(), num_media_tokens=5),
        "merlin": Merlin(tokenizer(), num_media_tokens=5),
        "ct_chat": CTChat(tokenizer(), num_media_tokens=5),
    }


def learnt(sequence: Sequence) -> tuple[int, ...]:
    return tuple(label for label in sequence.labels if label != IGNORED)


@pytest.mark.parametrize("name", families())
def test_answer_and_end_are_learnt_and_nothing_else(name: str) -> None:
    family = families()[name]
    sequence = family.layout("how large is the liver?", "12 cm")
    asked = family.layout("how large is the liver?", None)
    assert family.decode(learnt(sequence)[:-1]).strip() == "12 cm"
    assert learnt(sequence)[-1] == family.stop_ids[0]
    assert sequence.ids[: len(asked.ids)] == asked.ids
    assert learnt(asked) == ()
    assert sequence.media_spans == asked.media_spans
    assert [span.stop - span.start for span in sequence.media_spans] == [5]
    assert sequence.labels[: len(asked.ids)] == (IGNORED,) * len(asked.ids)


@pytest.mark.parametrize("name", families())
def test_text_alone_has_no_media(name: str) -> None:
    sequence = families()[name].layout("is it large?", "no", shapes=())
    assert sequence.media_spans == ()
    assert learnt(sequence)


@pytest.mark.parametrize("name", families())
def test_a_spelt_control_token_stays_text(name: str) -> None:
    family = families()[name]
    sequence = family.layout(f"a{END_TURN}b<s>c", "d")
    controls = {tokenizer().get_vocab()[t] for t in (END_TURN, "<s>")}
    span = sequence.media_spans[0]
    outside = [i for place, i in enumerate(sequence.ids[:-1]) if not span.start <= place < span.stop]
    plain = family.layout("abc", "d")
    plain_outside = [i for place, i in enumerate(plain.ids[:-1]) if not span.start <= place < span.stop]
    for control in controls:
        assert outside.count(control) == plain_outside.count(control)


def test_places_of_the_media() -> None:
    found = {name: family.layout("q", None).media_spans[0] for name, family in families().items()}
    assert found["radfm"] == found["m3d"] == Span(1, 6)
    assert found["merlin"] == Span(0, 5)
    chat = families()["ct_chat"].layout("q", "a")
    pieces = families()["ct_chat"].pieces(chat.ids)
    assert "".join(pieces[: found["ct_chat"].start]) == f"{OPEN}{HEAD}user{END_HEAD}\n\n"
    assert "".join(pieces[found["ct_chat"].stop :]) == (
        f"\nq <multiple_choice>{END_TURN}{HEAD}assistant{END_HEAD}\n\na{END_TURN}"
    )


def test_several_scans_stand_where_the_question_says() -> None:
    family = RadFM(tokenizer(), tokens_per_scan=3)
    sequence = family.layout_scans("ab?", "no", positions=(0, 3))
    # Position 3 is the question's length; as in the published code, the scan stands before the last character.
    assert sequence.media_spans == (Span(1, 4), Span(6, 9))
    with pytest.raises(ValueError, match="scan positions"):
        family.layout_scans("ab?", None, positions=(4,))


def test_a_tokenizer_without_an_opening_token_is_refused() -> None:
    # Without the opening token, the volume would silently stand one place too early.
    with pytest.raises(ValueError, match="bos_token_id"):
        M3D(chatml_tokenizer())
    with pytest.raises(ValueError, match="begin_of_text"):
        CTChat(chatml_tokenizer())
