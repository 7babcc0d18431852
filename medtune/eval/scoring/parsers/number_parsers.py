r"""Reads the one number that a reply states by fixed rules, which never guess.

Thoughts before the answer (<think> blocks) do not count. The rules apply in this order:

1. If the reply marks its answer (<answer>12</answer>, \boxed{12}, {"answer": 12}), only the marked parts count.
2. After the word "answer" only what follows counts; if a number follows directly, nothing but such statements does.
3. A number after "+/-" does not count, nor do numbers attached to letters ("L1"), in fractions ("12/5") and, where
   there are others, of images and the like ("in image 2").
4. A range ("50 to 60", "10-12"), sides of an area ("3 x 4 cm") or alternatives ("4 or 5") give None.
5. Of several numbers, those with the unit of the question count; if they differ or if there are none, those that the
   reply states ("is 12.5", "= 12.5", ": 12.5"). What remains has to be one number.
6. Where there are no digits, the first number in English words counts.

Signs, exponents, a leading dot and digits of every script are understood. A comma separates thousands if one to three
digits, of which the first is not 0, stand before it and exactly three behind it, as in 1,123 and 12,000,000. Any other
comma between digits is a decimal comma, as in 12,5 and 0,123 and 12,50. Points separate thousands where a decimal comma
follows, as in 1.123,5. A reply such as 1,123 that means a little more than one is therefore read as 1123.

Reads numbers that are written in words: "twenty-one", "two hundred and five", and small ones of other languages.
"""

import math
import re
import unicodedata

from medtune.eval.scoring.parsers.choice_statements import after_thoughts, marked_answers, without_emphasis

_WORD = re.compile(r"[a-z]+")
_TEENS = ("ten", "eleven", "twelve", "thirteen", "fourteen", "fifteen", "sixteen", "seventeen", "eighteen", "nineteen")
_UNITS = ("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", *_TEENS)
_TENS = ("twenty", "thirty", "forty", "fifty", "sixty", "seventy", "eighty", "ninety")
_HUNDRED, _THOUSAND = 100, 1000
_WORDS = {word: value for value, word in enumerate(_UNITS)}
_WORDS |= {word: 10 * value for value, word in enumerate(_TENS, start=2)}
_WORDS |= {"hundred": _HUNDRED, "thousand": _THOUSAND}

_BELOW_TEN, _WHOLE_TENS = "|".join(_UNITS[1:10]), "|".join(_TENS)
_BELOW_HUNDRED = rf"(?:(?:{_WHOLE_TENS})(?:[\s-]+(?:{_BELOW_TEN}))?|{'|'.join(_TEENS)}|{_BELOW_TEN})"
_BELOW_THOUSAND = rf"(?:(?:(?:{_BELOW_TEN})[\s-]+)?hundred(?:[\s-]+(?:and\s+)?{_BELOW_HUNDRED})?|{_BELOW_HUNDRED})"
_IN_WORDS = re.compile(
    rf"(?<![\w'])(?:(?:{_BELOW_THOUSAND}[\s-]+)?thousand"
    rf"(?:(?:,\s+(?=\w+[\s-]+hundred)|[\s-]+(?:and\s+)?){_BELOW_THOUSAND})?|{_BELOW_THOUSAND}|"
    r"zero|none)(?![\w'])"
)


def first_number_in_words(text: str) -> tuple[int, int] | None:
    """Returns the start and the value of the first number words in a text of small letters; None if there are none.

    Words that follow one another, with "and" between them or not, are one number.

    >>> first_number_in_words("about two hundred and five lesions"), first_number_in_words("no lesion")
    ((6, 205), None)
    """
    start, run = 0, list[str]()
    for match in _WORD.finditer(text):
        if match[0] in _WORDS:
            start = start if run else match.start()
            run.append(match[0])
        elif run and match[0] != "and":
            break
    return (start, _number_value(run)) if run else None


