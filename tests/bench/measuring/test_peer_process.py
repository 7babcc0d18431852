import sys
from pathlib import Path

import pytest

from bench.measuring import peer_process
from bench.measuring.peer_process import python_of, working


def test_a_half_built_environment_is_not_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    python = tmp_path / ".peers" / "hf" / "bin" / "python"
    python.parent.mkdir(parents=True)
    python.touch()
    with pytest.raises(FileNotFoundError, match="run `make bench-peers`"):
        python_of("hf")
    (tmp_path / ".peers" / "hf" / ".ready").touch()
    assert python_of("hf").absolute() == python


def test_a_peer_carries_out_orders_and_says_why_it_failed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    script = tmp_path / "script.py"
    script.write_text(
        "import json, sys\n"
        "job = json.load(open(sys.argv[1]))\n"
        "for line in sys.stdin:\n"
        "    print(json.dumps({'answer': job['one'] / json.loads(line)['by']}), flush=True)\n"
    )
    monkeypatch.setattr(peer_process, "_file_of", lambda _: script)
    with working(Path(sys.executable), "script", {"one": 1}, tmp_path) as peer:
        assert peer({"by": 2}) == {"answer": 0.5}
        assert peer({"by": 4}) == {"answer": 0.25}
        with pytest.raises(RuntimeError, match="ZeroDivisionError"):
            peer({"by": 0})
