r"""Reads the chosen option from a reply by fixed rules, which never guess.

Thoughts before the answer (<think> blocks) do not count, nor does what follows a stop token. Of a reply that corrects
itself ("Wait, ...") what follows counts where it chooses an option. What a model asks itself behind its answer does not
count. Medical things, grades of a scale and denials are first written with the options' own words (`medical_names`,
`graded_options`, `acronyms`): "PTX" is "pneumothorax", "category III" is "BI-RADS 3", "sem edema" is "no edema". Of
letters in a contrast ("not B but C") the one
that is kept counts. The first of these rules that applies decides:

1. The reply is an option, or its letter, but for case, white space, quotes, brackets, markdown and punctuation.
   An option's own words come before letters; letters count the options in the order shown.
2. The reply marks its answer: <answer>B</answer>, <choice>B</choice>, \boxed{B}, {"answer": "B"}. Each mark is read by
   the other rules. Without marks the form of the reply decides: a tick, a bold option in a list, an arrow, "1. B"
   (`listed_choices`).
3. The reply says which it is with the words "final answer": "Final Answer: **C**".
4. The reply says which it is with the word "answer" or its like: "Answer: B", "the answer is (B)", "the answer is
   benign", "the correct option is B".
5. The reply begins with a letter: "A. ...", "(A) ...", "A: ...", "A" on a line of its own. Lines of letters that follow
   may explain the options; a list of all options alone names none.
6. The reply chooses in other words: "I choose B", "B is correct", "therefore B".
7. One line of the reply begins with a letter, and no other line begins with another one.
8. The reply mentions "option B" or "(B)" without rejecting it. Of several, those count that it calls correct, best,
   most likely or the like.
9. The sentences of the reply hold the words of exactly one option, found longest first and at word boundaries
   ("center left" is not "center", "1.5" is not "1"). Sentences that negate ("non-benign" does) or leave it open ("could
   be", "a probability of 50%"), outside of an option's own words, and questions do not count, except for what is kept
   in a contrast ("benign, not malignant"); a reply that denies the option elsewhere or cannot answer names none. If all
   options but one of three or more are denied, that one is chosen.
10. A short reply names one option by its place, number or stem, or without its generic noun: see `option_names`. A
   longer one counts or measures what the options do, has the words of one option in another order, or ends with one.

Within a rule all statements have to agree, and where the words behind a letter name an option, it has to be that
letter's ("A. The lesion is malignant." names none where A is another one); so it does where the letter stands behind
the words ("malignant (A)"). What is said of an option in passing does
not count: "benign, although malignant cannot be excluded". Words of an option that look like letters ("E. coli", "A,B")
are read as its words. A question ("is the answer B?") is no statement. A hyphen inside a word counts as a space
everywhere: "upper-left" is "upper left".

A reply that is ambiguous, contradictory or negated gives None, which counts as wrong and as unparsable.
"""

import re
from functools import lru_cache, partial
from string import ascii_uppercase
from typing import TypeVar

from medtune.data.types import Question
from medtune.eval.scoring.parsers import choice_statements as statements
from medtune.eval.scoring.parsers import listed_choices
from medtune.eval.scoring.parsers.acronyms import spelt_as_options
from medtune.eval.scoring.parsers.answer_words import NEGATION
from medtune.eval.scoring.parsers.choice_statements import (
    after_thoughts,
    marked_answers,
    plain_characters,
    without_emphasis,
)
from medtune.eval.scoring.parsers.graded_options import graded_as_options
from medtune.eval.scoring.parsers.noted_rules import is_noting, note, note_nothing_found
from medtune.eval.scoring.parsers.option_names import (
    UNDECIDED,
    are_counts,
    counted_option,
    described,
    named,
    stems,
    without_sizes,
)
from medtune.eval.scoring.parsers.worded_options import (
    SUPPOSED,
    UNABLE,
    begins_with,
    names_any,
    only_in_passing,
    other_letter_behind,
    plain_words,
    worded,
)

