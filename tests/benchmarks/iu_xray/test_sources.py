"""Tests that the releases of IU X-ray are read as they are: parts, counts, repeated reports, and which one it is."""

import json
from collections import Counter
from pathlib import Path

import pytest

from medtune.benchmarks import find_source
from medtune.data.prepared.write import prepare
from medtune.data.raw.source import SourceTable
from medtune.eval.data_label import label_of
from tests.benchmarks.iu_xray.released_files import annotation, medevalkit, splits, written
from tests.examples import write_example


def questions_of(name: str, root: Path) -> SourceTable:
    reader = find_source(name).read_questions
    assert reader is not None
    return reader(root, 0, root)


def example(name: str, root: Path) -> Path:
    root.mkdir(parents=True, exist_ok=True)
    write_example(name, root)
    return root


def test_r2gens_parts_and_repeated_reports_are_counted(shared_real: Path, tmp_path: Path) -> None:
    root = written(tmp_path, "annotation.json", annotation(shared_real))
    table = questions_of("iu_xray", root)
    assert Counter(q.split for q in table.questions) == {"train": 2069, "val": 296, "test": 590}
    assert {q.facets["release"] for q in table.questions} == {"R2Gen"}
    assert table.notes == (
        "2,069 / 296 / 590 studies in train, val and test: R2Gen's split",
        "274 of 590 test reports stand word for word in train, and 192 repeat another test report",
    )
    test = [q for q in table.questions if q.split == "test"]
    assert Counter(q.facets["report_in_train"] for q in test) == {"yes": 274, "no": 316}
    told = json.loads((shared_real / "iu_xray_ids" / "verbatim_in_train.json").read_text("utf-8"))
    assert {q.id for q in test if q.facets["report_in_train"] == "yes"} == set(*told.values())


def test_prepare_keeps_every_study_in_its_part_and_states_the_leak(shared_real: Path, tmp_path: Path) -> None:
    said = annotation(shared_real)
    root = written(tmp_path / "raw", "annotation.json", said)
    prepared = prepare(
        find_source("iu_xray"), benchmark="iu_xray", root=root, out=tmp_path / "prepared", media="left out"
    )
    for split in ("train", "val", "test"):
        assert sorted(q.answer for q in prepared.questions(split)) == sorted(str(r["report"]) for r in said[split])
    assert prepared.manifest.split_leaks == {"report": 274}
    assert (
        "Leaks of the data's own split: of 590 test questions 274 about a shared report."
        in label_of(prepared.manifest, prompts="ours").notes()
    )


def test_the_images_of_a_study_are_shown_together(shared_real: Path, tmp_path: Path) -> None:
    table = questions_of("iu_xray", example("iu_xray", tmp_path / "r2gen"))
    first = table.media[table.questions[0].media_id]
    assert [ref.path.name for ref in first] == ["0.png", "1.png"]
    kit = questions_of("iu_xray_medevalkit", written(tmp_path / "kit", "test.json", medevalkit(shared_real)))
    assert Counter(map(len, kit.media.values())) == {2: 282, 3: 13, 4: 1}
    open_i = questions_of("iu_xray_open_i", example("iu_xray_open_i", tmp_path / "open_i"))
    assert {len(shown) for shown in open_i.media.values()} == {2}


def test_a_part_that_is_named_by_blanks_is_test(shared_real: Path, tmp_path: Path) -> None:
    said = annotation(shared_real)
    usual = questions_of("iu_xray", written(tmp_path / "usual", "annotation.json", said))
    said["    "] = said.pop("test")
    assert questions_of("iu_xray", written(tmp_path / "blank", "annotation.json", said)).questions == usual.questions


def test_another_split_is_told_apart(shared_real: Path, tmp_path: Path) -> None:
    ids = iter(range(1, 4000))
    said = {
        split: [{"id": f"CXR{next(ids)}_IM-1", "report": "Clear lungs.", "image_path": ["a/0.png"]} for _ in range(n)]
        for split, n in {"train": 3062, "val": 382, "test": 382}.items()
    }
    table = questions_of("iu_xray", written(tmp_path, "annotation.json", said))
    assert {q.facets["release"] for q in table.questions} == {"another split than R2Gen's"}
    assert "3,062 / 382 / 382" in table.notes[0]
    assert "other repositories use" in table.notes[0]


