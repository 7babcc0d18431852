"""Times 43 replies about one image that grow as leaves of one tree, against a row for each prompt.

Each way runs three times in turn, and medians are compared. The replies have to be the same, token by token.
"""

from collections.abc import Sequence

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
from bench.measuring.measured import Measured, refuse_subject

TARGETS = (5.0, 8.0, 20.0)
"""The ratios to reach at 1,024, 2,048 and 8,192 visual tokens."""
COMPARED = 6
"""Questions whose plain replies are compared."""


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
    return Measured(f"{questions} questions about one image, 32-true", tuple(ways))


def _apart(of: Subject) -> float:
    """Returns the share of replies that differ from those of plain rows."""
    mine = answers(of, share_prefix=True, batch_tokens=BATCH_TOKENS)
    plain = answers(of, share_prefix=False, batch_tokens=BATCH_TOKENS, questions=COMPARED)
    by_key = {told.key: told.text for told in mine}
    return sum(by_key[told.key] != told.text for told in plain) / len(plain)
