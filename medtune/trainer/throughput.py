"""Counts what the passes of a training compute, and says how fast: seconds a step, questions and tokens a second."""

import resource
import sys
import time
from dataclasses import dataclass, field

import torch
from torch import Tensor

from medtune.trainer.devices.peak_flops import StepWork
from medtune.trainer.devices.ranks import summed
from medtune.trainer.training.batches import MicroBatch

STEP_S, QUESTIONS_PER_S, PADDING, PEAK_GB, MFU = (
    "train/step_s", "train/questions_per_s", "train/padding", "train/peak_memory_gb", "train/mfu",
)  # fmt: skip
VISUAL_PER_S, TARGETS_PER_S, TOKENS_PER_S, DRAWS_PER_S = (
    "train/visual_tokens_per_s", "train/target_tokens_per_s", "train/tokens_per_s", "train/draws_per_s",
)  # fmt: skip


@dataclass
class Throughput:
    """The passes since the last report, on this rank. Validations do not count; the saving of a state does.

    Attributes:
        work: The operations of the model; None where none are counted.
        peak: The operations a second that all devices together can do at most; None where that is not known.
    """

    work: StepWork | None = None
    peak: float | None = None
    steps: int = 0
    seconds: float = 0.0
    questions: int = 0
    draws: int = 0
    visual_tokens: int = 0
    target_tokens: int = 0
    computed_tokens: int = 0  # Padding included.
    tokens: float | Tensor = 0.0  # Without padding; a device counts them, for which nothing waits.
    _since_s: float = field(default_factory=lambda: time.monotonic())

    def begin(self) -> None:
        """Notes that passes go on from here: at the start of a stage, and after a validation."""
        self._since_s = time.monotonic()

    def count(self, batch: MicroBatch) -> None:
        rows = batch.rows
        self.questions += batch.num_counted if batch.replies is None else len(batch.question_ids)
        self.draws += 0 if batch.replies is None else batch.replies.num_drawn
        self.visual_tokens += int(rows.media_BL.sum())
        self.target_tokens += rows.target_id_T.numel()
        self.computed_tokens += rows.ids_BL.numel()
        self.tokens = self.tokens + rows.counted.sum()

    def step_done(self) -> None:
        now_s = time.monotonic()
        self.steps, self.seconds, self._since_s = self.steps + 1, self.seconds + now_s - self._since_s, now_s

    def take(self, device: torch.device) -> dict[str, float]:
        """Returns the rates of all devices together since the last call, and begins anew; every rank has to call it."""
        counts = (
            self.questions, self.visual_tokens, self.target_tokens, self.tokens, self.computed_tokens, self.draws
        )  # fmt: skip
        questions, visual, targets, tokens, computed, draws = summed([float(each) for each in counts], device)
        steps, seconds = max(self.steps, 1), max(self.seconds, 1e-9)
        self.steps, self.seconds = 0, 0.0
        self.questions = self.visual_tokens = self.target_tokens = self.computed_tokens = self.draws = 0
        self.tokens = 0.0
        work, peak = self.work, self.peak
        done = 0.0 if work is None else tokens * work.of_token + targets * work.of_target
        return {
            STEP_S: seconds / steps,
            QUESTIONS_PER_S: questions / seconds,
            VISUAL_PER_S: visual / seconds,
            TARGETS_PER_S: targets / seconds,
            TOKENS_PER_S: tokens / seconds,
            PADDING: 1 - tokens / computed if computed else 0.0,
            PEAK_GB: peak_memory_gb(device),
            **({DRAWS_PER_S: draws / seconds} if draws else {}),
            **({MFU: done / seconds / peak} if peak is not None and done else {}),
        }


def peak_memory_gb(device: torch.device) -> float:
    """Returns the most memory that was allocated on a GPU so far, or that a process on a CPU held, in 10^9 bytes."""
    if device.type == "cuda":
        return torch.cuda.max_memory_allocated(device) / 1e9
    held = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return held / (1e9 if sys.platform == "darwin" else 1e6)


def throughput_said(rates: dict[str, float]) -> str:
    """Returns the rates in one line.

    >>> rates = {STEP_S: 0.84, QUESTIONS_PER_S: 38.1, VISUAL_PER_S: 2439.0, TARGETS_PER_S: 76.0}
    >>> rates |= {TOKENS_PER_S: 3100.0, PADDING: 0.041, PEAK_GB: 2.25}
    >>> throughput_said(rates)
    '0.84 s a step, 38.1 questions/s, 3,100 tokens/s (2,439 visual, 76 targets), 4 % padding, 2.2 GB'
    >>> throughput_said({**rates, MFU: 0.413}).partition('targets), ')[2]
    '4 % padding, 2.2 GB, 41 % MFU'
    """
    busy = f", {100 * rates[MFU]:.0f} % MFU" if MFU in rates else ""
    return (
        f"{rates[STEP_S]:.2g} s a step, {rates[QUESTIONS_PER_S]:.3g} questions/s, "
        f"{_round(rates[TOKENS_PER_S])} tokens/s ({_round(rates[VISUAL_PER_S])} visual, "
        f"{_round(rates[TARGETS_PER_S])} targets), "
        f"{100 * rates[PADDING]:.0f} % padding, {rates[PEAK_GB]:.1f} GB{busy}"
    )


def _round(number: float) -> str:
    return f"{round(number):,}"
