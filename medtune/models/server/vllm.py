"""Asks vLLM by token ids, on its endpoint /inference/v1/generate.

Source: vLLM 0.33.0, entrypoints/scale_out/token_in_token_out (protocol.py, serving.py) and sampling_params.py.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from pydantic import BaseModel, ValidationError

from medtune.models.server.addresses import Addresses, ServerError
from medtune.models.server.engine_protocol import Told
from medtune.models.server.engines import MOST_LETTERS
from medtune.models.server.prompted import Prompted, checked_logprob, refuse_other_tokens

PATH = "/inference/v1/generate"


class _Logprob(BaseModel):
    token_id: int
    logprob: float


class _Place(BaseModel):
    top_logprobs: list[_Logprob] = []


class _Places(BaseModel):
    content: list[_Place] | None = None


class _Choice(BaseModel):
    token_ids: list[int] | None = None
    finish_reason: str | None = None
    logprobs: _Places | None = None


class _PromptLogprob(BaseModel):
    logprob: float


class _Response(BaseModel):
    choices: list[_Choice]
    prompt_token_ids: list[int] | None = None
    prompt_logprobs: list[dict[int, _PromptLogprob] | None] | None = None


class Vllm:
    """The protocol of vLLM."""

    def __init__(self, servers: Addresses, *, pieces: Callable[[Sequence[int]], list[str]]) -> None:
        self._servers = servers
        self._pieces = pieces

    def options(self, prompted: Prompted, options: Sequence[Sequence[int]], /) -> list[float]:
        """Returns the log-probability of each option behind the prompt.

        Options of one token are read off the place where the reply would begin, all with one request, and the end of
        each one's turn off the place behind it. These requests share the prompt in the server's cache. Where an option
        is longer, each option is read as a part of the prompt; vLLM then computes the prompt anew for each option, but
        the picture only once.
        """
        letters = [option[0] for option in options]
        if any(len(option) != 2 for option in options) or len(letters) > MOST_LETTERS:
            return [sum(self._tail(prompted.followed_by(option), len(option))) for option in options]
        first = self._next(prompted, letters)
        ends = [self._next(prompted.followed_by(option[:1]), option[1:])[0] for option in options]
        return [letter + end for letter, end in zip(first, ends, strict=True)]

    def reply(self, prompted: Prompted, /, *, max_new_tokens: int, stop_ids: Sequence[int]) -> Told:
        """Returns the greedy reply to the prompt."""
        # The engine's own end tokens are left out of account, so that the reply ends where it would end here.
        settings = {"max_tokens": max_new_tokens, "stop_token_ids": list(stop_ids), "ignore_eos": True}
        choice = self._asked(prompted, settings).choices[0]
        if choice.finish_reason not in ("stop", "length") or not choice.token_ids:
            raise ServerError(f"{prompted.what}: the reply ended with {choice.finish_reason!r}")
        return Told(tuple(choice.token_ids), choice.finish_reason == "stop")

    def version(self, address: str, /) -> str:
        """Returns the version of vLLM at an address."""
        found = self._servers.get(address, "/version").get("version")
        if not isinstance(found, str):
            raise ServerError(f"{address}/version names no version; does vLLM run there?")
        return found

    def _next(self, prompted: Prompted, ids: Sequence[int]) -> list[float]:
        """Returns the log-probability of each id as the token behind the prompt."""
        wanted = list(dict.fromkeys(ids))
        asked = self._asked(prompted, {"max_tokens": 1, "logprobs": len(wanted), "logprob_token_ids": wanted})
        places = asked.choices[0].logprobs
        if places is None or not places.content:
            raise ServerError(f"{prompted.what}: the server gave no log-probabilities of the asked tokens")
        found = {each.token_id: each.logprob for each in places.content[0].top_logprobs}
        return [checked_logprob(found.get(id_), what=prompted.what) for id_ in ids]

    def _tail(self, prompted: Prompted, number: int) -> list[float]:
        """Returns the log-probabilities of the last tokens of the prompt."""
        rows = self._asked(prompted, {"max_tokens": 1, "prompt_logprobs": 0}).prompt_logprobs
        if rows is None or len(rows) != len(prompted.read):
            raise ServerError(
                f"{prompted.what}: the server gave log-probabilities of {len(rows or ())} tokens of the prompt; "
                f"{len(prompted.read)} were wanted"
            )
        found = []
        for id_, row in zip(prompted.read[-number:], rows[-number:], strict=True):
            told = (row or {}).get(id_)
            found.append(checked_logprob(told.logprob if told else None, what=prompted.what))
        return found

    def _asked(self, prompted: Prompted, settings: dict[str, Any]) -> _Response:
        body: dict[str, Any] = {
            "token_ids": list(prompted.sent),
            "sampling_params": {"temperature": 0.0, **settings},
            "return_token_ids": True,
        }
        if prompted.pictures:
            body["content_parts"] = [{"type": "image_url", "url": url} for url in prompted.pictures]
        said = self._servers.post(PATH, body, home=prompted.home, what=prompted.what)
        try:
            found = _Response.model_validate(said)
        except ValidationError as error:
            raise ServerError(f"{prompted.what}: a response that vLLM does not give: {error}") from error
        if not found.choices:
            raise ServerError(f"{prompted.what}: a response without a choice")
        refuse_other_tokens(prompted, found.prompt_token_ids, self._pieces)
        return found
