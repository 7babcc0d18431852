"""Reads the log-probabilities of given options off the `prompt_logprobs` of a server, which vLLM gives and SGLang not.

Source: vLLM 0.33.0, entrypoints/openai/chat_completion/protocol.py: `prompt_logprobs`, `add_generation_prompt` and
`continue_final_message`.
"""

import math
from collections.abc import Sequence

from medtune.models.endpoint.messages import Body
from medtune.models.endpoint.replies import MOST_ROWS, PromptRows, Reply

LEAST_LOGPROB = -9999.0
"""The number that vLLM writes in place of minus infinity and of numbers that are none.

Source: vLLM 0.33.0, entrypoints/openai/utils.py, `clamp_prompt_logprobs`.
"""
_ROUNDING = 1e-3
"""How far above 0 rounding may lift a log-probability."""


class OptionsError(ValueError):
    """No log-probability of an option can be read off what the server gave."""


def option_bodies(asked: Body, options: Sequence[str]) -> list[Body]:
    """Returns the bodies of the requests that `option_logprobs` reads.

    The first one is the question alone. The second one ends with the first option whose turn is left open. Each further
    one ends with an option and the end of its turn.

    Args:
        asked: The body of the request for a reply of one token.
        options: The texts of the options.
    """
    asked = {**asked, "prompt_logprobs": 0}

    def answered(option: str) -> Body:
        messages = [*asked["messages"], {"role": "assistant", "content": option}]
        return {**asked, "messages": messages, "add_generation_prompt": False}

    return [asked, {**answered(options[0]), "continue_final_message": True}, *map(answered, options)]


def has_rows(reply: Reply) -> str | None:
    """Returns why no option can be read off a reply; None if it has the log-probabilities of its prompt."""
    if reply.prompt is not None:
        return None
    return (
        "the response has no prompt_logprobs of one token a row; does the server give them? Otherwise set "
        "model.endpoint.prompt_logprobs=false"
    )


def option_logprobs(replies: Sequence[Reply], *, what: str) -> tuple[tuple[float, ...], tuple[int, ...]]:
    """Returns the log-probability and the number of tokens of each option, the end of its turn included.

    Args:
        replies: The replies to the requests of `option_bodies`.
        what: A name of the question, for messages.

    Raises:
        OptionsError: An option does not continue the prompt token by token, its turn has no end, it is longer than the
            rows that are kept, or the server gave no number for a token.
    """
    asked, opened, *closed = [reply.prompt for reply in replies if reply.prompt is not None]
    # What the chat template writes behind the end of a turn, for instance a line break, is no part of an answer.
    behind = closed[0].total - opened.total - 1
    if behind < 0:
        raise OptionsError(f"{what}: the server's chat template does not end the turn of an answer")
    found = [_option(asked, each, behind, what=what) for each in closed]
    return tuple(sum(each) for each in found), tuple(map(len, found))


def _option(asked: PromptRows, whole: PromptRows, behind: int, *, what: str) -> list[float]:
    number = whole.total - asked.total - behind
    if number < 2:
        raise OptionsError(f"{what}: the server's chat template writes no tokens for an option and the end of its turn")
    shared = len(whole.rows) - behind - number
    if shared < 1:
        raise OptionsError(f"{what}: an option has {number} tokens; at most {MOST_ROWS - behind - 1} can be read")
    ids = [row[0] for row in whole.rows]
    if ids[:shared][-len(asked.rows) :] != [row[0] for row in asked.rows][-shared:]:
        raise OptionsError(
            f"{what}: the server reads other tokens in front of an option than for the question alone, so that the "
            "option cannot be told from them; set model.endpoint.prompt_logprobs=false"
        )
    return [_checked(value, what=what) for _, value in whole.rows[shared : shared + number]]


def _checked(value: float | None, *, what: str) -> float:
    if value is None or not math.isfinite(value) or value <= LEAST_LOGPROB or value > _ROUNDING:
        raise OptionsError(
            f"{what}: the server gave {value} as a log-probability; a score cannot be made of it. The model on the "
            "server gives numbers that are none"
        )
    return min(value, 0.0)
