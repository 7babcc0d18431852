import errno
import os
import resource
import subprocess
import sys
from pathlib import Path

import pytest

from medtune.data.types import Prediction
from medtune.eval.predictions.files import MERGED, format_line, read_predictions
from medtune.eval.predictions.shards import PredictionWriter, merge_shards, shard_path, stored_predictions
from tests.eval.answers import generated


def said(number: int, text: str = "benign") -> Prediction:
    return generated(f"q{number}", text)


def write(path: Path, *predictions: Prediction) -> None:
    with PredictionWriter(path) as writer:
        for prediction in predictions:
            writer.write(prediction)


def test_writer_appends_and_each_line_is_there_at_once(tmp_path: Path) -> None:
    path = shard_path(tmp_path, 0)
    with PredictionWriter(path) as writer:
        writer.write(said(1))
        assert read_predictions(path) == [said(1)]
    write(path, said(2))
    assert read_predictions(path) == [said(1), said(2)]


@pytest.mark.parametrize("kept", [0, 1, 5, -1])
def test_writer_cuts_a_torn_last_line(tmp_path: Path, kept: int) -> None:
    path = shard_path(tmp_path, 0)
    path.write_bytes(format_line(said(1)) + format_line(said(2))[:kept])
    with PredictionWriter(path) as writer:
        assert writer.done == {said(1).key}
        writer.write(said(2, "normal"))
    assert read_predictions(path) == [said(1), said(2, "normal")]


def test_writer_refuses_a_broken_whole_line(tmp_path: Path) -> None:
    path = shard_path(tmp_path, 0)
    path.write_bytes(b"{broken\n" + format_line(said(1)))
    with pytest.raises(ValueError, match=r"rank0\.jsonl, line 1: not valid JSON"):
        PredictionWriter(path)


def test_writer_refuses_a_key_twice(tmp_path: Path) -> None:
    with PredictionWriter(shard_path(tmp_path, 0)) as writer:
        writer.write(said(1))
        with pytest.raises(ValueError, match="answered twice"):
            writer.write(said(1, "normal"))


def test_writer_on_a_full_disk_keeps_whole_lines(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = shard_path(tmp_path, 0)
    real = os.write
    with PredictionWriter(path) as writer:
        writer.write(said(1))

        def half(file: int, data: bytes) -> int:
            if len(data) < 20:
                raise OSError(errno.ENOSPC, "No space left on device")
            return real(file, data[: len(data) - 10])

        monkeypatch.setattr("medtune.eval.predictions.shards.os.write", half)
        with pytest.raises(OSError, match=r"no space left on the disk.*--resume"):
            writer.write(said(2))
        monkeypatch.undo()
    assert path.read_bytes() == format_line(said(1))
    write(path, said(2))
    assert len(read_predictions(path)) == 2


def test_writer_under_a_real_limit_keeps_whole_lines(tmp_path: Path) -> None:
    program = f"""
import resource
from pathlib import Path
from medtune.data.types import Prediction, PredictionKey
from medtune.eval.predictions.shards import PredictionWriter
resource.setrlimit(resource.RLIMIT_FSIZE, (1000, resource.RLIM_INFINITY))
with PredictionWriter(Path({str(shard_path(tmp_path, 0))!r})) as writer:
    for number in range(100):
        writer.write(Prediction(PredictionKey(f"q{{number}}", "image", "generation", 0), text="benign"))
"""
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert ended.returncode == 1
    assert "could not append" in ended.stderr
    assert resource.getrlimit(resource.RLIMIT_FSIZE)[0] != 1000
    kept = read_predictions(shard_path(tmp_path, 0))
    assert [prediction.key.question_id for prediction in kept] == [f"q{number}" for number in range(len(kept))]
    assert len(kept) >= 2


def test_merge_sorts_by_question_and_removes_the_shards(tmp_path: Path) -> None:
    write(shard_path(tmp_path, 0), said(3), said(1))
    write(shard_path(tmp_path, 11), said(2))
    merge_shards(tmp_path, [said(number).key for number in (1, 2, 3)])
    assert read_predictions(tmp_path / MERGED) == [said(1), said(2), said(3)]
    assert [entry.name for entry in tmp_path.iterdir()] == [MERGED]


def test_merge_twice_changes_nothing(tmp_path: Path) -> None:
    write(shard_path(tmp_path, 0), said(1))
    merge_shards(tmp_path, [said(1).key])
    before = (tmp_path / MERGED).read_bytes()
    merge_shards(tmp_path, [said(1).key])
    assert (tmp_path / MERGED).read_bytes() == before


def test_merge_after_a_kill_between_rename_and_removal(tmp_path: Path) -> None:
    write(shard_path(tmp_path, 0), said(1))
    (tmp_path / MERGED).write_bytes(format_line(said(1)))
    merge_shards(tmp_path, [said(1).key])
    assert read_predictions(tmp_path / MERGED) == [said(1)]


def test_merge_refuses_two_answers_to_one_request(tmp_path: Path) -> None:
    write(shard_path(tmp_path, 0), said(1))
    write(shard_path(tmp_path, 1), said(1, "normal"))
    with pytest.raises(ValueError, match="twice with different answers"):
        merge_shards(tmp_path, [said(1).key])


def test_merge_refuses_missing_and_unasked_predictions(tmp_path: Path) -> None:
    write(shard_path(tmp_path, 0), said(1))
    with pytest.raises(ValueError, match=r"1 of 2 predictions are missing: question 'q2'"):
        merge_shards(tmp_path, [said(1).key, said(2).key])
    with pytest.raises(ValueError, match="does not ask for"):
        merge_shards(tmp_path, [said(2).key])
    assert shard_path(tmp_path, 0).exists()


def test_stored_predictions_ignores_the_torn_end_of_any_shard(tmp_path: Path) -> None:
    shard_path(tmp_path, 5).write_bytes(format_line(said(1)) + format_line(said(2))[:-1])
    assert list(stored_predictions(tmp_path)) == [said(1).key]
