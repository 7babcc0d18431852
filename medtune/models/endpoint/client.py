"""Sends requests to an OpenAI-compatible server: cached replies first, then requests with retries and checks."""

from __future__ import annotations

import json
import random
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from email.utils import parsedate_to_datetime
from functools import partial
from types import TracebackType
from typing import Any, NoReturn

from medtune.models.endpoint.messages import Body, Tokens
from medtune.models.endpoint.replies import (
    CONTENT_FILTER,
    Budget,
    Reply,
    ReplyCache,
    UnreadableReplyError,
    blotted,
    read_completion,
    read_stream,
    request_hash,
    without_secret,
)
from medtune.models.endpoint.settings import Endpoint

FIRST_WAIT_S = 0.5
LONGEST_WAIT_S = 60.0
LONGEST_ASKED_WAIT_S = 600.0
"""Longest pause that a server may ask for, in seconds. A longer one ends the run, which can be continued later."""
MOST_BYTES = 64 << 20
"""The largest response that is read. The log-probabilities of a prompt of 100,000 tokens take about a tenth of it."""
MOST_TIMEOUTS = 30
"""A response may take so many times `endpoint.timeout_s` in all; the value is our own choice: an hour by default."""
_RETRIED = (408, 409, 429)
_FILTERED = ("content_filter", "content_policy_violation", "invalid_prompt")
"""Error codes of a server that does not allow its model to answer a request.

Source: the error tables of Azure OpenAI (content_filter) and of OpenAI's image and reasoning models (the others).
"""
_SHOWN_CHARACTERS = 300


class EndpointError(ValueError):
    """A request could not be answered. The run stops, because no prediction may be made up in its place."""


class NoReplyError(EndpointError):
    """All tries of one request failed, each for a reason that may be gone at the next try."""


class _AgainError(Exception):
    """The request may be sent again, after a pause.

    Attributes:
        pause_s: Pause in seconds that the server asks for; None where it names none.
    """

    def __init__(self, why: str, pause_s: float | None = None) -> None:
        super().__init__(why)
        self.pause_s = pause_s


class ChatClient:
    """A client of one server, which several threads may use at once. Leaving its context closes the connections.

    Attributes:
        from_cache: Number of replies that were read from the cache and cost nothing.
        sent: Number of requests that were sent, repetitions included.
    """

    def __init__(
        self,
        endpoint: Endpoint,
        *,
        key: str | None,
        cache: ReplyCache,
        budget: Budget,
        first_wait_s: float = FIRST_WAIT_S,
    ) -> None:
        import openai

        self._endpoint = endpoint
        self._key = key
        self._cache = cache
        self._first_wait_s = first_wait_s
        self._closed = threading.Event()
        self._lock = threading.Lock()
        self._openai = openai.OpenAI(
            base_url=endpoint.base_url,
            # The library needs a key, also for servers that need none.
            api_key=key or "no-key",
            timeout=endpoint.timeout_s,
            # `ask` repeats requests itself: the library's own repetitions regard neither replies that cannot be read
            # nor the cap.
            max_retries=0,
            # Another host would be sent the patients' images.
            http_client=openai.DefaultHttpxClient(
                follow_redirects=False,
                event_hooks={"response": [partial(_limit, timeout_s=endpoint.timeout_s), self._note_begun]},
            ),
        )
        self._under_way = threading.local()
        self.budget = budget
        self.from_cache = 0
        self.sent = 0

    def __enter__(self) -> ChatClient:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        self.stop()
        self._openai.close()

    def stop(self) -> None:
        """Makes every request fail that waits to be sent or sent again.

        Requests under way come to their end, because the server charges them anyway.
        """
        self._closed.set()

    def is_kept(self, body: Body, *, repeat: int) -> bool:
        return self._cache.get(self._digest(body, repeat)) is not None

    def ask(
        self,
        body: Body,
        *,
        estimate: Tokens,
        what: str,
        repeat: int = 0,
        accept: Callable[[Reply], str | None] = lambda reply: None,
    ) -> Reply:
        """Returns the reply to a request, from the cache where the same request was answered before.

        Args:
            repeat: Number of the repetition; the same body with another number is answered anew.
            accept: Returns None for a reply that can be used, and otherwise the reason why it has to be asked for
                again. Only replies that can be used are kept in the cache.
        """
        digest = self._digest(body, repeat)
        kept = self._cache.get(digest)
        if kept is not None and accept(kept) is None:
            with self._lock:
                self.from_cache += 1
            return kept
        why = ""
        for attempt in range(self._endpoint.max_retries + 1):
            try:
                with self.budget.reserved(estimate):
                    reply = self._once(body, estimate, what)
                wrong = accept(reply)
                if wrong is not None:
                    raise _AgainError(wrong)
            except _AgainError as error:
                why = str(error)
                if attempt < self._endpoint.max_retries:
                    self._wait(attempt, error.pause_s, what)
            else:
                self._cache.put(digest, reply)
                return reply
        raise NoReplyError(
            f"{what}: no usable reply in {self._endpoint.max_retries + 1} tries, the last one: {why}. All answers so "
            "far are kept; continue with --resume"
        )

    def _digest(self, body: Body, repeat: int) -> str:
        return request_hash(self._endpoint.base_url, body, repeat=repeat)

    def _note_begun(self, response: Any) -> None:
        self._under_way.is_begun = response.is_success

    def _once(self, body: Body, estimate: Tokens, what: str) -> Reply:
        import openai

        if self._closed.is_set():
            raise EndpointError(f"{what}: not sent, because the command is stopping")
        with self._lock:
            self.sent += 1
        self._under_way.is_begun = False
        with self._translated(what):
            try:
                # vLLM streams no log-probabilities of the prompt.
                streams = self._endpoint.stream and "prompt_logprobs" not in body
                reply = self._streamed(body) if streams else self._complete_at_once(body)
            except UnreadableReplyError as error:
                if error.usage is not None or error.is_begun:
                    self.budget.pay(Reply("", None, usage=error.usage), estimate)
                raise _AgainError(self._excerpt(str(error))) from None
            except openai.APIConnectionError as error:
                # The server may have answered what never came, and then charges it: the cap has to hold for that too.
                if self._under_way.is_begun or type(error.__cause__).__name__ == "ReadTimeout":
                    self.budget.pay(Reply("", None), estimate)
                raise
            except openai.BadRequestError as error:
                if error.code not in _FILTERED:
                    raise
                # Such a request is not charged, because no model has seen it.
                return Reply("", CONTENT_FILTER)
        reply = without_secret(reply, self._key)
        self.budget.pay(reply, estimate)
        return reply

    def _complete_at_once(self, body: Body) -> Reply:
        create: Any = self._openai.chat.completions.with_raw_response.create
        return read_completion(str(create(**_split(body)).text))

    def _streamed(self, body: Body) -> Reply:
        create: Any = self._openai.chat.completions.create
        with create(**_split(body), stream=True, stream_options={"include_usage": True}) as stream:
            return read_stream(_chunks(stream))

    @contextmanager
    def _translated(self, what: str) -> Iterator[None]:
        import openai

        try:
            yield
        except openai.APITimeoutError:
            raise _AgainError(f"the server was silent for {self._endpoint.timeout_s:g} s") from None
        except openai.APIConnectionError as error:
            if isinstance(error.__cause__, UnreadableReplyError):
                raise _AgainError(str(error.__cause__)) from None
            raise _AgainError(f"no connection ({type(error.__cause__).__name__})") from None
        except openai.APIStatusError as error:
            status, said = error.status_code, self._excerpt(error.message)
            if (status in _RETRIED or status >= 500) and error.code != "insufficient_quota":
                raise _AgainError(f"HTTP {status}: {said}", _asked_pause_s(error.response.headers)) from None
            _refuse(what, status, said)
        except openai.APIError as error:
            raise _AgainError(self._excerpt(error.message)) from None

    def _excerpt(self, said: str) -> str:
        return " ".join(blotted(said, self._key).split())[:_SHOWN_CHARACTERS]

    def _wait(self, attempt: int, asked_s: float | None, what: str) -> None:
        if asked_s is not None and asked_s > LONGEST_ASKED_WAIT_S:
            raise EndpointError(f"{what}: the server asks to wait {asked_s:.0f} s; continue with --resume after that")
        backoff_s = min(LONGEST_WAIT_S, self._first_wait_s * 2**attempt)
        pause_s = backoff_s * random.uniform(0.5, 1.0) + (asked_s or 0.0)
        if self._closed.wait(pause_s):
            raise EndpointError(f"{what}: not sent, because the command is stopping")


