"""Decides the kind of each question text once, over all of its rows, so that no row's own answer shapes its prompt.

This is about questions without options of their own and without a stated kind of answer. All rows that ask the same
words, in every split, have the same kind:

1. Yes or no, where all answers are; in tables, TRUE and FALSE are, where a text has both or the table hardly anything
   else. In another language ("Sí", "No") the two are options in the user's words, and TRUE and FALSE
   in those of the questions' language.
2. A closed question with the classes as options, where all answers are 0 and 1, or where one question is asked of a
   column of labels or classes that come twice on average. "How many ...?" keeps its numbers.
3. A number, where all answers are. "1,234" among numbers with a decimal comma has one, too; among numbers with a point
   it is a thousand.
4. Free text, the most general kind, where answers differ in kind; a note then says which.

A text that is asked once has the kind of its own answer.
"""

import math
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace

from medtune.benchmarks.vqa.conversation import TRUTH_VALUES, YES_NO, Answer, free_answer
from medtune.benchmarks.vqa.row_questions import MOST_CLASSES
from medtune.data.languages import ENGLISH, LANGUAGES, column_names
from medtune.data.raw.lettered_options import LETTERS
from medtune.data.seeding import stable_order
from medtune.data.types import Question

MOST_LISTED = 10
MOST_ODD = 0.1
"""The share of other answers up to which a table's TRUE and FALSE are yes and no in every question (our own choice)."""
_OTHER_POLAR = ("si no", "да нет", "是 不是", "有 无", "有 没有")
_POLAR = [*(said.yes_no for said in LANGUAGES.values()), *map(str.split, _OTHER_POLAR)]
_POLAR_PAIRS: Sequence[Mapping[str, int]] = [{word: place for place, word in enumerate(pair)} for pair in _POLAR]
_COUNTED = re.compile(
    r"\b(?:how (?:many|much)|number of|count|wie ?viele?|combien|cu[aá]nt[oa]s?|quant[ie])\b|几|多少", re.I
)
_THOUSAND_OR_DECIMAL = re.compile(r"[-+]?\d{1,3},\d{3}")
_DECIMAL_COMMA = re.compile(r"[-+]?\d+,(?:\d\d?|\d{4,})|[-+]?0,\d+")
_LABEL_COLUMNS = {"label", "class", *column_names("label")}


def is_label_column(name: str) -> bool:
    """Returns whether a column of answers is one of labels, by its name."""
    return name.strip().casefold() in _LABEL_COLUMNS


def of_one_kind(
    questions: Sequence[Question], answers: Mapping[int, str], *, labels: bool, has_turns: bool
) -> tuple[list[Question], tuple[str, ...]]:
    """Returns the questions with one kind for each text, and notes: a table of the kinds, and what disagreed.

    Args:
        answers: The answer of the file by the place of its question, for those whose kind follows from answers alone.
        labels: Whether one question is asked of a column of labels or classes.
        has_turns: Whether there are conversations, whose "true" and "false" stay as they are.
    """
    rows: dict[str, list[int]] = {}
    for place in answers:
        rows.setdefault(_plain(questions[place].text), []).append(place)
    truths = {} if has_turns else TRUTH_VALUES
    others = [answer for answer in answers.values() if answer.casefold() not in truths]
    all_truth = len(answers) == len(questions) and len(others) <= MOST_ODD * len(answers)
    kept, notes = list(questions), list[str]()
    for places in rows.values():
        said = [answers[place] for place in places]
        text, language = questions[places[0]].text, questions[places[0]].language
        ids = [questions[place].id for place in places]
        made, note = _decided(text, said, ids, truths=truths, all_truth=all_truth, labels=labels, language=language)
        notes += [note] if note else []
        for place, answer in zip(places, made, strict=True):
            kept[place] = _with(questions[place], answer)
    notes += _said_of_truths(len(answers), others, all_truth=all_truth)
    return kept, (*_table([each for each in kept if each.answer_kind != "set"]), *notes)


def _said_of_truths(number: int, others: Sequence[str], *, all_truth: bool) -> list[str]:
    if not number or len(others) == number:
        return []
    if not others:
        return ["the answers are TRUE or FALSE, and are read as yes or no"] if all_truth else []
    what = f"{number - len(others)} of {number} answers are TRUE or FALSE, {len(others)} are not"
    how = "read as yes or no" if all_truth else "yes or no only where a question has both, and else stay text"
    return [f"{what}: the former are {how}"]


