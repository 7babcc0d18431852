"""Tests answering with a model on a server: order, concurrency, images as data URLs, estimate and cap of the cost."""

import base64
import io
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import PIL.Image
import pytest

from medtune.data.media.load import load_media, media_shape
from medtune.data.media.volumes.axial_pictures import axial_pictures
from medtune.data.types import (
    MEDIA_MARK,
    Image,
    JudgeRequest,
    MediaGroup,
    MediaRef,
    Prediction,
    PredictionKey,
    Prompt,
    Question,
    Request,
    Size,
    Turn,
    Volume,
    VolumesAs,
)
from medtune.models.endpoint.client import EndpointError
from medtune.models.endpoint.judge import EndpointJudge
from medtune.models.endpoint.messages import data_urls, request_body, sampling, sent_shape, sent_sizes
from medtune.models.endpoint.replies import CostCapError
from medtune.models.endpoint.served import EndpointAnswerer
from medtune.models.endpoint.settings import Endpoint
from tests.data.media.videos.synthetic_videos import mp4, numbers
from tests.data.media.volumes.synthetic_volumes import nifti
from tests.models.endpoint.chat_server import ChatServer, Said, asked_text, completion, failure
from tests.models.endpoint.conftest import Opened

OPTIONS = ("head", "femur")


def request(number: int, **how: Any) -> Request:
    question = Question(f"q{number}", f"m{number // 2}", f"Question {number}?", OPTIONS, "head", "choice", "p")
    return Request(question, Prompt(question.text, OPTIONS, "head"), **{"reading": "generation", **how})


@pytest.fixture
def visits(tmp_path: Path) -> list[tuple[MediaGroup, Sequence[Request]]]:
    """Returns six groups of two questions; each group has an image of its own."""
    found: list[tuple[MediaGroup, Sequence[Request]]] = []
    for number in range(6):
        path = tmp_path / f"{number}.png"
        PIL.Image.new("RGB", (40, 30), (number, 0, 0)).save(path)
        requests = (request(2 * number), request(2 * number + 1))
        found.append((MediaGroup(f"m{number}", (MediaRef(path),), tuple(r.question for r in requests)), requests))
    return found


@pytest.fixture
def said() -> list[str]:
    return []


@pytest.fixture
def answering(opened: Opened, chat: ChatServer, said: list[str]) -> Any:
    @contextmanager
    def of(**settings: Any) -> Iterator[EndpointAnswerer]:
        endpoint = Endpoint(chat.base_url, "test-model", **settings)
        with EndpointAnswerer(endpoint, opened(**settings), max_new_tokens=5, say=said.append) as answerer:
            yield answerer

    return of


def answers(answerer: EndpointAnswerer, visits: Sequence[tuple[MediaGroup, Sequence[Request]]]) -> list[Prediction]:
    answerer.expect(visits)
    return [prediction for visit in visits for prediction in answerer.answer(*visit)]


def sent_image(body: dict[str, Any], number: int = 0) -> PIL.Image.Image:
    url = body["messages"][0]["content"][number]["image_url"]["url"]
    return PIL.Image.open(io.BytesIO(base64.b64decode(url.partition(",")[2])))


def test_each_question_is_answered_with_its_own_image(answering: Any, visits: Any, chat: ChatServer) -> None:
    def about(body: dict[str, Any]) -> Any:
        red = sent_image(body).convert("RGB").getpixel((0, 0))[0]  # type: ignore[index]
        return completion(f" {asked_text(body)} {red}\n")

    chat.reply = about
    with answering() as answerer:
        found = {p.key.question_id: p for p in answers(answerer, visits)}
    assert len(found) == len(chat.bodies) == 12
    for number in range(12):
        prediction = found[f"q{number}"]
        assert (prediction.text, prediction.finish_reason) == (f"Question {number}? {number // 2}", "stop")
        assert prediction.options_shown == OPTIONS


def test_groups_are_asked_at_once_up_to_the_limit(answering: Any, visits: Any, chat: ChatServer) -> None:
    chat.reply = lambda body: replace(completion("head"), silence_s=0.1)
    with answering(concurrency=3) as answerer:
        assert len(answers(answerer, visits)) == 12
    assert chat.most_at_once == 3


