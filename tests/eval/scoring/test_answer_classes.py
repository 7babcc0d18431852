import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest
import torch
from sklearn.metrics import brier_score_loss, confusion_matrix, recall_score, roc_auc_score
from torchmetrics.functional.classification import (
    multiclass_auroc,
    multiclass_confusion_matrix,
    multiclass_recall,
    multiclass_specificity,
)

from medtune.benchmarks import find_benchmark
from medtune.data.types import Prediction, PredictionKey, Question
from medtune.eval.metric import ParsedReply
from medtune.eval.scoring.answer_classes import ByTask, TaskClasses, classes_by_task
from medtune.eval.statistics.calibration import option_probabilities
from medtune.eval.statistics.intervals import mean_interval, wilson
from tests.eval.answers import generated

LABELS = ("benign", "malignant", "normal")


def asked(number: int, answer: str, *, options: Sequence[str] = LABELS, patient: str = "", part: str = "") -> Question:
    facets = {"task": "diagnosis", **({"subtype": part} if part else {})}
    return Question(
        f"q{number}", f"m{number}", "Which?", tuple(options), answer, "choice", patient or f"p{number // 2}", facets
    )


def likelihood(question: Question, logprobs: Sequence[float], tokens: Sequence[int] | None = None) -> ParsedReply:
    shown = question.options[::-1]
    said = Prediction(
        PredictionKey(question.id, "image", "likelihood", 0),
        options_shown=shown,
        option_logprobs=tuple(logprobs),
        option_tokens=tuple(tokens) if tokens else None,
    )
    return ParsedReply(question, said, shown[int(np.argmax(logprobs))])


def random_rows(seed: int, number: int = 120) -> tuple[list[ParsedReply], np.ndarray]:
    """Returns likelihood readings of random questions, and their probabilities in the order of `LABELS`."""
    rng = np.random.default_rng(seed)
    logprobs = rng.normal(size=(number, 3))
    true = rng.integers(0, 3, number)
    logprobs[np.arange(number), 2 - true] += 0.8
    rows = [likelihood(asked(n, LABELS[true[n]]), logprobs[n].tolist()) for n in range(number)]
    shares = np.array([option_probabilities(each.tolist())[::-1] for each in logprobs])
    return rows, shares


def only(found: ByTask) -> TaskClasses:
    (task,) = found.found
    return task


def scored(rows: Sequence[ParsedReply], parser: str = "likelihood") -> TaskClasses:
    return only(classes_by_task({parser: rows}, parser=parser, facet="subtype"))


@pytest.mark.parametrize("seed", range(5))
def test_classes_equal_sklearn_and_torchmetrics(seed: int) -> None:
    rows, shares = random_rows(seed)
    task = scored(rows)
    true, said = [row.question.answer for row in rows], [row.parsed for row in rows]
    codes = torch.tensor([LABELS.index(label) for label in true])
    told = torch.tensor([LABELS.index(str(label)) for label in said])
    assert [each.name for each in task.classes] == [*LABELS]
    matrix = np.array(task.confusion)
    assert matrix[:, :3].tolist() == confusion_matrix(true, said, labels=LABELS).tolist()
    assert matrix[:, :3].tolist() == multiclass_confusion_matrix(told, codes, num_classes=3).tolist()
    assert not matrix[:, 3].any()
    sensitivity = [each.sensitivity.value for each in task.classes]
    specificity = [each.specificity.value for each in task.classes]
    area = [each.auc.value for each in task.classes]
    assert sensitivity == pytest.approx(recall_score(true, said, labels=LABELS, average=None), abs=1e-12)
    assert sensitivity == pytest.approx(multiclass_recall(told, codes, 3, average=None).tolist(), abs=1e-6)
    others = [recall_score([one != label for one in true], [one != label for one in said]) for label in LABELS]
    assert specificity == pytest.approx(others, abs=1e-12)
    assert specificity == pytest.approx(multiclass_specificity(told, codes, 3, average=None).tolist(), abs=1e-6)
    areas = [roc_auc_score([one == label for one in true], shares[:, place]) for place, label in enumerate(LABELS)]
    assert area == pytest.approx(areas, abs=1e-12)
    by_torch = multiclass_auroc(torch.tensor(shares), codes, num_classes=3, average=None, thresholds=None)
    assert area == pytest.approx(by_torch.tolist(), abs=1e-5)
    brier = brier_score_loss(true, shares, labels=LABELS, scale_by_half=True)
    assert task.brier.value == pytest.approx(brier, abs=1e-12)
    assert [each.support for each in task.classes] == [true.count(label) for label in LABELS]
    assert {each.offered for each in task.classes} == {len(rows)}


