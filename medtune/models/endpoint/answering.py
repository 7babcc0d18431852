"""Answers the questions of a benchmark with a model on a server, several at a time, in the order of the benchmark."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, as_completed
from functools import lru_cache
from types import TracebackType

from medtune.data.media.load import load_media
from medtune.data.types import MediaGroup, MediaRef, Prediction, PredictionKey, Request
from medtune.models.endpoint.client import ChatClient
from medtune.models.endpoint.estimate import Asked, num_requests, request_tokens, total_tokens
from medtune.models.endpoint.messages import Body, Tokens, request_body
from medtune.models.endpoint.options import has_rows, option_bodies, option_logprobs
from medtune.models.endpoint.pictures import data_urls, sampling
from medtune.models.endpoint.settings import Endpoint

AHEAD = 8
"""How many requests are sent before their turn, per concurrent one, so that one slow reply leaves no thread idle."""


class EndpointAnswerer:
    """An Answerer whose model runs on a server.

    `expect` tells it all questions in advance. It then keeps `concurrency` requests under way at any time, among them
    questions of later groups, whose predictions it holds until `answer` asks for them. The thread that sends a request
    also reads and encodes its images.
    """

    def __init__(
        self,
        endpoint: Endpoint,
        client: ChatClient,
        *,
        max_new_tokens: int,
        say: Callable[[str], None],
    ) -> None:
        self._endpoint = endpoint
        self._client = client
        self._max_new_tokens = max_new_tokens
        self._say = say
        self._pool = ThreadPoolExecutor(endpoint.concurrency, thread_name_prefix="endpoint")
        self._waiting: deque[Asked] = deque()
        self._asked: dict[PredictionKey, Future[Prediction]] = {}
        self._urls = lru_cache(maxsize=2 * endpoint.concurrency)(self._encoded)

    def __enter__(self) -> EndpointAnswerer:
        """Returns the answerer itself."""
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        """Drops the requests that were not sent and waits for the replies under way, which the cache keeps."""
        self._waiting.clear()
        self._client.stop()
        self._pool.shutdown(wait=True, cancel_futures=True)

    def expect(self, visits: Sequence[tuple[MediaGroup, Sequence[Request]]]) -> None:
        """Announces the questions that `answer` will get, prints their likely cost and refuses a cost above the cap.

        Args:
            visits: Media groups with their requests, in the order in which `answer` will get them.

        Raises:
            CostCapError: The requests together may cost more than is left of `max_usd`.
        """
        wanted = [(group, request) for group, requests in visits for request in requests]
        for _, request in wanted:
            self._refuse_likelihood(request)
        asked = sum(num_requests(request) for _, request in wanted)
        budget, tokens, number = self._client.budget, self._total(wanted), asked
        if budget.is_above_cap(tokens):
            # To know which replies are in the cache, every picture has to be hashed. That is slow, so it is done only
            # where it may bring the cost below the cap.
            rest = [asked for asked in wanted if not self._is_kept(*asked)]
            tokens, number = self._total(rest), sum(num_requests(request) for _, request in rest)
        said = budget.estimate_text(tokens, number=number)
        self._say(f"endpoint   {said}{f', and {asked - number:,} in the cache' if asked > number else ''}")
        budget.refuse_above_cap(tokens, what=f"asking {number:,} questions")
        self._waiting.extend(wanted)

    def answer(self, group: MediaGroup, requests: Sequence[Request]) -> Iterator[Prediction]:
        """Yields one prediction per request, in the order in which the server answers.

        Raises:
            EndpointError: A request could not be answered; the replies to the other requests are in the cache.
            CostCapError: The next request may cost more than is left of `max_usd`.
        """
        mine = [self._future(group, request) for request in requests]
        self._fill()
        for future in as_completed(mine):
            yield future.result()
            self._fill()

    def _future(self, group: MediaGroup, request: Request) -> Future[Prediction]:
        self._refuse_likelihood(request)
        known = self._asked.pop(_key(request), None)
        if known is not None:
            return known
        if self._waiting and _key(self._waiting[0][1]) == _key(request):
            self._waiting.popleft()
        return self._pool.submit(self._predicted, group, request)

    def _fill(self) -> None:
        while self._waiting and len(self._asked) < AHEAD * self._endpoint.concurrency:
            group, request = self._waiting.popleft()
            self._asked[_key(request)] = self._pool.submit(self._predicted, group, request)

    def _predicted(self, group: MediaGroup, request: Request) -> Prediction:
        what, shown = f"question {request.question.id!r} ({request.condition})", request.question.options
        estimate = request_tokens(self._endpoint, (group, request), max_new_tokens=self._max_new_tokens)
        likely = request.reading == "likelihood"
        replies = [
            self._client.ask(
                body,
                estimate=estimate,
                what=what,
                repeat=request.repeat,
                accept=has_rows if likely else lambda reply: None,
            )
            for body in self._bodies(group, request)
        ]
        if likely:
            logprobs, lengths = option_logprobs(replies, what=what)
            return Prediction(_key(request), options_shown=shown, option_logprobs=logprobs, option_tokens=lengths)
        (reply,) = replies
        return Prediction(
            _key(request), options_shown=shown, text=reply.text.strip(), finish_reason=reply.finish_reason
        )

    def _bodies(self, group: MediaGroup, request: Request) -> list[Body]:
        media = () if request.condition == "text_only" else group.media
        likely = request.reading == "likelihood"
        body = request_body(
            self._endpoint,
            request.prompt,
            [self._urls(ref) for ref in media],
            turns=request.question.turns,
            max_new_tokens=1 if likely else self._max_new_tokens,
        )
        return option_bodies(body, request.prompt.choices) if likely else [body]

    def _encoded(self, ref: MediaRef) -> tuple[str, ...]:
        return data_urls(load_media(ref, sampling(self._endpoint)), self._endpoint)

    def _is_kept(self, group: MediaGroup, request: Request) -> bool:
        return all(self._client.is_kept(body, repeat=request.repeat) for body in self._bodies(group, request))

    def _total(self, wanted: Sequence[Asked]) -> Tokens:
        return total_tokens(self._endpoint, wanted, max_new_tokens=self._max_new_tokens)

    def _refuse_likelihood(self, request: Request) -> None:
        if request.reading == "likelihood" and not self._endpoint.prompt_logprobs:
            raise ValueError(
                "a model behind an endpoint gives no log-likelihood of given options; set eval.readings=[generation]"
            )


def _key(request: Request) -> PredictionKey:
    return PredictionKey(request.question.id, request.condition, request.reading, request.repeat)
