"""engine.json in a run folder: which servers gave its answers, of which weights, and how they were compared."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

from medtune.models.server.engines import EngineName
from medtune.trainer.engine.agreement import Agreement
from medtune.trainer.experiment.write_json import write_json

FILE = "engine.json"


@dataclass(frozen=True, slots=True)
class EngineRecord:
    """What is recorded about the servers of an evaluation.

    Attributes:
        engine: The engine.
        weights: The name of the exported folder, which holds a hash of the weights.
        dtype: The number format that the servers compute in.
        versions: Address of each server -> the version of its engine.
        agreement: The comparison with the model in this process; None before it is made.
    """

    engine: EngineName
    weights: str
    dtype: str
    versions: Mapping[str, str]
    agreement: Agreement | None = None


def write_record(folder: Path, record: EngineRecord) -> None:
    """Writes engine.json into a run folder."""
    write_json(folder / FILE, asdict(record))


def refuse_other_answers(folder: Path, *, engine: EngineName | None, weights: str | None) -> None:
    """Refuses to continue a run whose answers another engine, or other weights on a server, gave.

    Args:
        folder: The run folder that is continued.
        engine: The engine that would answer now; None for the model in this process.
        weights: The name of the exported folder that it would serve; None if it is not known yet.

    Raises:
        ValueError: The run was begun in another way; the message says how.
    """
    path = folder / FILE
    found = json.loads(path.read_text("utf-8")) if path.is_file() else {}
    if found.get("engine") != engine:
        begun, now = (name or "the model in this process" for name in (found.get("engine"), engine))
        raise ValueError(
            f"{folder}: its first answers come from {begun}, and now {now} would answer; continue it with the same "
            "--engine, or take another --out"
        )
    if weights is not None and found.get("weights") != weights:
        raise ValueError(
            f"{path}: its answers come from the weights {found.get('weights')}, and the run now has {weights}; take "
            "another --out"
        )
