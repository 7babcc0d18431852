"""Tests a judge on a server: the verdict's schema, concurrency, and answers that get no verdict."""

from typing import Any

import pytest

from medtune.data.types import JudgeRequest, PredictionKey
from medtune.models.endpoint.client import EndpointError
from medtune.models.endpoint.judging import EndpointJudge
from medtune.models.endpoint.replies import CostCapError
from medtune.models.endpoint.settings import Endpoint
from tests.models.endpoint.chat_server import ChatServer, Said, asked_text, completion, failure
from tests.models.endpoint.conftest import Opened

SCHEMA = {"type": "object", "properties": {"score": {"enum": [0, 1, 2]}}}


def request(number: int) -> JudgeRequest:
    return JudgeRequest(PredictionKey(f"q{number}", "image", "generation", 0), "Be strict.", f"answer {number}", SCHEMA)


def verdicts(
    opened: Opened, chat: ChatServer, number: int, *, strict: bool = True, **settings: Any
) -> dict[str, str | None]:
    endpoint = Endpoint(chat.base_url, "judge-model", **settings)
    judge = EndpointJudge(endpoint, opened(**settings), max_new_tokens=64, strict=strict, say=lambda text: None)
    found = judge.replies([request(n) for n in range(number)], is_usable=lambda text: text.startswith("{"))
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
