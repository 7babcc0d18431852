"""Tests the kits' rules for closed and open answers and for reports against what the kits' own code gave."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from medtune.benchmarks.iu_xray import kit_rules as report_rules
from medtune.benchmarks.medical_kits import llava_med, medevalkit_sets
from medtune.benchmarks.medical_kits.medevalkit_answer import answer_part
from medtune.benchmarks.medical_kits.medevalkit_replies import is_right_word, is_right_yes_no, open_scores
from medtune.benchmarks.medical_kits.medevalkit_sets import CountRow, SetRow, counted_by_type
from medtune.benchmarks.short_answers import kit_rules
from tests.eval.golden import close, near, recorded

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


ERRORS = {"ValueError": ValueError, "TypeError": TypeError}


def test_golden_medevalkit_open_rows() -> None:
    wrong = []
    for row in recorded("medevalkit_open.json", FOLDER)["rows"]:
        truth, reply, wanted = row["answer"], row["response"], row["open"]
        assert answer_part(reply) == row["parse_response"], row["id"]
        assert is_right_word(truth, reply) == row["close_exact"], row["id"]
        if "raises" in wanted:
            with pytest.raises(ERRORS[wanted["raises"]]):
                open_scores(truth, reply)
        elif not all(close(getattr(open_scores(truth, reply), name), wanted[name]) for name in wanted):
            wrong.append((row["id"], open_scores(truth, reply), dict(wanted)))
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
    hits = sum(open_scores(row["answer"], row["response"]).em for row in kept)
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
    for wanted, found in ((expected["printed_table_x100"], single), (expected["printed_table_x100_batch"], batch)):
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


def test_golden_medevalkit_scores_of_each_report() -> None:
    for row in recorded("iu_xray_reports.json", folder="medical_vqa")["rows"]:
        truth = report_rules.reference(row["findings"], row["impression"])
        assert truth == row["reference_used"]
        found = report_rules.report_scores(truth, row["response"])
        if row["response"]:
            assert found == {name: near(value) for name, value in row["medevalkit"].items()}
        else:
            assert "medevalkit" not in row
            assert set(found.values()) == {0.0}


def test_golden_medevalkit_means_count_empty_replies() -> None:
    said = recorded("iu_xray_reports.json", folder="medical_vqa")
    pairs = [(row["reference_used"], row["response"]) for row in said["rows"]]
    assert len(pairs) == said["expected"]["medevalkit_divisor"]
    means = said["expected"]["medevalkit_mean_over_all_rows"]
    assert report_rules.mean_scores(pairs) == {name: near(value) for name, value in means.items()}


def test_golden_r2gen_cleaning_and_rouge_of_each_report() -> None:
    for row in recorded("iu_xray_reports.json", folder="medical_vqa")["rows"]:
        assert report_rules.cleaned(row["reference_used"]) == row["r2gen_clean_reference"]
        assert report_rules.cleaned(row["response"]) == row["r2gen_clean_response"]
        if row["response"]:
            assert report_rules.rouge_l(row["reference_used"], row["response"]) == near(row["r2gen_rouge_l"])


def test_golden_r2gen_scores_of_the_corpus() -> None:
    said = recorded("iu_xray_reports.json", folder="medical_vqa")
    # The recording left empty replies out.
    pairs = [(row["reference_used"], row["response"]) for row in said["rows"] if row["response"]]
    corpus = said["expected"]["r2gen_corpus"]
    assert report_rules.corpus_scores(pairs) == {name: near(value) for name, value in corpus.items()}


def test_an_empty_reply_lowers_the_scores_of_the_corpus() -> None:
    pairs = [("The heart is of normal size.", "The heart is of normal size.")]
    alone = report_rules.corpus_scores(pairs)
    beside = report_rules.corpus_scores([*pairs, ("The lungs are clear.", "")])
    assert alone["ROUGE_L"] == 1
    assert beside["ROUGE_L"] == 0.5
    assert beside["BLEU_4"] < alone["BLEU_4"]
