"""Holds the parsers of choices against replies of which the generator knows what they mean."""

from collections import Counter
from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from medtune.data.types import Question
from medtune.eval.scoring.parsers.choice_parsers import parse_choice
from tests.eval.scoring.parsers.generated_replies import MEANT, GeneratedReply, generated_replies, replies
from tests.soak import sample_and_all

OPTION_SETS = (
    ("the liver", "the left kidney", "the spleen", "a gallstone"),
    ("benign", "malignant", "normal"),
    ("upper left", "middle", "lower right", "upper right", "not visible", "lower left"),
    ("to turn the probe by 90 degrees", "to lower the gain", "to freeze the image", "to end the examination"),
)


def read(reply: str, options: tuple[str, ...]) -> int | None:
    found = parse_choice(reply, Question("q", "m", "Which?", options, options[0], "choice", "p"))
    return None if found is None else options.index(found)


def assert_read_as_meant(said: GeneratedReply, options: tuple[str, ...]) -> None:
    assert read(said.text, options) == said.meant, said


@pytest.mark.parametrize("options", OPTION_SETS)
def test_every_kind_of_reply_is_read_as_it_is_meant(options: tuple[str, ...]) -> None:
    said = replies(1, 3000, options)
    for each in said:
        assert_read_as_meant(each, options)
    kinds = Counter(each.kind for each in said)
    assert kinds.keys() > MEANT.keys()
    assert min(kinds.values()) > 20


@pytest.mark.soak
@pytest.mark.parametrize("options", OPTION_SETS)
def test_many_replies_are_read_as_they_are_meant(options: tuple[str, ...]) -> None:
    for each in replies(2, 200_000, options):
        assert_read_as_meant(each, options)


CHANGES: dict[str, Callable[[str], str]] = {
    "blanks before and after": lambda text: f" \n\t{text} \n\n",
    "bold": lambda text: "\n".join(
        f"**{line.strip()}**" if line.strip("*_ \t#`") else line for line in text.split("\n")
    ),
    "full stop": lambda text: text if text.rstrip().endswith((".", ":", "?", "!")) else f"{text}.",
    "capitals": str.upper,
    "small letters": str.lower,
    "thoughts": lambda text: text if "think>" in text.lower() else f"<think>Perhaps A, perhaps B.</think>\n{text}",
    "Windows lines": lambda text: text.replace("\n", "\r\n"),
}


@pytest.mark.parametrize("change", CHANGES)
@given(said=generated_replies(OPTION_SETS[0]))
@settings(max_examples=60)
def test_a_change_of_form_does_not_change_the_reading(change: str, said: GeneratedReply) -> None:
    assert read(CHANGES[change](said.text), OPTION_SETS[0]) == read(said.text, OPTION_SETS[0])


@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("number", sample_and_all(300, 40_000))
def test_a_change_of_form_does_not_change_the_reading_of_many(number: int, change: str) -> None:
    for said in replies(3, number, OPTION_SETS[0]):
        changed = CHANGES[change](said.text)
        assert read(changed, OPTION_SETS[0]) == read(said.text, OPTION_SETS[0]), (said, changed)


PIECES = [
    "Answer", ":", " is ", "A", "(B)", "C.", "\n", "not ", "the liver", "option ", "**", "<think>", "</think>", "?",
]  # fmt: skip
PIECES += ["<answer>", "</answer>", "\\boxed{", "}", '{"answer": "', '"', "or ", ", ", "Ｄ", "٣", "12.5", "I choose "]


def assert_reads_an_option_or_none(pieces: list[str]) -> None:
    text = "".join(pieces)
    assert read(text, OPTION_SETS[0]) in {None, *range(4)}
    assert read(f" {text}\n", OPTION_SETS[0]) == read(text, OPTION_SETS[0])


@pytest.mark.parametrize("number", sample_and_all(200, 5_000))
def test_likely_pieces_in_any_order_give_an_option_or_none(number: int) -> None:
    any_order = given(pieces=st.lists(st.sampled_from(PIECES), max_size=14))
    settings(max_examples=number, deadline=None)(any_order(assert_reads_an_option_or_none))()


@pytest.mark.parametrize(
    "part",
    [
        "answer ", "Answer: A or ", "option A ", "(", "\\boxed{", "<answer>", "<think>", "it is A. ", "\n", "so ",
        '"answer": ',
    ],
)  # fmt: skip
def test_a_model_that_repeats_itself_is_read_at_once(part: str) -> None:
    assert read("x" + part * (20_000 // len(part)) + "x", OPTION_SETS[0]) in {None, *range(4)}
