"""Estimates the tokens of questions before any of them is asked."""

from collections.abc import Iterable

from medtune.data.types import MediaGroup, Request
from medtune.models.endpoint.messages import Tokens, estimated_tokens
from medtune.models.endpoint.pictures import sent_shape, sent_sizes
from medtune.models.endpoint.settings import Endpoint

Asked = tuple[MediaGroup, Request]
"""A media group and one request about it."""


def request_tokens(endpoint: Endpoint, asked: Asked, *, max_new_tokens: int) -> Tokens:
    """Returns the estimated tokens of one request to the server; only the headers of its media files are read."""
    group, request = asked
    shown = request.condition != "text_only"
    media = group.media if shown else ()
    sizes = [size for ref in media for size in sent_sizes(sent_shape(ref, endpoint), endpoint)]
    earlier = "".join(text for turn in request.question.turns for text in turn)
    if request.reading == "likelihood":
        option = max(request.prompt.choices, key=len)
        return estimated_tokens(earlier + request.prompt.text + option, sizes, max_new_tokens=1)
    return estimated_tokens(earlier + request.prompt.text, sizes, max_new_tokens=max_new_tokens)


def num_requests(request: Request) -> int:
    """Returns how many requests a question needs: one for a reply, and two more than options for a likelihood."""
    return len(request.prompt.choices) + 2 if request.reading == "likelihood" else 1


def total_tokens(endpoint: Endpoint, asked: Iterable[Asked], *, max_new_tokens: int) -> Tokens:
    """Returns the sum of the estimated tokens of all requests."""
    counts = [(num_requests(one[1]), request_tokens(endpoint, one, max_new_tokens=max_new_tokens)) for one in asked]
    return Tokens(sum(n * count.input for n, count in counts), sum(n * count.output for n, count in counts))
