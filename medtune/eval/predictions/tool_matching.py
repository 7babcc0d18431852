"""Matches the rows of another tool's file with questions: by texts, ids or order, and never without proof."""

import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import takewhile
from string import ascii_uppercase
from typing import NamedTuple

from medtune.data.raw.lettered_options import find_option
from medtune.data.readable import readable_text
from medtune.data.types import Prediction, PredictionKey, Question
from medtune.eval.predictions.tool_files import TEXTS, ToolRow

Words = tuple[str, ...]
_WORD = re.compile(r"\w+")
_MOST = 4


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


def _is_part(inner: Words, outer: Words) -> bool:
    starts: Sequence[int] = range(len(outer) - len(inner) + 1) if len(inner) < len(outer) else ()
    return any(outer[start : start + len(inner)] == inner for start in starts)


AnswerIn = Callable[[Mapping[str, str], Question], str | None]
TRUTHS = ("answer", "target", "correct_option", "class_label", "classes", "class", "cla_ans", "label", "groundtruth")
"""The fields that usually hold the true answer."""
MOST_CHANCE = 0.05
"""The largest probability with which rows without true answers may agree with wrong questions by chance."""
_SAMPLE = 2000


@dataclass(frozen=True, slots=True)
class Proof:
    """What rows state about the questions that they answer, checked against the questions."""

    texts: QuestionTexts
    # A function of the source that reads the true answer of a row; fields with usual names are tried too.
    answer_in: AnswerIn | None

    def asked_in(self, row: ToolRow) -> set[Words]:
        """Returns the words of the questions that the row's fields ask."""
        return set().union(*(self.texts.asked_in(row.fields[name]) for name in TEXTS if name in row.fields))

    def contradiction(self, row: ToolRow, question: Question) -> str | None:
        """Returns in words what the row states otherwise than the question; None if there is nothing."""
        if self._text(row, question) is False:
            said = next(row.fields[name] for name in TEXTS if row.fields.get(name))
            return (
                f"the row asks {' '.join(said.split()):.120}, the question there is {readable_text(question.text):.120}"
            )
        if row.options and question.options and not shown(row, question):
            return f"the row has the options {_list(row.options)}, the question there {_list(question.options)}"
        if self._truth(row, question) is False:
            stated = ", ".join(repr(truth) for truth in self._truths(row, question))
            return f"the row has the answer {stated}, the question there has {question.answer!r}"
        return None

    def has_truth(self, row: ToolRow, question: Question) -> bool:
        """Returns whether the row states the question's true answer."""
        return self._truth(row, question) is True

    def confirms(self, row: ToolRow, question: Question) -> bool:
        """Returns whether the row states the question's true answer or text, and nothing that contradicts it."""
        is_stated = self.has_truth(row, question) or self._text(row, question) is True
        return is_stated and self.contradiction(row, question) is None

    def _text(self, row: ToolRow, question: Question) -> bool | None:
        asked = self.asked_in(row)
        return words_of_text(question.text) in asked if asked else None

    def _truth(self, row: ToolRow, question: Question) -> bool | None:
        truths = self._truths(row, question)
        return any(_agrees(truth, row, question) for truth in truths) if truths else None

    def _truths(self, row: ToolRow, question: Question) -> Sequence[str]:
        read = self.answer_in(row.fields, question) if self.answer_in else None
        if read is not None:
            return [read]
        return [row.fields[name] for name in TRUTHS if row.fields.get(name)]


