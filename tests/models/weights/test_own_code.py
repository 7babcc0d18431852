"""Tests that no checkpoint runs code of its own, and that no call of transformers could ask whether it may."""

import ast
import builtins
import json
import os
import pty
from collections.abc import Iterator
from pathlib import Path
from typing import Any, TextIO

import pytest
import torch

import medtune
from medtune.models.assemble import zoo_entry
from medtune.models.local_judge import LocalJudge
from medtune.models.weights.loading_options import Loading
from tests.models.transformers_vlm.asking import saved
from tests.models.weights.languages import write_language

CALLS = ("from_pretrained", "from_config", "load_dataset")
RUNS_NO_CODE = ("PeftModel", "LoraConfig")
"""Classes whose method reads tensors and numbers only, and takes no such argument."""
CODE = "import pathlib; pathlib.Path(__file__).with_name('ran').touch()\n"


def _calls(path: Path) -> Iterator[ast.Call]:
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute | ast.Name):
            called = node.func.attr if isinstance(node.func, ast.Attribute) else node.func.id
            owner = node.func.value if isinstance(node.func, ast.Attribute) else None
            if called in CALLS and not (isinstance(owner, ast.Name) and owner.id in RUNS_NO_CODE):
                yield node


def _forbids_code(call: ast.Call) -> bool:
    said = [keyword.value for keyword in call.keywords if keyword.arg == "trust_remote_code"]
    return len(said) == 1 and isinstance(said[0], ast.Constant) and said[0].value is False


def test_every_call_that_could_run_code_forbids_it() -> None:
    root = Path(medtune.__file__).parent
    calls = [(path, call) for path in sorted(root.rglob("*.py")) for call in _calls(path)]
    lacking = [f"{path.relative_to(root)}:{call.lineno}" for path, call in calls if not _forbids_code(call)]
    assert lacking == []
    assert len(calls) >= 10


def test_the_walk_finds_a_call_without_it(tmp_path: Path) -> None:
    path = tmp_path / "file.py"
    path.write_text("AutoConfig.from_pretrained(x)\nAutoConfig.from_pretrained(x, trust_remote_code=trust)\n")
    assert [_forbids_code(call) for call in _calls(path)] == [False, False]


@pytest.fixture(params=["closed", "terminal"])
def stdin(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """Gives the process a closed stdin or a terminal; collects what it is asked."""
    asked: list[str] = []

    def input_(prompt: str = "") -> str:
        asked.append(prompt)
        return "y"

    monkeypatch.setattr(builtins, "input", input_)
    leader, follower = pty.openpty()
    file: TextIO = os.fdopen(follower, encoding="utf-8")
    if request.param == "closed":
        file.close()
    monkeypatch.setattr("sys.stdin", file)
    yield asked
    if not file.closed:
        file.close()
    os.close(leader)


def wants_code(folder: Path, file: str, auto_map: dict[str, Any], **changes: object) -> None:
    path = folder / file
    said = json.loads(path.read_text("utf-8")) if path.is_file() else {}
    path.write_text(json.dumps({**said, **changes, "auto_map": auto_map}), "utf-8")
    (folder / "own.py").write_text(CODE, "utf-8")


def test_a_model_that_wants_code_is_refused_with_its_folder_and_what_to_do(tmp_path: Path, stdin: list[str]) -> None:
    folder = saved("nano_qwen25vl", tmp_path / "checkpoint")
    wants_code(folder, "config.json", {"AutoConfig": "own.Config"}, model_type="own_vlm")
    with pytest.raises(ValueError, match=r"checkpoint: it wants to run code .*config\.json.* Take .* or convert it"):
        zoo_entry("qwen25vl_7b").assemble(0, Loading(weights=str(folder)))
    assert stdin == []
    assert not (folder / "ran").exists()


def test_a_processor_that_wants_code_is_refused(tmp_path: Path, stdin: list[str]) -> None:
    folder = saved("nano_qwen25vl", tmp_path / "checkpoint")
    for path in folder.glob("*processor*.json"):
        path.unlink()
    wants_code(folder, "preprocessor_config.json", {"AutoProcessor": "own.Processor"}, processor_class="OwnProcessor")
    with pytest.raises(ValueError, match=r"checkpoint: it wants to run code of its own \(auto_map in preprocessor_"):
        zoo_entry("qwen25vl_7b").assemble(0, Loading(weights=str(folder)))
    assert stdin == []


def test_code_that_transformers_does_not_need_is_not_run(tmp_path: Path, stdin: list[str]) -> None:
    """An architecture that transformers knows is read with transformers' own class."""
    folder = saved("nano_qwen25vl", tmp_path / "checkpoint")
    wants_code(folder, "config.json", {"AutoConfig": "own.Config", "AutoModelForImageTextToText": "own.Model"})
    zoo_entry("qwen25vl_7b").assemble(0, Loading(weights=str(folder)))
    assert stdin == []
    assert not (folder / "ran").exists()


def test_language_models_and_judges_that_want_code_are_refused(tmp_path: Path, stdin: list[str]) -> None:
    folder = write_language(tmp_path / "language", "qwen2")
    wants_code(folder, "config.json", {"AutoConfig": "own.Config"}, model_type="own_language")
    with pytest.raises(ValueError, match=r"language: it wants to run code"):
        zoo_entry("nano_pocket_ct").assemble(0, Loading(language=str(folder)))
    with pytest.raises(ValueError, match=r"language: it wants to run code"):
        LocalJudge(str(folder), dtype="float32", max_new_tokens=4, device=torch.device("cpu"))
    assert stdin == []
