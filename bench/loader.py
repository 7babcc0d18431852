"""Times evaluations whose media a process reads ahead against those that read each item when it is needed.

Simulated CTs are answered by pocket_ct, from a filled cache and without one. The answers have to be the same to the
last bit, and with a filled cache the model may wait for its media for 5 % of the time.
"""

import statistics
import tempfile
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import torch

from bench.measuring.measured import Limit, Measured, TwoWays
from bench.measuring.subjects import first_simulated
from bench.shared_prefix import device_of, device_text
from medtune.benchmarks import find_source
from medtune.data.media.volumes.cache import VolumeCache
from medtune.data.prepared.write import prepare
from medtune.data.types import MediaGroup, Request
from medtune.eval.benchmark import Benchmark
from medtune.models.answering import LocalAnswerer, ShownRequests
from medtune.models.assemble import zoo_entry
from medtune.models.contract import Assembled
from medtune.models.media_reader import MediaReader
from medtune.models.tuning.quantize import precise, resolved, set_types
from medtune.models.volumes.volume_parts import VolumeInput
from medtune.trainer.devices.ranks import device_of_rank

NUM_CACHED, NUM_UNCACHED = 40, 6
WORKERS = 1
REPEATS = 3
WAITING_TARGET = 5.0
"""The largest share of the time of answering that goes by in waiting with a filled cache, in percent."""
CACHED_TARGET, UNCACHED_TARGET = 0.9, 1.2
"""From a filled cache there is nothing to wait for; reading ahead must not cost more than noise (our own choice)."""


class Answered(NamedTuple):
    """The log-probabilities of all options, the seconds that they took, and those spent in waiting for media."""

    logprobs: torch.Tensor
    took_s: float
    waited_s: float


def bench(subject: str | None) -> Measured:
    """Returns the figures of the model named `subject`, which reads volumes; None means "pocket_ct"."""
    return measured(subject or "pocket_ct", num_cached=NUM_CACHED, num_uncached=NUM_UNCACHED)


def measured(model: str, *, num_cached: int, num_uncached: int, repeats: int = REPEATS) -> Measured:
    """Returns both comparisons, medians of `repeats` alternating runs, and the share of waiting with a filled cache."""
    assembled = zoo_entry(model).assemble(0)
    if not isinstance(assembled.transform, VolumeInput):
        raise ValueError(f"the bench 'loader' wants a model that reads volumes, and {model!r} reads others")
    device = device_of_rank(0)
    assembled.model.eval()
    assembled.model.to(device)
    set_types(assembled.model, resolved("auto", device))
    name, benchmark, simulation = first_simulated("volume")
    with tempfile.TemporaryDirectory() as folder:
        source = find_source(simulation.source)
        prepared = prepare(source, benchmark=name, root=None, out=Path(folder) / "data", limit=num_cached)
        splits = [prepared.groups(split) for split in ("train", "val", "test")]
        groups = [group for split in splits for group in split][:num_cached]
        kept = replace(assembled, transform=replace(assembled.transform, cache=VolumeCache(prepared.cache_folder)))
        visits = visits_of(groups, benchmark)
        answered(kept, visits, workers=0)  # fills the cache
        cached = [(answered(kept, visits, workers=w)) for _ in range(repeats) for w in (WORKERS, 0)]
        few = visits[:num_uncached]
        uncached = [(answered(assembled, few, workers=w)) for _ in range(repeats) for w in (WORKERS, 0)]
    waited = 100 * statistics.median(each.waited_s / each.took_s for each in cached[::2])
    alone = 100 * statistics.median(each.waited_s / each.took_s for each in cached[1::2])
    return Measured(
        f"{model}, {len(groups)} volumes, {device_text(device)}; without a process that reads, answers from the cache "
        f"wait {alone:.1f} % of the time",
        (
            _two_ways(f"answering {len(visits)} volumes from a filled cache", cached, target=CACHED_TARGET),
            _two_ways(f"answering {len(few)} volumes without a cache", uncached, target=UNCACHED_TARGET),
        ),
        (Limit("waiting with a filled cache", waited, WAITING_TARGET, "%"),),
    )


def visits_of(groups: Sequence[MediaGroup], benchmark: Benchmark) -> list[ShownRequests]:
    """Returns the requests for the likelihoods of all options of all questions."""
    return [
        (group, tuple(Request(q, benchmark.render(q, "text"), "likelihood", "image") for q in group.questions))
        for group in groups
    ]


def answered(assembled: Assembled, visits: Sequence[ShownRequests], *, workers: int) -> Answered:
    """Returns the answers to all visits; `workers` processes read media ahead, 0 reads them when they are needed."""
    device = device_of(assembled)
    began = time.perf_counter()
    with MediaReader(assembled.transform, workers=workers) as reader:
        answerer = LocalAnswerer(
            assembled,
            device=device,
            batch_tokens=4096,
            max_new_tokens=8,
            precise=precise(resolved("auto", device), device),
            reader=reader,
        )
        answerer.expect(visits)
        told = [prediction for visit in visits for prediction in answerer.answer(*visit)]
        waited_s = reader.waited_s
    logprobs = [value for prediction in told for value in prediction.option_logprobs or ()]
    return Answered(torch.tensor(logprobs), time.perf_counter() - began, waited_s)


def _two_ways(title: str, runs: Sequence[Answered], *, target: float) -> TwoWays:
    """Returns the comparison of runs that alternate, the quick way first."""
    quick, plain = runs[::2], runs[1::2]
    return TwoWays(
        title=title,
        quick="a process reads ahead" if WORKERS == 1 else f"{WORKERS} processes read ahead",
        plain="each volume is read when it is needed",
        quick_s=statistics.median(each.took_s for each in quick),
        plain_s=statistics.median(each.took_s for each in plain),
        apart=max(float((each.logprobs - plain[0].logprobs).abs().max()) for each in runs),
        tolerance=0.0,
        target=target,
    )