def test_intervals_go_by_the_patients_behind_each_number() -> None:
    rows, _ = random_rows(1)
    benign = [row for row in rows if row.question.answer == "benign"]
    found = scored(rows).classes[0].sensitivity
    patients = [row.question.patient_id for row in benign]
    right = [float(row.correct) for row in benign]
    assert found.n == len(benign)
    assert found.ci95 == pytest.approx(mean_interval(right, patients), abs=1e-12)
    one_patient = [replace(row, question=replace(row.question, patient_id="same")) for row in rows]
    wide = scored(one_patient).classes[0].sensitivity.ci95
    assert wide is not None
    assert found.ci95 is not None
    assert wide.high - wide.low > 2 * (found.ci95.high - found.ci95.low)


def test_a_class_with_one_question_has_its_n_and_a_wide_interval() -> None:
    rows = [
        likelihood(asked(number, "normal" if number else "benign"), [2.0, 0.0, 0.0] if number else [0.0, 0.0, 2.0])
        for number in range(40)
    ]
    benign, malignant, normal = scored(rows).classes
    assert (benign.sensitivity.value, benign.sensitivity.n, benign.sensitivity.ci95) == (1.0, 1, wilson(1, 1))
    assert (benign.auc.value, benign.auc.n, benign.auc.ci95) == (1.0, 40, wilson(1, 1))
    assert (malignant.sensitivity.value, malignant.auc.value) == (None, None)
    assert malignant.sensitivity.reason == malignant.auc.reason == "no question has this true answer"
    assert malignant.specificity.n == 40
    assert normal.support == 39


def test_one_class_alone_has_neither_specificity_nor_area() -> None:
    task = scored([likelihood(asked(number, "benign"), [0.0, 0.0, 1.0]) for number in range(4)])
    benign = task.classes[0]
    assert (benign.specificity.value, benign.auc.value) == (None, None)
    assert benign.specificity.reason == benign.auc.reason == "no question has another true answer"


def test_unread_and_unanswered_replies_have_a_column_and_are_no_false_alarm() -> None:
    def reply(number: int, answer: str, read: str | None) -> ParsedReply:
        said = generated(f"q{number}", "...")
        return ParsedReply(asked(number, answer), said, read)

    rows = [
        reply(0, "benign", "benign"),
        reply(1, "benign", None),
        reply(2, "benign", "a cyst"),
        ParsedReply(asked(3, "normal"), None, None),
        reply(4, "normal", "benign"),
        reply(5, "malignant", "malignant"),
    ]
    task = scored(rows, parser="robust")
    assert task.confusion == ((1, 0, 0, 2), (0, 1, 0, 0), (1, 0, 0, 1))
    benign = task.classes[0]
    assert benign.sensitivity.value == pytest.approx(1 / 3)
    assert benign.specificity.value == pytest.approx(2 / 3)
    assert (benign.auc.value, task.brier.value, task.probabilities) == (None, None, "")
    assert benign.auc.reason == task.brier.reason == "no likelihood reading, so there are no probabilities"


