"""What commands import, and that the search for garbage passes over it, told by new processes of Python."""

import atexit
import gc
import importlib
import subprocess
import sys
from pathlib import Path

import pytest

from medtune.trainer.launch import imports
from medtune.trainer.launch.imports import importing, importing_for_good, keep_imported

UNUSED = ("datasets", "lightning", "matplotlib", "monai", "pandas", "scipy.signal", "sklearn", "torchmetrics")
"""What trains, logs, audits or reads other files: a recipe is checked without it."""


def told_by(arguments: list[str], told: str) -> str:
    """Runs a command as a process of its own does, and returns what an expression is afterwards."""
    code = (
        f"import gc, sys; sys.argv = ['medtune', *{arguments!r}]; from medtune.trainer.commands.cli import main; "
        f"status = main(); print(status, {told})"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "leaked" not in done.stderr
    return done.stdout.splitlines()[-1]


@pytest.mark.slow
def test_validate_imports_nothing_that_only_a_run_takes(prepared_tiny: Path) -> None:
    """And it looks for garbage again while it works, but not in what it has imported."""
    words = ["validate", "--no-weights", "nano_busi_lora", "--set", f"data.root={prepared_tiny}"]
    told = f"[each for each in {UNUSED!r} if each in sys.modules], gc.isenabled(), gc.get_freeze_count() > 100_000"
    assert told_by(words, told) == "0 [] True True"


@pytest.mark.slow
def test_a_run_imports_the_dashboard_before_torch() -> None:
    """And all that it imports is kept from the search, though this run ends at once: it has no data."""
    words = ["run", "nano_busi_lora", "--set", "data.root=nowhere", "log.wandb=offline"]
    order = "list(sys.modules).index('wandb.sdk.launch') < list(sys.modules).index('torch')"
    told = f"{order}, gc.get_freeze_count() > 250_000"
    assert told_by(words, told) == "1 True True"


def test_a_command_looks_for_garbage_while_it_works() -> None:
    assert told_by(["list", "recipes"], "gc.isenabled(), gc.get_freeze_count() > 0") == "0 True True"


def test_an_import_that_fails_leaves_the_search_as_it_was() -> None:
    with pytest.raises(ModuleNotFoundError), importing():
        importlib.import_module("medtune.no_such_module")
    assert gc.isenabled()
    gc.disable()
    try:
        with importing():
            pass
        assert not gc.isenabled()
    finally:
        gc.enable()


def test_what_was_imported_is_kept_from_the_search_before_it_begins_again(monkeypatch: pytest.MonkeyPatch) -> None:
    searches: list[bool] = []
    monkeypatch.setattr(imports, "_of_one_command", False)
    monkeypatch.setattr(gc, "freeze", lambda: searches.append(gc.isenabled()))
    monkeypatch.setattr(atexit, "register", lambda function: function)
    with importing_for_good():
        pass
    assert searches == [False]
    assert gc.isenabled()


def test_only_a_process_of_one_command_keeps_what_is_there(monkeypatch: pytest.MonkeyPatch) -> None:
    kept: list[str] = []
    monkeypatch.setattr(gc, "freeze", lambda: kept.append("once"))
    for of_one_command, expected in ((False, []), (True, ["once"])):
        monkeypatch.setattr(imports, "_of_one_command", of_one_command)
        keep_imported.cache_clear()
        keep_imported()
        keep_imported()
        assert kept == expected
    keep_imported.cache_clear()
