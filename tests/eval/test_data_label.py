"""Tests the texts of the data label, and that files keep it."""

from dataclasses import replace
from pathlib import Path

import pytest

from medtune.benchmarks import find_source
from medtune.data.prepared.read import open_prepared
from medtune.data.raw.source import TableOptions
from medtune.eval.data_label import DataLabel, label_of, recorded_label, unofficial_sets
from medtune.eval.scoring.standing import incomparable
from medtune.trainer.experiment.own_source import source_for

PLAIN = DataLabel(provenance="released", prompts="ours")
WHOLE = DataLabel(
    provenance="reconstruction",
    prompts="official, sha256 00",
    unofficial_split="patient",
    unofficial_training="u2_bench by patient",
)


@pytest.mark.parametrize("label", [PLAIN, WHOLE])
def test_a_file_keeps_the_label(label: DataLabel) -> None:
    assert recorded_label({**label.facts(), "benchmark": "busi"}) == label


def test_released_data_in_our_words_need_no_banner_and_all_else_has_its_own() -> None:
    assert PLAIN.banners() == ()
    assert [name for name, _ in WHOLE.banners()] == [
        "Unofficial split",
        "Trained on an evaluation set",
        "Reconstructed questions",
    ]
    assert "u2_bench by patient" in WHOLE.banners()[1][1]
    assert PLAIN.notes() == ("Data: released. Prompts: ours.",)


def test_a_users_own_data_are_called_so_and_stand_apart_from_published_numbers() -> None:
    own = replace(PLAIN, provenance="own")
    assert own.notes() == ("Data: the user's own. Prompts: ours.",)
    assert incomparable(own) == "the data are the user's own, not the released ones"
    origins = {name: find_source(name).provenance for name in ("ct_masks", "table", "image_folder", "ms_swift")}
    assert set(origins.values()) == {"own"}
    told = source_for("fetal_gauge", Path("release.csv"), TableOptions(), named="table")
    assert told.provenance == "released"  # Its README takes the table as the benchmark's release.


@pytest.mark.parametrize(("unit", "count"), [("patient", 0), ("", 0), ("image", 1), ("body or study", 1)])
def test_what_stands_for_a_patient_is_said_where_patients_are_not_known(unit: str, count: int) -> None:
    label = replace(PLAIN, stands_for_patient=unit)
    assert len([note for note in label.notes() if note.startswith("Patients: ")]) == count
    assert recorded_label(label.facts()) == label
    assert bool(label.patient_note()) == bool(count)


def test_a_file_of_another_tool_says_nothing() -> None:
    assert recorded_label({"unofficial_split": None}) == DataLabel(provenance="unknown", prompts="not recorded")


def test_sets_are_named_once_with_those_that_the_weights_had_learnt(prepared_tiny: Path) -> None:
    official = open_prepared(prepared_tiny).manifest
    divided = replace(official, unofficial_split="patient")
    assert unofficial_sets([official]) == ""
    assert unofficial_sets([divided, official, divided]) == "busi by patient"
    before = ["", "u2_bench by patient; busi by patient", "rexsonovqa by patient"]
    assert unofficial_sets([divided], before=before) == ("u2_bench by patient; busi by patient; rexsonovqa by patient")
    assert label_of(divided, prompts="ours").unofficial_split == "patient"