def test_slow_reply_does_not_hold_up_the_others(answering: Any, visits: Any, chat: ChatServer) -> None:
    all_asked = threading.Event()

    def about(body: dict[str, Any]) -> Said:
        if len(chat.bodies) == 12:
            all_asked.set()
        held = asked_text(body) == "Question 0?"
        return replace(completion("head"), hold=(lambda: waited.append(all_asked.wait(20))) if held else lambda: None)

    waited: list[bool] = []
    chat.reply = about
    with answering(concurrency=2) as answerer:
        assert len(answers(answerer, visits)) == 12
    assert waited == [True]


def test_without_being_told_ahead_it_answers_all_the_same(answering: Any, visits: Any) -> None:
    with answering() as answerer:
        assert len(list(answerer.answer(*visits[0]))) == 2


def test_text_only_shows_no_image(answering: Any, visits: Any, chat: ChatServer) -> None:
    with answering() as answerer:
        list(answerer.answer(visits[0][0], [request(0, condition="text_only")]))
    assert chat.bodies[0]["messages"] == [{"role": "user", "content": "Question 0?"}]


def test_likelihood_is_refused(answering: Any, visits: Any, chat: ChatServer) -> None:
    with answering() as answerer, pytest.raises(ValueError, match="no log-likelihood"):
        answerer.expect([(visits[0][0], [request(0, reading="likelihood")])])
    assert chat.bodies == []


def test_replies_under_way_are_kept_when_another_fails(answering: Any, visits: Any, chat: ChatServer) -> None:
    another_asked = threading.Event()

    def about(body: Any) -> Any:
        if asked_text(body) == "Question 0?":
            # Refused only while another question is under way.
            return replace(failure(401), hold=lambda: another_asked.wait(4))
        another_asked.set()
        return completion("head")

    chat.reply = about
    with pytest.raises(EndpointError, match="question 'q0'"), answering(concurrency=2) as answerer:
        answers(answerer, visits)
    before = len(chat.bodies)
    chat.reply = lambda body: completion("femur")
    with answering(concurrency=2) as answerer:
        found = {p.key.question_id: p.text for p in answers(answerer, visits)}
    assert len(found) == 12
    assert len(chat.bodies) == before + list(found.values()).count("femur")
    assert found["q0"] == "femur"
    assert "head" in found.values()


PRICES = {"usd_per_million_input_tokens": 1e4, "usd_per_million_output_tokens": 1e4}


def test_cost_is_said_before_anything_is_sent(answering: Any, visits: Any, chat: ChatServer, said: list[str]) -> None:
    with answering(**PRICES) as answerer:
        answerer.expect(visits)
        assert chat.bodies == []
    # 50 tokens of template, 3 or (from question 10 on) 4 of text and 2 of pixels; 5 of the reply.
    wanted = (
        "12 requests to test-model, at most about 662 input and 60 output tokens: 7.22 USD (no max_usd, spent so far"
    )
    assert wanted in said[0]


def test_what_is_in_the_cache_costs_nothing(answering: Any, visits: Any, chat: ChatServer, said: list[str]) -> None:
    with answering() as answerer:
        answers(answerer, visits[:4])
    # Four replies cost 4.08 USD, twelve would cost 12.24.
    with answering(**PRICES, max_usd=5.0) as answerer:
        assert len(answers(answerer, visits)) == 12
    assert "4 requests" in said[-1]
    assert "and 8 in the cache" in said[-1]
    assert len(chat.bodies) == 12


def test_cap_in_the_middle_keeps_what_was_paid(answering: Any, visits: Any, chat: ChatServer) -> None:
    # Each reply costs 1.02 USD, more than estimated: after two there is no room for a third.
    with (
        pytest.raises(CostCapError, match="stopped before max_usd"),
        answering(**PRICES, max_usd=3.0, concurrency=1) as answerer,
    ):
        answers(answerer, visits[:2])
    assert len(chat.bodies) == 2
    with answering(**PRICES, max_usd=30.0, concurrency=1) as answerer:
        assert len(answers(answerer, visits[:2])) == 4
    assert len(chat.bodies) == 4


