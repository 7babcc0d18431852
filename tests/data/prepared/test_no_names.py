"""Plants a person's name in cells, file names, headers and containers, and looks for it in all that is written."""

import json
from pathlib import Path

import av
import nibabel
import numpy as np
import pytest

from medtune.data.media.videos.container import decoded_frames, timeline
from medtune.data.media.volumes.formats.nifti import read_nifti
from medtune.data.media.volumes.geometry import affine_of
from medtune.trainer.commands.cli import main
from tests.benchmarks.vqa.own_data import pictures

NAME = "Mustermann"


def _nifti(path: Path, kind: type) -> None:
    image = kind(np.random.default_rng(0).integers(-900, 900, (12, 10, 8)).astype(np.int16), np.diag([2, 2, 3, 1]))
    image.set_qform(image.affine, code=1)
    for field in ("descrip", "aux_file", "db_name", "intent_name"):
        if field in image.header:
            image.header[field] = NAME
    image.header.extensions.append(nibabel.nifti1.Nifti1Extension("comment", f"{NAME} was here".encode()))
    nibabel.save(image, path)


def _video(path: Path) -> None:
    with av.open(str(path), "w") as container:
        container.metadata["title"] = container.metadata["comment"] = NAME
        stream = container.add_stream("mpeg4", rate=5)
        stream.width, stream.height, stream.pix_fmt = 64, 48, "yuv420p"
        for number in range(10):
            grey_HW = np.random.default_rng(number).integers(0, 255, (48, 64, 3), dtype=np.uint8)
            container.mux(stream.encode(av.VideoFrame.from_ndarray(grey_HW, format="rgb24")))
        container.mux(stream.encode(None))


def _written(folder: Path) -> list[str]:
    """Returns the files of a folder that hold the name: in their own name, or in their content, unpacked if it is."""
    import gzip

    found = []
    for path in sorted(path for path in folder.rglob("*") if path.is_file()):
        content = path.read_bytes()
        content += gzip.decompress(content) if content[:2] == b"\x1f\x8b" else b""
        if NAME.casefold().encode() in content.lower() or NAME.casefold() in path.name.casefold():
            found.append(str(path.relative_to(folder)))
    return found


@pytest.mark.parametrize("suffix", [".nii", ".nii.gz", "_2.nii.gz", ".mp4", ".mkv", ".avi"])
def test_a_stored_file_loses_its_texts_and_keeps_what_it_shows(tmp_path: Path, suffix: str) -> None:
    (raw := tmp_path / "raw").mkdir()
    path = raw / f"{NAME}{suffix}"
    if "nii" in suffix:
        _nifti(path, nibabel.Nifti2Image if "_2" in suffix else nibabel.Nifti1Image)
    else:
        _video(path)
    column = "volume" if "nii" in suffix else "video"
    (raw / "data.csv").write_text(f"{column},question,answer,patient,split\n{path.name},Is it so?,yes,{NAME},test\n")
    assert NAME.encode() in (path.read_bytes() if not suffix.endswith("gz") else NAME.encode())
    assert main(["prepare", "vqa", "--from", str(raw), "--out", str(tmp_path / "out")]) == 0
    assert _written(tmp_path / "out") == []
    (stored,) = (tmp_path / "out" / "media").iterdir()
    if "nii" in suffix:
        before, after = read_nifti(path), read_nifti(stored)
        np.testing.assert_array_equal(before.hu_IJK, after.hu_IJK)
        np.testing.assert_array_equal(affine_of(before), affine_of(after))
    else:
        raw_film, film = timeline(path), timeline(stored)
        assert film.times_s == pytest.approx(raw_film.times_s)
        np.testing.assert_array_equal(decoded_frames(path, raw_film.stamps), decoded_frames(stored, film.stamps))


def test_a_file_without_texts_is_linked(tmp_path: Path) -> None:
    (raw := tmp_path / "raw").mkdir()
    image = nibabel.Nifti1Image(np.arange(960, dtype=np.int16).reshape(12, 10, 8), np.diag([2, 2, 3, 1]))
    image.set_qform(image.affine, code=1)
    image.header["descrip"] = "FSL5.0"
    nibabel.save(image, raw / "scan.nii")
    (raw / "data.csv").write_text("volume,question,answer,split\nscan.nii,Is it so?,yes,test\n")
    assert main(["prepare", "vqa", "--from", str(raw), "--out", str(tmp_path / "out")]) == 0
    (stored,) = (tmp_path / "out" / "media").iterdir()
    assert stored.samefile(raw / "scan.nii")


@pytest.mark.parametrize(
    ("header", "row"),
    [
        ("image,question,answer,A,B", f"us_0.png,What?,{NAME},liver,colon"),
        ("image,question,answer,answer_type", f"us_0.png,What?,{NAME},yes_no"),
        ("image,question,answer,options", f"us_0.png,What?,liver,{NAME}"),
        ("video,question,answer,start", f"us_0.png,What?,x,{NAME}"),
        ("image,question,answer,box", f"us_0.png,What?,x,{NAME}"),
        ("image,question,answer,A,B", f"{NAME}.png,What?,A,liver,colon"),
        ("image,question,answer,patient", f"us_0.png,What?,,{NAME}"),
    ],
)
def test_a_rejected_row_says_what_was_wanted_and_not_what_is_there(tmp_path: Path, header: str, row: str) -> None:
    pictures(tmp_path / "raw", 2)
    number, good = len(header.split(",")), ["us_1.png", "What?", "yes", *(["yes", "no"] if "A,B" in header else [])]
    good = ["" if header.startswith("video") else good[0], *good[1:], *[""] * (number - len(good)), "test"]
    good = ["P1" if name == "patient" else cell for name, cell in zip([*header.split(","), "split"], good, strict=True)]
    (tmp_path / "raw" / "data.csv").write_text(f"{header},split\n{','.join(good)}\n{row},test\n")
    command = ["prepare", "vqa", "--from", str(tmp_path / "raw"), "--out", str(tmp_path / "out"), "--max-rejected", "1"]
    assert main([*command, "--show-cells", str(tmp_path / "cells.jsonl")]) == 0
    assert _written(tmp_path / "out") == []
    (reject,) = map(json.loads, (tmp_path / "cells.jsonl").read_text().splitlines())
    assert reject["reason"]
    assert (NAME in reject["cell"] + reject["media"]) == ("patient" not in header)
