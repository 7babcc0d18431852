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
4. Free text, the most general kind, where answers differ in kind; a note then says which, and names few odd ones.

A text that is asked once has the kind of its own answer.
"""

import heapq
import math
import re
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

from medtune.benchmarks.vqa.columns import is_misspelt
from medtune.benchmarks.vqa.row_answers import TRUTH_VALUES, YES_NO, RowAnswer, free_answer
from medtune.benchmarks.vqa.row_questions import MOST_CLASSES
from medtune.data.kept_rows import Digests, KeptRows, digest
from medtune.data.languages import ENGLISH, LANGUAGES, column_names
from medtune.data.raw.lettered_options import LETTERS
from medtune.data.readable import folded
from medtune.data.seeding import stable_order
from medtune.data.types import Question

MOST_LISTED = 10
MOST_ODD = 0.1
"""The share of other answers up to which a table's TRUE and FALSE are yes and no in every question (our own choice)."""
FEWEST_FOR_ODD = 20
USUAL_SHARE = 0.95
"""Among so many answers to a text, beside such a share of one kind, the others are named as odd (our own choice)."""
ODD = "ODD ANSWERS"
_REMEDY = (
    "Correct the answers, list options (in a column, or --options for all rows), or state the kind in a column "
    "answer_type"
)
_MOST_ODD_WORDS = 5
_SHORT = 40
"""The most letters of an answer that a note names as a word (our own choice)."""
_OTHER_POLAR = ("si no", "да нет", "是 不是", "有 无", "有 没有")
_POLAR = [*(said.yes_no for said in LANGUAGES.values()), *map(str.split, _OTHER_POLAR)]
_POLAR_PAIRS: Sequence[Mapping[str, int]] = [{word: place for place, word in enumerate(pair)} for pair in _POLAR]
_COUNTED = re.compile(
    r"\b(?:how (?:many|much)|number of|count|wie ?viele?|combien|cu[aá]nt[oa]s?|quant[ie])\b|几|多少", re.I
)
_THOUSAND_OR_DECIMAL = re.compile(r"[-+]?\d{1,3},\d{3}")
_DECIMAL_COMMA = re.compile(r"[-+]?\d+,(?:\d\d?|\d{4,})|[-+]?0,\d+")
_LABEL_COLUMNS = {"label", "class", *column_names("label")}

Decide = Callable[[str, str], RowAnswer]
"""A function of (answer of the file, question's id) that returns the answer with its kind and options."""


def is_label_column(name: str) -> bool:
    """Returns whether a column of answers is one of labels, by its name."""
    return name.strip().casefold() in _LABEL_COLUMNS


def of_one_kind(
    rows: Collection[tuple[Question, str | None]], *, labels: bool, has_turns: bool, at: Callable[[int], str]
) -> tuple[KeptRows[Question], tuple[str, ...]]:
    """Returns the questions with one kind for each text, and notes: a table of the kinds, and what disagreed.

    Args:
        rows: The questions, each with its answer in the file where its kind follows from answers alone, else None.
        labels: Whether one question is asked of a column of labels or classes.
        has_turns: Whether there are conversations, whose "true" and "false" stay as they are.
        at: Returns the place of the question of a number, from 0, for notes.
    """
    truths = {} if has_turns else TRUTH_VALUES
    digests, others = Digests(), 0
    for question, answer in rows:
        if answer is not None:
            digests.append(folded(question.text))
            others += answer.casefold() not in truths
    number, again = len(digests), digests.repeated()
    all_truth = number == len(rows) and others <= MOST_ODD * number
    # Of a text that is asked once, nothing is kept: its own answer decides.
    asked: dict[str, _AskedText] = {}
    for question, answer in rows if again else ():
        if answer is not None and digest(text := folded(question.text)) in again:
            asked.setdefault(text, _AskedText(question.text, question.language, Counter())).said[answer] += 1

    def decided(one: _AskedText) -> tuple[Decide, str]:
        return _decided(one, truths=truths, all_truth=all_truth, labels=labels)

    made = {text: decided(one) for text, one in asked.items()}
    odd = {text: found for text, one in asked.items() if (found := _odd(one, truths, labels=labels))}
    first: dict[tuple[str, str], str] = {}
    kept = KeptRows[Question]()
    for number_of_row, (question, answer) in enumerate(rows):
        if answer is not None:
            text = folded(question.text)
            alone = _AskedText(question.text, question.language, Counter([answer]))
            decide, _ = made.get(text) or decided(alone)
            question = _with(question, decide(answer, question.id))
            if text in odd and answer in odd[text].words and (text, answer) not in first:
                first[text, answer] = at(number_of_row)
        kept.append(question)
    notes = [note for text, (_, note) in made.items() if note and text not in odd]
    notes += [each.note({word: first[text, word] for word in each.words}) for text, each in odd.items()]
    return kept, (*_table(kept), *notes, *_said_of_truths(number, others, all_truth=all_truth))


