"""The notebook of examples/: its cells run one after another in this process, on few patients and a tiny model.

A kernel would bring five packages for what these cells do: lines that begin with `!medtune` are commands, as on the
pages, and all others are Python.
"""

import json
import os
import re
from pathlib import Path
from typing import Any

import pytest

from tests.packages.installed import ROOT
from tests.website.desk import Desk

NOTEBOOK = json.loads((ROOT / "examples" / "first_gain.ipynb").read_text("utf-8"))
CELLS = [(cell, "".join(cell["source"])) for cell in NOTEBOOK["cells"] if cell["cell_type"] == "code"]


@pytest.mark.slow
def test_the_cells_run_one_after_another(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "shared").mkdir()
    desk, names = Desk(tmp_path, tmp_path / "shared"), dict[str, Any]()
    for _, source in CELLS:
        if source.startswith("!"):
            assert desk.run(source[1:]) == 0, source
        else:
            exec(compile(source, "first_gain.ipynb", "exec"), names)
    assert re.search(r"gain +[+-]\d\.\d{3}  95 % interval", capsys.readouterr().out)
    assert "<!doctype html>" in Path("first_gain.html").read_text("utf-8")
    assert os.path.samefile(tmp_path, Path.cwd())


def test_the_notebook_shows_what_it_printed() -> None:
    assert (NOTEBOOK["nbformat"], NOTEBOOK["metadata"]["kernelspec"]["language"]) == (4, "python")
    assert [cell["execution_count"] for cell, _ in CELLS] == list(range(1, len(CELLS) + 1))
    said = ["".join(out.get("text", "")) for cell, _ in CELLS for out in cell["outputs"]]
    assert any(re.search(r"gain +[+-]\d\.\d{3}  95 % interval", text) for text in said)
    assert any("image/png" in out.get("data", {}) for cell, _ in CELLS for out in cell["outputs"])
    assert not re.search(r"/(?:home|root|tmp|work)/", json.dumps(NOTEBOOK))


def test_commands_and_python_stand_in_cells_of_their_own() -> None:
    for _, source in CELLS:
        assert source.startswith("!medtune ") or "!medtune" not in source
        assert source.count("\n!") == 0