def _split(body: Body) -> dict[str, Any]:
    known = ("model", "messages")
    return {
        **{name: body[name] for name in known},
        "extra_body": {name: value for name, value in body.items() if name not in known},
    }


def _chunks(stream: Any) -> Iterator[Mapping[str, Any]]:
    try:
        for chunk in stream:
            if not hasattr(chunk, "model_dump"):
                raise UnreadableReplyError("a piece of the stream is no JSON object")
            yield chunk.model_dump(warnings=False)
    except (json.JSONDecodeError, UnicodeDecodeError):
        raise UnreadableReplyError("a piece of the stream is not JSON") from None


def _asked_pause_s(headers: Mapping[str, str]) -> float | None:
    """Returns the pause that the header Retry-After asks for, in seconds or as a date; None without one.

    Source: RFC 9110, section 10.2.3.
    """
    asked = headers.get("retry-after")
    if asked is None:
        return None
    try:
        return max(0.0, float(asked))
    except ValueError:
        pass
    try:
        return max(0.0, parsedate_to_datetime(asked).timestamp() - time.time())
    except (ValueError, TypeError, OverflowError):
        return None


def _limit(response: Any, *, timeout_s: float) -> None:
    """Ends a response that does not end: `timeout_s` alone is how long the server may be silent in between."""
    most_s, pieces = timeout_s * MOST_TIMEOUTS, response.iter_bytes
    ends_s = time.monotonic() + most_s

    def limited(chunk_size: int | None = None) -> Iterator[bytes]:
        number = 0
        for piece in pieces(chunk_size):
            number += len(piece)
            if number > MOST_BYTES:
                raise UnreadableReplyError(f"the reply is longer than {MOST_BYTES >> 20} MB", is_begun=True)
            if time.monotonic() > ends_s:
                raise UnreadableReplyError(f"the reply took longer than {most_s:g} s", is_begun=True)
            yield piece

    # Whole responses and streams are both read by this method.
    response.iter_bytes = limited


def _refuse(what: str, status: int, said: str) -> NoReturn:
    hints = {
        **dict.fromkeys(
            (301, 302, 303, 307, 308),
            "the server redirects to another address, to which nothing is sent; "
            "set endpoint.base_url to the address that you trust",
        ),
        401: "check the key in the variable that endpoint.key_env names",
        403: "the key may not use this model",
        404: "check endpoint.base_url and endpoint.model",
        400: "the server does not take such a request; check endpoint.temperature, token_limit_field, extra and "
        "image_max_side",
        413: "the request is too large; set endpoint.image_max_side or image_format=jpeg",
        429: "the account has no credit left",
    }
    hint = hints.get(status, "remove the cause")
    raise EndpointError(f"{what}: HTTP {status}: {said}. {hint}, then continue with --resume")
