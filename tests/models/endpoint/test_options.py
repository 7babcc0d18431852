"""Tests options read off a server's `prompt_logprobs`: equal to those of the model in this process, or refused."""

import base64
import io
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import PIL.Image
import pytest
import torch
from transformers import AutoModelForImageTextToText, AutoProcessor

from medtune.data.types import MediaGroup, MediaRef, Prediction, Prompt, Question, Request
from medtune.models.endpoint.client import NoReplyError
from medtune.models.endpoint.replies import MOST_ROWS
from medtune.models.endpoint.served import EndpointAnswerer, OptionsError
from medtune.models.endpoint.settings import Endpoint
from medtune.models.weights.export import write_exported
from tests.models.endpoint.chat_server import ChatServer, Said, completion
from tests.models.endpoint.conftest import Opened
from tests.models.twins import cpu_answerer, twin

NAME = "nano_qwen25vl"
LETTERS, WORDS = ("A", "B", "C"), ("no", "no lesion", "malignant: BI-RADS 5")
Rows = list[dict[str, dict[str, float]] | None]


class PlainModel:
    """Answers as vLLM would, with the exported model in plain transformers and without any code of medtune."""

    def __init__(self, folder: Path) -> None:
        write_exported(twin(NAME), folder, name=NAME, base_weights=None)
        self.model: Any = AutoModelForImageTextToText.from_pretrained(folder, dtype=torch.float32).eval()
        self.processor: Any = AutoProcessor.from_pretrained(folder)

    @torch.no_grad()
    def rows(self, body: dict[str, Any]) -> Rows:
        pictures: list[PIL.Image.Image] = []
        messages: list[dict[str, Any]] = []
        for message in body["messages"]:
            content = message["content"]
            parts: list[Any] = [{"type": "text", "text": content}] if isinstance(content, str) else content
            for part in parts:
                if part["type"] == "image_url":
                    url = part["image_url"]["url"]
                    pictures.append(PIL.Image.open(io.BytesIO(base64.b64decode(url.partition(",")[2]))))
            said = [part if part["type"] == "text" else {"type": "image"} for part in parts]
            messages.append({"role": message["role"], "content": said})
        text = self.processor.apply_chat_template(
            messages,
            add_generation_prompt=body.get("add_generation_prompt", True),
            continue_final_message=body.get("continue_final_message", False),
        )
        read = self.processor(text=text, images=pictures or None, return_tensors="pt")
        logprobs_LV = self.model(**read).logits[0].float().log_softmax(-1)
        ids = read.input_ids[0].tolist()
        behind = [{str(id_): {"logprob": float(logprobs_LV[at, id_])}} for at, id_ in enumerate(ids[1:])]
        return [None, *behind]


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory) -> PlainModel:
    return PlainModel(tmp_path_factory.mktemp("exported") / NAME)


@pytest.fixture
def group(tmp_path: Path) -> MediaGroup:
    path = tmp_path / "m.png"
    PIL.Image.fromarray(np.random.default_rng(0).integers(0, 255, (60, 90, 3), dtype=np.uint8)).save(path)
    return MediaGroup("m", (MediaRef(path),), (request(0).question,))


def request(number: int, options: Sequence[str] = LETTERS, **how: Any) -> Request:
    asked = Question(f"q{number}", "m", "Which plane?\n", tuple(options), options[0], "choice", "p")
    return Request(asked, Prompt("Which plane?\n" * (number + 1), asked.options, options[0]), "likelihood", **how)


def answers(opened: Opened, chat: ChatServer, group: MediaGroup, *requests: Request, **how: Any) -> list[Prediction]:
    settings = {"prompt_logprobs": True, "max_retries": 0, **how}
    endpoint = Endpoint(chat.base_url, "test-model", **settings)
    with EndpointAnswerer(endpoint, opened(**settings), max_new_tokens=5, say=lambda text: None) as answerer:
        answerer.expect([(group, requests)])
        found = {each.key.question_id: each for each in answerer.answer(group, requests)}
    return [found[each.question.id] for each in requests]


