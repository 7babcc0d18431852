"""Times 43 replies about one image that grow as leaves of one tree, against a row for each prompt.

Options and replies to eight questions are timed too: in one pass, as an evaluation asks for both, and in a pass each.
Each way runs three times in turn, and medians are compared. The replies have to be the same, token by token.
"""

from collections.abc import Sequence
from dataclasses import replace

from bench.measuring.long_prompts import (
    BATCH_TOKENS,
    LENGTHS,
    NUM_QUESTIONS,
    RUNS,
    Subject,
    answers,
    compared,
    long_prompts,
)
from bench.measuring.measured import Measured, TwoWays, medians, refuse_subject
from medtune.data.types import Prediction

TARGETS = (5.0, 8.0, 20.0)
"""The ratios to reach at 1,024, 2,048 and 8,192 visual tokens."""
COMPARED = 6
"""Questions whose plain replies are compared."""
FEW = 8
"""Questions whose options are read beside their replies."""
TOLERANCE = 1e-3
"""The largest allowed difference of the log-probabilities of options."""


def bench(subject: str | None) -> Measured:
    """Returns the figures; there is no other subject."""
    refuse_subject("generation", subject)
    return measured(LENGTHS, questions=NUM_QUESTIONS, runs=RUNS)


def measured(lengths: Sequence[int], *, questions: int, runs: int) -> Measured:
    """Returns the comparison at each number of visual tokens."""
    ways = []
    for length, target in zip(lengths, TARGETS, strict=False):
        of = long_prompts(length, "generation", questions=questions)
        title = f"{questions} replies behind {length} visual tokens"
        ways.append(compared(of, title, target=target, apart=_apart(of), tolerance=0.0, runs=runs))
        ways.append(_both_readings(length, questions=min(FEW, questions), runs=runs))
    return Measured(f"{questions} questions about one image, 32-true", tuple(ways))


def _apart(of: Subject) -> float:
    """Returns the share of replies that differ from those of plain rows."""
    mine = answers(of, share_prefix=True, batch_tokens=BATCH_TOKENS)
    plain = answers(of, share_prefix=False, batch_tokens=BATCH_TOKENS, questions=COMPARED)
    by_key = {told.key: told.text for told in mine}
    return sum(by_key[told.key] != told.text for told in plain) / len(plain)


def _both_readings(length: int, *, questions: int, runs: int) -> TwoWays:
    options = long_prompts(length, "likelihood", questions=questions)
    replies = options._replace(requests=tuple(replace(each, reading="generation") for each in options.requests))
    both = options._replace(
        requests=tuple(each for pair in zip(options.requests, replies.requests, strict=True) for each in pair)
    )

    def together() -> list[Prediction]:
        return answers(both, share_prefix=True, batch_tokens=BATCH_TOKENS)

    def alone() -> list[Prediction]:
        return [told for of in (options, replies) for told in answers(of, share_prefix=True, batch_tokens=BATCH_TOKENS)]

    quick_s, plain_s = medians([together, alone], runs=runs)
    return TwoWays(
        title=f"options and replies of {questions} questions behind {length} visual tokens",
        quick="one pass",
        plain="a pass each",
        quick_s=quick_s,
        plain_s=plain_s,
        apart=_largest_difference(together(), alone()),
        tolerance=TOLERANCE,
        target=1.0,
    )


def _largest_difference(some: Sequence[Prediction], others: Sequence[Prediction]) -> float:
    """Returns the largest difference of log-probabilities, infinity where a reply differs."""
    by_key = {told.key: told for told in others}
    if any(told.text != by_key[told.key].text for told in some):
        return float("inf")
    pairs = [(told.option_logprobs or (), by_key[told.key].option_logprobs or ()) for told in some]
    return max(abs(one - other) for mine, its in pairs for one, other in zip(mine, its, strict=True))
