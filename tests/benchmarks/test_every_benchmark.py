"""Tests which changes of training media the benchmarks allow for each task."""

import csv
import json
import shutil
from pathlib import Path

import pytest

from medtune.benchmarks import find_benchmark, find_source
from medtune.benchmarks.ctlesionvqa import SUBTYPES, allowed_changes
from medtune.benchmarks.ctlesionvqa.subtypes import V1, V2_ONLY, answer_type
from medtune.benchmarks.facets import age_decade, duration_bin, phase, scanner
from medtune.benchmarks.rexsonovqa.rubric import TYPES
from medtune.data import catalog
from medtune.data.media.augment import ALL_CHANGES, changes_allowed_by_all
from medtune.data.prepared.lookalikes import TRAIN_TWIN
from medtune.data.prepared.read import open_prepared
from medtune.data.types import SPLITS, AnswerKind, Question
from medtune.eval.data_label import PATIENT, label_of
from medtune.trainer.commands.cli import main
from tests.examples import write_example

BOTH = {"move", "grey"}


@pytest.mark.parametrize(
    ("name", "task", "changes"),
    [
        ("m3d_vqa", "plane", BOTH),
        ("m3d_vqa", "phase", {"move"}),
        ("m3d_vqa", "organ", BOTH),
        ("m3d_vqa", "abnormality", {"move"}),
        ("m3d_vqa", "location", {"grey"}),
        ("rexsonovqa", TYPES[0], {"grey"}),
        ("rexsonovqa", TYPES[1], set()),
        ("rexsonovqa", TYPES[2], BOTH),
        ("fetal_sweep", "sweep_direction", ALL_CHANGES),
        ("fetal_sweep", "last_part", ALL_CHANGES),
        ("fetal_sweep", "placenta_side", {"mirror", "grey"}),
        ("vqa", "conversation", set()),
    ],
)
def test_a_task_allows_what_leaves_its_answers_true(name: str, task: str, changes: set[str]) -> None:
    question = Question("q", "m", "What?", ("a", "b"), "a", "choice", "p", {"task": task})
    assert changes_allowed_by_all([question], find_benchmark(name).allowed_changes) == changes


def _asked(subtype: str, text: str = "What?", kind: AnswerKind = "choice") -> Question:
    options = ("a", "b") if kind == "choice" else ()
    return Question("q", "m", text, options, "a", kind, "p", {"subtype": subtype})


def test_every_subtype_is_decided_and_none_is_mirrored() -> None:
    assert set(SUBTYPES) == {name for table in (V1, V2_ONLY) for names in table.values() for name in names}
    assert all(changes and "mirror" not in changes for changes in SUBTYPES.values())
    assert not allowed_changes(_asked("something new"))


@pytest.mark.parametrize(
    ("subtype", "changes"),
    [
        ("liver_lesion_existence", {"move", "grey"}),
        ("organ HU measurement", {"move"}),
        ("largest lesion attenuation", {"move"}),
        ("kidney cyst existence", {"move"}),
        ("pancreatic tumor staging", {"grey"}),
        ("organ volume measurement", {"grey"}),
        ("largest lesion location", {"grey"}),
    ],
)
def test_what_an_answer_is_read_off_stays(subtype: str, changes: set[str]) -> None:
    assert allowed_changes(_asked(subtype)) == changes


def test_free_numbers_are_never_moved() -> None:
    for subtype in SUBTYPES:
        if answer_type(subtype) == "numeric":
            assert "move" not in changes_allowed_by_all([_asked(subtype, kind="number")], allowed_changes)


NOT_PATIENTS = {
    "busi": "image", "ct_masks": "scan", "ctlesionvqa": "scan", "image_folder": "image", "llama_factory": "image",
    "m3d_vqa": "case",
    "medxpertqa_mm": "question", "mmmu_med": "question", "mmmu_med_test": "question", "ms_swift": "image",
    "omnimedvqa": "image", "path_vqa": "image", "pmc_vqa": "article", "pmc_vqa_2": "article",
    "pmc_vqa_clean": "article", "rexsonovqa": "video", "slake": "image", "slake_en": "image", "slake_zh": "image",
    "vqa_rad": "image",
}  # fmt: skip


