"""Answers and trains on simulated questions with and without shared beginnings, and prints the ratio of the two.

Run: python -m tests.perf.shared_prefix [MODEL]     (default pocket; precision as `train.precision: auto` resolves)
"""

from __future__ import annotations

import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import torch

from medtune.data.images import load_media
from medtune.data.prepared import prepare
from medtune.data.types import MediaGroup, Request
from medtune.eval.benchmark import Benchmark, benchmark
from medtune.models.answering import LocalAnswerer
from medtune.models.assemble import zoo_entry
from medtune.models.precision import narrow_frozen, precise, resolved
from medtune.models.tuning import apply_tuning
from medtune.models.tuning_plan import Tuning
from medtune.models.vlm import Assembled
from medtune.trainer.batches import MicroBatches
from medtune.trainer.order import StepOrder

CPU = torch.device("cpu")
NUM_GROUPS = 40
STEPS = 4


def answering(
    assembled: Assembled, groups: Sequence[MediaGroup], judged_by: Benchmark
) -> Callable[[bool], list[float]]:
    """Returns what answers every question of the groups, and gives all option log-probabilities."""

    def answer(share_prefix: bool) -> list[float]:
        answerer = LocalAnswerer(
            assembled,
            load_media=load_media,
            device=CPU,
            batch_tokens=4096,
            max_new_tokens=8,
            precise=precise(resolved("auto", CPU), CPU),
            share_prefix=share_prefix,
        )
        found = []
        for group in groups:
            asked = [Request(q, judged_by.render(q, "text"), "likelihood", "image") for q in group.questions]
            found += [value for told in answerer.answer(group, asked) for value in told.option_logprobs or ()]
        return found

    return answer


def training(assembled: Assembled, groups: Sequence[MediaGroup], judged_by: Benchmark) -> Callable[[bool], list[float]]:
    """Returns what runs a few forward and backward passes, and gives their losses."""

    def train(share_prefix: bool) -> list[float]:
        batches = MicroBatches(
            groups,
            StepOrder(num_groups=len(groups), batch_groups=8, micro_batch_groups=8, world_size=1, seed=0),
            rank=0,
            render=lambda question: judged_by.render(question, "text"),
            family=assembled.family,
            transform=assembled.transform,
            load_media=load_media,
            share_prefix=share_prefix,
        )
        losses = []
        for number in range(STEPS):
            batch = batches[number]
            with precise(resolved("auto", CPU), CPU)():
                told = assembled.model(batch.rows, assembled.model.encode(batch.media))
                loss = -told.logprobs_T.sum() / batch.step_target_tokens
            loss.backward()
            losses.append(float(loss.detach()))
        return losses

    return train


def compare(name: str, work: Callable[[bool], list[float]]) -> None:
    """Prints seconds with and without sharing, their ratio, and the largest difference of any value."""
    work(True)
    seconds, values = {}, {}
    for share_prefix in (True, False):
        start = time.perf_counter()
        values[share_prefix] = work(share_prefix)
        seconds[share_prefix] = time.perf_counter() - start
    apart = max(abs(a - b) for a, b in zip(values[True], values[False], strict=True))
    ratio = seconds[False] / seconds[True]
    print(f"{name}: {seconds[True]:.1f} s shared, {seconds[False]:.1f} s plain, ratio {ratio:.2f}; apart {apart:.1e}")


def main(model: str) -> None:
    """Prints both comparisons on simulated images with one to four questions each."""
    assembled, judged_by = zoo_entry(model).assemble(0), benchmark("fetal_gauge")
    apply_tuning(assembled.model, Tuning(), seed=0)
    narrow_frozen(assembled.model, resolved("auto", CPU))
    assembled.model.eval()
    with tempfile.TemporaryDirectory() as folder:
        prepared = prepare("fetal_phantom", benchmark="fetal_gauge", root=None, out=Path(folder) / "data", limit=24)
        groups = prepared.groups("train")[:NUM_GROUPS]
        print(f"{model}, {torch.get_num_threads()} threads, {resolved('auto', CPU)}, {len(groups)} images")
        compare("answering", answering(assembled, groups, judged_by))
        compare("training ", training(assembled, groups, judged_by))


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else "pocket")
