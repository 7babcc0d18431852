"""Every metric of every benchmark as one of torchmetrics: equal to eval's, in one process and in two."""

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
import torch.distributed as dist
from torch.utils.data import DistributedSampler, TensorDataset
from torchmetrics.utilities.data import dim_zero_cat

import medtune
from medtune.benchmarks import find_benchmark
from medtune.data import catalog
from medtune.data.types import Prediction, PredictionKey, Question
from medtune.eval.scoring.score import score_phase
from tests.eval.answers import generated
from tests.ranks import run_ranks

NAMES = catalog.names(catalog.BENCHMARKS)


def asked_of(name: str, copies: int = 5) -> list[Question]:
    """Returns the benchmark's examples several times, as questions about several patients."""
    return [
        replace(question, id=f"{question.id}-{copy}", patient_id=f"{question.patient_id}-{copy}")
        for copy in range(copies)
        for question in find_benchmark(name).examples
    ]


def replies_to(questions: Sequence[Question]) -> list[str]:
    """Returns right answers, those of other questions, and some that cannot be read."""
    rng = np.random.default_rng(7)
    answers = [question.answer for question in questions]
    return [
        ("", answers[int(rng.integers(len(answers)))], question.answer)[int(rng.integers(3))] for question in questions
    ]


def predictions_of(questions: Sequence[Question]) -> list[Prediction]:
    """Returns a reply to each question, and likelihoods of its options, some of them minus infinity."""
    rng = np.random.default_rng(8)
    found = []
    for question, text in zip(questions, replies_to(questions), strict=True):
        key = PredictionKey(question.id, "image", "generation", 0)
        found.append(Prediction(key, options_shown=question.options, text=text))
        if question.options:
            logprobs = [-math.inf, *rng.normal(size=len(question.options) - 1)]
            shown = tuple(map(float, rng.permutation(logprobs)))
            found.append(Prediction(key._replace(reading="likelihood"), None, question.options, option_logprobs=shown))
    return found


def same(one: float, other: float) -> bool:
    return one == other or (math.isnan(one) and math.isnan(other))


@pytest.mark.parametrize("name", NAMES)
def test_every_metric_equals_evals(name: str) -> None:
    questions = asked_of(name)
    texts = replies_to(questions)
    said = [generated(question, text) for question, text in zip(questions, texts, strict=True)]
    phase = score_phase(questions, said, find_benchmark(name).for_part(questions))
    wanted = {each: score.number for each, score in phase.metrics["image"][phase.parser].items()}
    assert wanted
    metrics = medtune.BenchmarkMetric.every(name, prefix="val/")
    half = len(questions) // 2
    metrics.update(texts[:half], questions[:half])
    # Lightning's samplers give some questions twice.
    metrics.update(texts[half - 1 :], questions[half - 1 :])
    found = {each.removeprefix("val/"): float(value) for each, value in metrics.compute().items()}
    assert found.keys() == find_benchmark(name).metrics.keys()
    assert {each for each, value in found.items() if not math.isnan(value)} <= wanted.keys()
    assert all(same(found[each], value) for each, value in wanted.items()), (found, wanted)
    primary = medtune.BenchmarkMetric(name)
    primary.update(texts, questions)
    assert same(float(primary.compute()), phase.overall.number)


@pytest.mark.parametrize("name", NAMES)
def test_predictions_of_two_readings_equal_evals(name: str) -> None:
    questions = asked_of(name)
    said = predictions_of(questions)
    benchmark = find_benchmark(name).for_part(questions)
    for parser in (None, next(iter(benchmark.parsers))):
        phase = score_phase(questions, said, benchmark, parser=parser)
        metric = medtune.BenchmarkMetric(name, parser=parser)
        metric.update(said, questions)
        assert same(float(metric.compute()), phase.overall.number)


def test_reset_forgets_and_nothing_is_nan() -> None:
    metric, questions = medtune.BenchmarkMetric("busi"), asked_of("busi", 1)
    assert math.isnan(metric.compute())
    metric.update([question.answer for question in questions], questions)
    assert metric.compute() == 1
    metric.reset()
    metric.update([""] * len(questions), questions)
    assert metric.compute() == 0
    assert metric.higher_is_better


def test_a_question_without_a_prediction_is_unanswered() -> None:
    metric, questions = medtune.BenchmarkMetric("busi", "accuracy"), asked_of("busi", 1)
    key = PredictionKey(questions[0].id, "image", "generation", 0)
    metric.update([Prediction(key, text=questions[0].answer)], questions)
    assert float(metric.compute()) == pytest.approx(1 / len(questions))


def test_what_does_not_fit_is_refused() -> None:
    questions = asked_of("busi", 1)
    with pytest.raises(ValueError, match=r"there is no metric 'acuracy'\. .*accuracy"):
        medtune.BenchmarkMetric("busi", "acuracy")
    with pytest.raises(ValueError, match="there is no parser 'stern'"):
        medtune.BenchmarkMetric("busi", parser="stern")
    metric = medtune.BenchmarkMetric("busi")
    with pytest.raises(ValueError, match=rf"1 replies to {len(questions)} questions; give one to each"):
        metric.update(["benign"], questions)
    blind = Prediction(PredictionKey(questions[0].id, "text_only", "generation", 0), text="benign")
    with pytest.raises(ValueError, match="under the condition 'text_only'; wanted one about a question of this update"):
        metric.update([blind], questions)


def on_rank(rank: int, world_size: int, name: str) -> list[list[float]]:
    """Returns the metrics of 7 questions that a sampler divides, and of one, which the second rank does not have."""
    dist.init_process_group("gloo")
    found = []
    for number in (7, 1):
        questions, texts = asked_of(name)[:number], replies_to(asked_of(name))[:number]
        sampler: DistributedSampler[Any] = DistributedSampler(
            TensorDataset(torch.arange(number)), world_size, rank, shuffle=False
        )
        mine = list(sampler) if number > 1 or rank == 0 else []
        metrics = medtune.BenchmarkMetric.every(name)
        metrics.update([texts[place] for place in mine], [questions[place] for place in mine])
        found.append([float(value) for value in metrics.compute().values()])
        # Every rank has its own answers back afterwards.
        accuracy = metrics["accuracy"]
        assert isinstance(accuracy, medtune.BenchmarkMetric)
        assert bytes(dim_zero_cat(accuracy.rows).tolist()).count(b"\n") == len(mine)
    dist.destroy_process_group()
    return found


@pytest.mark.slow
def test_two_ranks_equal_one() -> None:
    (one,), (first, second) = (run_ranks(ranks, on_rank, "busi") for ranks in (1, 2))
    for mine, theirs, alone in zip(first, second, one, strict=True):
        assert all(same(*pair) for pair in zip(mine, theirs, strict=True))
        assert all(same(*pair) for pair in zip(mine, alone, strict=True))
