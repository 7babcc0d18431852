"""metrics.csv, and W&B where it is wanted: online with a key, offline without."""

from __future__ import annotations

import contextlib
import csv
import netrc
import os
import uuid
import warnings
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from lightning.pytorch.loggers import CSVLogger, Logger

from medtune.data.types import Provenance
from medtune.eval.benchmark import Benchmark
from medtune.eval.predictions.files import replace_file
from medtune.trainer.recipe.schema import LogBlock
from medtune.trainer.training.dashboard.logger import Dashboard, shows_images

METRICS = "metrics.csv"
TRAINING = ("train/", "validation/")


def build_loggers(
    root: Path,
    block: LogBlock,
    benchmark: Benchmark,
    *,
    provenance: Provenance,
    recipe_name: str,
    config: dict[str, object],
    tags: list[str],
    resume_step: int,
) -> list[Logger]:
    """Returns the run's loggers; an interrupted run's rows after `resume_step` are dropped: they will be made again."""
    loggers: list[Logger] = [_csv_logger(root, resume_step=resume_step)]
    if block.wandb != "disabled":
        options = _wandb_options(root, block, recipe_name=recipe_name)
        images = shows_images(block, provenance)
        loggers.append(Dashboard(benchmark=benchmark, images=images, config=config, tags=tags, **options))
    return loggers


def _csv_logger(root: Path, *, resume_step: int) -> CSVLogger:
    earlier = _rows_until(root / METRICS, resume_step)
    logger = CSVLogger(root, name="", version="", flush_logs_every_n_steps=1)
    with warnings.catch_warnings():
        # It says that it deletes the earlier file; the rows are in hand and are written again.
        warnings.filterwarnings("ignore", message="Experiment logs directory")
        for step, metrics in earlier:
            logger.log_metrics({**metrics}, step=step)
        logger.save()
    return logger


def _rows_until(path: Path, last_step: int) -> list[tuple[int, dict[str, float]]]:
    """The rows of training so far; those of the phases before and after it are logged anew by every start."""
    if not path.is_file():
        return []
    with path.open(newline="") as file:
        rows = list(csv.DictReader(file))
    return [
        (int(row["step"]), metrics)
        for row in rows
        if int(row["step"]) <= last_step
        and (metrics := {name: float(row[name]) for name in row if row[name] and name.startswith(TRAINING)})
    ]


def _wandb_options(root: Path, block: LogBlock, *, recipe_name: str) -> dict[str, Any]:
    try:
        import wandb
    except ImportError as error:
        raise ValueError("log.wandb needs W&B: pip install wandb, or set log.wandb=disabled") from error
    # W&B copies the images of tables here before it sends them, by default into the user's home: a run keeps its own.
    os.environ["WANDB_DATA_DIR"] = str((root / "wandb").resolve())
    offline = block.wandb == "offline" or (block.wandb == "auto" and not _has_key())
    # What W&B collects by itself names host, user, folders and the command line; environment.json has what matters.
    private = {"x_disable_meta": True, "disable_git": True, "disable_code": True, "host": ""}
    return {
        "project": block.project,
        "name": f"{recipe_name} {root.name}",
        "version": _wandb_id(root),
        "save_dir": root,
        "offline": offline,
        "group": recipe_name,
        "mode": "offline" if offline else "online",
        "resume": None if offline else "allow",
        "settings": wandb.Settings(console="off", silent=True, **private),
    }


def _has_key() -> bool:
    """Whether W&B would find a key: in WANDB_API_KEY, or in the netrc file that `wandb login` writes."""
    if os.environ.get("WANDB_API_KEY"):
        return True
    with contextlib.suppress(FileNotFoundError, netrc.NetrcParseError):
        host = urlsplit(os.environ.get("WANDB_BASE_URL", "https://api.wandb.ai")).hostname
        return netrc.netrc(os.environ.get("NETRC")).authenticators(host or "") is not None
    return False


def _wandb_id(root: Path) -> str:
    """One id per run folder, so that a resumed run continues its own dashboard."""
    path = root / "wandb" / "run_id"
    if not path.is_file() and int(os.environ.get("RANK", "0")) == 0:
        path.parent.mkdir(exist_ok=True)
        replace_file(path, [uuid.uuid4().hex[:12].encode()])
    return path.read_text() if path.is_file() else "rank-above-0"
