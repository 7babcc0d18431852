from typing import Any

import pytest

from medtune.benchmarks.ctlesionvqa import yes_no_table
from medtune.benchmarks.ctlesionvqa.reply_parsers import (
    normalised,
    official_letter,
    official_number,
    official_yes_no,
    vsi_first_token,
    vsi_number,
)
from medtune.benchmarks.ctlesionvqa.scoring import inclusive, paper, strict, v2_code, vsi_code
from medtune.benchmarks.ctlesionvqa.subtypes import answer_type
from medtune.benchmarks.ctlesionvqa.v2_scoring import (
    ReplyAndTruth,
    aggregate_free_text,
    aggregate_letters,
    answered,
    score_binary,
    score_numeric,
)
from medtune.eval.scoring.parsers.choice_statements import without_thinking
from tests.benchmarks.ctlesionvqa.vsi_scoring import vsi_score
from tests.eval.golden import near, recorded, rows

ZERO = "error:ZeroDivisionError"


def printed(value: float | None) -> object:
    return str(value) if value is not None and not abs(value) < float("inf") else value


def test_golden_extraction() -> None:
    golden = recorded("ctlesionvqa_extraction.json")
    texts, expected = golden["rows"], golden["expected"]
    assert len(texts["numbers"]) == len(expected["numbers"]["table"])
    for text, row in zip(texts["numbers"], rows(expected["numbers"]), strict=True):
        found = [official_number(without_thinking(text)), vsi_number(text), vsi_first_token(text)]
        assert [printed(value) for value in found] == [*row.values()], text
    for text, letter in zip(texts["letters"], expected["letters"], strict=True):
        assert official_letter(text) == letter, text
    for text, word in zip(texts["binary"], expected["binary"], strict=True):
        assert official_yes_no(without_thinking(text)) == word, text
    for text, phrase in zip(texts["normalised_text"], expected["normalised_text"], strict=True):
        assert normalised(text) == phrase, text


def test_golden_mra_of_numbers() -> None:
    golden = recorded("ctlesionvqa_mra.json")
    columns = golden["expected"]["columns"]
    for pair, values in zip(golden["rows"]["table"], golden["expected"]["table"], strict=True):
        expected = dict(zip(columns, values, strict=True))
        said, truth = float(pair[0]), float(pair[1])
        assert strict(said, truth) == near(expected["a_paper_strict_exact"]), pair
        assert inclusive(said, truth) == near(expected["a_prime_less_or_equal_exact"]), pair
        assert v2_code(said, truth) == near(expected["c_v2_continuous"]), pair
        if expected["b_code_float"] == ZERO:
            with pytest.raises(ZeroDivisionError):
                vsi_code(said, truth)
            assert paper(said, truth) == float(said == 0)
        else:
            assert vsi_code(said, truth) == near(expected["b_code_float"]), pair


def test_golden_mra_of_texts() -> None:
    golden = recorded("ctlesionvqa_mra.json")
    pairs = [ReplyAndTruth(row["reply"], row["truth"]) for row in rows(golden["rows"]["text_pairs"])]
    for pair, expected in zip(pairs, rows(golden["expected"]["text_pairs"]), strict=True):
        if expected["vsi_code_end_to_end"] == ZERO:
            with pytest.raises(ZeroDivisionError):
                vsi_score(*pair)
        else:
            assert vsi_score(*pair) == near(expected["vsi_code_end_to_end"]), pair
        single = score_numeric([pair])
        value = single.value if single.details["n_scored"] else None
        assert value == near(expected["v2_mean_mra_of_the_single_pair"]), pair
    assert score_numeric(pairs).details == golden["expected"]["v2_score_numeric_on_all_text_pairs"]


def test_golden_binary() -> None:
    golden = recorded("ctlesionvqa_binary.json")
    assert golden["rows"].keys() == golden["expected"].keys()
    for name, pairs in golden["rows"].items():
        expected: dict[str, Any] = golden["expected"][name]
        found = score_binary([ReplyAndTruth(*pair) for pair in pairs]).details
        assert found == expected["official"], name
        youden = float(str(found["sensitivity"])) + float(str(found["specificity"])) - 1
        assert youden == near(expected["youden_from_official"]), name
        read = [(official_yes_no(without_thinking(reply)), official_yes_no(truth)) for reply, truth in pairs]
        table = yes_no_table.yes_no_table(read)
        counts = {"yy": table.yes_yes, "yn": table.yes_no, "y0": table.yes_unread}
        counts |= {"ny": table.no_yes, "nn": table.no_no, "n0": table.no_unread}
        assert counts == expected["counts_truth_then_reply (0 = unparsed)"], name
        official, skipped = yes_no_table.official(table), yes_no_table.skipped(table)
        assert [official.sensitivity, official.specificity, official.youden] == near(
            [expected["unrounded"][key] for key in ("sensitivity", "specificity", "youden")]
        ), name
        assert [skipped.sensitivity, skipped.specificity] == near(
            [expected["unparsed_skipped"][key] for key in ("sensitivity", "specificity")]
        ), name
        assert yes_no_table.majority_accuracy(table) == near(expected["majority_class_accuracy"]), name
        assert yes_no_table.collapse_share(table) == near(expected["share_of_most_common_reply"]), name


def test_golden_v2_aggregate() -> None:
    golden = recorded("ctlesionvqa_v2_aggregate.json")
    given = golden["rows"]
    for name, kind in given["answer_types"].items():
        assert answer_type(name) == kind, name
    letters = aggregate_letters(answered(given["questions"], given["predictions_mc"], "correct_option"))
    free_text = aggregate_free_text(answered(given["questions"], given["predictions_freeform"], "answer"))
    assert letters == golden["expected"]["mc"]
    assert free_text == golden["expected"]["freeform"]
