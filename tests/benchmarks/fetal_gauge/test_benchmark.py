"""Tests that the table reader reads a table with Fetal-Gauge's columns, as the benchmark's README lists them."""

import json
import shutil
from collections import Counter
from dataclasses import replace
from pathlib import Path

import PIL.Image
import pytest

from medtune.benchmarks import find_benchmark, find_source, public_sets, published
from medtune.benchmarks.fetal_gauge.published_tables import TASKS
from medtune.benchmarks.fetal_gauge.sources import fetal_gauge_rebuilt
from medtune.benchmarks.public_sets import fpus23
from medtune.data.prepared.read import open_prepared
from medtune.data.prepared.write import prepare
from medtune.data.raw.source import SourceTable
from medtune.data.types import SPLITS, Box, Question
from medtune.eval.scoring.score import PhaseScores, score_phase
from medtune.trainer.commands.cli import main
from tests.benchmarks.fetal_gauge.task_shares import agree, macro_mean, num_options, task_share_bounds, weighted_mean
from tests.eval.answers import generated, wrong
from tests.eval.golden import close, recorded, rows
from tests.examples import OF_SETS
from tests.examples.fetal_gauge import write_fetal_gauge

FETAL = find_benchmark("fetal_gauge")


def test_golden_fetalgauge_overall_is_a_mean_over_questions() -> None:
    golden = recorded("fetalgauge_consistency.json")
    table, expected = rows(golden["rows"]), golden["expected"]
    tasks = [name for name in golden["rows"]["columns"] if name not in ("model", "overall")]
    for row in table:
        mean = macro_mean([row[task] for task in tasks])
        assert close(mean, expected["macro_mean_of_5_tasks"][row["model"]])
        assert agree(mean, row["overall"]) == expected["overall_equals_macro_mean"][row["model"]]
    bounds = task_share_bounds([[row[task] for task in tasks] for row in table], [row["overall"] for row in table])
    for task, found in zip(tasks, bounds, strict=True):
        wanted = expected["task_share_bounds_from_micro_average"][task]
        assert [round(end, 4) + 0.0 for end in found] == pytest.approx(wanted, abs=1e-9), task


def test_golden_fetalgauge_visual_grounding_by_box_size() -> None:
    golden = recorded("fetalgauge_consistency.json")
    sizes, expected = golden["rows"]["box_size"], golden["expected"]
    printed = {row["model"]: row["VG"] for row in rows(golden["rows"])}
    for row in rows(sizes):
        model, accuracies = row.pop("model"), [*row.values()]
        wanted = expected["visual_grounding_from_box_sizes"][model]
        mean = weighted_mean(accuracies, sizes["questions"])
        assert round(mean, 4) == wanted["question_weighted"]
        assert round(macro_mean(accuracies), 4) == wanted["unweighted"]
        assert printed[model] == wanted["printed_VG"]
        assert agree(mean, printed[model]) == wanted["question_weighted_matches"]
    assert sum(sizes["questions"]) == expected["visual_grounding_questions"]


def test_golden_fetalgauge_option_counts() -> None:
    golden = recorded("fetalgauge_consistency.json")
    expected = golden["expected"]
    (guesses,) = [row for row in rows(golden["rows"]) if row["model"].startswith("Random")]
    counts = {name: num_options(share) for name, share in guesses.items() if name not in ("model", "overall")}
    assert counts == expected["inferred_option_counts"]
    for task, value in expected["random_guess_from_option_counts"].items():
        assert close(1 / counts[task], value)


def test_the_published_rows_are_the_printed_ones(shared_published: Path) -> None:
    printed = json.loads((shared_published / "fetal_gauge.json").read_text("utf-8"))["tables"]
    for name in ("main", "fine_tuning"):
        ours = published("fetal_gauge")[name]
        listed = [dict(zip(ours["columns"], row, strict=True)) for row in ours["rows"]]
        assert listed == printed[name]["rows"]
    sizes = published("fetal_gauge")["box_size"]
    assert sizes["questions"] == [row["questions"] for row in printed["box_size"]["rows"]]
    for model, *accuracies in sizes["rows"]:
        assert accuracies == [row[model] for row in printed["box_size"]["rows"]]


