"""A run never waits for W&B: it goes offline or is refused within seconds, and its offline parts join to one run."""

import contextlib
import json
import os
import signal
import socket
import threading
import time
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest
import wandb

from medtune.benchmarks import find_benchmark
from medtune.trainer.recipe.schema import LogBlock
from medtune.trainer.runs.run_folder import RunFolder
from medtune.trainer.training import loggers
from medtune.trainer.training.dashboard import wandb_reach
from medtune.trainer.training.dashboard.sent_facets import EVERY_FACET
from medtune.trainer.training.dashboard.wandb_reach import wandb_mode, wandb_settings
from tests.trainer.conftest import Capture, Nano, Told
from tests.trainer.training.wandb_file import parts_of

KEY = "0123456789abcdef0123456789abcdef01234567"
WITHIN_S = 15
LIMIT_S = 1
"""The limits of W&B in these tests, each of which would wait for the whole of one."""


@pytest.fixture(autouse=True)
def no_key(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[None]:
    for name in ("WANDB_API_KEY", "WANDB_MODE", "WANDB_BASE_URL", "WANDB_ERROR_REPORTING", "WANDB_DATA_DIR"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("NETRC", str(tmp_path / "no-netrc"))
    monkeypatch.setenv("WANDB_CONFIG_DIR", str(tmp_path / "no-config"))
    wandb.teardown()  # W&B reads its settings once in a process.
    yield
    wandb.teardown()


@contextlib.contextmanager
def silent() -> Iterator[str]:
    """A server that takes connections and never answers, as behind a firewall that drops what comes."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield f"http://127.0.0.1:{server.getsockname()[1]}"


@contextlib.contextmanager
def answering(status: int, content: object) -> Iterator[str]:
    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            self.rfile.read(int(self.headers["Content-Length"]))
            body = json.dumps(content).encode()
            self.send_response(status)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            return

    server = HTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()


Server = Callable[[], contextlib.AbstractContextManager[str]]
REACHED: dict[str, tuple[Server, str]] = {
    "nobody listens": (lambda: contextlib.nullcontext("http://127.0.0.1:9"), "cannot be reached"),
    "nobody answers": (silent, "did not answer within 1 seconds|cannot be reached"),
    "no such host": (lambda: contextlib.nullcontext("http://nowhere.invalid"), "cannot be reached|did not answer"),
    "no address": (lambda: contextlib.nullcontext("nowhere"), "cannot be reached"),
    "the key is wrong": (lambda: answering(401, {}), "does not know the key"),
    "nobody has the key": (lambda: answering(200, {"data": {"viewer": None}}), "does not know the key"),
    "it is broken": (lambda: answering(502, {}), "HTTP status 502"),
    "another server": (lambda: answering(200, ["welcome"]), "cannot be reached|does not know the key"),
}


@pytest.mark.parametrize("way", list(REACHED))
def test_auto_goes_offline_and_online_is_refused_in_one_line(
    monkeypatch: pytest.MonkeyPatch, capsys: Capture, way: str
) -> None:
    server, said = REACHED[way]
    assert 2 * wandb_reach.REACHED_S < WITHIN_S
    monkeypatch.setattr(wandb_reach, "REACHED_S", LIMIT_S)
    monkeypatch.setenv("WANDB_API_KEY", KEY)
    began = time.monotonic()
    with server() as address:
        monkeypatch.setenv("WANDB_BASE_URL", address)
        assert wandb_mode(LogBlock(wandb="auto")) == "offline"
        told = capsys.readouterr().err
        assert len(told.splitlines()) == 1
        assert told.startswith("W&B: ")
        with pytest.raises(ValueError, match=said) as refused:
            wandb_mode(LogBlock(wandb="online"))
    assert time.monotonic() - began < WITHIN_S
    assert len(str(refused.value).splitlines()) == 1
    assert "log.wandb=offline" in str(refused.value)
    assert KEY not in told + str(refused.value)


def test_a_proxy_that_cannot_be_used_is_named_without_a_traceback(
    monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    monkeypatch.setenv("WANDB_API_KEY", KEY)
    monkeypatch.setenv("WANDB_BASE_URL", "http://wandb.invalid")
    for proxy, said in (("socks5://127.0.0.1:9", "SOCKS proxy"), ("http://127.0.0.1:9", "cannot be reached")):
        monkeypatch.setenv("HTTP_PROXY", proxy)
        monkeypatch.setenv("ALL_PROXY", proxy)
        with pytest.raises(ValueError, match=said):
            wandb_mode(LogBlock(wandb="online"))
    assert "Traceback" not in capsys.readouterr().err


def test_a_server_that_knows_the_key_is_used(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WANDB_API_KEY", KEY)
    with answering(200, {"data": {"viewer": {"id": "someone"}}}) as address:
        monkeypatch.setenv("WANDB_BASE_URL", address)
        assert wandb_mode(LogBlock(wandb="auto")) == wandb_mode(LogBlock(wandb="online")) == "online"
        monkeypatch.setenv("WANDB_MODE", "offline")
        assert wandb_mode(LogBlock(wandb="auto")) == "offline"


def test_the_server_and_key_of_wandb_login_are_used(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: Capture
) -> None:
    with answering(200, {"data": {"viewer": {"id": "someone"}}}) as address:
        (tmp_path / "settings").write_text(f"[default]\nbase_url = {address}\n")
        (tmp_path / "netrc").write_text(f"machine {address.removeprefix('http://')} login user password {KEY}\n")
        monkeypatch.setenv("WANDB_CONFIG_DIR", str(tmp_path))
        assert wandb_mode(LogBlock(wandb="auto")) == "offline"
        assert "W&B: " not in capsys.readouterr().err
        monkeypatch.setenv("NETRC", str(tmp_path / "netrc"))
        assert wandb_mode(LogBlock(wandb="auto")) == wandb_mode(LogBlock(wandb="online")) == "online"
        assert wandb_settings()["base_url"] == address
        (tmp_path / "netrc").write_text(f"machine {address.removeprefix('http://')} login user password short\n")
        assert wandb_mode(LogBlock(wandb="auto")) == "offline"


def test_the_end_of_a_run_does_not_wait_for_a_network_that_broke_meanwhile(
    monkeypatch: pytest.MonkeyPatch, capsys: Capture, tmp_path: Path
) -> None:
    wandb.setup()  # A server that is set behind the first use of W&B is used too.
    monkeypatch.setenv("WANDB_API_KEY", KEY)
    for module in (wandb_reach, loggers):
        monkeypatch.setattr(module, "FINISHED_S", LIMIT_S)
    (tmp_path / "wandb").mkdir()
    (tmp_path / "wandb" / "run_id").write_text("abcdefabcdef")
    bucket = {
        "id": "x",
        "name": "abcdefabcdef",
        "project": {"name": "medtune", "entity": {"name": "me"}},
        "config": "{}",
    }
    known = {"viewer": {"id": "someone"}, "upsertBucket": {"bucket": bucket, "inserted": True}}
    began = time.monotonic()
    with answering(200, {"data": known}) as address:
        monkeypatch.setenv("WANDB_BASE_URL", address)
        block = LogBlock(wandb="online")
        made = loggers.build_loggers(
            tmp_path, block, find_benchmark("busi"), mode=wandb_mode(block), provenance="synthetic", recipe_name="demo",
            group="demo", config={}, tags=[], facets=EVERY_FACET, resume_step=0,
        )  # fmt: skip
    made[-1].log_metrics({"train/loss": 0.5}, step=1)
    loggers.close_loggers(made)
    assert time.monotonic() - began < WITHIN_S
    said = capsys.readouterr().out
    assert "W&B did not take the end of the run within 1 seconds" in said
    folder = Path(said.split("wandb sync ")[1].strip())
    assert list(folder.glob("*.wandb"))


def test_online_without_a_key_is_refused_before_any_folder(nano: Nano, tmp_path: Path, refused: Told) -> None:
    began = time.monotonic()
    said = refused(nano.here("run", tmp_path / "run", "log.wandb=online"))
    assert time.monotonic() - began < WITHIN_S
    assert "log.wandb is online and there is no key for https://api." in said.splitlines()[-1]
    assert not (tmp_path / "run").exists()


def _is_written(out: Path, step: int) -> bool:
    try:
        points = parts_of(out)[-1].points()
    except (IndexError, ValueError):
        return False
    return any(point.get("trainer/global_step", 0) >= step for point in points)


@pytest.mark.slow
def test_three_offline_parts_join_to_one_run(nano: Nano, tmp_path: Path, shown: Told) -> None:
    out = tmp_path / "run"
    settings = ("log.wandb=offline", "train.max_steps=6", "train.save_every_steps=1", "eval.every_steps=6")
    for step, again in ((1, ()), (3, ("--resume",))):
        process = nano.process("train", out, *settings, extra=again)
        deadline = time.monotonic() + 200
        while RunFolder(out).saved_step() < step and process.poll() is None and time.monotonic() < deadline:
            time.sleep(0.01)
        assert process.poll() is None, process.communicate(timeout=10)[0][-2000:]
        os.killpg(process.pid, signal.SIGTERM)
        process.communicate(timeout=200)
        assert process.returncode == 130
        # A forked process ends before W&B's own one, which writes the part.
        deadline = time.monotonic() + 60
        while not _is_written(out, step) and time.monotonic() < deadline:
            time.sleep(0.2)
    said = shown(nano.here("train", out, *settings, extra=("--resume",)))
    # W&B's own process writes the last part; when it has ended, the part is whole.
    wandb.teardown()
    parts = parts_of(out)
    assert len(parts) == 3
    (run_id,) = {part.run.run_id for part in parts}
    assert f"as one run, in the order of its 3 parts: wandb sync --id {run_id} {out / 'wandb'}" in said
    assert len({part.run.project for part in parts}) == 1
    # W&B keeps one point for each of its own steps, so that no part may count over another one's.
    counted = [int(point["_step"]) for part in parts for point in part.points()]
    assert counted == sorted(counted)
    firsts, lasts = [p.points()[0]["_step"] for p in parts[1:]], [p.points()[-1]["_step"] for p in parts[:-1]]
    assert all(first > last for first, last in zip(firsts, lasts, strict=True))
    trained = [int(p["trainer/global_step"]) for part in parts for p in part.points() if "train/loss" in p]
    assert sorted(set(trained)) == [1, 2, 3, 4, 5, 6]
