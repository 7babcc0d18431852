"""Says whether a row of another tool's file is about a question, by the answer, options and text that it states."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from string import ascii_uppercase

from medtune.data.raw.lettered_options import find_option
from medtune.data.readable import readable_text
from medtune.data.types import Question
from medtune.eval.predictions.question_texts import QuestionTexts, Words, words_of_text
from medtune.eval.predictions.tool_files import TEXTS, ToolRow

AnswerIn = Callable[[Mapping[str, str], Question], str | None]
TRUTHS = ("answer", "target", "correct_option", "class_label", "classes", "class", "cla_ans", "label", "groundtruth")
"""The fields that usually hold the true answer."""
MOST_CHANCE = 0.05
"""The largest probability with which rows without true answers may agree with wrong questions by chance."""
_SAMPLE = 2000


@dataclass(frozen=True, slots=True)
class Proof:
    """What rows state about the questions that they answer, checked against the questions.

    Attributes:
        texts: The texts of the questions.
        answer_in: A function of the source that reads the true answer of a row; fields with usual names are tried too.
    """

    texts: QuestionTexts
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

    Args:
        rows: The rows.
        matched: The question that each row was matched with.
        asked: All questions that could have been drawn.
        proof: What the rows state.
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
