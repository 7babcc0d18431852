"""Judges free answers with a language model on a server, several at a time, by the JSON schema of a verdict."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass

from medtune.data.types import JudgeRequest, PredictionKey
from medtune.models.endpoint.client import ChatClient, EndpointError, NoReplyError
from medtune.models.endpoint.messages import Body, Tokens, estimated_tokens, judge_body
from medtune.models.endpoint.replies import Reply
from medtune.models.endpoint.served import MOST_FAILURES
from medtune.models.endpoint.settings import Endpoint


@dataclass(frozen=True, slots=True)
class EndpointJudge:
    """A judge that asks a language model on a server for verdicts."""

    endpoint: Endpoint
    client: ChatClient
    max_new_tokens: int  # Largest length of a reply, in tokens.
    strict: bool  # Whether the server is asked to follow the JSON schema of a verdict.
    say: Callable[[str], None]  # Prints a line for the user.

    @property
    def name(self) -> str:
        return self.endpoint.model

    def replies(
        self, asked: Sequence[JudgeRequest], *, is_usable: Callable[[str], bool]
    ) -> Iterator[tuple[PredictionKey, str | None]]:
        """Yields the key and the reply of each request, in the order in which the server answers.

        The reply is None where no try gave a usable one.
        """
        if not asked:
            return
        new = [request for request in asked if not self.client.is_kept(self._body(request), repeat=0)]
        tokens = [self._tokens(request) for request in new]
        total = Tokens(sum(each.input for each in tokens), sum(each.output for each in tokens))
        kept = f", and {len(asked) - len(new):,} in the cache" if len(new) < len(asked) else ""
        self.say(f"judge      {self.client.budget.estimate_text(total, number=len(new))}{kept}")
        self.client.budget.refuse_above_cap(total, what=f"judging {len(new):,} answers")
        failures = 0
        with ThreadPoolExecutor(self.endpoint.concurrency, thread_name_prefix="judge") as pool:
            under_way = {pool.submit(self._reply, request, is_usable): request.key for request in asked}
            try:
                for future in as_completed(under_way):
                    try:
                        text: str | None = future.result()
                        failures = 0
                    except NoReplyError as error:
                        text, failures = None, failures + 1
                        self.say(f"judge      {error}")
                    yield under_way[future], text
                    if failures == MOST_FAILURES:
                        raise EndpointError(
                            f"{MOST_FAILURES} answers in a row got no verdict; the server seems to be down. Verdicts "
                            "so far are kept: judge again later"
                        )
            except BaseException:
                self.client.stop()
                pool.shutdown(wait=False, cancel_futures=True)
                raise

    def _reply(self, request: JudgeRequest, is_usable: Callable[[str], bool]) -> str:
        def wrong(reply: Reply) -> str | None:
            return None if is_usable(reply.text) else f"no verdict: {reply.text[:80]!r}"

        return self.client.ask(
            self._body(request),
            estimate=self._tokens(request),
            what=f"the judge on question {request.key.question_id!r} ({request.key.condition})",
            accept=wrong,
        ).text

    def _tokens(self, request: JudgeRequest) -> Tokens:
        return estimated_tokens(request.system + request.user, (), max_new_tokens=self.max_new_tokens)

    def _body(self, request: JudgeRequest) -> Body:
        schema = request.schema if self.strict else None
        return judge_body(
            self.endpoint, request.system, request.user, schema=schema, max_new_tokens=self.max_new_tokens
        )