def chance_of_agreement(
    rows: Sequence[ToolRow], matched: Sequence[Question], asked: Iterable[Question], proof: Proof
) -> float:
    """Returns the probability that rows agree with randomly drawn questions as they do with theirs.

    Rows that state nothing count for nothing. Counting stops below `MOST_CHANCE`. Of very many questions a part is
    looked at, evenly spread over their order.
    """
    left, chance = {question.id: question for question in asked}, 1.0
    for row, question in zip(rows, matched, strict=True):
        if question.id in left and proof.confirms(row, question):
            del left[question.id]
            others = list(left.values())[:: 1 + len(left) // _SAMPLE]
            chance *= (1 + sum(proof.confirms(row, other) for other in others)) / (1 + len(others))
        if chance <= MOST_CHANCE:
            break
    return chance


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


def _agrees(truth: str, row: ToolRow, question: Question) -> bool:
    if truth.strip() == question.answer:
        return True
    said = truth.strip().strip("[]'\"")
    if question.answer_kind == "number":
        try:
            return abs(float(said) - float(question.answer)) <= 1e-6 * abs(float(question.answer))
        except ValueError:
            return False
    if question.options:
        options = shown(row, question) or question.options
        letter = said[:1] if said[1:2] in (".", ")", ":") and said[:1] in ascii_uppercase else said
        if find_option(letter, options) == question.answer:
            return True
    return said.strip().casefold() == question.answer.strip().casefold()


def _list(options: Sequence[str]) -> str:
    return "; ".join(f"{' '.join(option.split()):.60}" for option in options)


_ID_FIELDS = ("question_id", "qid", "id", "index", "doc_id")
_REPEAT = "repeat"
# Where more questions have one text, rows are not compared with each of them.
_MOST_ALIKE = 200


class MatchedRows(NamedTuple):
    predictions: list[Prediction]
    # The judge's replies that the rows carry, by the prediction that they are about.
    judge_replies: Mapping[PredictionKey, str]
    repeated: int  # The number of rows that give a question the same reply again; each reply is counted once.


def match_rows(
    rows: Sequence[ToolRow],
    questions: Sequence[Question],
    *,
    find: Callable[[str], str | None],
    places: Mapping[str, int],
    answer_in: AnswerIn | None = None,
) -> MatchedRows:
    """Returns the rows of another tool's file as predictions for the questions that they answer.

    A row belongs to a question by the first of these that fits every row: our own question id; its text, options and
    true answer, where they are those of one question alone; the id of a row in the raw files; a row number, or the
    order of the rows, in the raw files. Ids of raw rows, numbers and orders count only if the true answers or the
    texts of the rows agree with those of the questions, and numbers and orders only if a wrong order
    would not agree too.

    Args:
        find: A function from the id of a raw row to the id of its question.
        answer_in: A function of the source that reads the true answer of a row; fields with usual names are tried too.
    """
    if not rows:
        raise ValueError("the file has no rows. Score a file with predictions in it.")
    ordered = sorted(questions, key=lambda question: places[question.id])
    proof = Proof(QuestionTexts(question.text for question in questions), answer_in)
    reasons = []
    for attempt in _attempts(rows, ordered, find, proof):
        wrong = _wrong(attempt, rows, ordered, proof)
        if wrong is None:
            return _predictions(rows, attempt.found)
        reasons.append(f"{attempt.by}: {wrong}")
        if not attempt.is_order:
            # Ids of the raw rows that contradict the rows leave nothing to trust in the file.
            break
    raise ValueError(_refusal(rows, questions, reasons))


@dataclass(frozen=True, slots=True)
class _Attempt:
    by: str  # What names the questions, in words.
    found: Sequence[Question]
    needs_proof: bool = True  # Whether the rows have to confirm it; what they state may never contradict it.
    is_order: bool = False  # Whether it is a number or an order, which a wrong file may have too.


def _attempts(
    rows: Sequence[ToolRow], ordered: Sequence[Question], find: Callable[[str], str | None], proof: Proof
) -> Iterator[_Attempt]:
    by_id = {question.id: question for question in ordered}
    others = sorted({name for row in rows for name in row.fields} - set(_ID_FIELDS))
    columns = {name: [row.fields.get(name, "") for row in rows] for name in (*_ID_FIELDS, *others)}
    for name, values in columns.items():
        known = [by_id.get(value) for value in values]
        if any(known):
            lost = [row for row, question in zip(rows, known, strict=True) if question is None]
            if lost:
                raise ValueError(f"{lost[0].where}: {name} {lost[0].fields.get(name)!r} is no question of this split.")
            yield _Attempt(f"by {name}", [each for each in known if each], needs_proof=False)
            return
    by_text = _by_text(rows, ordered, proof)
    if len(by_text) == len(rows):
        yield _Attempt("by their texts", by_text)
    for name, values in columns.items():
        raw = list(takewhile(bool, (by_id.get(find(value) or "") for value in values)))
        if len(raw) == len(rows):
            are_numbers = all(value.isdigit() for value in values)
            yield _Attempt(f"by {name}", [each for each in raw if each], is_order=are_numbers)
    yield from _by_numbers(rows, ordered, columns)
    if len(rows) == len(ordered):
        yield _Attempt("in the order of the benchmark's files", ordered, is_order=True)


def _by_text(rows: Sequence[ToolRow], questions: Sequence[Question], proof: Proof) -> list[Question]:
    alike = defaultdict(list)
    for question in questions:
        alike[words_of_text(question.text)].append(question)
    found = []
    for row in rows:
        near = [question for words in proof.asked_in(row) for question in alike[words]]
        if len(near) > _MOST_ALIKE:
            break
        fit = [question for question in near if proof.contradiction(row, question) is None]
        if len(fit) != 1:
            break
        found.append(fit[0])
    return found


def _by_numbers(
    rows: Sequence[ToolRow], ordered: Sequence[Question], columns: Mapping[str, Sequence[str]]
) -> Iterator[_Attempt]:
    for name in _ID_FIELDS:
        values = columns[name]
        if not all(value.isdigit() for value in values):
            continue
        numbers = [int(value) for value in values]
        if max(numbers) < len(ordered):
            yield _Attempt(f"by {name} as a row number from 0", [ordered[number] for number in numbers], is_order=True)
        elif len(set(numbers)) == len(numbers) == len(ordered):
            place = {number: rank for rank, number in enumerate(sorted(numbers))}
            yield _Attempt(f"in the order of {name}", [ordered[place[number]] for number in numbers], is_order=True)


def _wrong(attempt: _Attempt, rows: Sequence[ToolRow], asked: Sequence[Question], proof: Proof) -> str | None:
    pairs = list(zip(rows, attempt.found, strict=True))
    for row, question in pairs:
        if said := proof.contradiction(row, question):
            return f"{row.where}: {said}"
    if not attempt.needs_proof:
        return None
    if not any(proof.confirms(row, question) for row, question in pairs):
        return "no row states its true answer or its question"
    if attempt.is_order and len(asked) > 1:
        chance = chance_of_agreement(rows, attempt.found, asked, proof)
        # Where every row states its question's true answer, an exchange of rows with one answer changes no score.
        have_truths = all(proof.has_truth(row, question) for row, question in pairs)
        if chance == 1 or (chance > MOST_CHANCE and not have_truths):
            return f"the rows' answers and texts are so alike that {chance:.0%} of all orders would agree with them"
    return None


def _refusal(rows: Sequence[ToolRow], questions: Sequence[Question], reasons: Sequence[str]) -> str:
    asked = f"{len(rows)} rows cannot be matched with {len(questions)} questions"
    tried = "".join(f"\n  {reason}" for reason in reasons) or (
        "\n  no field names a question, no text is that of one question alone, and there are not as many rows as "
        "questions"
    )
    return (
        f"{rows[0].where.rpartition(',')[0]}: {asked}, so nothing was scored. Tried:{tried}\n"
        "Give the part of the questions that the file answers with --only FACET=VALUE, or a column question_id, or add "
        f"the question or the true answer to each row ({', '.join(TRUTHS[:3])}, ...)."
    )


def _predictions(rows: Sequence[ToolRow], found: Sequence[Question]) -> MatchedRows:
    of_question: dict[str, list[tuple[ToolRow, Question]]] = {}
    for row, question in zip(rows, found, strict=True):
        of_question.setdefault(question.id, []).append((row, question))
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
