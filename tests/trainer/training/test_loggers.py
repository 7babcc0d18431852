"""Tests the content of an offline W&B run, read back from its files."""

import ast
import json
import math
import os
import socket
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import PIL.Image
import pytest
import wandb
from lightning_utilities.core.rank_zero import rank_zero_only

from medtune.benchmarks import find_benchmark
from medtune.data.prepared.read import open_prepared
from medtune.data.types import MEDIA_MARK, Box, MediaRef, Prediction, PredictionKey, Provenance, Question, Turn
from medtune.eval.data_label import label_of
from medtune.eval.metric import ParsedReply
from medtune.eval.predictions.files import format_line
from medtune.eval.scoring.answer_classes import classes_by_task
from medtune.eval.statistics.intervals import METHOD
from medtune.trainer.recipe.read import read_recipe
from medtune.trainer.recipe.schema import LogBlock
from medtune.trainer.training.dashboard.cases import COLUMNS, MAX_CASES, MAX_SIDE_PX, case_rows, spread
from medtune.trainer.training.dashboard.logger import confusion_pairs
from medtune.trainer.training.dashboard.sent_facets import EVERY_FACET
from medtune.trainer.training.loggers import build_loggers, logged_config, shows_images
from tests.eval.answerers import question
from tests.eval.answers import generated
from tests.trainer.conftest import Nano, Told, json_of
from tests.trainer.training.wandb_file import OfflineRun

TASKS = ("diagnosis", "lesion_localisation", "red_box_grounding")


