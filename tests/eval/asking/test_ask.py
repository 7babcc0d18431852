import multiprocessing
import os
import signal
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from medtune.benchmarks import find_benchmark
from medtune.data.types import MediaGroup, Prediction, Prompt, Request
from medtune.eval.asking.ask import ask_questions
from medtune.eval.asking.plan import plan_visits
from medtune.eval.predictions.files import read_predictions
from medtune.eval.predictions.shards import shard_path
from tests.eval.answerers import Guessing, Oracle, Silent, groups, questions, reply

BUSI = find_benchmark("busi")
PER_QUESTION = 4  # image: likelihood and generation; text_only and other_image: likelihood


class KilledError(Exception):
    """Simulates that the process is killed."""


class Mortal:
    """Guesses until it is killed."""

    def __init__(self, lives: int) -> None:
        self.lives = lives

    def answer(self, group: MediaGroup, requests: Sequence[Request]) -> Iterator[Prediction]:
        for prediction in Guessing().answer(group, requests):
            if not self.lives:
                raise KilledError
            self.lives -= 1
            yield prediction


def slowly(folder: Path) -> None:
    class Slow:
        def answer(self, group: MediaGroup, requests: Sequence[Request]) -> Iterator[Prediction]:
            for prediction in Guessing().answer(group, requests):
                time.sleep(0.005)
                yield prediction

    ask_questions(Slow(), groups(), BUSI, answer_format="text", out_dir=folder)


def test_every_question_is_asked_in_every_reading_and_condition(tmp_path: Path) -> None:
    found = groups()
    done = ask_questions(Oracle(), found, BUSI, answer_format="text", out_dir=tmp_path)
    ways = Counter(prediction.key[1:3] for prediction in done)
    n = len(questions(found))
    assert ways == {
        ("image", "likelihood"): n,
        ("image", "generation"): n,
        ("text_only", "likelihood"): n,
        ("other_image", "likelihood"): n,
    }
    assert done == read_predictions(tmp_path / "predictions.jsonl")
    assert [*dict.fromkeys(prediction.key.question_id for prediction in done)] == [q.id for q in questions(found)]


def test_other_image_shows_another_patient_and_the_rest_its_own(tmp_path: Path) -> None:
    oracle = Oracle()
    ask_questions(oracle, groups(), BUSI, answer_format="text", out_dir=tmp_path)
    for shown, request in oracle.asked:
        is_own = shown.patient_id == request.question.patient_id
        assert is_own == (request.condition != "other_image")
    visits = [visit for visits in plan_visits(groups(), BUSI, answer_format="text") for visit in visits]
    assert [visit.shown for visit in visits] == groups()


def test_predictions_carry_the_prompt_and_the_options_shown(tmp_path: Path) -> None:
    found = groups(2)
    done = ask_questions(Guessing(), found, BUSI, answer_format="text", out_dir=tmp_path)
    by_id = {question.id: question for question in questions(found)}
    assert all(prediction.options_shown == by_id[prediction.key.question_id].options for prediction in done)
    assert all(len(prediction.prompt_hash or "") == 16 for prediction in done)


def test_one_patient_alone_is_not_asked_about_another(tmp_path: Path) -> None:
    done = ask_questions(Silent(), groups(1), BUSI, answer_format="text", out_dir=tmp_path)
    assert {prediction.key.condition for prediction in done} == {"image", "text_only"}


def test_free_text_is_generated_whatever_the_readings(tmp_path: Path) -> None:
    (group,) = groups(1, tasks=["diagnosis"])
    free = replace(group.questions[0], options=(), answer_kind="text")
    worded = replace(BUSI, render=lambda question, _: Prompt(question.text, (), question.answer))
    done = ask_questions(
        Silent(),
        [replace(group, questions=(free,))],
        worded,
        answer_format="text",
        out_dir=tmp_path,
        readings=["likelihood"],
        conditions=["image"],
    )
    assert [prediction.key.reading for prediction in done] == ["generation"]


@pytest.mark.parametrize("world_size", [1, 2, 3, 16])
def test_every_world_size_gives_the_same_file(tmp_path: Path, world_size: int) -> None:
    alone = ask_questions(Guessing(), groups(), BUSI, answer_format="text", out_dir=tmp_path / "alone")
    together = tmp_path / "together"
    for rank in reversed(range(world_size)):
        ask_questions(
            Guessing(), groups(), BUSI, answer_format="text", out_dir=together, rank=rank, world_size=world_size
        )
    assert read_predictions(together / "predictions.jsonl") == alone
    assert [entry.name for entry in together.iterdir()] == ["predictions.jsonl"]


