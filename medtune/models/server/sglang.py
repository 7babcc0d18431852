"""Asks SGLang by token ids, on its endpoint /generate.

Source: SGLang 0.5.23, srt/managers/io_struct.py (GenerateReqInput), srt/managers/tokenizer_manager.py and
srt/managers/scheduler_components/logprob_result_processor.py.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from pydantic import BaseModel, ValidationError

from medtune.models.server.addresses import Addresses, ServerError
from medtune.models.server.engine_protocol import Told
from medtune.models.server.prompted import Prompted, checked_logprob, refuse_other_tokens

PATH = "/generate"


class _Finish(BaseModel):
    type: str


class _About(BaseModel):
    finish_reason: _Finish | None = None
    input_token_logprobs: list[tuple[float | None, int, str | None]] | None = None


class _Response(BaseModel):
    output_ids: list[int] = []
    prompt_token_ids: list[int] | None = None
    meta_info: _About


class Sglang:
    """The protocol of SGLang."""

    def __init__(self, servers: Addresses, *, pieces: Callable[[Sequence[int]], list[str]]) -> None:
        self._servers = servers
        self._pieces = pieces

    def options(self, prompted: Prompted, options: Sequence[Sequence[int]], /) -> list[float]:
        """Returns the log-probability of each option behind the prompt, with one request for each option.

        The server computes the prompt once and takes it from its cache for every further option.
        """
        return [sum(self._tail(prompted.followed_by(option), len(option))) for option in options]

    def reply(self, prompted: Prompted, /, *, max_new_tokens: int, stop_ids: Sequence[int]) -> Told:
        """Returns the greedy reply to the prompt."""
        settings = {"max_new_tokens": max_new_tokens, "stop_token_ids": list(stop_ids)}
        said = self._asked(prompted, settings)
        why = said.meta_info.finish_reason
        if why is None or why.type not in ("stop", "length") or not said.output_ids:
            raise ServerError(f"{prompted.what}: the reply ended with {why and why.type!r}")
        return Told(tuple(said.output_ids), why.type == "stop")

    def version(self, address: str, /) -> str:
        """Returns the version of SGLang at an address."""
        found = self._servers.get(address, "/server_info").get("version")
        if not isinstance(found, str):
            raise ServerError(f"{address}/server_info names no version; does SGLang run there?")
        return found

    def _tail(self, prompted: Prompted, number: int) -> list[float]:
        """Returns the log-probabilities of the last tokens of the prompt."""
        # The first row belongs to the last token before the asked ones and holds no number.
        start = len(prompted.read) - number - 1
        more = {"return_logprob": True, "logprob_start_len": start}
        rows = self._asked(prompted, {"max_new_tokens": 0}, more).meta_info.input_token_logprobs
        if rows is None or [id_ for _, id_, _ in rows[1:]] != list(prompted.read[-number:]):
            raise ServerError(
                f"{prompted.what}: the server gave log-probabilities of {len(rows or ())} tokens; those of the last "
                f"{number} tokens of the prompt were wanted, behind one of the token before them"
            )
        return [checked_logprob(value, what=prompted.what) for value, _, _ in rows[1:]]

    def _asked(self, prompted: Prompted, settings: dict[str, Any], more: dict[str, Any] | None = None) -> _Response:
        body: dict[str, Any] = {
            "input_ids": list(prompted.sent),
            "sampling_params": {"temperature": 0.0, **settings},
            "return_prompt_token_ids": True,
            **(more or {}),
        }
        if prompted.pictures:
            body["image_data"] = list(prompted.pictures)
        said = self._servers.post(PATH, body, home=prompted.home, what=prompted.what)
        try:
            found = _Response.model_validate(said)
        except ValidationError as error:
            raise ServerError(f"{prompted.what}: a response that SGLang does not give: {error}") from error
        refuse_other_tokens(prompted, found.prompt_token_ids, self._pieces)
        return found
