import shutil
from collections import Counter
from pathlib import Path

import PIL.Image
import pytest

from medtune.benchmarks import find_benchmark, find_source
from medtune.benchmarks.fetal_gauge.sources import fetal_gauge_rebuilt
from medtune.benchmarks.public_sets import public_set
from medtune.benchmarks.public_sets.sets import fpus23
from medtune.data.prepared.write import prepare
from medtune.data.raw.source import SourceTable
from medtune.data.types import SPLITS, Question
from tests.examples import OF_SETS


def _sets(folder: Path, *names: str) -> Path:
    for name in names:
        (folder / name).mkdir(parents=True)
        OF_SETS[name](folder / name)
    return folder


def _read(root: Path, scratch: Path, seed: int = 0) -> SourceTable:
    scratch.mkdir()
    return fetal_gauge_rebuilt.source().read(root, seed, scratch)


@pytest.fixture
def big(monkeypatch: pytest.MonkeyPatch) -> None:
    """Makes the source treat every set as large enough to be split."""
    monkeypatch.setattr(public_set, "SMALL_BELOW", 1)


def _by_task(table: SourceTable) -> dict[str, list[Question]]:
    found: dict[str, list[Question]] = {}
    for question in table.questions:
        found.setdefault(question.facets["task"], []).append(question)
    return found


def test_all_sets_make_four_tasks_with_the_papers_numbers_of_options(tmp_path: Path) -> None:
    table = _read(_sets(tmp_path / "raw", *fetal_gauge_rebuilt.SETS), tmp_path / "scratch")
    tasks = _by_task(table)
    assert {task: {len(q.options) for q in asked} for task, asked in tasks.items()} == {
        "plane_identification": {4},
        "view_completeness": {2},
        "fetal_orientation": {4},
        "visual_grounding": {4},
    }
    assert all(table.media[q.media_id][0].boxes for q in tasks["visual_grounding"])
    assert {q.facets["phantom"] for q in tasks["fetal_orientation"]} == {"yes"}


def test_other_planes_are_left_out_and_counted(tmp_path: Path) -> None:
    table = _read(_sets(tmp_path / "raw", "fetal_planes_db", "fpus23"), tmp_path / "scratch")
    answers = {q.answer for q in _by_task(table)["plane_identification"]}
    assert not answers & {"Other", "NO_PLANE"}
    assert "fpus23: 4 images left out: plane 'NO_PLANE' stands for no term of the benchmark, and there is no box" in (
        table.notes
    )
    assert any("plane 'Other' stands for no term" in note for note in table.notes)


def test_a_brain_plane_is_no_distractor_of_a_plane_within_the_brain(tmp_path: Path) -> None:
    for seed in range(5):
        table = _read(_sets(tmp_path / f"raw{seed}", "fetal_planes_db"), tmp_path / f"scratch{seed}", seed)
        for question in table.questions:
            offered = set(question.options)
            assert question.answer != fetal_gauge_rebuilt.BRAIN or not offered & fetal_gauge_rebuilt.WITHIN_BRAIN
            assert question.answer not in fetal_gauge_rebuilt.WITHIN_BRAIN or fetal_gauge_rebuilt.BRAIN not in offered


def test_small_sets_are_test_and_own_splits_are_kept(tmp_path: Path) -> None:
    table = _read(_sets(tmp_path / "raw", "hc18", "fetal_planes_db"), tmp_path / "scratch")
    splits = {
        name: {q.split for q in table.questions if q.facets["set"] == name} for name in ("hc18", "fetal_planes_db")
    }
    assert splits == {"hc18": {"test"}, "fetal_planes_db": set(SPLITS)}


def test_a_set_without_patients_or_streams_is_test(tmp_path: Path, big: None) -> None:
    table = _read(_sets(tmp_path / "raw", "psfhs", "jnu_ifm"), tmp_path / "scratch")
    splits = {name: {q.split for q in table.questions if q.facets["set"] == name} for name in ("psfhs", "jnu_ifm")}
    assert splits == {"psfhs": {"test"}, "jnu_ifm": {None}}
    said = "12 images, 12 of them in test: they name neither patients nor films"
    assert any(note.endswith(said) for note in table.notes)