def test_shares_that_nothing_explains_are_refused() -> None:
    with pytest.raises(ValueError, match="no shares"):
        task_share_bounds([[0.1, 0.2]], [0.9])


def scored(right: list[str], *, before: float | None = None) -> PhaseScores:
    questions = [replace(FETAL.examples[n % 5], id=f"q{n}") for n in range(10)]
    said = [
        generated(question, question.answer if question.facets["task"] in right else wrong(question))
        for question in questions
    ]
    return score_phase(questions, said, FETAL, before=before)


def test_tables_have_the_papers_shape_and_our_row_with_its_rank() -> None:
    stage = scored(["plane_identification", "visual_grounding", "fetal_orientation"])
    main, sizes, phantom, tuned = stage.tables
    assert main.columns == ("model", "PI", "VC", "FO", "CD", "VG", "Overall", "rank")
    assert [row[0] for row in main.rows[:3]] == ["Random Guess", "GPT-5", "Lingshu-32B"]
    assert main.rows[-2] == ("ours, read by robust", 1.0, 0.0, 1.0, 0.0, 1.0, 0.6, 1)
    assert [row[-1] for row in main.rows[:7]] == [None, 1, 2, 3, 4, 5, 6]
    assert sizes.rows[-2] == ("ours, read by robust", None, None, 1.0)
    assert phantom.rows[0] == ("ours, read by robust", 2 / 3, 0.5)
    assert tuned.rows[0] == ("Llama-3.2-11B-Vision", 0.33, 0.85, 0.52)
    assert "ours" not in [row[0] for row in tuned.rows]
    assert stage.overall.value == 0.6
    *_, tuned = scored(["plane_identification", "visual_grounding", "fetal_orientation"], before=0.25).tables
    assert tuned.rows[-1] == ("ours", 0.25, 0.6, 0.35)


def test_a_table_with_the_columns_has_tasks_facets_boxes_and_its_split(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_fetal_gauge(tmp_path / "raw")
    out = tmp_path / "prepared"
    command = ["prepare", "fetal_gauge", "--source", "table", "--from", str(tmp_path / "raw"), "--out", str(out)]
    assert main([*command, "--facets", "phantom", "box_size"]) == 0, capsys.readouterr().err
    prepared = open_prepared(out)
    assert [prepared.num_questions(split) for split in SPLITS] == [20, 20, 20]
    asked = [(group, question) for split in SPLITS for group in prepared.groups(split) for question in group.questions]
    assert {question.facets["task"] for _, question in asked} == set(TASKS.values())
    assert {question.facets["phantom"] for _, question in asked} == {"yes", "no"}
    assert {len(question.options) for _, question in asked} == {2, 3, 4}
    boxes = {ref.boxes for group, question in asked if "box_size" in question.facets for ref in group.media}
    assert len(boxes) == 12
    assert (Box(5, 5, 15, 20),) in boxes
    assert {ref.boxes for group, question in asked if "box_size" not in question.facets for ref in group.media} == {()}
    benchmark = find_benchmark("fetal_gauge")
    assert all(benchmark.render(question, "letter").target in "ABCD" for _, question in asked)


def test_the_simulation_is_taken_where_it_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["prepare", "fetal_gauge", "--out", str(tmp_path / "prepared"), "--limit", "3"]
    assert main(words) == 1
    said = " ".join(capsys.readouterr().err.split())
    assert "--from: a table, a folder, or hf:ID with its questions (table, fetal_gauge_rebuilt)" in said
    assert "or --source fetal_phantom, which simulates its images" in said
    assert not (tmp_path / "prepared").exists()
    few = find_source("fetal_phantom")
    assert few.write_settings
    few.write_settings(tmp_path / "few", 8)
    assert main([*words, "--source", "fetal_phantom", "--from", str(tmp_path / "few")]) == 0
    assert open_prepared(tmp_path / "prepared").manifest.provenance == "synthetic"


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
    monkeypatch.setattr(public_sets, "SMALL_BELOW", 1)


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
    prepared = prepare(find_source("fetal_gauge_rebuilt"), benchmark="fetal_gauge", root=raw, out=tmp_path / "out")
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