def with_digits(text: str) -> str:
    """Returns a text of small letters with digits in the place of every number in words; "none" is 0.

    Words are one number only where English joins them: "one, two" and "one two" are two numbers.

    >>> with_digits("twenty-one of one hundred and five"), with_digits("one two, none; bone")
    ('21 of 105', '1 2, 0; bone')
    """

    def digits(found: re.Match[str]) -> str:
        return (
            "0"
            if found[0] == "none"
            else str(_number_value([word for word in _WORD.findall(found[0]) if word != "and"]))
        )

    return _IN_WORDS.sub(digits, text)


def _number_value(words: list[str]) -> int:
    total = current = 0
    for word in words:
        value = _WORDS[word]
        if value == _HUNDRED:
            current = max(current, 1) * value
        elif value == _THOUSAND:
            total, current = total + max(current, 1) * value, 0
        else:
            current += value
    return total + current


_SMALL = (
    "null ein zwei drei vier funf sechs sieben acht neun zehn elf zwolf",
    "zero un deux trois quatre cinq six sept huit neuf dix onze douze",
    "cero un dos tres cuatro cinco seis siete ocho nueve diez once doce",
    "zero un due tre quattro cinque sei sette otto nove dieci undici dodici",
)
_FOREIGN = {word: value for words in _SMALL for value, word in enumerate(words.split()) if word not in _WORDS}
_FOREIGN |= {"eine": 1, "einen": 1, "une": 1, "una": 1, "uno": 1, "zwanzig": 20, "vingt": 20, "veinte": 20, "venti": 20}
_CHINESE_DIGITS = {**{digit: value for value, digit in enumerate("零一二三四五六七八九")}, "两": 2}


def foreign_with_digits(text: str, *, before: str) -> str:
    """Returns a text of small letters with digits for German, French, Spanish, Italian and Chinese words of numbers.

    Args:
        before: A pattern of what has to follow, for many of these words mean something else without it.

    >>> foreign_with_digits("funf mm, 二十一点五cm; once seen", before="mm|cm")
    '5 mm, 21.5cm; once seen'
    >>> foreign_with_digits("sixty-six mm", before="mm")
    'sixty-six mm'
    """
    text = re.sub(rf"(?<!\w)({'|'.join(_FOREIGN)})(?=\s+(?:{before}))", lambda found: str(_FOREIGN[found[1]]), text)
    return re.sub(rf"[一二两三四五六七八九十百零点]+(?=(?:{before}))", lambda found: _chinese(found[0]), text)


def _chinese(said: str) -> str:
    whole, _, rest = said.partition("点")
    total, digit = 0, 0
    for each in whole:
        if each in "十百":
            total, digit = total + (digit or 1) * (10 if each == "十" else 100), 0
        else:
            digit = _CHINESE_DIGITS[each]
    return f"{total + digit}" + (f".{''.join(str(_CHINESE_DIGITS.get(each, '')) for each in rest)}" if rest else "")


_PLAIN = re.compile(r"-?[0-9]+(?:\.[0-9]+)?")
_THOUSANDS = re.compile(r"[1-9]\d{0,2}(?:,\d{3})+(?:\.\d+)?")
_DECIMAL_COMMA = re.compile(r"(?:[1-9]\d{0,2}(?:\.\d{3})+|\d+),\d+")
_NUMBER = re.compile(
    r"(?<![\w.,/])(?P<sign>[-+\u2212]|\bminus\s+)?"
    rf"(?P<digits>{_THOUSANDS.pattern}|{_DECIMAL_COMMA.pattern}|\d+(?:\.\d+)?|\.\d+)(?P<exponent>e[-+]?\d+)?"
    r"(?!\d|[a-z]\d|[.,/]\d)",
    re.I,
)
_LABELLED = re.compile(
    r"\b(?:image|frame|figure|fig\.?|slice|view|panel|step|video|clip|option|question|series|segment)s?\s*"
    r"(?:no\.?|number|#)?\s*\Z",
    re.I,
)
_DIGIT = re.compile(r"\d")
_SPREAD = re.compile(r"\(?\s*(?:±|\+/-|\+-)\s*[\d.,]+\s*\)?")
_RANGE = re.compile(
    r"\d\s*(?P<unit>[^\W\d]{1,4}\s*)?(?:[-\u2013\u2014~/x×*]|\b(?:to|or|and)\b)\s*[-+\u2212]?\.?\d", re.I
)
_BETWEEN = re.compile(r"\bbetween\s+[\d.,]+\s*\w*\s+and\s+\d", re.I)
_STATEMENT = re.compile(
    r"\banswer\b(?:\s+(?:is|would be))?[\s_:=\"']*(?:(?:about|around|approximately|roughly)\b|[~≈])?\s*", re.I
)
_STATED = re.compile(r"(?:\bis|\banswer|\bvalue|\bestimate|[:=≈])[\s_]*(?:about|around|approximately)?[\s_]*$", re.I)


