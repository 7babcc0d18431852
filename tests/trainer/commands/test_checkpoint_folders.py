"""Tests that what `medtune validate` accepts of a checkpoint `medtune run` finishes, and that both refuse alike."""

import json
from pathlib import Path

import pytest

from medtune.models.nano.transformers_vlm import write_nano
from medtune.models.zoo.nano_any_size import build_qwen25vl
from medtune.trainer.commands.cli import main
from tests.models.weights.hub_stand_in import FIRST, REPOSITORY, SECOND, write_cache
from tests.trainer.conftest import Capture, Told, json_of

pytestmark = pytest.mark.usefixtures("forked_readers")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A checkpoint whose generation_config.json names several end tokens, the template's not first."""
    path = tmp_path / "checkpoint"
    write_nano(build_qwen25vl(), path, seed=0)
    said = {"eos_token_id": [256, 258], "do_sample": True, "temperature": 0.000001, "repetition_penalty": 1.05}
    (path / "generation_config.json").write_text(json.dumps(said), encoding="utf-8")
    return path


def arguments(prepared: Path, weights: object, *more: str) -> list[str]:
    settings = [f"data.root={prepared}", "model.name=nano_qwen25vl", f"model.weights={weights}", "train.max_steps=1"]
    return ["nano_busi_lora", "--set", *settings, "train.batch_size=2", "eval.questions=2", "eval.every_steps=1", *more]


@pytest.mark.slow
def test_a_folder_with_several_end_tokens_is_validated_and_run(
    folder: Path, prepared_tiny: Path, tmp_path: Path, shown: Told
) -> None:
    both = "eval.readings=[likelihood,generation]"
    assert "<|im_end|>]]" in shown(main(["validate", *arguments(prepared_tiny, folder, both)]))
    out = tmp_path / "run"
    assert main(["run", *arguments(prepared_tiny, folder, both), "--out", str(out)]) == 0
    told = [json.loads(line) for line in (out / "final" / "predictions.jsonl").read_text("utf-8").splitlines()]
    replies = [each for each in told if each.get("finish_reason")]
    assert replies
    assert all("<|" not in each["text"] for each in replies)


def test_a_folder_that_wants_code_is_refused_by_both(
    folder: Path, prepared_tiny: Path, tmp_path: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    said = json_of(folder / "config.json")
    said |= {"model_type": "own_vlm", "auto_map": {"AutoConfig": "own.Config"}}
    (folder / "config.json").write_text(json.dumps(said), encoding="utf-8")
    for verb in ("validate", "run"):
        assert main([verb, *arguments(prepared_tiny, folder)]) == 1
        assert f"{folder}: it wants to run code of its own (auto_map in config.json)" in capsys.readouterr().err


@pytest.mark.slow
def test_a_run_records_its_commit_and_goes_on_with_it(
    prepared_tiny: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    """A branch that moves between two commands changes nothing in a run that was begun before."""
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    for seed, commit in enumerate((FIRST, SECOND)):
        write_nano(build_qwen25vl(), tmp_path / commit, seed=seed)
        (tmp_path / commit / "README.md").write_text("---\nlicense: cc-by-4.0\n---\n", encoding="utf-8")
    write_cache(tmp_path / "cache", {each: tmp_path / each for each in (FIRST, SECOND)}, refs={"main": FIRST})
    assert main(["validate", *arguments(prepared_tiny, REPOSITORY)]) == 0
    out = tmp_path / "run"
    assert main(["run", *arguments(prepared_tiny, REPOSITORY), "--out", str(out)]) == 0
    weights = json_of(out / "weights.json")
    assert all(f"{REPOSITORY} at commit {FIRST}" in each for each in weights.values())
    assert json_of(out / "environment.json")["commits"] == {REPOSITORY: FIRST}
    results = json_of(out / "results.json")
    assert results["weights_commit"] == f"{REPOSITORY} at commit {FIRST}"
    assert FIRST in (out / "report.html").read_text("utf-8")
    (tmp_path / "cache" / "models--nobody--tiny-vlm" / "refs" / "main").write_text(SECOND)
    capsys.readouterr()
    assert main(["export", str(out), "--out", str(tmp_path / "exported")]) == 0
    manifest = json_of(tmp_path / "exported" / "medtune.json")
    assert all(FIRST in each for each in manifest["provenance"].values())
    assert "- Weights that it was made from: cc-by-4.0" in (tmp_path / "exported" / "README.md").read_text("utf-8")
