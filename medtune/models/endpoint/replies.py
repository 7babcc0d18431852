"""Reads the reply in a server's response, whole or streamed, and refuses a response that holds none."""

import contextlib
import hashlib
import json
import os
import tempfile
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

from medtune.models.endpoint.messages import Body, Tokens

REFUSAL = "refusal"
MOST_ROWS = 256
"""How many of the last tokens of a prompt are kept; a prompt with pictures has thousands."""
CONTENT_FILTER = "content_filter"
LEAST_SECRET = 8
"""Least number of characters of a key that is blotted out; a shorter one could be part of ordinary words."""


class UnreadableReplyError(Exception):
    """The server responded, but not with a complete chat completion."""


class PromptRows(NamedTuple):
    """The tokens that the server read, as its `prompt_logprobs` names them.

    Attributes:
        total: Number of tokens of the prompt.
        rows: The id and the log-probability of each of the last `MOST_ROWS` tokens; the very first token has neither.
    """

    total: int
    rows: tuple[tuple[int | None, float | None], ...]


@dataclass(frozen=True, slots=True)
class Reply:
    """The reply of a model.

    Attributes:
        text: The text of the reply, or of its refusal; "" where the model wrote nothing.
        finish_reason: The server's word for the end of the reply, or "refusal" where the reply has that field; None
            where the server names none.
        model: The server's name of the model that replied, often with a date; None where the server names none.
        usage: Tokens that were charged; None where the server does not say.
        prompt: The tokens of the prompt; None where the server does not give their log-probabilities.
    """

    text: str
    finish_reason: str | None
    model: str | None = None
    usage: Tokens | None = None
    prompt: PromptRows | None = None


def read_completion(text: str) -> Reply:
    """Returns the reply in the body of a response.

    Raises:
        UnreadableReplyError: The body is not JSON, or no chat completion.
    """
    if text.lstrip().startswith("data:"):
        raise UnreadableReplyError("the server streams although it was not asked to; set endpoint.stream=true")
    return _completion(_object(text))


def read_stream(chunks: Iterable[Mapping[str, Any]]) -> Reply:
    """Returns the reply that the pieces of a stream make up.

    Raises:
        UnreadableReplyError: The stream ends before the reply does.
    """
    words: list[str] = []
    refusal: list[str] = []
    finish, model, usage = None, None, None
    for chunk in chunks:
        model, usage = _text_or_none(chunk.get("model")) or model, _usage(chunk) or usage
        for choice in chunk.get("choices") or ():
            delta = choice.get("delta") or {}
            words.append(_text_or_none(delta.get("content")) or "")
            refusal.append(_text_or_none(delta.get("refusal")) or "")
            finish = _text_or_none(choice.get("finish_reason")) or finish
    if finish is None:
        raise UnreadableReplyError("the stream broke off before the reply was complete")
    said = "".join(refusal)
    return Reply("".join(words) or said, REFUSAL if said else finish, model, usage)


def without_secret(reply: Reply, secret: str | None) -> Reply:
    """Returns the reply with every occurrence of the key replaced by "[key]", in case the server repeats it."""
    return replace(reply, text=blotted(reply.text, secret), model=reply.model and blotted(reply.model, secret))


def blotted(text: str, secret: str | None) -> str:
    """Returns the text with every occurrence of the secret replaced by "[key]"."""
    return text.replace(secret, "[key]") if secret and len(secret) >= LEAST_SECRET else text


def _completion(body: Mapping[str, Any]) -> Reply:
    choices = body.get("choices")
    if not isinstance(choices, list) or not choices or not isinstance(choices[0], dict):
        raise UnreadableReplyError(_said_error(body) or "no choices in the reply")
    message = choices[0].get("message")
    if not isinstance(message, dict):
        raise UnreadableReplyError("no message in the reply")
    content, refusal = message.get("content"), message.get("refusal")
    if content is not None and not isinstance(content, str):
        raise UnreadableReplyError("the message's content is no text")
    said = refusal if isinstance(refusal, str) else ""
    finish = REFUSAL if said else _text_or_none(choices[0].get("finish_reason"))
    return Reply(content or said, finish, _text_or_none(body.get("model")), _usage(body), _prompt_rows(body))