def serve(chat: ChatServer, plain: PlainModel, wrong: Callable[[dict[str, Any], Rows], Any] = lambda _, r: r) -> None:
    def reply(body: dict[str, Any]) -> Said:
        said = completion("x").body
        assert isinstance(said, dict)
        return Said({**said, "prompt_logprobs": wrong(body, plain.rows(body))})

    chat.reply = reply


def test_options_are_as_likely_as_in_this_process(
    plain: PlainModel, opened: Opened, chat: ChatServer, group: MediaGroup
) -> None:
    requests = [request(0), request(1, WORDS), request(2, WORDS, condition="text_only")]
    serve(chat, plain)
    # The server is not asked to stream, whatever it is asked to do for replies: vLLM streams no such rows.
    there = answers(opened, chat, group, *requests, stream=True)
    local = cpu_answerer(twin(NAME), max_new_tokens=5)
    here = {each.key.question_id: each for each in local.answer(group, requests)}
    for told in there:
        ours = here[told.key.question_id]
        assert told.option_tokens == ours.option_tokens
        assert told.option_logprobs == pytest.approx(ours.option_logprobs, abs=1e-4)
    assert len(chat.bodies) == 15
    assert {body["max_completion_tokens"] for body in chat.bodies} == {1}
    assert answers(opened, chat, group, *requests, stream=True) == there
    assert len(chat.bodies) == 15


def _first(rows: Rows, at: int, logprob: float) -> Rows:
    ((id_, _),) = rows[at].items()  # type: ignore[union-attr]
    return [*rows[:at], {id_: {"logprob": logprob}}, *rows[at:][1:]]


def _is_answered(body: dict[str, Any]) -> bool:
    return bool(body["messages"][-1]["role"] == "assistant")


def _is_closed(body: dict[str, Any]) -> bool:
    return _is_answered(body) and not body.get("continue_final_message")


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        # vLLM's stand-in for minus infinity, and numbers that are no log-probabilities, at the end of the turn.
        (lambda body, rows: _first(rows, len(rows) - 2, -9999.0), "gave -9999.0 as a log-probability"),
        (lambda body, rows: _first(rows, len(rows) - 2, 0.5), "gave 0.5 as a log-probability"),
        # An option whose first token melts with the last one of the prompt.
        (lambda body, rows: rows if _is_answered(body) else [*rows[:-1], {"7": {"logprob": -1.0}}], "other tokens"),
        # A template that writes nothing behind an answer.
        (lambda body, rows: rows[:-2] if _is_closed(body) else rows, "does not end the turn of an answer"),
        # A template that drops the answer.
        (lambda body, rows: rows[:30], "does not end the turn|writes no tokens for an option"),
    ],
)
def test_what_no_option_can_be_read_off_is_refused(
    plain: PlainModel, opened: Opened, chat: ChatServer, group: MediaGroup, wrong: Any, message: str
) -> None:
    serve(chat, plain, wrong)
    with pytest.raises(OptionsError, match=rf"question 'q0' \(text_only\).*({message})"):
        answers(opened, chat, group, request(0, condition="text_only"))


@pytest.mark.parametrize("wrong", [None, [], [None, {"1": {"logprob": -1.0}, "2": {"logprob": -2.0}}], [None, None]])
def test_server_without_the_rows_is_named_and_nothing_is_kept(
    plain: PlainModel, opened: Opened, chat: ChatServer, group: MediaGroup, wrong: Any
) -> None:
    serve(chat, plain, lambda body, rows: wrong)
    with pytest.raises(NoReplyError, match="no prompt_logprobs of one token a row"):
        answers(opened, chat, group, request(0))
    serve(chat, plain)
    assert answers(opened, chat, group, request(0))[0].option_logprobs


def test_longer_option_than_the_rows_that_are_kept(
    plain: PlainModel, opened: Opened, chat: ChatServer, group: MediaGroup
) -> None:
    serve(chat, plain)
    long = "a lesion " * MOST_ROWS
    with pytest.raises(OptionsError, match=r"an option has \d+ tokens; at most 25\d can be read"):
        answers(opened, chat, group, request(0, ("no", long), condition="text_only"))
