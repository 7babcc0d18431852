"""Yields broken replies of a server: completions and streams with a value replaced by an odd one."""

import copy
import json
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from medtune.models.endpoint.messages import Tokens
from medtune.models.endpoint.replies import (
    Budget,
    Reply,
    ReplyCache,
    UnreadableReplyError,
    read_completion,
    read_stream,
)
from medtune.models.endpoint.settings import Endpoint
from tests.faults.harness import PLANTED, Broken

ODD: tuple[Any, ...] = (
    None, True, False, 0, -1, 10**400, 1.5, float("nan"), float("inf"), "", "words", PLANTED, [], {}, [None], [[]], [1],
    ["a"], {"a": 1}, {"": None}, "\ud800", "\x00", [{}], [{"delta": 3}], [{"message": "a"}], "9" * 400,
)  # fmt: skip
WHOLE: dict[str, Any] = {
    "id": "c", "object": "chat.completion", "model": "m", "usage": {"prompt_tokens": 7, "completion_tokens": 2},
    "choices": [
        {"index": 0, "finish_reason": "stop", "message": {"role": "assistant", "content": "yes", "refusal": None}}
    ],
    "prompt_logprobs": [None, {"12": {"logprob": -0.5, "rank": 1}}, {"13": {"logprob": -1.5, "rank": 2}}],
}  # fmt: skip
PIECES: list[dict[str, Any]] = [
    {"model": "m", "choices": [{"index": 0, "delta": {"content": "ye"}, "finish_reason": None}]},
    {"model": "m", "choices": [{"index": 0, "delta": {"content": "s"}, "finish_reason": "stop"}]},
    {"model": "m", "choices": [], "usage": {"prompt_tokens": 7, "completion_tokens": 2}},
]
PRICED = Endpoint(
    "http://server.invalid/v1", "m", usd_per_million_input_tokens=1.0, usd_per_million_output_tokens=2.0, max_usd=1e9
)


def server_replies(draw: random.Random, folder: Path) -> Iterator[Broken]:
    """Yields replies that are read, kept in the cache, read again, and paid."""
    cache, number = ReplyCache(folder / "cache"), 0
    while True:
        whole: Any = copy.deepcopy(draw.choice((WHOLE, PIECES)))
        places = [_put_odd(whole, draw) for _ in range(draw.choice((1, 1, 1, 2, 3)))]
        number += 1

        def read(whole: Any = whole, number: int = number) -> None:
            try:
                reply = read_completion(json.dumps(whole)) if isinstance(whole, dict) else read_stream(whole)
            except UnreadableReplyError as error:
                if PLANTED not in str(error):
                    raise ValueError(str(error)) from error
                raise ValueError("a server's own words, which are shown") from error
            cache.put(f"{number:064x}", reply)
            assert cache.get(f"{number:064x}") == reply
            _pay(PRICED, folder / "ledger.jsonl", reply)

        yield Broken(f"{places} in {'a stream' if isinstance(whole, list) else 'a completion'}", read)


def _pay(endpoint: Endpoint, ledger: Path, reply: Reply) -> None:
    budget = Budget(endpoint, ledger)
    budget.pay(reply, Tokens(7, 2))
    again = Budget(endpoint, ledger)
    assert again.spent_usd == budget.spent_usd < 1e6
    again.text()


def _put_odd(whole: Any, draw: random.Random) -> str:
    """Replaces a value anywhere in a reply, and returns where."""
    at, path = whole, "reply"
    while True:
        keys = list(at) if isinstance(at, dict) else range(len(at))
        if not keys:
            return path
        key = draw.choice(list(keys))
        path = f"{path}.{key}"
        if isinstance(at[key], dict | list) and at[key] and draw.random() < 0.75:
            at = at[key]
            continue
        if isinstance(at, dict) and draw.random() < 0.15:
            at[draw.choice(("words", "9" * 400, "-1"))] = at.pop(key)
            return f"{path} renamed"
        # The pieces of a stream are objects, which the library has read.
        at[key] = {} if at is whole and isinstance(at, list) else draw.choice(ODD)
        return f"{path}={at[key]!r:.40}"
