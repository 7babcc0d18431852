"""Tests the body of requests with several pictures, turns and no picture at all."""

from medtune.data.types import MEDIA_MARK, Prompt, Turn
from medtune.models.endpoint.messages import request_body
from medtune.models.endpoint.settings import Endpoint

ENDPOINT = Endpoint("http://x/v1", "m")


def _picture(url: str) -> dict[str, object]:
    return {"type": "image_url", "image_url": {"url": url, "detail": ENDPOINT.image_detail}}


def test_pictures_stand_in_front_of_the_first_turn_and_answers_between() -> None:
    turns = (Turn("Which is older?", "The first."), Turn("Why?", "It is calcified."))
    body = request_body(
        ENDPOINT, Prompt("Be terse. And now?", (), "", "Be terse."), [["a"], ["b", "c"]], turns=turns, max_new_tokens=5
    )
    assert body["messages"] == [
        {"role": "system", "content": "Be terse."},
        {
            "role": "user",
            "content": [*map(_picture, "abc"), {"type": "text", "text": "Which is older?"}],
        },
        {"role": "assistant", "content": "The first."},
        {"role": "user", "content": "Why?"},
        {"role": "assistant", "content": "It is calcified."},
        {"role": "user", "content": "And now?"},
    ]


def test_pictures_stand_where_the_text_says() -> None:
    prompt = Prompt(f"Is {MEDIA_MARK} older than {MEDIA_MARK}? {{n}} pictures.", (), "", pictures_gap="{n}")
    body = request_body(ENDPOINT, prompt, [["a"], ["b"]], max_new_tokens=5)
    text = [{"type": "text", "text": said} for said in ("Is ", " older than ", "? 2 pictures.")]
    assert body["messages"][0]["content"] == [text[0], _picture("a"), text[1], _picture("b"), text[2]]


def test_a_question_without_pictures_loses_its_marks() -> None:
    body = request_body(ENDPOINT, Prompt(f"{MEDIA_MARK}\nWhich plane?", (), ""), [], max_new_tokens=5)
    assert body["messages"] == [{"role": "user", "content": "Which plane?"}]
