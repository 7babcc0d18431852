r"""Reads the chosen option from a reply by fixed rules, which never guess.

Thoughts before the answer (<think> blocks) do not count, nor does what follows a stop token. Of a reply that corrects
itself ("Wait, ...") what follows counts where it chooses an option. Of letters in a contrast ("not B but C") the one
that is kept counts. The first of these rules that applies decides:

1. The reply is an option, or its letter, but for case, white space, quotes, brackets, markdown and punctuation.
   An option's own words come before letters; letters count the options in the order shown.
2. The reply marks its answer: <answer>B</answer>, \boxed{B}, {"answer": "B"}. Each mark is read by the other rules.
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
10. A short reply names one option by its place, number or stem, or without its generic noun: see `option_names`.

Within a rule all statements have to agree, and where an option's words follow a letter directly, they have to be that
letter's option. Words of an option that look like letters ("E. coli", "A,B") are read as its words. A question ("is the
answer B?") is no statement. A hyphen inside a word counts as a space everywhere: "upper-left" is "upper left".

A reply that is ambiguous, contradictory or negated gives None, which counts as wrong and as unparsable.
"""

import re
from functools import lru_cache
from string import ascii_uppercase

from medtune.data.types import Question
from medtune.eval.scoring.parsers import choice_statements as statements
from medtune.eval.scoring.parsers.choice_statements import (
    NEGATION,
    after_thoughts,
    marked_answers,
    plain_characters,
    without_emphasis,
)
from medtune.eval.scoring.parsers.option_names import UNDECIDED, named, stems

