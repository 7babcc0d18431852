"""Divides the CPU time of a training step, and that of replies, into products, attention, other operators and Python.

Beside them stand transformers' Trainer and `generate`. It says why short pictures gain less than long ones in the bench
of the peers. Both run in medtune's own environment, whose versions are those of the peer's, on the same weights, rows
and adapters, on one thread. The CPU seconds are those of work without a profile; a profile of further work says how
they are divided. It makes each operator a little dearer, so that the share of Python is overstated.
"""

import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch.optim.optimizer import register_optimizer_step_post_hook
from torch.profiler import ProfilerActivity, profile
from transformers import AutoProcessor

from bench.measuring.divided import PARTS, divided
from bench.measuring.measured import Limit, Measured, TwoWays, refuse_subject
from bench.measuring.peer_job import LR, WEIGHT_DECAY, groups, rendered, trainable
from bench.measuring.peer_training import EPOCH_STEPS, LOSS_TOLERANCE, TrainingCase, step_order, steps_of, train, widest
from bench.measuring.peers_qwen import write_peers_model
from bench.measuring.unmixed import unmixed
from bench.other_tools import hf_trainer
from bench.peers_profile.replies import divided_replies
from medtune.trainer.training.batches import MicroBatches

CASE = TrainingCase(questions=8, images=1, visual_tokens=64, target=4.0)
STEPS = 14
COMPARED = 3
MEASURES = ("bench/other_tools/hf_trainer.py", "medtune/models/attention.py", "medtune/models/tuning/fused_lora.py")


@dataclass
class Steps:
    """What the steps after the first epoch took, whichever trainer makes them."""

    last: int
    profiled: bool
    cpu_s: float = 0.0  # The CPU seconds of a step.
    shares: dict[str, float] = field(default_factory=dict)  # The share of each part; empty without a profile.
    operators: float = 0.0  # The operators that a step calls.
    _done: int = 0
    _began: tuple[float, float] = (0.0, 0.0)
    _profile: Any = None

    def __call__(self, *_: object) -> None:
        """Counts a step of an optimizer; the first and the last that count begin and end the measurement."""
        self._done += 1
        if self._done == EPOCH_STEPS:
            if self.profiled:
                self._profile = profile(activities=[ProfilerActivity.CPU])
                self._profile.__enter__()
            self._began = time.process_time(), time.perf_counter()
        elif self._done == self.last:
            counted = self.last - EPOCH_STEPS
            self.cpu_s = (time.process_time() - self._began[0]) / counted
            took_us = (time.perf_counter() - self._began[1]) * 1e6
            if self.profiled:
                self._profile.__exit__(None, None, None)
                self.shares, operators = divided(self._profile, took_us)
                self.operators = operators / counted


def bench(subject: str | None) -> Measured:
    """Returns the figures; there is no other subject."""
    refuse_subject("peers_profile", subject)
    return measured(CASE, steps=STEPS)


def measured(case: TrainingCase, *, steps: int, width: int = 256, layers: int = 6) -> Measured:
    """Returns the parts of a step and of replies with medtune and with transformers, and each in all."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        with tempfile.TemporaryDirectory() as folder:
            scratch = Path(folder)
            weights = scratch / "model"
            weights.mkdir()
            write_peers_model(weights, width=width, layers=layers)
            training, of_training = _divided_step(case, weights, scratch, steps=steps)
            replies, of_replies = divided_replies(weights, scratch)
    finally:
        torch.set_num_threads(threads)
    return Measured(
        f"a step of {case.questions} questions about an image of {case.visual_tokens} tokens, and replies about one, "
        f"random Qwen2.5-VL of width {width} and {layers} layers, float32, CPU seconds of one thread",
        (*training, *replies),
        (*of_training, *of_replies),
    )


def _divided_step(case: TrainingCase, weights: Path, scratch: Path, *, steps: int) -> tuple[list[TwoWays], list[Limit]]:
    images, adapter = scratch / "images", scratch / "adapter"
    images.mkdir()
    asked = groups(images, images=case.images * EPOCH_STEPS, questions=case.questions, visual_tokens=case.visual_tokens)
    learner = trainable(weights, adapter)
    order: dict[str, Any] = {"steps": steps_of(asked, case, num_steps=steps), "timed_from": EPOCH_STEPS}
    job = {"weights": str(weights), "adapter": str(adapter), "lr": LR, "weight_decay": WEIGHT_DECAY}
    mine, my_losses = _taken(lambda: train(learner, asked, case, num_steps=steps).losses, steps)
    theirs, their_losses = _taken(lambda: hf_trainer.train(job, order)["losses"], steps)
    batches = MicroBatches(
        unmixed(asked, rendered, seed=0),
        step_order(asked, case),
        rank=0,
        template=learner.assembled.template,
        transform=learner.assembled.transform,
    )
    collate = hf_trainer.Collator(AutoProcessor.from_pretrained(weights, trust_remote_code=False))
    apart = widest(my_losses[:COMPARED], their_losses[:COMPARED])

    def ways(title: str, quick_s: float, plain_s: float) -> TwoWays:
        return TwoWays(
            title, "medtune", "transformers' Trainer with peft", quick_s, plain_s, apart, LOSS_TOLERANCE, target=0.0
        )

    limits = [
        Limit(
            "tokens that a step reads, and transformers' Trainer reads",
            float(batches[0].rows.ids_BL.numel()),
            float(collate(order["steps"][0])["input_ids"].numel()),
            "tokens",
        ),
        Limit("operators that a step calls, and transformers' Trainer calls", mine.operators, theirs.operators, ""),
    ]
    parts = [ways(part, mine.cpu_s * mine.shares[part], theirs.cpu_s * theirs.shares[part]) for part in PARTS]
    return [ways("the whole step", mine.cpu_s, theirs.cpu_s), *parts], limits


def _taken(work: Callable[[], Sequence[float]], steps: int) -> tuple[Steps, Sequence[float]]:
    """Returns what the steps of a training took, with the shares of a second one, and its losses."""
    plain, divided = Steps(steps, profiled=False), Steps(steps, profiled=True)
    losses: Sequence[float] = ()
    for each in (plain, divided):
        hook = register_optimizer_step_post_hook(each)
        try:
            losses = work()
        finally:
            hook.remove()
    plain.shares, plain.operators = divided.shares, divided.operators
    return plain, losses
