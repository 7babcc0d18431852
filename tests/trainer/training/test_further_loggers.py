"""TensorBoard, and MLflow where it is installed, read back: the same values as metrics.csv."""

import math
from pathlib import Path

import pytest
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from medtune.eval.results.metrics_file import read_metrics
from medtune.trainer.recipe.schema import LogBlock
from medtune.trainer.training.dashboard.further_loggers import (
    MLFLOW_STORE,
    MlflowRun,
    further_loggers,
    mlflow_name,
    refuse_missing_boards,
)
from medtune.trainer.training.dashboard.sent_facets import EVERY_FACET, SentFacets
from tests.trainer.conftest import Nano

Points = dict[tuple[str, int], float]


def points_of(run: Path) -> Points:
    return {(row.name, row.step): row.value for row in read_metrics(run / "metrics.csv")}


def same(found: float, wanted: float) -> bool:
    # TensorBoard keeps 32 bits.
    return math.isnan(wanted) if math.isnan(found) else found == pytest.approx(wanted, rel=1e-6)


def read_board(folder: Path) -> Points:
    events = EventAccumulator(str(folder), size_guidance={"scalars": 0}).Reload()
    return {(tag, each.step): each.value for tag in events.Tags()["scalars"] for each in events.Scalars(tag)}


def test_tensorboard_has_the_values_of_metrics_csv(nano: Nano, tmp_path: Path) -> None:
    run = tmp_path / "run"
    settings = ("log.to=[tensorboard]", "train.max_steps=2", "eval.every_steps=1", "eval.conditions=[image]")
    assert nano.here("run", run, *settings) == 0
    wanted, found = points_of(run), read_board(run / "tensorboard")
    assert {name.partition("/")[0] for name, _ in wanted} == {"train", "val", "zero_shot", "final"}
    assert found.keys() == wanted.keys()
    assert all(same(found[key], value) for key, value in wanted.items())
    assert str(tmp_path) not in (run / "tensorboard" / "hparams.yaml").read_text()


def test_what_is_logged_again_after_an_interruption_replaces_what_was(tmp_path: Path) -> None:
    block = LogBlock(to=("tensorboard",))
    for resume_step, value in ((0, 1.0), (2, 2.0)):
        (logger,) = further_loggers(tmp_path, block, name="r", config={}, facets=EVERY_FACET, resume_step=resume_step)
        for step in range(resume_step + 1, 4 + resume_step):
            logger.log_metrics({"train/loss": value}, step=step)
        logger.finalize("success")
    found = read_board(tmp_path / "tensorboard")
    assert {step: value for (_, step), value in found.items()} == {1: 1.0, 2: 1.0, 3: 2.0, 4: 2.0, 5: 2.0}


def test_a_missing_package_is_named_before_the_run_begins(monkeypatch: pytest.MonkeyPatch) -> None:
    refuse_missing_boards(LogBlock())
    monkeypatch.setattr(
        "medtune.trainer.training.dashboard.further_loggers.RequirementCache", lambda module: module == "tensorboard"
    )
    refuse_missing_boards(LogBlock(to=("tensorboard",)))
    with pytest.raises(
        ValueError,
        match=r"log\.to names mlflow, which is not installed: pip install mlflow-skinny sqlalchemy alembic, ",
    ):
        refuse_missing_boards(LogBlock(to=("tensorboard", "mlflow")))


def test_mlflow_has_the_values_of_metrics_csv_and_goes_on_as_one_run(
    nano: Nano, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tracking = pytest.importorskip("mlflow.tracking")
    monkeypatch.delenv(MLFLOW_STORE, raising=False)
    run = tmp_path / "run"
    settings = ("log.to=[mlflow]", "train.max_steps=2", "eval.every_steps=1", "eval.conditions=[image]")
    assert nano.here("run", run, *settings) == 0
    store, id_ = f"sqlite:///{run / 'mlflow' / 'mlflow.db'}", (run / "mlflow" / "run_id").read_text()
    client = tracking.MlflowClient(tracking_uri=store)
    kept = client.get_run(id_)
    assert kept.info.status == "FINISHED"
    assert str(tmp_path) not in str(kept.data.params)
    for (name, step), value in points_of(run).items():
        history = {each.step: each.value for each in client.get_metric_history(id_, mlflow_name(name))}
        assert step in history, (name, value, history)
        assert same(history[step], value), name
    again = MlflowRun(run, project="medtune", name="r", config={"other": 1}, facets=SentFacets(frozenset()))
    again.log_metrics({"train/loss": 0.5, "val/ward=3 B/accuracy": 0.5}, step=3)
    assert (again.run_id, len(client.search_runs([kept.info.experiment_id]))) == (id_, 1)
    assert client.get_metric_history(id_, "train/loss")[-1].step == 3
    assert client.get_metric_history(id_, "val/ward.3 B/accuracy") == []
