"""Defines the types of results.json, scores.json and audit.json, field by field in the order of the files.

`typed_json` writes the files from these types and reads them as these types, and `json_schema` describes them for other
tools. A field with a default may be missing in a file, and fields that are not defined here are ignored.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated

from pydantic import AfterValidator, ConfigDict, Field, with_config

from medtune.data.types import Condition, Reading
from medtune.eval.asking.answerer import AnswerProtocol
from medtune.eval.audit.row import AuditRow, Collapse
from medtune.eval.data_label import DataLabel, Fact, recorded_label
from medtune.eval.results.gain_schema import Gain
from medtune.eval.results.phase_schema import Count, Phase

PHASES = ("zero_shot", "final")
DOCUMENT = ConfigDict(strict=True, allow_inf_nan=False, ser_json_inf_nan="constants")


def _only_phases(phases: Mapping[str, Phase]) -> dict[str, Phase]:
    found = {name: phases[name] for name in PHASES if name in phases}
    if not found:
        raise ValueError('wanted a phase "zero_shot" or "final"')
    return found


@dataclass(frozen=True, slots=True, kw_only=True)
class Primary:
    """The primary metric of the benchmark, by which gains are computed and checkpoints are chosen.

    Attributes:
        name: Name of the metric.
        higher_is_better: True if a higher value is better.
        level_name: Name of its values in `by`, where a composite has parts of it; "" in files of earlier versions.
    """

    name: str
    higher_is_better: bool
    level_name: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class UsedProtocol:
    """The settings with which the run had its questions answered.

    Attributes:
        temperature: Temperature of sampling; 0 is greedy, and None means that the server decides.
        repeats: Number of times that each question was asked.
        condition_repeats: Condition -> number of times that each question was asked under it, if that differs.
        max_new_tokens: Length of the longest reply, in tokens.
        thinking: Whether replies begin with a thought, where the chat template has one: "off", "on", or "keep" for what
            the template does by itself; for a served model "as the server decides". Left out if it is not recorded.
        shown: What a blind run saw under the condition "image": "text_only". Left out where media were shown.
    """

    temperature: float | None
    repeats: Count
    condition_repeats: Mapping[Condition, Count]
    max_new_tokens: Count
    thinking: Fact = ""
    shown: Fact = ""


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
class Labelled(DataLabel):
    """The label of the data that the numbers of a file are about; the fields are those of `DataLabel`."""

    # Files that another tool wrote may have no label.
    provenance: Fact = ""
    prompts: Fact = ""

    @property
    def label(self) -> DataLabel:
        """The label of the data; its fields are unknown if another tool wrote the file without them."""
        return recorded_label(vars(self))


@dataclass(frozen=True, kw_only=True)
class RunScores:
    """The evaluations of a run.

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


@dataclass(frozen=True, kw_only=True)
class RunHistory:
    """What was done before the last evaluation of a run.

    Attributes:
        trained_on: Description of the prepared folders that the model was trained on; left out without training.
        stopped_early: For each stage of the training that ended before its last step, at which step and why; left out
            if none did.
        patient_unit: What stands for a patient, in the words of the source; left out if it is not recorded.
        weights_commit: Hub id and commit of the weights that the run began with; left out if they are not from the hub.
        seconds: Phase (zero_shot, training, final) -> the seconds that it took on the clock; a phase that an earlier
            process had begun is left out.
    """

    trained_on: Fact = ""
    stopped_early: Fact = ""
    patient_unit: Fact = ""
    weights_commit: Fact = ""
    seconds: Annotated[Mapping[str, float], Field(exclude_if=lambda found: not found)] = field(default_factory=dict)


# The fields of the last named class come first in the file.
@with_config(DOCUMENT)
@dataclass(frozen=True, kw_only=True)
class ResultsFile(RunHistory, Labelled, RunScores):
    """results.json: the evaluations of a run and the gain between them."""

    @property
    def last(self) -> Phase:
        """The phase that the run ended with."""
        return self.phases["final" if "final" in self.phases else "zero_shot"]

    def shown_under(self, condition: str) -> str:
        """Returns the name of what the model saw under a condition; a blind run saw text alone under "image"."""
        return (self.protocol.used.shown if self.protocol and condition == "image" else "") or condition


@with_config(DOCUMENT)
@dataclass(frozen=True, kw_only=True)
class FileRows:
    """Rows of the files that `medtune score` was given.

    Attributes:
        rows: Number of rows, those included that were not scored.
        repeated: Number of rows that give a question the same reply again; each such reply is scored once.
        left_out: Reason -> number of rows that were not scored.
        unanswered: Number of questions that no row answers; they count as wrong.
    """

    rows: Count
    repeated: Count = 0
    left_out: Mapping[str, Count] = field(default_factory=dict)
    unanswered: Count = 0


# The fields of the last named class come first in the file.
@with_config(DOCUMENT)
@dataclass(frozen=True, kw_only=True)
class ScoresFile(Phase, Labelled):
    """scores.json: one evaluation with the label of its data, so that it can be read without the rest of the run.

    Attributes:
        file_rows: Rows of the files that were scored; left out where a model answered the questions in the same run.
        interval_method: Name of the method of the 95 % intervals; left out if it is not recorded.
    """

    file_rows: Annotated[FileRows | None, Field(exclude_if=lambda rows: rows is None)] = None
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


@with_config(DOCUMENT)
@dataclass(frozen=True, slots=True)
class DoctorCheck:
    """One check.

    Attributes:
        name: Name of the check.
        passed: Whether it passed; null where it does not apply.
        detail: The figure that was found, the first difference, or the reason why the check does not apply.
    """

    name: str
    passed: bool | None
    detail: str


@with_config(DOCUMENT)
@dataclass(frozen=True, slots=True)
class DoctorFile:
    """The content of doctor.json.

    Attributes:
        model: Name of the model.
        weights: The folder or hub id of the weights; the model's own where the recipe names none.
        weights_hash: A hash of the names, sizes, headers and samples of the checkpoint's files; "" without files.
        questions: Number of questions that were asked.
        device: Name of the device.
        precision: The precision in which the model ran.
        dtype: The number format in which the weights were read.
        medtune: Version of medtune.
        git_commit: Commit of medtune's repository; null for an installed wheel.
        packages: Name of a package -> its version.
        date: The day of the check, in UTC.
        seconds: How long it took.
        checks: The checks in the order in which they were made.
    """

    model: str
    weights: str
    weights_hash: str
    questions: int
    device: str
    precision: str
    dtype: str
    medtune: str
    git_commit: str | None
    packages: dict[str, str | None]
    date: str
    seconds: float
    checks: tuple[DoctorCheck, ...]

    @property
    def passed(self) -> bool:
        """Whether no check failed and at least one passed."""
        return all(check.passed is not False for check in self.checks) and any(check.passed for check in self.checks)

    def counted(self, passed: bool | None) -> int:
        return sum(check.passed is passed for check in self.checks)

    def headline(self) -> str:
        """Returns one sentence: what was verified where, or how many checks failed."""
        where = (
            f"on {self.device} in {self.precision}, with medtune {self.medtune}"
            f"{f' at commit {self.git_commit[:12]}' if self.git_commit else ''} and "
            f"transformers {self.packages.get('transformers') or 'unknown'}, on {self.date}"
        )
        skipped = f"; {self.counted(None)} do not apply" if self.counted(None) else ""
        if self.passed:
            return f"verified {where}: {self.counted(True)} checks passed{skipped}"
        return f"not verified {where}: {self.counted(False)} checks failed, {self.counted(True)} passed{skipped}"
