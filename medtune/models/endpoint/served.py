"""A recipe's served model: opened where questions are to be asked, closed when they are answered."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from medtune.models.endpoint.answering import EndpointAnswerer
from medtune.models.endpoint.budget import Budget
from medtune.models.endpoint.cache import ReplyCache
from medtune.models.endpoint.client import ChatClient
from medtune.models.endpoint.settings import Endpoint, read_key
from medtune.models.weights.assets import cache_folder

NO_LIKELIHOOD = "a model behind an endpoint gives no log-probabilities of given options"


@dataclass(frozen=True, slots=True)
class Served:
    """A model behind an endpoint.

    Attributes:
        ledger: File that says what was spent.
        where: Place of the settings, for messages.
    """

    endpoint: Endpoint
    ledger: Path
    where: str = "model.endpoint"

    @property
    def provenance(self) -> dict[str, str]:
        """What stands in a report where others name their weights."""
        return {"served model": f"{self.endpoint.model} at {self.endpoint.base_url}; its weights are not known here"}


@contextmanager
def open_client(served: Served, *, say: Callable[[str], None]) -> Iterator[ChatClient]:
    """Gives what asks the server, and says in the end what was spent.

    Raises:
        ValueError: The key's variable is not set, or the ledger is broken.
    """
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
    """Gives an Answerer; its threads and connections end with the context.

    Raises:
        ValueError: As `open_client`.
    """
    with (
        open_client(served, say=say) as client,
        EndpointAnswerer(served.endpoint, client, max_new_tokens=max_new_tokens, say=say) as answerer,
    ):
        yield answerer
