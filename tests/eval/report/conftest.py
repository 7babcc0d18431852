"""Fixtures with run folders: one on clean data, and one whose texts contain markup and right-to-left writing."""

import shutil
from pathlib import Path

import pytest

from medtune.data.prepared.read import open_prepared
from tests.eval.report.folders import hostile, write_audit, write_run


@pytest.fixture(scope="session")
def hostile_run(prepared_tiny: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run with an audit on data whose texts could break the page. Tests share it and must not change it."""
    root = tmp_path_factory.mktemp("hostile")
    shutil.copytree(prepared_tiny, root / "data")
    hostile(open_prepared(root / "data"))
    run = write_run(root / "run", root / "data", split="train")
    write_audit(run)
    return run


@pytest.fixture
def run(prepared_tiny: Path, tmp_path: Path) -> Path:
    """A run folder of its own for each test, which the test may break."""
    return write_run(tmp_path / "run", prepared_tiny)
