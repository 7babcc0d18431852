"""Computes sensitivity and specificity by three rules for unreadable answers, and the share of the commonest answer.

The rules are:
- `official`: a missed positive, but a true negative, although never a right answer (v2's code);
- `wrong`: wrong on either side;
- `skipped`: as if the question had not been asked.
"""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass

YES, NO = "yes", "no"


@dataclass(frozen=True, slots=True)
class YesNoTable:
    """The counts of answers to yes-no questions.

    In the name of a count, the true answer comes first and the model's answer second, for example `yes_no`; `unread`
    counts answers that are neither yes nor no.
    """

    yes_yes: int
    yes_no: int
    yes_unread: int
    no_yes: int
    no_no: int
    no_unread: int

    @property
    def n(self) -> int:
        return self.positives + self.negatives

    @property
    def positives(self) -> int:
        """The number of questions whose true answer is yes."""
        return self.yes_yes + self.yes_no + self.yes_unread

    @property
    def negatives(self) -> int:
        """The number of questions whose true answer is no."""
        return self.no_yes + self.no_no + self.no_unread


@dataclass(frozen=True, slots=True)
class Detection:
    """Sensitivity and specificity, each from 0 to 1; None if no question has the true answer that it is about."""

    sensitivity: float | None
    specificity: float | None

    @property
    def youden(self) -> float | None:
        """Sensitivity + specificity - 1, which is 0 for answers by chance; None if one of the two is None.

        Source: Youden 1950, doi:10.1002/1097-0142(1950)3:1<32::AID-CNCR2820030106>3.0.CO;2-3; CTLesionVQA, Figure 6.
        """
        if self.sensitivity is None or self.specificity is None:
            return None
        return self.sensitivity + self.specificity - 1


def yes_no_table(pairs: Iterable[tuple[str | None, str]]) -> YesNoTable:
    """Returns the counts of (answer, true answer) pairs.

    An answer other than "yes" or "no" is counted as unread. A pair with another true answer is left out.
    """
    counts = Counter((truth, said if said in (YES, NO) else None) for said, truth in pairs)
    return YesNoTable(*(counts[truth, said] for truth in (YES, NO) for said in (YES, NO, None)))


def official(table: YesNoTable) -> Detection:
    """Returns the rates if an unreadable answer counts as "no".

    Source: Schuture/DeepTumorVQA@1df7460 (branch v2), src/deeptumorvqa/eval/metrics.py (score_binary), before rounding.
    In place of None it prints 0.0.
    """
    return Detection(_share(table.yes_yes, table.positives), _share(table.no_no + table.no_unread, table.negatives))


def wrong(table: YesNoTable) -> Detection:
    """Returns the rates if an unreadable answer counts as wrong."""
    return Detection(_share(table.yes_yes, table.positives), _share(table.no_no, table.negatives))


def skipped(table: YesNoTable) -> Detection:
    """Returns the rates without the unreadable answers."""
    return Detection(
        _share(table.yes_yes, table.yes_yes + table.yes_no), _share(table.no_no, table.no_yes + table.no_no)
    )


def majority_accuracy(table: YesNoTable) -> float:
    """Returns the accuracy of always giving the more frequent true answer; 0 without questions."""
    return max(table.positives, table.negatives) / table.n if table.n else 0.0


def collapse_share(table: YesNoTable) -> float:
    """Returns the share of the model's most frequent answer (all unreadable answers count as one); 0 without questions.

    A share of 1 together with a Youden index of 0 means that the model always gives the same answer and ignores the
    scan.
    """
    said = (table.yes_yes + table.no_yes, table.yes_no + table.no_no, table.yes_unread + table.no_unread)
    return max(said) / table.n if table.n else 0.0


def _share(count: int, of: int) -> float | None:
    return count / of if of else None
