"""Tests the kits' rules for multiple-choice questions against what the kits' own code gave."""

from collections.abc import Mapping, Sequence
from typing import Any

from medtune.benchmarks.medical_kits import choice_rules, mmmu_official
from medtune.benchmarks.medical_kits.medevalkit_answer import tagged
from medtune.benchmarks.medical_kits.mmmu_official import RANDOM
from tests.eval.golden import close, recorded

FOLDER = "medical_vqa"


def test_golden_choices_of_medevalkit() -> None:
    found = recorded("medevalkit_mcq.json", FOLDER)
    raw = [choice_rules.is_right_choice(row["choices"], row["answer"], row["response"]) for row in found["rows"]]
    tags = [
        choice_rules.is_right_choice(row["choices"], row["answer"], tagged(row["response"])) for row in found["rows"]
    ]
    assert raw == [row["judge_multi_choice"] for row in found["rows"]]
    assert tags == [row["after_extract"] for row in found["rows"]]
    counted = {"judge_multi_choice": sum(raw), "after_extract": sum(tags), "n": len(raw)}
    assert {name: counted[name] for name in found["expected"]} == found["expected"]


def test_golden_letters_of_medxpertqa() -> None:
    rows = [row for row in recorded("medevalkit_mcq.json", FOLDER)["rows"] if "medxpertqa_official" in row]
    assert rows
    for row in rows:
        read = choice_rules.medxpertqa_letters(row["response"], len(row["choices"]))
        assert read == row["medxpertqa_official"], row
        assert row.get("medxpertqa_official_correct", int(read == [row["answer"]])) == int(read == [row["answer"]]), row


def test_golden_letters_of_mmmu() -> None:
    found = recorded("mmmu.json", FOLDER)
    rows = [row for row in found["rows"] if row["type"] == "multiple-choice"]
    read = {
        "official": [mmmu_official.letter(row["response"], row["index2ans"]) for row in rows],
        "lmms_eval": [mmmu_official.lmms_letter(row["response"], row["index2ans"]) for row in rows],
        "medevalkit": [mmmu_official.letter_in_medevalkit(row["response"], row["index2ans"]) for row in rows],
    }
    for name, letters in read.items():
        wrong = [(row, said) for row, said in zip(rows, letters, strict=True) if row[name] != said]
        assert not wrong, (name, wrong[:3])
        assert found["expected"][f"random_{name}"] == letters.count(RANDOM)
    differing = sum(one != other for one, other in zip(read["official"], read["lmms_eval"], strict=True))
    assert found["expected"]["differ_official_lmms"] == differing
    assert found["expected"]["mc_n"] == len(rows)


def test_golden_open_answers_of_mmmu() -> None:
    found = recorded("mmmu.json", FOLDER)
    rows = [row for row in found["rows"] if row["type"] == "open"]
    counted = {"open_n": len(rows), "open_official": 0, "open_medevalkit": 0, "open_lmms": 0}
    for row in rows:
        pieces = mmmu_official.open_pieces(row["response"])
        assert pieces == row["parsed_sorted"], row
        right = mmmu_official.open_is_right(row["answer"], pieces)
        by_character = mmmu_official.open_is_right(row["answer"], row["response"])
        by_lmms = mmmu_official.open_accuracies(row["answer"], row["response"])
        assert (right, by_character, by_lmms) == (
            row["official_correct"],
            row["medevalkit_val_correct"],
            row["lmms_eval_correct_any_order"],
        ), row
        counted["open_official"] += right
        counted["open_medevalkit"] += by_character
        counted["open_lmms"] += max(by_lmms) > 0
    assert {name: found["expected"][name] for name in counted} == counted


def test_golden_totals_of_medevalkit() -> None:
    found = recorded("medevalkit_sets.json", FOLDER)
    for name in ("pmc_vqa", "omnimedvqa", "medxpertqa"):
        expected = found["expected"][name]
        rows = found["rows"][0]["mcq"]
        right = [
            choice_rules.is_right_choice(
                row["choices"], row["answer"], row["response"] if name == "pmc_vqa" else tagged(row["response"])
            )
            for row in rows
        ]
        assert right == expected["correct"]
        parts = {"question type metrics": "question_type", "modality type metrics": "modality_type"}
        parts |= {"task type metrics": "medical_task"}
        for part, levels in expected["metrics"].items():
            if part == "total metrics":
                _assert_share(right, levels)
                continue
            for level, numbers in levels.items():
                _assert_share([it for it, row in zip(right, rows, strict=True) if row[parts[part]] == level], numbers)


def _assert_share(right: Sequence[bool], numbers: Mapping[str, Any]) -> None:
    assert (numbers["total"], numbers["right"]) == (len(right), sum(right))
    assert close(sum(right) / len(right), numbers["acc"])
