"""Gives each process of a run its device, and lets the processes join, wait for each other and agree on values.

What a step of the training exchanges goes through the process group of the devices, whose timeout the recipe states
(`train.timeout_minutes`). Waiting while one rank works alone, such as at a download or a scoring, goes through a second
group on the CPU, which takes hours: NCCL would end the run after minutes.
"""

import contextlib
import os
from collections.abc import Iterator, Sequence
from datetime import timedelta
from typing import Any, TypeVar

import torch
import torch.distributed as dist
from torch._C._distributed_c10d import HashStore, PrefixStore
from torch.distributed.rendezvous import rendezvous

from medtune.trainer.launch.stop import Stopped, asked_to_stop, note_stop

Told = TypeVar("Told")
WAITING_HOURS: float = 24
"""How long ranks wait for one that works alone."""
_STOP = "medtune/stop"
_LAUNCHER_VARIABLES = ("RANK", "LOCAL_RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT")

_waiting: list[Any] = []
"""The process group that was joined, and the group for waiting that belongs to it."""


def device_of_rank(local_rank: int) -> torch.device:
    """Returns the GPU of this rank, or the CPU if the machine has no GPU."""
    if not torch.cuda.is_available():
        return torch.device("cpu")
    if (count := torch.cuda.device_count()) <= local_rank:
        raise ValueError(
            f"this machine is to run {local_rank + 1} processes or more and shows each {count} GPUs; set train.devices "
            "or --devices to that, start on several machines with --nodes, or under SLURM ask for GPUs with "
            "--gpus-per-node and not with --gpus-per-task"
        )
    return torch.device("cuda", local_rank)


def prefer_one_order(device: torch.device, *, wanted: bool = True) -> None:
    """Asks PyTorch for deterministic algorithms on a GPU, if wanted; call it before any computation.

    Source: https://docs.pytorch.org/docs/stable/notes/randomness.html
    """
    # With deterministic algorithms, PyTorch writes NaN into all new memory, to show code that reads it too early.
    new_memory: Any = torch.utils.deterministic
    new_memory.fill_uninitialized_memory = False
    if wanted and device.type == "cuda":
        os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
        torch.use_deterministic_algorithms(True, warn_only=True)


def join_ranks(
    world_size: int, device: torch.device, *, timeout_minutes: float = 60.0, divides_weights: bool = False
) -> None:
    """Joins this process to the process groups of a run with several processes, before the first evaluation.

    What divides the weights needs a process group also where there is one process.
    """
    if (world_size > 1 or divides_weights) and not dist.is_initialized():
        options: dict[str, Any] = {"device_id": device} if device.type == "cuda" else {}
        if world_size == 1:
            options |= {"rank": 0, "world_size": 1, "store": HashStore()}
        elif os.environ.get("GROUP_WORLD_SIZE") == "1" and (attempt := os.environ.get("TORCHELASTIC_RESTART_COUNT")):
            # torchrun keeps one store for all attempts of its ranks. Without a name of its own, a rank that is started
            # again may find the addresses of ranks that have ended. On several machines the counts are not the same.
            store, rank, _ = next(rendezvous("env://", timeout=timedelta(minutes=timeout_minutes)))
            named = PrefixStore(f"attempt {attempt}", store)
            options |= {"rank": rank, "world_size": world_size, "store": named}
        backend = "nccl" if device.type == "cuda" else "gloo"
        dist.init_process_group(backend, timeout=timedelta(minutes=timeout_minutes), **options)
        _waiting_group()


@contextlib.contextmanager
def left_as_found() -> Iterator[None]:
    """Lets the next run in this process start as this one did.

    Afterwards the process group of a run with one process is gone, and so are the variables of a launcher that
    Lightning's DeepSpeed strategy sets, from which the next run would conclude that torchrun started it.
    """
    before = {name: os.environ.get(name) for name in _LAUNCHER_VARIABLES}
    try:
        yield
    finally:
        if dist.is_initialized() and dist.get_world_size() == 1:
            _waiting.clear()
            dist.destroy_process_group()
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value


