"""Tests single requests: replies, streams, retries, refusals, the cache, the costs and their cap."""

import json
import threading
import time
from dataclasses import replace
from email.utils import formatdate
from pathlib import Path
from typing import Any

import pytest

from medtune.data.types import Prompt
from medtune.models.endpoint.client import ChatClient, EndpointError
from medtune.models.endpoint.messages import Tokens, request_body
from medtune.models.endpoint.replies import CostCapError, Reply
from medtune.models.endpoint.settings import Endpoint
from tests.models.endpoint.chat_server import KEY, SERVED_MODEL, ChatServer, Said, completion, failure, streamed
from tests.models.endpoint.conftest import Opened

PRICED: dict[str, Any] = {"usd_per_million_input_tokens": 1e4, "usd_per_million_output_tokens": 1e4}
"""A cent a token."""


def asked(client: ChatClient, text: str = "Which plane?", *, repeat: int = 0, tokens: int = 10) -> Reply:
    body = request_body(Endpoint("", "test-model"), Prompt(text, (), ""), [], max_new_tokens=5)
    return client.ask(body, estimate=Tokens(tokens, 5), what="question 'q1'", repeat=repeat)


def test_answer_with_what_the_server_says_of_itself(chat: ChatServer, opened: Opened) -> None:
    chat.script(completion("head"))
    assert asked(opened()) == Reply("head", "stop", SERVED_MODEL, Tokens(100, 2))
    assert chat.keys == [f"Bearer {KEY}"]
    (body,) = chat.bodies
    assert body == {
        "model": "test-model",
        "messages": [{"role": "user", "content": "Which plane?"}],
        "max_completion_tokens": 5,
        "temperature": 0.0,
    }


def test_stream(chat: ChatServer, opened: Opened) -> None:
    chat.script(streamed("he", "ad"))
    assert asked(opened(stream=True)) == Reply("head", "stop", SERVED_MODEL, Tokens(7, 2))
    assert chat.bodies[0]["stream"] is True


@pytest.mark.parametrize(
    "broken", [[streamed("he", finish=None)], [Said(pieces=('{"choices": [',)), Said(pieces=("[1]",))]]
)
def test_stream_that_breaks_off_or_has_a_broken_piece_is_asked_again(
    chat: ChatServer, opened: Opened, broken: list[Said]
) -> None:
    chat.script(*broken, streamed("head"))
    assert asked(opened(stream=True)).text == "head"
    assert len(chat.bodies) == len(broken) + 1


def test_stream_nobody_asked_for_says_which_setting_takes_it(chat: ChatServer, opened: Opened) -> None:
    chat.script(streamed("head"))
    with pytest.raises(EndpointError, match=r"set endpoint\.stream=true"):
        asked(opened(max_retries=0))


@pytest.mark.parametrize(
    "broken",
    [
        Said("{not json"),
        Said(""),
        Said("[1, 2]"),
        Said({"choices": []}),
        Said({"choices": [{"message": {"content": ["a"]}}]}),
        Said({"choices": [{"message": None}]}),
        Said({"error": {"message": "the model behind me fell over"}}),
        failure(500),
        failure(503),
        failure(429),
        Said("<html>Bad gateway</html>", 502),
    ],
)
def test_what_cannot_be_read_or_may_pass_is_asked_again(chat: ChatServer, opened: Opened, broken: Said) -> None:
    chat.script(broken, broken, completion("head"))
    assert asked(opened()).text == "head"
    assert len(chat.bodies) == 3


def test_silence_is_given_up_and_asked_again(chat: ChatServer, opened: Opened) -> None:
    asked_again = threading.Event()
    silent = replace(completion("late"), hold=lambda: asked_again.wait(60))
    chat.script(silent, replace(completion("head"), hold=asked_again.set))
    assert asked(opened(timeout_s=0.2)).text == "head"


def test_no_try_gives_a_reply_so_none_is_made_up(chat: ChatServer, opened: Opened, tmp_path: Path) -> None:
    chat.script(failure(500, message="down"))
    with pytest.raises(
        EndpointError, match=r"question 'q1': no usable reply in 4 tries, the last one: HTTP 500: .*down"
    ):
        asked(opened())
    assert len(chat.bodies) == 4
    assert [path for path in (tmp_path / "cache").rglob("*") if path.is_file()] == []


def test_pause_that_the_server_asks_for_is_kept(chat: ChatServer, opened: Opened) -> None:
    chat.script(failure(429, Retry_After="0.4"), completion("head"))
    asked(opened())
    assert chat.times_s[1] - chat.times_s[0] >= 0.4


