"""Tests what `prepare` says of files that people bring: what is wrong with them, and the way on."""

import errno
import json
from pathlib import Path

import numpy as np
import pydicom
import pytest
from pydicom.data import get_testdata_file

from medtune.data.media.volumes.formats.nifti import write_nifti
from medtune.trainer.commands.cli import main
from tests.benchmarks.vqa.own_data import pictures


def prepared(path: Path, *arguments: str) -> int:
    """Runs `medtune prepare vqa` on a file, into a folder of its own beside the file's, and returns its exit code."""
    return main(["prepare", "vqa", "--from", str(path), "--out", f"{path.parent}_out", *map(str, arguments)])


def _table(folder: Path, text: str, *, file: str = "data.csv", number: int = 8) -> Path:
    """Writes pictures us_0.png and on, and a table beside them."""
    pictures(folder, number)
    (folder / file).write_text(text, "utf-8")
    return folder / file


def test_a_full_disk_says_once_what_to_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def full(*args: object, **kwargs: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("medtune.data.prepared.write.write_tables", full)
    rows = "".join(f"us_{n}.png,q,{('yes', 'no')[n % 2]},P{n}\n" for n in range(8))
    assert prepared(_table(tmp_path / "raw", f"image,question,answer,patient\n{rows}")) == 1
    said = capsys.readouterr().err.splitlines()[-1]
    assert said.count("disk is full") == said.count("Free some") == 1
    assert said.endswith("the same command continues where this one stopped")
    assert "--resume" not in said


def test_volumes_that_are_not_in_hounsfield_units_are_noted(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (raw := tmp_path / "raw").mkdir()
    rows = ["volume,question,answer,patient"]
    for number in range(6):
        low = 0 if number < 2 else -1000
        values_IJK = np.random.default_rng(number).integers(low, 900, (8, 8, 6)).astype(np.int16)
        write_nifti(raw / f"{number}.nii.gz", values_IJK, np.eye(4))
        rows.append(f"{number}.nii.gz,Is there a cyst?,{('yes', 'no')[number % 2]},P{number}")
    (raw / "data.csv").write_text("\n".join(rows))
    assert prepared(raw / "data.csv") == 0
    assert "note: NO HOUNSFIELD UNITS: 2 volumes have no value of -80 or less" in capsys.readouterr().out


def test_text_that_is_burned_into_the_pixels_is_counted(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (raw := tmp_path / "raw").mkdir()
    rows = ["image,question,answer,patient"]
    for number in range(8):
        dataset = pydicom.dcmread(str(get_testdata_file("MR_small.dcm", download=False)))
        grey_HW = np.random.default_rng(number).integers(0, 900, (dataset.Rows, dataset.Columns)).astype("<i2")
        dataset.PixelData = grey_HW.tobytes()
        dataset.BurnedInAnnotation = "YES" if number < 3 else "NO"
        dataset.save_as(raw / f"{number}.dcm")
        rows.append(f"{number}.dcm,Is there a cyst?,{('yes', 'no')[number % 2]},P{number}")
    (raw / "data.csv").write_text("\n".join(rows))
    assert prepared(raw / "data.csv") == 0
    said = "TEXT IN THE PICTURES: 3 of 8 files say that text is burned into their pixels (BurnedInAnnotation YES)"
    assert f"note: {said}" in capsys.readouterr().out
    root = f"{raw}_out"
    assert said in (Path(root) / "manifest.json").read_text()
    words = ["validate", "nano_busi_lora", "--set", f"data.root={root}", "data.benchmark=vqa", "eval.val_questions=2"]
    main(words)
    assert said in capsys.readouterr().out


@pytest.mark.parametrize("benchmark", ["vqa", "busi"])
def test_a_missing_prepared_folder_names_own_data_first(
    tmp_path: Path, benchmark: str, capsys: pytest.CaptureFixture[str]
) -> None:
    root = tmp_path / "none"
    assert main(["validate", "nano_busi_lora", "--set", f"data.root={root}", f"data.benchmark={benchmark}"]) == 1
    said = capsys.readouterr().out.partition("missing here:")[2]
    first = next(line.strip() for line in said.splitlines() if "medtune prepare" in line)
    assert first.startswith("medtune prepare vqa --from data.csv")
    assert ("data.benchmark=vqa" in said) == (benchmark == "busi")


TOOLS = {
    "Label Studio": '[{"id": 1, "annotations": [{"result": []}], "file_upload": "a.png", "data": {"image": "a.png"}}]',
    "COCO": '{"images": [{"id": 1, "file_name": "a.png"}], "annotations": [], "categories": [], "info": {}}',
    "Labelbox": '{"data_row": {"id": "x", "external_id": "a.png"}, "projects": {}}',
    "CVAT or Datumaro": '{"info": {}, "categories": {}, "items": []}',
    "VGG Image Annotator": '{"a.png123": {"filename": "a.png", "size": 123, "regions": [], "file_attributes": {}}}',
    "labelme": '{"version": "5", "flags": {}, "shapes": [], "imagePath": "a.png"}',
    "Prodigy": '{"image": "a.png", "_input_hash": 1, "_task_hash": 2, "accept": ["x"], "answer": "accept"}',
    "MD.ai": '{"id": "x", "labelGroups": [], "datasets": []}',
    "V7 Darwin": '{"version": "2.0", "item": {"name": "a.png"}, "annotations": []}',
    "Encord": '[{"label_hash": "x", "data_units": {}}]',
}


@pytest.mark.parametrize("tool", TOOLS)
def test_the_file_of_an_annotation_tool_is_named(tmp_path: Path, tool: str, capsys: pytest.CaptureFixture[str]) -> None:
    for file in ("export.json", "export.ndjson"):
        if file.endswith("ndjson") and TOOLS[tool].startswith("["):
            continue
        assert prepared(_table(tmp_path / "raw", TOOLS[tool], file=file, number=0)) == 1
        said = capsys.readouterr().err
        assert f"this is an export of {tool}" in said
        assert "docs/your_data.md" in said or "JSON-MIN" in said


def test_the_lines_of_the_page_make_a_table_of_coco(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    page = (Path(__file__).resolve().parents[3] / "docs" / "your_data.md").read_text("utf-8")
    pictures(tmp_path / "raw", 9)
    monkeypatch.chdir(tmp_path / "raw")
    coco = {
        "images": [{"id": n, "file_name": f"us_{n}.png"} for n in range(9)],
        "categories": [{"id": 1, "name": "cyst"}, {"id": 2, "name": "mass"}],
        "annotations": [{"image_id": n, "category_id": 1 + n % 2} for n in range(8)],
    }
    Path("instances.json").write_text(json.dumps(coco))
    exec(page.partition("```python\n")[2].partition("```")[0], {})
    assert prepared(tmp_path / "raw" / "labels.csv", "--labels", "labels") == 0


def test_an_xml_file_is_one_of_an_annotation_tool(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert prepared(_table(tmp_path / "raw", "<annotations/>", file="annotations.xml", number=0)) == 1
    assert "CVAT" in capsys.readouterr().err


@pytest.mark.parametrize("rows", ["image,question,patient\nus_0.png,q,P0\n", "image,patient\nus_0.png,P0\n"])
def test_rows_without_answers_are_for_predict(tmp_path: Path, rows: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert prepared(_table(tmp_path / "raw", rows)) == 1
    assert "`medtune predict MODEL --from FILE --out answers.csv`" in capsys.readouterr().err


def test_answers_that_are_all_empty_are_for_predict(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert prepared(_table(tmp_path / "raw", "image,question,answer\nus_0.png,q,\nus_1.png,q,\n")) == 1
    assert "no row has an answer. Rows whose answers nobody knows are for `medtune predict" in capsys.readouterr().err


def test_several_groups_of_a_pattern_are_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = _table(tmp_path / "raw", "image,question,answer\nus_0.png,q,a\nus_1.png,q,b\n")
    assert prepared(path, "--patient", r"(\w+)_(\d+)") == 1
    assert "wanted one group in parentheses, which is the patient, got 2" in capsys.readouterr().err


def test_an_answer_that_lists_options_is_for_labels(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rows = "".join(
        f"us_{n}.png,Which findings?,cyst|mass|shadow,{('cyst; mass', 'mass')[n % 2]},P{n}\n" for n in range(8)
    )
    path = _table(tmp_path / "raw", f"image,question,options,answer,patient\n{rows}")
    assert prepared(path) == 1
    assert (
        "the answer names 2 of the options. Where a picture may have several, they are labels: --labels 'answer'"
        in (capsys.readouterr().err)
    )
    assert prepared(path, "--labels", "answer") == 0


def test_a_source_without_sheets_takes_no_sheet(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for label in ("a", "b"):
        pictures(tmp_path / "raw" / label, 2)
    assert prepared(tmp_path / "raw", "--sheet", "data") == 1
    assert "the source 'image_folder' reads no sheets: leave --sheet and --header out" in capsys.readouterr().err
