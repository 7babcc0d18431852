"""43 questions about an image of thousands of visual tokens, asked in one tree and as plain rows."""

from contextlib import nullcontext
from typing import NamedTuple

import torch

from bench.measuring.long_image import WIDTH, long_image_model
from bench.measuring.measured import TwoWays, medians
from medtune.data.media.load import BLANKS
from medtune.data.types import MediaGroup, Prediction, Prompt, Question, Reading, Request
from medtune.models.answering import LocalAnswerer
from medtune.models.contract import Assembled

LENGTHS = (1024, 2048, 8192)
"""Visual tokens of the image."""
NUM_QUESTIONS = 43
"""Questions about one CT in CTLesionVQA."""
OPTIONS = ("liver", "left kidney", "spleen", "no")
NEW_TOKENS = 8
RUNS = 3
BATCH_TOKENS = 4096
ROWS = (1, 4, 16)
"""The numbers of plain rows in a batch that are tried; the fastest is compared."""
PLAIN_TOKENS = 40_000
"""Tokens of plain rows that are timed, at least one question; the time of all questions is scaled up from these."""


class Subject(NamedTuple):
    """What a bench asks."""

    assembled: Assembled  # The model.
    requests: tuple[Request, ...]  # The requests, one for each question.


def long_prompts(num_tokens: int, reading: Reading, *, questions: int = NUM_QUESTIONS, width: int = WIDTH) -> Subject:
    """Returns a model with random weights that reads an image as that many tokens, and questions about it."""
    assembled = long_image_model(num_tokens, width=width, most_places=2 * LENGTHS[-1])
    asked = [
        Question(f"q{n}", "m", f"Where is lesion number {n} of this scan?", OPTIONS, "no", "choice", "p")
        for n in range(questions)
    ]
    requests = tuple(Request(each, Prompt(each.text, OPTIONS, "no"), reading) for each in asked)
    return Subject(assembled, requests)


def answers(of: Subject, *, share_prefix: bool, batch_tokens: int, questions: int | None = None) -> list[Prediction]:
    """Returns the answers to the first questions, or to all for None, in their order."""
    requests = of.requests[:questions]
    group = MediaGroup("m", (BLANKS["image"],), tuple(request.question for request in requests))
    answerer = LocalAnswerer(
        of.assembled,
        device=torch.device("cpu"),
        batch_tokens=batch_tokens,
        max_new_tokens=NEW_TOKENS,
        precise=nullcontext,
        share_prefix=share_prefix,
    )
    return list(answerer.answer(group, requests))


def compared(of: Subject, title: str, *, target: float, apart: float, tolerance: float, runs: int = RUNS) -> TwoWays:
    """Returns the time of the shared tree and that of the best batch of plain rows, medians of alternating runs."""
    each = len(of.requests[0].prompt.choices) if of.requests[0].reading == "likelihood" else 1
    length = len(of.assembled.template.layout(of.requests[0].prompt.text, OPTIONS[1]).ids) + NEW_TOKENS
    few = max(1, min(len(of.requests), PLAIN_TOKENS // (length * each)))

    def plain(rows: int) -> None:
        answers(of, share_prefix=False, batch_tokens=rows * length, questions=few)

    def quick() -> None:
        answers(of, share_prefix=True, batch_tokens=BATCH_TOKENS)

    tried = [rows for rows in ROWS if rows <= few * each]
    quick_s, *plain_s = medians([quick, *(lambda rows=rows: plain(rows) for rows in tried)], runs=runs)
    best = min(range(len(tried)), key=plain_s.__getitem__)
    return TwoWays(
        title=title,
        quick="one tree",
        plain=f"batches of {tried[best]} plain rows, the best of {', '.join(map(str, tried))}, timed on {few} of "
        f"{len(of.requests)} questions and scaled",
        quick_s=quick_s,
        plain_s=plain_s[best] * len(of.requests) / few,
        apart=apart,
        tolerance=tolerance,
        target=target,
    )