def test_pictures_are_scaled_down_and_sent_as_asked(answering: Any, visits: Any, chat: ChatServer) -> None:
    with answering(image_max_side=28, image_format="jpeg", image_detail="low") as answerer:
        list(answerer.answer(visits[0][0], [request(0)]))
    picture = sent_image(chat.bodies[0])
    assert (picture.size, picture.format) == ((28, 21), "JPEG")
    assert chat.bodies[0]["messages"][0]["content"][0]["image_url"]["detail"] == "low"


@pytest.mark.parametrize(
    ("settings", "sent"),
    [
        ({"video_frames": 3}, [0, 5, 7]),
        ({"video_frames": 99}, list(range(8))),
        ({"video_frames": 99, "video_frames_per_s": 2}, [0, 4, 5, 6, 7]),
        ({"video_frames": 2, "video_frames_per_s": 2}, [0, 7]),
    ],
)
def test_frames_are_sent_by_time_as_many_as_were_estimated(
    answering: Any, chat: ChatServer, tmp_path: Path, settings: dict[str, Any], sent: list[int]
) -> None:
    """Five frames in the first tenth of a second and three in the rest: equal distances in number are 0, 4, 7."""
    path = mp4(tmp_path / "uneven.mp4", [0.0, 0.02, 0.04, 0.06, 0.08, 1.0, 1.5, 2.0])
    group = MediaGroup("m", (MediaRef(path, kind="video"),), (request(0).question,))
    with answering(**settings) as answerer:
        answerer.expect([(group, [request(0)])])
        list(answerer.answer(group, [request(0)]))
    (body,) = chat.bodies
    pictures = [sent_image(body, number) for number in range(len(body["messages"][0]["content"]) - 1)]
    assert numbers(np.stack([np.asarray(picture) for picture in pictures])) == sent
    endpoint = Endpoint(chat.base_url, "test-model", **settings)
    shape = media_shape(group.media[0], sampling(endpoint))
    assert sent_sizes(shape, endpoint) == (Size(64, 48),) * len(sent)


@pytest.mark.parametrize(("way", "most", "sent"), [("slices", 85, 85), ("video", 16, 16), ("video", 500, 100)])
def test_slices_of_a_scan_are_sent_as_many_as_were_estimated(
    tmp_path: Path, way: VolumesAs, most: int, sent: int
) -> None:
    hu_IJK = np.random.default_rng(0).integers(-200, 300, (12, 9, 100)).astype(np.int16)
    ref = MediaRef(nifti(tmp_path / "scan.nii.gz", hu_IJK), kind="volume")
    endpoint = Endpoint("http://x/v1", "m", volumes_as=way, video_frames=most)
    scan = load_media(ref)
    urls = data_urls(scan, endpoint)
    assert len(urls) == sent
    assert sent_sizes(sent_shape(ref, endpoint), endpoint) == (Size(12, 9),) * sent
    assert isinstance(scan, Volume)
    frames_THWC = axial_pictures(way, at_most=most)(scan).frames_THWC
    last = np.asarray(PIL.Image.open(io.BytesIO(base64.b64decode(urls[-1].partition(",")[2]))))
    np.testing.assert_array_equal(last, frames_THWC[-1])


def test_pixels_arrive_as_they_are() -> None:
    pixels_HWC = np.random.default_rng(0).integers(0, 255, (11, 7, 3), dtype=np.uint8)
    (url,) = data_urls(Image(pixels_HWC), Endpoint("http://x/v1", "m"))
    read = np.asarray(PIL.Image.open(io.BytesIO(base64.b64decode(url.partition(",")[2]))))
    np.testing.assert_array_equal(read, pixels_HWC)


def test_volume_is_refused() -> None:
    volume = Volume(np.zeros((2, 2, 2), np.int16), (1.0, 1.0, 1.0), "LPS")
    with pytest.raises(ValueError, match="not volumes"):
        data_urls(volume, Endpoint("http://x/v1", "m"))


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
        {"role": "user", "content": [*map(_picture, "abc"), {"type": "text", "text": "Which is older?"}]},
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


