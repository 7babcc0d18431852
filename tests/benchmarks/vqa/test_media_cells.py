"""Tests the ways in which a table names its media: paths, links, URLs, base64, bytes, films and volumes."""

import base64
import json
import shutil
import threading
import unicodedata
from collections.abc import Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import datasets
import numpy as np
import pytest

from medtune.data.media.volumes.formats.nifti import write_nifti
from medtune.data.raw.media_bytes import Fetcher
from medtune.data.raw.source import TableOptions
from medtune.data.types import Box
from tests.benchmarks.vqa.own_data import pictures, read, read_text
from tests.data.media.videos.synthetic_videos import mp4
from tests.data.media.volumes.synthetic_volumes import series

_ASKED: list[str] = []


class _Quiet(SimpleHTTPRequestHandler):
    def do_GET(self) -> None:
        _ASKED.append(self.path)
        super().do_GET()

    def log_message(self, *args: object) -> None:
        pass


@pytest.fixture
def server(tmp_path: Path) -> Iterator[str]:
    pictures(tmp_path / "served", 3)
    _ASKED.clear()
    with ThreadingHTTPServer(("127.0.0.1", 0), partial(_Quiet, directory=str(tmp_path / "served"))) as serving:
        threading.Thread(target=serving.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{serving.server_port}"
        serving.shutdown()


def _paths(folder: Path, cell: str, options: TableOptions | None = None) -> list[Path]:
    table = read_text(folder, f"image,question,answer\n{cell},q,a\n", options)
    assert not table.rejects, table.rejects
    (question,) = table.questions
    return [ref.path for ref in table.media[question.media_id]]


def test_paths_relative_absolute_linked_and_of_windows(tmp_path: Path) -> None:
    pictures(tmp_path / "else where" / "in", 2)
    (tmp_path / "link.png").symlink_to(tmp_path / "else where" / "in" / "us_0.png")
    elsewhere = TableOptions(media_folder=tmp_path / "else where")
    assert _paths(tmp_path, "us_3.png") == [tmp_path / "us_3.png"]
    assert _paths(tmp_path, "in\\us_1.png", elsewhere) == [tmp_path / "else where" / "in" / "us_1.png"]
    assert _paths(tmp_path, str(tmp_path / "us_3.png"), elsewhere) == [tmp_path / "us_3.png"]
    assert _paths(tmp_path, f"file://{tmp_path}/us_3.png") == [tmp_path / "us_3.png"]
    assert _paths(tmp_path, "link.png") == [tmp_path / "link.png"]
    assert [path.name for path in _paths(tmp_path, "us_0.png; us_2.png")] == ["us_0.png", "us_2.png"]
    assert [path.name for path in _paths(tmp_path, '"[""us_0.png"", ""us_2.png""]"')] == ["us_0.png", "us_2.png"]


def test_names_are_found_in_other_capitals_and_with_accents_in_two_parts(tmp_path: Path) -> None:
    (folder := tmp_path / "Bilder").mkdir()
    pictures(tmp_path, 1)
    name = unicodedata.normalize("NFD", "Läsion_0.PNG")
    shutil.copy(tmp_path / "us_0.png", folder / name)
    written = unicodedata.normalize("NFC", "bilder\\Läsion_0.png")
    assert _paths(tmp_path, written) == [folder / name]
    shutil.copy(tmp_path / "us_0.png", folder / "läsion_0.png")
    (reject,) = read_text(tmp_path, "image,question,answer\nBilder/LÄSION_0.png,q,a\n").rejects
    assert "2 files are called so but for capitals and accents" in reject.reason


def test_base64_and_data_urls(tmp_path: Path) -> None:
    pictures(tmp_path, 1)
    content = (tmp_path / "us_0.png").read_bytes()
    said = base64.b64encode(content).decode()
    for cell in (said, f'"data:image/png;base64,{said}"'):
        (path,) = _paths(tmp_path, cell)
        assert path.read_bytes() == content
        assert path.suffix == ".png"
    table = read_text(tmp_path, 'image,question,answer\n"data:image/png;base64,a",q,a\n')
    assert "the data URL holds no base64" in str(table.rejects[0])


def test_bytes_in_a_parquet_file(tmp_path: Path) -> None:
    pictures(tmp_path, 1)
    content = (tmp_path / "us_0.png").read_bytes()
    columns = {"image": [content, content], "question": ["q", "r"], "answer": ["yes", "no"]}
    datasets.Dataset.from_dict(columns).to_parquet(tmp_path / "data.parquet")
    table = read(tmp_path / "data.parquet")
    assert len(table.media) == 1
    assert table.media[table.questions[0].media_id][0].path.read_bytes() == content


def test_a_url_is_fetched_once_and_no_more_than_a_size(tmp_path: Path, server: str) -> None:
    rows = "".join(f"{server}/us_{number % 2}.png,q{number},a\n" for number in range(4))
    table = read_text(tmp_path, f"image,question,answer\n{rows}{server}/none.png,q,a\n")
    assert _ASKED == ["/us_0.png", "/us_1.png", "/none.png"]
    assert len(table.questions) == 4
    (path, *_) = (items[0].path for items in table.media.values())
    assert path.read_bytes() == (tmp_path / "served" / "us_0.png").read_bytes()
    assert "does not give the file (HTTP 404)" in str(table.rejects[0])
    with pytest.raises(ValueError, match="larger than 0 MB"):
        Fetcher(max_bytes=10).file(f"{server}/us_0.png", tmp_path)


def test_a_host_out_of_reach_is_tried_once(tmp_path: Path) -> None:
    with ThreadingHTTPServer(("127.0.0.1", 0), _Quiet) as closed:
        port = closed.server_port
    rows = "".join(f"http://127.0.0.1:{port}/{number}.png,q,a\n" for number in range(3))
    table = read_text(tmp_path, f"image,question,answer\n{rows}")
    assert [reject.reason for reject in table.rejects] == [
        f"127.0.0.1:{port} cannot be reached (ConnectError). Copy the files here."
    ] * 3


def test_films_with_start_end_and_region(tmp_path: Path) -> None:
    mp4(tmp_path / "clip.mp4", [0.04 * frame for frame in range(10)])
    text = 'clip,question,answer,start,end_s,box\nclip.mp4,q,a,0.04,"0,2","[0, 0, 32, 32]"\nclip.mp4,r,a,,,\n'
    table = read_text(tmp_path, text)
    cut, whole = (table.media[question.media_id][0] for question in table.questions)
    assert (cut.kind, cut.start_s, cut.end_s, cut.region) == ("video", 0.04, 0.2, Box(0, 0, 32, 32))
    assert (whole.kind, whole.start_s, whole.region) == ("video", None, None)


def test_volumes_as_nifti_and_dicom_folders_with_masks(tmp_path: Path) -> None:
    values_IJK = np.arange(60, dtype=np.int16).reshape(3, 4, 5)
    for name in ("ct", "masks/liver", "masks/spleen"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        write_nifti(tmp_path / f"{name}.nii.gz", values_IJK, np.eye(4))
    series(tmp_path / "series", values_IJK)
    organs = json.dumps({"liver": "masks/liver.nii.gz"}).replace('"', '""')
    rows = f'ct.nii.gz,q,a,masks\nct.nii.gz,r,a,"{organs}"\nseries,q,a,\nseries,s,a,masks/liver.nii.gz\n'
    table = read_text(tmp_path, f"volume,question,answer,masks\n{rows}")
    assert not table.rejects
    refs = [table.media[question.media_id][0] for question in table.questions]
    assert [ref.kind for ref in refs] == ["volume"] * 4
    assert [[organ for organ, _ in ref.masks] for ref in refs] == [["liver", "spleen"], ["liver"], [], ["liver"]]
    assert table.stands_for_patient == "scan"


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ("us_0.png,q,a,1,,,", "start and end belong to films, not to images"),
        ("us_0.png,q,a,,,,us_1.png", "masks belong to volumes"),
        ('us_0.png,q,a,,,"1,2,3",', "wanted x0, y0, x1, y1 in whole pixels"),
        ('us_0.png,q,a,,,"0.1,0.2,0.3,0.4",', "wanted x0, y0, x1, y1 in whole pixels"),
        ("clip.mp4,q,a,soon,,,", "wanted seconds as a number"),
        ("report.png,q,a,,,,", "this file is a PDF document. Export it as PNG"),
        (
            "us_9.png,q,a,,,,",
            "there is no such image file. Copy it, correct the path, or name its folder with --images",
        ),
    ],
)
def test_a_part_or_file_that_does_not_fit(tmp_path: Path, row: str, message: str) -> None:
    mp4(tmp_path / "clip.mp4", [0.0, 0.04])
    (tmp_path / "report.png").write_bytes(b"%PDF-1.7")
    table = read_text(tmp_path, f"image,question,answer,start,end,box,mask\n{row}\n")
    (reject,) = table.rejects
    assert message in str(reject)
    assert str(reject).startswith("data.csv, line 2")