def read_number(reply: str, unit: str | None = None) -> float | None:
    """Returns the one number that the reply states by the rules of this module; None if it is not clear which it means.

    Args:
        unit: The unit of the true answer, for example "cm"; None if it has none.

    >>> [read_number(reply) for reply in ("1,123.3 cc", "12,5", "about .5", "minus 35", "10-12", "Two lesions")]
    [1123.3, 12.5, 0.5, -35.0, None, 2.0]
    >>> read_number("2 lesions, the larger 3.1 cm", "cm")
    3.1
    """
    if _PLAIN.fullmatch(reply):
        return _finite(float(reply))
    text = _ascii_digits(after_thoughts(reply))
    parts = [part for marked in marked_answers(text) or [text] for part in _answers(without_emphasis(marked))]
    found = {_one_number(part, unit) for part in parts}
    return found.pop() if len(found) == 1 else None


def _answers(text: str) -> list[str]:
    statements = list(_STATEMENT.finditer(text))
    ends = [statement.start() for statement in statements] + [len(text)]
    direct = [
        text[statement.start() : end]
        for statement, end in zip(statements, ends[1:], strict=True)
        if _NUMBER.match(text, statement.end())
    ]
    if direct:
        return direct
    rest = next((text[statement.end() :] for statement in statements if _DIGIT.search(text, statement.end())), text)
    return [rest]


def _one_number(text: str, unit: str | None) -> float | None:
    said = _SPREAD.sub(" ", text)
    if not _DIGIT.search(said):
        words = first_number_in_words(said.lower())
        return float(words[1]) if words else None
    if _is_range(said, unit):
        return None
    numbers = list(_NUMBER.finditer(said))
    found = [
        each for each in numbers if not _LABELLED.search(said[max(0, each.start() - 20) : each.start()])
    ] or numbers
    with_unit = [match for match in found if unit and _has_unit(said, match.end(), unit)]
    values = {_value(match) for match in with_unit or found}
    if len(values) > 1:
        values = {_value(match) for match in found if _STATED.search(said[max(0, match.start() - 40) : match.start()])}
    return _finite(values.pop()) if len(values) == 1 else None


def _is_range(text: str, unit: str | None) -> bool:
    if _BETWEEN.search(text):
        return True
    return any(
        not found["unit"] or (unit is not None and found["unit"].strip().lower() == unit.lower())
        for found in _RANGE.finditer(text)
    )


def _has_unit(text: str, start: int, unit: str) -> bool:
    return re.compile(rf"\s*{re.escape(unit)}(?!\w)", re.I).match(text, start) is not None


def _value(match: re.Match[str]) -> float:
    digits = match["digits"]
    if _THOUSANDS.fullmatch(digits):
        digits = digits.replace(",", "")
    elif "," in digits:
        digits = digits.replace(".", "").replace(",", ".")
    size = float(digits + (match["exponent"] or ""))
    return -size if (match["sign"] or "+").strip().lower() in ("-", "\u2212", "minus") else size


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None


def _ascii_digits(text: str) -> str:
    return "".join(
        str(unicodedata.decimal(character)) if character.isdecimal() else _MARKS.get(character, character)
        for character in text
    )


_MARKS = {"．": ".", "，": ",", "：": ":", "٫": ".", "٬": ",", "－": "-", "\u00a0": " ", "\u202f": " "}