_SHARES = re.compile(r"(?:(?<![\w'’])[A-Z][).\]]?\s*[:=(–-]?\s*\d+(?:[.,]\d+)?\s*%.*?){2}", re.S)
"""Letters of several options, each with its share of all: "A: 20%, B: 50%"."""
_SHARE = re.compile(
    r"(?<![\w'’])[\"']?([A-Z])[\"').\]]*\s*[:=(–-]?\s*(?:(\d{1,3}(?:[.,]\d{1,9})?)\s*%|(0?\.\d{1,9})(?![\w%]))"
)
_HALF, _ROUNDING = 0.5, 0.02
_CHANCE_OF = re.compile(
    r"\b(?:probability|likelihood|chances?|odds|risk) (?:of|for|that it is) (?:option )?\(?[A-Z]\)?(?!\w)", re.I
)
_KEPT_REPLIES = 10_000
_RULES = {
    1: "the reply is an option, or its letter",
    2: "the reply marks its answer, or its form singles one out",
    3: "it says which it is with the words 'final answer'",
    4: "it says which it is with the word 'answer' or its like",
    5: "it begins with a letter",
    6: "it chooses in other words",
    7: "one line of it begins with a letter",
    8: "it mentions an option's letter without rejecting it, or calls one best",
    9: "its sentences hold the words of one option",
    10: "a short reply names one option by its place, number or stem",
}
"""The rules of this module in short, as `medtune explain` names them."""
_Told = set[str] | None
_Read = TypeVar("_Read")

_NOUN_BEFORE = re.compile(rf"\A\W*{statements.NOUN}\s*(?=[(\[]?[A-Z](?![\w'’]))", re.I)
_TWO_LETTERS = re.compile(r"\s*[(\[]?([A-Z])[)\]]?\s*[:-]\s*[(\[]?([A-Z])[)\]]?\W*")
"""A letter behind another, which may be the word "answer" or an option itself: "A: B"."""
_HAN = "぀-ヿ㐀-䶿一-鿿가-힣"
_AFTER = "です|でし|입니다|이다|正确|正確|是正|对|項|项|选项|符合"
_APART = re.compile(
    rf"(?<=[{_HAN}])(?=[A-Z](?:[^\w]|{_AFTER}|\Z)|[A-Za-z]{{2}})|(?<=(?<![A-Za-z])[A-Z])(?={_AFTER})|"
    rf"(?<=[A-Za-z]{{2}})(?=[{_HAN}])"
)
"""Where a word, or a letter that is an option's, stands beside Chinese or Japanese words."""
_FEW_WORDS = 4
_LAST_SENTENCE = re.compile(r"[.!]\s+(?P<item>[^.!?\n]{2,60})[.!]?\s*\Z")
_OF_A_KIND = re.compile(r"\b(?:would|usually|typically|generally|often|tends?|commonly|classically|can|if)\b")
_IN_BRACKETS = re.compile(r"\([^()]*\)")
_CAPITAL = re.compile(r"(?<![\w'’])[A-HJ-Z](?![\w'’])")
_CONCLUDED = re.compile(
    r"(?:\A|[.!?;\n])\s*(?i:so|therefore|thus|hence|overall|in (?:summary|conclusion)|conclusion|final(?:ly)?|"
    r"verdict|also|somit|"
    r"daher|fazit|donc|conclusion|quindi|por (?:lo )?tanto|portanto|итак|вывод|结论|因此|所以|結論)"
    r"\s*[:,：，]\s*(?:(?i:it(?:['’]s| is)|the|on the|in the)\s+){0,2}(?P<item>[^\n.:;]{1,80})[.!]?\s*\Z"
)
"""What a reply ends with behind a word of conclusion: "So: right."."""
_NOT_ANOTHER = re.compile(r",\s+(?:and\s+)?not\s+(?:the\s+|an?\s+)?(?P<other>[\w ]{1,40})\W*\Z")
_SIGNS = {">": "more than ", "<": "less than ", "≥": "at least ", ">=": "at least "}
_COMPARED = re.compile(r"(>=|[<>≥])\s*(?=\d)")
_LETTER_IN_FRONT = re.compile(r"\W*([B-HJ-Z])\s+(?=\w)")
_ASKS = re.compile(r"[?？]\W*\Z")
_SENTENCE_END = re.compile(r"(?<=[.!?])\s|\n")
_OTHER_LETTER = re.compile(
    r"\b(?i:options?|choices?)\s+[(\[]?[A-Za-z]\b|[(\[][A-Za-z][)\]]|(?<![\w'’])[B-HJ-Z](?![\w'’])"
)


