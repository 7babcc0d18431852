"""Asks the same questions about one image with medtune and with lmms-eval."""

import statistics
import time
from collections.abc import Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import torch

from bench.measuring.measured import TwoWays
from bench.measuring.peer_job import groups, opened, rendered, rows_of
from bench.measuring.peer_process import Peer, working
from medtune.data.types import MediaGroup, Prediction, Reading, Request
from medtune.models.answering import LocalAnswerer
from medtune.models.contract import Assembled

NEW_TOKENS = 8
BATCH_TOKENS = 4096
BATCH_SIZES = (1, 8, 43)
"""The batch sizes of lmms-eval that are tried; the one that takes the least CPU time is compared."""
LOGPROB_TOLERANCE = 1e-3
"""The largest difference of two log-probabilities of an option, in nats."""


def compared_answers(
    visual_tokens: int,
    targets: dict[Reading, float],
    *,
    python: Path,
    weights: Path,
    scratch: Path,
    questions: int,
    runs: int,
) -> list[TwoWays]:
    """Returns the comparison of each reading with lmms-eval's cheapest batch: medians of alternating runs, CPU seconds.

    Args:
        targets: The readings, each with the ratio that has to be reached.
    """
    (group,) = groups(scratch, images=1, questions=questions, visual_tokens=visual_tokens)
    assembled = opened(weights)
    assembled.model.eval()
    job = {
        "weights": str(weights),
        "image": str(group.media[0].path),
        "rows": rows_of([group]),
        "max_new_tokens": NEW_TOKENS,
    }
    with working(python, "lmms_answers", job, scratch) as peer:
        return [
            _compared(assembled, group, peer, reading=reading, visual_tokens=visual_tokens, target=target, runs=runs)
            for reading, target in targets.items()
        ]


def _compared(
    assembled: Assembled,
    group: MediaGroup,
    peer: Peer,
    *,
    reading: Reading,
    visual_tokens: int,
    target: float,
    runs: int,
) -> TwoWays:
    mine = answers(assembled, group, reading)
    # This is the warm-up of the peer as well.
    tried = {size: peer({"reading": reading, "batch_size": size}) for size in BATCH_SIZES}
    best = min(tried, key=lambda size: float(tried[size]["seconds"]))
    quick_s, plain_s = [], []
    for _ in range(runs):
        before = time.process_time()
        answers(assembled, group, reading)
        quick_s.append(time.process_time() - before)
        plain_s.append(float(peer({"reading": reading, "batch_size": best})["seconds"]))
    each = f" with {len(group.questions[0].options)} options" if reading == "likelihood" else ""
    return TwoWays(
        title=f"{reading}, {len(group.questions)} questions{each} about one image of {visual_tokens} tokens",
        quick="medtune, one tree",
        plain=f"lmms-eval, batches of {best}, the best of {', '.join(map(str, BATCH_SIZES))}",
        quick_s=statistics.median(quick_s),
        plain_s=statistics.median(plain_s),
        apart=apart(mine, tried[best]["answers"], reading),
        tolerance=LOGPROB_TOLERANCE if reading == "likelihood" else 0.0,
        target=target,
    )


def answers(assembled: Assembled, group: MediaGroup, reading: Reading) -> list[Prediction]:
    """Returns medtune's answers to the questions of the group, in their order; the image is read anew."""
    requests = [Request(question, rendered(question), reading) for question in group.questions]
    answerer = LocalAnswerer(
        assembled, device=torch.device("cpu"), batch_tokens=BATCH_TOKENS, max_new_tokens=NEW_TOKENS, precise=nullcontext
    )
    by_id = {told.key.question_id: told for told in answerer.answer(group, requests)}
    return [by_id[question.id] for question in group.questions]


def apart(mine: Sequence[Prediction], theirs: Sequence[Any], reading: Reading) -> float:
    """Returns the largest difference of log-probabilities, or the share of replies that differ."""
    if reading == "generation":
        return sum(bool(told.text != reply) for told, reply in zip(mine, theirs, strict=True)) / len(mine)
    widest = 0.0
    for told, logprobs in zip(mine, theirs, strict=True):
        for one, other in zip(told.option_logprobs or (), logprobs, strict=True):
            widest = max(widest, abs(one - float(other)))
    return widest
