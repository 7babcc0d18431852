"""Tests what `prepare` says of files that people bring: what is wrong with them, and the way on."""

import errno
from pathlib import Path

import numpy as np
import pytest

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
