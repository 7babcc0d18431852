"""Times the scoring of 400,000 made-up predictions of one benchmark, and compares two ways to compute its intervals.

The default is the first benchmark that simulates images. Questions and replies are made from the benchmark's own
examples. medtune computes confidence intervals from sums over columns, without each patient; here these are compared
with metrics that are computed again without each patient, on a smaller number of rows.
"""

import json
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from bench.measuring.measured import Limit, Measured, TwoWays, peak_memory_gb, timed
from bench.measuring.subjects import first_simulated
from bench.measuring.workload import workload
from medtune.benchmarks import find_benchmark
from medtune.data.types import Question
from medtune.eval.benchmark import Benchmark
from medtune.eval.metric import Metric, ParsedReply
from medtune.eval.predictions.files import read_predictions
from medtune.eval.scoring.parse_replies import parse_all
from medtune.eval.scoring.score import score_phase
from medtune.eval.statistics import Floats, Numbers, cluster_codes, num_clusters
from medtune.eval.statistics.column_sums import Recomputed

NUMBER = 400_000
PER_PATIENT = 43
"""The number of questions about one media item: the largest that any benchmark asks (about a CT)."""
COMPARED = 100 * PER_PATIENT
MOST_PATIENTS = 50
TARGET = 10.0
MAX_S, MAX_GB = 60.0, 2.0
_SAYINGS = ("{0}", "The answer is {0}.", "{0}", "Seen at {1} mm, so this is {0}", "Hm, {1}.")


def bench(subject: str | None) -> Measured:
    """Returns the figures of the benchmark named `subject`; None means the first one that simulates images."""
    name = subject or first_simulated("image").name
    number = workload(name).max_predictions or NUMBER
    return measured(name, number=number, compared=COMPARED)


def measured(name: str, *, number: int, compared: int) -> Measured:
    """Returns the time and memory of scoring, and the comparison of both ways to leave out patients.

    The time to make the questions is not counted, but their memory is.
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
    return Measured(f"{number} predictions of {name}", (left_out_two_ways(rows, benchmark),), limits)


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


def left_out_two_ways(rows: Sequence[ParsedReply], benchmark: Benchmark) -> TwoWays:
    """Returns the comparison of two ways to compute every metric without each patient: from column sums, or again."""

    def by_sums(metric: Metric, chosen: Sequence[ParsedReply]) -> Floats:
        return metric.on(chosen).without(*_codes(chosen))

    def anew(metric: Metric, chosen: Sequence[ParsedReply]) -> Floats:
        def value(numbers: Numbers) -> float:
            return metric.value([chosen[number] for number in numbers])

        return Recomputed(value, len(chosen)).without(*_codes(chosen))

    def all_of(way: Callable[[Metric, Sequence[ParsedReply]], Floats]) -> Floats:
        return np.concatenate([way(metric, chosen) for metric, chosen in _metrics(rows, benchmark)])

    summed, quick_s = timed(lambda: all_of(by_sums))
    plain, plain_s = timed(lambda: all_of(anew))
    return TwoWays(
        title=f"every metric without each of {MOST_PATIENTS} patients at most, on {len(rows)} questions",
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


def _codes(rows: Sequence[ParsedReply]) -> tuple[Numbers, Numbers]:
    """Returns the patient of each row, and the patients that are left out."""
    codes = cluster_codes([row.question.patient_id for row in rows])
    return codes, np.arange(min(num_clusters(codes), MOST_PATIENTS))


def _apart(one: Floats, other: Floats) -> float:
    """Returns the largest difference of two arrays; it is infinite if a value is missing (nan) on only one side."""
    nowhere = np.isnan(one)
    if not np.array_equal(nowhere, np.isnan(other)):
        return float("inf")
    return float(np.abs(one - other)[~nowhere].max(initial=0.0))


def _near(question: Question, draw: int) -> str:
    """Returns a wrong answer that resembles the right one: a number of similar size, or some of its words."""
    if question.answer_kind == "number":
        return f"{float(question.answer) * (0.5 + draw % 1000 / 1000):.1f}"
    words = question.answer.split()
    return " ".join(word for place, word in enumerate(words) if draw >> place % 31 & 3)
