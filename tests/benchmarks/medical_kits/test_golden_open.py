"""Tests the rules for open questions against recorded values of the kits' own code."""

from typing import Any

import pytest

from medtune.benchmarks.medical_kits import llava_med, medevalkit_sets
from medtune.benchmarks.medical_kits.medevalkit_sets import SetRow, answer_part, counted_by_type, is_right_word
from medtune.benchmarks.short_answers import kit_rules
from tests.eval.golden import close, near, recorded

FOLDER = "medical_vqa"
ERRORS = {"ValueError": ValueError, "TypeError": TypeError}


def test_golden_medevalkit_open_rows() -> None:
    wrong = []
    for row in recorded("medevalkit_open.json", FOLDER)["rows"]:
        truth, reply, wanted = row["answer"], row["response"], row["open"]
        assert answer_part(reply) == row["parse_response"], row["id"]
        assert is_right_word(truth, reply) == row["close_exact"], row["id"]
        if "raises" in wanted:
            with pytest.raises(ERRORS[wanted["raises"]]):
                medevalkit_sets.open_scores(truth, reply)
        elif not all(close(getattr(medevalkit_sets.open_scores(truth, reply), name), wanted[name]) for name in wanted):
            wrong.append((row["id"], medevalkit_sets.open_scores(truth, reply), dict(wanted)))
    assert wrong == []


def test_golden_medevalkit_forks_that_do_not_stop_count_nothing() -> None:
    rows = [row for row in recorded("medevalkit_open.json", FOLDER)["rows"] if "open_blackkiring" in row]
    for row in rows:
        counted = counted_by_type(SetRow(row["answer"], row["response"], "OPEN"))
        found = counted.scores
        assert counted.stops
        assert all(close(getattr(found, name), value) for name, value in row["open_blackkiring"].items()), row["id"]


def test_golden_medevalkit_open_means() -> None:
    record = recorded("medevalkit_open.json", FOLDER)
    rows, wanted = record["rows"], record["expected"]
    kept = [row for row in rows if "raises" not in row["open"]]
    hits = sum(medevalkit_sets.open_scores(row["answer"], row["response"]).em for row in kept)
    assert {"n": len(rows), "raised": len(rows) - len(kept)} == {name: wanted[name] for name in ("n", "raised")}
    assert close(hits / len(kept), wanted["em_rate_of_not_raised"])


def test_golden_llava_med_rows() -> None:
    record = recorded("llava_med.json", FOLDER)
    is_nearest = llava_med.nearest_candidate_rule(list(record["expected"]["candidate_set"]))
    for row in record["rows"]:
        truth, reply = row["answer"], row["response"]
        assert llava_med.normalised(truth.lower()) == row["norm_answer"], row["id"]
        assert llava_med.normalised(reply.lower()) == row["norm_response"], row["id"]
        assert llava_med.has_truth(truth, reply) == bool(row["batch_hit"]), row["id"]
        if row["answer_type"] != "OPEN":
            assert llava_med.has_truth_and_yes_or_no(truth, reply) == bool(row["closed_hit"]), row["id"]
            continue
        found = llava_med.open_scores(truth, reply)
        assert [found.f1, found.precision, found.recall] == near(row["f1_precision_recall"]), row["id"]
        assert found.exact_match == near(row["exact_match"]), row["id"]
        assert is_nearest(truth, reply) == bool(row["open_accuracy"]), row["id"]


def test_golden_llava_med_printed_tables() -> None:
    record = recorded("llava_med.json", FOLDER)
    rows, expected = record["rows"], record["expected"]
    of_type = {kind: [row for row in rows if (row["answer_type"] == "OPEN") == kind] for kind in (True, False)}
    free = [llava_med.open_scores(row["answer"], row["response"]) for row in of_type[True]]
    bleus = [llava_med.bleus(row["answer"], row["response"]) for row in of_type[True]]
    closed = [llava_med.open_scores(row["answer"], row["response"]) for row in of_type[False]]
    is_nearest = llava_med.nearest_candidate_rule(list(expected["candidate_set"]))
    ours = {
        "exact match score": _mean([each.exact_match for each in free]),
        "f1 score": _mean([each.f1 for each in free]),
        "precision": _mean([each.precision for each in free]),
        "recall": _mean([each.recall for each in free]),
        "bleu_score": _mean([each[0] for each in bleus]),
        "bleu_score_1": _mean([each[1] for each in bleus]),
        "bleu_score_2": _mean([each[2] for each in bleus]),
        "bleu_score_3": _mean([each[3] for each in bleus]),
    }
    single = ours | {
        "open accuracy": _mean([is_nearest(row["answer"], row["response"]) for row in of_type[True]]),
        "yes/no accuracy": _mean(
            [llava_med.has_truth_and_yes_or_no(row["answer"], row["response"]) for row in of_type[False]]
        ),
    }
    batch = ours | {
        "open accuracy": _mean([llava_med.has_truth(row["answer"], row["response"]) for row in of_type[True]]),
        "yes/no accuracy": _mean([llava_med.has_truth(row["answer"], row["response"]) for row in of_type[False]]),
        "recall_closed": _mean([each.recall for each in closed]),
    }
    # The kit's table is printed with about six digits.
    for wanted, found in (
        (expected["printed_table_x100"], single),
        (expected["printed_table_x100_batch"], batch),
    ):
        assert {name: pytest.approx(value, rel=1e-5) for name, value in wanted.items()} == {
            name: 100 * found[name] for name in wanted
        }


def test_golden_pathvqa_official_rows() -> None:
    for row in recorded("llava_med.json", FOLDER)["rows"]:
        if "pathvqa_official" not in row:
            continue
        wanted, truth, reply = row["pathvqa_official"], row["answer"], row["response"]
        assert kit_rules.exact_match(truth, reply) == near(_number(wanted["exactmatch"])), row["id"]
        assert kit_rules.f1(truth, reply) == near(_number(wanted["f1"])), row["id"]
        assert kit_rules.bleu1(truth, reply) == near(_number(wanted["bleu1"])), row["id"]


def _mean(numbers: list[float] | list[bool]) -> float:
    return sum(numbers) / len(numbers)


def _number(said: Any) -> float | None:
    """Returns a recorded number; None where the official function returned a warning or stopped."""
    if isinstance(said, dict):
        return None if said["raises"] == "ZeroDivisionError" else float("nan")
    if isinstance(said, str):
        return None if "warning" in said else float(said)
    return float(said)
