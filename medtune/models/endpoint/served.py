"""Answers the questions of a benchmark with a model on a server, several at a time, in the order of the benchmark.

The log-probabilities of given options are read off the server's `prompt_logprobs`, which vLLM gives and SGLang not.

Source: vLLM 0.33.0, entrypoints/openai/chat_completion/protocol.py: `prompt_logprobs`, `add_generation_prompt` and
`continue_final_message`.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, as_completed
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from types import TracebackType

from medtune.data.media.load import load_media
from medtune.data.types import MediaGroup, MediaRef, Prediction, PredictionKey, Request
from medtune.models.endpoint.client import ChatClient
from medtune.models.endpoint.messages import Body, Tokens, data_urls, request_body, sampling
from medtune.models.endpoint.replies import (
    MOST_ROWS,
    Asked,
    Budget,
    Reply,
    ReplyCache,
    ServedPrompt,
    num_requests,
    request_tokens,
    total_tokens,
)
from medtune.models.endpoint.settings import Endpoint, read_key
from medtune.models.weights.assets import cache_folder

LEAST_LOGPROB = -9999.0
"""The number that vLLM writes in place of minus infinity and of numbers that are none.

Source: vLLM 0.33.0, entrypoints/openai/utils.py, `clamp_prompt_logprobs`.
"""
_ROUNDING = 1e-3
"""How far above 0 rounding may lift a log-probability."""

AHEAD = 8
"""How many requests are sent before their turn, per concurrent one, so that one slow reply leaves no thread idle."""
MOST_FAILURES = 5
"""Number of requests in a row without a usable reply, after which the server is taken to be down."""


class OptionsError(ValueError):
    """No log-probability of an option can be read off what the server gave."""


def option_bodies(asked: Body, options: Sequence[str]) -> list[Body]:
    """Returns the bodies of the requests that `option_logprobs` reads.

    The first one is the question alone. The second one ends with the first option whose turn is left open. Each further
    one ends with an option and the end of its turn.
    """
    asked = {**asked, "prompt_logprobs": 0}

    def answered(option: str) -> Body:
        messages = [*asked["messages"], {"role": "assistant", "content": option}]
        return {**asked, "messages": messages, "add_generation_prompt": False}

    return [asked, {**answered(options[0]), "continue_final_message": True}, *map(answered, options)]


def has_rows(reply: Reply) -> str | None:
    """Returns why no option can be read off a reply; None if it has the log-probabilities of its prompt."""
    if reply.prompt is not None:
        return None
    return (
        "the response has no prompt_logprobs of one token a row; does the server give them? Otherwise set "
        "model.endpoint.prompt_logprobs=false"
    )


def option_logprobs(replies: Sequence[Reply], *, what: str) -> tuple[tuple[float, ...], tuple[int, ...]]:
    """Returns the log-probability and the number of tokens of each option, the end of its turn included."""
    asked, opened, *closed = [reply.prompt for reply in replies if reply.prompt is not None]
    # What the chat template writes behind the end of a turn, for instance a line break, is no part of an answer.
    behind = closed[0].total - opened.total - 1
    if behind < 0:
        raise OptionsError(f"{what}: the server's chat template does not end the turn of an answer")
    found = [_option(asked, each, behind, what=what) for each in closed]
    return tuple(sum(each) for each in found), tuple(map(len, found))


def _option(asked: ServedPrompt, whole: ServedPrompt, behind: int, *, what: str) -> list[float]:
    number = whole.total - asked.total - behind
    if number < 2:
        raise OptionsError(f"{what}: the server's chat template writes no tokens for an option and the end of its turn")
    shared = len(whole.rows) - behind - number
    if shared < 1:
        raise OptionsError(f"{what}: an option has {number} tokens; at most {MOST_ROWS - behind - 1} can be read")
    ids = [row[0] for row in whole.rows]
    if ids[:shared][-len(asked.rows) :] != [row[0] for row in asked.rows][-shared:]:
        raise OptionsError(
            f"{what}: the server reads other tokens in front of an option than for the question alone, so that the "
            "option cannot be told from them; set model.endpoint.prompt_logprobs=false"
        )
    return [_checked(value, what=what) for _, value in whole.rows[shared : shared + number]]


def _checked(value: float | None, *, what: str) -> float:
    if value is None or not math.isfinite(value) or value <= LEAST_LOGPROB or value > _ROUNDING:
        raise OptionsError(
            f"{what}: the server gave {value} as a log-probability; a score cannot be made of it. The model on the "
            "server gives numbers that are none"
        )
    return min(value, 0.0)


class EndpointAnswerer:
    """An Answerer whose model runs on a server.

    `expect` tells it all questions in advance. It then keeps `concurrency` requests under way at any time, among them
    questions of later groups, whose predictions it holds until `answer` asks for them. The thread that sends a request
    also reads and encodes its images.
    """

    def __init__(
        self, endpoint: Endpoint, client: ChatClient, *, max_new_tokens: int, say: Callable[[str], None]
    ) -> None:
        self._endpoint = endpoint
        self._client = client
        self._max_new_tokens = max_new_tokens
        self._say = say
        self._pool = ThreadPoolExecutor(endpoint.concurrency, thread_name_prefix="endpoint")
        self._waiting: deque[Asked] = deque()
        self._asked: dict[PredictionKey, Future[Prediction]] = {}
        self._urls = lru_cache(maxsize=2 * endpoint.concurrency)(self._encoded)

    def __enter__(self) -> EndpointAnswerer:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        """Drops the requests that were not sent and waits for the replies under way, which the cache keeps."""
        self._waiting.clear()
        self._client.stop()
        self._pool.shutdown(wait=True, cancel_futures=True)

    def expect(self, visits: Sequence[tuple[MediaGroup, Sequence[Request]]]) -> None:
        """Announces the questions that `answer` will get, prints their likely cost and refuses a cost above the cap."""
        wanted = [(group, request) for group, requests in visits for request in requests]
        for _, request in wanted:
            self._refuse_likelihood(request)
        asked = sum(num_requests(request) for _, request in wanted)
        budget, tokens, number = self._client.budget, self._total(wanted), asked
        if budget.is_above_cap(tokens):
            # To know which replies are in the cache, every picture has to be hashed. That is slow, so it is done only
            # where it may bring the cost below the cap.
            rest = [asked for asked in wanted if not self._is_kept(*asked)]
            tokens, number = self._total(rest), sum(num_requests(request) for _, request in rest)
        said = budget.estimate_text(tokens, number=number)
        self._say(f"endpoint   {said}{f', and {asked - number:,} in the cache' if asked > number else ''}")
        budget.refuse_above_cap(tokens, what=f"asking {number:,} questions")
        self._waiting.extend(wanted)

    def answer(self, group: MediaGroup, requests: Sequence[Request]) -> Iterator[Prediction]:
        """Yields one prediction per request, in the order in which the server answers."""
        mine = [self._future(group, request) for request in requests]
        self._fill()
        for future in as_completed(mine):
            yield future.result()
            self._fill()

    def _future(self, group: MediaGroup, request: Request) -> Future[Prediction]:
        self._refuse_likelihood(request)
        known = self._asked.pop(request.key, None)
        if known is not None:
            return known
        if self._waiting and self._waiting[0][1].key == request.key:
            self._waiting.popleft()
        return self._pool.submit(self._predicted, group, request)

    def _fill(self) -> None:
        while self._waiting and len(self._asked) < AHEAD * self._endpoint.concurrency:
            group, request = self._waiting.popleft()
            self._asked[request.key] = self._pool.submit(self._predicted, group, request)

    def _predicted(self, group: MediaGroup, request: Request) -> Prediction:
        what, shown = f"question {request.question.id!r} ({request.condition})", request.question.options
        estimate = request_tokens(self._endpoint, (group, request), max_new_tokens=self._max_new_tokens)
        likely = request.reading == "likelihood"
        accept = has_rows if likely else lambda reply: None
        replies = [
            self._client.ask(body, estimate=estimate, what=what, repeat=request.repeat, accept=accept)
            for body in self._bodies(group, request)
        ]
        if likely:
            logprobs, lengths = option_logprobs(replies, what=what)
            return Prediction(request.key, options_shown=shown, option_logprobs=logprobs, option_tokens=lengths)
        (reply,) = replies
        return Prediction(request.key, options_shown=shown, text=reply.text.strip(), finish_reason=reply.finish_reason)

    def _bodies(self, group: MediaGroup, request: Request) -> list[Body]:
        media = () if request.condition == "text_only" else group.media
        likely = request.reading == "likelihood"
        body = request_body(
            self._endpoint,
            request.prompt,
            [self._urls(ref) for ref in media],
            turns=request.question.turns,
            max_new_tokens=1 if likely else self._max_new_tokens,
        )
        return option_bodies(body, request.prompt.choices) if likely else [body]

    def _encoded(self, ref: MediaRef) -> tuple[str, ...]:
        return data_urls(load_media(ref, sampling(self._endpoint)), self._endpoint)

    def _is_kept(self, group: MediaGroup, request: Request) -> bool:
        return all(self._client.is_kept(body, repeat=request.repeat) for body in self._bodies(group, request))

    def _total(self, wanted: Sequence[Asked]) -> Tokens:
        return total_tokens(self._endpoint, wanted, max_new_tokens=self._max_new_tokens)

    def _refuse_likelihood(self, request: Request) -> None:
        if request.reading == "likelihood" and not self._endpoint.prompt_logprobs:
            raise ValueError(
                "a model behind an endpoint gives no log-likelihood of given options; set eval.readings=[generation]"
            )


@dataclass(frozen=True, slots=True)
class Served:
    endpoint: Endpoint
    ledger: Path  # File with a line for each reply that was charged.
    where: str = "model.endpoint"  # The recipe's block with the settings, for messages.

    @property
    def provenance(self) -> dict[str, str]:
        return {"served model": f"{self.endpoint.model} at {self.endpoint.base_url}; its weights are not known here"}


@contextmanager
def open_client(served: Served, *, say: Callable[[str], None]) -> Iterator[ChatClient]:
    """Opens a client of the server; prints the number of requests and their cost when the context ends."""
    key = read_key(served.endpoint, where=served.where)
    cache = ReplyCache(served.endpoint.cache or cache_folder() / "endpoint")
    client = ChatClient(served.endpoint, key=key, cache=cache, budget=Budget(served.endpoint, served.ledger))
    try:
        with client:
            yield client
    finally:
        say(f"endpoint   {client.sent:,} requests sent, {client.from_cache:,} replies from the cache")
        say(f"           spent in this folder: {client.budget.text()}")


@contextmanager
def open_answerer(served: Served, *, max_new_tokens: int, say: Callable[[str], None]) -> Iterator[EndpointAnswerer]:
    """Opens an Answerer, whose threads and connections end with the context."""
    with (
        open_client(served, say=say) as client,
        EndpointAnswerer(served.endpoint, client, max_new_tokens=max_new_tokens, say=say) as answerer,
    ):
        yield answerer