_EDGE = " …\t\r\n\"'`´‘’“”«»*_#.,:;!?()[]{}<>|~$\\/→⇒➡✅✔👉\ufe0f。，：！？、"
_SENTENCE = re.compile(r"(?:[^\n.!?\u3002]|[.!?](?!\s|\Z))+[.!?\u3002]*")
_CLAUSE = re.compile(
    r"\s*;\s*|,?\s+(?:but|however|although|though|yet|whereas|while)\b,?|"
    r",\s+(?=(?:it|this|that|there|i|instead|rather)\b)|,\s+(?:so|therefore|thus|hence)\b,?(?!\s+not\b)"
)
_UNABLE = re.compile(
    r"\b(?:(?:i|we|one)\s+(?:do not|don['’]t|can['’]t|cannot|can not)|(?:nobody|no one) can|unable|not able|"
    r"not possible|impossible|insufficient|unclear|not (?:clear|sure|certain|enough)|more information|"
    r"(?:cannot|can not|can['’]t) (?:\w+ )?(?:be )?(?:determin|tell|say|answer|see|assess|identif|diagnos|judg)\w*)\b"
)
_SHARES = re.compile(r"(?:(?<![\w'’])[A-Z][).\]]?\s*[:=(–-]?\s*\d+(?:[.,]\d+)?\s*%.*?){2}", re.S)
"""Letters of several options, each with its share of all: "A: 20%, B: 50%"."""
# In a text to be searched, these characters for private use stand for the words of the options.
_FIRST_PLACE = 0xF0000
_PLACE = re.compile("[\U000f0000-\U000ffffd]")
_WORD_BEFORE = r"(?:(?:the|a|an|in|at|on|of|to)\s+)*"
_CONTRASTS = (
    re.compile(
        rf"(?P<kept>{_PLACE.pattern})(?:\s*\([a-z]\)|\s+(?!is\b|are\b|was\b|it\b|or\b)[a-z]+)?\s*[,(]?\s*(?:and\s+|but\s+|with\s+)?"
        rf"(?:not|no|rather than|instead of|without|(?:is\s+)?more \w+ than|>)\s+{_WORD_BEFORE}"
        rf"(?P<denied>{_PLACE.pattern}(?:\s*(?:,|n?or|>)\s+{_WORD_BEFORE}{_PLACE.pattern})*)"
    ),
    re.compile(
        rf"\b(?:rather|sooner|more \w+)\s+(?:say\s+)?{_WORD_BEFORE}(?P<kept>{_PLACE.pattern})\s+than\s+{_WORD_BEFORE}"
        rf"(?P<denied>{_PLACE.pattern})"
    ),
    re.compile(
        rf"\bnot\s+{_WORD_BEFORE}(?P<denied>{_PLACE.pattern})(?:\s+[a-z]+)?\s*(?:,?\s*but\s+(?:rather\s+)?|,\s+(?=(?:an?|the)\s)){_WORD_BEFORE}"
        rf"(?P<kept>{_PLACE.pattern})"
    ),
)
_CONCEDED = re.compile(r"\b(?:(?:even )?though|although|while|despite)\b[^,.;]*,")
_LACKS = re.compile(rf"(?<={_PLACE.pattern} )\s*\((?:no|without) [^()]*\)")
_JOINED = re.compile(
    rf"(?P<before>\w+)(?:\s*/\s*|\s+(?:and|or|to)\s+){_WORD_BEFORE}(?P<place>{_PLACE.pattern})|"
    rf"(?P<first>{_PLACE.pattern})(?:\s*/\s*|\s+(?:and|or|to)\s+){_WORD_BEFORE}(?P<behind>\w+)"
)
SURELY = re.compile(
    r"\b(?:there(?:['’]s| is) )?(?:no (?:doubt|question)|without (?:a |any )?doubt)(?: (?:that|about it))?,?"
)
_OR = re.compile(rf"\w\s+or\s+{_WORD_BEFORE}{_PLACE.pattern}|{_PLACE.pattern}\s+or\s+\w")
_SUSPECTED = re.compile(rf"\b(?:history of|rule out|exclude)\s+{_WORD_BEFORE}{_PLACE.pattern}")
_ASIDE = re.compile(
    r",?\s+(?:which|who|whose|because|since|as (?:it|this|the)|that (?:may|might|could|can))\b|,\s+\w+ing\b"
)
"""Where a sentence goes on about what it has named."""
_MOST_BETWEEN = 5
"""Words that leave open which option it is stand at most so many words before or behind one (our own choice)."""
_CHANCE_OF = re.compile(
    r"\b(?:probability|likelihood|chances?|odds|risk) (?:of|for|that it is) (?:option )?\(?[A-Z]\)?(?!\w)", re.I
)
_KEPT_TEXTS = 10_000
_PREFIX = re.compile(
    r"\b(pre|post|trans|peri|sub|semi|pseudo|infra|supra|intra|extra|retro|non|hypo|hyper)[-‐‑– ](?=\w)"
)
"""What makes another word of the one behind it: "pre-malignant" is not "malignant"."""


def worded(text: str, options: tuple[str, ...]) -> set[str] | None:
    """Returns the options whose words stand in sentences that neither negate nor ask; None if there are none.

    Of a contrast ("benign, not malignant", "not benign but malignant") the option that is kept counts.

    If another sentence denies such an option, or says that the question cannot be answered, the result is None too.
    """
    told, denied = set[int](), set[int]()
    said = _with_places(text, options)
    for contrast in _CONTRASTS:
        denied |= {place for found in contrast.finditer(said) for place in _places(found["denied"])}
        said = contrast.sub(r"\g<kept>", said)
    conceded = _CONCEDED.sub(" ", said)
    said = SURELY.sub(" ", _LACKS.sub("", conceded if _PLACE.search(conceded) else said))
    if any(_is_joined_to_another(found, options) for found in _JOINED.finditer(said)):
        return None
    for sentence in (clause for whole in _SENTENCE.findall(said) for clause in _CLAUSE.split(whole)):
        places = _places(sentence)
        is_denied = NEGATION.search(sentence) is not None
        if not places and _UNABLE.search(sentence):
            return None
        if places and _leaves_open(sentence):
            continue
        if not sentence.rstrip().endswith("?"):
            (denied if is_denied else told).update(places)
    words = [plain_words(option) for option in options]
    if not told and len(denied) == len(set(words)) - 1 > 1:
        told = set(range(len(words))) - denied
    found = {option for option in options if words.index(plain_words(option)) in told}
    return found if found and not told & denied else None


