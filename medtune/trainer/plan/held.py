"""Counts exactly what a device and its host hold in a stage of training."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from medtune.models.tuning.apply import PartRow
from medtune.trainer.plan.gathered import Divided, gathered, gathered_to_answer
from medtune.trainer.recipe.schema import TrainBlock

WIDE_BYTES = 4
"""Bytes of a float32, in which weights that learn, their gradients and AdamW's moments are held."""
MOMENTS_BYTES = {"adamw": 8, "adamw_8bit": 2}
"""Bytes of the two moments of a weight that learns."""
BUCKET_ELEMENTS = 200_000_000
"""The gradients that DeepSpeed sends at once; the buffer has this size whatever learns.

Source: the default of lightning 2.6.6 for `reduce_bucket_size`.
"""


@dataclass(frozen=True, slots=True)
class Held:
    """Bytes that are held in a stage of training."""

    weights: float
    masters: float  # Copies of the weights that learn, which DeepSpeed's optimizer updates, on a device.
    gradients: float
    moments: float  # AdamW's two moments on a device.
    average: float
    start: float  # A copy of what learns as the stage began, on a device.
    buffers: float  # Buffers in which gradients are collected before they are sent, on a device.
    # Most bytes of whole weights, and of their gradients, that a device holds at once of what is divided.
    gathered: float
    sent: float  # Copies that are made while gradients are sent, on a device.
    # Whether gradients are sent while there still are activations; otherwise all are sent at the end of the backward
    # pass.
    sends_in_between: bool
    # Whether the buffers take memory only as gradients fill them, when activations are given up.
    buffers_fill_late: bool
    host: float  # Bytes of weights, masters, gradients and moments that a process keeps in the host's memory.


def held(
    train: TrainBlock, rows: Sequence[PartRow], divided: Divided, *, is_gpu: bool, keeps_start: bool = False
) -> Held:
    """Returns what a device holds during a stage.

    Args:
        is_gpu: Whether a device has memory of its own. A CPU is its own host, gives memory to the filled part of a
            buffer alone, and runs ZeRO-3 with the settings of `AutocastDeepSpeedStrategy` for tests.
        keeps_start: Whether what learns is also kept as it was at the beginning of the stage.

    Source: Rajbhandari et al. 2020, arXiv 1910.02054: stage 1 divides the optimizer's state, stage 2 also the
    gradients, stage 3 also the weights. Before stage 3, DeepSpeed's optimizer updates a copy of the device's share of
    the weights (`single_partition_of_fp32_groups` of deepspeed 0.19.8); with offload stage 3 has one as well.
    """
    share, stage = train.world_size, train.zero_stage
    fsdp, learning = train.strategy == "fsdp", sum(row.trainable for row in rows)
    weights = sum(row.stored_bytes for row in rows) / (share if train.divides_weights else 1)
    part = WIDE_BYTES * learning / share
    masters = part if stage in (1, 2) or (stage == 3 and train.offloads) else 0.0
    gradients = part if stage >= 2 or fsdp else WIDE_BYTES * learning
    moments = MOMENTS_BYTES[train.optimizer] * learning / (share if stage >= 1 or fsdp else 1)
    copy = WIDE_BYTES * learning / (share if train.divides_weights else 1)
    average = copy if train.ema_decay is not None else 0.0
    # Stages 1 and 2 fill one buffer while the other one is sent.
    buckets = BUCKET_ELEMENTS * {0: 0, 1: 2, 2: 2, 3: 1}[stage]
    buffers = WIDE_BYTES * (buckets if is_gpu else min(buckets, learning))
    offloaded = train.offloads and is_gpu
    on_host = 0.0
    if train.offloads:
        # Stage 2 keeps the weights that it sends back beside the masters, stage 3 collects gradients in a buffer first.
        gradients = 2 * part if stage == 3 else gradients
        masters = 2 * part if stage == 2 else masters
        on_host = masters + gradients + moments + (weights if stage == 3 else 0.0)
    return Held(
        weights=0.0 if offloaded and stage == 3 else weights,
        masters=0.0 if offloaded else masters,
        gradients=0.0 if offloaded else gradients,
        moments=0.0 if offloaded else moments,
        average=average,
        start=copy if keeps_start else 0.0,
        buffers=float(buffers),
        gathered=gathered(train, divided, is_gpu=is_gpu),
        sent=float(WIDE_BYTES * min(BUCKET_ELEMENTS, learning) * _copies_sent(stage, is_gpu=is_gpu)),
        sends_in_between=learning > BUCKET_ELEMENTS,
        # Stage 3 keeps its buffer from step to step.
        buffers_fill_late=not is_gpu and stage in (1, 2) and learning <= BUCKET_ELEMENTS,
        host=on_host if offloaded else 0.0,
    )


def after_step(train: TrainBlock, kept: Held, divided: Divided) -> Held:
    """Returns what a device holds between two steps, when questions are answered.

    DeepSpeed's stages 1 and 2 let go of gradients and buffers after a step. Divided weights are gathered as in a
    training, but without gradients and without gathering ahead.
    """
    lets_go = train.zero_stage in (1, 2)
    divides = train.divides_weights and train.world_size > 1
    return replace(
        kept,
        gradients=0.0 if lets_go and not train.offloads else kept.gradients,
        buffers=0.0 if lets_go else kept.buffers,
        gathered=gathered_to_answer(divided, train.strategy) if divides else 0.0,
        sent=0.0,
    )


def _copies_sent(stage: int, *, is_gpu: bool) -> int:
    """Returns how many copies of a filled buffer of gradients are made while it is sent.

    Source: `_flatten` in `average_tensor` of stage 2, and `reduce_scatter_coalesced` of stage 3 of deepspeed 0.19.8;
    gloo makes one more for a reduce-scatter.
    """
    if stage < 2:
        return 0
    return 1 if stage == 2 or is_gpu else 2
