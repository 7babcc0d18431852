"""Reads the reply in a server's response, whole or streamed, and refuses a response that holds none."""

import hashlib
import json
import math
import re
import threading
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

from medtune.data.files import replace_file
from medtune.data.json_text import json_value
from medtune.data.types import MediaGroup, Request
from medtune.models.endpoint.messages import Body, Tokens, cost_text, estimated_tokens, sent_shape, sent_sizes
from medtune.models.endpoint.settings import Endpoint

REFUSAL = "refusal"
MOST_ROWS = 256
"""How many of the last tokens of a prompt are kept; a prompt with pictures has thousands."""
CONTENT_FILTER = "content_filter"
LEAST_SECRET = 8
"""Least number of characters of a key that is blotted out; a shorter one could be part of ordinary words."""


MOST_TOKENS = 10**9
"""A server that charges more tokens for one reply has said nothing that can be counted."""

Asked = tuple[MediaGroup, Request]
"""A media group and one request about it."""


class UnreadableReplyError(Exception):
    """The server responded, but not with a complete chat completion.

    Attributes:
        usage: Tokens that were charged all the same; None where the server does not say.
        is_begun: Whether a part of the reply has come, which is charged too.
    """

    def __init__(self, why: str, *, usage: Tokens | None = None, is_begun: bool = False) -> None:
        super().__init__(why)
        self.usage = usage
        self.is_begun = is_begun


class ServedPrompt(NamedTuple):
    """The tokens that the server read, as its `prompt_logprobs` names them."""

    total: int  # Number of tokens of the prompt.
    # The id and the log-probability of each of the last `MOST_ROWS` tokens; the very first token has neither.
    rows: tuple[tuple[int | None, float | None], ...]


@dataclass(frozen=True, slots=True)
class Reply:
    text: str  # The text of the reply, or of its refusal; "" where the model wrote nothing.
    # The server's word for the end of the reply, or "refusal" where the reply has that field; None where the server
    # names none.
    finish_reason: str | None
    # The server's name of the model that replied, often with a date; None where the server names none.
    model: str | None = None
    usage: Tokens | None = None  # Tokens that were charged; None where the server does not say.
    # The tokens of the prompt; None where the server does not give their log-probabilities.
    prompt: ServedPrompt | None = None


def read_completion(text: str) -> Reply:
    """Returns the reply in the body of a response.

    Raises:
        UnreadableReplyError: The body is not JSON, or no chat completion.
    """
    if text.lstrip().startswith("data:"):
        raise UnreadableReplyError("the server streams although it was not asked to; set endpoint.stream=true")
    body = _object(text)
    try:
        return _completion(body)
    except UnreadableReplyError as error:
        error.usage = _usage(body)
        raise


def read_stream(chunks: Iterable[Mapping[str, Any]]) -> Reply:
    """Returns the reply that the pieces of a stream make up.

    Raises:
        UnreadableReplyError: The stream ends before the reply does.
    """
    words: list[str] = []
    refusal: list[str] = []
    finish, model, usage = None, None, None
    for chunk in _until_broken(chunks, words):
        model, usage = _text_or_none(chunk.get("model")) or model, _usage(chunk) or usage
        choices = chunk.get("choices") or ()
        for choice in choices if isinstance(choices, list | tuple) else (None,):
            delta = (choice.get("delta") or {}) if isinstance(choice, dict) else None
            if not isinstance(delta, dict):
                raise UnreadableReplyError("a piece of the stream is no piece of a reply", usage=usage, is_begun=True)
            words.append(_text_or_none(delta.get("content")) or "")
            refusal.append(_text_or_none(delta.get("refusal")) or "")
            finish = _text_or_none(choice.get("finish_reason")) or finish
    if finish is None:
        begun = any(words) or any(refusal)
        raise UnreadableReplyError("the stream broke off before the reply was complete", usage=usage, is_begun=begun)
    said = "".join(refusal)
    return Reply("".join(words) or said, REFUSAL if said else finish, model, usage)


def _until_broken(chunks: Iterable[Mapping[str, Any]], words: list[str]) -> Iterator[Mapping[str, Any]]:
    """Yields the pieces of a stream; an error of one that cannot be read says whether words came before it."""
    try:
        yield from chunks
    except UnreadableReplyError as error:
        error.is_begun = error.is_begun or any(words)
        raise


def without_secret(reply: Reply, secret: str | None) -> Reply:
    """Returns the reply with every occurrence of the key replaced by "[key]", in case the server repeats it."""
    model, finish = reply.model and blotted(reply.model, secret), reply.finish_reason
    return replace(
        reply, text=blotted(reply.text, secret), model=model, finish_reason=finish and blotted(finish, secret)
    )