def test_frames_without_a_stream_are_test_beside_streams_that_are_divided(tmp_path: Path, big: None) -> None:
    table = _read(_sets(tmp_path / "raw", "fpus23"), tmp_path / "scratch")
    tasks = {"plane_identification": {"test"}, "fetal_orientation": {None}}
    assert {task: {q.split for q in table.questions if q.facets["task"] == task} for task in tasks} == tasks
    assert any("16 of them in test: they name neither patients nor films" in note for note in table.notes)


def test_every_orientation_has_its_term() -> None:
    assert set(fetal_gauge_rebuilt.ORIENTATIONS) == set(fpus23.POSES)


def test_streams_stay_in_one_split(tmp_path: Path, big: None) -> None:
    prepared = prepare(
        find_source("fetal_gauge_rebuilt"),
        benchmark="fetal_gauge",
        root=_sets(tmp_path / "raw", "fpus23"),
        out=tmp_path / "out",
    )
    streams = Counter(len({q.media_id for q in prepared.questions(split)}) for split in SPLITS)
    assert sum(streams.values()) == 3
    orientations = [q for split in SPLITS for q in prepared.questions(split) if q.facets["task"] == "fetal_orientation"]
    of_stream = Counter(q.patient_id for q in orientations)
    assert set(of_stream.values()) == {3}
    assert len(of_stream) == 8


def test_an_image_that_two_sets_share_brings_their_patients_into_one_split(tmp_path: Path, big: None) -> None:
    raw = _sets(tmp_path / "raw", "fpus23", "fetal_planes_db")
    (frame,) = (raw / "fpus23" / "Dataset" / "four_poses").glob("stream_hdvb*_h/frame_000000.png")
    rows = (raw / "fetal_planes_db" / "FETAL_PLANES_DB_data.csv").read_text().splitlines()
    test_row = next(row for row in rows if row.endswith(";0") and ";Other;" not in row)
    copy = raw / "fetal_planes_db" / "Images" / f"{test_row.split(';')[0]}.png"
    PIL.Image.open(frame).convert("RGBA").save(copy)
    prepared = prepare(
        find_source("fetal_gauge_rebuilt"),
        benchmark="fetal_gauge",
        root=raw,
        out=tmp_path / "out",
    )
    assert prepared.manifest.identical_media == 1
    (pose,) = (q for q in prepared.questions("test") if q.media_id.endswith("-copy2"))
    assert (pose.facets["set"], pose.facets["task"]) == ("fpus23", "fetal_orientation")
    stream = pose.patient_id
    assert not any(q.patient_id == stream for split in ("train", "val") for q in prepared.questions(split))


def test_images_of_an_unknown_label_are_rejected_alone_and_name_the_table_to_mend(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    raw = _sets(tmp_path / "raw", "fetal_planes_db")
    known = fetal_gauge_rebuilt.PLANES["fetal_planes_db"]
    terms = {label: term for label, term in known.items() if label != "Fetal thorax"}
    monkeypatch.setattr(fetal_gauge_rebuilt, "PLANES", {"fetal_planes_db": terms})
    table = _read(raw, tmp_path / "scratch")
    assert len(table.questions) > 30
    assert "fetal thorax plane" not in {question.answer for question in table.questions}
    assert len(table.rejects) == 5
    assert {reject.file for reject in table.rejects} == {"fetal_planes_db"}
    assert all("'Fetal thorax' of fetal_planes_db has no term in" in reject.reason for reject in table.rejects)
    assert all("fetal_gauge_rebuilt" in reject.reason for reject in table.rejects)


def test_a_folder_of_another_name_is_refused(tmp_path: Path) -> None:
    raw = _sets(tmp_path / "raw", "hc18")
    shutil.copytree(raw / "hc18", raw / "fetal_heads")
    with pytest.raises(ValueError, match="got 'fetal_heads'"):
        _read(raw, tmp_path / "scratch")


def test_what_a_set_tells_beside_breaks_down_the_scores(tmp_path: Path) -> None:
    table = _read(_sets(tmp_path / "raw", "pbf_us1", "fetal_planes_db"), tmp_path / "scratch")
    found = {(q.facets["set"], q.facets.get("position"), q.facets.get("scanner")) for q in table.questions}
    assert found == {
        *(("pbf_us1", position, None) for position in ("OA", "OP", "SA", "SP")),
        ("fetal_planes_db", None, "Voluson E6"),
    }
    assert {"position", "scanner"} <= set(find_benchmark("fetal_gauge").facets)
