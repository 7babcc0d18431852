"""Times a step of grpo, the drawing of replies included, against TRL's GRPOTrainer without vLLM, on one random model.

TRL runs in an environment of its own, which `make bench-rewards` builds, on the same weights, images, questions and
beginning adapters, in float32 on the CPU with one thread. Compared is the CPU time of the steps behind the first one.
Both sides draw with their own random numbers; for the parity medtune learns from the very tokens that TRL drew in its
first step, paid alike, and the norms of the two gradients have to be the same.
"""

import statistics
import tempfile
from pathlib import Path

import torch

from bench.measuring.measured import Limit, Measured, TwoWays, peak_memory_gb, refuse_subject
from bench.measuring.peer_job import LR, WEIGHT_DECAY, groups, rows_of, trainable
from bench.measuring.peer_process import python_of, working
from bench.measuring.peers_qwen import write_peers_model
from bench.rewards.step import DRAWS, NEW_TOKENS, STEPS, TIMED_FROM, order_of, trained

VISUAL_TOKENS = 256
CASES = ((1, 4), (4, 1))
"""Images of a step, and questions about each: four questions in all."""
RUNS = 1
TARGET = 4.0
TOLERANCE = 1e-3
"""The largest difference of the norms of the gradients, in units of TRL's."""


def bench(subject: str | None) -> Measured:
    """Returns the figures; there is no other subject."""
    refuse_subject("rewards", subject)
    python, threads = python_of("trl"), torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        with tempfile.TemporaryDirectory() as folder:
            (weights := Path(folder) / "model").mkdir()
            write_peers_model(weights)
            found = [_compared(python, weights, Path(folder) / f"{images}", images, each) for images, each in CASES]
    finally:
        torch.set_num_threads(threads)
    ways, theirs_gb = zip(*found, strict=True)
    # Each side is a process that imported its tools and trained both cases; its peak never falls.
    memory = Limit("peak memory of medtune's process, TRL's being the limit", peak_memory_gb(), max(theirs_gb), "GB")
    subject = "a random Qwen2.5-VL of width 256 and 6 layers, float32, CPU seconds of one thread"
    return Measured(subject, ways, (memory,))


def _compared(python: Path, weights: Path, scratch: Path, images: int, questions: int) -> tuple[TwoWays, float]:
    """Returns the two ways, and the peak memory of TRL's process in GB."""
    (scratch / "images").mkdir(parents=True)
    asked = groups(scratch / "images", images=images * STEPS, questions=questions, visual_tokens=VISUAL_TOKENS)
    learner = trainable(weights, scratch / "adapter")
    order = order_of(asked, images)
    steps = [rows_of([asked[draw.group] for draw in order.step_groups(step)]) for step in range(STEPS)]
    said = {"steps": steps, "draws": DRAWS, "max_new_tokens": NEW_TOKENS, "timed_from": TIMED_FROM}
    job = {"weights": str(weights), "adapter": str(scratch / "adapter"), "lr": LR, "weight_decay": WEIGHT_DECAY}
    mine, theirs = [], []
    with working(python, "trl_trainer", job, scratch) as peer:
        for _ in range(RUNS):
            mine.append(trained(learner, asked, images)[0])
            found = peer(said)
            theirs.append(found["seconds"])
    _, norms = trained(learner, asked, images, given=(found["drawn"], found["paid"]), steps=1)
    ways = TwoWays(
        title=f"grpo, {questions} questions about each of {images} images of {VISUAL_TOKENS} tokens, {DRAWS} draws",
        quick=f"medtune, {STEPS - TIMED_FROM} steps",
        plain="TRL's GRPOTrainer without vLLM",
        quick_s=statistics.median(mine),
        plain_s=statistics.median(theirs),
        apart=abs(norms[0] / found["norm"] - 1),
        tolerance=TOLERANCE,
        target=TARGET,
    )
    return ways, found["peak_gb"]
