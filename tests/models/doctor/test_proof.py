"""Tests that the proof passes every twin, and that a fault on one side fails the check that is named after it."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.models.doctor.patients import asked_about, checkpoint, examined, failed, opened, pictures
from tests.models.twins import OF_IMAGES

QUICK = ("nano_qwen25vl", "nano_mllama", "nano_pocket")


@pytest.mark.parametrize("name", [n if n in QUICK else pytest.param(n, marks=pytest.mark.slow) for n in OF_IMAGES])
def test_a_twin_without_a_fault_passes(name: str, tmp_path: Path) -> None:
    folder = checkpoint(name, tmp_path / "checkpoint")
    checks = examined(name, opened(name, folder), folder, asked_about(pictures(tmp_path)))
    assert failed(checks) == set(), [checks[each] for each in failed(checks)]
    assert sum(check.passed is True for check in checks.values()) >= 8
