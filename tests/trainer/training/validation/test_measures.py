"""Holds the metrics that validations log with torchmetrics against eval's own, in one process and in two."""

from collections.abc import Sequence
from pathlib import Path
from statistics import fmean

import numpy as np
import pytest
import torch
import torch.distributed as dist

from medtune.benchmarks import find_benchmark
from medtune.data.types import MediaGroup, MediaRef, Prediction, PredictionKey, Question, Reading
from medtune.eval.metrics.accuracy import metric as accuracy
from medtune.eval.metrics.macro_f1 import metric as macro_f1
from medtune.eval.scoring.answer_classes import task_name
from medtune.eval.scoring.score import PhaseScores, score_phase
from medtune.models.answering import TargetRead
from medtune.trainer.training.validation.asked import EvaluatedSplit, VisitBatches, asked
from medtune.trainer.training.validation.measures import Answered, AnswerMeasures
from tests.ranks import run_ranks

GAUGE = find_benchmark("fetal_gauge")
PLANES, MARGINS = ("abdomen", "femur", "head"), ("smooth", "spiculated")


def questions(number: int = 91) -> list[Question]:
    rng = np.random.default_rng(4)
    found = []
    for n in range(number):
        labels = MARGINS if n % 3 == 0 else PLANES
        task = {"task": "clinical_diagnosis", "subtype": "margin"} if n % 3 == 0 else {"task": "plane_identification"}
        answer = labels[int(rng.integers(len(labels)))]
        found.append(Question(f"q{n}", f"m{n}", "What?", labels, answer, "choice", f"p{n // 4}", task))
    return found


def groups(asked_about: Sequence[Question]) -> list[MediaGroup]:
    return [MediaGroup(q.media_id, (MediaRef(Path("none.png")),), (q,)) for q in asked_about]


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
    about = questions()
    return score_phase(about, [*likelihoods(about), *generations(about)], GAUGE, parser=parser)


def plan(parser: str, readings: Sequence[Reading] = ("likelihood", "generation"), number: int = 91) -> EvaluatedSplit:
    return asked(groups(questions(number)), GAUGE, answer_format="text", readings=readings, parser=parser, seed=0)


def answered(parser: str, readings: Sequence[Reading] = ("likelihood", "generation")) -> list[Answered]:
    about = questions()
    by_id: dict[str, list[Prediction]] = {question.id: [] for question in about}
    for said in [*(likelihoods(about) if "likelihood" in readings else []), *generations(about)]:
        by_id[said.key.question_id].append(said)
    return [
        Answered(question, by_id[question.id], TargetRead(-0.5 * (n % 5 + 1), n % 5 + 1, n % 2))
        for n, question in enumerate(about)
    ]


def logged(parser: str, *, rank: int = 0, world_size: int = 1) -> dict[str, float]:
    """Returns the metrics as a rank finds them that was given its share of the questions, in batches of 7."""
    batches = VisitBatches(plan(parser), batch_size=7, rank=rank, world_size=world_size)
    measures = AnswerMeasures(batches.asked, torch.device("cpu"))
    by_id = {each.question.id: each for each in answered(parser)}
    for number in range(len(batches)):
        batch = batches[number]
        mine = [by_id[visit.requests[0].question.id] for visit in batch.visits]
        measures.update(mine)
    return measures.compute()


@pytest.mark.parametrize("parser", ["likelihood", "likelihood_per_token", "robust"])
def test_logged_metrics_equal_those_of_eval(parser: str) -> None:
    scores, found = scored(parser), logged(parser)
    names = {
        "": "",
        "task=plane_identification/": "plane_identification",
        "subtype=margin/": "clinical_diagnosis: margin",
    }
    for level, name in names.items():
        rows = [row for row in scores.rows if not name or task_name(row.question, "subtype") == name]
        assert rows
        assert found[f"{level}choice_accuracy"] == pytest.approx(accuracy().value(rows), abs=1e-6)
        assert found[f"{level}f1"] == pytest.approx(macro_f1().value(rows), abs=1e-6)
    assert len(found) == 2 + 4 + 2 * 5
    for task, level in zip(scores.classes, ("subtype=margin", "task=plane_identification"), strict=True):
        areas = [each.auc.value for each in task.classes if each.auc.value is not None]
        assert found[f"{level}/auroc"] == pytest.approx(fmean(areas), abs=1e-6)
        assert found[f"{level}/brier"] == pytest.approx(task.brier.value, abs=1e-6)
    if parser != "likelihood_per_token":
        assert scores.calibration is not None
        assert found["ece"] == pytest.approx(scores.calibration.ece, abs=1e-6)
        assert found["brier"] == pytest.approx(scores.calibration.brier, abs=1e-6)


