"""Scoring 400,000 made-up predictions of a benchmark (by default fetal_gauge): time, memory, and resampling by sums.

Questions and replies are made from the benchmark's own examples. Every interval comes from column sums; that is held
against metrics that are computed anew from the resampled rows, on few enough rows to wait for.
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from medtune.benchmarks import find_benchmark
from medtune.data.types import Question
from medtune.eval.benchmark import Benchmark
from medtune.eval.metric import Metric
from medtune.eval.parsed_reply import ParsedReply
from medtune.eval.predictions.files import read_predictions
from medtune.eval.scoring.parse_replies import parse_all
from medtune.eval.scoring.score import score_phase
from medtune.eval.statistics.resampling import Floats, Numbers, cluster_codes
from medtune.eval.statistics.statistic import Recomputed
from medtune.trainer.benches.figures.measured import Limit, Measured, TwoWays, peak_memory_gb, timed

NUMBER = 400_000
NUMBER_OF = {"u2_bench": 7_241}
"""Its texts take longer to compare than others to read, so it gets the number that it has (arXiv 2505.17779)."""
PER_PATIENT = 43
"""CTLesionVQA's number of questions about one CT."""
COMPARED = 100 * PER_PATIENT
RESAMPLES = 50
TARGET = 10.0
MAX_S, MAX_GB = 60.0, 2.0
_SAYINGS = ("{0}", "The answer is {0}.", "{0}", "Seen at {1} mm, so this is {0}", "Hm, {1}.")


def bench(subject: str | None) -> Measured:
    """Returns the figures of one benchmark, by its name."""
    name = subject or "fetal_gauge"
    return measured(name, number=NUMBER_OF.get(name, NUMBER), compared=COMPARED)


def measured(name: str, *, number: int, compared: int) -> Measured:
    """Returns the time and memory of scoring so many predictions, and both ways to resample some of them.

    The time to make the questions is not counted; their memory is.
    """
    benchmark = find_benchmark(name)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "predictions.jsonl"
        questions = made_up(benchmark, number, path)

        def score() -> None:
            score_phase(questions, read_predictions(path), benchmark, train=questions[: number // 4])

        _, score_s = timed(score)
        peak_gb = peak_memory_gb()
        some = questions[:compared]
        wanted = {question.id for question in some}
        replies = [each for each in read_predictions(path) if each.key.question_id in wanted]
    parsed = parse_all(some, replies, benchmark)["image"]
    limits = (Limit("read and scored", score_s, MAX_S, "s"), Limit("peak memory", peak_gb, MAX_GB, "GB"))
    rows = parsed[next(iter(benchmark.parsers))]
    return Measured(f"{number} predictions of {name}", (resampled_two_ways(rows, benchmark),), limits)


def made_up(benchmark: Benchmark, number: int, path: Path) -> list[Question]:
    """Writes one prediction for each question to `path`, and returns the questions."""
    rng = np.random.default_rng(0)
    shown = [benchmark.render(example, "text").choices for example in benchmark.examples]
    draws, sayings = rng.integers(0, 2**31, (2, number)).tolist(), rng.integers(0, len(_SAYINGS), number).tolist()
    questions = []
    with path.open("w", encoding="utf-8") as file:
        for place in range(number):
            example, choices = benchmark.examples[place % len(shown)], shown[place % len(shown)]
            true, said = (draw[place] for draw in draws)
            question = replace(
                example,
                id=f"q{place}",
                media_id=f"m{place // PER_PATIENT}",
                patient_id=f"p{place // PER_PATIENT}",
                answer=example.options[true % len(choices)] if choices else example.answer,
                facets=dict(example.facets),
            )
            answer = choices[said % len(choices)] if choices else _near(question, said)
            text = _SAYINGS[sayings[place]].format(answer, place)
            file.write(json.dumps({"question_id": question.id, "text": text}) + "\n")
            questions.append(question)
    return questions


def resampled_two_ways(rows: Sequence[ParsedReply], benchmark: Benchmark) -> TwoWays:
    """Returns every metric on the same resamples: from column sums, and computed anew."""

    def by_sums(metric: Metric, chosen: Sequence[ParsedReply]) -> Floats:
        return metric.on(chosen).resampled(_codes(chosen), resamples=RESAMPLES, seed=0)

    def anew(metric: Metric, chosen: Sequence[ParsedReply]) -> Floats:
        def value(numbers: Numbers) -> float:
            return metric.value([chosen[number] for number in numbers])

        return Recomputed(value, len(chosen)).resampled(_codes(chosen), resamples=RESAMPLES, seed=0)

    def all_of(way: Callable[[Metric, Sequence[ParsedReply]], Floats]) -> Floats:
        return np.concatenate([way(metric, chosen) for metric, chosen in _metrics(rows, benchmark)])

    summed, quick_s = timed(lambda: all_of(by_sums))
    plain, plain_s = timed(lambda: all_of(anew))
    return TwoWays(
        title=f"{RESAMPLES} resamples of every metric on {len(rows)} questions",
        quick="column sums",
        plain="computed anew",
        quick_s=quick_s,
        plain_s=plain_s,
        apart=_apart(summed, plain),
        tolerance=1e-9,
        target=TARGET,
    )


def _metrics(rows: Sequence[ParsedReply], benchmark: Benchmark) -> Iterator[tuple[Metric, list[ParsedReply]]]:
    for metric in benchmark.metrics.values():
        chosen = metric.covered(rows)
        if chosen:
            yield metric, chosen


def _codes(rows: Sequence[ParsedReply]) -> Numbers:
    return cluster_codes([row.question.patient_id for row in rows])


def _apart(one: Floats, other: Floats) -> float:
    """The largest difference; a value that only one of them has is infinitely far from none."""
    nowhere = np.isnan(one)
    if not np.array_equal(nowhere, np.isnan(other)):
        return float("inf")
    return float(np.abs(one - other)[~nowhere].max(initial=0.0))


def _near(question: Question, draw: int) -> str:
    """A number about as large as the answer, or some of its words."""
    if question.answer_kind == "number":
        return f"{float(question.answer) * (0.5 + draw % 1000 / 1000):.1f}"
    words = question.answer.split()
    return " ".join(word for place, word in enumerate(words) if draw >> place % 31 & 3)