def unit_of(name: str, folder: Path, scratch: Path) -> str:
    scratch.mkdir(parents=True, exist_ok=True)
    return find_source(name).read(folder, 0, scratch).stands_for_patient


@pytest.mark.parametrize("name", sorted(NOT_PATIENTS))
def test_a_source_without_patients_names_what_stands_for_them(name: str, tmp_path: Path) -> None:
    write_example(name, tmp_path / "raw")
    assert unit_of(name, tmp_path / "raw", tmp_path / "scratch") == NOT_PATIENTS[name]


def test_where_no_patients_are_named_the_words_of_the_source_fit() -> None:
    """A source whose words say that something stands for a patient is in the list above, or knows it row by row.

    The sources of IU X-ray name every patient.
    """
    named = {"iu_xray", "iu_xray_medevalkit", "iu_xray_open_i"}
    by_row = {"table", "hf", "u2_bench", "u2_bench_rebuilt", "fetal_gauge_rebuilt"}
    simulated = {name for name in catalog.names(catalog.SOURCES) if find_source(name).provenance == "synthetic"}
    assert set(catalog.names(catalog.SOURCES)) == set(NOT_PATIENTS) | by_row | named | simulated


def test_u2_bench_says_it_by_row(tmp_path: Path) -> None:
    write_example("u2_bench", tmp_path / "u2_bench")
    assert unit_of("u2_bench", tmp_path / "u2_bench", tmp_path / "a") == PATIENT
    csv.field_size_limit(10_000_000)
    for table in (tmp_path / "u2_bench").rglob("*.tsv"):
        with table.open(newline="", encoding="utf-8") as file:
            cells = list(csv.reader(file, delimiter="\t"))
        if "img_data" not in cells[0]:
            continue
        place = next(number for number, column in enumerate(cells[0]) if "patient" in column.lower())
        with table.open("w", newline="", encoding="utf-8") as file:
            csv.writer(file, delimiter="\t").writerows([*row[:place], *row[place + 1 :]] for row in cells)
    assert unit_of("u2_bench", tmp_path / "u2_bench", tmp_path / "b") == "image"


def test_rebuilt_sets_join_what_stands_for_a_patient_in_each(tmp_path: Path) -> None:
    write_example("u2_bench_rebuilt", tmp_path / "raw")
    unit = unit_of("u2_bench_rebuilt", tmp_path / "raw", tmp_path / "scratch")
    assert "image" in unit.split(" or ")
    assert unit.split(" or ") == sorted(set(unit.split(" or ")))


def test_the_prepared_folder_and_every_label_carry_it(prepared_tiny: Path) -> None:
    manifest = open_prepared(prepared_tiny).manifest
    assert manifest.stands_for_patient == "image"
    label = label_of(manifest, prompts="ours")
    assert label.facts()["stands_for_patient"] == "image"
    assert any(note.startswith("Patients: one image stands for one patient") for note in label.notes())


def test_groups_have_the_papers_names() -> None:
    assert [duration_bin(seconds) for seconds in (0, 5, 19.9, 1000)] == ["0-5s", "5-10s", "10-20s", ">20s"]
    assert [age_decade(age) for age in (69.9, 90, float("nan"), -1)] == ["60-69", "90-99", None, None]
    assert [scanner(name) for name in ("GE MEDICAL SYSTEMS", "SIEMENS", "Toshiba")] == ["GE", "Siemens", "other"]
    assert [phase(name) for name in ("Portal venous", "Plain", "Delayed", "")] == ["venous", "plain", "delay", "other"]


