"""What commands import, and that the search for garbage passes over it, told by new processes of Python."""

import atexit
import gc
import importlib
import subprocess
import sys
from pathlib import Path

import pytest

from medtune.trainer.commands import start
from medtune.trainer.commands.cli import main
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


@pytest.mark.soak
def test_validate_imports_nothing_that_only_a_run_takes(prepared_tiny: Path) -> None:
    """And it looks for garbage again while it works, but not in what it has imported."""
    words = ["validate", "--no-weights", "nano_busi_lora", "--set", f"data.root={prepared_tiny}"]
    told = f"[each for each in {UNUSED!r} if each in sys.modules], gc.isenabled(), gc.get_freeze_count() > 100_000"
    assert told_by(words, told) == "0 [] True True"


AT_TORCH = """
import os, sys

class Torch:
    def find_spec(self, name, path=None, target=None):
        if name == "torch":
            print("wandb.sdk.launch" in sys.modules)
            sys.stdout.flush()
            os._exit(0)

sys.meta_path.insert(0, Torch())
from medtune.trainer.commands.cli import main
main(["run", "nano_busi_lora", "--set", "data.root=nowhere", "log.wandb=offline"])
"""


@pytest.mark.slow
def test_a_run_imports_the_dashboard_before_torch() -> None:
    """This one ends where it imports torch."""
    done = subprocess.run([sys.executable, "-c", AT_TORCH], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "True", done.stderr


def test_a_run_keeps_all_that_it_imports_from_the_search(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Once everything is imported, before the search begins again; this run ends behind it, as it has no data."""
    done: list[tuple[str, bool]] = []
    for name in ("import_parts", "keep_imported"):
        monkeypatch.setattr(start, name, lambda *_, name=name: done.append((name, gc.isenabled())))
    assert main(["run", "nano_busi_lora", "--set", f"data.root={tmp_path}", "log.wandb=disabled"]) == 1
    assert done == [("import_parts", False), ("keep_imported", False)]


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