SCHEMA = {"type": "object", "properties": {"score": {"enum": [0, 1, 2]}}}


def judged(number: int) -> JudgeRequest:
    return JudgeRequest(PredictionKey(f"q{number}", "image", "generation", 0), "Be strict.", f"answer {number}", SCHEMA)


def verdicts(
    opened: Opened, chat: ChatServer, number: int, *, strict: bool = True, **settings: Any
) -> dict[str, str | None]:
    endpoint = Endpoint(chat.base_url, "judge-model", **settings)
    judge = EndpointJudge(endpoint, opened(**settings), max_new_tokens=64, strict=strict, say=lambda text: None)
    found = judge.replies([judged(n) for n in range(number)], is_usable=lambda text: text.startswith("{"))
    return {key.question_id: text for key, text in found}


def test_strict_request(opened: Opened, chat: ChatServer) -> None:
    chat.script(completion('{"score": 2}'))
    assert verdicts(opened, chat, 1) == {"q0": '{"score": 2}'}
    (body,) = chat.bodies
    assert [turn["role"] for turn in body["messages"]] == ["system", "user"]
    assert body["temperature"] == 0.0
    assert body["response_format"]["json_schema"] == {"name": "verdict", "strict": True, "schema": SCHEMA}


def test_without_strict_no_schema_is_asked_for(opened: Opened, chat: ChatServer) -> None:
    chat.script(completion('{"score": 2}'))
    verdicts(opened, chat, 1, strict=False)
    assert "response_format" not in chat.bodies[0]


def test_no_answer_is_lost_and_none_invented(opened: Opened, chat: ChatServer) -> None:
    """Each answer first meets another kind of failure; one never gets a verdict."""
    troubles = {
        "answer 0": [completion('{"score": 0}')],
        "answer 1": [Said("{}", silence_s=1.0), completion('{"score": 1}')],
        "answer 2": [Said("{broken"), completion('{"score": 2}')],
        "answer 3": [failure(429, Retry_After="0.05"), completion('{"score": 3}')],
        "answer 4": [failure(500), failure(500), completion('{"score": 4}')],
        "answer 5": [completion("I would say it is right."), completion('{"score": 5}')],
        "answer 6": [completion("never a verdict")],
    }

    def reply(body: dict[str, Any]) -> Said:
        left = troubles[asked_text(body)]
        return left.pop(0) if len(left) > 1 else left[0]

    chat.reply = reply
    found = verdicts(opened, chat, 7, timeout_s=0.3)
    assert found == {**{f"q{n}": f'{{"score": {n}}}' for n in range(6)}, "q6": None}


def test_what_is_no_verdict_is_not_kept(opened: Opened, chat: ChatServer) -> None:
    chat.script(completion("no verdict"))
    assert verdicts(opened, chat, 1) == {"q0": None}
    chat.script(completion('{"score": 1}'))
    assert verdicts(opened, chat, 1) == {"q0": '{"score": 1}'}
    before = len(chat.bodies)
    assert verdicts(opened, chat, 1) == {"q0": '{"score": 1}'}
    assert len(chat.bodies) == before


def test_server_that_is_down_ends_it(opened: Opened, chat: ChatServer) -> None:
    chat.script(failure(500))
    with pytest.raises(EndpointError, match="5 answers in a row got no verdict"):
        verdicts(opened, chat, 40, max_retries=0, concurrency=1)
    assert 5 <= len(chat.bodies) < 40


def test_wrong_key_ends_it_at_once(opened: Opened, chat: ChatServer) -> None:
    chat.script(failure(401))
    with pytest.raises(EndpointError, match="HTTP 401"):
        verdicts(opened, chat, 40, concurrency=1)
    assert len(chat.bodies) < 5


def test_cap(opened: Opened, chat: ChatServer) -> None:
    prices: dict[str, Any] = {"usd_per_million_input_tokens": 1e4, "usd_per_million_output_tokens": 1e4}
    with pytest.raises(CostCapError, match="judging 3 answers may cost"):
        verdicts(opened, chat, 3, **prices, max_usd=0.5)
    assert chat.bodies == []
