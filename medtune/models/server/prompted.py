"""A prompt as a server is sent it and as it has to read it, and the refusal of a server that read something else."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import chain

from medtune.models.sequence.layout import Span
from medtune.models.server.addresses import ServerError

LEAST_LOGPROB = -9999.0
"""The number that vLLM writes in place of minus infinity and of numbers that are none.

Source: vLLM 0.33.0, entrypoints/scale_out/token_in_token_out/serving.py, `_clamp_logprob`.
"""
_ROUNDING = 1e-3
"""How far above 0 rounding may lift a log-probability."""


@dataclass(frozen=True, slots=True)
class Prompted:
    """A prompt for a server, with or without an answer behind it.

    Attributes:
        sent: The ids that are sent, in which each picture stands as the chat template writes it.
        read: The ids that the model has to read, with all visual tokens.
        spans: The places of the visual tokens in `read`.
        pictures: The pictures as data URLs, in the order of their places.
        home: The name of the media item; prompts about the same item go to the same server.
        what: A name of the question, for messages.
    """

    sent: tuple[int, ...]
    read: tuple[int, ...]
    spans: tuple[Span, ...]
    pictures: tuple[str, ...]
    home: str
    what: str

    def followed_by(self, ids: Sequence[int]) -> Prompted:
        """Returns the prompt with an answer behind it."""
        return replace(self, sent=(*self.sent, *ids), read=(*self.read, *ids))


def refuse_other_tokens(
    prompted: Prompted, got: Sequence[int] | None, pieces: Callable[[Sequence[int]], list[str]]
) -> None:
    """Refuses a response to other tokens than the model reads in this process.

    Visual tokens have no text and other ids on some servers, so that only their number and places are compared.

    Args:
        prompted: The prompt.
        got: The ids that the server says it has read.
        pieces: Returns the text of each id.

    Raises:
        ServerError: The server does not say what it read, or it read something else; the message names the first place.
    """
    if got is None:
        raise ServerError(f"{prompted.what}: the server does not say which tokens it read; is its version too old?")
    wanted = prompted.read
    visual = set(chain.from_iterable(range(span.start, span.stop) for span in prompted.spans))
    places = range(max(len(wanted), len(got)))
    first = next((at for at in places if at not in visual and _at(wanted, at) != _at(got, at)), None)
    if first is None:
        return
    shown = [
        f"{ids[first]} {pieces([ids[first]])[0]!r}" if first < len(ids) else "the end of the prompt"
        for ids in (wanted, got)
    ]
    raise ServerError(
        f"{prompted.what}: the server read another prompt: token {first + 1} should be {shown[0]} and is {shown[1]}; "
        f"{len(wanted)} tokens were wanted and {len(got)} read, {len(visual)} of them visual. Its processor differs: "
        "let it serve the exported folder, with the version that the documentation names"
    )


def _at(ids: Sequence[int], place: int) -> int | None:
    return ids[place] if place < len(ids) else None


def checked_logprob(value: float | None, *, what: str) -> float:
    """Returns the log-probability after checking that it is one.

    Raises:
        ServerError: The server left it out, wrote a stand-in for minus infinity, or wrote no log-probability.
    """
    if value is None or not math.isfinite(value) or value <= LEAST_LOGPROB or value > _ROUNDING:
        raise ServerError(
            f"{what}: the server gave {value} as a log-probability; a score cannot be made of it. The model on the "
            "server gives numbers that are none, or rows of its response are missing"
        )
    return min(value, 0.0)