Capture = pytest.CaptureFixture[str]
SOURCES = [name for name in catalog.names(catalog.SOURCES) if find_source(name).read_questions]
BENCHMARKS = {"llama_factory": "vqa", "ms_swift": "vqa", "table": "vqa", "slake_en": "slake", "slake_zh": "slake"}
BENCHMARKS |= {"iu_xray_medevalkit": "iu_xray", "iu_xray_open_i": "iu_xray"}
BENCHMARKS |= {"pmc_vqa_2": "pmc_vqa", "pmc_vqa_clean": "pmc_vqa"}
MEDIA = {".png", ".jpg", ".jpeg", ".dcm", ".mp4", ".gz", ".npy", ".nii"}


def test_the_sources_whose_questions_are_apart_from_their_media() -> None:
    assert {"rexsonovqa", "table", "ctlesionvqa", "m3d_vqa", "llama_factory", "ms_swift"} <= set(SOURCES)


def measured(question: Question) -> set[tuple[str, str]]:
    """Returns the facets that only the image tells."""
    return {(name, value) for name, value in question.facets.items() if name in ("box_size", TRAIN_TWIN)}


@pytest.mark.parametrize("name", SOURCES)
def test_every_question_is_there_without_its_media(name: str, tmp_path: Path, capsys: Capture) -> None:
    raw, benchmark = tmp_path / "raw", BENCHMARKS.get(name, name)
    write_example(name, raw)
    for folder in ("whole", "questions"):
        for file in raw.rglob("*"):
            if folder == "questions" and file.suffix in MEDIA:
                file.unlink()
        more = ["--without-media"] if folder == "questions" else []
        command = ["prepare", benchmark, "--source", name, "--from", str(raw), "--out", str(tmp_path / folder)]
        assert main([*command, *more]) == 0
    assert "without media: these questions can be scored, but no model can be run on them" in capsys.readouterr().out
    folders = [open_prepared(tmp_path / folder) for folder in ("whole", "questions")]
    # Where no patients are named, images that look alike are one patient's, which needs the images.
    named = folders[0].manifest.stands_for_patient == "patient"
    whole, alone = (
        {
            (q.text, q.options, q.answer, named and q.patient_id, *sorted(set(q.facets.items()) - measured(q)))
            for split in SPLITS
            for q in prepared.questions(split)
        }
        for prepared in folders
    )
    assert alone == whole
    read_questions = find_source(name).read_questions
    assert read_questions is not None
    table = read_questions(raw, 0, tmp_path)
    names = {question.patient_id for question in table.questions} | {
        ref.path.stem for items in table.media.values() for ref in items
    }
    stored = b"".join(file.read_bytes() for file in (tmp_path / "questions").rglob("*") if file.is_file())
    assert not [each for each in names if len(each) >= 6 and each.encode() in stored]
    shutil.rmtree(tmp_path / "whole")
    asked = open_prepared(tmp_path / "questions").questions("test")
    lines = [json.dumps({"question_id": question.id, "text": question.answer}) for question in asked]
    (tmp_path / "replies.jsonl").write_text("\n".join(lines))
    given = ["--predictions", str(tmp_path / "replies.jsonl"), "--questions", str(tmp_path / "questions")]
    assert main(["score", benchmark, *given]) == 0
    assert json.loads((tmp_path / "scores.json").read_text())["file_rows"]["unanswered"] == 0


@pytest.mark.parametrize("verb", ["validate", "run", "train", "eval"])
def test_questions_without_media_cannot_be_run(tmp_path: Path, capsys: Capture, tiny_busi: Path, verb: str) -> None:
    out = tmp_path / "prepared"
    assert main(["prepare", "busi", "--from", str(tiny_busi), "--without-media", "--out", str(out)]) == 0
    more = [] if verb == "validate" else ["--out", str(tmp_path / "run")]
    assert main([verb, "nano_busi_lora", "--set", f"data.root={out}", *more]) == 1
    assert f"{out} was prepared without media: its questions can be scored" in capsys.readouterr().err