def test_medevalkits_studies_are_r2gens_validation_part(shared_real: Path, tmp_path: Path) -> None:
    table = questions_of("iu_xray_medevalkit", written(tmp_path, "test.json", medevalkit(shared_real)))
    assert len(table.questions) == 296
    assert {q.facets["release"] for q in table.questions} == {"MedEvalKit (R2Gen's val)"}
    assert "R2Gen's validation part" in table.notes[0]
    assert "R2Gen's validation part" in find_source("iu_xray_medevalkit").title
    parts = {
        split: {study.partition("_")[0] for study in ids} for split, ids in splits(shared_real)["r2gen_split"].items()
    }
    patients = {q.patient_id for q in table.questions}
    assert patients == parts["val"]
    assert not patients & parts["test"]
    assert table.questions[0].answer == "Findings: Invented findings 0. Impression: Invented 0."


def test_medevalkits_set_is_all_test(tmp_path: Path) -> None:
    root = example("iu_xray_medevalkit", tmp_path / "raw")
    prepared = prepare(find_source("iu_xray_medevalkit"), benchmark="iu_xray", root=root, out=tmp_path / "prepared")
    assert {split: sum(counts.values()) for split, counts in prepared.manifest.counts.items()} == {
        "train": 0,
        "val": 0,
        "test": 5,
    }


def test_open_i_reports_without_text_or_images_are_left_out(tmp_path: Path) -> None:
    table = questions_of("iu_xray_open_i", example("iu_xray_open_i", tmp_path))
    assert Counter(q.facets["task"] for q in table.questions) == {"report": 5, "findings": 5}
    assert table.notes == (
        "1 of 12 reports without images are left out",
        "1 of 12 reports without findings and impression are left out",
    )
    first = table.questions[0]
    assert first.patient_id == "CXR2101"
    assert first.facets["finding"] == "normal"
    assert {q.facets["finding"] for q in table.questions} == {"normal", "abnormal"}
    assert first.answer == "Findings: The heart is of size 2101. The lungs are clear. Impression: No acute disease."


@pytest.mark.parametrize("name", ["iu_xray", "iu_xray_medevalkit", "iu_xray_open_i"])
def test_a_study_whose_image_is_missing_is_rejected_and_listed(name: str, tmp_path: Path) -> None:
    root = example(name, tmp_path)
    images = sorted(root.rglob("*.png"))
    images[0].unlink()
    before = questions_of(name, root)
    table = find_source(name).read(root, 0, tmp_path)
    assert len(table.questions) == len(before.questions) - 1
    assert [reject.media for reject in table.rejects] == [images[0]]
    assert [each.file for each in table.missing] == [str(images[0].relative_to(root))]


@pytest.mark.parametrize(
    ("name", "file", "content", "message"),
    [
        ("iu_xray", "annotation.json", "{", "broken JSON"),
        ("iu_xray", "annotation.json", '{"train": [], "val": []}', "found 'train', 'val'"),
        ("iu_xray", "annotation.json", '{"train": [], "val": [], "test": 3}', "wanted an object with the lists"),
        ("iu_xray", "annotation.json", '{"train": [], "val": [], "test": [], " ": []}', "wanted an object with"),
        ("iu_xray", "other.json", "{}", "wanted R2Gen's annotation.json"),
        ("iu_xray", "test.json", "[]", "MedEvalKit's test.json is read by --source iu_xray_medevalkit"),
        ("iu_xray_medevalkit", "test.json", "{}", "wanted a list of studies, got dict"),
        ("iu_xray_medevalkit", "test.json", "[", "broken JSON"),
        ("iu_xray_medevalkit", "other.json", "{}", "wanted MedEvalKit's test.json"),
        ("iu_xray_open_i", "1.xml", "<a/>", "Unpack NLMCXR_reports.tgz"),
    ],
)
def test_a_folder_that_is_no_release_is_refused(
    name: str, file: str, content: str, message: str, tmp_path: Path
) -> None:
    (tmp_path / file).write_text(content, "utf-8")
    with pytest.raises((FileNotFoundError, ValueError), match=message):
        questions_of(name, tmp_path)


def test_a_broken_xml_file_is_rejected(tmp_path: Path) -> None:
    root = example("iu_xray_open_i", tmp_path)
    (root / "NLMCXR_reports/ecgen-radiology/3.xml").write_text("<eCitation>", "utf-8")
    (reject,) = questions_of("iu_xray_open_i", root).rejects
    assert (reject.file, reject.row) == ("NLMCXR_reports/ecgen-radiology", 3)
    assert "no XML file" in reject.reason