@pytest.mark.parametrize("lives", [0, 1, 7, 30])
def test_a_killed_evaluation_continues_without_asking_again(tmp_path: Path, lives: int) -> None:
    whole = ask_questions(Guessing(), groups(), BUSI, answer_format="text", out_dir=tmp_path / "whole")
    with pytest.raises(KilledError):
        ask_questions(Mortal(lives), groups(), BUSI, answer_format="text", out_dir=tmp_path / "cut")
    with shard_path(tmp_path / "cut", 0).open("ab") as shard:
        shard.write(b'{"question_id": "q0')
    survivor = Mortal(len(whole) - lives)
    assert ask_questions(survivor, groups(), BUSI, answer_format="text", out_dir=tmp_path / "cut") == whole
    assert survivor.lives == 0


def test_a_killed_evaluation_continues_with_another_number_of_ranks(tmp_path: Path) -> None:
    whole = ask_questions(Guessing(), groups(), BUSI, answer_format="text", out_dir=tmp_path / "whole")
    for rank in range(3):
        with pytest.raises(KilledError):
            ask_questions(
                Mortal(5), groups(), BUSI, answer_format="text", out_dir=tmp_path / "cut", rank=rank, world_size=3
            )
    assert (
        ask_questions(Mortal(len(whole) - 15), groups(), BUSI, answer_format="text", out_dir=tmp_path / "cut") == whole
    )


def test_kill_9_leaves_a_state_that_continues(tmp_path: Path) -> None:
    process = multiprocessing.get_context("fork").Process(target=slowly, args=(tmp_path,))
    process.start()
    shard = shard_path(tmp_path, 0)
    deadline = time.monotonic() + 30
    while time.monotonic() < deadline and (not shard.exists() or shard.stat().st_size < 2000):
        time.sleep(0.002)
    assert process.pid is not None
    os.kill(process.pid, signal.SIGKILL)
    process.join()
    assert shard.exists()
    done = ask_questions(Guessing(), groups(), BUSI, answer_format="text", out_dir=tmp_path)
    assert len(done) == len(questions(groups())) * PER_QUESTION


def test_a_finished_evaluation_asks_nothing(tmp_path: Path) -> None:
    done = ask_questions(Guessing(), groups(), BUSI, answer_format="text", out_dir=tmp_path)
    assert ask_questions(Mortal(0), groups(), BUSI, answer_format="text", out_dir=tmp_path) == done


@pytest.mark.parametrize("change", ["letter", "seed"])
def test_resuming_with_other_prompts_is_refused(tmp_path: Path, change: str) -> None:
    with pytest.raises(KilledError):
        ask_questions(Mortal(30), groups(), BUSI, answer_format="text", out_dir=tmp_path)
    with pytest.raises(ValueError, match="was answered to another prompt"):
        ask_questions(
            Guessing(),
            groups(),
            BUSI,
            answer_format="letter" if change == "letter" else "text",
            out_dir=tmp_path,
            seed=7 if change == "seed" else 0,
        )


def test_resuming_with_other_data_is_refused(tmp_path: Path) -> None:
    ask_questions(Guessing(), groups(5), BUSI, answer_format="text", out_dir=tmp_path)
    with pytest.raises(ValueError, match="does not ask for"):
        ask_questions(Guessing(), groups(2), BUSI, answer_format="text", out_dir=tmp_path)


def test_progress_counts_this_ranks_groups(tmp_path: Path) -> None:
    seen: list[tuple[int, int]] = []
    ask_questions(
        Silent(), groups(3), BUSI, answer_format="text", out_dir=tmp_path, on_group=lambda d, n: seen.append((d, n))
    )
    assert seen == [(number, 6) for number in range(7)]


def test_barrier_is_passed_before_and_after_the_merge(tmp_path: Path) -> None:
    seen: list[bool] = []

    def barrier() -> None:
        seen.append((tmp_path / "predictions.jsonl").exists())

    ask_questions(Silent(), groups(2), BUSI, answer_format="text", out_dir=tmp_path, barrier=barrier)
    assert seen == [False, True]


def test_a_model_that_answers_something_else_is_refused(tmp_path: Path) -> None:
    class Twice:
        def answer(self, group: MediaGroup, requests: Sequence[Request]) -> Iterator[Prediction]:
            for request in (*requests, *requests):
                yield reply(request, "")

    class Never:
        def answer(self, group: MediaGroup, requests: Sequence[Request]) -> Iterator[Prediction]:
            return iter(())

    with pytest.raises(ValueError, match="was not asked, or not again"):
        ask_questions(Twice(), groups(2), BUSI, answer_format="text", out_dir=tmp_path / "twice")
    with pytest.raises(ValueError, match="left 4 requests unanswered"):
        ask_questions(Never(), groups(1), BUSI, answer_format="text", out_dir=tmp_path / "never", conditions=["image"])


def test_two_questions_of_one_id_are_refused(tmp_path: Path) -> None:
    found = groups(2)
    with pytest.raises(ValueError, match="two questions have the id"):
        ask_questions(Silent(), [*found, found[-1]], BUSI, answer_format="text", out_dir=tmp_path)


def test_nothing_to_ask_is_refused() -> None:
    with pytest.raises(ValueError, match="at least one group"):
        plan_visits([], BUSI, answer_format="text")
