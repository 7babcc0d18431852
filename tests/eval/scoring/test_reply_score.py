"""A single reply is worth what its benchmark's metric gives for it: 1 for the true answer, 0 for none."""

import pytest

from medtune.benchmarks import find_benchmark
from medtune.data import catalog
from medtune.data.types import Prediction, PredictionKey, Question
from medtune.eval.scoring.reply_score import OWN, ReplyScore, refuse_unscored

EVERY = tuple(catalog.names(catalog.BENCHMARKS))


def _said(question: Question, text: str) -> Prediction:
    return Prediction(PredictionKey(question.id, "image", "generation", 0), text=text, finish_reason="stop")


@pytest.mark.parametrize("name", EVERY)
def test_the_true_answer_is_worth_1_and_an_empty_one_0(name: str) -> None:
    benchmark = find_benchmark(name)
    score, scored = ReplyScore(benchmark), 0
    for question in benchmark.examples:
        if score.named_for(question) is None:
            assert benchmark.judging is not None
            assert benchmark.judging.is_needed(question)
            continue
        scored += 1
        target = benchmark.render(question, "text").target
        thought = f"<think>It is not {question.options[0] if question.options else 'large'}.</think> {target}"
        assert score.of(question, _said(question, target)).score == pytest.approx(1), question.id
        assert score.of(question, _said(question, thought)).score == pytest.approx(1), "behind the thought"
        assert score.of(question, _said(question, "")).score == pytest.approx(0, abs=0.05), question.id
    assert scored


def test_the_task_of_u2_bench_decides_what_a_reply_is_worth() -> None:
    benchmark = find_benchmark("u2_bench")
    score = ReplyScore(benchmark)
    assert {score.named_for(question) for question in benchmark.examples} == {OWN}
    value = next(question for question in benchmark.examples if question.answer_kind == "number")
    near = score.of(value, _said(value, str(float(value.answer) * 1.02))).score
    assert 0.8 < near < 1


def test_what_has_no_value_for_one_reply_is_refused_by_name() -> None:
    benchmark = find_benchmark("fetal_gauge")
    with pytest.raises(ValueError, match=r"'macro_f1', which has no value for a single reply: it scores 0 of the"):
        refuse_unscored([(ReplyScore(benchmark, "macro_f1"), benchmark.examples)])
    with pytest.raises(ValueError, match=r"Did you mean 'accuracy'\? There are: accuracy, macro_f1"):
        ReplyScore(benchmark, "acc")
    assert refuse_unscored([(ReplyScore(benchmark), benchmark.examples)]) == {"accuracy": len(benchmark.examples)}
    judged = find_benchmark("rexsonovqa")
    with pytest.raises(ValueError, match=r"have no score of a single reply, .*restrict the stage to questions"):
        refuse_unscored([(ReplyScore(judged), judged.examples)])
