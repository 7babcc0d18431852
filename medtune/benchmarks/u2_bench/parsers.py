"""Parsers that read a reply in the ways of the official scripts, in the form that `Benchmark` expects."""

import re

from medtune.benchmarks.u2_bench.extracted_option import extract_option
from medtune.benchmarks.u2_bench.official.labels import (
    Mode,
    OfficialFailureError,
    extract_number,
    predicted_value,
    read_position,
    read_row,
)
from medtune.benchmarks.u2_bench.tasks_and_sets import CLASSIFICATION, DETECTION, INTEGER_SETS, VALUE, options_seen
from medtune.data.types import Question
from medtune.eval.scoring.parsers.choice_parsers import parse_choice
from medtune.eval.scoring.parsers.measures import read_measure


def parse_strict(reply: str, question: Question) -> str | None:
    """Returns the answer that the evalkit's strict scripts read: the reply itself, in small letters."""
    return _parse(reply, question, mode="strict")


def parse_lenient(reply: str, question: Question) -> str | None:
    """Returns the answer that the lenient post-processing reads.

    It ignores blanks and quotes around a label, and words around a position.
    """
    return _parse(reply, question, mode="lenient")


def parse_extracted(reply: str, question: Question) -> str | None:
    """Returns the answer that the lenient post-processing reads after its pre-pass, which picks an option or number."""
    return _parse(prepared_reply(reply, question), question, mode="lenient")


def prepared_reply(reply: str, question: Question) -> str:
    """Returns the reply after the official pre-pass, which leaves replies about positions and texts as they are."""
    task, dataset = task_of(question), question.facets["dataset"]
    if task in CLASSIFICATION:
        return extract_option(reply, options_seen(task, dataset, question.options))
    return extract_number(reply, dataset=dataset) if task == VALUE else reply


def truth_cell(question: Question) -> str | int:
    """Returns the true answer as the official tables hold it: a whole number in two data sets, a text in all others."""
    is_whole = task_of(question) == "DD" and question.facets["dataset"] in INTEGER_SETS
    return int(question.answer) if is_whole else question.answer


def task_of(question: Question) -> str:
    """Returns the question's task, e.g. "DD"."""
    return question.facets["task"]


def _parse(reply: str, question: Question, *, mode: Mode) -> str | None:
    task = task_of(question)
    if task in DETECTION:
        label = read_position(reply, mode=mode).label
        return None if label is None else _as_option(label, question)
    if task == VALUE:
        number = predicted_value(reply, mode=mode)
        return None if number is None else repr(number)
    if task not in CLASSIFICATION:
        return (reply.strip() if mode == "lenient" else reply) or None
    try:
        said = read_row(truth_cell(question), reply, dataset=question.facets["dataset"], mode=mode).label
    except OfficialFailureError:
        return None
    return None if said is None else _as_option(str(said), question)


def _as_option(label: str, question: Question) -> str:
    return next((option for option in question.options if option.lower() == label.lower()), label)


def parse(reply: str, question: Question) -> str | None:
    """Returns the answer in the reply (an option, a number as plain text, or a text); None if no answer is clear."""
    if question.answer_kind == "number":
        return parse_number(reply, question)
    if question.answer_kind == "text":
        return reply.strip() or None
    return parse_choice(reply, question) or _class_of_number(reply, question)


def parse_number(reply: str, question: Question) -> str | None:
    """Returns the number that the reply gives as its answer, or None if none is clear; see `eval.scoring`.

    >>> asked = Question("q", "m", "How wide?", (), "5", "number", "p", unit="mm")
    >>> [parse_number(reply, asked) for reply in ("about 1,200.0", "-3 mm in image 2", "50 to 60", "12 +/- 2")]
    ['1200', '-3', None, '12']
    """
    value = read_measure(reply, question.unit, asked=question.text)
    return None if value is None else f"{value:.12g}"


def _class_of_number(reply: str, question: Question) -> str | None:
    if re.fullmatch(r"\+?[0-9]{1,9}", reply.strip()) is None:
        return None
    return next((each for each in question.options if each.strip().isdecimal() and int(each) == int(reply)), None)
