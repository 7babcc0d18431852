"""Joins questions with the answers of each phase, and chooses those that the gallery shows."""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal, cast, get_args

from pydantic import BaseModel, ConfigDict

from medtune.data.prepared.find import found_data
from medtune.data.prepared.read import open_prepared
from medtune.data.types import MediaRef, Question, Split
from medtune.eval.predictions.files import read_predictions
from medtune.eval.report.run_data import RunData
from medtune.eval.results.phase_schema import Count
from medtune.eval.results.typed_json import read_json_lines
from medtune.eval.statistics.calibration import option_probabilities

Outcome = Literal["right", "wrong", "unreadable", "graded", "unscored"]
Change = Literal["broken", "still wrong", "fixed", "still right", ""]
CHANGES: tuple[Change, ...] = get_args(Change)
_PLACES: Mapping[Outcome, int] = {"right": 1, "unscored": 2}


@dataclass(frozen=True, slots=True)
class Answer:
    said: str | None  # The answer that the phase's parser read; None if it could read none.
    # "right", "wrong" or "unreadable"; "graded" if an answer is not simply right or wrong, and "unscored" if it waits
    # for a judge.
    outcome: Outcome
    reply: str | None = None  # The generated text; None if there is none.
    # Option -> its probability among the options, 0 to 1; None if the reply was only generated.
    probabilities: Mapping[str, float] | None = None


@dataclass(frozen=True, slots=True)
class AnsweredQuestion:
    question: Question
    media: tuple[MediaRef, ...]  # The images, videos or volumes that are shown together; empty for none.
    answers: Mapping[str, Answer]

    @property
    def last(self) -> Answer:
        return self.answers.get("final") or self.answers["zero_shot"]

    @property
    def change(self) -> Change:
        """The effect of training on the answer; "" if there are not two answers that are right or wrong."""
        if len(self.answers) < 2 or any(answer.outcome in ("graded", "unscored") for answer in self.answers.values()):
            return ""
        before, after = (self.answers[name].outcome == "right" for name in ("zero_shot", "final"))
        return ("still right" if after else "broken") if before else ("fixed" if after else "still wrong")


def answered_questions(run: RunData) -> list[AnsweredQuestion]:
    """Returns the questions that every phase of the run answered, in the folder's order."""
    named = Path(str(run.setting("data", "root")))
    root = found_data(named, run=run.folder, data_hash=run.results.data_hash, questions=run.questions)
    folds, fold = (cast("int | None", run.setting("data", name)) for name in ("folds", "fold"))
    prepared = open_prepared(root).in_folds(folds, fold)
    if (saw := run.results.data_hash) and prepared.data_hash != saw:
        raise ValueError(
            f"{root}: the run saw data {saw[:12]}, this folder holds {prepared.data_hash[:12]}; it was "
            "prepared again since"
        )
    parsed = {name: _parsed(run.folder / name / "parsed.jsonl", phase.parser) for name, phase in run.phases.items()}
    split = cast("Split", run.setting("eval", "split") or "test")
    found = []
    for group in prepared.groups(split):
        for question in group.questions:
            if all(question.id in said for said in parsed.values()):
                answers = {name: answer_to(question, *said[question.id]) for name, said in parsed.items()}
                found.append(AnsweredQuestion(question, group.media, answers))
    return found


def chosen(answered: Sequence[AnsweredQuestion], *, at_most: int) -> list[AnsweredQuestion]:
    """Returns at most `at_most` questions, drawn evenly from each outcome and task, wrong answers first.

    The draw depends only on the ids of the questions, so that reports on the same data show mostly the same questions.
    """
    pools: dict[tuple[int, str], list[AnsweredQuestion]] = {}
    for one in sorted(answered, key=lambda one: hashlib.sha256(one.question.id.encode()).digest()):
        place = CHANGES.index(one.change) if one.change else _PLACES.get(one.last.outcome, 0)
        pools.setdefault((place, one.question.facets.get("task", "")), []).append(one)
    ordered = [pools[key] for key in sorted(pools)]
    drawn: list[tuple[int, AnsweredQuestion]] = []
    for turn in range(max(map(len, ordered), default=0)):
        drawn += [(number, pool[turn]) for number, pool in enumerate(ordered) if turn < len(pool)]
    # Each turn takes one question of every pool. The drawn questions are then shown pool by pool.
    return [one for _, one in sorted(drawn[:at_most], key=lambda pair: pair[0])]


def with_replies(run: RunData, picked: Sequence[AnsweredQuestion]) -> list[AnsweredQuestion]:
    """Returns the questions with the generated texts and the probabilities of the options added to their answers."""
    wanted = {one.question.id: one.question for one in picked}
    texts: dict[tuple[str, str], str] = {}
    likelihoods: dict[tuple[str, str], dict[str, float]] = {}
    for name in run.phases:
        for prediction in read_predictions(run.folder / name / "predictions.jsonl"):
            key = (name, prediction.key.question_id)
            if key[1] not in wanted or prediction.key.condition != "image" or prediction.key.repeat:
                continue
            if prediction.text is not None:
                texts[key] = prediction.text
            if prediction.option_logprobs:
                options = prediction.options_shown or wanted[key[1]].options
                shares = option_probabilities(prediction.option_logprobs)
                likelihoods[key] = dict(zip(options, shares, strict=True))
    return [
        replace(
            one,
            answers={
                name: replace(
                    answer,
                    reply=texts.get((name, one.question.id)),
                    probabilities=likelihoods.get((name, one.question.id)),
                )
                for name, answer in one.answers.items()
            },
        )
        for one in picked
    ]


class ParsedLine(BaseModel):
    """One line of parsed.jsonl, which also has one field for each parser with the answer that it read."""

    model_config = ConfigDict(extra="allow", frozen=True)
    __pydantic_extra__: dict[str, str | None]

    condition: str
    question_id: str
    repeat: Count
    unscored: tuple[str, ...] = ()

    @property
    def read(self) -> Mapping[str, str | None]:
        """The answer that each parser read, by the parser's name; None if it could read none."""
        return self.__pydantic_extra__


def _parsed(path: Path, parser: str) -> dict[str, tuple[str | None, bool]]:
    return {
        line.question_id: (line.read[parser], parser in line.unscored)
        for line in read_json_lines(path, ParsedLine)
        if line.condition == "image" and line.repeat == 0 and parser in line.read
    }


def answer_to(question: Question, said: str | None, waits: bool) -> Answer:
    """Returns the answer that a parser read, with its outcome."""
    if said is None:
        return Answer(said, "unscored" if waits else "unreadable")
    if question.answer_kind not in ("choice", "yes_no"):
        return Answer(said, "graded")
    return Answer(said, "right" if said == question.answer else "wrong")
