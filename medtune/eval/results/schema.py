"""The types of results.json, scores.json and audit.json: each field of the files is a field here, in the same order.

The files are written from these types and read into them by `typed_json`; `json_schema` describes them for other
tools. A field with a default may be missing in a file, and fields that are not named here are ignored.
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
"""A text that is left out of the file where it is empty."""


@dataclass(frozen=True, kw_only=True)
class Measured:
    """The value of a metric with what is needed to judge it.

    Attributes:
        value: Value of the metric; None where it has none on these questions.
        n: Questions behind it; unanswered ones count, unscored ones do not.
        ci95: 95 % interval from resampled patients; None where there is none.
        unparsable: Replies from which no answer could be read; they count as wrong.
        unscored: Answers that wait for a judge; they are not among the `n`.
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
        unanswered: Questions without a prediction; they count as wrong.
        baselines: Name -> the primary metric of something that does not see the image; None where it does not apply.
    """

    unanswered: Count
    baselines: Mapping[str, float | None] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class ConfidenceBin:
    """The answers whose confidence lies between `low` and `high`."""

    low: float
    high: float
    n: Count
    confidence: float | None = None
    accuracy: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Reliability:
    """How far the confidence of likelihood readings can be believed.

    Attributes:
        ece: Expected calibration error.
        bins: From the lowest confidence to the highest, without the empty ones.
    """

    ece: float
    bins: tuple[ConfidenceBin, ...] = ()


@dataclass(frozen=True, slots=True)
class MetricScore:
    """One metric of one reading under one condition."""

    condition: str
    parser: str
    metric: str
    score: Measured


@dataclass(frozen=True, kw_only=True)
class Phase:
    """One evaluation.

    Attributes:
        parser: The reading of the answers that `overall` and `by` count.
        overall: The primary metric on all questions.
        by: Facet -> level -> score.
        metrics: Condition -> parser -> metric -> score.
        tables: Tables in the shape of the benchmark's paper.
        calibration: Of the likelihood reading; None where no option has a likelihood.
        refusals: Among the generated replies; None where nothing was generated.
        unscored: Answers to any question that wait for a judge.
        uncounted: Task -> questions that the primary reading leaves out.
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
    """How many questions were answered rightly before and after.

    Attributes:
        only_before: Questions right before and wrong after.
        only_after: Questions wrong before and right after.
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
        n: Questions whose answers have a score both before and after.
        unscored: Questions left out because an answer, before or after, waits for a judge.
        ci95: Paired by question, resampled by patient.
        mcnemar_p: Exact, two-sided; takes questions as independent.
        mcnemar_p_holm: The same after Holm's correction over the tasks; None but on the levels of the facet "task".
        permutation_p: Two-sided, with the sign flipped for whole patients.
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
        by: Facet -> level -> its gain.
    """

    by: Mapping[str, Mapping[str, LevelGain]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Primary:
    """The metric that the benchmark goes by."""

    name: str
    higher_is_better: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class UsedProtocol:
    """How the run had its questions answered.

    Attributes:
        temperature: Of sampling; 0 is greedy; None where the server decides.
        repeats: How often each question was asked.
        condition_repeats: Condition -> how often it was asked, where that differs.
        max_new_tokens: Longest reply, in tokens.
    """

    temperature: float | None
    repeats: Count
    condition_repeats: Mapping[Condition, Count]
    max_new_tokens: Count


@dataclass(frozen=True, slots=True, kw_only=True)
class ProtocolFacts:
    """How the questions were answered, beside what the benchmark's authors published."""

    used: UsedProtocol
    published: AnswerProtocol | None = None


@dataclass(frozen=True, kw_only=True)
class Labelled:
    """The data that the numbers of a file are about; the fields are those of `DataLabel`.

    Attributes:
        provenance: Origin of the data: "released", "reconstruction" or "synthetic".
        prompts: Whose words asked: "ours", or which official prompts.
        unofficial_split: By what a benchmark for evaluation alone was divided, e.g. "patient"; left out where it was
            not.
        unofficial_training: Every set for evaluation alone that the model learnt from; left out where there is none.
    """

    provenance: Fact = ""
    prompts: Fact = ""
    unofficial_split: Fact = ""
    unofficial_training: Fact = ""

    @property
    def label(self) -> DataLabel:
        """The label of the data; a file of another tool may say nothing."""
        return _label(self.provenance, self.prompts, self.unofficial_split, self.unofficial_training)


@with_config(DOCUMENT)
@dataclass(frozen=True, kw_only=True)
class ResultsFile:
    """results.json: the evaluations of a run and the gain between them.

    Attributes:
        benchmark: Name of the benchmark in the catalog.
        benchmark_version: Changes whenever a number could: with prompts, parsers or metrics.
        model: Name of the model in the recipe, or of a served model.
        primary: The metric that the benchmark goes by.
        phases: "zero_shot", "final" or both.
        gain: Gain from the first phase to the second; None where there is one only, or nothing in both was scored.
        unavailable: Reading that the model cannot give -> why.
        protocol: How the questions were answered, beside what the authors published.
        recipe: Name of the recipe.
        data_hash: SHA-256 of the prepared folder that was asked about.
        provenance: Origin of the data: "released", "reconstruction" or "synthetic".
        prompts: Whose words asked: "ours", or which official prompts.
        unofficial_split: By what a benchmark for evaluation alone was divided, e.g. "patient"; left out where it was
            not.
        unofficial_training: Every set for evaluation alone that the model learnt from; left out where there is none.
        trained_on: The prepared folders that were learnt, in words; left out where none was.
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
    provenance: Fact = ""
    prompts: Fact = ""
    unofficial_split: Fact = ""
    unofficial_training: Fact = ""
    trained_on: Fact = ""

    @property
    def label(self) -> DataLabel:
        """The label of the data that were asked about."""
        return _label(self.provenance, self.prompts, self.unofficial_split, self.unofficial_training)

    @property
    def last(self) -> Phase:
        """The phase that the run ended with."""
        return self.phases["final" if "final" in self.phases else "zero_shot"]


# The fields of the last named class come first in the file.
@with_config(DOCUMENT)
@dataclass(frozen=True, kw_only=True)
class ScoresFile(Phase, Labelled):
    """scores.json: one evaluation, which may be read without its run, so that it says itself what data it is about."""


@with_config(DOCUMENT)
@dataclass(frozen=True, kw_only=True)
class AuditFile(Labelled):
    """audit.json: what else reaches the score of a run.

    Attributes:
        version: Version of the file's format.
        rows: The model's own accuracy first.
        collapse: Subtype, or task without one -> its most frequent answer.
    """

    version: Count = 1
    rows: tuple[AuditRow, ...] = ()
    collapse: Mapping[str, Collapse] = field(default_factory=dict)


def _label(provenance: str, prompts: str, unofficial_split: str, unofficial_training: str) -> DataLabel:
    return DataLabel(provenance or UNKNOWN, prompts or NOT_RECORDED, unofficial_split, unofficial_training)
