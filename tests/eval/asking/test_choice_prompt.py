from dataclasses import replace

import pytest

from medtune.data.types import Question
from medtune.eval.asking.choice_prompt import render_choice

ASKED = Question("q", "m", "What is shown?", ("malignant", "benign"), "benign", "choice", "p")


def test_text_format_says_the_options_words() -> None:
    prompt = render_choice(ASKED, "text")
    assert prompt.text == "What is shown?\n- malignant\n- benign\nAnswer with one option."
    assert prompt.choices == ("malignant", "benign")
    assert prompt.target == "benign"


def test_letter_format_says_letters_in_the_order_shown() -> None:
    prompt = render_choice(ASKED, "letter")
    assert prompt.text == "What is shown?\nA. malignant\nB. benign\nAnswer with its letter."
    assert prompt.choices == ("A", "B")
    assert prompt.target == "B"


@pytest.mark.parametrize("options", [("malignant",), ()])
def test_render_refuses_an_answer_that_is_not_an_option(options: tuple[str, ...]) -> None:
    with pytest.raises(ValueError, match="question q: the answer 'benign' is not among the options"):
        render_choice(replace(ASKED, options=options), "text")


def test_render_refuses_more_options_than_letters() -> None:
    many = replace(ASKED, options=("benign", *(str(number) for number in range(26))))
    assert len(render_choice(many, "text").choices) == 27
    with pytest.raises(ValueError, match="only 26 letters"):
        render_choice(many, "letter")
