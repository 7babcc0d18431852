"""Writes a question with its pictures as the body of a request, and estimates how many tokens that is."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from medtune.data.media.images import Size
from medtune.data.types import Prompt
from medtune.models.endpoint.settings import Endpoint

Body = dict[str, Any]
"""What is posted, as JSON holds it."""

CHARACTERS_PER_TOKEN = 3
"""English has about four: an estimate made with three errs on the dear side.

Source: the rule of thumb in OpenAI's help page "What are tokens and how to count them?".
"""
PIXELS_PER_TOKEN = 28 * 28
"""Of an image. Tiles of other providers come to fewer tokens.

Source: Qwen2.5-VL, arXiv 2502.13923, section 2.1: patches of 14 pixels, merged two by two.
"""
MESSAGE_TOKENS = 50
"""What a chat template adds, generously."""


class Tokens(NamedTuple):
    """Tokens read and written by a model."""

    input: int
    output: int


def request_body(endpoint: Endpoint, prompt: Prompt, images: Sequence[str], *, max_new_tokens: int) -> Body:
    """Returns the body of one request: the images first, then the text, in one user turn behind any system turn.

    Args:
        endpoint: Model, sampling and image detail.
        prompt: What is asked.
        images: Data URLs.
        max_new_tokens: Length limit of the reply.
    """
    content: list[Mapping[str, Any]] = [
        {"type": "image_url", "image_url": {"url": url, "detail": endpoint.image_detail}} for url in images
    ]
    # Text alone goes as a plain string, which servers of text models ask for.
    asked: object = [*content, {"type": "text", "text": prompt.user}] if content else prompt.user
    system = [{"role": "system", "content": prompt.system}] if prompt.system else []
    return _body(endpoint, [*system, {"role": "user", "content": asked}], max_new_tokens=max_new_tokens)


def judge_body(
    endpoint: Endpoint, system: str, user: str, *, schema: Mapping[str, object] | None, max_new_tokens: int
) -> Body:
    """Returns the body of a request for a verdict.

    Args:
        endpoint: Model and sampling.
        system: How to judge.
        user: What is judged.
        schema: JSON schema that the server is asked to keep to; None asks for none.
        max_new_tokens: Length limit of the reply.
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
    """Returns the tokens of a request, more likely too many than too few; the reply is taken to use its whole limit.

    Example:
        >>> estimated_tokens("Which plane?", [Size(280, 280)], max_new_tokens=16)
        Tokens(input=154, output=16)
    """
    pictures = sum(-(-size.width * size.height // PIXELS_PER_TOKEN) for size in sizes)
    return Tokens(MESSAGE_TOKENS + len(text) // CHARACTERS_PER_TOKEN + pictures, max_new_tokens)


def cost_text(endpoint: Endpoint, tokens: Tokens, *, number: int, ratio: float = 1.0, spent_usd: float = 0.0) -> str:
    """Returns the estimate as a person reads it.

    Args:
        endpoint: With its prices and cap.
        tokens: As `total_tokens` returns them.
        number: How many requests that are.
        ratio: By how much the input was found to be more than estimated.
        spent_usd: In the same run folder before.
    """
    asked = f"{number:,} requests to {endpoint.model}, at most about {round(tokens.input * ratio):,} input and "
    asked += f"{tokens.output:,} output tokens"
    if not endpoint.has_prices:
        return f"{asked}; no prices are set, so the cost is not known"
    usd = endpoint.usd(round(tokens.input * ratio), tokens.output)
    cap = "no max_usd" if endpoint.max_usd is None else f"max_usd {endpoint.max_usd:.2f}"
    return f"{asked}: {usd:.2f} USD ({cap}, spent so far {spent_usd:.2f})"
