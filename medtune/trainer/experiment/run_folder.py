"""The folder of a run: where everything goes, and what was run in which environment."""

from __future__ import annotations

import importlib.metadata
import json
import platform
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import torch

import medtune
from medtune import __version__
from medtune.eval.data_label import DataLabel, recorded_label
from medtune.eval.predictions.files import replace_file
from medtune.trainer.experiment.evaluate import write_json
from medtune.trainer.recipe.read import read_recipe, recipe_to_yaml
from medtune.trainer.recipe.schema import Recipe, asks_the_same

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


@dataclass(frozen=True)
class RunFolder:
    """Paths of one run."""

    root: Path

    @property
    def recipe(self) -> Path:
        """The resolved recipe."""
        return self.root / "recipe.yaml"

    @property
    def zero_shot(self) -> Path:
        """Answers and scores before training."""
        return self.root / "zero_shot"

    @property
    def final(self) -> Path:
        """Answers and scores after training."""
        return self.root / "final"

    @property
    def checkpoints(self) -> Path:
        """Trained weights, and a state to resume from."""
        return self.root / "checkpoints"

    @property
    def results(self) -> Path:
        """results.json."""
        return self.root / "results.json"

    @property
    def audit(self) -> Path:
        """audit.json."""
        return self.root / "audit.json"

    @property
    def spending(self) -> Path:
        """What an endpoint charged for the run's answers."""
        return self.root / "spending.jsonl"

    @property
    def audit_answers(self) -> Path:
        """What the model answered for the audit beside its phases."""
        return self.root / "audit"

    def validation(self, step: int) -> Path:
        """Answers and scores on the validation questions after a step."""
        return self.root / "validation" / f"step_{step:06d}"


def open_run(root: Path, recipe: Recipe, *, resume: bool, command: Sequence[str], about: dict[str, str]) -> RunFolder:
    """Makes the folder of a new run, or takes that of an interrupted one.

    Raises:
        FileExistsError: The folder holds something and `resume` is off.
        FileNotFoundError: `resume` is on and there is no run.
        ValueError: The interrupted run had another recipe.
    """
    folder = RunFolder(root)
    if resume:
        if not folder.recipe.is_file():
            raise FileNotFoundError(f"{root}: no run to resume here (no recipe.yaml); start it without --resume")
        if asks_the_same(read_recipe(str(folder.recipe))) != asks_the_same(recipe):
            raise ValueError(
                f"{folder.recipe}: the interrupted run has other settings than this command; "
                "resume it with the same recipe and --set, or start a new folder"
            )
        replace_file(folder.recipe, [recipe_to_yaml(recipe).encode()])
        return folder
    if root.exists() and (not root.is_dir() or any(root.iterdir())):
        raise FileExistsError(
            f"{root} is not empty; name another folder with --out, or continue that run with --resume"
        )
    root.mkdir(parents=True, exist_ok=True)
    replace_file(folder.recipe, [recipe_to_yaml(recipe).encode()])
    write_json(root / "environment.json", {**environment(command), **about})
    return folder


def run_label(folder: RunFolder) -> DataLabel:
    """Returns the label of the data that the run said when it began.

    Raises:
        FileNotFoundError: The folder holds no run, or not all of it.
    """
    return recorded_label(json.loads((folder.root / "environment.json").read_text("utf-8")))


def environment(command: Sequence[str]) -> dict[str, object]:
    """Returns what a reader needs to run the same thing again."""
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
    """The commit of the checkout that medtune runs from; None for an installed wheel."""
    checkout = Path(medtune.__file__).resolve().parents[1]
    if not (checkout / ".git").exists():
        return None
    done = subprocess.run(["git", "-C", checkout, "rev-parse", "HEAD"], capture_output=True, text=True, check=False)
    return done.stdout.strip() or None
