"""Tests of `medtune eval` with a served model: tables, the spending limit, and that no key is ever written."""

import csv
import json
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import PIL.Image
import pytest

from medtune.models.endpoint.settings import NO_LIKELIHOOD
from medtune.trainer.commands.cli import main
from tests.models.endpoint.chat_server import KEY, ChatServer, Said, completion, failure, serving
from tests.ranks import medtune_forked
from tests.trainer.conftest import Capture, Nano, Told, json_of

VARIABLE = "MEDTUNE_TEST_KEY"
Evaluated = Callable[..., int]


@pytest.fixture
def chat() -> Iterator[ChatServer]:
    with serving() as server:
        server.reply = mixed(server)
        yield server


@pytest.fixture
def settings(chat: ChatServer, prepared_tiny: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    monkeypatch.setenv(VARIABLE, KEY)
    endpoint = {
        "base_url": chat.base_url, "model": "served-7b", "key_env": VARIABLE, "cache": tmp_path / "cache",
        "max_retries": 1, "timeout_s": 5, "extra.reasoning_effort": "null", "max_usd": 500,
    }  # fmt: skip
    return [
        "data.benchmark=busi", f"data.root={prepared_tiny}", "log.wandb=disabled", "eval.max_new_tokens=8",
        *(f"model.endpoint.{name}={value}" for name, value in endpoint.items()),
    ]  # fmt: skip


@pytest.fixture
def medtune(settings: list[str]) -> Evaluated:
    def of(command: str, out: Path | None, *overrides: str, extra: tuple[str, ...] = ()) -> int:
        folder = ["--out", str(out)] if out else []
        return main([command, "endpoint_fetal_gauge", *folder, *extra, "--set", *settings, *overrides])

    return of


def mixed(chat: ChatServer) -> Callable[[dict[str, Any]], Said]:
    """Replies with a letter; some replies are refused, are filtered, or repeat the key."""
    odd = {
        2: completion(None, refusal="I cannot help with that."),
        3: completion("", finish="content_filter"),
        4: completion(f"I'm sorry, but I can't assist with that; your key is {KEY}"),
    }
    return lambda body: odd.get(len(chat.bodies) % 7, completion("A"))


def lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def test_a_served_model_predicts_rows_without_truths(
    settings: list[str], chat: ChatServer, tmp_path: Path, shown: Told, refused: Told
) -> None:
    for number in range(2):
        PIL.Image.effect_noise((64, 48), 90).save(tmp_path / f"{number}.png")
    (tmp_path / "new.csv").write_text("image,question,options\n0.png,Is it so?,yes|no\n1.png,Is it so?,yes|no\n")
    answers = tmp_path / "answers.csv"
    served = ["predict", "endpoint_fetal_gauge", "--from", str(tmp_path / "new.csv"), "--set", *settings]
    chat.reply = lambda body: completion(("yes", "I cannot say.")[len(chat.bodies) % 2])
    assert "2 questions answered" in shown(main([*served, "model.answer_format=text", "--out", str(answers)]))
    with answers.open(newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    assert sorted((row["answer"], row["readable"], row["probability"]) for row in rows) == [
        ("", "no", ""), ("yes", "yes", ""),
    ]  # fmt: skip
    assert {row["trained_on"] for row in rows} == {"nothing by medtune: these are the weights that the recipe names"}
    assert not any(KEY in path.read_text("utf-8") for path in tmp_path.glob("*.csv"))
    unsure = [*served, "--out", str(tmp_path / "x.csv"), "--error-rate", "0.1"]
    assert "likelihoods" in refused(main(unsure))


def test_evaluation_of_a_served_model(medtune: Evaluated, chat: ChatServer, tmp_path: Path, shown: Told) -> None:
    run = tmp_path / "run"
    out = shown(medtune("eval", run))
    results = json_of(run / "results.json")
    predictions = lines(run / "zero_shot" / "predictions.jsonl")
    assert (results["model"], list(results["phases"])) == ("served-7b", ["zero_shot"])
    assert {p["reading"] for p in predictions} == {"generation"}
    assert {p["condition"] for p in predictions} == {"image", "text_only"}
    assert results["unavailable"] == {
        "likelihood": "a model behind an endpoint gives no log-probabilities of given options"
    }
    assert f"likelihood n/a n/a {NO_LIKELIHOOD}" in " ".join(out.split())
    kinds = [p["finish_reason"] for p in predictions]
    refusals = results["phases"]["zero_shot"]["refusals"]
    assert refusals == {
        "n": len(predictions), "filtered": kinds.count("content_filter"), "refused": kinds.count("refusal"),
        "in_words": sum("sorry" in p["text"] for p in predictions),
    }  # fmt: skip
    assert all(refusals.values())
    assert out.index("at most about") < out.index("spent in this folder")
    spent = lines(run / "spending.jsonl")
    assert len(spent) == len(chat.bodies) == len(predictions)
    assert not any("reasoning_effort" in body for body in chat.bodies)
    report = (run / "report.md").read_text()
    assert "n/a" in report
    assert "withheld by a content filter" in report


def test_likelihoods_of_a_server_that_gives_them(
    medtune: Evaluated, chat: ChatServer, tmp_path: Path, shown: Told
) -> None:
    """The tokens are the bytes of the texts: "A" is likely, every other letter is not, and turns end with a 0."""

    def rows(body: dict[str, Any]) -> Said:
        last = body["messages"][-1]
        answer = list(last["content"].encode()) if last["role"] == "assistant" else []
        ids = [*range(1, 9), *answer, *([] if body.get("continue_final_message") or not answer else [0, 10])]
        said = completion("B").body
        assert isinstance(said, dict)
        told = [{str(id_): {"logprob": -0.1 if id_ in (0, 65) else -3.0}} for id_ in ids[1:]]
        return Said({**said, "prompt_logprobs": [None, *told]} if "prompt_logprobs" in body else said)

    chat.reply = rows
    both = ("model.endpoint.prompt_logprobs=true", "eval.readings=null")
    said = shown(medtune("validate", None, *both))
    assert "log-likelihood from prompt_logprobs" in said
    assert medtune("eval", tmp_path / "run", *both) == 0
    assert int(said.partition("cost ")[2].split()[0].replace(",", "")) == len(chat.bodies)
    predictions = lines(tmp_path / "run" / "zero_shot" / "predictions.jsonl")
    likely = [each for each in predictions if each["reading"] == "likelihood"]
    assert {each["condition"] for each in likely} == {"image", "text_only"}
    assert len(likely) == 2 * (len(predictions) - len(likely)) > 0
    for each in likely:
        assert each["option_logprobs"] == pytest.approx([-0.2, *[-3.1] * (len(each["option_logprobs"]) - 1)])
        assert set(each["option_tokens"]) == {2}
    assert json_of(tmp_path / "run" / "results.json")["unavailable"] == {}


@pytest.mark.slow
def test_neither_key_nor_address_where_it_does_not_belong(
    medtune: Evaluated, settings: list[str], chat: ChatServer, tmp_path: Path, capfd: Any
) -> None:
    run = tmp_path / "run"
    command = ["eval", "endpoint_fetal_gauge", "--out", str(run), "--set", *settings]
    printed = medtune_forked(*command, "log.wandb=offline", "log.images=always")
    assert main(["audit", str(run)]) == 0
    chat.reply = lambda body: failure(401, message=f"Incorrect API key provided: {KEY}")
    assert medtune("eval", tmp_path / "failed", f"model.endpoint.cache={tmp_path / 'other'}") == 1
    said = capfd.readouterr()
    assert "HTTP 401: " in said.err
    assert "[key]" in said.err
    assert KEY not in said.out + said.err + printed
    files = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    assert {"recipe.yaml", "environment.json", "report.html", "predictions.jsonl"} <= {path.name for path in files}
    assert any(b"[key]" in content for content in files.values())
    assert [path for path, content in files.items() if KEY.encode() in content] == []
    assert set(chat.keys) == {f"Bearer {KEY}"}
    (dashboard,) = [content for path, content in files.items() if path.suffix == ".wandb"]
    assert b"served-7b" in dashboard
    assert chat.base_url.encode() not in dashboard


def test_one_table_with_a_model_of_this_machine(
    medtune: Evaluated, nano: Nano, tmp_path: Path, capsys: Capture, shown: Told
) -> None:
    served, local = tmp_path / "served", tmp_path / "local"
    assert medtune("eval", served) == 0
    assert nano.here("eval", local) == 0
    capsys.readouterr()
    out = shown(main(["compare", str(local), str(served)]))
    assert "log-likelihood: n/a for served (zero-shot); generations of both are read by" in out
    assert main(["report", str(local), str(served), "--out", str(tmp_path / "both")]) == 0
    written = (tmp_path / "both" / "report.md").read_text().splitlines()
    (row,) = [line for line in written if "served-7b" in line and "robust" in line]
    assert row.split("|")[-3].strip() == "n/a"


def test_training_says_why_not(medtune: Evaluated, tmp_path: Path, capsys: Capture) -> None:
    for command in ("run", "train"):
        assert medtune(command, tmp_path / command) == 1
        assert "cannot be trained, its weights are not here; `medtune eval" in capsys.readouterr().err
        assert not (tmp_path / command).exists()


def test_cap_stops_and_a_higher_one_continues(
    medtune: Evaluated, chat: ChatServer, tmp_path: Path, refused: Told
) -> None:
    run = tmp_path / "run"
    # Charged far more than estimated: the start is let through, then the cap holds.
    chat.reply = lambda body: completion("A", tokens=1_000_000)
    dear = ("model.endpoint.usd_per_million_input_tokens=1", "model.endpoint.concurrency=1")
    err = refused(medtune("eval", run, *dear, "model.endpoint.max_usd=3.5"))
    assert "stopped before max_usd (3.50 USD) could be passed: 3.0" in err
    assert "--resume" in err
    assert len(chat.bodies) == 3
    assert 1 <= len(lines(run / "zero_shot" / "predictions.rank0.jsonl")) <= 3
    assert medtune("eval", run, *dear, "model.endpoint.max_usd=300", extra=("--resume",)) == 0
    predictions = lines(run / "zero_shot" / "predictions.jsonl")
    assert len(chat.bodies) == len(lines(run / "spending.jsonl")) <= len(predictions)
    assert "max_usd: 300" in (run / "recipe.yaml").read_text()


def test_too_dear_to_start(medtune: Evaluated, chat: ChatServer, tmp_path: Path, refused: Told) -> None:
    assert "may cost" in refused(medtune("eval", tmp_path / "run", "model.endpoint.max_usd=0.0001"))
    assert chat.bodies == []


def test_failure_loses_nothing(medtune: Evaluated, chat: ChatServer, tmp_path: Path, capsys: Capture) -> None:
    run = tmp_path / "run"
    chat.reply = lambda body: failure(500) if len(chat.bodies) > 4 else completion("A")
    assert medtune("eval", run, "model.endpoint.concurrency=1", "model.endpoint.max_retries=0") == 1
    assert "no usable reply in 1 tries, the last one: HTTP 500" in capsys.readouterr().err
    chat.reply = lambda body: completion("B")
    before = len(chat.bodies)
    assert medtune("eval", run, extra=("--resume",)) == 0
    texts = [p["text"] for p in lines(run / "zero_shot" / "predictions.jsonl")]
    assert texts.count("A") >= 4
    assert len(lines(run / "spending.jsonl")) == 4 + len(chat.bodies) - before


def test_another_model_does_not_continue_the_run(medtune: Evaluated, tmp_path: Path, capsys: Capture) -> None:
    assert medtune("eval", tmp_path / "run") == 0
    assert medtune("eval", tmp_path / "run", "model.endpoint.model=another", extra=("--resume",)) == 1
    assert "has other settings" in capsys.readouterr().err


def test_validate_counts_every_repeat(medtune: Evaluated, capsys: Capture) -> None:
    asked = []
    for repeats in (1, 3):
        assert medtune("validate", None, "model.endpoint.temperature=1", f"eval.repeats={repeats}") == 0
        asked.append(int(capsys.readouterr().out.partition("cost ")[2].split()[0]))
    assert asked[1] == 3 * asked[0] > 0


def test_validate_says_the_cost_and_what_is_missing(
    medtune: Evaluated, chat: ChatServer, capsys: Capture, shown: Told, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = shown(medtune("validate", None))
    assert "log-likelihood n/a" in out
    assert "USD (max_usd 500.00, spent so far 0.00)" in out
    monkeypatch.delenv(VARIABLE)
    assert medtune("validate", None) == 1
    assert f"the environment variable {VARIABLE} is not set" in capsys.readouterr().out
    assert chat.bodies == []


@pytest.mark.parametrize(
    ("override", "message"),
    [
        ("model.endpoint.key_env=sk-secret-0123", "must be the name of an environment variable"),
        ("model.endpoint.base_url=https://user:secret-0123@host/v1", "must not hold a user, a password or a query"),
        ("model.endpoint.base_url=localhost", "must be like https://HOST/v1"),
        ("model.endpoint.concurrency=0", "model.endpoint.concurrency is 0; it must be at least 1"),
        ("model.endpoint.timeout_s=0", "must be above 0"),
        ("model.endpoint.usd_per_million_input_tokens=null", "max_usd needs usd_per_million_input_tokens"),
        ("model.endpoint.modell=x", "Did you mean 'model'"),
        ("model.endpoint=null", "go together"),
        ("model.name=nano_pocket", "go together"),
        ("eval.readings=[likelihood,generation]", r"set eval.readings=[generation]"),
        ("model.checkpoint=x.safetensors", "takes no weights from here"),
        ("model.endpoint.video_frames_per_s=0", "model.endpoint.video_frames_per_s is 0.0; it must be above 0"),
        ("eval.temperature=1", "it is for models in this process: set model.endpoint.temperature"),
        ("model.video_frames=8", "model.video_frames: for models in this process; what a served model is shown"),
        ("train.devices=2", "raise model.endpoint.concurrency"),
    ],
)
def test_settings_that_no_request_could_use(
    medtune: Evaluated, chat: ChatServer, tmp_path: Path, override: str, message: str, refused: Told
) -> None:
    err = refused(medtune("eval", tmp_path / "run", override))
    assert message in err
    assert "secret-0123" not in err
    assert chat.bodies == []
    shutil.rmtree(tmp_path / "run", ignore_errors=True)


def test_key_that_is_not_set(
    medtune: Evaluated, tmp_path: Path, refused: Told, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv(VARIABLE)
    assert f"the environment variable {VARIABLE} is not set" in refused(medtune("eval", tmp_path / "run"))
