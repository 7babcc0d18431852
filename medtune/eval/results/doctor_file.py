"""The schema of doctor.json: what `medtune doctor` found about a checkpoint on one machine."""

from dataclasses import dataclass

from pydantic import with_config

from medtune.eval.results.schema import DOCUMENT


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
        """Returns the number of checks with this result."""
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
