import sys
from pathlib import Path

import pytest

from bench import startup


@pytest.mark.soak
def test_both_ways_list_the_recipes_and_the_lazy_one_is_the_quick_one() -> None:
    found = startup.measured(repeats=1, steps=2)
    (ways,) = found.ways
    assert ways.agree
    assert ways.ratio > 1
    titles = [limit.title for limit in found.limits]
    assert titles[: len(startup.LIMITS)] == [title for title, *_ in startup.LIMITS]
    whole = titles[len(startup.LIMITS) :]
    assert [title + ", files not in memory" for title in whole[:3]] == whole[3:]
    assert all(limit.value > 0 for limit in found.limits)


@pytest.mark.soak
def test_another_list_is_not_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(startup, "_EAGER", "print('nano_busi_lora')")
    (ways,) = startup.measured(repeats=1, limits=(), whole=False).ways
    assert not ways.agree


def test_the_cpu_seconds_are_those_of_all_children() -> None:
    busy = "import time\nwhile time.process_time() < 0.4: pass"
    alone = startup.cpu_seconds([sys.executable, "-c", busy])
    child = f"import subprocess, sys\nsubprocess.run([sys.executable, '-c', {busy!r}])\n"
    two = startup.cpu_seconds([sys.executable, "-c", child + busy])
    assert 0.4 <= alone < two
    assert two >= 0.8


def test_a_command_that_fails_is_told_and_not_timed() -> None:
    with pytest.raises(ValueError, match="ended with status 3: gone"):
        startup.cpu_seconds([sys.executable, "-c", "import sys; print('gone', file=sys.stderr); sys.exit(3)"])


def test_files_are_forgotten_and_stay_what_they_are(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "inner").mkdir()
    (tmp_path / "inner" / "one").write_bytes(b"123")
    (tmp_path / "two").symlink_to("inner/one")
    monkeypatch.setattr(startup, "places", lambda: [tmp_path])
    assert startup.forget_files() == 3
    assert (tmp_path / "inner" / "one").read_bytes() == b"123"
