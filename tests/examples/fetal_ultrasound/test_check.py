"""Tests that the worked example of a plugin keeps every contract, as `medtune check` tells its author."""

import pytest

from medtune.trainer.commands.cli import main
from tests.examples.fetal_ultrasound.plugin import PLUGIN


def test_the_example_keeps_its_contracts(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["check", str(PLUGIN)]) == 0
    assert "4 extensions checked, 0 failed" in capsys.readouterr().out
