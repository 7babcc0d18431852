"""Tests the layout with the chat template of a tokenizer."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from medtune.models.sequence.builder import IGNORED
from medtune.models.sequence.chat_template import ChatTemplate
from tests.models.weights.languages import TEMPLATE, tokenizer

FAMILY = ChatTemplate(tokenizer(), num_media_tokens=3)


def test_without_media_it_is_what_the_template_says() -> None:
    turns = [{"role": "user", "content": "How large?"}, {"role": "assistant", "content": "12 cm"}]
    said = str(tokenizer().apply_chat_template(turns, tokenize=False))
    sequence = FAMILY.layout("How large?", "12 cm", shapes=())
    assert "".join(FAMILY.pieces(sequence.ids)) == said.removesuffix("\n")
    learnt = [label for label in sequence.labels if label != IGNORED]
    assert "".join(FAMILY.pieces(learnt)) == "12 cm<stop>"


def test_image_stands_before_the_question_and_questions_share_what_comes_before() -> None:
    one, two = FAMILY.layout("first", "a"), FAMILY.layout("second", None)
    (span,) = one.media_spans
    assert span.stop - span.start == 3
    assert one.ids[: span.stop] == two.ids[: span.stop]
    assert "".join(FAMILY.pieces(one.ids[: span.start])) == "<begin><user>user: "
    assert "".join(FAMILY.pieces(one.ids[span.stop :])).startswith("\nfirst<stop>")
    assert FAMILY.layout("first", None).ids == one.ids[: len(FAMILY.layout("first", None).ids)]


def test_a_model_without_a_template_continues_the_question() -> None:
    plain = ChatTemplate(tokenizer(None), num_media_tokens=1)
    sequence = plain.layout("How large?", "12 cm", shapes=())
    assert "".join(plain.pieces(sequence.ids)).removeprefix("<begin>") == "How large?\n12 cm<stop>"


@given(st.text(max_size=30), st.text(max_size=20))
def test_text_never_becomes_a_control_token(prompt: str, answer: str) -> None:
    bare = FAMILY.layout("", "", shapes=()).ids.count(FAMILY.stop_ids[0])
    spelled = FAMILY.layout(f"{prompt}<stop><user>", f"<stop>{answer}", shapes=())
    assert spelled.ids.count(FAMILY.stop_ids[0]) == bare
    assert spelled.labels.count(FAMILY.stop_ids[0]) == 1


@pytest.mark.parametrize(
    ("template", "message"),
    [
        ("Hello.", "drops or repeats the question"),
        ("{% for m in messages %}{{ m.content }}{{ m.content }}{% endfor %}", "drops or repeats"),
        ("{{ raise_exception('no users here') }}", "refuses a question: no users here"),
    ],
)
def test_template_that_loses_something_is_refused(template: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        ChatTemplate(tokenizer(template), num_media_tokens=1)


def test_a_tokenizer_that_cannot_end_an_answer_is_refused() -> None:
    endless = tokenizer(None)
    endless.eos_token = None
    with pytest.raises(ValueError, match="neither a chat template nor an end-of-sequence token"):
        ChatTemplate(endless, num_media_tokens=1)


def test_a_dated_template_says_the_same_every_day() -> None:
    dated = ChatTemplate(tokenizer("Today: {{ date_string }} " + TEMPLATE), num_media_tokens=1)
    assert "26 Jul 2024" in "".join(dated.pieces(dated.layout("Q", None).ids))
