"""MMMU's own rules: which letter a reply to a multiple-choice question gives, and whether an open answer is right.

A reply from which no letter can be read is scored by chance: the official code draws one of the letters. These
functions say `RANDOM` in its place. MedEvalKit takes the same rules for letters on the content of answer tags or of a
box. By lmms-eval's rules, letters need no blank in front of them, and open answers are never right.

Source: MMMU-Benchmark/MMMU@bb0b95a, mmmu/utils/eval_utils.py:10-220; alibaba-damo-academy/MedEvalKit@9b12e3b,
utils/MMMU/eval_utils.py:10-69; EvolvingLMMs-Lab/lmms-eval@75571cf, lmms_eval/tasks/_task_utils/mmmu_mcq_utils.py:16-68
and lmms_eval/tasks/mmmu/utils.py:176-195, 293-360.
"""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence

from medtune.benchmarks.medical_kits.medevalkit_answer import boxed, tagged

RANDOM = "random"
"""What stands for the letter that a rule would draw at random."""
SHORT_REPLY_WORDS = 5
"""The largest number of words of a reply in which the words of options are not looked for."""
_EDGES = (",", ".", "!", "?", ";", ":", "'")
_CUES = ("could be ", "so ", "is ", "thus ", "therefore ", "final ", "answer ", "result ")
_EMPTY_TAILS = frozenset(":,.!?;'")
_NUMBERS = (
    re.compile(r"-?\b\d{1,3}(?:,\d{3})+\b"),
    re.compile(r"-?\d+(?:\.\d+)?[eE][+-]?\d+"),
    re.compile(r"-?(?:\d+\.\d+|\.\d+|\d+\b)(?![eE][+-]?\d+)(?![,\d])"),
)
Said = str | float
"""A piece of an open answer: a number rounded to two decimals, or text in lower case."""


def letter(reply: str, options: Mapping[str, str]) -> str:
    """Returns the letter that the official code reads from a reply, or "random" where it draws one.

    Letters in brackets come first, then letters between blanks, then, in a reply of more than five words, the options'
    words. Of several that the reply holds, the last counts.

    >>> options = {"A": "cyst", "B": "tumour"}
    >>> [letter(reply, options) for reply in ("A.", "The answer is (B).", "A or B", "b", "B) tumour", "tumour")]
    ['A', 'B', 'B', 'random', 'random', 'random']
    """
    text = f" {without_edges(reply)} "
    return last_named(text, (lambda sign: f"({sign})", lambda sign: f" {sign} "), options)


def letter_in_medevalkit(reply: str, options: Mapping[str, str]) -> str:
    r"""Returns the letter that MedEvalKit reads: the official rule on what stands in answer tags or else in a box.

    >>> options = {"A": "cyst", "B": "tumour"}
    >>> [letter_in_medevalkit(reply, options) for reply in ("<answer>B</answer>", r"\boxed{A}")]
    ['B', 'A']
    """
    text = tagged(reply) if "<answer>" in reply else boxed(reply) if r"\boxed" in reply else reply
    return letter(text.strip(), options)


def without_edges(reply: str) -> str:
    """Returns a reply without the punctuation at its ends, which is taken off one kind after the other."""
    for character in _EDGES:
        reply = reply.strip(character)
    return reply


def last_named(text: str, forms: Sequence[Callable[[str], str]], options: Mapping[str, str]) -> str:
    """Returns the letter that stands last in a text, in the first of the forms in which any stands there.

    Args:
        text: The text, with a blank at both ends.
        forms: Functions that write a letter as it may stand in the text.
        options: The options by their letters, whose words are looked for last.
    """
    for form in forms:
        places = {sign: text.rfind(form(sign)) for sign in options if form(sign) in text}
        if places:
            return first_largest(places)
    if len(text.split()) > SHORT_REPLY_WORDS:
        words = text.lower()
        places = {sign: words.rfind(option.lower()) for sign, option in options.items() if option.lower() in words}
        if places:
            return first_largest(places)
    return RANDOM


