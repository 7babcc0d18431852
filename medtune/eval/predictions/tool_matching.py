"""Matches the rows of another tool's file with questions: by texts, ids or order, and never without proof."""

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import takewhile
from typing import NamedTuple

from medtune.data.types import Prediction, PredictionKey, Question
from medtune.eval.predictions.question_texts import QuestionTexts, words_of_text
from medtune.eval.predictions.tool_files import ToolRow
from medtune.eval.predictions.tool_proof import MOST_CHANCE, TRUTHS, AnswerIn, Proof, chance_of_agreement, shown

_ID_FIELDS = ("question_id", "qid", "id", "index", "doc_id")
_REPEAT = "repeat"
# Where more questions have one text, rows are not compared with each of them.
_MOST_ALIKE = 200


class MatchedRows(NamedTuple):
    """The rows of other tools' files as predictions.

    Attributes:
        predictions: One prediction for each reply to a question.
        judge_replies: The judge's replies that the rows carry, by the prediction that they are about.
        repeated: The number of rows that give a question the same reply again; each reply is counted once.
    """

    predictions: list[Prediction]
    judge_replies: Mapping[PredictionKey, str]
    repeated: int


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
        rows: The rows of the files.
        questions: The questions that they may answer.
        find: A function from the id of a raw row to the id of its question.
        places: The number of each question in the order of the raw files.
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
    """A question for each row.

    Attributes:
        by: What names the questions, in words.
        found: The question of each row.
        needs_proof: Whether the rows have to confirm it; what they state may never contradict it.
        is_order: Whether it is a number or an order, which a wrong file may have too.
    """

    by: str
    found: Sequence[Question]
    needs_proof: bool = True
    is_order: bool = False


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
