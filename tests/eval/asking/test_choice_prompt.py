from dataclasses import replace

import pytest

from medtune.data.types import AnswerFormat, Question
from medtune.eval.asking.choice_prompt import render_choice

ASKED = Question("q", "m", "What is shown?", ("malignant", "benign"), "benign", "choice", "p")


@pytest.mark.parametrize(
    ("answer_format", "asks", "choices"),
    [
        ("text", "- malignant\n- benign\nAnswer with one option.", ("malignant", "benign")),
        ("letter", "A. malignant\nB. benign\nAnswer with its letter.", ("A", "B")),
    ],
)
def test_each_format_says_words_or_letters_in_the_order_shown(
    answer_format: AnswerFormat, asks: str, choices: tuple[str, ...]
) -> None:
    prompt = render_choice(ASKED, answer_format)
    assert (prompt.text, prompt.choices) == (f"What is shown?\n{asks}", choices)
    assert prompt.target == choices[1]


@pytest.mark.parametrize("options", [("malignant",), ()])
def test_render_refuses_an_answer_that_is_not_an_option(options: tuple[str, ...]) -> None:
    with pytest.raises(ValueError, match="question q: the answer 'benign' is not among the options"):
        render_choice(replace(ASKED, options=options), "text")


def test_render_refuses_more_options_than_letters() -> None:
    many = replace(ASKED, options=("benign", *(str(number) for number in range(26))))
    assert len(render_choice(many, "text").choices) == 27
    with pytest.raises(ValueError, match="only 26 letters"):
        render_choice(many, "letter")
