"""`medtune eval RUN --engine`: the same scores as here, what is compared before they are believed, and resuming."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from medtune.trainer.commands.cli import main
from medtune.trainer.engine.kept_export import kept_export
from medtune.trainer.experiment.run_folder import RunFolder
from tests.models.server.fake_python import write_fake_python
from tests.models.server.stand_in import StandIn, serving
from tests.models.server.tiny_model import TinyModel
from tests.trainer.engine.conftest import SETTINGS, Started, export


def rows(path: Path) -> dict[tuple[str, str, str], dict[str, Any]]:
    found = [json.loads(line) for line in path.read_text().splitlines()]
    return {(each["question_id"], each["condition"], each["reading"]): each for each in found}


@pytest.mark.parametrize("engine", ["vllm", pytest.param("sglang", marks=pytest.mark.soak)])
def test_scores_on_servers_are_those_of_this_process(
    engine: str, trained: Path, started: Started, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    servers = [started(), started()]
    addresses = ",".join(each.address for each in servers)
    here, there = tmp_path / "here", tmp_path / "there"
    assert main(["eval", str(trained), "--out", str(here), "--limit", "6"]) == 0
    assert main(
        ["eval", str(trained), "--out", str(there), "--limit", "6", "--engine", engine, "--addresses", addresses]
    ) == 0  # fmt: skip
    ours, theirs = (rows(out / "final" / "predictions.jsonl") for out in (here, there))
    assert ours.keys() == theirs.keys()
    assert {condition for _, condition, _ in theirs} == {"image", "text_only"}
    for key, row in ours.items():
        assert theirs[key]["prompt_hash"] == row["prompt_hash"]
        assert theirs[key].get("text") == row.get("text")
        assert theirs[key].get("option_logprobs") == (
            row["option_logprobs"] and pytest.approx(row["option_logprobs"], abs=2e-3)
        )
    overall = [json.loads((out / "results.json").read_text())["phases"]["final"]["overall"] for out in (here, there)]
    assert overall[0]["value"] == overall[1]["value"]
    assert all(server.bodies for server in servers)
    version = {"vllm": "vLLM 0.33.0", "sglang": "SGLang 0.5.23"}[engine]
    said = json.loads((there / "weights.json").read_text())["answers"]
    assert said.startswith(f"{version}, float32; compared with the model in this process on ")
    assert "choices are the same" in said
    assert "replies are the same to the letter" in said
    assert version in (there / "report.md").read_text() + (there / "report.html").read_text()
    record = json.loads((there / "engine.json").read_text())
    assert record["engine"] == engine
    assert record["agreement"]["largest"] < 1e-3
    assert record["agreement"]["questions"] >= 6
    assert "answers    " in capsys.readouterr().out


def test_a_server_with_other_weights_is_not_believed(
    trained: Path, started: Started, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    server, out = started("other weights"), tmp_path / "out"
    command = ["eval", str(trained), "--out", str(out), "--limit", "6", "--engine", "vllm"]
    assert main([*command, "--addresses", server.address]) == 1
    said = capsys.readouterr().err
    assert "the server does not answer like the model in this process" in said
    assert "Nothing was evaluated" in said
    assert not (out / "results.json").exists()
    assert not (out / "final").exists()


@pytest.mark.slow
def test_a_broken_evaluation_continues_where_it_was(
    trained: Path, started: Started, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    server, out = started(), tmp_path / "out"
    command = ["eval", str(trained), "--out", str(out), "--limit", "6", "--engine", "vllm"]
    addresses = ["--addresses", server.address]

    def dies(number: int) -> None:
        if (out / "final").is_dir() and any(path.stat().st_size for path in (out / "final").iterdir()):
            raise ConnectionError

    server.before = dies
    assert main([*command, *addresses]) == 1
    assert "no server is left" in capsys.readouterr().err
    kept = {key for path in (out / "final").glob("*.jsonl") for key in rows(path)}
    assert kept
    assert main(["eval", str(trained), "--out", str(out), "--limit", "6", "--resume"]) == 1
    assert "its first answers come from vllm, and now the model in this process" in capsys.readouterr().err
    assert main([*command, "--addresses", server.address, "--resume", "--engine", "sglang"]) == 1
    assert "continue it with the same --engine" in capsys.readouterr().err
    server.before = lambda number: None
    server.bodies.clear()
    assert main([*command, *addresses, "--resume"]) == 0
    whole = rows(out / "final" / "predictions.jsonl")
    rest = {key: row for key, row in whole.items() if key not in kept}
    assert rest
    # vLLM is asked once for all letters and once for the end of each letter's turn.
    requests = sum(1 + len(row["option_logprobs"] or ()) for row in rest.values())
    assert len(server.bodies) == requests
    assert (out / "results.json").is_file()


@pytest.mark.soak
@pytest.mark.parametrize("engine", ["vllm", "sglang"])
def test_a_server_is_started_from_its_own_environment(
    engine: str, trained: Path, tmp_path: Path, cache: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out, python = tmp_path / "out", write_fake_python(tmp_path)
    command = [
        "eval",
        str(trained),
        "--out",
        str(out),
        "--limit",
        "4",
        "--engine",
        engine,
        "--engine-devices",
        "0",
        "1",
    ]
    assert main([*command, "--engine-python", str(python)]) == 0
    said = capsys.readouterr().out
    assert said.count("is starting, its output goes to") == 2
    assert len(list((cache / "medtune" / "served").iterdir())) == 1
    assert json.loads((out / "results.json").read_text())["phases"]["final"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--engine", "vllm"], "vLLM needs an environment of its own .*pip install vllm==0.33.0.*MEDTUNE_VLLM_PYTHON"),
        (["--engine", "sglang", "--engine-python", "nowhere"], "nowhere: no such file"),
        (["--addresses", "http://a:1"], "--addresses needs --engine"),
        (["--engine", "vllm", "--addresses", "a:8000"], "no address like http://host:8000"),
        (["--engine", "vllm", "--addresses", "http://a:1,http://a:1/"], "names a server twice"),
        (["--engine", "vllm", "--addresses", "http://a:1", "--engine-args=--x 1"], "leave out --addresses"),
        (["--engine", "vllm", "--addresses", "http://a:1", "--set", "eval.temperature=0.7"], "set eval.temperature=0"),
        (
            ["--engine", "vllm", "--addresses", "http://a:1", "--set", "model.name=nano_pocket"],
            "nano_pocket: vLLM cannot serve it: medtune puts it together",
        ),
        (
            ["--engine", "vllm", "--addresses", "http://a:1", "--set", "model.name=nano_mllama"],
            "vLLM 0.10.2 removed Llama 3.2 Vision",
        ),
        (
            ["--engine", "sglang", "--addresses", "http://a:1", "--set", "model.name=nano_llava"],
            "SGLang does not say which tokens",
        ),
        (["--engine", "vllm", "--addresses", "http://a:1", "--set", "train.seed=3", "model.dtype=bfloat16"], "model.*"),
    ],
)
def test_what_cannot_be_asked_is_refused_before_anything_is_written(
    arguments: list[str],
    message: str,
    trained: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv("MEDTUNE_VLLM_PYTHON", raising=False)
    out = tmp_path / "out"
    assert main(["eval", str(trained), "--out", str(out), *arguments]) == 1

    assert re.search(message, capsys.readouterr().err, re.DOTALL)
    assert not out.exists()


def test_an_engine_needs_a_run(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["eval", "nano_busi_lora", "--engine", "vllm", "--addresses", "http://a:1"]) == 1
    assert "is no run folder" in capsys.readouterr().err


@pytest.mark.soak
def test_a_run_on_4_bits_is_compared_with_the_merged_weights(
    prepared_tiny: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("bitsandbytes")
    run, out = tmp_path / "run", tmp_path / "out"
    settings = ["--set", f"data.root={prepared_tiny}", *SETTINGS, "model.language_bits=4"]
    assert main(["train", "nano_busi_lora", "--out", str(run), "--limit", "8", *settings]) == 0
    server = StandIn(TinyModel(kept_export(RunFolder(run), export)))
    with serving(server):
        command = ["eval", str(run), "--out", str(out), "--limit", "4", "--engine", "vllm"]
        assert main([*command, "--addresses", server.address]) == 0
    assert json.loads((out / "engine.json").read_text())["agreement"]["largest"] < 1e-3
    assert "exported to nano_qwen25vl-" in (out / "weights.json").read_text()
