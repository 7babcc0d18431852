"""Lets a probe leave nothing behind: no file, no process group, no variable and no setting of torch."""

import contextlib
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import lightning.fabric.utilities.rank_zero as lightning_ranks
import torch

from medtune.trainer.devices.ranks import left_as_found


@contextlib.contextmanager
def nothing_left() -> Iterator[Path]:
    """Gives a folder that is deleted when the block ends, also by an error or a signal.

    Afterwards the environment, the process group and torch's settings are as they were before.
    """
    before, guessing = dict(os.environ), _guessing()
    rank = getattr(guessing, "rank", None)
    deterministic = torch.are_deterministic_algorithms_enabled(), torch.is_deterministic_algorithms_warn_only_enabled()
    cached = torch.is_autocast_cache_enabled()
    try:
        with left_as_found(), tempfile.TemporaryDirectory(prefix="medtune-probe-") as folder:
            yield Path(folder)
    finally:
        torch.set_autocast_cache_enabled(cached)
        torch.use_deterministic_algorithms(deterministic[0], warn_only=deterministic[1])
        guessing.rank = rank
        for name in os.environ.keys() - before.keys():
            del os.environ[name]
        os.environ.update(before)


def _guessing() -> Any:
    return lightning_ranks.rank_zero_only
