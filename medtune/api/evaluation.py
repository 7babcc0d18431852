"""The result of an evaluation: the scores with their intervals, the questions and the replies."""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from pathlib import Path

from medtune.api.dataset import Questions
from medtune.data.files import out_folder, replace_file
from medtune.data.types import Interval, MediaRef, Prediction, Question, Split
from medtune.eval.benchmark import Benchmark
from medtune.eval.data_label import DataLabel
from medtune.eval.metric import ParsedReply
from medtune.eval.predictions.files import MERGED, format_line
from medtune.eval.results.build import gain_table, scores_file
from medtune.eval.results.phase_schema import Measured
from medtune.eval.results.typed_json import write_document
from medtune.eval.scoring.parse_replies import is_closed, parse_all, write_parsed
from medtune.eval.scoring.score import PhaseScores, score_rows
from medtune.eval.scoring.tables import table_text


@dataclass(frozen=True, slots=True)
class NamedScore:
    """A metric's value on some questions, with its 95 % interval.

    Attributes:
        metric: The name of the metric.
        score: The value, the number of questions, the interval, and what was left out.
    """

    metric: str
    score: Measured

    @property
    def value(self) -> float:
        """The value; NaN where the metric has none on these questions."""
        return self.score.number

    @property
    def n(self) -> int:
        """The number of questions behind the value."""
        return self.score.n

    @property
    def ci95(self) -> Interval | None:
        """The 95 % interval, with patients as clusters; None where there is none."""
        return self.score.ci95

    def __str__(self) -> str:
        value = f"{self.value:.3f}" if math.isfinite(self.value) else "-"
        reach = f"95 % interval {self.ci95.text()}, " if self.ci95 else "no interval, "
        return f"{self.metric} {value} ({reach}{self.n} question{'' if self.n == 1 else 's'})"


@dataclass(frozen=True, repr=False)
class Evaluation:
    """The answers of one model to questions, and their scores.

    Attributes:
        name: The name of what answered, for tables and reports.
        questions: The questions.
        predictions: The predictions, unparsed.
        benchmark: The benchmark whose parsers and metrics were used.
        scores: All scores, as `medtune score` computes them.
        label: The label of the data.
        data_hash: A hash of the data; two evaluations can be compared only if it is the same.
        split: The split that the questions are from.
        shown: The questions with their media, for the pictures of a report; None if there are no media.
        remarks: What else the reader of the scores has to know, as sentences.
    """

    name: str
    questions: tuple[Question, ...]
    predictions: tuple[Prediction, ...]
    benchmark: Benchmark
    scores: PhaseScores
    label: DataLabel
    data_hash: str
    split: Split
    shown: Questions | None = None
    remarks: tuple[str, ...] = ()

    @property
    def score(self) -> NamedScore:
        """The primary metric of the benchmark."""
        whole = self.scores.overall
        measured = Measured(**{each.name: getattr(whole, each.name) for each in fields(Measured)})
        return NamedScore(self.benchmark.primary, measured)

    @property
    def closed(self) -> NamedScore | None:
        """The score of the questions with listed answers (options, yes or no); None if there are none."""
        return self._part(is_closed)

    @property
    def open(self) -> NamedScore | None:
        """The score of the questions without listed answers; None if there are none."""
        return self._part(lambda question: not is_closed(question))

    @property
    def metrics(self) -> Mapping[str, Measured]:
        """Every metric by name, of the answers that the primary metric counts."""
        return self.scores.metrics["image"][self.scores.parser]

    @property
    def by(self) -> Mapping[str, Mapping[str, Measured]]:
        """The primary metric by facet and level, e.g. `by["task"]["diagnosis"]`."""
        return self.scores.by

    @property
    def replies(self) -> dict[str, str]:
        """The generated replies of the first pass by the question's id, under the condition "image"."""
        return {
            said.key.question_id: said.text
            for said in self.predictions
            if said.text is not None and said.key.condition == "image" and said.key.repeat == 0
        }

    @property
    def rows(self) -> tuple[ParsedReply, ...]:
        """The parsed replies to all questions that the primary parser can read."""
        return tuple(parse_all(self.questions, self.predictions, self.benchmark)["image"][self.scores.parser])

    def media(self, question: Question) -> tuple[MediaRef, ...]:
        """Returns the media that a question is about; empty where they are not known, as with plain answers."""
        return () if self.shown is None else self.shown.media(question)

    def save(self, folder: str | Path) -> Path:
        """Writes predictions.jsonl, parsed.jsonl and scores.json, as `medtune score` does, and returns the folder.

        Raises:
            OSError: The folder cannot be written, or is a file.
        """
        out = out_folder(Path(folder).expanduser())
        out.mkdir(parents=True, exist_ok=True)
        replace_file(out / MERGED, map(format_line, self.predictions))
        parsed = parse_all(self.questions, self.predictions, self.benchmark)
        write_parsed(out / "parsed.jsonl", self.predictions, parsed, self.benchmark)
        write_document(out / "scores.json", scores_file(self.scores, self.label))
        return out

    def __str__(self) -> str:
        parts = [f"{name}: {part}" for name, part in (("closed", self.closed), ("open", self.open)) if part]
        lines = [gain_table({self.name: self.scores}, None, self.benchmark, label=self.label), *self.remarks]
        lines += parts if len(parts) == 2 else []
        return "\n".join([*lines, *(f"\n{table_text(table)}" for table in self.scores.tables)])

    def __repr__(self) -> str:
        return f"{self.name}: {self.score}"

    def _part(self, is_of: Callable[[Question], bool]) -> NamedScore | None:
        """Returns the first metric that covers any of these questions, on all of them that it covers."""
        asked = [question for question in self.questions if is_of(question)]
        if not asked:
            return None
        benchmark = self.benchmark.for_part(asked)
        parsed = parse_all(asked, self._about(asked), benchmark)["image"]
        # The likelihood reading does not cover questions without options.
        parser = self.scores.parser if parsed.get(self.scores.parser) else next(iter(benchmark.parsers))
        rows = benchmark.primary_metric.covered(parsed.get(parser, ()))
        return NamedScore(benchmark.primary, score_rows(rows, benchmark.primary_metric)) if rows else None

    def _about(self, asked: list[Question]) -> list[Prediction]:
        ids = {question.id for question in asked}
        return [said for said in self.predictions if said.key.question_id in ids]
