"""Matches the rows of another tool's file with questions by an id, the id of a raw row or the question's text."""

import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import NamedTuple

from medtune.data.grouping import grouped
from medtune.data.readable import readable_text
from medtune.data.types import Prediction, PredictionKey, Question
from medtune.eval.predictions.tool_files import TEXTS, ToolRow

ID_FIELDS = ("question_id", "qid", "id")
"""The fields whose plain numbers count as ids; in others, such as index and doc_id, a tool counts its own rows."""
_REPEAT = "repeat"
# The first words of a question by which it is looked for in longer texts.
_MOST = 4
# Where more questions have one text, rows are not compared with each of them.
_MOST_ALIKE = 200

Words = tuple[str, ...]
_WORD = re.compile(r"\w+")


def words_of_text(text: str) -> Words:
    """Returns the words of a text in small letters, without punctuation.

    >>> words_of_text("Is it (benign)?Answer")
    ('is', 'it', 'benign', 'answer')
    """
    return tuple(_WORD.findall(text.casefold()))


class QuestionTexts:
    """The texts of questions, found in longer texts by their first words.

    >>> texts = QuestionTexts(["Is it benign?", "Is it benign or not?", "Where?"])
    >>> texts.asked_in("Look. Is it benign or not? Answer yes or no.")
    {('is', 'it', 'benign', 'or', 'not')}
    """

    def __init__(self, texts: Iterable[str]) -> None:
        """Keeps the texts by their first words; a text without words is never found."""
        self._by_start: dict[Words, list[Words]] = {}
        for words in {words_of_text(text) for text in texts} - {()}:
            self._by_start.setdefault(words[:_MOST], []).append(words)
        self._known: dict[str, set[Words]] = {}

    def asked_in(self, text: str) -> set[Words]:
        """Returns the words of each question that the text asks; of two that overlap as part and whole, the whole."""
        if text not in self._known:
            words = words_of_text(text)
            found = {
                known
                for place in range(len(words))
                for length in range(1, _MOST + 1)
                for known in self._by_start.get(words[place : place + length], ())
                if words[place : place + len(known)] == known
            }
            self._known[text] = {each for each in found if not any(_is_part(each, other) for other in found)}
        return self._known[text]

    def asked_by(self, row: ToolRow) -> set[Words]:
        """Returns the words of the questions that the row's fields ask."""
        return set().union(*(self.asked_in(row.fields[name]) for name in TEXTS if name in row.fields))

    def contradiction(self, row: ToolRow, question: Question) -> str | None:
        """Returns in words what the row asks otherwise than the question; None if there is nothing."""
        asked = self.asked_by(row)
        if asked and words_of_text(question.text) not in asked:
            said = next(row.fields[name] for name in TEXTS if row.fields.get(name))
            return (
                f"the row asks {' '.join(said.split()):.120}, the question there is {readable_text(question.text):.120}"
            )
        if row.options and question.options and not shown(row, question):
            return f"the row has the options {_list(row.options)}, the question there {_list(question.options)}"
        return None


def _is_part(inner: Words, outer: Words) -> bool:
    starts: Sequence[int] = range(len(outer) - len(inner) + 1) if len(inner) < len(outer) else ()
    return any(outer[start : start + len(inner)] == inner for start in starts)


def shown(row: ToolRow, question: Question) -> tuple[str, ...]:
    """Returns the question's options in the order that the tool showed; empty if the row states none or others.

    The last option may be followed by more text, because it is often read from a prompt that goes on after it. Where a
    question has equal options, only its own order can be told.
    """
    listed = [words_of_text(option) or (option.strip(),) for option in question.options]
    own = dict(zip(listed, question.options, strict=True))
    said = [words_of_text(option) or (option.strip(),) for option in row.options]
    if said == listed:
        return question.options
    if len(own) != len(question.options) or len(said) != len(own):
        return ()
    found = [own.get(words) for words in said[:-1]]
    rest = [words for words in own if own[words] not in found]
    found += [own[words] for words in rest if said[-1][: len(words)] == words]
    return tuple(option for option in found if option is not None) if set(found) == set(question.options) else ()


def _list(options: Sequence[str]) -> str:
    return "; ".join(f"{' '.join(option.split()):.60}" for option in options)


class MatchedRows(NamedTuple):
    predictions: list[Prediction]
    # The judge's replies that the rows carry, by the prediction that they are about.
    judge_replies: Mapping[PredictionKey, str]
    repeated: int  # The number of rows that give a question the same reply again; each reply is counted once.


def match_rows(
    rows: Sequence[ToolRow], questions: Sequence[Question], *, find: Callable[[str], str | None]
) -> MatchedRows:
    """Returns the rows of another tool's file as predictions for the questions that they answer.

    A row belongs to a question by the first of these that every row has: our own question id in any column; the id of
    a row of the raw files; the question's text, with its options where the row states them, where it is that of one
    question alone. Row numbers and the order of the rows name no question.

    Args:
        find: A function from the id of a raw row to the id of its question.

    Raises:
        ValueError: There are no rows; a row asks something else than the question that it names; or nothing names a
            question in every row. The message says which columns were looked into.
    """
    if not rows:
        raise ValueError("the file has no rows. Score a file with predictions in it.")
    texts = QuestionTexts(question.text for question in questions)
    named = _by_ids(rows, {question.id: question for question in questions}, find)
    if named.column is None:
        return _predictions(rows, _by_texts(rows, questions, texts, unknown=named.unknown))
    for row, question in zip(rows, named.found, strict=True):
        if said := texts.contradiction(row, question):
            raise ValueError(
                f"{row.where}: {len(rows)} rows cannot be matched with {len(questions)} questions by {named.column}, "
                f"so nothing was scored: {said}. Score them with the questions that they answer."
            )
    return _predictions(rows, named.found)


