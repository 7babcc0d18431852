"""How often an audit flags something that is not so, in the null models of the claims of a page."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from medtune.data.types import Prediction, PredictionKey, Question
from medtune.eval.audit.audited_phase import AuditedPhase
from medtune.eval.audit.habits import reading_rows
from medtune.eval.audit.row import BETTER, IMAGE_WORDS, NOT_BEATEN, ORDER_WORDS
from medtune.eval.audit.run_rows import audit_of
from medtune.eval.evidence import ParsedReplies
from medtune.eval.metric import ParsedReply
from medtune.eval.scoring.parse_replies import LIKELIHOOD
from tests.eval.comparing.test_claims_by_simulation import NULLS, STUDIES, TASKS, Study

OPTIONS = ("liver", "spleen", "heart", "colon")
REST = 0.06 - 0.041
"""What the flags may add to the largest share of pages that claim something wrongly (docs/intervals.md)."""
SIMULATED_ELSEWHERE = {BETTER, NOT_BEATEN, IMAGE_WORDS[0], IMAGE_WORDS[1], ORDER_WORDS[0], ORDER_WORDS[1]}
"""Better and worse than the model: checks, which test_claims_by_simulation simulates."""


def audited(rng: np.random.Generator, study: Study) -> AuditedPhase:
    """Returns a model without habits or leaks, whose two readings are as good as the two phases of a study."""
    count = study.after.size
    truths = rng.integers(0, len(OPTIONS), count)
    asked = tuple(
        _question(number, f"Which {task}?", tuple(rng.permutation(OPTIONS)), OPTIONS[truth], patient, task)
        for number, (truth, patient, task) in enumerate(zip(truths, study.patients, study.tasks, strict=True))
    )

    def said(right: Sequence[float]) -> list[ParsedReply]:
        wrong = (truths + rng.integers(1, len(OPTIONS), count)) % len(OPTIONS)
        answers = [OPTIONS[place] for place in np.where(np.asarray(right) > 0, truths, wrong)]
        return [
            ParsedReply(question, Prediction(PredictionKey(question.id, "image", "likelihood", 0)), answer)
            for question, answer in zip(asked, answers, strict=True)
        ]

    blind = (rng.random(count) < 1 / len(OPTIONS)).tolist()
    parsed: ParsedReplies = {
        "image": {LIKELIHOOD: said(study.after.tolist()), "first": said(study.before.tolist())},
        "text_only": {LIKELIHOOD: said(blind)},
    }
    learnt = tuple(
        _question(-1 - number, f"Which {task}?", OPTIONS, str(rng.choice(OPTIONS)), f"learnt {number}", task)
        for number, task in enumerate(rng.integers(0, TASKS, 60))
    )
    return AuditedPhase("final", LIKELIHOOD, asked, parsed, learnt)


def _question(number: int, text: str, options: tuple[str, ...], answer: str, patient: Any, task: Any) -> Question:
    asked = tuple(map(str, options))
    return Question(f"{number}", f"m{number}", text, asked, answer, "choice", str(patient), facets={"task": str(task)})


@pytest.mark.soak
@pytest.mark.parametrize("null", NULLS)
def test_flags_of_what_is_not_so_leave_a_page_within_its_level(null: str) -> None:
    rng, found = np.random.default_rng(len(null) + 7), 0
    for _ in range(STUDIES):
        rows = audit_of(audited(rng, NULLS[null](rng))).rows
        found += any({*(row.flag or "").split("; ")} - SIMULATED_ELSEWHERE - {""} for row in rows)
    print(f"{null}: {found / STUDIES:.3f} of audits flag something that is not so")
    assert found / STUDIES <= REST


def test_two_readings_that_differ_by_chance_in_few_patients_are_not_flagged() -> None:
    """All 7 patients are better in one reading: the interval lies above 0, but swaps of patients give p = 2 / 128."""
    patients = np.repeat(np.arange(7), 20)
    after = np.ones(patients.size)
    before = np.where(np.arange(patients.size) % 2 == 0, 0.0, 1.0)
    subject = audited(np.random.default_rng(0), Study(before, after, patients, np.zeros_like(patients)))
    row = reading_rows(subject)[0]
    assert row.gap is not None
    assert row.gap.ci95.low > 0
    assert row.flag is None
