import numpy as np
import pytest

from medtune.data.types import Question
from medtune.eval.metric import Metric
from medtune.eval.metrics.accuracy import metric as accuracy
from medtune.eval.metrics.macro_f1 import metric as macro_f1
from medtune.eval.scoring.baselines import TrainAnswers, TrainSplit, blind, train_answers


def asked(number: int, options: tuple[str, ...], answer: str, *, task: str = "t", text: str = "Which?") -> Question:
    return Question(f"q{number}", "m", text, options, answer, "choice", "p", {"task": task})


EVALUATED = [
    asked(0, ("a", "b", "c", "d"), "a"),
    asked(1, ("b", "a"), "a"),
    asked(2, ("a", "b"), "b"),
    asked(3, ("x", "y"), "x", task="other"),
]
TRAIN = [
    *(asked(n, ("a", "b"), "a") for n in range(2)),
    *(asked(n, ("a", "b", "c", "d"), "c") for n in range(1)),
    asked(9, ("x", "y"), "y", task="other"),
]


def baselines(questions: list[Question], train: TrainAnswers | None, metric: Metric) -> dict[str, float | None]:
    return blind(questions, train, metric).of(np.arange(len(questions)))


def test_baselines_worked_out_by_hand() -> None:
    found = baselines(EVALUATED, train_answers(TRAIN), accuracy())
    assert found["random"] == pytest.approx((0.25 + 0.5 + 0.5 + 0.5) / 4)
    assert found["majority"] == 2 / 4
    assert found["constant_letter"] == 2 / 4
    assert found["question_prior"] == 1 / 4


def test_question_prior_falls_back_to_the_task_where_the_wording_is_new() -> None:
    new = [asked(0, ("a", "b"), "a", text="Another question?")]
    assert baselines(new, train_answers(TRAIN), accuracy())["question_prior"] == 1.0


def test_question_prior_tells_option_sets_apart_whatever_their_order() -> None:
    new = [asked(0, ("d", "c", "b", "a"), "c"), asked(1, ("b", "a"), "a")]
    assert baselines(new, train_answers(TRAIN), accuracy())["question_prior"] == 1.0


def test_constant_letter_finds_the_position_that_always_holds_the_answer() -> None:
    leaky = [asked(n, ("x", "y", f"right{n}"), f"right{n}") for n in range(4)]
    assert baselines(leaky, None, accuracy())["constant_letter"] == 1.0


def test_baselines_that_need_a_train_split_are_none_without_one() -> None:
    found = baselines(EVALUATED, train_answers([]), accuracy())
    assert found["majority"] is None
    assert found["question_prior"] is None


def test_a_train_split_is_counted_once_and_read_by_each_who_goes_through_it() -> None:
    read: list[int] = []

    def questions() -> list[Question]:
        read.append(len(read))
        return TRAIN

    split = TrainSplit(questions)
    assert split.answers == train_answers(TRAIN)
    assert split
    assert split.answers is split.answers
    assert len(read) == 1
    assert [*split, *split] == [*TRAIN, *TRAIN]
    assert not TrainSplit(list)
    assert TrainSplit(list).answers is None


def test_baselines_of_another_metric_are_on_its_scale() -> None:
    found = baselines(EVALUATED[1:3], train_answers(TRAIN), macro_f1())
    assert found["random"] is None
    assert found["majority"] == pytest.approx((2 / 3 + 0) / 2)


def test_free_text_has_neither_random_nor_letter_baseline() -> None:
    free = [Question("q", "m", "Describe it.", (), "a mass", "text", "p")]
    found = baselines(free, None, accuracy())
    assert found == {"random": None, "majority": None, "constant_letter": None, "question_prior": None}
