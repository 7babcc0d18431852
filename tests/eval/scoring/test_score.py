from dataclasses import replace
from pathlib import Path

import pytest

from medtune.benchmarks import find_benchmark
from medtune.data.types import Prediction, PredictionKey, Question
from medtune.eval.asking.ask import ask_questions
from medtune.eval.metrics.macro_f1 import metric as macro_f1
from medtune.eval.predictions.files import read_predictions
from medtune.eval.scoring.reply_rules import TITLE
from medtune.eval.scoring.score import score_phase
from medtune.eval.statistics.intervals import wilson
from tests.eval.answerers import Guessing, Oracle, Silent, groups, questions
from tests.eval.answers import generated

BUSI = find_benchmark("busi")
FOUND = groups(8)
ASKED = questions(FOUND)


@pytest.fixture(scope="module")
def oracle(tmp_path_factory: pytest.TempPathFactory) -> list[Prediction]:
    return ask_questions(Oracle(), FOUND, BUSI, answer_format="text", out_dir=tmp_path_factory.mktemp("oracle"))


def test_oracle_scores_1_and_its_interval_has_a_width(oracle: list[Prediction]) -> None:
    phase = score_phase(ASKED, oracle, BUSI, train=ASKED)
    assert phase.parser == "likelihood"
    assert (phase.overall.value, phase.overall.n) == (1.0, len(ASKED))
    assert phase.overall.ci95 == wilson(8, 8)
    assert phase.overall.unparsable == 0
    assert phase.overall.baselines["text_only"] == 0.0
    assert phase.overall.baselines["other_image"] == 0.0
    assert phase.overall.baselines["random"] == pytest.approx(1 / 3)


def test_silent_model_scores_0_and_is_unparsable(tmp_path: Path) -> None:
    said = ask_questions(Silent(), FOUND, BUSI, answer_format="text", out_dir=tmp_path, readings=["generation"])
    phase = score_phase(ASKED, said, BUSI)
    assert phase.parser == "robust"
    assert (phase.overall.value, phase.overall.unparsable) == (0.0, len(ASKED))
    assert phase.overall.baselines["majority"] is None


def test_unanswered_questions_count_as_wrong_and_are_counted(oracle: list[Prediction]) -> None:
    some = [prediction for prediction in oracle if prediction.key.question_id != ASKED[0].id]
    overall = score_phase(ASKED, some, BUSI).overall
    assert overall.unanswered == 1
    assert overall.unparsable == 0
    assert overall.value == pytest.approx(1 - 1 / len(ASKED))


def test_no_predictions_at_all_score_0() -> None:
    overall = score_phase(ASKED, [], BUSI).overall
    assert (overall.value, overall.unanswered) == (0.0, len(ASKED))
    assert overall.baselines["text_only"] is None


def test_levels_add_up_to_the_whole(tmp_path: Path) -> None:
    said = ask_questions(Guessing(), FOUND, BUSI, answer_format="text", out_dir=tmp_path)
    phase = score_phase(ASKED, said, BUSI, train=ASKED)
    by_task = phase.by["task"]
    assert list(by_task) == ["diagnosis", "red_box_grounding"]
    assert sum(level.n for level in by_task.values()) == len(ASKED)
    right = sum(level.number * level.n for level in by_task.values())
    assert right / len(ASKED) == pytest.approx(phase.overall.value)
    assert phase.by["box_size"] == {}


def test_every_metric_of_every_parser_and_condition_is_scored(oracle: list[Prediction]) -> None:
    metrics = score_phase(ASKED, oracle, BUSI).metrics
    assert set(metrics) == {"image", "text_only", "other_image"}
    assert set(metrics["image"]) == {"likelihood", "likelihood_per_token", "robust", "strict"}
    assert set(metrics["image"]["robust"]) == {"accuracy", "macro_f1"}


def test_a_named_parser_is_primary(oracle: list[Prediction]) -> None:
    phase = score_phase(ASKED, oracle, BUSI, parser="strict")
    assert phase.parser == "strict"
    assert phase.overall.baselines["text_only"] is None
    with pytest.raises(ValueError, match=r"no parser 'robsut'.*Did you mean 'robust'"):
        score_phase(ASKED, oracle, BUSI, parser="robsut")


def test_another_primary_metric_has_an_interval_too(tmp_path: Path) -> None:
    said = ask_questions(Guessing(), FOUND, BUSI, answer_format="text", out_dir=tmp_path)
    by_f1 = replace(BUSI, metrics={"macro_f1": macro_f1()}, facets=())
    score = score_phase(ASKED, said, by_f1).overall
    assert score.ci95 is not None
    assert score.ci95.low < score.number < score.ci95.high


def test_a_file_of_another_tool_scores_as_our_own(tmp_path: Path, oracle: list[Prediction]) -> None:
    path = tmp_path / "theirs.jsonl"
    path.write_text("\n".join(f'{{"question_id": "{q.id}", "text": "{q.answer}"}}' for q in ASKED), "utf-8")
    theirs = score_phase(ASKED, read_predictions(path), BUSI)
    ours = score_phase(ASKED, oracle, BUSI, parser="robust")
    assert theirs.overall == ours.overall


def test_scores_are_the_same_to_the_last_digit_whatever_the_order_of_lines(oracle: list[Prediction]) -> None:
    assert score_phase(ASKED, oracle, BUSI).overall == score_phase(ASKED, oracle[::-1], BUSI).overall


def test_an_empty_split_is_an_error() -> None:
    with pytest.raises(ValueError, match="is the split empty"):
        score_phase([], [], BUSI)


def test_questions_that_were_asked_for_no_reply_are_no_wrong_replies() -> None:
    benchmark = find_benchmark("vqa_rad")
    closed = Question("c", "m1", "Is a mass seen?", ("yes", "no"), "no", "yes_no", "p1", facets={"task": "yes_no"})
    free = Question("o", "m2", "Which organ?", (), "liver", "text", "p2", facets={"task": "open"})
    read = Prediction(
        PredictionKey("c", "image", "likelihood", 0),
        options_shown=("yes", "no"),
        option_logprobs=(-2.0, -1.0),
        option_tokens=(1, 1),
    )
    said = generated("o", "The liver.")
    phase = score_phase([closed, free], [read, said], benchmark, parser="likelihood")
    scores = phase.metrics["image"]
    assert scores["likelihood"]["closed_accuracy"].value == 1.0
    assert scores["stated"]["exact_match"].value == 1.0
    assert "closed_accuracy" not in scores["stated"]
    (rules,) = [table for table in phase.tables if table.title == TITLE]
    assert rules.notes[0].endswith("were asked for no reply, left out: 1.")
    assert all(row[1] is None for row in rules.rows)

    # One reply to a question with options says that replies were asked for, so that the others are missing.
    other = replace(closed, id="d")
    reply = generated("d", "no")
    found = score_phase([closed, other, free], [read, reply, said], benchmark, parser="likelihood").metrics["image"]
    assert (found["stated"]["closed_accuracy"].value, found["stated"]["closed_accuracy"].n) == (0.5, 2)
