import json
from dataclasses import replace
from pathlib import Path

import pytest

from medtune.benchmarks import find_benchmark
from medtune.data.types import Prediction, PredictionKey, Question
from medtune.eval.scoring.parse_replies import parse_all, parse_replies, write_parsed
from tests.eval.answers import generated

BUSI = find_benchmark("busi")
ASKED = [
    Question(f"q{n}", "m", "Which?", ("benign", "malignant", "normal"), answer, "choice", "p", {"task": "diagnosis"})
    for n, answer in enumerate(("benign", "malignant", "normal"))
]


def said(id_: str, text: str, *, shown: tuple[str, ...] = ()) -> Prediction:
    return Prediction(PredictionKey(id_, "image", "generation", 0), text=text, options_shown=shown)


def scored(id_: str, logprobs: tuple[float, ...], tokens: tuple[int, ...] | None = None) -> Prediction:
    key = PredictionKey(id_, "image", "likelihood", 0)
    return Prediction(key, option_logprobs=logprobs, option_tokens=tokens)


def test_generation_has_one_row_per_question_and_parser() -> None:
    parsed = parse_replies(ASKED, [said("q0", "Benign."), said("q1", "Hm.")], BUSI, reading="generation")
    assert [row.parsed for row in parsed["robust"]] == ["benign", None, None]
    assert [row.parsed for row in parsed["strict"]] == [None, None, None]
    assert [row.prediction is None for row in parsed["robust"]] == [False, False, True]
    assert [row.correct for row in parsed["robust"]] == [True, False, False]


def test_likelihood_takes_the_highest_sum_and_per_token_the_highest_mean() -> None:
    parsed = parse_replies(ASKED[:1], [scored("q0", (-4.0, -3.0, -9.0), (4, 1, 2))], BUSI, reading="likelihood")
    assert parsed["likelihood"][0].parsed == "malignant"
    assert parsed["likelihood_per_token"][0].parsed == "benign"


def test_likelihood_ties_go_to_the_option_shown_first() -> None:
    parsed = parse_replies(ASKED[:1], [scored("q0", (-2.0, -1.0, -1.0))], BUSI, reading="likelihood")
    assert parsed["likelihood"][0].parsed == "malignant"


def test_per_token_is_left_out_where_a_prediction_has_no_token_counts() -> None:
    found = [scored("q0", (-1.0, -2.0, -3.0), (1, 1, 1)), scored("q1", (-1.0, -2.0, -3.0))]
    assert [*parse_replies(ASKED, found, BUSI, reading="likelihood")] == ["likelihood"]


def test_letters_and_logprobs_follow_the_order_that_the_prediction_was_shown() -> None:
    shown = ("normal", "malignant", "benign")
    assert parse_replies(ASKED[:1], [said("q0", "C", shown=shown)], BUSI, reading="generation")["robust"][0].correct
    found = replace(scored("q0", (-3.0, -2.0, -1.0)), options_shown=shown)
    assert parse_replies(ASKED[:1], [found], BUSI, reading="likelihood")["likelihood"][0].correct


def test_other_conditions_are_not_mixed_in() -> None:
    blind = Prediction(PredictionKey("q0", "text_only", "generation", 0), text="benign")
    again = generated("q0", "benign", 1)
    assert not any(row.correct for row in parse_replies(ASKED, [blind], BUSI, reading="generation")["robust"])
    assert parse_replies(ASKED, [blind], BUSI, reading="generation", condition="text_only")["robust"][0].correct
    assert parse_replies(ASKED, [blind, again], BUSI, reading="generation")["robust"][0].correct


def test_two_different_predictions_of_one_key_are_refused_and_equal_ones_count_once() -> None:
    with pytest.raises(ValueError, match=r"question 'q0' \(image, generation\) has two different predictions"):
        parse_replies(ASKED, [said("q0", "benign"), said("q0", "normal")], BUSI, reading="generation")
    assert len(parse_replies(ASKED, [said("q0", "benign")] * 2, BUSI, reading="generation")["robust"][0].passes) == 1


@pytest.mark.parametrize(
    ("prediction", "wanted"),
    [
        (said("q11", "benign"), "no question 'q11' among the 3 to be scored. Did you mean 'q1'"),
        (said("q0", "A", shown=("benign", "cyst")), "was shown the options"),
        (scored("q0", (-1.0, -2.0)), "2 log-probabilities for 3 options"),
    ],
)
def test_judge_refuses_predictions_that_do_not_fit(prediction: Prediction, wanted: str) -> None:
    with pytest.raises(ValueError, match=wanted):
        parse_replies(ASKED, [prediction], BUSI, reading=prediction.key.reading)


def test_judge_refuses_two_questions_of_one_id() -> None:
    with pytest.raises(ValueError, match="two questions have the id 'q0'"):
        parse_replies([ASKED[0], ASKED[0]], [], BUSI, reading="generation")


def test_write_parsed_has_a_column_per_parser(tmp_path: Path) -> None:
    path = tmp_path / "parsed.jsonl"
    predictions = [said("q1", "Malignant"), scored("q0", (-1.0, -2.0, -3.0), (1, 1, 1))]
    write_parsed(path, predictions, parse_all(ASKED, predictions, BUSI), BUSI)
    first, second = (json.loads(line) for line in path.read_text("utf-8").splitlines())
    assert first["question_id"] == "q1"
    assert (first["answer"], first["robust"], first["strict"]) == ("malignant", "malignant", None)
    assert (second["reading"], second["likelihood"], second["likelihood_per_token"]) == (
        "likelihood",
        "benign",
        "benign",
    )