@pytest.fixture(scope="module")
def logged_run(prepared_tiny: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("wandb") / "run"
    Nano(prepared_tiny).finished("run", out, "log.wandb=offline", "log.images=always")
    return out


@pytest.fixture(scope="module")
def offline(logged_run: Path) -> OfflineRun:
    return OfflineRun(logged_run)


def test_curves_are_logged_by_stage_and_by_task(offline: OfflineRun) -> None:
    points = offline.points()
    losses = [point["train/loss"] for point in points if "train/loss" in point]
    assert len(losses) == 4
    for phase, steps in (("zero_shot", [0]), ("val", [2, 4]), ("final", [4])):
        assert [p["trainer/global_step"] for p in points if f"{phase}/accuracy" in p] == steps
        for end in ("", "_ci95_low", "_ci95_high"):
            name = f"task=diagnosis/{phase}/accuracy{end}"
            assert [p["trainer/global_step"] for p in points if name in p] == steps


def test_metrics_are_defined_over_steps_with_their_best(offline: OfflineRun) -> None:
    metrics = offline.metrics()
    for name in ("val/accuracy", "task=diagnosis/val/accuracy"):
        assert (metrics[name].summary.max, metrics[name].summary.last) == (True, True)
        assert metrics[name].step_metric == "trainer/global_step"
    assert metrics["train/loss"].summary.min
    assert metrics["task=diagnosis/val/accuracy_n"].options.hidden


def test_run_has_config_tags_and_group(offline: OfflineRun) -> None:
    assert offline.run.run_group == "nano_busi_lora"
    assert set(offline.run.tags) == {"nano_pocket", "busi", "reconstruction"}
    config = offline.config()
    assert config["model"]["name"] == "nano_pocket"
    assert config["train"]["max_steps"] == 4
    assert config["interval_method"] == METHOD
    assert len(config["manifest"]["data_hash"]) == 64
    assert config["environment"]["packages"]["wandb"]
    assert "16384" in json.dumps(config["trainable_parts"]), "the adapters of the language model"
    assert "9 of 9 questions" in config["cases_shown"]["final"]


def test_trainable_groups_are_a_table(offline: OfflineRun) -> None:
    table = offline.table("model/trainable parts")
    assert [row[:3] for row in table["data"]] == [
        [1, "vision", "frozen"],
        [1, "projector", "full"],
        [1, "language", "lora"],
    ]


def test_paper_tables_and_every_metric_are_tables(offline: OfflineRun, logged_run: Path) -> None:
    scores = json_of(logged_run / "final" / "scores.json")
    rows = offline.table("final/tables/every metric")["data"]
    assert {(condition, parser, name): value for condition, parser, name, value, *_ in rows} == {
        (condition, parser, name): score["value"]
        for condition, parsers in scores["metrics"].items()
        for parser, metrics in parsers.items()
        for name, score in metrics.items()
    }
    for table in scores["tables"]:
        shown = offline.table(f"final/tables/{table['title']}")
        assert (shown["columns"], len(shown["data"])) == (table["columns"], len(table["rows"]))


def test_cases_have_probabilities_replies_and_drawn_boxes(
    offline: OfflineRun, logged_run: Path, prepared_tiny: Path
) -> None:
    table = offline.table("final/cases")
    rows = [dict(zip(table["columns"], row, strict=True)) for row in table["data"]]
    questions = {question.id: question for question in open_prepared(prepared_tiny).questions("test")}
    assert {row["question id"] for row in rows} == set(questions)
    for row in rows:
        shares = [float(each.rsplit(" ", 1)[1]) for each in row["probability of each option"].split(" | ")]
        assert len(shares) == len(questions[row["question id"]].options)
        assert sum(shares) == pytest.approx(1, abs=0.01)
        assert row["right"] == (row["read"] == row["answer"])
        assert isinstance(row["reply"], str)
    files = offline.artifact_files()
    assert all(path.is_relative_to(logged_run) for path in files.values())
    images = [path for name, path in files.items() if name.startswith("media/images/")]
    assert len({path.read_bytes() for path in images}) == len({question.media_id for question in questions.values()})
    pictures = [PIL.Image.open(path) for path in images]
    red = [bool((np.asarray(each.convert("RGB")) == (255, 0, 0)).all(axis=2).any()) for each in pictures]
    assert any(red)
    assert not all(red)
    # What shows no colour is written without any.
    assert [each.mode for each in pictures] == ["RGB" if each else "L" for each in red]


@pytest.mark.parametrize("phase", ["zero_shot", "final"])
@pytest.mark.parametrize("task", TASKS)
def test_each_task_has_its_confusion(offline: OfflineRun, logged_run: Path, phase: str, task: str) -> None:
    table = offline.table(f"task={task}/{phase}/confusion_table")
    counts = {(truth, read): n for truth, read, n in table["data"]}
    scores = json_of(logged_run / phase / "scores.json")["by"]["task"][task]
    assert sum(counts.values()) == scores["n"]
    assert sum(n for (truth, read), n in counts.items() if truth == read) == pytest.approx(
        scores["value"] * scores["n"]
    )
    chart = offline.config()[f"_wandb/visualize/task={task}/{phase}/confusion"]
    assert chart["panel_config"]["panelDefId"] == "wandb/confusion_matrix/v1"


def test_summary_has_the_gain(offline: OfflineRun, logged_run: Path) -> None:
    results = json_of(logged_run / "results.json")
    gain, summary = results["gain"], offline.summary()
    assert summary["zero_shot"] == results["phases"]["zero_shot"]["overall"]["value"]
    assert summary["final"] == results["phases"]["final"]["overall"]["value"]
    assert (summary["gain"], summary["gain_p"], summary["gain_n"]) == (gain["value"], gain["permutation_p"], gain["n"])
    assert summary["gain_p_mcnemar"] == gain["mcnemar_p"]
    for task in TASKS:
        assert summary[f"gain_p_holm/{task}"] == gain["by"]["task"][task]["permutation_p_holm"]
    assert [summary["gain_ci95_low"], summary["gain_ci95_high"]] == gain["ci95"]
    assert {name for name in summary if name.startswith("gain_p_holm/")} == {f"gain_p_holm/{task}" for task in TASKS}
    table = offline.table("gain/by task")
    assert [row[0] for row in table["data"]] == ["all", *gain["by"]["task"]]
    assert table["columns"][-3:] == ["p (patients)", "p (patients, Holm)", "p (McNemar, questions)"]
    assert table["data"][0][-3:] == [gain["permutation_p"], None, gain["mcnemar_p"]]


def test_run_has_a_curve_with_its_band_per_task(offline: OfflineRun) -> None:
    for level in ("overall", *(f"task={task}" for task in TASKS)):
        lines = {row[1] for row in offline.table(f"{level}/curve_table")["data"]}
        assert {"validation", "validation, 95 % low", "validation, 95 % high", "test, before and after"} <= lines
        assert (
            offline.config()[f"_wandb/visualize/{level}/curve"]["panel_config"]["panelDefId"] == "wandb/lineseries/v0"
        )


def test_workspace_shows_only_what_was_logged(offline: OfflineRun) -> None:
    sections = _sections((offline.folder / "files" / "workspace.py").read_text())
    assert [name for name, _ in sections] == ["overall", *(f"task={task}" for task in TASKS), "cases", "training"]
    logged = {name.removesuffix("/path") for point in offline.points() for name in point}
    for _, panels in sections:
        for _, _, names in panels:
            assert set(names) <= logged


def test_workspace_is_built_by_the_package_without_network(
    offline: OfflineRun, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("wandb_workspaces", reason="wandb-workspaces is no dependency of medtune")
    monkeypatch.setattr(socket.socket, "connect", None)
    scope: dict[str, Any] = {"__name__": "workspace"}
    exec((offline.folder / "files" / "workspace.py").read_text(), scope)
    view = scope["workspace"]("someone")._to_model().model_dump_json()
    assert "task=diagnosis/val/accuracy_ci95_low" in view


def test_no_patient_no_file_name_no_folder_leaves(offline: OfflineRun, prepared_tiny: Path, tiny_busi: Path) -> None:
    sent = b"".join(
        [
            offline.bytes,
            *(path.read_bytes() for path in (offline.folder / "files").rglob("*") if path.is_file()),
            *(path.read_bytes() for path in offline.artifact_files().values()),
        ]
    )
    secrets = {question.patient_id for question in open_prepared(prepared_tiny).questions("test")}
    secrets |= {path.stem for path in tiny_busi.rglob("*.png")}
    secrets |= {str(prepared_tiny.parent), "max_steps=4"}
    assert [secret for secret in secrets if secret.encode() in sent] == []
    assert offline.run.host == ""


def test_published_lines_stand_beside_the_evaluations_of_their_level(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WANDB_DATA_DIR", os.environ.get("WANDB_DATA_DIR", ""))
    (logger,) = _loggers(tmp_path, LogBlock(wandb="offline"))[1:]
    for step in (0, 20):
        measured = {"val/accuracy": 0.5, "val/task=plane_identification/accuracy": 0.4}
        logger.log_metrics(measured, step=step)
        logger.log_metrics({"train/loss": 1.0}, step=step)
    logger.experiment.finish()
    # W&B's own process writes the log; when it has ended, the log is whole.
    wandb.teardown()
    points = OfflineRun(tmp_path).points()
    name = "task=plane_identification/published_other_model_other_data/GPT-5"
    assert [point[name] for point in points if name in point] == [0.66, 0.66]
    assert [p["published_other_model_other_data/GPT-5"] for p in points if "val/accuracy" in p] == [0.55, 0.55]
    assert not any("visual_grounding" in name for point in points for name in point)


def test_ranks_above_0_log_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WANDB_DATA_DIR", os.environ.get("WANDB_DATA_DIR", ""))
    monkeypatch.setenv("RANK", "1")
    monkeypatch.setenv("WORLD_SIZE", "2")
    monkeypatch.setattr(rank_zero_only, "rank", 1)
    (logger,) = _loggers(tmp_path, LogBlock(wandb="offline"))[1:]
    logger.log_metrics({"train/loss": 1.0}, step=1)
    logger.show_parts([], stage=1)
    assert [*tmp_path.rglob("*.wandb")] == []


def test_a_run_that_falls_ends_on_wandb_and_takes_nothing_of_the_next_one(
    nano: Nano, tmp_path: Path, refused: Told, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WANDB_DATA_DIR", os.environ.get("WANDB_DATA_DIR", ""))

    def falls(*_: object) -> bool:
        raise ValueError("it fell")

    monkeypatch.setattr("medtune.trainer.experiment.run._train_stages", falls)
    assert "it fell" in refused(nano.here("train", tmp_path / "fallen", "log.wandb=offline"))
    assert wandb.run is None
    (tmp_path / "next").mkdir()
    (logger,) = _loggers(tmp_path / "next", LogBlock(wandb="offline"))[1:]
    logger.log_metrics({"train/loss": 1.0}, step=1)
    logger.end()
    wandb.teardown()
    assert [point["train/loss"] for point in OfflineRun(tmp_path / "next").points()] == [1.0]


def test_disabled_means_disabled(tmp_path: Path) -> None:
    assert len(_loggers(tmp_path, LogBlock(wandb="disabled"))) == 1
    assert not (tmp_path / "wandb").exists()


def _loggers(root: Path, block: LogBlock) -> list[Any]:
    options: dict[str, Any] = {
        "mode": block.wandb,
        "recipe_name": "r",
        "group": "r",
        "config": {},
        "tags": [],
        "facets": EVERY_FACET,
    }
    options["resume_step"] = 0
    return [*build_loggers(root, block, find_benchmark("fetal_gauge"), provenance="released", **options)]


def _sections(script: str) -> Any:
    (value,) = [
        node.value
        for node in ast.parse(script).body
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name) and node.targets[0].id == "SECTIONS"
    ]
    return ast.literal_eval(value)


def _judged(asked: Question, parsed: str | None = None) -> ParsedReply:
    said = generated(asked, "Mr Miller has a cyst")
    return ParsedReply(asked, said, parsed)


def _rows(folder: Path, parsed: ParsedReply, *, images: bool) -> dict[str, object]:
    PIL.Image.new("L", (1024, 256)).save(folder / "miller.png")
    (folder / "predictions.jsonl").write_bytes(format_line(parsed.prediction) if parsed.prediction else b"")
    media = {parsed.question.media_id: (MediaRef(folder / "miller.png", (Box(10, 10, 200, 100),)),)}
    (row,) = case_rows([parsed], media, predictions=folder / "predictions.jsonl", images=images)
    return dict(zip(COLUMNS, row, strict=True))


@pytest.mark.parametrize(("images", "provenance", "shown"), [
    ("auto", "synthetic", True), ("auto", "released", False), ("auto", "reconstruction", False),
    ("always", "released", True), ("never", "synthetic", False),
])  # fmt: skip
def test_pictures_are_shown_of_simulations_or_where_asked_for(images: str, provenance: Provenance, shown: bool) -> None:
    assert shows_images(replace(LogBlock(), images=images), provenance) is shown  # type: ignore[arg-type]


def test_withheld_case_has_no_picture_and_no_free_text(tmp_path: Path) -> None:
    report = replace(question(1, patient=1), text="Mr Miller, 63", options=(), answer="A cyst", answer_kind="text")
    row = _rows(tmp_path, _judged(report, "Miller: a cyst"), images=False)
    assert row["image"] is None
    assert "iller" not in json.dumps(row)
    assert "cyst" not in json.dumps(row)


def test_withheld_case_keeps_options_and_what_was_read(tmp_path: Path) -> None:
    asked = question(1, patient=1)
    row = _rows(tmp_path, _judged(asked, asked.answer), images=False)
    assert (row["answer"], row["read"], row["right"]) == (asked.answer, asked.answer, True)
    assert "iller" not in json.dumps(row)


def test_shown_case_has_a_small_picture_with_its_box(tmp_path: Path) -> None:
    row = _rows(tmp_path, _judged(question(1, patient=1)), images=True)
    picture = row["image"]
    assert isinstance(picture, PIL.Image.Image)
    assert max(picture.size) == MAX_SIDE_PX
    assert any(red > 150 > 50 > green for red, green, _ in np.asarray(picture).reshape(-1, 3).tolist())
    assert row["reply"] == "Mr Miller has a cyst"


def test_probabilities_stand_beside_the_options_as_they_were_shown(tmp_path: Path) -> None:
    asked = replace(question(1, patient=1), options=("cyst", "normal"), answer="cyst")
    key = PredictionKey(asked.id, "image", "likelihood", 0)
    said = Prediction(key, option_logprobs=(math.log(0.3), math.log(0.1)), options_shown=("normal", "cyst"))
    row = _rows(tmp_path, ParsedReply(asked, said, "normal"), images=False)
    assert row["probability of each option"] == "normal 0.750 | cyst 0.250"
    assert row["probability of the answer"] == pytest.approx(0.25)


def test_unanswered_case_is_shown_as_wrong(tmp_path: Path) -> None:
    row = _rows(tmp_path, ParsedReply(question(1, patient=1), None, None), images=False)
    assert (row["right"], row["read"], row["probability of the answer"]) == (False, None, None)


def test_cases_are_spread_over_the_tasks() -> None:
    rows = [_judged(question(n, patient=n, task="large")) for n in range(500)]
    rows += [_judged(question(1000 + n, patient=n, task="small")) for n in range(5)]
    chosen = spread(rows)
    assert len(chosen) == MAX_CASES
    assert sum(row.question.facets["task"] == "small" for row in chosen) == 5
    numbers = [int(row.question.id[1:]) for row in chosen if row.question.facets["task"] == "large"]
    assert numbers[-1] - numbers[0] > 450
    assert spread(rows[:3]) == rows[:3]


def test_confusion_counts_what_was_not_read() -> None:
    asked = question(1, patient=1)
    rows = [_judged(asked, asked.answer), _judged(asked)]
    (task,) = classes_by_task({"robust": rows}, parser="robust", facet="subtype").found
    names = [*(each.name for each in task.classes), "(not read)"]
    true, read = confusion_pairs(task)
    assert [names[place] for place in true] == [asked.answer] * 2
    assert [names[place] for place in read] == [asked.answer, "(not read)"]


def test_case_of_a_conversation_shows_its_turns_and_no_mark(tmp_path: Path) -> None:
    asked = replace(question(1, patient=1), text=f"And {MEDIA_MARK}?", turns=(Turn(f"{MEDIA_MARK}What?", "a cyst"),))
    row = _rows(tmp_path, _judged(asked), images=True)
    assert row["question"] == "User: [image] What?\nAssistant: a cyst\nUser: And [image]?"


def test_the_settings_that_are_sent_hold_no_local_path(prepared_tiny: Path, tmp_path: Path) -> None:
    (kept := tmp_path / "Mustermann" / "kept").mkdir(parents=True)
    settings = [f"data.root={kept}", "model.weights=/home/Mustermann/weights", f"model.adapter={kept}"]
    manifest = open_prepared(prepared_tiny).manifest
    config = logged_config(
        read_recipe("nano_busi_lora", settings), manifest, label_of(manifest, prompts=manifest.prompts), EVERY_FACET
    )
    assert "Mustermann" not in json.dumps(config, default=str)
