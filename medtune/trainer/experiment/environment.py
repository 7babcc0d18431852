"""Records the machine, the package versions and the command of a run, so that a reader can repeat the run."""

import importlib.metadata
import platform
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from medtune.version import __version__

PACKAGES = (
    "torch",
    "lightning",
    "transformers",
    "peft",
    "timm",
    "bitsandbytes",
    "deepspeed",
    "numpy",
    "scipy",
    "wandb",
    "openai",
)


def environment(command: Sequence[str]) -> dict[str, object]:
    """Returns the content of environment.json: the command, versions, devices, and the git commit of medtune."""
    # `prepare` and `compare` read the files of runs as well, and use no torch.
    import torch

    return {
        "command": list(command),
        "medtune": __version__,
        "git_commit": _git_commit(),
        "python": sys.version.split()[0],
        "platform": platform.platform(),
        "cpu_threads": torch.get_num_threads(),
        "devices": [torch.cuda.get_device_name(i) for i in range(torch.cuda.device_count())] or ["cpu"],
        "packages": {name: _version(name) for name in PACKAGES},
    }


def _version(package: str) -> str | None:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return None


def _git_commit() -> str | None:
    checkout = Path(__file__).resolve().parents[3]
    if not (checkout / ".git").exists():
        return None
    done = subprocess.run(["git", "-C", checkout, "rev-parse", "HEAD"], capture_output=True, text=True, check=False)
    return done.stdout.strip() or None
