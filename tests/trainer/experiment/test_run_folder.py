"""The folder of a run says from which code it comes."""

from __future__ import annotations

import subprocess

import pytest

from medtune.trainer.experiment.run_folder import environment
from tests.conftest import REPOSITORY


def test_a_run_from_a_checkout_names_its_commit() -> None:
    if not (REPOSITORY / ".git").exists():
        pytest.skip("this copy of the tree is no checkout")
    head = subprocess.run(["git", "rev-parse", "HEAD"], cwd=REPOSITORY, capture_output=True, text=True, check=True)
    assert environment([])["git_commit"] == head.stdout.strip()
