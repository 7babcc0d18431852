"""What is asked of a server, whichever engine runs on it: log-probabilities of options, and replies."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, Protocol

from medtune.models.server.prompted import Prompted


class Told(NamedTuple):
    """A reply.

    Attributes:
        ids: The ids of the reply, with the token that ended it.
        ended: Whether the model ended it; False where it was cut at the largest length.
    """

    ids: tuple[int, ...]
    ended: bool


class EngineProtocol(Protocol):
    """The protocol of an engine."""

    def options(self, prompted: Prompted, options: Sequence[Sequence[int]], /) -> list[float]:
        """Returns the log-probability of each option behind the prompt.

        Args:
            prompted: The prompt.
            options: The ids of each option, the end of its turn included.

        Raises:
            ServerError: The server refused, read other tokens, or gave no usable log-probability.
        """
        ...

    def reply(self, prompted: Prompted, /, *, max_new_tokens: int, stop_ids: Sequence[int]) -> Told:
        """Returns the greedy reply to the prompt.

        Raises:
            ServerError: The server refused, read other tokens, or ended the reply for another reason.
        """
        ...

    def version(self, address: str, /) -> str:
        """Returns the version of the engine at an address.

        Raises:
            ServerError: No server of the engine runs there.
        """
        ...
