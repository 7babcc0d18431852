"""Writes a question with its pictures as the body of a request, and estimates how many tokens the request has."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from medtune.data.media.images import Size
from medtune.data.types import Prompt, Turn
from medtune.models.endpoint.settings import Endpoint
from medtune.models.sequence.conversation import Piece, user_turns

Body = dict[str, Any]
"""The body of a request: a JSON object."""

CHARACTERS_PER_TOKEN = 3
"""Characters of a text that count as one token. English has about four; three makes the estimate rather too high.

Source: the rule of thumb in OpenAI's help page "What are tokens and how to count them?".
"""
PIXELS_PER_TOKEN = 28 * 28
"""Pixels of an image that count as one token. Providers that cut images into tiles charge fewer tokens.

Source: Qwen2.5-VL, arXiv 2502.13923, section 2.1: patches of 14 pixels, merged two by two.
"""
MESSAGE_TOKENS = 50
"""Tokens that a chat template adds to a request, a generous estimate."""


class Tokens(NamedTuple):
    """Numbers of tokens.

    Attributes:
        input: Tokens that the model reads.
        output: Tokens that the model writes.
    """

    input: int
    output: int


def request_body(
    endpoint: Endpoint,
    prompt: Prompt,
    media: Sequence[Sequence[str]],
    *,
    turns: Sequence[Turn] = (),
    max_new_tokens: int,
) -> Body:
    """Returns the body of one request: the turns of the conversation, behind any system turn.

    The pictures of each media item stand where the text says their place, else all in front of the first turn.

    Args:
        endpoint: The settings; the model, the sampling and the image detail are taken from them.
        prompt: The texts of the system turn and the last user turn.
        media: The pictures of each media item as data URLs, in the order in which they are shown.
        turns: The turns before the last one.
        max_new_tokens: Largest length of the reply, in tokens.
    """
    user = prompt.user
    if prompt.pictures_gap:
        user = user.replace(prompt.pictures_gap, str(sum(map(len, media))), 1)
    messages = [{"role": "system", "content": prompt.system}] if prompt.system else []
    answers = [*(turn.answer for turn in turns), None]
    for pieces, answer in zip(user_turns(user, turns, num_items=len(media)), answers, strict=True):
        messages.append({"role": "user", "content": _content(pieces, media, endpoint)})
        if answer is not None:
            messages.append({"role": "assistant", "content": answer})
    return _body(endpoint, messages, max_new_tokens=max_new_tokens)


def _content(pieces: Sequence[Piece], media: Sequence[Sequence[str]], endpoint: Endpoint) -> Any:
    # A text without images is sent as a plain string, because servers of text models accept nothing else.
    if all(isinstance(piece, str) for piece in pieces):
        return "".join(map(str, pieces))
    content: list[Mapping[str, Any]] = []
    for piece in pieces:
        if isinstance(piece, str):
            content.append({"type": "text", "text": piece})
        else:
            content += [
                {"type": "image_url", "image_url": {"url": url, "detail": endpoint.image_detail}}
                for url in media[piece]
            ]
    return content


def judge_body(
    endpoint: Endpoint, system: str, user: str, *, schema: Mapping[str, object] | None, max_new_tokens: int
) -> Body:
    """Returns the body of a request for a verdict.

    Args:
        endpoint: The settings; the model and the sampling are taken from them.
        system: The instructions for the judge.
        user: The question with the answer that is to be judged.
        schema: JSON schema that the server is asked to follow in its reply; None leaves the form of the reply open.
        max_new_tokens: Largest length of the reply, in tokens.
    """
    turns: list[Mapping[str, Any]] = [{"role": "system", "content": system}, {"role": "user", "content": user}]
    body = _body(endpoint, turns, max_new_tokens=max_new_tokens)
    if schema is not None:
        named = {"name": "verdict", "strict": True, "schema": schema}
        body["response_format"] = {"type": "json_schema", "json_schema": named}
    return body


def _body(endpoint: Endpoint, messages: Sequence[Mapping[str, Any]], *, max_new_tokens: int) -> Body:
    body: Body = {
        "model": endpoint.model,
        "messages": list(messages),
        endpoint.token_limit_field: max_new_tokens,
        **endpoint.extra_fields,
    }
    if endpoint.temperature is not None:
        body["temperature"] = endpoint.temperature
    return body


def estimated_tokens(text: str, sizes: Sequence[Size], *, max_new_tokens: int) -> Tokens:
    """Returns an estimate of the tokens of a request, rather too high than too low.

    The reply is counted with its full length limit.

    Args:
        text: All text of the request.
        sizes: The size of each picture that is sent, in pixels.
        max_new_tokens: Largest length of the reply, in tokens.

    Example:
        >>> estimated_tokens("Which plane?", [Size(280, 280)], max_new_tokens=16)
        Tokens(input=154, output=16)
    """
    pictures = sum(-(-size.width * size.height // PIXELS_PER_TOKEN) for size in sizes)
    return Tokens(MESSAGE_TOKENS + len(text) // CHARACTERS_PER_TOKEN + pictures, max_new_tokens)


def cost_text(endpoint: Endpoint, tokens: Tokens, *, number: int, ratio: float = 1.0, spent_usd: float = 0.0) -> str:
    """Returns the estimated cost of requests as a sentence for the terminal.

    Args:
        endpoint: The settings; the model, the prices and the cap are taken from them.
        tokens: The estimated tokens of all requests.
        number: Number of requests.
        ratio: Factor by which earlier replies charged more input tokens than estimated; the estimate is raised by it.
        spent_usd: US dollars that were spent before in the same run folder.
    """
    asked = f"{number:,} requests to {endpoint.model}, at most about {round(tokens.input * ratio):,} input and "
    asked += f"{tokens.output:,} output tokens"
    if not endpoint.has_prices:
        return f"{asked}; no prices are set, so the cost is not known"
    usd = endpoint.usd(round(tokens.input * ratio), tokens.output)
    cap = "no max_usd" if endpoint.max_usd is None else f"max_usd {endpoint.max_usd:.2f}"
    return f"{asked}: {usd:.2f} USD ({cap}, spent so far {spent_usd:.2f})"