class _AskedText(NamedTuple):
    text: str
    language: str
    said: Counter[str]  # How often each answer comes, in the order of their first ones.


class _Odd(NamedTuple):
    before: str  # What is said of the usual answers.
    words: tuple[str, ...]  # The odd answers.
    after: str  # What follows from them, and what to do.

    def note(self, places: Mapping[str, str]) -> str:
        named = [f"{word[:_SHORT]!r} ({place})" for word, place in list(places.items())[:_MOST_ODD_WORDS]]
        more = len(places) - len(named)
        return f"{ODD}: {self.before}: {', '.join(named)}{f' and {more} more' if more else ''}; {self.after}"


def _odd(asked: _AskedText, truths: Mapping[str, str], *, labels: bool) -> _Odd | None:
    """Returns the few answers that differ from all others in kind, or are a misspelt one of them; None without any."""
    text, _, said = asked
    total = said.total()
    if total < FEWEST_FOR_ODD:
        return None
    plain = {answer: answer.rstrip(".").casefold() for answer in said}
    usual = {" or ".join(pair): [answer for answer in said if plain[answer] in pair] for pair in _POLAR_PAIRS}
    usual[" or ".join(YES_NO)] = [answer for answer in said if plain[answer] in {*YES_NO, *truths}]
    usual["numbers"] = [answer for answer in said if free_answer("", answer).kind == "number"]
    two = [answer for answer, _ in said.most_common(2)]
    if not _are_classes(text, said, labels=labels) and max(map(len, two)) <= _SHORT and said[two[-1]] > 1:
        usual[" or ".join(map(repr, two))] = two
    what = max(usual, key=lambda each: sum(said[answer] for answer in usual[each]))
    number = sum(said[answer] for answer in usual[what])
    if USUAL_SHARE * total <= number < total:
        others = tuple(answer for answer in said if answer not in usual[what])
        after = f"all {total} are free text. {_REMEDY}"
        return _Odd(f"{number} of {total} answers to {text[:60]!r} are {what}, and the others are not", others, after)
    most = (1 - USUAL_SHARE) * total
    likely = [answer for answer in said if said[answer] > most and len(answer) <= _SHORT]
    meant = {
        answer: name
        for answer in said
        if said[answer] <= most
        for name in likely
        if is_misspelt(plain[answer].replace(" ", "_"), plain[name].replace(" ", "_"))
    }
    if not meant:
        return None
    names = " and ".join(repr(name) for name in dict.fromkeys(meant.values()))
    before = f"of {total} answers to {text[:60]!r}, some are nearly spelt like {names}"
    return _Odd(before, tuple(meant), "each is an answer of its own. Correct it, or say --answers WORD=OTHER")


def _said_of_truths(number: int, others: int, *, all_truth: bool) -> list[str]:
    if not number or others == number:
        return []
    if not others:
        return ["the answers are TRUE or FALSE, and are read as yes or no"] if all_truth else []
    what = f"{number - others} of {number} answers are TRUE or FALSE, {others} are not"
    how = "read as yes or no" if all_truth else "yes or no only where a question has both, and else stay text"
    return [f"{what}: the former are {how}"]


def _decided(asked: _AskedText, *, truths: Mapping[str, str], all_truth: bool, labels: bool) -> tuple[Decide, str]:
    text, language, said = asked
    plain = {answer: answer.rstrip(".").casefold() for answer in said}
    different = {*plain.values()}
    if different <= {*YES_NO, *truths} and (all_truth or len(different & {*truths}) != 1):
        read = {answer: truths.get(each, each) for answer, each in plain.items()}
        if language != ENGLISH and different <= {*truths}:
            words = LANGUAGES[language].yes_no
            return lambda answer, _: RowAnswer(text, words, words[YES_NO.index(read[answer])], "choice", None), ""
        return lambda answer, _: RowAnswer(text, YES_NO, read[answer], "yes_no", None), ""
    pair = next((pair for pair in _POLAR_PAIRS if different == {*pair}), None)
    if pair is not None or _are_classes(text, said, labels=labels):
        name = _usual_spellings(said)
        options = tuple(sorted({*name.values()}, key=lambda word: _order(word, pair or {})))
        if len(options) > len(LETTERS):
            return lambda answer, id_: _some_of(text, options, name[answer.casefold()], id_), ""
        return lambda answer, _: RowAnswer(text, options, name[answer.casefold()], "choice", None), ""
    found = {answer: free_answer(text, written) for answer, written in _with_decimal_commas(said).items()}
    kinds = {answer: "yes_no" if plain[answer] in truths else each.kind for answer, each in found.items()}
    if len({*kinds.values()}) == 1:
        return lambda answer, _: found[answer], _two_words(asked) if "text" in kinds.values() else ""
    return lambda answer, _: RowAnswer(text, (), answer, "text", None), _mixed(text, said, kinds)