def blotted(text: str, secret: str | None) -> str:
    """Returns the text with every occurrence of the secret replaced by "[key]"."""
    return text.replace(secret, "[key]") if secret and len(secret) >= LEAST_SECRET else text


def _completion(body: Mapping[str, Any]) -> Reply:
    choices = body.get("choices")
    if not isinstance(choices, list) or not choices or not isinstance(choices[0], dict):
        raise UnreadableReplyError(_said_error(body) or "no choices in the reply")
    message = choices[0].get("message")
    if not isinstance(message, dict):
        raise UnreadableReplyError("no message in the reply", is_begun=True)
    content, refusal = message.get("content"), message.get("refusal")
    if content is not None and not isinstance(content, str):
        raise UnreadableReplyError("the message's content is no text", is_begun=True)
    said = refusal if isinstance(refusal, str) else ""
    finish = REFUSAL if said else _text_or_none(choices[0].get("finish_reason"))
    return Reply(content or said, finish, _text_or_none(body.get("model")), _usage(body), _prompt_rows(body))


def _prompt_rows(body: Mapping[str, Any]) -> ServedPrompt | None:
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
        if not re.fullmatch(r"[0-9]{1,18}", id_):
            return None
        is_number = isinstance(value, int | float) and abs(value) < MOST_TOKENS
        found.append((int(id_), float(value) if isinstance(value, int | float) and is_number else None))
    return ServedPrompt(len(rows), tuple(found))


def _usage(body: Mapping[str, Any]) -> Tokens | None:
    usage = body.get("usage")
    if not isinstance(usage, dict):
        return None
    read, written = usage.get("prompt_tokens"), usage.get("completion_tokens")
    if not (isinstance(read, int) and isinstance(written, int)):
        return None
    return Tokens(int(read), int(written)) if 0 <= read <= MOST_TOKENS and 0 <= written <= MOST_TOKENS else None


def _said_error(body: Mapping[str, Any]) -> str | None:
    error = body.get("error")
    said = error.get("message") if isinstance(error, dict) else error
    return said if isinstance(said, str) else None


def _object(text: str) -> Mapping[str, Any]:
    try:
        body = json_value(text)
    except (ValueError, RecursionError):
        # A page of words comes from a server in between; the beginning of an object from the model's.
        raise UnreadableReplyError("the reply is not JSON", is_begun=text.lstrip().startswith("{")) from None
    if not isinstance(body, dict):
        raise UnreadableReplyError("the reply is no JSON object")
    return body


def _text_or_none(value: object) -> str | None:
    return value if isinstance(value, str) and value else None


def request_hash(base_url: str, body: Body, *, repeat: int) -> str:
    """Returns the SHA-256 of a request in hex digits."""
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
            held: Mapping[str, object] = json_value(path.read_text("utf-8"))
            text, finish, model, usage = (held[name] for name in ("text", "finish_reason", "model", "usage"))
            tokens, prompt = Tokens(*usage) if isinstance(usage, list) else None, held.get("prompt")
            rows = ServedPrompt(prompt[0], tuple(map(tuple, prompt[1]))) if isinstance(prompt, list) else None
            ended, named = (None if each is None else str(each) for each in (finish, model))
            return Reply(str(text), ended, named, tokens, rows)
        except (ValueError, LookupError, TypeError, RecursionError) as error:
            raise ValueError(f"{path}: a broken answer in the cache; remove the file and start again") from error

    def put(self, digest: str, reply: Reply) -> None:
        path = self._path(digest)
        path.parent.mkdir(parents=True, exist_ok=True)
        held = {
            "text": reply.text,
            "finish_reason": reply.finish_reason,
            "model": reply.model,
            "usage": reply.usage,
            **({"prompt": reply.prompt} if reply.prompt else {}),
        }
        replace_file(path, [json.dumps(held).encode()])

    def _path(self, digest: str) -> Path:
        return self._folder / digest[:2] / f"{digest[2:]}.json"


class CostCapError(ValueError):
    """The next request may cost more than the budget has left."""


