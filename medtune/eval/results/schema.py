"""Defines the types of results.json, scores.json and audit.json, field by field in the order of the files.

`typed_json` writes the files from these types and reads them as these types, and `json_schema` describes them for other
tools. A field with a default may be missing in a file, and fields that are not defined here are ignored.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Annotated

from pydantic import AfterValidator, ConfigDict, Field, with_config

from medtune.data.types import Condition, Interval, Reading
from medtune.eval.asking.answer_protocol import AnswerProtocol
from medtune.eval.audit.row import AuditRow, Collapse
from medtune.eval.data_label import NOT_RECORDED, UNKNOWN, DataLabel
from medtune.eval.scoring.refusals import Refusals
from medtune.eval.scoring.tables import Table

PHASES = ("zero_shot", "final")
DOCUMENT = ConfigDict(strict=True, allow_inf_nan=False, ser_json_inf_nan="constants")


def _only_phases(phases: Mapping[str, Phase]) -> dict[str, Phase]:
    found = {name: phases[name] for name in PHASES if name in phases}
    if not found:
        raise ValueError('wanted a phase "zero_shot" or "final"')
    return found


def _rectangular(table: Table) -> Table:
    if any(len(row) != len(table.columns) for row in table.rows):
        raise ValueError(f"wanted {len(table.columns)} cells in each row of the table {table.title!r}")
    return table


Count = Annotated[int, Field(ge=0)]
PaperTable = Annotated[Table, AfterValidator(_rectangular)]
Fact = Annotated[str, Field(exclude_if=lambda text: not text)]
"""A text that is left out of the file if it is empty."""


@dataclass(frozen=True, kw_only=True)
class Measured:
    """The value of a metric, with its interval and the number of questions behind it.

    Attributes:
        value: Value of the metric; None if it has none on these questions.
        n: Number of questions behind the value, with unanswered questions and without unscored ones.
        ci95: 95 % interval with patients as clusters; None if there is none.
        unparsable: Number of replies from which no answer could be read; they count as wrong.
        unscored: Number of answers that wait for a judge; they are not counted in `n`.
    """

    value: float | None = None
    n: Count
    ci95: Interval | None = None
    unparsable: Count
    unscored: Count = 0


@dataclass(frozen=True, kw_only=True)
class Level(Measured):
    """The primary metric on some of the questions.

    Attributes:
        unanswered: Number of questions without a prediction; they count as wrong.
        baselines: Name of a baseline, which does not see the image -> its primary metric; None if it does not apply.
    """

    unanswered: Count
    baselines: Mapping[str, float | None] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class ConfidenceBin:
    """The answers whose confidence lies in one bin.

    Attributes:
        low: Lower end of the bin, 0 to 1.
        high: Upper end of the bin, 0 to 1.
        n: Number of answers.
        confidence: Mean confidence of the answers, 0 to 1; None if it is not recorded.
        accuracy: Share of right answers, 0 to 1; None if it is not recorded.
    """

    low: float
    high: float
    n: Count
    confidence: float | None = None
    accuracy: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Reliability:
    """The calibration of likelihood readings: how well their confidence agrees with their accuracy.

    Attributes:
        ece: Expected calibration error, 0 to 1.
        bins: The bins from the lowest to the highest confidence, without empty bins.
    """

    ece: float
    bins: tuple[ConfidenceBin, ...] = ()


@dataclass(frozen=True, slots=True)
class MetricScore:
    """One metric of the replies under one condition, as read by one parser.

    Attributes:
        condition: Name of the condition.
        parser: Name of the parser.
        metric: Name of the metric.
        score: Value of the metric.
    """

    condition: str
    parser: str
    metric: str
    score: Measured


@dataclass(frozen=True, kw_only=True)
class Phase:
    """One evaluation of a model on the questions of a benchmark.

    Attributes:
        parser: Name of the parser whose answers `overall` and `by` count.
        overall: The primary metric on all questions.
        by: Facet -> level -> the primary metric on the questions of that level.
        metrics: Condition -> parser -> metric -> its value.
        tables: Tables in the form of the benchmark's paper.
        calibration: Calibration of the likelihood reading; None if there is no likelihood reading.
        refusals: Numbers of refusals among the generated replies; None if no reply was generated.
        unscored: Number of answers that wait for a judge, among all questions.
        uncounted: Task -> number of questions that `parser` cannot read, which no score in `overall` and `by` counts.
    """

    parser: str = "unknown"
    overall: Level
    by: Mapping[str, Mapping[str, Level]] = field(default_factory=dict)
    metrics: Mapping[str, Mapping[str, Mapping[str, Measured]]] = field(default_factory=dict)
    tables: tuple[PaperTable, ...] = ()
    calibration: Reliability | None = None
    refusals: Refusals | None = None
    unscored: Count = 0
    uncounted: Mapping[str, Count] = field(default_factory=dict)

    def every_metric(self) -> Iterator[MetricScore]:
        """Yields every metric of every reading under every condition, in the order of the file."""
        for condition, parsers in self.metrics.items():
            for parser, scores in parsers.items():
                for metric, score in scores.items():
                    yield MetricScore(condition, parser, metric, score)


@dataclass(frozen=True, slots=True, kw_only=True)
class Changed:
    """The number of questions that were answered right before, after, both times or never.

    Attributes:
        both_right: Number of questions right before and after.
        only_before: Number of questions right before and wrong after.
        only_after: Number of questions wrong before and right after.
        both_wrong: Number of questions wrong before and after.
    """

    both_right: Count
    only_before: Count
    only_after: Count
    both_wrong: Count


@dataclass(frozen=True, kw_only=True)
class LevelGain:
    """The gain on some of the questions.

    Attributes:
        value: Primary metric after minus before.
        n: Number of questions whose answers have a score both before and after.
        unscored: Number of questions left out because an answer, before or after, waits for a judge.
        ci95: 95 % interval of the value, paired by question, with patients as clusters; None if it is not recorded.
        mcnemar_p: Two-sided p value of McNemar's exact test, which takes questions as independent.
        mcnemar_p_holm: `mcnemar_p` of a task after Holm's correction over the tasks; None for everything but tasks.
        permutation_p: Two-sided p value of the permutation test that flips whole patients; None if it is not recorded.
        counts: Number of questions that were answered right before, after, both times or never.
    """

    value: float
    n: Count
    unscored: Count = 0
    ci95: Interval | None = None
    mcnemar_p: float
    mcnemar_p_holm: float | None = None
    permutation_p: float | None = None
    counts: Changed


@dataclass(frozen=True, kw_only=True)
class Gain(LevelGain):
    """The gain on all questions.

    Attributes:
        by: Facet -> level -> the gain on the questions of that level.
    """

    by: Mapping[str, Mapping[str, LevelGain]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Primary:
    """The primary metric of the benchmark, by which gains are computed and checkpoints are chosen.

    Attributes:
        name: Name of the metric.
        higher_is_better: True if a higher value is better.
    """

    name: str
    higher_is_better: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class UsedProtocol:
    """The settings with which the run had its questions answered.

    Attributes:
        temperature: Temperature of sampling; 0 is greedy, and None means that the server decides.
        repeats: Number of times that each question was asked.
        condition_repeats: Condition -> number of times that each question was asked under it, if that differs.
        max_new_tokens: Length of the longest reply, in tokens.
    """

    temperature: float | None
    repeats: Count
    condition_repeats: Mapping[Condition, Count]
    max_new_tokens: Count


@dataclass(frozen=True, slots=True, kw_only=True)
class ProtocolFacts:
    """The settings with which the questions were answered, and those that the benchmark's authors published.

    Attributes:
        used: Settings of this run.
        published: Settings of the benchmark's authors; None if they published none.
    """

    used: UsedProtocol
    published: AnswerProtocol | None = None


@dataclass(frozen=True, kw_only=True)
class Labelled:
    """The label of the data that the numbers of a file are about; the fields are those of `DataLabel`.

    Attributes:
        provenance: Origin of the data: "released", "reconstruction" or "synthetic".
        prompts: Author of the prompts: "ours", or the name of official prompts.
        unofficial_split: Unit by which a benchmark for evaluation alone was divided into splits of our own, e.g.
            "patient"; left out if the official split was used.
        unofficial_training: Sets for evaluation alone that the model was trained on; left out if there are none.
    """

    provenance: Fact = ""
    prompts: Fact = ""
    unofficial_split: Fact = ""
    unofficial_training: Fact = ""

    @property
    def label(self) -> DataLabel:
        """The label of the data; its fields are unknown if another tool wrote the file without them."""
        return _label(self.provenance, self.prompts, self.unofficial_split, self.unofficial_training)


@with_config(DOCUMENT)
@dataclass(frozen=True, kw_only=True)
class ResultsFile:
    """results.json: the evaluations of a run and the gain between them.

    Attributes:
        benchmark: Name of the benchmark in the catalog.
        benchmark_version: Version of the benchmark's prompts, parsers and metrics; it changes if a score could change.
        model: Name of the model in the recipe, or of a served model.
        primary: Primary metric of the benchmark.
        phases: Evaluations by phase: "zero_shot" before training, "final" after it, or both.
        gain: Gain from the first phase to the second; None if there is only one, or no question has a score in both.
        unavailable: Reading that the model cannot give -> the reason.
        protocol: Settings with which the questions were answered, and those that the benchmark's authors published.
        recipe: Name of the recipe.
        data_hash: SHA-256 of the prepared folder that the questions came from, in hex digits.
        interval_method: Name of the method of the 95 % intervals; left out if it is not recorded.
        provenance: Origin of the data: "released", "reconstruction" or "synthetic".
        prompts: Author of the prompts: "ours", or the name of official prompts.
        unofficial_split: Unit by which a benchmark for evaluation alone was divided into splits of our own, e.g.
            "patient"; left out if the official split was used.
        unofficial_training: Sets for evaluation alone that the model was trained on; left out if there are none.
        trained_on: Description of the prepared folders that the model was trained on; left out without training.
    """

    benchmark: str
    benchmark_version: str = "unknown"
    model: str
    primary: Primary
    phases: Annotated[
        Mapping[str, Phase],
        AfterValidator(_only_phases),
        Field(json_schema_extra={"anyOf": [{"required": [name]} for name in PHASES]}),
    ]
    gain: Gain | None = None
    unavailable: Mapping[Reading, str] = field(default_factory=dict)
    protocol: Annotated[ProtocolFacts | None, Field(exclude_if=lambda facts: facts is None)] = None
    recipe: Fact = ""
    data_hash: Fact = ""
    interval_method: Fact = ""
    provenance: Fact = ""
    prompts: Fact = ""
    unofficial_split: Fact = ""
    unofficial_training: Fact = ""
    trained_on: Fact = ""

    @property
    def label(self) -> DataLabel:
        """The label of the data that the questions came from."""
        return _label(self.provenance, self.prompts, self.unofficial_split, self.unofficial_training)

    @property
    def last(self) -> Phase:
        """The phase that the run ended with."""
        return self.phases["final" if "final" in self.phases else "zero_shot"]


# The fields of the last named class come first in the file.
@with_config(DOCUMENT)
@dataclass(frozen=True, kw_only=True)
class ScoresFile(Phase, Labelled):
    """scores.json: one evaluation with the label of its data, so that it can be read without the rest of the run.

    Attributes:
        interval_method: Name of the method of the 95 % intervals; left out if it is not recorded.
    """

    interval_method: Fact = ""


@with_config(DOCUMENT)
@dataclass(frozen=True, kw_only=True)
class AuditFile(Labelled):
    """audit.json: the audit of a run, which checks whether its score has an explanation other than the image.

    Attributes:
        version: Version of the file's format.
        rows: Rows of the audit, the model's own accuracy first.
        collapse: Subtype, or task for questions without subtype -> its most frequent answer.
        interval_method: Name of the method of the 95 % intervals; left out if it is not recorded.
    """

    version: Count = 1
    rows: tuple[AuditRow, ...] = ()
    collapse: Mapping[str, Collapse] = field(default_factory=dict)
    interval_method: Fact = ""


def _label(provenance: str, prompts: str, unofficial_split: str, unofficial_training: str) -> DataLabel:
    return DataLabel(provenance or UNKNOWN, prompts or NOT_RECORDED, unofficial_split, unofficial_training)
