"""A program that reads an export with medtune in a fresh process, where no other library can put the model together.

python -m medtune.models.weights.proof.own_reader TASK.json RESULT.json
"""

import json
import sys
from contextlib import nullcontext
from functools import partial
from pathlib import Path
from typing import Any

import torch

from medtune.data.plugins import name_folders
from medtune.models.weights.export import assemble_model
from medtune.models.weights.loading_options import Loading
from medtune.models.weights.proof.samples import answer_logprobs, read_samples
from medtune.version import __version__


def main(task_file: str, result_file: str) -> None:
    """Carries out a task and writes its result."""
    task = json.loads(Path(task_file).read_text("utf-8"))
    name_folders(map(Path, task["plugins"]))
    device, dtype = torch.device(task["device"]), getattr(torch, task["dtype"])
    loading: dict[str, Any] = {
        key: tuple(value) if isinstance(value, list) else value for key, value in task["loading"].items()
    }
    assembled = assemble_model(task["name"], task["seed"], Loading(**loading))
    assembled.model.to(device)
    precise = nullcontext if dtype == torch.float32 else partial(torch.autocast, device.type, dtype)
    samples = read_samples(task["samples"], assembled.transform, seed=task["seed"])
    told = answer_logprobs(assembled, samples, precise=precise)
    Path(result_file).write_text(json.dumps({"reader": f"medtune {__version__}", "logprobs": told}), "utf-8")


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2])
