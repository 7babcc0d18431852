"""A program that reads an export with medtune in a fresh process, where no other library can put the model together.

python -m medtune.models.proof.own_reader TASK.json RESULT.json
"""

import json
import sys
from collections.abc import Sequence
from contextlib import nullcontext
from functools import partial
from pathlib import Path
from typing import Any

import torch

from medtune.data.plugins import name_folders
from medtune.data.types import MediaRef
from medtune.models.contract import Transform
from medtune.models.proof.answers import target_logprobs
from medtune.models.proof.questions import AskedQuestion, made_up_questions, open_question
from medtune.models.weights.export import assemble_model
from medtune.models.weights.loading_options import Loading
from medtune.version import __version__


def main(task_file: str, result_file: str) -> None:
    task = json.loads(Path(task_file).read_text("utf-8"))
    name_folders(map(Path, task["plugins"]))
    device, dtype = torch.device(task["device"]), getattr(torch, task["dtype"])
    loading: dict[str, Any] = {
        key: tuple(value) if isinstance(value, list) else value for key, value in task["loading"].items()
    }
    assembled = assemble_model(task["name"], task["seed"], Loading(**loading))
    assembled.model.to(device)
    precise = nullcontext if dtype == torch.float32 else partial(torch.autocast, device.type, dtype)
    questions = _questions(task["samples"], assembled.transform, seed=task["seed"])
    told = target_logprobs(assembled, questions, precise=precise)
    Path(result_file).write_text(json.dumps({"reader": f"medtune {__version__}", "logprobs": told}), "utf-8")


def _questions(records: Sequence[dict[str, Any]], transform: Transform, *, seed: int) -> list[AskedQuestion]:
    """Returns the questions of a task, whose made-up media are drawn again from their seed."""
    drawn = made_up_questions(transform, count=len(records), seed=seed)
    return [
        open_question(
            number,
            MediaRef(Path(record["media"])) if record["media"] else again.media[0],
            record["text"],
            record["answer"],
        )
        for number, (record, again) in enumerate(zip(records, drawn, strict=True))
    ]


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2])
