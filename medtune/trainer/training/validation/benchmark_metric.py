"""A benchmark's metric as one of torchmetrics, whose state are the answers of all ranks.

Shape legend: B bytes.
"""

import json
import math
from collections.abc import Sequence
from typing import NamedTuple

import torch
from pydantic import TypeAdapter
from torch import Tensor
from torchmetrics import Metric, MetricCollection
from torchmetrics.utilities.data import dim_zero_cat

from medtune.benchmarks import find_benchmark
from medtune.data.catalog import nearest
from medtune.data.json_text import json_value
from medtune.data.types import Prediction, PredictionKey, Question
from medtune.eval.benchmark import Benchmark
from medtune.eval.scoring.counted import counted
from medtune.eval.scoring.parse_replies import LIKELIHOOD, parse_all, primary_parser

_NO_BYTES = torch.zeros(0, dtype=torch.uint8)


class _AnsweredQuestion(NamedTuple):
    question: Question
    predictions: tuple[Prediction, ...]


_ROWS = TypeAdapter(_AnsweredQuestion)


def _line(row: _AnsweredQuestion) -> bytes:
    return json.dumps(_ROWS.dump_python(row)).encode("ascii") + b"\n"


def metric_values(
    questions: Sequence[Question], predictions: Sequence[Prediction], benchmark: Benchmark, *, parser: str | None = None
) -> dict[str, float]:
    """Returns the value of each of a benchmark's metrics that is about these questions, without its interval.

    NaN stands for a metric whose answers all wait for a judge.

    Args:
        benchmark: The benchmark for these questions (`Benchmark.for_part`).
        parser: The parser whose answers are counted; None is "likelihood" where there are such readings, else the
            benchmark's first.
    """
    parsed = parse_all(questions, predictions, benchmark)["image"]
    rows = parsed[parser or primary_parser(("likelihood",) if LIKELIHOOD in parsed else (), benchmark)]
    found = {name: (metric, counted(rows, metric)) for name, metric in benchmark.metrics.items()}
    return {
        name: metric.value(each.rows) if each.rows else math.nan
        for name, (metric, each) in found.items()
        if each.about and metric.is_defined_on([row.question for row in each.asked])
    }


class BenchmarkMetric(Metric):
    """A benchmark's metric over all answers since the last reset, on all ranks; `medtune score` gives the same value.

    `update` takes the answers to some questions, and `compute` returns the value as a scalar (float64); NaN where the
    metric is about none of the questions, or all answers wait for a judge. A question that several updates or ranks
    give, as the samplers of Lightning do to fill the last batch, counts once, with its first answer.

    Args:
        benchmark: The name of the benchmark (`medtune list benchmarks`), or the benchmark itself.
        name: The name of the metric; None takes the primary one.
        parser: The parser whose readings are counted; None is "likelihood" where option likelihoods were given, else
            the benchmark's first parser of replies.

    >>> from medtune.benchmarks import find_benchmark
    >>> asked = find_benchmark("busi").examples[:2]
    >>> metric = BenchmarkMetric("busi", "accuracy")
    >>> metric.update([asked[0].answer, "I do not know."], asked)
    >>> float(metric.compute())
    0.5
    """

    full_state_update = False
    is_differentiable = False
    rows: list[Tensor] | Tensor  # Lines of JSON, one for each question, as bytes.

    def __init__(self, benchmark: str | Benchmark, name: str | None = None, *, parser: str | None = None) -> None:
        super().__init__()
        self._benchmark = find_benchmark(benchmark) if isinstance(benchmark, str) else benchmark
        metrics = self._benchmark.metrics
        if name is not None and name not in metrics:
            known = f"{nearest(name, metrics)} There are: {', '.join(metrics)}"
            raise ValueError(f"{self._benchmark.title}: there is no metric {name!r}.{known}")
        if parser is not None and parser not in (*self._benchmark.parsers, LIKELIHOOD):
            known = ", ".join((*self._benchmark.parsers, LIKELIHOOD))
            raise ValueError(f"{self._benchmark.title}: there is no parser {parser!r}. There are: {known}")
        self._name = name
        self._parser = parser
        self.add_state("rows", [], dist_reduce_fx="cat")
        self.reset()

    @property
    def higher_is_better(self) -> bool:  # type: ignore[override]
        return self._benchmark.metrics[self._name or self._benchmark.primary].higher_is_better

    @classmethod
    def every(cls, benchmark: str | Benchmark, *, prefix: str = "", parser: str | None = None) -> MetricCollection:
        """Returns all metrics of a benchmark by name, for `log_dict`; `prefix` is for instance "val/"."""
        known = find_benchmark(benchmark) if isinstance(benchmark, str) else benchmark
        return MetricCollection({name: cls(known, name, parser=parser) for name in known.metrics}, prefix=prefix)

    def reset(self) -> None:
        super().reset()
        # A rank without answers takes part in the gathering, with a tensor of the same type.
        assert isinstance(self.rows, list)
        self.rows.append(_NO_BYTES.to(self.device))

    def update(self, predictions: Sequence[Prediction | str], questions: Sequence[Question]) -> None:
        """Takes the answers to questions.

        Args:
            predictions: The replies, one for each question in the same order; or predictions of medtune, of which a
                question may have several (likelihood and generation). A question without one counts as unanswered.
            questions: The questions.

        Raises:
            ValueError: There are more or fewer replies than questions, a prediction is about none of them, or it was
                made under another condition than "image".
        """
        by_id: dict[str, list[Prediction]] = {question.id: [] for question in questions}
        for number, said in enumerate(predictions):
            if isinstance(said, str):
                if len(predictions) != len(questions):
                    raise ValueError(f"{len(predictions)} replies to {len(questions)} questions; give one to each")
                said = Prediction(PredictionKey(questions[number].id, "image", "generation", 0), text=said)
            key = said.key
            if key.question_id not in by_id or key.condition != "image":
                raise ValueError(
                    f"a prediction is about the question {key.question_id!r} under the condition {key.condition!r}; "
                    "wanted one about a question of this update, under the condition 'image'"
                )
            by_id[key.question_id].append(said)
        lines = b"".join(_line(_AnsweredQuestion(question, tuple(by_id[question.id]))) for question in questions)
        assert isinstance(self.rows, list)
        if lines:
            self.rows.append(torch.frombuffer(bytearray(lines), dtype=torch.uint8).to(self.device))

    def compute(self) -> Tensor:
        """Returns the value of the metric over the answers of all ranks."""
        held = bytes(dim_zero_cat(self.rows).to(torch.uint8).cpu().numpy())
        found: dict[str, _AnsweredQuestion] = {}
        for line in held.splitlines():
            row = _ROWS.validate_python(json_value(line))
            found.setdefault(row.question.id, row)
        if not found:
            return torch.tensor(math.nan, dtype=torch.float64, device=self.device)
        questions = [found[id_].question for id_ in sorted(found)]
        predictions = [prediction for id_ in sorted(found) for prediction in found[id_].predictions]
        benchmark = self._benchmark.for_part(questions)
        values = metric_values(questions, predictions, benchmark, parser=self._parser)
        value = values.get(self._name or benchmark.primary, math.nan)
        return torch.tensor(value, dtype=torch.float64, device=self.device)