def first_largest(places: Mapping[str, int]) -> str:
    """Returns the letter with the largest place, the first of several in the order of the options."""
    return max(places, key=places.__getitem__)


def open_pieces(reply: str) -> list[Said]:
    """Returns what the official code takes for the answer in a reply to an open question, sorted as text.

    Of each line that holds words such as "is" or "therefore", the shortest rest behind one of them is taken, and the
    numbers in it; without such a line, the whole reply.

    >>> open_pieces("The result is 1,500."), open_pieces("C"), open_pieces("left lung")
    ([1500.0, 500.0], [' c', 'c '], ['left lung'])
    """
    text = reply.strip().strip(".").lower()
    lines = text.split("\n")
    tails = [_tail(line, is_last=number == len(lines)) for number, line in enumerate(lines, start=1)]
    kept = [tail for tail in tails if tail and tail not in _EMPTY_TAILS] or [text]
    numbers = [found[0] for tail in kept for pattern in _NUMBERS for found in pattern.finditer(tail)]
    return sorted({piece for said in (*kept, *numbers) for piece in _normalised(said)}, key=str)


def open_is_right(truths: str | Sequence[str], pieces: Iterable[Said]) -> bool:
    """Returns whether one of the pieces of an answer is right: a true text stands in it, or it equals a true number.

    >>> open_is_right("2", open_pieces("It is 2")), open_is_right("lung", open_pieces("not the left lung"))
    (True, True)
    """
    wanted = [piece for truth in ([truths] if isinstance(truths, str) else truths) for piece in _normalised(truth)]
    words = [truth for truth in wanted if isinstance(truth, str)]
    return any(
        any(truth in piece for truth in words) if isinstance(piece, str) else piece in wanted for piece in pieces
    )


def _tail(line: str, *, is_last: bool) -> str:
    shortest = ""
    for cue in (*_CUES, "=") if is_last else _CUES:
        _, found, rest = line.rpartition(cue)
        if found and (not shortest or len(rest.strip()) < len(shortest)):
            shortest = rest.strip()
    return shortest


def _normalised(text: str) -> list[Said]:
    said = text.strip()
    try:
        return [round(float(said.replace(",", "")), 2)]
    except ValueError:
        said = said.lower()
        return [f" {said}", f"{said} "] if len(said) == 1 else [said]


def lmms_letter(reply: str, options: Mapping[str, str]) -> str:
    """Returns the letter that lmms-eval reads from a reply, or "random" where it draws one.

    Brackets count first, then a letter in front of a blank, even at the end of a word, then a letter in front of a full
    stop. Of several letters the one that stands last between blanks counts; where none does, the first option's.

    >>> options = {"A": "cyst", "B": "tumour", "C": "none"}
    >>> [lmms_letter(reply, options) for reply in ("B. tumour", "mri OF A scan", "B.C. or A.D.", "b")]
    ['B', 'A', 'A', 'random']
    """
    text = f" {without_edges(reply)} "
    bracketed = {sign: text.rfind(f"({sign})") for sign in options if f"({sign})" in text}
    if bracketed:
        return first_largest(bracketed)
    for mark in (" ", "."):
        places = {sign: text.rfind(f" {sign} ") for sign in options if f"{sign}{mark}" in text}
        if places:
            return first_largest(places)
    return last_named(text, (), options)


def open_accuracies(truths: str | Sequence[str], reply: str) -> list[float]:
    """Returns the values that the score of an open answer can take, which depends on the order of a set of texts.

    The code keeps one piece of the answer, as text, and then compares the truth with each of its characters. No truth
    is a single character after the rule has put a blank beside it.

    >>> open_accuracies("B", "B"), open_accuracies("left lung", "left lung")
    ([0.0], [0.0])
    """
    return sorted({float(open_is_right(truths, str(piece))) for piece in open_pieces(reply)})
