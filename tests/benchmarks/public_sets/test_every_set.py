"""Tests the contract that every module in medtune/benchmarks/public_sets must keep."""

import json
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import PIL.Image
import pytest

from medtune.benchmarks.public_sets import PublicSet, SetTable, hc18, public_set, read_set, sub_folders
from medtune.benchmarks.u2_bench.sources import u2_bench_rebuilt
from medtune.data import catalog
from medtune.data.media.images import check_box, image_size
from medtune.trainer.commands.cli import main
from tests.examples import OF_SETS

NAMES = catalog.names(catalog.PUBLIC_SETS)


@dataclass(frozen=True)
class Example:
    name: str
    of_name: PublicSet
    folder: Path
    table: SetTable

    def read(self, scratch: Path) -> SetTable:
        scratch.mkdir()
        return self.of_name.read(self.folder, scratch)


@pytest.fixture(scope="module", params=NAMES)
def example(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Example:
    folder = tmp_path_factory.mktemp(request.param)
    of_name = public_set(request.param)
    (folder / "raw").mkdir()
    (folder / "scratch").mkdir()
    OF_SETS[request.param](folder / "raw")
    return Example(request.param, of_name, folder / "raw", of_name.read(folder / "raw", folder / "scratch"))


def test_says_where_it_comes_from(example: Example) -> None:
    of_name = example.of_name
    assert of_name.title
    assert of_name.licence
    assert of_name.patient_unit
    assert of_name.url.startswith("https://")


def test_frames_are_there_and_boxes_lie_in_them(example: Example) -> None:
    frames = example.table.frames
    assert len({frame.name for frame in frames}) == len(frames) > 0
    for frame in frames:
        assert image_size(frame.path) == frame.size
        for _, box in frame.boxes:
            check_box(box, frame.size)


def test_reading_twice_gives_one_table(example: Example, tmp_path: Path) -> None:
    first, again = example.read(tmp_path / "one"), example.read(tmp_path / "two")
    said = [
        [(f.name, f.patient, f.labels, f.boxes, f.values, f.split) for f in table.frames] for table in (first, again)
    ]
    assert said[0] == said[1]


def test_empty_folder_is_refused_in_words(example: Example, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    with pytest.raises((FileNotFoundError, ValueError), match="empty"):
        read_set(example.name, tmp_path / "empty", tmp_path)


@pytest.mark.parametrize("content", [None, b"\x89PNG", b""], ids=["lost", "broken", "empty"])
def test_one_bad_image_is_rejected_alone_and_names_nobody(
    example: Example, tmp_path: Path, content: bytes | None
) -> None:
    raw = [path for path in example.folder.rglob("*") if path.suffix in (".png", ".jpeg", ".mha")]
    if example.name == "fpus23":
        raw = [path for path in raw if "four_poses" in path.parts]
    bad = max(path for path in raw if not any(word in str(path) for word in ("mask", "label", "Annotation")))
    kept = bad.read_bytes()
    bad.unlink()
    if content is not None:
        bad.write_bytes(content)
    try:
        table = example.read(tmp_path / "scratch")
    finally:
        bad.write_bytes(kept)
    there = {frame.name for frame in table.frames}
    lost = [frame for frame in example.table.frames if frame.name not in there]
    # One of ten films is six frames, as on average.
    assert len(table.rejects) == len(lost) == (6 if example.name == "acouslic" else 1)
    for reject in table.rejects:
        said = f"{reject.file} {reject.field} {reject.reason}"
        assert reject.media is not None
        assert reject.media.stem == bad.stem
        assert not any(
            name in said for name in {bad.stem, *(frame.patient or frame.name for frame in lost)} if len(name) > 2
        )


def test_folders_of_sets_go_by_name(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="there is none"):
        sub_folders(tmp_path, NAMES)
    (tmp_path / "hc18").mkdir()
    assert sub_folders(tmp_path, NAMES) == {"hc18": tmp_path / "hc18"}
    (tmp_path / "psfh").mkdir()
    with pytest.raises(ValueError, match=r"got 'psfh'\. Did you mean 'psfhs'"):
        sub_folders(tmp_path, NAMES)


@pytest.fixture
def raw(tmp_path: Path) -> Path:
    """HC18 with an open outline, a lost image and a length that is none, and JNU-IFM with a film without table."""
    root = tmp_path / "raw"
    for name in ("hc18", "jnu_ifm"):
        (root / name).mkdir(parents=True)
        OF_SETS[name](root / name)
    outline = root / "hc18" / "training_set" / "900002_HC_Annotation.png"
    outline_HW = np.array(PIL.Image.open(outline))
    outline_HW[:, 30:40] = 0
    PIL.Image.fromarray(outline_HW).save(outline)
    (root / "hc18" / "training_set" / "900003_HC.png").unlink()
    table = root / "hc18" / hc18.TABLE
    table.write_text(table.read_text().replace("900004_HC.png,0.5,", "900004_HC.png,wide,"))
    (root / "jnu_ifm" / "us_data" / "20190823T1" / "frame_label.csv").unlink()
    return root


def _prepare(raw: Path, out: Path, *more: str) -> int:
    command = ["prepare", "u2_bench", "--source", "u2_bench_rebuilt", "--from", str(raw), "--out", str(out)]
    return main([*command, *more])


def test_prepare_ends_with_the_table_keeps_the_rejects_and_obeys_the_share(
    raw: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    # An image of HC18 gives a place and a length, a film of JNU-IFM four frames with three questions each.
    assert _prepare(raw, tmp_path / "out") == 1
    refusal = capsys.readouterr().err
    assert "rejected 18 of 120 questions (15.0%)" in refusal
    assert "900003_HC.png" in refusal
    assert not (tmp_path / "out").exists()
    kept = (tmp_path / "out.rejects.jsonl").read_text()
    assert _prepare(raw, tmp_path / "out", "--max-rejected", "0.2") == 0
    said = capsys.readouterr().out
    assert "       12  this table is missing" in said
    assert "        2  field 'pixel size(mm)': wanted a length, got" in said
    rejects = (tmp_path / "out" / "rejects.jsonl").read_text()
    assert rejects == kept
    assert {(row["file"], row["row"]) for row in map(json.loads, rejects.splitlines())} == {
        ("hc18/training_set", 7),
        ("hc18/training_set", 11),
        (f"hc18/{hc18.TABLE}", 5),
        ("jnu_ifm/us_data/[4]/frame_label.csv", 1),
    }
    assert not any(patient in rejects for patient in ("900002", "900003", "900004", "20190823"))


def test_what_is_lost_is_listed_to_fetch(raw: Path, capsys: pytest.CaptureFixture[str]) -> None:
    command = ["prepare", "u2_bench", "--source", "u2_bench_rebuilt", "--from", str(raw)]
    assert main([*command, "--list-missing"]) == 0
    assert capsys.readouterr().out.splitlines() == [
        f"hc18/training_set/900003_HC.png\t{public_set('hc18').url}",
        f"jnu_ifm/us_data/20190823T1/frame_label.csv\t{public_set('jnu_ifm').url}",
    ]


def test_a_set_of_which_nothing_can_be_read_leaves_the_others(raw: Path, tmp_path: Path) -> None:
    for path in (raw / "jnu_ifm" / "us_data").iterdir():
        (path / "frame_label.csv").unlink(missing_ok=True)
    (tmp_path / "scratch").mkdir()
    table = u2_bench_rebuilt.source().read(raw, 0, tmp_path / "scratch")
    assert {question.facets["dataset"] for question in table.questions} == {"31"}
    assert sum(reject.file.startswith("jnu_ifm/") for reject in table.rejects) == 8
