from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from medtune.benchmarks import benchmark
from medtune.data.types import Prediction
from medtune.eval.asking.ask import evaluate
from medtune.eval.metrics.macro_f1 import metric as macro_f1
from medtune.eval.predictions.files import read_predictions
from medtune.eval.scoring.score import score_stage
from medtune.eval.statistics.clustered import wilson
from tests.eval.answerers import Guessing, Oracle, Silent, groups, questions

BUSI = benchmark("busi")
FOUND = groups(8)
ASKED = questions(FOUND)


@pytest.fixture(scope="module")
def oracle(tmp_path_factory: pytest.TempPathFactory) -> list[Prediction]:
    return evaluate(Oracle(), FOUND, BUSI, answer_format="text", out_dir=tmp_path_factory.mktemp("oracle"))


def test_oracle_scores_1_and_its_interval_has_a_width(oracle: list[Prediction]) -> None:
    stage = score_stage(ASKED, oracle, BUSI, train=ASKED)
    assert stage.parser == "likelihood"
    assert (stage.overall.score.value, stage.overall.score.n) == (1.0, len(ASKED))
    assert stage.overall.score.ci95 == wilson(8, 8)
    assert stage.overall.score.unparsable == 0
    assert stage.overall.baselines["text_only"] == 0.0
    assert stage.overall.baselines["other_image"] == 0.0
    assert stage.overall.baselines["random"] == pytest.approx(1 / 3)


def test_silent_model_scores_0_and_is_unparsable(tmp_path: Path) -> None:
    said = evaluate(Silent(), FOUND, BUSI, answer_format="text", out_dir=tmp_path, readings=["generation"])
    stage = score_stage(ASKED, said, BUSI)
    assert stage.parser == "robust"
    assert (stage.overall.score.value, stage.overall.score.unparsable) == (0.0, len(ASKED))
    assert stage.overall.baselines["majority"] is None


def test_unanswered_questions_count_as_wrong_and_are_counted(oracle: list[Prediction]) -> None:
    some = [prediction for prediction in oracle if prediction.key.question_id != ASKED[0].id]
    overall = score_stage(ASKED, some, BUSI).overall
    assert overall.unanswered == 1
    assert overall.score.unparsable == 0
    assert overall.score.value == pytest.approx(1 - 1 / len(ASKED))


def test_no_predictions_at_all_score_0() -> None:
    overall = score_stage(ASKED, [], BUSI).overall
    assert (overall.score.value, overall.unanswered) == (0.0, len(ASKED))
    assert overall.baselines["text_only"] is None


def test_levels_add_up_to_the_whole(tmp_path: Path) -> None:
    said = evaluate(Guessing(), FOUND, BUSI, answer_format="text", out_dir=tmp_path)
    stage = score_stage(ASKED, said, BUSI, train=ASKED)
    by_task = stage.by["task"]
    assert list(by_task) == ["diagnosis", "red_box_grounding"]
    assert sum(level.score.n for level in by_task.values()) == len(ASKED)
    right = sum(level.score.value * level.score.n for level in by_task.values())
    assert right / len(ASKED) == pytest.approx(stage.overall.score.value)
    assert stage.by["box_size"] == {}


def test_every_metric_of_every_parser_and_condition_is_scored(oracle: list[Prediction]) -> None:
    metrics = score_stage(ASKED, oracle, BUSI).metrics
    assert set(metrics) == {"image", "text_only", "other_image"}
    assert set(metrics["image"]) == {"likelihood", "likelihood_per_token", "robust", "strict"}
    assert set(metrics["image"]["robust"]) == {"accuracy", "macro_f1"}


def test_a_named_parser_is_primary(oracle: list[Prediction]) -> None:
    stage = score_stage(ASKED, oracle, BUSI, parser="strict")
    assert stage.parser == "strict"
    assert stage.overall.baselines["text_only"] is None
    with pytest.raises(ValueError, match=r"no parser 'robsut'.*Did you mean 'robust'"):
        score_stage(ASKED, oracle, BUSI, parser="robsut")


def test_another_primary_metric_has_an_interval_too(tmp_path: Path) -> None:
    said = evaluate(Guessing(), FOUND, BUSI, answer_format="text", out_dir=tmp_path)
    by_f1 = replace(BUSI, metrics={"macro_f1": macro_f1}, facets=())
    score = score_stage(ASKED, said, by_f1).overall.score
    assert score.ci95 is not None
    assert score.ci95.low < score.value < score.ci95.high


def test_a_file_of_another_tool_scores_as_our_own(tmp_path: Path, oracle: list[Prediction]) -> None:
    path = tmp_path / "theirs.jsonl"
    path.write_text("\n".join(f'{{"question_id": "{q.id}", "text": "{q.answer}"}}' for q in ASKED), "utf-8")
    theirs = score_stage(ASKED, read_predictions(path), BUSI)
    ours = score_stage(ASKED, oracle, BUSI, parser="robust")
    assert theirs.overall.score == ours.overall.score


def test_scores_are_the_same_to_the_last_digit_whatever_the_order_of_lines(oracle: list[Prediction]) -> None:
    assert score_stage(ASKED, oracle, BUSI).overall == score_stage(ASKED, oracle[::-1], BUSI).overall


def test_an_empty_split_is_an_error() -> None:
    with pytest.raises(ValueError, match="is the split empty"):
        score_stage([], [], BUSI)
