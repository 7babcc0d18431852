"""Reads numbers that are written in words: "twenty-one", "two hundred and five", and small ones of other languages."""

import re

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

_SMALL = (
    "null ein zwei drei vier funf sechs sieben acht neun zehn elf zwolf",
    "zero un deux trois quatre cinq six sept huit neuf dix onze douze",
    "cero un dos tres cuatro cinco seis siete ocho nueve diez once doce",
    "zero un due tre quattro cinque sei sette otto nove dieci undici dodici",
)
_FOREIGN = {word: value for words in _SMALL for value, word in enumerate(words.split()) if word not in _WORDS}
_CHINESE_DIGITS = {**{digit: value for value, digit in enumerate("零一二三四五六七八九")}, "两": 2}


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


_FOREIGN |= {"eine": 1, "einen": 1, "une": 1, "una": 1, "uno": 1, "zwanzig": 20, "vingt": 20, "veinte": 20, "venti": 20}


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
