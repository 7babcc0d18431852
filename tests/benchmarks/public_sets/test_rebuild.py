"""Tests how broken files of public sets are rejected when a benchmark is rebuilt from them."""

import json
from pathlib import Path

import numpy as np
import PIL.Image
import pytest

from medtune.benchmarks.public_sets.public_set import public_set
from medtune.benchmarks.public_sets.sets import hc18
from medtune.benchmarks.u2_bench.sources import u2_bench_rebuilt
from medtune.trainer.commands.cli import main
from tests.examples import OF_SETS


@pytest.fixture
def raw(tmp_path: Path) -> Path:
    """HC18 with an open outline, a lost image and a length that is none, and JNU-IFM with a film without table."""
    root = tmp_path / "raw"
    for name in ("hc18", "jnu_ifm"):
        (root / name).mkdir(parents=True)
        OF_SETS[name](root / name)
    outline = root / "hc18" / "training_set" / "900002_HC_Annotation.png"
    outline_HW = np.array(PIL.Image.open(outline))
    outline_HW[:, 30:40] = 0
    PIL.Image.fromarray(outline_HW).save(outline)
    (root / "hc18" / "training_set" / "900003_HC.png").unlink()
    table = root / "hc18" / hc18.TABLE
    table.write_text(table.read_text().replace("900004_HC.png,0.5,", "900004_HC.png,wide,"))
    (root / "jnu_ifm" / "us_data" / "20190823T1" / "frame_label.csv").unlink()
    return root


def _prepare(raw: Path, out: Path, *more: str) -> int:
    command = ["prepare", "u2_bench", "--source", "u2_bench_rebuilt", "--from", str(raw), "--out", str(out)]
    return main([*command, *more])


def test_prepare_ends_with_the_table_keeps_the_rejects_and_obeys_the_share(
    raw: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    # An image of HC18 gives a place and a length, a film of JNU-IFM four frames with three questions each.
    assert _prepare(raw, tmp_path / "out") == 1
    refusal = capsys.readouterr().err
    assert "rejected 18 of 120 questions (15.0%)" in refusal
    assert "900003_HC.png" in refusal
    assert not (tmp_path / "out").exists()
    kept = (tmp_path / "out.rejects.jsonl").read_text()
    assert _prepare(raw, tmp_path / "out", "--max-rejected", "0.2") == 0
    said = capsys.readouterr().out
    assert "       12  this table is missing" in said
    assert "        2  field 'pixel size(mm)': wanted a length, got" in said
    rejects = (tmp_path / "out" / "rejects.jsonl").read_text()
    assert rejects == kept
    assert {(row["file"], row["row"]) for row in map(json.loads, rejects.splitlines())} == {
        ("hc18/training_set", 7),
        ("hc18/training_set", 11),
        (f"hc18/{hc18.TABLE}", 5),
        ("jnu_ifm/us_data/[4]/frame_label.csv", 1),
    }
    assert not any(patient in rejects for patient in ("900002", "900003", "900004", "20190823"))


def test_what_is_lost_is_listed_to_fetch(raw: Path, capsys: pytest.CaptureFixture[str]) -> None:
    command = ["prepare", "u2_bench", "--source", "u2_bench_rebuilt", "--from", str(raw)]
    assert main([*command, "--list-missing"]) == 0
    assert capsys.readouterr().out.splitlines() == [
        f"hc18/training_set/900003_HC.png\t{public_set('hc18').url}",
        f"jnu_ifm/us_data/20190823T1/frame_label.csv\t{public_set('jnu_ifm').url}",
    ]


def test_a_set_of_which_nothing_can_be_read_leaves_the_others(raw: Path, tmp_path: Path) -> None:
    for path in (raw / "jnu_ifm" / "us_data").iterdir():
        (path / "frame_label.csv").unlink(missing_ok=True)
    (tmp_path / "scratch").mkdir()
    table = u2_bench_rebuilt.source().read(raw, 0, tmp_path / "scratch")
    assert {question.facets["dataset"] for question in table.questions} == {"31"}
    assert sum(reject.file.startswith("jnu_ifm/") for reject in table.rejects) == 8
