"""Tests of the exit statuses and figures of `python -m bench`."""

import json
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import ModuleType

import pytest

from bench.__main__ import exit_status, main
from bench.measuring.measured import Limit, Measured, TwoWays

Capture = pytest.CaptureFixture[str]
GOOD = TwoWays("adding", "at once", "one by one", quick_s=1, plain_s=3, apart=1e-7, tolerance=1e-6, target=2)
WRONG, SLOW = replace(GOOD, apart=1e-5), replace(GOOD, plain_s=1.5)
HEAVY = Limit("memory", 3, 2, "GB")


@pytest.mark.parametrize(
    ("measured", "with_target", "without"),
    [
        (Measured("x", (GOOD,)), 0, 0),
        (Measured("x", (GOOD, WRONG)), 1, 1),
        (Measured("x", (replace(GOOD, apart=float("nan")),)), 1, 1),
        (Measured("x", (GOOD, SLOW)), 2, 0),
        (Measured("x", (SLOW, WRONG)), 1, 1),
        (Measured("x", (GOOD,), (HEAVY,)), 2, 0),
        (Measured("x", (GOOD,), (replace(HEAVY, value=2),)), 0, 0),
    ],
)
def test_ways_that_disagree_are_1_and_missed_targets_2(measured: Measured, with_target: int, without: int) -> None:
    assert exit_status(measured, target=True) == with_target
    assert exit_status(measured, target=False) == without


@pytest.fixture
def made_up(monkeypatch: pytest.MonkeyPatch) -> Callable[[TwoWays], None]:
    """Replaces the bench `startup` by one that returns the given figures."""

    def put(ways: TwoWays) -> None:
        module = ModuleType("startup")
        module.bench = lambda subject: Measured(subject or "usual", (ways,))  # type: ignore[attr-defined]
        monkeypatch.setitem(sys.modules, "bench.startup", module)

    return put


def test_figures_are_recorded_with_machine_and_date(
    made_up: Callable[[TwoWays], None], tmp_path: Path, capsys: Capture
) -> None:
    made_up(SLOW)
    record = ["--record", str(tmp_path / "new" / "bench")]
    assert main(["startup", *record]) == 2
    said = capsys.readouterr().out
    assert "1.50 times as fast (target 2, MISSED)" in said
    written = json.loads((tmp_path / "new" / "bench" / "startup.json").read_text())
    assert written["ratios"] == {"adding": 1.5}
    assert written["ways"][0]["plain_s"] == 1.5
    assert [limit["title"] for limit in written["limits"]] == ["the whole bench"]
    assert written["machine"]["cores"] >= 1
    assert len(written["date"]) == len("2026-11-22")
    assert main(["startup", "other", "--no-target", *record]) == 0
    assert json.loads((tmp_path / "new" / "bench" / "startup-other.json").read_text())["subject"] == "other"


def test_figures_of_ways_that_disagree_are_not_recorded(
    made_up: Callable[[TwoWays], None], tmp_path: Path, capsys: Capture
) -> None:
    made_up(WRONG)
    assert main(["startup", "--no-target", "--record", str(tmp_path)]) == 1
    assert "NOT THE SAME" in capsys.readouterr().out
    assert list(tmp_path.iterdir()) == []


def test_an_unknown_bench_is_refused_with_those_there_are(capsys: Capture) -> None:
    assert main(["startpu"]) == 1
    assert "Did you mean 'startup'" in capsys.readouterr().err
    assert main(["startup", "pocket"]) == 1
    assert "leave 'pocket' out" in capsys.readouterr().err
