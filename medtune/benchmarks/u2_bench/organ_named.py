"""Pairs the answers with the organ named in the prompt and without it: by majority of all passes, and McNemar's test.

Source: U2-Bench (arXiv 2505.17779), section 5 and Table 3: five passes of each prompt, decided by majority.
"""

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from medtune.data.types import Condition, Question
from medtune.eval.evidence import Evidence
from medtune.eval.statistics.patient_swaps import mcnemar_exact


@dataclass(frozen=True, slots=True)
class Paired:
    """The numbers of questions by outcome under two prompts, with and without the organ."""

    both_right: int  # Questions answered right with both prompts.
    only_with: int  # Questions answered right only with the organ in the prompt.
    only_without: int  # Questions answered right only without it.
    both_wrong: int  # Questions answered wrong with both prompts.

    @property
    def chi2(self) -> float:
        """McNemar's statistic without continuity correction; 0 if no question changes its outcome.

        The paper prints this statistic under the name of the exact test.

        >>> round(Paired(209, 64, 26, 222).chi2, 2)
        16.04
        """
        changed = self.only_with + self.only_without
        return (self.only_with - self.only_without) ** 2 / changed if changed else 0.0

    @property
    def chi2_p(self) -> float:
        """The asymptotic p value of `chi2`, with one degree of freedom."""
        return math.erfc(math.sqrt(self.chi2 / 2))

    @property
    def exact_p(self) -> float:
        """The p value of McNemar's exact test."""
        return mcnemar_exact(self.only_with, self.only_without)


def majority(answers: Sequence[str | None]) -> str | None:
    """Returns the most frequent answer; None if most replies had no answer, or if two answers are equally frequent.

    >>> majority(["a", "b", "a", None, "b"]), majority(["a", "a", "b", None, None, "a"])
    (None, 'a')
    """
    (best, times), *others = Counter(answers).most_common(2) or [(None, 0)]
    return None if others and others[0][1] == times else best


class OrganPair(NamedTuple):
    """Whether a question was answered right with the organ named in its prompt, and without."""

    question: Question
    with_organ: bool
    without: bool


def counted_pairs(found: Sequence[OrganPair]) -> Paired:
    """Returns the numbers of questions by outcome."""
    counts = Counter((pair.with_organ, pair.without) for pair in found)
    return Paired(counts[True, True], counts[True, False], counts[False, True], counts[False, False])


def pairs(evidence: Evidence) -> list[OrganPair]:
    """Returns the outcomes of the questions with options that were asked with both prompts.

    The answer to a question is the majority of all its passes. The answers without the organ are those to the condition
    "without_anatomy", which is needed with official prompts, or else those to the condition "image".
    """
    with_ = votes(evidence, "with_anatomy")
    without = (votes(evidence, "without_anatomy") or votes(evidence, "image")) if with_ else {}
    return [
        OrganPair(each, majority(with_[each.id]) == each.answer, majority(without[each.id]) == each.answer)
        for each in evidence.questions
        if each.id in with_ and each.id in without
    ]


def votes(evidence: Evidence, condition: Condition) -> dict[str, list[str | None]]:
    """Returns the answers of all passes to each question with options that was asked under a condition."""
    rows = evidence.parsed.get(condition, {}).get(evidence.parser, ())
    answered = [row for row in rows if row.question.options and row.is_answered]
    return {row.question.id: [reply.parsed for reply in row.passes if reply.prediction is not None] for row in answered}
