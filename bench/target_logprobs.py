"""Times reading the log-probabilities of targets a few at a time, with gradients, against holding all their logits.

Both ways read the same random states by one frozen output layer with the vocabulary of Qwen2.5-VL. Further figures are
the memory that each way takes beside what is there already; the plain way takes that of 10,000 targets by proportion
and is not run with them.
"""

from __future__ import annotations

import gc
import statistics
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from bench.measuring.measured import GB, Limit, Measured, TwoWays, refuse_subject, timed
from medtune.models.assemble import zoo_entry
from medtune.models.target_logprobs import OfStates, TargetLogprobs, of_logits

VOCABULARY, WIDTH = 152_064, 64
TARGETS, MANY_TARGETS = 3_000, 10_000
REPEATS = 2
RATIO = 0.9
"""The target: reading in chunks saves memory, and must not cost more than a tenth of the time."""
MEMORY_GB = 0.6
WITHIN = {torch.float32: 1e-5, torch.bfloat16: 2e-2}
"""The largest allowed difference of log-probabilities and gradients, relative to the largest; bfloat16 rounds."""

Read = Callable[[Any, Tensor, Tensor], TargetLogprobs]


class Cost(NamedTuple):
    """What a way costs and gives: seconds, GB of memory beside what was there, and its numbers."""

    seconds: float
    gb: float
    numbers: Tensor


def bench(subject: str | None) -> Measured:
    """Returns the figures of both types of numbers, and the memory."""
    refuse_subject("target_logprobs", subject)
    return measured(targets=TARGETS, many=MANY_TARGETS, vocabulary=VOCABULARY, repeats=REPEATS)


def measured(*, targets: int, many: int, vocabulary: int, repeats: int) -> Measured:
    """Returns the comparisons.

    Args:
        targets: Number of targets that both ways read.
        many: Number of targets that only the quick way reads, for its memory.
    """
    ways, limits = [], []
    for dtype in (torch.float32, torch.bfloat16):
        name = str(dtype).removeprefix("torch.")
        language = _language(vocabulary).to(dtype)
        ids_T = torch.randint(vocabulary, (max(targets, many),), generator=torch.Generator().manual_seed(0))
        # The first run of each way warms up the libraries.
        costs = [
            (_cost(in_chunks, language, ids_T[:targets]), _cost(at_once, language, ids_T[:targets]))
            for _ in range(1 + repeats)
        ]
        quick, plain = costs[0]
        apart = float((quick.numbers - plain.numbers).abs().max() / plain.numbers.abs().max())
        ways.append(
            TwoWays(
                title=f"{targets:,} targets, {name}",
                quick="a few targets at a time",
                plain="all logits at once",
                quick_s=statistics.mean(each.seconds for each, _ in costs[1:]),
                plain_s=statistics.mean(each.seconds for _, each in costs[1:]),
                apart=apart,
                tolerance=WITHIN[dtype],
                target=RATIO,
            )
        )
        held = _cost(in_chunks, language, ids_T[:many]).gb
        most = max(each.gb for each, _ in costs)
        least = min(each.gb for _, each in costs)
        limits += [
            Limit(f"memory of {targets:,} targets, {name} (all at once: {least:.2f})", most, MEMORY_GB, "GB"),
            Limit(f"memory of {many:,} targets, {name}", held, MEMORY_GB, "GB"),
        ]
    return Measured(
        f"{vocabulary:,} tokens, width {WIDTH}, {torch.get_num_threads()} threads", tuple(ways), tuple(limits)
    )


def in_chunks(language: Any, states_TE: Tensor, ids_T: Tensor) -> TargetLogprobs:
    """Reads a few targets at a time."""
    return OfStates(language, states_TE, ids_T, ids_T).read()


def at_once(language: Any, states_TE: Tensor, ids_T: Tensor) -> TargetLogprobs:
    """Reads all targets from their logits."""
    layer: Any = language.get_output_embeddings()
    return of_logits(layer(states_TE), ids_T, ids_T).read()


def _language(vocabulary: int) -> Any:
    """Returns a tiny language model with an output layer of another size; nothing but that layer is used."""
    language: Any = zoo_entry("nano_pocket").assemble(0).model.of_transformers
    torch.manual_seed(0)
    layer = nn.Linear(WIDTH, vocabulary, bias=False)
    nn.init.normal_(layer.weight, std=0.2)
    language.set_output_embeddings(layer)
    return language.requires_grad_(False)


def _cost(way: Read, language: Any, ids_T: Tensor) -> Cost:
    generator = torch.Generator().manual_seed(1)
    states_TE = (
        torch.randn((len(ids_T), WIDTH), generator=generator)
        .to(language.get_output_embeddings().weight.dtype)
        .requires_grad_()
    )

    def work() -> Tensor:
        read = way(language, states_TE, ids_T)
        read.logprobs_T.sum().backward()
        assert states_TE.grad is not None
        return torch.cat([read.logprobs_T.detach(), states_TE.grad.float().flatten()])

    gc.collect()
    with _Resident() as resident:
        numbers, seconds = timed(work)
    return Cost(seconds, resident.most_gb, numbers)


class _Resident:
    """Measures by how much the memory of this process grows while the context lasts, looking every few milliseconds."""

    def __enter__(self) -> _Resident:
        self._before = self._most = _resident_bytes()
        self._done = threading.Event()
        self._thread = threading.Thread(target=self._watch)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._done.set()
        self._thread.join()

    def _watch(self) -> None:
        while not self._done.is_set():
            self._most = max(self._most, _resident_bytes())
            time.sleep(0.002)

    @property
    def most_gb(self) -> float:
        return (self._most - self._before) / GB


def _resident_bytes() -> int:
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith("RssAnon"))