def _decided(
    text: str,
    said: Sequence[str],
    ids: Sequence[str],
    *,
    truths: Mapping[str, str],
    all_truth: bool,
    labels: bool,
    language: str,
) -> tuple[list[Answer], str]:
    plain = [answer.rstrip(".").casefold() for answer in said]
    if {*plain} <= {*YES_NO, *truths} and (all_truth or len({*plain} & {*truths}) != 1):
        read = [truths.get(answer, answer) for answer in plain]
        if language != ENGLISH and {*plain} <= {*truths}:
            words = LANGUAGES[language].yes_no
            return [Answer(text, words, words[YES_NO.index(each)], "choice", None) for each in read], ""
        return [Answer(text, YES_NO, each, "yes_no", None) for each in read], ""
    pair = next((pair for pair in _POLAR_PAIRS if {*plain} == {*pair}), None)
    if pair is not None or _are_classes(text, said, labels=labels):
        name = _usual_spellings(said)
        options = tuple(sorted({*name.values()}, key=lambda word: _order(word, pair or {})))
        if len(options) > len(LETTERS):
            return [
                _some_of(text, options, name[each.casefold()], id_) for each, id_ in zip(said, ids, strict=True)
            ], ""
        return [Answer(text, options, name[answer.casefold()], "choice", None) for answer in said], ""
    found = [free_answer(text, answer) for answer in _with_decimal_commas(said)]
    kinds = ["yes_no" if answer in truths else each.kind for answer, each in zip(plain, found, strict=True)]
    if len({*kinds}) == 1:
        return found, ""
    return [Answer(text, (), answer, "text", None) for answer in said], _mixed(text, said, kinds)


def _are_classes(text: str, said: Sequence[str], *, labels: bool) -> bool:
    if _COUNTED.search(text):
        return False
    counts = Counter(answer.casefold() for answer in said)
    return {*counts} == {"0", "1"} or (labels and 2 <= len(counts) <= len(said) / 2)


def _order(word: str, pair: Mapping[str, int]) -> tuple[float, str]:
    plain = word.rstrip(".").casefold()
    if plain in pair:
        return pair[plain], ""
    number = re.match(r"\d+(?:\.\d+)?", word)
    return float(number[0]) if number else math.inf, word


def _some_of(text: str, classes: Sequence[str], answer: str, question_id: str) -> Answer:
    """Returns an answer with as many of the classes as a question shows, in an order that the id decides."""
    others = [each for each in classes if each != answer]
    drawn = stable_order(others, 0, question_id, "distractors")[: MOST_CLASSES - 1]
    return Answer(text, tuple(stable_order([answer, *drawn], 0, question_id, "order")), answer, "choice", None)


def _usual_spellings(said: Sequence[str]) -> dict[str, str]:
    """Returns the usual spelling of each answer by the answer in small letters."""
    return {spelling.casefold(): spelling.rstrip(".") for spelling, _ in reversed(Counter(said).most_common())}


def _with_decimal_commas(said: Sequence[str]) -> Sequence[str]:
    unclear = [_THOUSAND_OR_DECIMAL.fullmatch(answer) is not None for answer in said]
    others = [answer for answer, is_unclear in zip(said, unclear, strict=True) if not is_unclear]
    if not any(unclear) or not others or not all(free_answer("", answer).kind == "number" for answer in others):
        return said
    mark = "." if any(map(_DECIMAL_COMMA.fullmatch, others)) else "" if any("." in answer for answer in others) else ","
    return [
        answer.replace(",", mark) if is_unclear else answer for answer, is_unclear in zip(said, unclear, strict=True)
    ]


def _mixed(text: str, said: Sequence[str], kinds: Sequence[str]) -> str:
    parts = []
    for kind in sorted({*kinds}):
        values = {answer for answer, own in zip(said, kinds, strict=True) if own == kind}
        parts.append(f"{kinds.count(kind)} {kind} ({len(values)} different)")
    return (
        f"{text[:60]!r} has answers of several kinds, {' and '.join(parts)}: all {len(said)} are free text. Correct "
        "the answers, list options (in a column, or --options for all rows), or state the kind in a column answer_type"
    )


def _with(question: Question, answer: Answer) -> Question:
    is_task_of_kind = question.facets.get("task") == question.answer_kind
    return replace(
        question,
        options=answer.options,
        answer=answer.answer,
        answer_kind=answer.kind,
        unit=question.unit if answer.kind == "number" else None,
        facets={**question.facets, **({"task": answer.kind} if is_task_of_kind else {})},
    )


def _table(questions: Sequence[Question]) -> list[str]:
    texts: dict[str, list[Question]] = {}
    for question in questions:
        texts.setdefault(_plain(question.text), []).append(question)
    repeated = sorted((rows for rows in texts.values() if len(rows) > 1), key=len, reverse=True)
    lines = [f"kinds: {_kinds(questions)}, of {len(texts):,} different texts"] if questions else []
    lines += [f"kind of {rows[0].text[:60]!r}: {_kinds(rows)}{_options(rows)}" for rows in repeated[:MOST_LISTED]]
    return lines


def _options(rows: Sequence[Question]) -> str:
    options = {row.options for row in rows}
    return f", options {', '.join(rows[0].options)[:80]}" if len(options) == 1 and rows[0].options else ""


def _kinds(questions: Sequence[Question]) -> str:
    counts = Counter(question.answer_kind for question in questions)
    return ", ".join(f"{kind} {count:,}" for kind, count in counts.most_common())


def _plain(text: str) -> str:
    return " ".join(text.casefold().split())