class Budget:
    """The account of an endpoint's costs, over all commands that share one ledger. Several threads may use it at once.

    Before a request is sent, the highest cost that it may have is set aside, so that several requests under way cannot
    pass the cap together. Where a reply charges more input tokens than were estimated, later estimates are raised by
    the largest ratio so far.

    Attributes:
        spent: Tokens charged so far, those of earlier commands included.
        spent_usd: US dollars charged so far, those of earlier commands included; 0 without prices.
        requests: Number of replies that were charged, those of earlier commands included.
        ratio: Largest ratio of charged to estimated input tokens so far, at least 1.
    """

    def __init__(self, endpoint: Endpoint, ledger: Path) -> None:
        """Reads the costs of earlier commands.

        Args:
            ledger: File with a line for each reply that was charged; it need not exist.
        """
        self._endpoint = endpoint
        self._ledger = ledger
        self._lock = threading.Lock()
        self._set_aside = 0.0
        self.ratio = 1.0
        self.spent = Tokens(0, 0)
        self.spent_usd = 0.0
        self.requests = 0
        for tokens, usd in _read(ledger):
            self._count(tokens, usd)

    def cost(self, tokens: Tokens) -> float:
        """Returns the highest cost of a number of estimated tokens, in US dollars; 0 without prices."""
        return self._endpoint.usd(round(tokens.input * self.ratio), tokens.output)

    def is_above_cap(self, tokens: Tokens) -> bool:
        """Returns whether the costs could pass the cap with these estimated tokens."""
        cap = self._endpoint.max_usd
        return cap is not None and self.spent_usd + self.cost(tokens) > cap

    def refuse_above_cap(self, tokens: Tokens, *, what: str) -> None:
        """Refuses to start work whose costs could pass the cap."""
        if self.is_above_cap(tokens):
            raise CostCapError(
                f"{what} may cost {self.cost(tokens):.2f} USD, {self.spent_usd:.2f} USD are spent, and max_usd is "
                f"{self._endpoint.max_usd:.2f}. Raise max_usd, or ask less (--limit, fewer eval.conditions, "
                "image_max_side, max_new_tokens)"
            )

    @contextmanager
    def reserved(self, estimate: Tokens) -> Iterator[None]:
        """Sets the highest cost of one request aside while the request is under way."""
        with self._lock:
            usd = self.cost(estimate)
            cap = self._endpoint.max_usd
            if cap is not None and self.spent_usd + self._set_aside + usd > cap:
                raise CostCapError(
                    f"stopped before max_usd ({cap:.2f} USD) could be passed: {self.spent_usd:.4f} USD are spent. All "
                    "answers so far are kept; raise max_usd and continue with --resume"
                )
            self._set_aside += usd
        try:
            yield
        finally:
            with self._lock:
                self._set_aside -= usd

    def pay(self, reply: Reply, estimate: Tokens) -> None:
        """Writes a line for a reply that was charged; the estimate counts where the server does not say the tokens."""
        with self._lock:
            tokens = reply.usage or Tokens(round(estimate.input * self.ratio), estimate.output)
            usd = self._endpoint.usd(*tokens)
            line = {**tokens._asdict(), "usd": usd, "model": reply.model, "estimated": reply.usage is None}
            self._ledger.parent.mkdir(parents=True, exist_ok=True)
            with self._ledger.open("a", encoding="ascii") as file:
                file.write(json.dumps(line) + "\n")
            self._count(tokens, usd)
            if reply.usage and estimate.input:
                self.ratio = max(self.ratio, tokens.input / estimate.input)

    def estimate_text(self, tokens: Tokens, *, number: int) -> str:
        """Returns the estimated cost of a number of requests as a sentence for the terminal."""
        return cost_text(self._endpoint, tokens, number=number, ratio=self.ratio, spent_usd=self.spent_usd)

    def text(self) -> str:
        """Returns the costs so far as a sentence for the terminal."""
        charged = f"{self.spent.input:,} input and {self.spent.output:,} output tokens in {self.requests:,} requests"
        if not self._endpoint.has_prices:
            return f"{charged}; no prices are set, so the cost is not known"
        return f"{self.spent_usd:.4f} USD: {charged}"

    def _count(self, tokens: Tokens, usd: float) -> None:
        self.spent = Tokens(self.spent.input + tokens.input, self.spent.output + tokens.output)
        self.spent_usd += usd
        self.requests += 1


def _read(ledger: Path) -> Iterator[tuple[Tokens, float]]:
    if not ledger.is_file():
        return
    *lines, torn = ledger.read_bytes().split(b"\n")
    if torn:
        ledger.write_bytes(b"".join(line + b"\n" for line in lines))
    for number, line in enumerate(lines, start=1):
        try:
            row = json_value(line)
            tokens, usd = Tokens(int(row["input"]), int(row["output"])), float(row["usd"])
            if not (math.isfinite(usd) and usd >= 0 and min(tokens) >= 0):
                raise ValueError("a cost below 0, or none")
            yield tokens, usd
        except (ValueError, LookupError, TypeError, OverflowError, RecursionError) as error:
            raise ValueError(
                f"{ledger}, line {number}: broken; the line records a cost. Repair or remove it, then continue with "
                "--resume"
            ) from error


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