def parse_choice_strict(reply: str, question: Question) -> str | None:
    """Returns the option that the reply is, character by character, or whose capital letter it is; else None."""
    if reply in question.options:
        return reply
    return _by_letter(reply, question.options) if len(reply) == 1 and reply.isupper() else None


def parse_choice(reply: str, question: Question) -> str | None:
    """Returns the option that the reply chooses by the rules of this module; None if they find no single option.

    >>> asked = Question("q", "m", "Where?", ("center", "center left", "not visible"), "center", "choice", "p")
    >>> [parse_choice(reply, asked) for reply in ("**Center left**.", "B", "Answer: (C)", "in the center left")]
    ['center left', 'center left', 'not visible', 'center left']
    >>> [parse_choice(reply, asked) for reply in ("center or center left", "not the center", "A. center left", "")]
    [None, None, None, None]
    >>> parse_choice("<think>A or B?</think> C. Option B is less likely.", asked)
    'not visible'
    """
    if reply in question.options:
        return _by(1, reply)
    # A reply that is remembered would note no rule.
    told = (_read.__wrapped__ if is_noting() else _read)(reply, question.options)
    if told is None:
        note_nothing_found()
    return told


def _by(rule: int, told: _Read) -> _Read:
    if told is not None:
        note(f"rule {rule}: {_RULES[rule]}")
    return told


@lru_cache(maxsize=_KEPT_REPLIES)
def _read(reply: str, options: tuple[str, ...]) -> str | None:
    told = _by(1, _option_that_it_is(reply, options))
    if told is None:
        text = _APART.sub(" ", after_thoughts(listed_choices.ARROW.sub("→", plain_characters(reply))))
        text = statements.BRACKETED_ANSWER.sub(r"\1: ", text)
        text = graded_as_options(spelt_as_options(text, options), options)
        name = partial(_item, options=options)
        marked = [
            found
            for each in dict.fromkeys(marked_answers(text))
            if (found := _chosen_options(each, options)) is not None
        ]
        if marked:
            told = _by(2, _and_words_behind(set[str]().union(*marked), text, options))
        elif (told := _by(2, listed_choices.listed(text, name, options))) is None:
            told = _unlisted(listed_choices.unnumbered(listed_choices.without_tags(text), name), name, options)
        told = set() if other_letter_behind(text, options) else told
    return told.pop() if told and len(told) == 1 else None


def _unlisted(text: str, name: listed_choices.Named, options: tuple[str, ...]) -> _Told:
    if (option := name(text)) is not None:
        return _by(1, {option})
    if (letters := _TWO_LETTERS.fullmatch(text)) and all(_by_letter(each, options) for each in letters.groups()):
        return set()
    told = listed_choices.pointed_at(text, name, lambda said: names_any(said, options))
    return _by(2, told or listed_choices.result(text, name)) or _chosen_options(text, options)


def _item(text: str, options: tuple[str, ...]) -> str | None:
    """Returns the option that an item of a list is: its letter, its words, or both if they belong together."""
    text = _NOUN_BEFORE.sub("", without_emphasis(text))
    if (told := _option_that_it_is(text, options)) is not None:
        return next(iter(told), None)
    letter = re.match(r"\s*[(\[]?([A-Z])[)\].:]*\s+(?=\S)", text)
    option = _by_letter(letter[1], options) if letter else None
    return option if letter and option and plain_words(option) == plain_words(text[letter.end() :]) else None


def _and_words_behind(told: set[str], text: str, options: tuple[str, ...]) -> set[str]:
    """Returns the marked options, with another one whose words stand behind the mark."""
    behind = re.search(r"</[^<>\n]{1,40}>(?P<said>[^<>]*)\Z", text)
    return told | (worded(behind["said"], options) or set()) if behind and len(told) == 1 else told