def state_timeout(minutes: float) -> None:
    """Sets the timeout of every process group but that for waiting, also of groups that a strategy made for itself."""
    if dist.is_initialized():
        waiting = _waiting_group()
        for group in list(dist.distributed_c10d._world.pg_map):
            if group is not waiting:
                dist.set_timeout(timedelta(minutes=minutes), group)


def _waiting_group() -> Any:
    world = dist.group.WORLD
    if not _waiting or _waiting[0] is not world:
        _waiting[:] = [world, dist.new_group(backend="gloo", timeout=timedelta(hours=WAITING_HOURS))]
    return _waiting[1]


@contextlib.contextmanager
def _saying_why() -> Iterator[None]:
    try:
        yield
    except RuntimeError as error:
        if "timed out" in str(error).lower():
            text = f"waited {WAITING_HOURS} hours for the other ranks (WAITING_HOURS); one of them hangs or has ended"
        else:
            text = "another rank has ended while this one waited for it; the error of that rank says why"
        raise RuntimeError(f"{text} ({error})") from error


def barrier() -> None:
    """Waits until all ranks have reached this call, for hours if need be; returns at once in a run with one process."""
    if dist.is_initialized():
        with _saying_why():
            dist.barrier(group=_waiting_group())


def summed(values: Sequence[float], device: torch.device) -> list[float]:
    """Returns each value summed over all ranks, which come to this call at about the same time."""
    if not dist.is_initialized():
        return list(values)
    tensor = torch.tensor(values, dtype=torch.float64 if device.type == "cpu" else torch.float32, device=device)
    dist.all_reduce(tensor)
    return [float(v) for v in tensor.tolist()]


def highest(number: int) -> int:
    """Returns the highest of the numbers that the ranks give; it waits as `barrier` does."""
    if not dist.is_initialized():
        return number
    tensor = torch.tensor([number], dtype=torch.int64)
    with _saying_why():
        dist.all_reduce(tensor, op=dist.ReduceOp.MAX, group=_waiting_group())
    return int(tensor.item())


def told_by_first(value: object) -> Any:
    """Returns on every rank what rank 0 gives; it waits as `barrier` does."""
    if not dist.is_initialized():
        return value
    told = [value]
    with _saying_why():
        dist.broadcast_object_list(told, src=0, group=_waiting_group())
    return told[0]


def told_by_all(value: Told) -> list[Told]:
    """Returns on every rank what each of them gives, in the order of the ranks; it waits as `barrier` does."""
    if not dist.is_initialized():
        return [value]
    told: list[Any] = [None] * dist.get_world_size()
    with _saying_why():
        dist.all_gather_object(told, value, group=_waiting_group())
    return told


def ask_all_to_stop(number: int) -> None:
    """Tells all ranks that a signal asked this one to stop; they hear it when they ask `stop_heard`."""
    if dist.is_initialized():
        with contextlib.suppress(RuntimeError):
            dist.distributed_c10d._get_default_store().set(_STOP, str(number))


def stop_heard() -> int:
    """Returns the signal that asked any rank to stop; 0 if none did, or if it can no longer be known."""
    if dist.is_initialized():
        with contextlib.suppress(RuntimeError):
            store = dist.distributed_c10d._get_default_store()
            return int(store.get(_STOP)) if store.check([_STOP]) else 0
    return 0


class StoppedAlone(Stopped):
    """Says that this rank stops between two media groups; the others come to a stop by themselves."""


def check_stop() -> None:
    """Stops this rank if any rank was asked to; it waits for none, so each rank may call it as often as it likes.

    A rank that is stopped by this has to call `wait_or_stop` next, where the others wait for it.
    """
    if number := asked_to_stop():
        ask_all_to_stop(number)
    elif number := stop_heard():
        note_stop(number)
    if number:
        raise StoppedAlone(number)


def wait_or_stop() -> None:
    """Waits for all ranks, and stops them together if any was asked to."""
    if number := stopping_signal():
        raise Stopped(number, together=True)


def stopping_signal() -> int:
    """Returns the signal that asked any rank to stop, the same on all ranks, and 0 if none did; it waits for all."""
    mine = asked_to_stop()
    number = highest(mine)
    if number:
        note_stop(number)
    return number