def _places(text: str) -> set[int]:
    return {ord(character) - _FIRST_PLACE for character in _PLACE.findall(text)}


def _is_joined_to_another(found: re.Match[str], options: tuple[str, ...]) -> bool:
    """Returns whether a word joined to an option by "and", "or" or "to" is, by its stem, one of another option only."""
    own = set(stems(plain_words(options[_places(found["place"] or found["first"]).pop()])))
    word = stems(found["before"] or found["behind"])
    others = {stem for option in options for stem in stems(plain_words(option))} - own
    return bool(word) and set(word) <= others


def _leaves_open(sentence: str) -> bool:
    if _SUSPECTED.search(sentence) or (_OR.search(sentence) and not NEGATION.search(sentence)):
        return True
    main = _ASIDE.split(sentence)[0]
    main = main if _PLACE.search(main) else sentence
    spans = [(each.span(), found.span()) for each in _PLACE.finditer(main) for found in UNDECIDED.finditer(main)]
    return any(len(main[min(a[1], b[1]) : max(a[0], b[0])].split()) <= _MOST_BETWEEN for a, b in spans)


def names_any(text: str, options: tuple[str, ...]) -> bool:
    return _PLACE.search(_with_places(text, options)) is not None


def begins_with(text: str, options: tuple[str, ...]) -> str | None:
    """Returns the option with whose words a text begins, the longest of several, or None."""
    first = plain_words(text)
    longest_first = sorted(options, key=len, reverse=True)
    return next((each for each in longest_first if (words := plain_words(each)) and _pattern(words).match(first)), None)


@lru_cache(maxsize=_KEPT_TEXTS)
def _with_places(text: str, options: tuple[str, ...]) -> str:
    said = _PLACE.sub(" ", _folded(text))
    on_one_line = " ".join(said.split())
    words = [plain_words(option) for option in options]
    for each in sorted({*words} - {""}, key=lambda each: (-len(each), each)):
        # Options that are numbers often occur only once, and building a pattern takes longer than this search.
        if each in on_one_line:
            said = _pattern(each).sub(f" {chr(_FIRST_PLACE + words.index(each))} ", said)
    return said


@lru_cache(maxsize=_KEPT_TEXTS)
def plain_words(text: str) -> str:
    """Returns a text in lower case with single blanks, without markdown and without punctuation at its ends."""
    return " ".join(re.sub(r"^[-–•]\s+|(?<!\s)\s+[-–—]$", "", _folded(text).strip(_EDGE)).strip(_EDGE).split())


def _folded(text: str) -> str:
    folded = plain_characters(without_emphasis(plain_characters(text)).casefold())
    signed = re.sub(r"\bminus\s+(?=\d)", "-", _PREFIX.sub(r"\1", folded))
    ranged = re.sub(r"(?<=\d)\s*[-‐‑–]\s*(?=\d)", "-", signed)
    return re.sub(r"(?<=[^\W\d])[-‐‑–](?=\w)|(?<=\d)[-‐‑–](?=[^\W\d])", " ", ranged)


@lru_cache(maxsize=_KEPT_TEXTS)
def _pattern(words: str) -> re.Pattern[str]:
    blanks_of_any_kind = re.escape(words).replace("\\ ", r"\s+")
    unsigned = "(?<![-−])" if words[:1].isdigit() else ""
    return re.compile(rf"(?<!\w)(?<!\d[.,]){unsigned}{blanks_of_any_kind}(?!\w|[.,]\d)")


_KEPT_REPLIES = 10_000
_Told = set[str] | None


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
    return reply if reply in question.options else _read(reply, question.options)


