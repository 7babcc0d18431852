"""Finds which questions a text asks: a question's words may stand anywhere in a prompt."""

import re
from collections.abc import Iterable, Sequence

Words = tuple[str, ...]
_WORD = re.compile(r"\w+")
_MOST = 4


def words_of_text(text: str) -> Words:
    """Returns the words of a text in small letters, without punctuation.

    Example:
        >>> words_of_text("Is it (benign)?Answer")
        ('is', 'it', 'benign', 'answer')
    """
    return tuple(_WORD.findall(text.casefold()))


class QuestionTexts:
    """The texts of questions, found in longer texts by their first words.

    Example:
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