def test_loss_and_token_accuracy_are_means_over_tokens() -> None:
    found, reads = logged("likelihood"), [each.target for each in answered("likelihood")]
    tokens = sum(read.num_tokens for read in reads)
    assert found["loss"] == pytest.approx(-sum(read.logprob for read in reads) / tokens, abs=1e-6)
    assert found["token_accuracy"] == pytest.approx(sum(read.likeliest for read in reads) / tokens, abs=1e-6)


def test_without_a_likelihood_reading_there_are_no_probabilities() -> None:
    measures = AnswerMeasures(plan("robust", ("generation",)), torch.device("cpu"))
    measures.update(answered("robust", ("generation",)))
    names = {name.rsplit("/", 1)[-1] for name in measures.compute()}
    assert names == {"loss", "token_accuracy", "choice_accuracy", "f1"}


def test_free_answers_have_a_loss_and_a_token_accuracy() -> None:
    open_ended = find_benchmark("u2_bench")
    free = [question for question in open_ended.examples if question.answer_kind == "text"]
    assert free
    everything = asked(
        groups(free), open_ended, answer_format="text", readings=("likelihood",), parser="likelihood", seed=0
    )
    measures = AnswerMeasures(everything, torch.device("cpu"))
    measures.update([Answered(question, [], TargetRead(-2.0, 2, 1)) for question in free])
    assert measures.compute() == {"loss": pytest.approx(1.0), "token_accuracy": pytest.approx(0.5)}


def test_a_free_answer_in_the_words_of_an_option_is_no_closed_one() -> None:
    closed = Question("closed", "m0", "Which side?", ("left", "right"), "left", "choice", "p0")
    free = Question("free", "m1", "Where is it?", (), "left", "text", "p1")
    own = find_benchmark("vqa").for_part([closed, free])
    parser = next(iter(own.parsers))
    plan = asked(groups([closed, free]), own, answer_format="text", readings=("generation",), parser=parser, seed=0)
    measures = AnswerMeasures(plan, torch.device("cpu"))
    for question, reply in ((closed, "right"), (free, "left")):
        key = PredictionKey(question.id, "image", "generation", 0)
        said = Prediction(key, options_shown=question.options, text=reply)
        measures.update([Answered(question, [said], TargetRead(-1.0, 1, 0))])
    assert measures.compute()["choice_accuracy"] == 0


@pytest.mark.parametrize("world_size", [1, 2, 3, 4])
def test_every_question_is_in_one_batch_that_counts(world_size: int) -> None:
    everything = plan("likelihood", number=9)
    ranks = [VisitBatches(everything, batch_size=2, rank=rank, world_size=world_size) for rank in range(world_size)]
    assert len({len(batches) for batches in ranks}) == 1
    seen = [
        visit.requests[0].question.id
        for batches in ranks
        for number in range(len(batches))
        for visit in batches[number].visits
    ]
    assert sorted(seen) == sorted(question.id for question in everything.questions)


def test_two_ranks_get_the_numbers_of_one(tmp_path: Path) -> None:
    """The 91 questions are 46 and 45, so that the ranks' shares differ."""
    both = run_ranks(2, logged_by_rank, str(tmp_path / "store"))
    assert both == [pytest.approx(logged("likelihood"), abs=1e-6)] * 2


def logged_by_rank(rank: int, world_size: int, store: str) -> dict[str, float]:
    dist.init_process_group("gloo", init_method=f"file://{store}", rank=rank, world_size=world_size)
    return logged("likelihood", rank=rank, world_size=world_size)
