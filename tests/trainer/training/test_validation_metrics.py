"""Holds the metrics that training logs with torchmetrics against eval's own."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from statistics import fmean

import numpy as np
import pytest

from medtune.benchmarks import find_benchmark
from medtune.data.types import Prediction, PredictionKey, Question
from medtune.eval.metrics.accuracy import metric as accuracy
from medtune.eval.metrics.macro_f1 import metric as macro_f1
from medtune.eval.scoring.answer_classes import task_name
from medtune.eval.scoring.score import PhaseScores, score_phase
from medtune.trainer.training.validation_metrics import classification_metrics

GAUGE = find_benchmark("fetal_gauge")
PLANES, MARGINS = ("abdomen", "femur", "head"), ("smooth", "spiculated")


def questions(number: int = 90) -> list[Question]:
    rng = np.random.default_rng(4)
    found = []
    for n in range(number):
        labels = MARGINS if n % 3 == 0 else PLANES
        task = {"task": "clinical_diagnosis", "subtype": "margin"} if n % 3 == 0 else {"task": "plane_identification"}
        answer = labels[int(rng.integers(len(labels)))]
        found.append(Question(f"q{n}", f"m{n}", "What?", labels, answer, "choice", f"p{n // 4}", task))
    return found


def likelihoods(asked: Sequence[Question]) -> list[Prediction]:
    rng = np.random.default_rng(5)
    said = []
    for question in asked:
        logprobs = rng.normal(size=len(question.options)) * 2
        logprobs[question.options.index(question.answer)] += 1.5
        tokens = tuple(rng.integers(1, 5, len(question.options)).tolist())
        key = PredictionKey(question.id, "image", "likelihood", 0)
        said.append(
            Prediction(key, None, question.options, option_logprobs=tuple(logprobs.tolist()), option_tokens=tokens)
        )
    return said


def generations(asked: Sequence[Question]) -> list[Prediction]:
    return [
        Prediction(
            PredictionKey(question.id, "image", "generation", 0),
            options_shown=question.options,
            text="Hm." if n % 7 == 0 else question.options[n % 2],
        )
        for n, question in enumerate(asked)
    ]


def scored(parser: str) -> PhaseScores:
    asked = questions()
    return score_phase(asked, [*likelihoods(asked), *generations(asked)], GAUGE, parser=parser)


def logged(scores: PhaseScores) -> dict[str, float]:
    return classification_metrics("validation", scores, facet="subtype")


@pytest.mark.parametrize("parser", ["likelihood", "likelihood_per_token", "robust"])
def test_logged_metrics_equal_those_of_eval(parser: str) -> None:
    scores = scored(parser)
    found = logged(scores)
    names = {
        "": "",
        "task=plane_identification/": "plane_identification",
        "subtype=margin/": "clinical_diagnosis: margin",
    }
    for level, name in names.items():
        rows = [row for row in scores.rows if not name or task_name(row, "subtype") == name]
        assert rows
        assert found[f"validation/{level}choice_accuracy"] == pytest.approx(accuracy().value(rows), abs=1e-6)
        assert found[f"validation/{level}f1"] == pytest.approx(macro_f1().value(rows), abs=1e-6)
    assert len(found) == 2 * 5 + 4
    for task, level in zip(scores.classes.found, ("subtype=margin", "task=plane_identification"), strict=True):
        areas = [each.auc.value for each in task.classes if each.auc.value is not None]
        assert found[f"validation/{level}/auroc"] == pytest.approx(fmean(areas), abs=1e-6)
        assert found[f"validation/{level}/brier"] == pytest.approx(task.brier.value, abs=1e-6)
    if parser != "likelihood_per_token":
        assert scores.calibration is not None
        assert found["validation/ece"] == pytest.approx(scores.calibration.ece, abs=1e-6)
        assert found["validation/brier"] == pytest.approx(scores.calibration.brier, abs=1e-6)


def test_without_a_likelihood_reading_there_are_no_probabilities() -> None:
    asked = questions()
    found = logged(score_phase(asked, generations(asked), GAUGE))
    assert {name.rsplit("/", 1)[1] for name in found} == {"choice_accuracy", "f1"}


def test_free_answers_have_none_of_these_metrics() -> None:
    scores = scored("robust")
    free = tuple(replace(row, question=replace(row.question, answer_kind="text")) for row in scores.rows)
    assert logged(replace(scores, rows=free)) == {}


@pytest.mark.slow
def test_two_ranks_that_have_all_answers_get_the_numbers_of_one(tmp_path: Path) -> None:
    """Rank 1 measures before rank 0 does anything, so that an exchange of states would wait for ever."""
    code = (
        "import sys, torch.distributed as dist, tests.trainer.training.test_validation_metrics as t;"
        "rank = int(sys.argv[1]);"
        "dist.init_process_group('gloo', init_method='file://' + sys.argv[2], rank=rank, world_size=2);"
        "rank or dist.barrier(); found = t.logged(t.scored('likelihood')); rank and dist.barrier();"
        "print(sorted(found.items()))"
    )
    commands = [[sys.executable, "-c", code, str(rank), str(tmp_path / "store")] for rank in range(2)]
    both = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for command in commands]
    said = [process.communicate(timeout=100)[0].splitlines()[-1] for process in both]
    assert said == [str(sorted(logged(scored("likelihood")).items()))] * 2
