"""Tests of `eval.judge`: the evaluations of a run have their free answers judged, and lose nothing where that fails."""

import math
from pathlib import Path

import pytest
import yaml

from medtune.eval.results.metrics_file import read_metrics
from medtune.trainer.commands.cli import main
from tests.models.endpoint.chat_server import KEY, ChatServer, completion
from tests.ranks import medtune_forked
from tests.trainer.commands.conftest import VARIABLE, free_questions, rubric
from tests.trainer.conftest import Told, json_of


def of_recipe(judge_file: Path, **other: object) -> list[str]:
    """The judge of the file, and other fields of its endpoint, as fields of a recipe."""
    endpoint = {**yaml.safe_load(judge_file.read_text())["endpoint"], **other}
    return [f"eval.judge.endpoint.{name}={value}" for name, value in endpoint.items()]


def asked_of(chat: ChatServer, model: str) -> int:
    return sum(body["model"] == model for body in chat.bodies)


@pytest.mark.parametrize("devices", [1, pytest.param(2, marks=pytest.mark.slow)])
def test_a_recipe_has_free_answers_judged_at_every_evaluation(
    devices: int, chat: ChatServer, clips: Path, judge_file: Path, tmp_path: Path, shown: Told
) -> None:
    """Values stand in results.json and metrics.csv; a resumed run and `medtune judge` ask for none of them again."""
    out, free = tmp_path / "trained", len(free_questions(clips))
    settings = [f"data.root={clips}", "data.benchmark=rexsonovqa", "log.wandb=disabled", "eval.max_new_tokens=16"]
    settings += ["train.max_steps=2", "eval.every_steps=2", "eval.judge_at=[zero_shot,val,final]"]
    settings.append(f"train.devices={devices}")
    command = ["run", "nano_busi_lora", "--out", str(out), "--set", *settings, *of_recipe(judge_file)]
    said = shown(main(command)) if devices == 1 else " ".join(medtune_forked(*command).split())
    assert said.count("final: judged by judge-1, instructions") == 1
    results = json_of(out / "results.json")
    for phase in ("zero_shot", "final"):
        found = results["phases"][phase]["metrics"]["image"]["robust"]["rubric"]
        assert (found["n"], found["unscored"]) == (free, 0)
        assert found["value"] is not None
    assert "wait for a judge" not in said
    rows = read_metrics(out / "metrics.csv")
    assert any(row.name == "val/image/robust/rubric" and math.isfinite(row.value) for row in rows)
    asked = len({str(body) for body in chat.bodies})
    assert len(chat.bodies) == asked > 0
    assert main(["judge", str(out)]) == 0
    if devices == 2:
        return
    assert main([*command[:4], "--resume", *command[4:]]) == 0
    assert (len(chat.bodies), json_of(out / "results.json")["phases"]) == (asked, results["phases"])
    assert KEY not in "".join(path.read_text(errors="replace") for path in out.rglob("*") if path.is_file())


@pytest.mark.parametrize("trouble", ["down", "cap", "nonsense"])
def test_a_phase_keeps_all_else_where_its_judge_fails(
    trouble: str, chat: ChatServer, clips: Path, judge_file: Path, tmp_path: Path, shown: Told
) -> None:
    well, out, free = chat.reply, tmp_path / "run", len(free_questions(clips))
    other: dict[str, object] = {"max_retries": 0}
    if trouble == "down":
        other["base_url"] = "http://127.0.0.1:9/v1"
    elif trouble == "cap":
        prices = ("usd_per_million_input_tokens", "usd_per_million_output_tokens")
        other |= {"max_usd": 0.001, **dict.fromkeys(prices, 1000)}
    else:
        chat.reply = lambda body: completion("A" if body["model"] == "answerer" else "I like it")
    endpoint = {"base_url": chat.base_url, "model": "answerer", "key_env": VARIABLE, "cache": tmp_path / "cache"}
    settings = [f"model.endpoint.{name}={value}" for name, value in endpoint.items()]
    settings += ["data.benchmark=rexsonovqa", f"data.root={clips}", "log.wandb=disabled", "eval.conditions=[image]"]
    command = ["eval", "endpoint_fetal_gauge", "--out", str(out), "--set", *settings, *of_recipe(judge_file, **other)]
    said = shown(main(command))
    assert {"down": "no connection", "cap": "max_usd is 0.00", "nonsense": "no verdict: 'I like it'"}[trouble] in said
    assert f"`medtune judge {out}` asks for these alone" in said
    assert f"which wait for a judge (medtune judge {out}): zero-shot {free}." in said
    primary = json_of(out / "results.json")["phases"]["zero_shot"]["overall"]
    assert primary["n"] > 0
    assert rubric(out)["unscored"] == free
    chat.reply, before = well, asked_of(chat, "judge-1")
    mended = [f"endpoint.base_url={chat.base_url}", "endpoint.max_usd=null"]
    assert main(["judge", str(out), "--set", *mended]) == 0
    assert (rubric(out)["unscored"], asked_of(chat, "judge-1") - before) == (0, free)
    assert json_of(out / "results.json")["phases"]["zero_shot"]["overall"] == primary


def test_a_recipe_with_a_judge_that_could_not_judge_is_refused(
    clips: Path, prepared_tiny: Path, judge_file: Path, monkeypatch: pytest.MonkeyPatch, refused: Told, shown: Told
) -> None:
    base = ["nano_busi_lora", "--set", "log.wandb=disabled", *of_recipe(judge_file)]
    ours, own = [f"data.root={clips}", "data.benchmark=rexsonovqa"], [f"data.root={prepared_tiny}"]
    assert f"{len(free_questions(clips))} free answers at zero_shot, final; no cap" in shown(
        main(["validate", *base, *ours])
    )
    for settings, message in [
        (own, "eval.judge: no answer of BUSI breast ultrasound needs"),
        ([*ours, "eval.judge.prompt=[nowhere.txt]"], "no file nowhere.txt"),
        ([*ours, "eval.judge.local.weights=folder"], "a judge needs one of eval.judge.endpoint"),
        ([*ours, "eval.judge.endpoint.temperature=0.5"], "set eval.judge.strict=false"),
    ]:
        assert message in refused(main(["validate", *base, *settings]))
    monkeypatch.delenv(VARIABLE)
    assert f"the environment variable {VARIABLE} is not set" in refused(main(["run", *base, *ours]))