def test_probabilities_follow_the_reading_that_counts() -> None:
    rng = np.random.default_rng(9)
    rows = [
        likelihood(asked(n, LABELS[n % 3]), rng.normal(size=3).tolist(), rng.integers(1, 5, 3).tolist())
        for n in range(30)
    ]
    parsed = {"likelihood": rows, "likelihood_per_token": rows, "robust": rows}
    found = {name: only(classes_by_task(parsed, parser=name, facet="subtype")) for name in parsed}
    assert found["robust"].brier == found["likelihood"].brier
    expected = []
    for row in rows:
        assert row.prediction is not None
        logprobs, tokens = row.prediction.option_logprobs, row.prediction.option_tokens
        assert logprobs is not None
        assert tokens is not None
        weights = [math.exp(total / number) for total, number in zip(logprobs, tokens, strict=True)]
        shares = np.array(weights) / sum(weights)
        truth = np.array([option == row.question.answer for option in row.prediction.options_shown])
        expected.append(((shares - truth) ** 2).sum() / 2)
    assert found["likelihood_per_token"].brier.value == pytest.approx(np.mean(expected))
    assert found["likelihood_per_token"].brier.value != found["likelihood"].brier.value


def test_a_class_is_measured_on_the_questions_that_offer_it() -> None:
    pairs = [("head", "heart"), ("head", "thigh"), ("heart", "thigh")]
    rows = [likelihood(asked(n, pairs[n % 3][n % 2], options=pairs[n % 3]), [1.0, 0.0]) for n in range(30)]
    task = scored(rows)
    assert [(each.name, each.offered) for each in task.classes] == [("head", 20), ("heart", 20), ("thigh", 20)]
    assert all(each.auc.n == 20 for each in task.classes)
    assert all(each.sensitivity.n + each.specificity.n == 20 for each in task.classes)


def test_subtypes_stand_apart_and_tasks_without_shared_answers_are_named_with_the_reason() -> None:
    rows = [likelihood(asked(n, ("Yes", "No")[n % 2], options=("Yes", "No"), part="cyst"), [0, 1]) for n in range(6)]
    rows += [likelihood(asked(10 + n, LABELS[n % 3]), [0, 1, 0]) for n in range(6)]
    sizes = [tuple(f"{n}.{place} cm" for place in range(4)) for n in range(4)]
    rows += [likelihood(asked(20 + n, sizes[n][0], options=sizes[n], part="size"), [0, 1, 0, 0]) for n in range(4)]
    many = [tuple(f"{n + place} HU" for place in range(4)) for n in range(30)]
    rows += [likelihood(asked(30 + n, many[n][0], options=many[n], part="HU"), [0, 1, 0, 0]) for n in range(30)]
    free = replace(rows[0].question, id="free", answer_kind="text", options=())
    found = classes_by_task(
        {"likelihood": [*rows, ParsedReply(free, None, None)]}, parser="likelihood", facet="subtype"
    )
    assert [(task.name, task.task, task.n) for task in found.found] == [
        ("diagnosis: cyst", "diagnosis", 6),
        ("diagnosis", "diagnosis", 6),
    ]
    assert found.left_out == {
        "diagnosis: size": "its questions have answers of their own, which do not recur",
        "diagnosis: HU": "33 different answers, more than 20",
    }


def test_a_benchmark_without_a_finer_facet_counts_by_task() -> None:
    rows = [
        likelihood(asked(n, ("Yes", "No")[n % 2], options=("Yes", "No"), part=("cyst", "mass")[n % 2]), [0, 1])
        for n in range(6)
    ]
    task = only(classes_by_task({"likelihood": rows}, parser="likelihood", facet="task"))
    assert (task.name, task.n) == ("diagnosis", 6)
    assert find_benchmark("ctlesionvqa").class_facet == "subtype"
    assert find_benchmark("u2_bench").class_facet == "dataset"


def test_a_truth_that_is_not_offered_is_a_class_that_is_never_found() -> None:
    rows = [likelihood(asked(n, "10", options=("1", "9")), [0.0, 0.0]) for n in range(4)]
    task = scored(rows)
    assert [each.name for each in task.classes] == ["1", "10", "9"]
    assert task.confusion == ((0, 0, 0, 0), (0, 0, 4, 0), (0, 0, 0, 0))
    assert task.classes[1].sensitivity.value == 0
    assert task.brier.value == 0.75