def _chosen_options(text: str, options: tuple[str, ...]) -> _Told:
    corrected = statements.after_correction(text)
    told = _by(1, _option_that_it_is(text, options)) or (_chosen_options(corrected, options) if corrected else None)
    if not told and (concluded := _CONCLUDED.search(text[-statements.LONGEST_SENTENCE :])) is not None:
        told = _by(6, _option_that_it_is(concluded["item"], options))
    if told:
        return told
    said, n = statements.without_contrast(without_emphasis(text).strip()), len(options)
    if are_counts(options) and not _CAPITAL.search(said) and not UNDECIDED.search(said.lower()):
        said = without_sizes(said)
        if (counted := counted_option(_plain_prose(said), options)) is not None:
            return _by(10, {counted})
    told = _plainly(said, options)
    if told is None or len(told) > 1:
        told = _by(8, _options(statements.preferred(said, n), options)) or told
    small = said.lower()
    is_open = any(each.search(small) for each in (UNABLE, UNDECIDED, _ASKS)) or SUPPOSED.match(small) is not None
    is_open = is_open or only_in_passing(said, options)
    if told is None and not is_open:
        words = {plain_words(option): option for option in options}
        name = _option_named_otherwise(said, tuple(words))
        told = _by(10, {words[name]}) if name in words else None
        if told is None and (other := _described(said, options) or counted_option(said.lower(), options)) is not None:
            told = _by(10, {other})
    if told is None and (last := _last_words(said, options)) is not None:
        told = _by(10, {last})
    return told


def _last_words(said: str, options: tuple[str, ...]) -> str | None:
    """Returns the option that the last sentence is but for a generic noun, in a reply without letters and questions."""
    last = _LAST_SENTENCE.search(said)
    if last is None or len(last["item"].split()) > _FEW_WORDS or _CAPITAL.search(said) or "?" in said:
        return None
    words = {plain_words(option): option for option in options}
    item = _plain_prose(last["item"])
    option = named(item, tuple(words))
    return words[option] if option is not None and {*stems(item)} <= {*stems(option), "the"} else None


def _described(said: str, options: tuple[str, ...]) -> str | None:
    """Returns the one option whose words a sentence has in another order, outside of brackets."""
    if _CAPITAL.search(said) or "?" in said:
        return None
    words = {plain_words(option): option for option in options}
    found = {
        name
        for sentence in _SENTENCE_END.split(_IN_BRACKETS.sub(" ", said))
        if not _OF_A_KIND.search(sentence) and (name := described(_plain_prose(sentence), tuple(words))) is not None
    }
    return words[found.pop()] if len(found) == 1 else None


def _option_named_otherwise(said: str, words: tuple[str, ...]) -> str | None:
    """Returns the words of the option that a short text names otherwise, also beside another that it denies."""
    other = _NOT_ANOTHER.search(said)
    if other and named(_plain_prose(other["other"]), words) is not None:
        said = said[: other.start()]
    return named(_plain_prose(said), words)


def _plain_prose(text: str) -> str:
    text = _COMPARED.sub(lambda sign: _SIGNS[sign[1]], text)
    return " ".join(re.sub(r"[^\w\s'’+<>≥?.,-]|[.,](?!\d)", " ", plain_words(text)).split())


def _plainly(said: str, options: tuple[str, ...]) -> _Told:
    n = len(options)
    for rule, pattern in ((3, statements.FINAL_ANSWER), (4, statements.ANSWER)):
        told = _by(rule, _stated(pattern, said, options))
        if told is not None:
            return told or _options(statements.chosen(said, n), options) or told
    if not any("%" in option for option in options):
        shares = _shares(said)
        likely = [letter for letter, share in shares.items() if share > _HALF]
        if len(shares) > 1 and likely and sum(shares.values()) <= 1 + _ROUNDING:
            return {option for letter in likely if (option := _by_letter(letter, options))}
        if _SHARES.search(said):
            return None
    first, end = statements.leading(said, n)
    if first is not None and len(first) <= 1:
        return _by(5, _unless_contradicted(first, said, end, options))
    places = statements.chosen(said, n)
    if places is not None or first is not None:
        return _by(6, _unless_denied_behind(places, said, options))
    line, end = statements.single_line(said, n)
    if line is not None:
        return _by(7, _unless_contradicted(line, said, end, options))
    places = statements.mentioned(_CHANCE_OF.sub(" ", said), n)
    if places is not None:
        return _by(8, _unless_denied_behind(places, said, options))
    told = _by(9, worded(said, options))
    # "A" alone in front of words is an article.
    letter = _LETTER_IN_FRONT.match(said) if told else None
    own = _by_letter(letter[1], options) if letter else None
    return {own, *told} if told and own else told


def _shares(said: str) -> dict[str, float]:
    """Returns the share of all that a reply gives to each letter: "A: 20%, B: 80%" or {"A": 0.2, "B": 0.8}."""
    found = _SHARE.findall(said[: statements.LONGEST_SENTENCE])
    return {
        letter: float(percent.replace(",", ".")) / 100 if percent else float(share) for letter, percent, share in found
    }