def test_pause_given_as_a_date_is_kept(chat: ChatServer, opened: Opened) -> None:
    chat.script(failure(503, Retry_After=formatdate(time.time() + 2, usegmt=True)), completion("head"))
    asked(opened())
    assert chat.times_s[1] - chat.times_s[0] >= 0.9


def test_waits_grow_and_differ(chat: ChatServer, opened: Opened, monkeypatch: pytest.MonkeyPatch) -> None:
    chat.script(failure(500))
    client = opened(max_retries=5)
    waited: list[float] = []

    def wait(pause_s: float) -> bool:
        waited.append(pause_s)
        return False

    monkeypatch.setattr(client._closed, "wait", wait)
    with pytest.raises(EndpointError):
        asked(client)
    assert [0.005 * 2**n <= pause_s <= 0.01 * 2**n for n, pause_s in enumerate(waited)] == [True] * 5
    assert len({pause_s / 2**n for n, pause_s in enumerate(waited)}) == 5


@pytest.mark.parametrize(
    ("said", "hint"),
    [
        (failure(401), "check the key in the variable"),
        (failure(404), r"check endpoint\.base_url"),
        (failure(307, Location="http://127.0.0.1:9/elsewhere"), "redirects to another address"),
        (failure(400, message="temperature is fixed"), "temperature is fixed"),
        (failure(429, code="insufficient_quota"), "no credit left"),
        (failure(429, Retry_After="7200"), "asks to wait 7200 s"),
    ],
)
def test_what_will_not_pass_is_not_asked_again(chat: ChatServer, opened: Opened, said: Said, hint: str) -> None:
    chat.script(said)
    with pytest.raises(EndpointError, match=hint):
        asked(opened())
    assert len(chat.bodies) == 1


def test_refusal_is_an_answer_of_its_own_kind(chat: ChatServer, opened: Opened) -> None:
    chat.script(completion(None, refusal="I cannot help with that."))
    assert asked(opened()).finish_reason == "refusal"
    assert asked(opened()).text == "I cannot help with that."


@pytest.mark.parametrize("said", [completion(None, finish="content_filter"), failure(400, code="content_filter")])
def test_filtered_content_is_an_empty_answer(chat: ChatServer, opened: Opened, said: Said) -> None:
    chat.script(said)
    assert (asked(opened()).text, asked(opened()).finish_reason) == ("", "content_filter")
    assert len(chat.bodies) == 1


def test_same_request_is_sent_once_and_a_repeat_anew(chat: ChatServer, opened: Opened) -> None:
    chat.script(completion("a"), completion("b"))
    assert [asked(opened()).text, asked(opened()).text, asked(opened(), repeat=1).text] == ["a", "a", "b"]
    assert len(chat.bodies) == 2


def test_another_model_text_or_sampling_is_another_request(chat: ChatServer, opened: Opened) -> None:
    client = opened()
    for endpoint, text in (
        (Endpoint("", "a"), "x"),
        (Endpoint("", "b"), "x"),
        (Endpoint("", "a"), "y"),
        (Endpoint("", "a", temperature=1.0), "x"),
        (Endpoint("", "a", extra={"reasoning_effort": "low"}), "x"),
    ):
        client.ask(request_body(endpoint, Prompt(text, (), ""), [], max_new_tokens=5), estimate=Tokens(1, 1), what="q")
    assert len(chat.bodies) == 5
    assert chat.bodies[-1]["reasoning_effort"] == "low"


def test_spending_is_counted_over_clients(chat: ChatServer, opened: Opened, tmp_path: Path) -> None:
    asked(opened(**PRICED), "one")
    budget = opened(**PRICED).budget
    assert (budget.requests, budget.spent) == (1, Tokens(100, 2))
    assert budget.spent_usd == pytest.approx(1.02)
    (line,) = (tmp_path / "spending.jsonl").read_text().splitlines()
    assert json.loads(line)["model"] == SERVED_MODEL


def test_torn_last_line_of_the_ledger_is_cut(opened: Opened, tmp_path: Path) -> None:
    (tmp_path / "spending.jsonl").write_text('{"input": 3, "output": 1, "usd": 0.5}\n{"inp')
    assert opened(**PRICED).budget.spent_usd == 0.5
    assert (tmp_path / "spending.jsonl").read_text().endswith("\n")


