from pathlib import Path

import pytest

from bench.peers import bench


def test_without_environments_it_says_how_to_build_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(FileNotFoundError, match=r"hf.*is not built; run `make bench-peers`"):
        bench(None)


def test_it_runs_on_one_thing_alone() -> None:
    with pytest.raises(ValueError, match="leave 'pocket' out"):
        bench("pocket")
