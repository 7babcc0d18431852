"""A row whose model is served is asked through its server, and stands in the paper's table under its name."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from medtune.trainer.commands.cli import main
from tests.examples import write_example
from tests.models.endpoint.chat_server import KEY, ChatServer, completion, serving
from tests.trainer.conftest import Told

VARIABLE = "MEDTUNE_TEST_KEY"


@pytest.fixture
def chat() -> Iterator[ChatServer]:
    with serving() as server:
        server.reply = lambda body: completion("A")
        yield server


@pytest.fixture
def study(chat: ChatServer, tmp_path: Path) -> str:
    root = tmp_path / "pmc_vqa"
    write_example("pmc_vqa_2", tmp_path / "raw")
    assert (
        main(["prepare", "pmc_vqa", "--source", "pmc_vqa_2", "--from", str(tmp_path / "raw"), "--out", str(root)]) == 0
    )
    endpoint = {
        "base_url": chat.base_url, "model": "served-7b", "key_env": VARIABLE, "extra": {}, "cache": str(tmp_path / "c"),
        "max_retries": 1, "timeout_s": 5, "max_usd": 3,
    }  # fmt: skip
    values = {
        "data.benchmark": "pmc_vqa",
        "data.root": str(root),
        "eval.conditions": ["image"],
        "eval.max_new_tokens": 8,
        "log.wandb": "disabled",
        **{f"model.endpoint.{name}": value for name, value in endpoint.items()},
    }
    whole: dict[str, Any] = {
        "sets": {"pmc_vqa": str(root)},
        "tables": ["medevalkit"],
        "work": "eval",
        "fetch": "nothing",
        "rows": [{"name": "ours", "published": "GPT-5", "recipe": "endpoint_fetal_gauge", "set": values}],
    }
    path = tmp_path / "served.yaml"
    path.write_text("# A served model.\n" + yaml.safe_dump(whole, sort_keys=False), encoding="utf-8")
    return str(path)


def test_what_a_served_row_may_cost_is_said_without_asking_it(
    study: str, chat: ChatServer, shown: Told, monkeypatch: pytest.MonkeyPatch
) -> None:
    said = shown(main(["reproduce", study, "--dry"]))
    assert f"served   served-7b at {chat.base_url}" in said
    assert f"key      in the variable {VARIABLE}, which is not set here" in said
    assert "costs    at most 3 USD (model.endpoint.max_usd); 1.25 USD for a million tokens sent, 10 USD" in said
    monkeypatch.setenv(VARIABLE, KEY)
    nothing = dict.fromkeys(("usd_per_million_input_tokens", "usd_per_million_output_tokens", "max_usd", "key_env"))
    values = {"data.benchmark": "pmc_vqa", **{f"model.endpoint.{name}": value for name, value in nothing.items()}}
    free = f"rows={json.dumps([{'name': 'ours', 'recipe': 'endpoint_fetal_gauge', 'set': values}])}"
    said = shown(main(["reproduce", study, "--dry", "--set", free]))
    assert "key      none is sent" in said
    assert "costs    no price is set: the server is free, or give usd_per_million_input_tokens" in said
    assert chat.bodies == []


def test_a_served_row_is_asked_and_stands_in_the_table(
    study: str, chat: ChatServer, tmp_path: Path, shown: Told, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(VARIABLE, KEY)
    words = ["reproduce", study, "--out", str(tmp_path / "out"), "--wandb", "disabled", "--reuse", str(tmp_path / "no")]
    shown(main(words))
    assert {body["model"] for body in chat.bodies} == {"served-7b"}
    assert {*chat.keys} == {f"Bearer {KEY}"}
    found = json.loads((tmp_path / "out" / "study.json").read_text("utf-8"))
    (cell,) = found["cells"]
    assert (cell["printed"], cell["n"]) == (60.0, len(chat.bodies))
    results = json.loads((tmp_path / "out" / "rows" / "ours" / "results.json").read_text("utf-8"))
    (phase,) = results["phases"].values()
    assert cell["ours"] == pytest.approx(100 * phase["overall"]["value"])
    assert found["runs"][0]["what"] == "endpoint_fetal_gauge: served-7b"
    page = (tmp_path / "out" / "study.html").read_text("utf-8")
    assert "endpoint_fetal_gauge: served-7b" in page
    for file in (tmp_path / "out").rglob("*"):
        assert file.is_dir() or KEY.encode() not in file.read_bytes()
    asked = len(chat.bodies)
    assert "taken from" in shown(main([*words, "--resume"]))
    assert len(chat.bodies) == asked
