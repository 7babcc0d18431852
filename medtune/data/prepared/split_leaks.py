"""Finds what is in two splits: patients and images, which are refused or counted, and texts, which are counted."""

from collections.abc import Callable, Collection, Mapping
from typing import NamedTuple

from medtune.data.types import Question, Split


class Leak(NamedTuple):
    """The patients, or the images, that are in two splits."""

    num_names: int
    num_test: int
    one: Question
    other: Question  # Another question about it, in another split.
    name: str  # The patient's hash, or the image's digest.


def split_leaks(
    questions: Collection[Question], media_digest: Mapping[str, tuple[str, ...]], *, keep: bool = False
) -> dict[str, int]:
    """Returns for "patient" and "image" the number of test questions about one that is in another split too.

    A kind that does not occur is left out.

    Args:
        media_digest: The digests of the pixels of the items of every media id.
    """
    names: dict[str, Callable[[Question], tuple[str, ...]]] = {
        "patient": lambda question: (question.patient_id,),
        "image": lambda question: media_digest[question.media_id],
    }
    found = {what: leak for what, of in names.items() if (leak := _leak(questions, of))}
    if found and not keep:
        what, leak = next(iter(found.items()))
        raise ValueError(_refusal(what, leak, sum(question.split == "test" for question in questions)))
    return {what: leak.num_test for what, leak in found.items()}


def repeated_texts(questions: Collection[Question]) -> int:
    """Returns the number of test questions in free words whose answer stands in train as well, word for word.

    Example:
        >>> def question(split: Split, answer: str) -> Question:
        ...     return Question(f"{split} {answer}", "m", "Report?", (), answer, "text", "p", split=split)
        >>> repeated_texts([question("train", "Clear lungs."), question("test", "Clear lungs."), question("test", "?")])
        1
    """
    learnt = {question.answer for question in questions if question.split == "train" and _is_free(question)}
    return sum(q.split == "test" and q.answer in learnt and _is_free(q) for q in questions)


def _is_free(question: Question) -> bool:
    return not question.options and question.answer_kind != "set"


def _leak(questions: Collection[Question], names_of: Callable[[Question], tuple[str, ...]]) -> Leak | None:
    first: dict[str, Question] = {}
    pairs: dict[str, tuple[Question, Question]] = {}
    for question in questions:
        for name in names_of(question):
            earlier = first.setdefault(name, question)
            if earlier.split != question.split:
                pairs.setdefault(name, (earlier, question))
    if not pairs:
        return None
    test: Split = "test"
    num_test = sum(q.split == test and not pairs.keys().isdisjoint(names_of(q)) for q in questions)
    name, (one, other) = next(iter(pairs.items()))
    return Leak(len(pairs), num_test, one, other, name)


def _refusal(what: str, leak: Leak, num_test: int) -> str:
    which = f"image (digest {leak.name[:16]})" if what == "image" else "patient"
    how_many = f"{leak.num_names} {what}{'s are' if leak.num_names > 1 else ' is'}"
    return (
        f"{how_many} in two splits: question {leak.one.id} is in {leak.one.split}, question {leak.other.id} in "
        f"{leak.other.split}, and both are about one {which}. Training would see what {leak.num_test} of {num_test} "
        f"test questions ask. Put all questions about one {what} in one split, or bring no split: then medtune assigns "
        "it. --keep-leaks keeps this split as it is, and every output then states these numbers."
    )
