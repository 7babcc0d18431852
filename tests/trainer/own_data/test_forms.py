"""Takes each form of own data through prepare, validate, run and predict, with a tiny random model."""

import csv
from pathlib import Path

import pytest

from medtune.data.prepared.read import open_prepared
from medtune.trainer.commands.cli import main
from tests.golden.files import COLLECTED
from tests.trainer.conftest import json_of
from tests.trainer.own_data.forms import FORMS, NEW, UNKNOWN, Form, case, picture

QUICK = (
    "data.benchmark=vqa", "log.wandb=disabled", "train.max_steps=1", "eval.every_steps=1", "eval.max_new_tokens=2",
    "eval.val_questions=2", "eval.questions=4", "eval.conditions=[image]",
)  # fmt: skip
COVERING = ("one_hot", "class_and_patient_folders", "several_images", "xlsx", "cp1252")
"""The forms that the slow suite takes: one of each way of reading; the soak takes all."""


def goes_all_the_way(form: Form, folder: Path) -> list[dict[str, str]]:
    """Takes a form from its files to predictions, and returns the rows that were predicted."""
    prepared, run, answers = folder / "prepared", folder / "run", folder / "answers.csv"
    (raw := folder / "raw").mkdir()
    assert main(["prepare", "vqa", *form.write(raw), "--out", str(prepared)]) == 0
    assert not open_prepared(prepared).manifest.rejected
    recipe, *settings = form.recipe
    said = ["--set", f"data.root={prepared}", *QUICK, *settings]
    assert main(["validate", recipe, *said]) == 0
    assert main(["run", recipe, "--no-doctor", "--out", str(run), *said]) == 0
    assert json_of(run / "results.json")["phases"]["final"]["overall"]["n"] > 0
    for number, name in enumerate(NEW):
        picture(raw / "new" / name, 100 + number)
        picture(raw / name, 100 + number)
    new = raw / "new"
    if form.new:
        (new := raw / "new.csv").write_text(form.new, encoding="utf-8")
    assert main(["predict", str(run), "--from", str(new), "--out", str(answers), *form.predict]) == 0
    with answers.open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def predicts_all(form: Form, folder: Path) -> None:
    rows = goes_all_the_way(form, folder)
    assert len(rows) == form.num_new
    assert not any(row["error"] for row in rows)
    assert all(row["answer"] or row["reply"] or row["readable"] == "no" for row in rows)


@pytest.mark.parametrize(
    "form",
    [
        pytest.param(form, id=form.name, marks=pytest.mark.slow if form.name in COVERING else pytest.mark.soak)
        for form in FORMS
    ],
)
def test_every_form_goes_from_its_files_to_predictions(form: Form, tmp_path: Path) -> None:
    predicts_all(form, tmp_path)


@pytest.mark.soak
def test_tables_that_once_failed_do_too(tmp_path: Path) -> None:
    tables = sorted(path for path in (COLLECTED / "tables").glob("*.csv") if path.name != UNKNOWN)
    assert len(tables) == 8
    for path in tables:
        (folder := tmp_path / path.stem).mkdir()
        predicts_all(case(path), folder)
