"""Opens the client and the answerer of a model on a server, and closes them when all questions are answered."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from medtune.models.endpoint.answering import EndpointAnswerer
from medtune.models.endpoint.budget import Budget
from medtune.models.endpoint.client import ChatClient
from medtune.models.endpoint.replies import ReplyCache
from medtune.models.endpoint.settings import Endpoint, read_key
from medtune.models.weights.assets import cache_folder

NO_LIKELIHOOD = "a model behind an endpoint gives no log-probabilities of given options"


@dataclass(frozen=True, slots=True)
class Served:
    """A model on a server.

    Attributes:
        endpoint: The settings.
        ledger: File with a line for each reply that was charged.
        where: The recipe's block with the settings, for messages.
    """

    endpoint: Endpoint
    ledger: Path
    where: str = "model.endpoint"

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
