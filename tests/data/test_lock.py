"""One process at a time holds a lock; that of a machine that was silent for minutes is taken over, and it is told."""

import os
import time
from pathlib import Path

import pytest

from medtune.data.lock import GONE_S, LockedError, Work, locked

WORK = Work("works here", "Wait for it.")


def test_a_held_lock_is_refused_and_let_go_at_the_end(tmp_path: Path) -> None:
    for _ in range(2):
        with locked(tmp_path / "lock", WORK, out=tmp_path) as lock:
            lock.check()
            with pytest.raises(LockedError, match=rf"process {os.getpid()} on .* works here since 20.* Wait for it\."):
                locked(tmp_path / "lock", WORK, out=tmp_path).__enter__()
        assert os.listdir(tmp_path) == []


def test_a_silent_machine_loses_its_lock_and_hears_of_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "lock"
    with locked(path, WORK, out=tmp_path) as lock:
        monkeypatch.setattr("socket.gethostname", lambda: "another")
        with pytest.raises(LockedError, match="taken for gone after 5 minutes"):
            locked(path, WORK, out=tmp_path).__enter__()
        os.utime(path, (time.time() - 2 * GONE_S,) * 2)
        with locked(path, WORK, out=tmp_path), pytest.raises(ValueError, match="on another has taken over this work"):
            lock.check()
    assert os.listdir(tmp_path) == []


def test_a_lock_of_a_process_that_ended_here_or_of_half_a_file_is_taken(tmp_path: Path) -> None:
    path = tmp_path / "lock"
    with locked(path, WORK, out=tmp_path):
        said = path.read_text()
    for left in (said.replace(f'"pid": {os.getpid()}', '"pid": 999999999'), said[:20], ""):
        path.write_text(left)
        with locked(path, WORK, out=tmp_path) as lock:
            lock.check()
    assert os.listdir(tmp_path) == []


def test_a_folder_that_an_earlier_version_left_as_its_lock_is_named(tmp_path: Path) -> None:
    (tmp_path / "lock").mkdir()
    with pytest.raises(ValueError, match=r"is the lock of an earlier version of medtune\. Delete it"):
        locked(tmp_path / "lock", WORK, out=tmp_path).__enter__()
    assert os.listdir(tmp_path) == ["lock"]
