"""Tests that `medtune score` shows the rules of other tools on real replies with the numbers that their code gave."""

import json
from collections.abc import Mapping
from pathlib import Path
from string import ascii_uppercase
from typing import Any

import pytest

from medtune.benchmarks.medical_kits import mmmu_official
from medtune.benchmarks.medical_kits.mmmu_official import RANDOM
from medtune.benchmarks.mmmu_med.sources.mmmu_med import SUBJECTS
from medtune.eval.scoring.reply_rules import TITLE
from medtune.trainer.commands.cli import main
from tests.benchmarks.mmmu_med.real_copy import MODELS, real_replies, write_copy
from tests.eval.golden import close, recorded

RIGHT = {"llava1.5_13b": (15, 12, 11, 8, 12), "qwen_vl": (9, 9, 5, 11, 13)}
DRAWN = {"llava1.5_13b": 0, "qwen_vl": 5}


@pytest.fixture(scope="module")
def prepared(shared_real: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("mmmu")
    write_copy(shared_real, folder / "raw")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CONFIG_HOME", str(tmp_path_factory.getbasetemp() / "config"))
        arguments = ["--from", str(folder / "raw"), "--out", str(folder / "prepared")]
        assert main(["prepare", "mmmu_med", *arguments]) == 0
    return folder / "prepared"


def rules_of(scores: Path) -> Mapping[str, Mapping[str, Any]]:
    """Returns the rows of the table of rules in scores.json, by rule and column."""
    tables = json.loads(scores.read_text("utf-8"))["tables"]
    (table,) = (table for table in tables if table["title"] == TITLE)
    return {row[0]: dict(zip(table["columns"], row, strict=True)) for row in table["rows"]}


@pytest.mark.parametrize("model", MODELS)
def test_golden_rules_stand_side_by_side_for_real_replies(
    model: str, prepared: Path, shared_real: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    expected = recorded("mmmu_real_outputs.json", "medical_vqa")["expected"][model]
    replies = shared_real / "mmmu_med" / model
    arguments = ["--predictions", str(replies), "--questions", str(prepared), "--out", str(tmp_path)]
    assert main(["score", "mmmu_med", *arguments]) == 0
    shown = capsys.readouterr().out
    found = rules_of(tmp_path / "scores.json")
    assert list(found) == ["ours: robust", "MMMU's own code", "lmms-eval", "MedEvalKit, validation"]
    assert all(rule in shown for rule in found)
    official = found["MMMU's own code"]
    for subject, right in zip(SUBJECTS, RIGHT[model], strict=True):
        assert expected[subject]["right_without_random"] == right
        assert official[f"right in {subject}"] == right
    assert (official["right without draws"], official["drawn at random"]) == (sum(RIGHT[model]), DRAWN[model])
    drawn = [
        1 / len(listed)
        for subject in SUBJECTS
        for row in real_replies(shared_real, model, subject)
        if isinstance(listed := row.get("index2ans"), dict)
        and mmmu_official.letter(str(row["response"]), listed) == RANDOM
    ]
    assert close(official["accuracy"], (sum(RIGHT[model]) + sum(drawn)) / 150)
    # The ceiling of the other two is 145, and no reply of the real ones brings our own rule under the official one.
    assert found["lmms-eval"]["right without draws"] <= official["right without draws"]
    assert 0 < found["ours: robust"]["accuracy"] < 1


@pytest.mark.parametrize("model", MODELS)
def test_golden_real_replies_are_read_as_the_official_code_reads_them(model: str, shared_real: Path) -> None:
    for subject, expected in recorded("mmmu_real_outputs.json", "medical_vqa")["expected"][model].items():
        rows = real_replies(shared_real, model, subject)
        read: dict[object, object] = {}
        differing = 0
        for row in rows:
            listed, reply = row.get("index2ans"), str(row["response"])
            if not isinstance(listed, dict):
                read[row["id"]] = sorted(map(str, mmmu_official.open_pieces(reply)))
                continue
            assert list(listed) == list(ascii_uppercase[: len(listed)])
            read[row["id"]] = mmmu_official.letter(reply, listed)
            differing += read[row["id"]] != mmmu_official.lmms_letter(reply, listed)
        drawn = [number for number, said in read.items() if said == RANDOM]
        assert (expected["n"], expected["random"], expected["ids_random"]) == (len(rows), len(drawn), drawn)
        assert expected["lmms_differs"] == differing
        # The recorded letter of a drawn reply came from chance.
        wanted = {number: said for number, said in expected["parsed"].items() if number not in drawn}
        assert wanted == {number: said for number, said in read.items() if number not in drawn}
