"""Keeps account of the costs of a run, with a line on disk for each charged reply, and holds them below a cap."""

import json
import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

from medtune.data.types import MediaGroup, Request
from medtune.models.endpoint.messages import Tokens, cost_text, estimated_tokens, sent_shape, sent_sizes
from medtune.models.endpoint.replies import Reply
from medtune.models.endpoint.settings import Endpoint


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
            endpoint: The settings; the prices and the cap are taken from them.
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
        """Refuses to start work whose costs could pass the cap.

        Args:
            tokens: The estimated tokens of the work.
            what: A name of the work for the message, e.g. "asking 100 questions".

        Raises:
            CostCapError: The costs could pass the cap.
        """
        if self.is_above_cap(tokens):
            raise CostCapError(
                f"{what} may cost {self.cost(tokens):.2f} USD, {self.spent_usd:.2f} USD are spent, and max_usd is "
                f"{self._endpoint.max_usd:.2f}. Raise max_usd, or ask less (--limit, fewer eval.conditions, "
                "image_max_side, max_new_tokens)"
            )

    @contextmanager
    def reserved(self, estimate: Tokens) -> Iterator[None]:
        """Sets the highest cost of one request aside while the request is under way.

        Raises:
            CostCapError: The costs could pass the cap with this request.
        """
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
            row = json.loads(line)
            yield Tokens(int(row["input"]), int(row["output"])), float(row["usd"])
        except (ValueError, KeyError, TypeError) as error:
            raise ValueError(
                f"{ledger}, line {number}: broken; the line records a cost. Repair or remove it, then continue with "
                "--resume"
            ) from error


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