def test_reply_that_cannot_be_used_is_paid_for_all_the_same(chat: ChatServer, opened: Opened) -> None:
    client = opened(**PRICED)
    body = request_body(Endpoint("", "m"), Prompt("x", (), ""), [], max_new_tokens=5)
    with pytest.raises(EndpointError, match="too short"):
        client.ask(body, estimate=Tokens(1, 1), what="q", accept=lambda reply: "too short")
    assert client.budget.requests == len(chat.bodies) == 4
    assert not client.is_kept(body, repeat=0)


CUT = {"Content-Length": "9999", "Connection": "close"}
"""The headers of a response whose connection is lost in its middle."""


@pytest.mark.parametrize(
    ("odd", "settings"),
    [
        (Said({"choices": [], "usage": {"prompt_tokens": 100, "completion_tokens": 2}}), {}),
        (Said(pieces=({"choices": [{"delta": {"content": "a"}}]}, {"choices": "b"}, "[DONE]")), {"stream": True}),
        (Said(pieces=({"choices": [{"delta": {"content": "a"}}]}, {"choices": [{"delta": 3}]})), {"stream": True}),
        (Said('{"choices": [{"index": 0, "message": {"content": "he'), {}),
        (Said({"choices": [{"message": {"content": ["a"]}}]}), {}),
        (Said({"choices": [{"message": None}]}), {}),
        (replace(completion("head"), headers=CUT), {}),
        (replace(streamed("he", finish=None), headers=CUT), {"stream": True}),
        (Said(pieces=({"choices": [{"delta": {"content": "a"}}]}, '{"choices": [{"del')), {"stream": True}),
        (replace(completion("late"), silence_s=0.4), {"timeout_s": 0.2}),
    ],
)
def test_a_try_that_was_billed_is_counted_though_nobody_can_read_it(
    chat: ChatServer, opened: Opened, odd: Said, settings: dict[str, bool]
) -> None:
    chat.script(odd, odd, streamed("head") if "stream" in settings else completion("head"))
    client = opened(**PRICED, **settings)
    assert asked(client).text == "head"
    assert client.budget.requests == 3


@pytest.mark.parametrize(
    "refused", [failure(500), failure(429), Said({"error": {"message": "overloaded"}}), Said("<p>")]
)
def test_a_try_that_no_model_saw_costs_nothing(chat: ChatServer, opened: Opened, refused: Said) -> None:
    chat.script(refused, refused, completion("head"))
    client = opened(**PRICED)
    assert asked(client).text == "head"
    assert client.budget.requests == 1


@pytest.mark.parametrize(("limit", "said"), [("MOST_BYTES", "longer than 0 MB"), ("MOST_TIMEOUTS", "longer than 0 s")])
def test_a_reply_without_end_is_ended(
    chat: ChatServer, opened: Opened, monkeypatch: pytest.MonkeyPatch, limit: str, said: str
) -> None:
    monkeypatch.setattr(f"medtune.models.endpoint.client.{limit}", 0)
    for settings, reply in (({}, completion("head")), ({"stream": True}, streamed("head"))):
        chat.script(reply)
        with pytest.raises(EndpointError, match=f"no usable reply in 4 tries, the last one: the reply .*{said}"):
            asked(opened(**settings))


def test_cap_stops_before_it_is_passed(chat: ChatServer, opened: Opened) -> None:
    client = opened(**PRICED, max_usd=2.5)
    asked(client, "one", tokens=100)
    asked(client, "two", tokens=100)
    with pytest.raises(CostCapError, match=r"stopped before max_usd \(2\.50 USD\) could be passed: 2\.0400 USD"):
        asked(client, "three", tokens=100)
    assert len(chat.bodies) == 2
    assert asked(client, "one").text == "yes"


def test_estimates_follow_what_the_server_charges(chat: ChatServer, opened: Opened) -> None:
    client = opened(**PRICED, max_usd=1.9)
    asked(client, "one", tokens=10)
    # The server charged ten times the estimate, so the next request is estimated at 1 USD again.
    with pytest.raises(CostCapError):
        asked(client, "two", tokens=10)


def test_key_that_the_server_repeats_is_blotted_out(chat: ChatServer, opened: Opened, tmp_path: Path) -> None:
    chat.script(failure(401, message=f"wrong key {KEY}"), completion(f"your key is {KEY}", finish=KEY))
    with pytest.raises(EndpointError) as caught:
        asked(opened())
    assert "wrong key [key]" in str(caught.value)
    reply = asked(opened())
    assert (reply.text, reply.finish_reason) == ("your key is [key]", "[key]")
    assert not [path for path in tmp_path.rglob("*") if path.is_file() and KEY.encode() in path.read_bytes()]