def _unless_denied_behind(told: set[int] | None, text: str, options: tuple[str, ...]) -> _Told:
    """Returns the options told, with another one whose words stand behind the last letter of a single one."""
    if told is None or len(told) != 1:
        return _options(told, options)
    letters = list(re.finditer(rf"(?<![\w'’]){ascii_uppercase[min(told)]}(?![\w'’])", text))
    return _unless_contradicted(told, text, letters[-1].end(), options) if letters else _options(told, options)


def _option_that_it_is(text: str, options: tuple[str, ...]) -> _Told:
    plain = "" if _ASKS.search(text) else plain_words(text)
    equal = {option for option in options if plain and plain_words(option) == plain}
    if equal:
        return equal
    if len(plain) == 1 and plain.upper() in ascii_uppercase:
        option = _by_letter(plain, options)
        return set() if option is None else {option}
    return None


def _stated(pattern: re.Pattern[str], text: str, options: tuple[str, ...]) -> _Told:
    found: list[set[str]] = []
    every = list(pattern.finditer(text))
    # A reply that repeats itself is read at its beginning and at its end.
    half = statements.MOST_STATEMENTS // 2
    for statement in every if len(every) <= 2 * half else every[:half] + every[-half:]:
        if statements.is_asked(text, statement.start()) or statements.is_of_another(text, statement.start()):
            continue
        letters = statements.letters_at(text, statement.end(), len(options))
        spelled = _spelled(text, statement.end(), options) if letters else set()
        if spelled:
            found.append(set() if _is_denied(text, statement.start()) else spelled)
        elif letters:
            told = letters[0]
            words = begins_with(statements.words_after(text, letters[1]), options)
            if len(told) == 1 and words == options[min(told)]:
                # The option's own words may sound like doubts.
                is_negated = _is_denied(text, statement.start())
            else:
                is_negated = statements.is_negated(text, statement.start(), letters[1])
            found.append(_unless_contradicted(set() if is_negated else told, text, letters[1], options))
        elif statement["says"]:
            sentence = statements.sentence_after(text, statement.end())
            if names_any(sentence, options) or NEGATION.search(sentence):
                clause = statements.clause_before(text, statement.start())
                found.append(worded(f"{clause} {sentence}", options) or set())
    return set[str]().union(*found) if found else None


def _spelled(text: str, start: int, options: tuple[str, ...]) -> set[str]:
    line = text[start : start + statements.LONGEST_SENTENCE].partition("\n")[0]
    option = begins_with(line, options)
    if option is None or len(plain_words(option)) == 1:
        return set()
    rest = plain_words(line)[len(plain_words(option)) :]
    return {option} | {other for other in options if names_any(rest, (other,))}


def _is_denied(text: str, start: int) -> bool:
    return NEGATION.search(statements.clause_before(text, start)) is not None


def _unless_contradicted(told: set[int], text: str, end: int, options: tuple[str, ...]) -> set[str]:
    told_option = {options[place] for place in told}
    if len(told_option) != 1:
        return told_option
    behind = statements.words_after(text, end)
    words = begins_with(behind, options)
    if words is not None and not only_in_passing(behind, options):
        return (
            told_option
            if {plain_words(each) for each in told_option} == {plain_words(words)}
            else told_option | {words}
        )
    said = text[end : end + statements.LONGEST_SENTENCE]
    # What is said of other letters explains why they are not it.
    own = " ".join(each for each in _SENTENCE_END.split(said) if not _OTHER_LETTER.search(each))
    other = worded(own, options, beside_another=True)
    if other is not None:
        return told_option if told_option & other else told_option | other
    if (
        not names_any(said, options)
        and (name := _option_named_otherwise(behind, tuple(map(plain_words, options)))) is not None
    ):
        return told_option | {option for option in options if plain_words(option) == name}
    return told_option


def _options(told: set[int] | None, options: tuple[str, ...]) -> _Told:
    return None if told is None else {options[place] for place in told}


def _by_letter(letter: str, options: tuple[str, ...]) -> str | None:
    index = ascii_uppercase.find(letter.upper())
    return options[index] if 0 <= index < len(options) else None
