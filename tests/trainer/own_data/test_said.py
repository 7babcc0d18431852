"""Tests what `prepare` says of files that people bring: what is wrong with them, and the way on."""

from pathlib import Path

import numpy as np
import pytest

from medtune.data.media.volumes.formats.nifti import write_nifti
from medtune.trainer.commands.cli import main


def prepared(path: Path, *arguments: str) -> int:
    """Runs `medtune prepare vqa` on a file, into a folder of its own beside the file's, and returns its exit code."""
    return main(["prepare", "vqa", "--from", str(path), "--out", f"{path.parent}_out", *map(str, arguments)])


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
