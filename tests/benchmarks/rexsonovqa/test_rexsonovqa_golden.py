from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from medtune.benchmarks.rexsonovqa.official_letter import official_letter
from medtune.benchmarks.rexsonovqa.official_report import OfficialFigures, report, report_tables
from medtune.benchmarks.rexsonovqa.published_tables import free_outcome
from medtune.benchmarks.rexsonovqa.rubric import (
    ScoredItem,
    Tally,
    constant_letter,
    is_kept,
    official_verdict,
    recode_zero_with_single_error,
    tally,
    tally_by_duration,
    tally_by_type,
)
from tests.benchmarks.rexsonovqa.score_files import official_score_of_stored, read_scored
from tests.eval.golden import near, recorded, rows

ABSENT = "absent"


def printed(found: OfficialFigures) -> dict[str, Any]:
    """Returns the numbers as the report's tables print them."""
    overall, *tables = report_tables(found)
    accuracy, mean, share = (float(str(row[-1])) for row in overall.rows)
    names = (
        "mcq_by_type", "mcq_by_duration", "free_by_type", "free_by_duration", "partial_errors", "error_proportions",
    )  # fmt: skip
    numbers = {
        name: {
            row[0]: [cell if isinstance(cell, int) else float(f"{cell:.{table.digits}f}") for cell in row[1:]]
            for row in table.rows
        }
        for name, table in zip(names, tables, strict=True)
    }
    mcq = [found.mcq.total, found.mcq.n, accuracy]
    return {"overall": {"mcq": mcq, "free_mean": mean, "free_norm_pct": share}, **numbers}


def test_golden_letters() -> None:
    golden = recorded("rexsonovqa_letters.json")
    replies = {row["id"]: row["reply"] for row in rows(golden["rows"])}
    for row in rows(golden["expected"]["letters"]):
        assert official_letter(replies[row["id"]]) == row["letter"], replies[row["id"]]
    for row in rows(golden["expected"]["scorer_on_raw_reply"]):
        assert official_score_of_stored(replies[row["id"]], row["key"]) == row["score"], replies[row["id"]]


def test_golden_scoring_rules_of_judge_replies() -> None:
    golden = recorded("rexsonovqa_scoring_rules.json")
    replies = {row["id"]: row["judge_reply_text"] for row in rows(golden["rows"]["judge_replies"])}
    for row in rows(golden["expected"]["judge_parsed"]):
        found = official_verdict(replies[row["id"]])
        expected = 0 if str(row["score"]).startswith("(absent") else row["score"]
        assert (found.score, type(found.score)) == (expected, type(expected)), replies[row["id"]]
        assert found.error_type == row["error_type"], replies[row["id"]]


def test_golden_scoring_rules_of_the_printed_report() -> None:
    golden = recorded("rexsonovqa_scoring_rules.json")
    items = [
        {"question": row["prefix"], **{key: value for key, value in row.items() if value != ABSENT}}
        for row in golden["rows"]["synthetic_items"]
    ]
    assert printed(report(read_scored(items))) == golden["expected"]["official_printed"]


def published(table: Mapping[str, Any], model: str) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    mcq, free = (
        [dict(zip(table["columns"][kind], row, strict=True)) for row in table[model][kind]] for kind in ("mcq", "free")
    )
    return mcq, free


def scored(mcq: Sequence[Mapping[str, Any]], free: Sequence[Mapping[str, Any]]) -> list[ScoredItem]:
    return read_scored(
        {
            "question": "[MCQ]" if "key" in row else "[FREE]",
            "question_type": row["type"],
            "duration": row["duration"],
            "keep": row["keep"],
            "eval_score": row["score"],
            "eval_max_score": 1 if "key" in row else 2,
            "judge_error_type": row.get("error_type"),
        }
        for row in (*mcq, *free)
    )


def exact(found: Tally) -> list[float]:
    return [found.total, found.n, found.mean]


def all_exact(found: Mapping[str, Tally]) -> dict[str, list[float]]:
    return {name: exact(each) for name, each in found.items() if each.n}


def assert_tallies(found: Mapping[str, Tally], expected: Mapping[str, Sequence[float]]) -> None:
    assert all_exact(found).keys() == expected.keys()
    for name, values in expected.items():
        assert exact(found[name]) == near(values)


def test_golden_published_scores() -> None:
    golden = recorded("rexsonovqa_published_scores.json")
    assert golden["expected"]
    for model, expected in golden["expected"].items():
        mcq, free = published(golden["rows"], model)
        items = scored(mcq, free)
        found, whole = report(items), expected["exact"]
        assert printed(found) == expected["official_printed"]
        assert exact(found.mcq) == near(whole["mcq"])
        assert exact(found.free) == near(whole["free"])
        for name in ("mcq_by_type", "free_by_type", "mcq_by_duration", "free_by_duration"):
            assert_tallies(getattr(found, name), whole[name])
        responses = [item for item in items if not item.is_mcq]
        assert Counter(str(item.score) for item in responses) == whole["free_score_counts"]
        counts = Counter(f"{item.score}|{item.error_type}" for item in responses)
        assert counts == whole["free_score_error_counts"]
        assert_recoded(responses, whole["free_recode_zero_with_single_error"])
        kept = [row for row in mcq if is_kept(row)]
        assert_tallies(constant_letter([row["key"] for row in kept]), whole["constant_letter_baseline"])
        assert Counter(row["reply_letter"] or "" for row in kept) == whole["reply_letter_counts"]
        disagree = [
            row["id"] for row in mcq if official_score_of_stored(row["reply_letter"], row["key"]) != row["score"]
        ]
        assert disagree == expected["rows_where_letter_and_score_disagree"]


def assert_recoded(responses: Sequence[ScoredItem], expected: Mapping[str, Any]) -> None:
    recoded = recode_zero_with_single_error(responses)
    assert exact(tally(recoded)) == near(expected["all"])
    assert_tallies(tally_by_type(recoded), expected["by_type"])
    assert_tallies(tally_by_duration(recoded), expected["by_duration"])
    outcomes = [free_outcome(item.score, item.error_type) for item in recoded]
    assert [outcomes.count(place) for place in range(4)] == expected["counts_2_wc_wv_0"]