def _prompt_rows(body: Mapping[str, Any]) -> PromptRows | None:
    rows = body.get("prompt_logprobs")
    if not isinstance(rows, list) or not rows:
        return None
    found: list[tuple[int | None, float | None]] = []
    for number, row in enumerate(rows[-MOST_ROWS:], start=max(0, len(rows) - MOST_ROWS)):
        if row is None and number == 0:
            found.append((None, None))
            continue
        # With more than one entry in a row nobody can tell which of them is the token of the prompt.
        if not isinstance(row, dict) or len(row) != 1:
            return None
        ((id_, told),) = row.items()
        value = told.get("logprob") if isinstance(told, dict) else None
        found.append((int(id_), float(value) if isinstance(value, int | float) else None))
    return PromptRows(len(rows), tuple(found))


def _usage(body: Mapping[str, Any]) -> Tokens | None:
    usage = body.get("usage")
    if not isinstance(usage, dict):
        return None
    read, written = usage.get("prompt_tokens"), usage.get("completion_tokens")
    if not (isinstance(read, int) and isinstance(written, int) and read >= 0 and written >= 0):
        return None
    return Tokens(read, written)


def _said_error(body: Mapping[str, Any]) -> str | None:
    error = body.get("error")
    said = error.get("message") if isinstance(error, dict) else error
    return said if isinstance(said, str) else None


def _object(text: str) -> Mapping[str, Any]:
    try:
        body = json.loads(text)
    except (ValueError, RecursionError):
        raise UnreadableReplyError("the reply is not JSON") from None
    if not isinstance(body, dict):
        raise UnreadableReplyError("the reply is no JSON object")
    return body


def _text_or_none(value: object) -> str | None:
    return value if isinstance(value, str) and value else None


def request_hash(base_url: str, body: Body, *, repeat: int) -> str:
    """Returns the SHA-256 of a request in hex digits.

    Args:
        base_url: Address of the server.
        body: The body, which holds the model, the sampling, the text and the bytes of the images.
        repeat: Number of the repetition.
    """
    asked = json.dumps([base_url.rstrip("/"), body, repeat], sort_keys=True)
    return hashlib.sha256(asked.encode("ascii")).hexdigest()


class ReplyCache:
    """A folder with one small file per reply, which several threads and processes may use at once.

    A file is written under a temporary name and then renamed, so that nobody reads half a reply.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def get(self, digest: str) -> Reply | None:
        """Returns the reply to the request with this hash; None where the cache holds none."""
        path = self._path(digest)
        if not path.is_file():
            return None
        try:
            held: Mapping[str, object] = json.loads(path.read_text("utf-8"))
            text, finish, model, usage = (held[name] for name in ("text", "finish_reason", "model", "usage"))
            tokens, prompt = Tokens(*usage) if isinstance(usage, list) else None, held.get("prompt")
            rows = (
                PromptRows(prompt[0], tuple((id_, told) for id_, told in prompt[1]))
                if isinstance(prompt, list)
                else None
            )
            return Reply(str(text), _maybe(finish), _maybe(model), tokens, rows)
        except (ValueError, KeyError, TypeError) as error:
            raise ValueError(f"{path}: a broken answer in the cache; remove the file and start again") from error

    def put(self, digest: str, reply: Reply) -> None:
        """Writes the reply to the request with this hash."""
        path = self._path(digest)
        path.parent.mkdir(parents=True, exist_ok=True)
        held = {
            "text": reply.text,
            "finish_reason": reply.finish_reason,
            "model": reply.model,
            "usage": reply.usage,
            **({"prompt": reply.prompt} if reply.prompt else {}),
        }
        handle, name = tempfile.mkstemp(dir=path.parent)
        try:
            with os.fdopen(handle, "w", encoding="utf-8") as file:
                json.dump(held, file)
            Path(name).replace(path)
        finally:
            with contextlib.suppress(FileNotFoundError):
                os.unlink(name)

    def _path(self, digest: str) -> Path:
        return self._folder / digest[:2] / f"{digest[2:]}.json"


def _maybe(value: object) -> str | None:
    return None if value is None else str(value)