class _NamedQuestions(NamedTuple):
    """The questions that a column names, one in each row."""

    column: str | None  # None where no column does.
    found: Sequence[Question]
    unknown: Sequence[str]  # For columns that name questions in some rows alone, the first row that names none.


def _by_ids(
    rows: Sequence[ToolRow], by_id: Mapping[str, Question], find: Callable[[str], str | None]
) -> _NamedQuestions:
    columns = [*ID_FIELDS, *sorted({name for row in rows for name in row.fields} - set(ID_FIELDS))]
    unknown = list[str]()
    for name in columns:
        known = [by_id.get(row.fields.get(name, "")) for row in rows]
        if any(known):
            lost = next((row for row, question in zip(rows, known, strict=True) if question is None), None)
            if lost is not None:
                raise ValueError(f"{lost.where}: {name} {lost.fields.get(name)!r} is no question of this split.")
            return _NamedQuestions(name, [question for question in known if question], ())
    for name in columns:
        found = list[Question]()
        for row in rows:
            value = row.fields.get(name, "")
            question = by_id.get(find(value) or "") if name in ID_FIELDS or not value.isdigit() else None
            if question is None:
                unknown += [f"{row.where}: its {name} {value!r} is no id of a row of the raw files"] if found else []
                break
            found.append(question)
        if len(found) == len(rows):
            return _NamedQuestions(name, found, ())
    return _NamedQuestions(None, (), unknown)


def _by_texts(
    rows: Sequence[ToolRow], questions: Sequence[Question], texts: QuestionTexts, *, unknown: Sequence[str]
) -> Sequence[Question]:
    alike = defaultdict(list)
    for question in questions:
        alike[words_of_text(question.text)].append(question)
    found = []
    for row in rows:
        near = [question for words in texts.asked_by(row) for question in alike[words]]
        few = near if len(near) <= _MOST_ALIKE else []
        fit = [question for question in few if texts.contradiction(row, question) is None]
        if len(fit) != 1:
            asks = f"fits {len(near)} questions" if near else "asks no question of this split"
            raise ValueError(_refusal(rows, questions, [*unknown, f"{row.where}: it {asks}"]))
        found.append(fit[0])
    return found


def _refusal(rows: Sequence[ToolRow], questions: Sequence[Question], reasons: Sequence[str]) -> str:
    there = {name for each in rows for name in each.fields}
    ids = ", ".join(name if name in there else f"{name} (not there)" for name in ID_FIELDS)
    others = ", ".join(sorted(there - set(ID_FIELDS))) or "no other column"
    texts = ", ".join(name for name in TEXTS if name in there) or f"none of {', '.join(TEXTS)} is there"
    return (
        f"{rows[0].where.rpartition(',')[0]}: {len(rows)} rows cannot be matched with {len(questions)} questions, so "
        f"nothing was scored. Looked for the id of a question or of a row of the raw files in {ids}, and for one that "
        f"is no plain number in {others}; for the question's text in {texts}.\n"
        + "".join(f"  {reason}\n" for reason in reasons)
        + "Give each row a column question_id, or the id that its row has in the raw files; or give the part of the "
        "questions that the file answers with --only FACET=VALUE."
    )


def _predictions(rows: Sequence[ToolRow], found: Sequence[Question]) -> MatchedRows:
    of_question = grouped(zip(rows, found, strict=True), lambda pair: pair[1].id)
    predictions, judge_replies, repeated = list[Prediction](), dict[PredictionKey, str](), 0
    for question_id, pairs in of_question.items():
        taken = _declared_repeats(pairs) or _same_once(pairs)
        repeated += len(pairs) - len(taken)
        replies = [(row, question, reply) for row, question in taken for reply in row.replies]
        for repeat, (row, question, reply) in enumerate(replies):
            key = PredictionKey(question_id, "image", "generation", repeat)
            predictions.append(Prediction(key, options_shown=shown(row, question), text=reply))
            if row.verdict is not None:
                judge_replies[key] = row.verdict
    return MatchedRows(predictions, judge_replies, repeated)


def _declared_repeats(pairs: Sequence[tuple[ToolRow, Question]]) -> Sequence[tuple[ToolRow, Question]]:
    numbers = [row.fields.get(_REPEAT, "") for row, _ in pairs]
    if not all(number.isdigit() for number in numbers) or len(set(numbers)) < len(numbers):
        return ()
    return [pair for _, pair in sorted(zip(map(int, numbers), pairs, strict=True), key=lambda each: each[0])]


def _same_once(pairs: Sequence[tuple[ToolRow, Question]]) -> Sequence[tuple[ToolRow, Question]]:
    first, question = next((pair for pair in pairs if pair[0].verdict is not None), pairs[0])
    for row, _ in pairs:
        is_same = (row.replies, shown(row, question)) == (first.replies, shown(first, question))
        if not is_same or row.verdict not in (None, first.verdict):
            raise ValueError(
                f"{row.where} and {first.where} answer one question ({question.id}) with different "
                f"{'verdicts' if is_same else 'replies'}. Keep one of the two, or number them in a column {_REPEAT!r} "
                "if they are repeats of one model."
            )
    return [(first, question)]
