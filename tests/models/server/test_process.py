"""Starting and ending servers: health, patience, the last lines of a broken one, and nothing that is left running."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from medtune.models.server.engines import ENGINES, Engine, EngineName
from medtune.models.server.process import is_healthy, serving
from tests.models.server.fake_python import ROOT, write_fake_python

Command = Callable[..., Callable[[int], list[str]]]


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("medtune.models.server.process.POLL_S", 0.05)


@pytest.fixture
def command(tmp_path: Path) -> Command:
    python = write_fake_python(tmp_path)

    def of(engine: Engine, *further: str) -> Callable[[int], list[str]]:
        return lambda port: engine.command(python, tmp_path, port=port, dtype="float32", pictures=2, further=further)

    return of


def children(log: Path) -> list[int]:
    return [int(found) for found in re.findall(r"started with child (\d+)", log.read_text())]


def is_alive(pid: int) -> bool:
    try:
        return "(zombie)" not in Path(f"/proc/{pid}/status").read_text()
    except FileNotFoundError:
        return False


def gone_within(pids: list[int], seconds: float) -> bool:
    until = time.monotonic() + seconds
    while any(map(is_alive, pids)) and time.monotonic() < until:
        time.sleep(0.05)
    return not any(map(is_alive, pids))


@pytest.mark.parametrize("name", ["vllm", pytest.param("sglang", marks=pytest.mark.slow)])
def test_a_slow_server_is_waited_for_and_ended_with_its_children(
    name: EngineName,
    command: Command,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("STAND_IN", "slow")
    said: list[str] = []
    with serving(
        command(ENGINES[name]), devices=["0", "1"], log_folder=tmp_path / "logs", patience_s=60, say=said.append
    ) as started:
        assert len({each.address for each in started}) == 2
        assert all(is_healthy(each.address) for each in started)
        below = [pid for each in started for pid in children(each.log)]
        assert len(below) == 2
        assert all(map(is_alive, below))
    assert gone_within(below, 5)
    assert not any(is_healthy(each.address) for each in started)
    assert "healthy after" in said[-1]


def test_a_broken_server_shows_its_last_lines(
    command: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("STAND_IN", "broken")
    with (
        pytest.raises(ValueError, match=r"(?s)ended with status 3 before it was healthy.*the checkpoint is broken"),
        serving(command(ENGINES["vllm"]), devices=[None], log_folder=tmp_path / "logs", patience_s=60, say=print),
    ):
        pass


def test_arguments_that_the_engine_does_not_know_are_shown(command: Command, tmp_path: Path) -> None:
    wrong = command(ENGINES["sglang"], "--max-model-len", "8")
    with (
        pytest.raises(ValueError, match=r"(?s)ended with status 2 .*unrecognized arguments: --max-model-len 8"),
        serving(wrong, devices=[None], log_folder=tmp_path / "logs", patience_s=60, say=print),
    ):
        pass


def test_a_server_that_is_never_healthy_is_given_up_and_ended(
    command: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("STAND_IN", "never")
    logs = tmp_path / "logs"
    with (
        pytest.raises(ValueError, match=r"not healthy within 1.5 s; --engine-patience allows more"),
        serving(command(ENGINES["vllm"]), devices=[None], log_folder=logs, patience_s=1.5, say=print),
    ):
        pass
    (below,) = children(logs / "server_0.log")
    assert gone_within([below], 5)


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGINT])
def test_no_server_outlives_the_command(how: signal.Signals, tmp_path: Path) -> None:
    python, logs = write_fake_python(tmp_path), tmp_path / "logs"
    code = (
        # A shell that starts the tests in the background has the interrupt ignored.
        "import signal; signal.signal(signal.SIGINT, signal.default_int_handler)\n"
        "import sys, time; from pathlib import Path; from medtune.models.server.process import serving\n"
        "from medtune.models.server.engines import ENGINES\n"
        f"command = lambda port: ENGINES['vllm'].command(Path({str(python)!r}), Path({str(tmp_path)!r}), port=port, "
        "dtype='float32', pictures=1, further=())\n"
        f"with serving(command, devices=[None], log_folder=Path({str(logs)!r}), patience_s=60, say=print):\n"
        "    print('ready', flush=True); time.sleep(600)\n"
    )
    environment = {**os.environ, "STAND_IN": "light", "PYTHONPATH": str(ROOT)}
    process = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True, env=environment)
    assert process.stdout is not None
    while process.stdout.readline().strip() != "ready":
        assert process.poll() is None
    (below,) = children(logs / "server_0.log")
    assert is_alive(below)
    process.send_signal(how)
    process.wait(timeout=60)
    process.stdout.close()
    assert gone_within([below], 15)
