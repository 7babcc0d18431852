"""Tests which answers the dashboard shows, and that withheld texts and images are not sent."""

import json
import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import PIL.Image
import pytest

from medtune.data.types import MEDIA_MARK, Box, MediaRef, Prediction, PredictionKey, Provenance, Question, Turn
from medtune.eval.parsed_reply import ParsedReply
from medtune.eval.predictions.files import format_line
from medtune.eval.scoring.answer_classes import classes_by_task
from medtune.trainer.recipe.schema import LogBlock
from medtune.trainer.training.dashboard.cases import COLUMNS, MAX_CASES, MAX_SIDE_PX, case_rows, spread
from medtune.trainer.training.dashboard.logger import confusion_pairs, shows_images
from tests.eval.answerers import question


def _judged(asked: Question, parsed: str | None = None) -> ParsedReply:
    said = Prediction(PredictionKey(asked.id, "image", "generation", 0), text="Mr Miller has a cyst")
    return ParsedReply(asked, said, parsed)


def _rows(folder: Path, parsed: ParsedReply, *, images: bool) -> dict[str, object]:
    PIL.Image.new("L", (1024, 256)).save(folder / "miller.png")
    (folder / "predictions.jsonl").write_bytes(format_line(parsed.prediction) if parsed.prediction else b"")
    media = {parsed.question.media_id: (MediaRef(folder / "miller.png", (Box(10, 10, 200, 100),)),)}
    (row,) = case_rows([parsed], media, predictions=folder / "predictions.jsonl", images=images)
    return dict(zip(COLUMNS, row, strict=True))


@pytest.mark.parametrize(
    ("images", "provenance", "shown"),
    [
        ("auto", "synthetic", True),
        ("auto", "released", False),
        ("auto", "reconstruction", False),
        ("always", "released", True),
        ("never", "synthetic", False),
    ],
)
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