@lru_cache(maxsize=_KEPT_REPLIES)
def _read(reply: str, options: tuple[str, ...]) -> str | None:
    told = _whole(reply, options)
    if told is None:
        text = _APART.sub(" ", after_thoughts(plain_characters(reply)))
        marked = [found for each in marked_answers(text) if (found := _told(each, options)) is not None]
        told = set[str]().union(*marked) if marked else _told(text, options)
    return told.pop() if told and len(told) == 1 else None


_HAN = "぀-ヿ㐀-䶿一-鿿"
_AFTER = "です|でし|正确|正確|是正|对|項|项|选项|符合"
_APART = re.compile(
    rf"(?<=[{_HAN}])(?=[A-Z](?:[^\w]|{_AFTER}|\Z)|[A-Za-z]{{2}})|(?<=(?<![A-Za-z])[A-Z])(?={_AFTER})|"
    rf"(?<=[A-Za-z]{{2}})(?=[{_HAN}])"
)
"""Where a word, or a letter that is an option's, stands beside Chinese or Japanese words."""


def _told(text: str, options: tuple[str, ...]) -> _Told:
    corrected = statements.after_correction(text)
    told = _whole(text, options) or (_told(corrected, options) if corrected else None)
    if told:
        return told
    said, n = statements.without_contrast(without_emphasis(text).strip()), len(options)
    told = _plainly(said, options)
    if told is None or len(told) > 1:
        told = _options(statements.preferred(said, n), options) or told
    if told is None and not any(each.search(said.lower()) for each in (_UNABLE, UNDECIDED, _ASKS)):
        words = {plain_words(option): option for option in options}
        name = named(_plain_prose(said), tuple(map(plain_words, options)))
        told = {words[name]} if name in words else None
    return told


_SIGNS = {">": "more than ", "<": "less than ", "≥": "at least ", ">=": "at least "}
_COMPARED = re.compile(r"(>=|[<>≥])\s*(?=\d)")


def _plain_prose(text: str) -> str:
    text = _COMPARED.sub(lambda sign: _SIGNS[sign[1]], text)
    return " ".join(re.sub(r"[^\w\s'’+<>≥?.,-]|[.,](?!\d)", " ", plain_words(text)).split())


def _plainly(said: str, options: tuple[str, ...]) -> _Told:
    n = len(options)
    for pattern in (statements.FINAL_ANSWER, statements.ANSWER):
        told = _stated(pattern, said, options)
        if told is not None:
            return told or _options(statements.chosen(said, n), options) or told
    if _SHARES.search(said) and not any("%" in option for option in options):
        return None
    first, end = statements.leading(said, n)
    if first is not None and len(first) <= 1:
        return _unless_contradicted(first, said, end, options)
    told = _options(statements.chosen(said, n), options)
    if told is not None or first is not None:
        return told
    line, end = statements.single_line(said, n)
    if line is not None:
        return _unless_contradicted(line, said, end, options)
    told = _options(statements.mentioned(_CHANCE_OF.sub(" ", said), n), options)
    return worded(said, options) if told is None else told


_ASKS = re.compile(r"[?？]\W*\Z")


def _whole(text: str, options: tuple[str, ...]) -> _Told:
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
    for statement in pattern.finditer(text):
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
            if names_any(sentence, options) or statements.NEGATION.search(sentence):
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
    return statements.NEGATION.search(statements.clause_before(text, start)) is not None


def _unless_contradicted(told: set[int], text: str, end: int, options: tuple[str, ...]) -> set[str]:
    named = {options[place] for place in told}
    if len(named) != 1:
        return named
    words = begins_with(statements.words_after(text, end), options)
    return named if words is None or {plain_words(each) for each in named} == {plain_words(words)} else named | {words}


def _options(told: set[int] | None, options: tuple[str, ...]) -> _Told:
    return None if told is None else {options[place] for place in told}


def _by_letter(letter: str, options: tuple[str, ...]) -> str | None:
    index = ascii_uppercase.find(letter.upper())
    return options[index] if 0 <= index < len(options) else None
