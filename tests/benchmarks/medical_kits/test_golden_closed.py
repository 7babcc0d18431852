"""Tests the rules for closed questions, the totals of MedEvalKit's sets and the ceilings against recorded values."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from medtune.benchmarks.medical_kits import llava_med, medevalkit_sets
from medtune.benchmarks.medical_kits.medevalkit_sets import CountRow, SetRow, is_right_word, is_right_yes_no
from medtune.benchmarks.short_answers import kit_rules
from tests.eval.golden import close, recorded

FOLDER = "medical_vqa"
SETS: dict[str, tuple[str, CountRow]] = {
    "vqa_rad": ("open_closed", medevalkit_sets.counted_by_words),
    "path_vqa": ("open_closed", medevalkit_sets.counted_by_words),
    "slake": ("slake", medevalkit_sets.counted_by_type),
}
STYLES: dict[str, Callable[[str], str]] = {
    "truth": str,
    "truth_with_full_stop": "{}.".format,
    "The answer is truth.": "The answer is {}.".format,
}


def test_golden_yes_no_rows_side_by_side() -> None:
    record = recorded("yes_no.json", FOLDER)
    rules = {
        "judge_judgement": is_right_yes_no,
        "judge_close_end_vqa": is_right_word,
        "llava_med_closed": llava_med.has_truth_and_yes_or_no,
        "lmms_slake": kit_rules.is_right,
    }
    rows = record["rows"]
    for row in rows:
        found = {name: rule(row["answer"], row["response"]) for name, rule in rules.items()}
        assert found == {name: bool(row[name]) for name in rules}, row["id"]
    for name, share in record["expected"].items():
        assert close(sum(rules[name](row["answer"], row["response"]) for row in rows) / len(rows), share)


def test_golden_lmms_slake_rows() -> None:
    record = recorded("lmms_slake.json", FOLDER)
    rows = record["rows"]
    for row in rows:
        assert kit_rules.normalised(row["answer"]) == row["norm_answer"], row["qid"]
        assert kit_rules.normalised(row["response"]) == row["norm_response"], row["qid"]
        assert kit_rules.is_right(row["answer"], row["response"]) == row["correct"], row["qid"]
    groups: dict[str, Callable[[Any], bool]] = {
        "slake_accuracy": lambda row: True,
        "open": lambda row: row["answer_type"] == "OPEN",
        "closed": lambda row: row["answer_type"] == "CLOSED",
        "ct": lambda row: row["modality"] == "CT",
        "xray": lambda row: row["modality"] == "X-Ray",
        "kg": lambda row: row["content_type"] == "KG",
        "shape (no rows)": lambda row: row["content_type"] == "Shape",
    }
    for name, share in record["expected"].items():
        hits = [kit_rules.is_right(row["answer"], row["response"]) for row in rows if groups[name](row)]
        assert close(sum(hits) / len(hits) if hits else 0.0, share), name


@pytest.mark.parametrize("name", SETS)
def test_golden_medevalkit_set_totals(name: str) -> None:
    record = recorded("medevalkit_sets.json", FOLDER)
    inputs, count = SETS[name]
    counted = [count(_row(row)) for row in record["rows"][0][inputs]]
    wanted = record["expected"][name]
    assert [row.is_right for row in counted] == wanted["correct"]
    found = medevalkit_sets.printed_totals(counted)
    for part, numbers in wanted["metrics"].items():
        assert {key: close(found[part][key], value) for key, value in numbers.items()} == dict.fromkeys(numbers, True)
        assert set(found[part]) == set(numbers)


def test_golden_medevalkit_totals_with_a_judge() -> None:
    record = recorded("medevalkit_sets.json", FOLDER)
    for copy, sets in record["expected"]["with_a_constant_judge"].items():
        for name, verdicts in sets.items():
            inputs, count = SETS[name]
            rows = [count(_row(row)) for row in record["rows"][0][inputs]]
            counting = medevalkit_sets.JUDGE_COUNTINGS[copy][name]
            for said, wanted in verdicts.items():
                if counting is None:
                    assert wanted["raises"] == "TypeError"
                    continue
                right = {"judge_says_all_right": True, "judge_says_all_wrong": False}[said]
                found = medevalkit_sets.judged_totals(rows, counting, [right] * len(rows))
                closed = sum(row.is_closed for row in rows)
                totals = {"total": len(rows), "open_total": len(rows) - closed, "close_total": closed}
                assert found._asdict() | totals == dict(wanted), (copy, name, said)


def test_golden_ceilings_of_a_perfect_model_on_the_real_questions(shared_real: Path) -> None:
    sets = _real_sets(shared_real)
    for case, wanted in recorded("ceilings_real.json", FOLDER)["expected"].items():
        name, style = case.split("|")
        rows, count = sets[name]
        said = [(row, STYLES[style](row.truth)) for row in rows]
        counted = [count(row._replace(reply=reply)) for row, reply in said]
        closed = [(row, reply) for row, reply in said if row.answer_type == "CLOSED"]
        recalls = [llava_med.open_scores(row.truth, reply).recall for row, reply in said if row.answer_type == "OPEN"]
        found = {
            "n": len(rows),
            "medevalkit_right": sum(row.is_right for row in counted),
            "medevalkit_raises": sum(row.stops for row in counted),
            "llava_closed_run_eval": sum(llava_med.has_truth_and_yes_or_no(row.truth, reply) for row, reply in closed),
            "llava_closed_batch": sum(llava_med.has_truth(row.truth, reply) for row, reply in closed),
            "closed": len(closed),
            "open": len(recalls),
            "lmms_right": sum(kit_rules.is_right(row.truth, reply) for row, reply in said),
            "llava_open_recall": sum(recalls) / len(recalls),
        }
        assert {key: close(found[key], value) for key, value in wanted.items()} == dict.fromkeys(wanted, True), case


def _row(row: Any) -> SetRow:
    return SetRow(row["answer"], row["response"], row.get("answer_type") or "")


def _real_sets(shared_real: Path) -> dict[str, tuple[list[SetRow], CountRow]]:
    slake = json.loads((shared_real / "slake" / "test.json").read_text("utf-8"))
    rad = json.loads((shared_real / "vqa_rad" / "testset.json").read_text("utf-8"))
    found: dict[str, tuple[list[SetRow], CountRow]] = {
        f"slake_{language}": (
            [SetRow(row["answer"], "", row["answer_type"]) for row in slake if row["q_lang"] == language],
            medevalkit_sets.counted_by_type,
        )
        for language in ("en", "zh")
    }
    rows = [SetRow(str(row["answer"]), "", row["answer_type"].strip()) for row in rad]
    return found | {"vqa_rad": (rows, medevalkit_sets.counted_by_words)}