def _two_words(asked: _AskedText) -> str:
    """Returns a note on a text whose answers are two words that medtune does not know; "" where they are not."""
    text, language, said = asked
    name = _usual_spellings(said)
    spelt = list(dict.fromkeys(name[answer.casefold()] for answer in said))
    if len(spelt) != 2 or min(said.values()) < 2 or max(map(len, spelt)) > _SHORT:
        return ""
    yes, no = LANGUAGES[language].yes_no
    one, two = spelt
    return (
        f"{text[:60]!r} has two different answers over all its rows, {one!r} and {two!r}, and is asked for free text. "
        f"--answers WORD={yes} WORD={no} makes it a question of yes or no; a column of options, or --options "
        f"{one!r} {two!r} where all rows ask this, one with these options"
    )


def _are_classes(text: str, said: Counter[str], *, labels: bool) -> bool:
    if _COUNTED.search(text):
        return False
    different = {answer.casefold() for answer in said}
    return different == {"0", "1"} or (labels and 2 <= len(different) <= said.total() / 2)


def _order(word: str, pair: Mapping[str, int]) -> tuple[float, str]:
    plain = word.rstrip(".").casefold()
    if plain in pair:
        return pair[plain], ""
    number = re.match(r"\d+(?:\.\d+)?", word)
    return float(number[0]) if number else math.inf, word


def _some_of(text: str, classes: Sequence[str], answer: str, question_id: str) -> RowAnswer:
    """Returns an answer with as many of the classes as a question shows, in an order that the id decides."""
    others = [each for each in classes if each != answer]
    drawn = stable_order(others, 0, question_id, "distractors")[: MOST_CLASSES - 1]
    return RowAnswer(text, tuple(stable_order([answer, *drawn], 0, question_id, "order")), answer, "choice", None)


def _usual_spellings(said: Counter[str]) -> dict[str, str]:
    """Returns the usual spelling of each answer by the answer in small letters."""
    return {spelling.casefold(): spelling.rstrip(".") for spelling, _ in reversed(said.most_common())}


def _with_decimal_commas(said: Collection[str]) -> Mapping[str, str]:
    unclear = {answer for answer in said if _THOUSAND_OR_DECIMAL.fullmatch(answer)}
    others = [answer for answer in said if answer not in unclear]
    if not unclear or not others or not all(free_answer("", answer).kind == "number" for answer in others):
        return {answer: answer for answer in said}
    mark = "." if any(map(_DECIMAL_COMMA.fullmatch, others)) else "" if any("." in answer for answer in others) else ","
    return {answer: answer.replace(",", mark) if answer in unclear else answer for answer in said}


def _mixed(text: str, said: Counter[str], kinds: Mapping[str, str]) -> str:
    parts = []
    for kind in sorted({*kinds.values()}):
        values = [answer for answer, own in kinds.items() if own == kind]
        parts.append(f"{sum(said[answer] for answer in values)} {kind} ({len(values)} different)")
    return (
        f"{text[:60]!r} has answers of several kinds, {' and '.join(parts)}: all {said.total()} are free text. "
        f"{_REMEDY}"
    )


def _with(question: Question, answer: RowAnswer) -> Question:
    is_task_of_kind = question.facets.get("task") == question.answer_kind
    return replace(
        question,
        options=answer.options,
        answer=answer.answer,
        answer_kind=answer.kind,
        unit=question.unit if answer.kind == "number" else None,
        facets={**question.facets, **({"task": answer.kind} if is_task_of_kind else {})},
    )


def _table(questions: Collection[Question]) -> list[str]:
    kinds, digests = Counter[str](), Digests()
    for question in questions:
        if question.answer_kind != "set":
            kinds[question.answer_kind] += 1
            digests.append(folded(question.text))
    several = (each for each in digests.first() if each.number > 1)
    most = heapq.nsmallest(MOST_LISTED, several, key=lambda each: -each.number)
    listed: dict[int, _Listed | None] = {each.digest: None for each in most}
    for question in questions if listed else ():
        if question.answer_kind != "set" and (place := digest(folded(question.text))) in listed:
            one = listed[place] = listed[place] or _Listed(question.text, Counter(), set())
            one.kinds[question.answer_kind] += 1
            one.options.add(question.options)
    lines = [f"kinds: {_kinds(kinds)}, of {sum(1 for _ in digests.first()):,} different texts"] if kinds else []
    return lines + [
        f"kind of {one.text[:60]!r}: {_kinds(one.kinds)}{_options(one.options)}" for one in listed.values() if one
    ]


class _Listed(NamedTuple):
    text: str
    kinds: Counter[str]
    options: set[tuple[str, ...]]


def _options(options: set[tuple[str, ...]]) -> str:
    (first, *others) = options
    return f", options {', '.join(first)[:80]}" if first and not others else ""


def _kinds(counts: Counter[str]) -> str:
    return ", ".join(f"{kind} {count:,}" for kind, count in counts.most_common())
