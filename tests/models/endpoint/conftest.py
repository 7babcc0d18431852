"""Fixtures of the tests of endpoints: a local server and clients of it."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from medtune.models.endpoint.client import ChatClient
from medtune.models.endpoint.replies import Budget, ReplyCache
from medtune.models.endpoint.settings import Endpoint
from tests.models.endpoint.chat_server import KEY, ChatServer, serving

Opened = Callable[..., ChatClient]


@pytest.fixture
def chat() -> Iterator[ChatServer]:
    with serving() as server:
        yield server


@pytest.fixture
def opened(chat: ChatServer, tmp_path: Path) -> Iterator[Opened]:
    """Opens clients of the server, with the cache and the ledger in the test's folder."""
    with ExitStack() as stack:

        def of(**settings: object) -> ChatClient:
            endpoint = Endpoint(chat.base_url, "test-model", **{"max_retries": 3, "timeout_s": 5.0, **settings})  # type: ignore[arg-type]
            budget = Budget(endpoint, tmp_path / "spending.jsonl")
            cache = ReplyCache(tmp_path / "cache")
            return stack.enter_context(ChatClient(endpoint, key=KEY, cache=cache, budget=budget, first_wait_s=0.01))

        yield of
