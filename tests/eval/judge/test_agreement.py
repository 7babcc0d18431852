"""Tests weighted kappa against its definition and values by hand, and the reading of files with a person's scores."""

from pathlib import Path

import numpy as np
import pytest

from medtune.data.types import PredictionKey
from medtune.eval.judge.agreement import JudgeAgreement, agreement, agreement_tables, read_human_scores
from medtune.eval.scoring.tables import table_text
from medtune.eval.statistics.intervals import METHOD

LEVELS = (0, 1, 2)


def key(number: int) -> PredictionKey:
    return PredictionKey(f"q{number}", "image", "generation", 0)


def compared(person: list[int], judge: list[int], *, per_patient: int = 1) -> JudgeAgreement:
    patients = {f"q{number}": f"p{number // per_patient}" for number in range(len(person))}
    scored = [{key(number): points for number, points in enumerate(side)} for side in (person, judge)]
    return agreement(scored[0], scored[1], patients, levels=LEVELS)


def test_kappa_by_hand() -> None:
    # Rows person, columns judge: 2 agree on 0, 1 on 2, one 0 read as 2. Squared weights 0, 1, 4 over 4.
    # Observed 1/4 * 4 = 1; expected (3 * 2 + 1 * 2) / 16 of which disagree 3*2 + 1*2 = 8 -> 8/16 * 4 = 2; kappa 1/2.
    found = compared([0, 0, 0, 2], [0, 0, 2, 2])
    assert found.quadratic == pytest.approx(0.5)
    assert (found.n, found.equal, found.difference) == (4, 0.75, 0.5)
    assert found.counts == ((2, 0, 1), (0, 0, 0), (0, 0, 1))


def test_kappa_is_one_less_the_share_of_weighted_disagreement() -> None:
    rng = np.random.default_rng(0)
    person = rng.integers(0, 3, 80)
    judge = np.where(rng.random(80) < 0.7, person, rng.integers(0, 3, 80))
    found = compared(person.tolist(), judge.tolist())
    counts = np.array(found.counts)
    assert counts.sum() == 80
    steps = np.abs(np.subtract.outer(LEVELS, LEVELS))
    by_chance = np.outer(counts.sum(axis=1), counts.sum(axis=0)) / counts.sum()
    for power, value in ((2, found.quadratic), (1, found.linear)):
        assert value == pytest.approx(1 - (steps**power * counts).sum() / (steps**power * by_chance).sum())
    assert found.quadratic_ci95 is not None
    assert found.quadratic_ci95.low < (found.quadratic or 0) < found.quadratic_ci95.high


def test_interval_widens_when_answers_come_from_few_patients() -> None:
    person = [0, 1, 2, 2, 1, 0, 0, 2] * 6
    judge = [0, 1, 2, 1, 1, 0, 2, 2] * 3 + [0, 1, 1, 2, 1, 1, 0, 2] * 3
    alone, together = compared(person, judge), compared(person, judge, per_patient=24)
    widths = [one.quadratic_ci95.high - one.quadratic_ci95.low for one in (alone, together) if one.quadratic_ci95]
    assert widths[1] > widths[0]
    assert f"95 % intervals: {METHOD}." in table_text(agreement_tables(alone, judge="j")[0])


def test_same_points_everywhere_have_no_kappa() -> None:
    found = compared([2, 2, 2], [2, 2, 2])
    assert (found.quadratic, found.quadratic_ci95, found.equal) == (None, None, 1.0)
    assert "Kappa is not defined" in table_text(agreement_tables(found, judge="j")[0])


def test_answers_without_verdict_are_counted() -> None:
    human = {key(0): 1, key(1): 2}
    found = agreement(human, {key(0): 1}, {"q0": "a", "q1": "b"}, levels=LEVELS)
    assert (found.n, found.without_verdict) == (1, 1)
    with pytest.raises(ValueError, match="none of the 2 answers"):
        agreement(human, {}, {"q0": "a", "q1": "b"}, levels=LEVELS)
    with pytest.raises(ValueError, match="question 'q1', which is not among"):
        agreement(human, {key(0): 1}, {"q0": "a"}, levels=LEVELS)


def test_human_file(tmp_path: Path) -> None:
    path = tmp_path / "human.csv"
    path.write_bytes(b"\xef\xbb\xbfquestion_id,rater,score,condition\r\nq1,me, 2,\r\nq1,me,0,text_only\r\n")
    blind = PredictionKey("q1", "text_only", "generation", 0)
    assert read_human_scores(path, levels=LEVELS) == {key(1): 2, blind: 0}


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("id,score\n1,2\n", "no column 'question_id'"),
        ("question_id,score\nq1,3\n", r"line 2: score '3'; it must be one of 0, 1, 2"),
        ("question_id,score\nq1,\n", r"line 2: score ''"),
        ("question_id,score\nq1\n", r"line 2: score ''"),
        ("question_id,score\nq1,1\nq1,2\n", r"line 3: question 'q1' \(image\) is scored twice"),
        ("question_id,score,condition\nq1,1,blind\n", "no condition 'blind'"),
        ("question_id,score\n", "no rows"),
    ],
)
def test_broken_human_file(tmp_path: Path, content: str, message: str) -> None:
    path = tmp_path / "human.csv"
    path.write_text(content)
    with pytest.raises(ValueError, match=message):
        read_human_scores(path, levels=LEVELS)
