"""The agreement of ranks that share the weights of a divided model, so that each may run it in its own way.

A rank that needs a divided part of the model gets it only if all ranks take part in gathering it. Before each such
gathering the ranks therefore agree on one part: each says which part it needs next, or that it needs none, and the part
that comes first in the model is gathered. A rank that needs another one, or none, helps and asks again. So ranks may
have different numbers of questions, images, passes and tokens. They fall into step by themselves: a rank that is behind
catches up, because earlier parts go first.

An error on one rank is told to the others in the same exchange, and a wish to stop as well.
"""

from collections.abc import Callable, Sequence
from typing import Protocol

import torch
import torch.distributed as dist

_NO_PART = 2**62
_STOP = -(2**62)
_MESSAGE_BYTES = 2000


class RanksFailedError(RuntimeError):
    """Raised on every rank but the one that failed; the message names that rank and its error."""


class StoppedInTurn(KeyboardInterrupt):
    """Raised on all ranks in the same exchange, after any of them was asked to stop."""


class Part(Protocol):
    """Weights that the ranks gather together."""

    def help(self) -> None:
        """Takes part in gathering the weights, and leaves this rank with what it had before."""
        ...


class Turns:
    """What the ranks agree on while they answer with one divided model.

    Args:
        group: A process group of all ranks that can reduce integers in the host's memory.
        stopping: Returns whether this rank was asked to stop; all ranks then stop in the same exchange.
    """

    def __init__(self, group: dist.ProcessGroup, stopping: Callable[[], bool] = lambda: False) -> None:
        self._group = group
        self._stopping = stopping
        self._parts: Sequence[Part] = ()
        self._is_over = False

    def begin(self, parts: Sequence[Part]) -> None:
        """Takes the parts of the model, in the same order on every rank."""
        self._parts = parts

    def wait_for(self, part: int) -> None:
        """Helps the other ranks until all gather this part; the caller then takes part for itself.

        Raises:
            RanksFailedError: Another rank has failed.
            StoppedInTurn: A rank was asked to stop.
        """
        while (chosen := self._agreed(part)) != part:
            with torch.no_grad():
                self._parts[chosen].help()

    def meet(self) -> None:
        """Helps the other ranks until all of them are here.

        Raises:
            RanksFailedError: Another rank has failed.
            StoppedInTurn: A rank was asked to stop.
        """
        self.wait_for(_NO_PART)

    def fail(self, error: BaseException) -> None:
        """Tells the other ranks that this one cannot go on; does nothing if they know or have failed themselves."""
        if self._is_over:
            return
        self._is_over = True
        is_stop = isinstance(error, KeyboardInterrupt)
        found = self._least(_STOP if is_stop else -1 - dist.get_rank(self._group))
        if found != _STOP:
            self._told(-1 - found, f"{type(error).__name__}: {error}")

    def _agreed(self, wish: int) -> int:
        if self._is_over:
            raise RuntimeError("the ranks have ended their turns, and a divided model cannot be used any more")
        found = self._least(_STOP if self._stopping() else wish)
        if found >= 0:
            return found
        self._is_over = True
        if found == _STOP:
            raise StoppedInTurn
        failed = -1 - found
        raise RanksFailedError(f"rank {failed} failed and the others stop: {self._told(failed, '')}")

    def _least(self, wish: int) -> int:
        wishes = torch.tensor([wish])
        dist.all_reduce(wishes, dist.ReduceOp.MIN, group=self._group)
        return int(wishes)

    def _told(self, failed: int, message: str) -> str:
        said = message.encode()[:_MESSAGE_BYTES]
        sent = torch.zeros(_MESSAGE_BYTES, dtype=torch.uint8)
        sent[: len(said)] = torch.tensor(list(said), dtype=torch.uint8)
        dist.broadcast(sent, group=self._group, group_src=failed)
        return bytes(sent.tolist()).rstrip(b"\0").decode(errors="ignore")
