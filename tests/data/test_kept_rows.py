"""Rows in a file are those that were put there, take little memory, and say where there is no room for them."""

import errno
import io
import tracemalloc
from pathlib import Path

import PIL.Image
import pytest

from medtune.benchmarks import find_source
from medtune.data.kept_rows import Digests, KeptRows, repeated
from medtune.data.prepared import read, tables
from medtune.data.prepared.write import prepare
from medtune.data.types import Question, Turn

ASKED = Question(
    "q", "m", "Where?", ("here", "there"), "here", "choice", "p", {"task": "place"}, turns=(Turn("What?", "a cyst"),)
)


def test_rows_come_back_in_any_order_and_while_more_are_added() -> None:
    rows = KeptRows[object]([ASKED, ("text", None), 3])
    assert list(rows) == [ASKED, ("text", None), 3]
    rows.append("more")
    assert rows == [ASKED, ("text", None), 3, "more"]
    assert rows[-1] == "more"
    assert list(rows.chosen([3, 0, 0])) == ["more", ASKED, ASKED]
    assert rows[1:3] == [("text", None), 3]
    assert rows.chosen([2, 1])[0] == 3
    assert rows != [ASKED]
    assert not KeptRows[object]()
    many = KeptRows(range(3000))
    assert list(many) == list(range(3000))


def test_no_room_is_said_with_the_folder_of_the_rows(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    class Full(io.BytesIO):
        def write(self, *_: object) -> int:
            raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("tempfile.TemporaryFile", lambda **_: Full())
    monkeypatch.setattr("tempfile.gettempdir", lambda: str(tmp_path))
    (tmp_path / "raw").mkdir()
    (tmp_path / "raw" / "data.csv").write_text("question,answer\nIs it so?,yes\n")
    with pytest.raises(OSError, match=f"{tmp_path}: the disk is full; rows .* TMPDIR") as error:
        prepare(find_source("table"), benchmark="vqa", root=tmp_path / "raw", out=tmp_path / "out")
    assert error.value.errno == errno.ENOSPC
    assert "--out" not in str(error.value)


def test_texts_that_come_again_are_found_in_their_order() -> None:
    texts = ["a", "b", "c", "b", "a", "b"]
    assert repeated(texts, str) == {"b": (1, 3), "a": (0, 4)}
    assert [(each.place, each.number) for each in Digests(texts).first()] == [(0, 2), (1, 3), (2, 1)]
    assert not repeated(["a", "b"], str)


MOST_BYTES = 200


@pytest.mark.slow
def test_memory_of_prepare_hardly_grows_with_the_rows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # What is done for so many rows at once is done for few here, so that it is the same for both tables.
    monkeypatch.setattr(tables, "_ROWS_AT_ONCE", 100)
    monkeypatch.setattr(read, "_AT_ONCE", 100)
    monkeypatch.setattr("medtune.data.raw.table_rows._ROWS", 100)
    few, many = 300, 1300
    peaks: dict[int, int] = {}
    for rows in (20, few, many):
        raw = tmp_path / f"{rows}-{len(peaks)}"
        raw.mkdir()
        for number in range(10):
            PIL.Image.effect_noise((32, 32), 40 + number).save(raw / f"{number}.png")
        lines = [
            f"{n % 10}.png,Is there finding {n // 10} in it?,{('yes', 'no')[n % 3 == 0]},p{n % 10}\n"
            for n in range(rows)
        ]
        (raw / "data.csv").write_text("image,question,answer,patient\n" + "".join(lines))
        # The first one imports what is needed.
        if rows >= few:
            tracemalloc.start()
        prepared = prepare(find_source("table"), benchmark="vqa", root=raw, out=tmp_path / f"out {raw.name}")
        peaks[rows] = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert sum(prepared.num_questions(split) for split in ("train", "val", "test")) == rows
    assert (peaks[many] - peaks[few]) / (many - few) < MOST_BYTES
