r"""Reads the one measure that a reply states, in the unit of its question, by fixed rules, which never guess.

The raw text is read, for the form in which texts are compared has lost signs, commas and exponents. Thoughts do not
count, and where a reply marks its answer, corrects itself ("wait") or says "answer", only what is meant counts.

1. Digits of every script are read, with blanks, apostrophes, commas or points between thousands, a decimal comma or
   point, exponents (1.2e1, 1.2 x 10^1), fractions in front of a unit, and signs of every form. A comma or point is the
   decimal mark, unless it stands more than once or before the other one, with three digits behind each; a comma alone
   separates thousands where one to three digits, of which the first is not 0, stand before it and exactly three behind
   it: "1,234" is 1234, "1.234" and "0,234" are not.
2. A unit stands behind its number ("12 mm", "12-mm"), or in front of it before "=", ":" or "is" ("Size (mm): 12").
   Quantities of what the question asks for are converted; those of something else (12 mm2, 5 kg) do not count, and a
   number before an unknown word ("12 spans") never has the unit asked for. A number without a unit counts as it is.
   Two parts are one quantity ("2 cm 3 mm") where their sum is a decimal number of the unit asked for: 38 weeks 2 days
   are no such number of weeks.
3. Bounds ("< 5 mm"), what is denied or asked ("not 5 mm") and labels ("slice 5") do not count; a spread ("± 1") is left
   out. A range, the sides of an area or alternatives make a reply unreadable, unless another quantity is in the range.
4. Quantities in different units agree if they do so within their last digits: "5 mm (0.2 in)" is 5 mm. If others
   differ, those count that the reply states ("is 12", "measures 12", ": 12"); they have to be one.
5. Without digits, numbers in English words count, and those of German, French, Spanish, Italian and Chinese in front of
   a unit. Half and quarters are percentages where one is asked; a ratio below 1 without a unit is one where the
   question asks for a ratio or a fraction in percent ("0.54" is 54 %).
6. Where a question asks how many, lengths do not count, ordinals are counted ("the 3rd and 4th ribs"), and parts are
   added ("4 in the right lobe and 3 in the left").
"""

import html
import math
import re
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cache, lru_cache
from itertools import pairwise
from typing import NamedTuple

from medtune.eval.scoring.parsers.choice_statements import (
    LONGEST_SENTENCE,
    MOST_STATEMENTS,
    after_thoughts,
    marked_answers,
)
from medtune.eval.scoring.parsers.number_words import foreign_with_digits, with_digits
from medtune.eval.scoring.parsers.units import NAME, Unit, asked_unit, is_word_unit, unit_at, word_unit

_TO_UNIT = re.compile(r"[)\]\"']?(?:\s*|-)[(\[]?(?:(?:gestational|completed|full|abgeschlossene)\s+)?")
_WORD = re.compile(r"[a-zμ]+|[぀-ヿ㐀-䶿一-鿿]")
_LINKING = {
    *re.findall(
        r"\w+",
        "a about according across along although and approximately are around as at axially based be because but "
        "by can deep during for from has have high if in into is it its large long measured of on or seen since "
        "so thick though to was when where which while wide with als am auf aus bei breit das der die dick hoch "
        "im ist lang mit nach und von war au aux avec dans de des du en est et la le les mais pour selon sur con "
        "del el es los para por que segun y ad al alla che da dal dei della di e il lo nel nella secondo su bis "
        "mal oder ou o out",
    ),
    *"的左右大约是为在至到或和乘",
}
"""The words that are no unit where they follow a number."""


_FEET = r"(?P<whole>\d+[ -])?(?P<top>\d+)(?P<slash>[/⁄])(?P<bottom>\d+)(?![/.,]?\d)"
_NUMBER = re.compile(
    r"(?<![a-zß-ɏͰ-Ͽ])(?<!\d)(?<!\d[.,/:])(?P<sign>[-−+](?=[\d.])|−\s?|(?:minus|negative|moins|menos|meno)\s+|负)?"
    rf"(?:{_FEET}|(?P<digits>[1-9]\d{{0,2}}(?:(?P<gap>[ '])\d{{3}})(?:(?P=gap)\d{{3}})*(?!\d)(?:[.,]\d+)?|"
    r"\d+(?:[.,]\d+)*|\.\d+)(?:e(?P<exponent>[-+]?\d+))?)(?!\d|[.,]\d|:\d|/\d)"
)
_DASH = r"(?:[-−~/×+]|\.\.\.?)"
_ALSO = "to|or|and|by|bis|oder|und|mal|a|ou|et|sur|o|por|e|y|per|out of|of|von|至|到|或|和|或者|乘|乘以"
_JOINT = re.compile(
    rf"\s*(?:(?P<range>[-~至到]|to|bis)|{_DASH}|\b(?:{_ALSO})\b|[至到或和乘]以?者?)\s*(?:about\s+)?|,? "
)
_MORE = "inferiore?|superiore?|mayor|menor|maggiore|minore"
_BOUND = re.compile(
    r"(?:[<>≤≥]=?|小于|大于|超过|不足|至少|最多|少于|多于|低于|高于|\b(?:under|over|below|above|"
    r"at (?:least|most)|up to|beyond|exceed(?:s|ing)?|"
    r"(?:less|more|greater|larger|smaller|bigger|fewer|higher|lower|longer|shorter|wider|thicker) than|"
    r"(?:mehr|weniger|kleiner|grosser) als|mindestens|hochstens|uber|unter|bis zu|(?:plus|moins) de|au (?:moins|"
    r"plus)|"
    rf"jusqu'a|(?:mas|menos) de|al menos|hasta|(?:piu|meno) di|almeno|fino a|(?:{_MORE})s? (?:a|de|di|que)))"
    r"\s*(?:(?:or )?equal to|about|circa)?\s*\Z"
)
_BOUND_AFTER = re.compile(
    r"\s*(?:\+(?!/)|"
    r"(?:or|and|oder|ou|o) (?:more|less|larger|greater|smaller|above|over|mehr|weniger|plus|moins|mas|menos|piu)\b|"
    r"以上|以下|以内|\?|(?:is|was|would be) (?:not|wrong|incorrect|too)\b)"
)
_DENIED = re.compile(
    r"(?:\b(?:not|never|rather than|instead of|nicht|kein\w*|pas|no es|non e|statt|previous(?:ly)?|formerly|prior)\b|"
    r"n't\b|不是|并非)\s*(?:(?!but\b|sondern\b|mais\b|sino\b|ma\b)[^\W\d]+\s+){0,3}\Z"
)
_AT_END = r"\Z"
_LABEL = re.compile(
    r"(?:\b(?:image|frame|figure|fig|slice|view|panel|step|video|clip|option|question|series|segment|segmento|"
    r"(?P<scale>grade|stage|type|class|level|zone|category|score|bi-?rads)|page|case|patient|phase|lesion|nodule|"
    r"node|cyst|rib|lobe|"
    r"bild|schicht|abbildung|coupe|imagen|corte|immagine)s?\.?\s*(?:no\.?|number|nr\.?|#)?|图|段|第)\s*" + _AT_END
)
_STATED = re.compile(
    r"(?:\b(?:is|measures|measuring|value|estimate|misst|betragt|mesure|mide|misura)|测量为|[为是:=≈])\s*"
    r"(?:about|around|approximately|roughly|etwa|environ|circa|unos)?\s*\Z"
)
_SPREAD = re.compile(r"\(?\s*(?:±|\+/-|\+-)\s*[\d.,]+\s*\)?")
_BEFORE = (
    rf"(?:(?<![a-zμ\d])(?P<unit>{NAME})|[(\[](?P<boxed>{NAME})(?:(?:\^)?(?P<digit>[23]))?[)\]])[)\]\"']*\s*"
    r"(?:values?\s*)?(?:[=:≈~]|\b(?:is|of|ist|est|es|e)\b|为|是)+\s*[\"']?\s*(?:about\s*|[=:≈~]\s*)?\Z"
)
_ANSWER = re.compile(
    r"(?:\b(?:(?:best|single|final) (?:estimate|guess|number|value)|if i (?:have|had|must|needed?) (?:to )?[a-z "
    r"]{3,40}(?=,)|"
    r"i (?:count(?:ed)?|would (?:say|estimate))|(?:a )?total of|in total|altogether|answer|antwort|reponse|"
    r"respuesta|risposta|resposta|antwoord)\b|答案|答え)"
    r"(?:\s*(?:is|would be|ist|lautet|est|es|e|是|为|は)(?![a-z]))?[\s_:=,]*"
)
_DIRECT = re.compile(r"[\"'(]?(?:about\s+|[~≈]\s*)?[-−+.]?\d")
_SENTENCE_END = re.compile(r"\n|[.!?](?=\s|\Z)|。")
_CORRECTED = re.compile(r"\b(?:wait|correct(?:ion|ed)|revised|scratch that|actually)\b|(?<=[,.;] )no(?=[,.;])")
_PART_OF = re.compile(r",?\s+(?:of|among) (?:which|these|them|those)\b[^.;\n]*")

_PLAIN_NUMBER = re.compile(r"-?[0-9]{1,400}(?:\.[0-9]{1,400})?")
_UNIT_FIELD = re.compile(r"(\d)\"?\s*,\s*\"units?\"\s*:\s*\"([^\"]+)\"")
_UNIT_FIRST = re.compile(r"\"units?\"\s*:\s*\"([^\"]+)\"\s*,\s*(\"\w+\"\s*:\s*\"?[-+−]?[\d.,]+)")
_RAISED = re.compile("[⁰¹²³⁴⁵⁶⁷⁸⁹⁺⁻]+")
_LATEX = {"times": "×", "pm": "±", "approx": "≈", "sim": "~", "leq": "≤", "le": "≤", "geq": "≥", "ge": "≥", "lt": "<"}
_LIKE = {
    **dict.fromkeys("‐‑‒–﹣", "-"),
    "—": " - ",
    "―": " - ",
    **dict.fromkeys("’‘`´′", "'"),
    **dict.fromkeys("″”“„«»", '"'),
}
_REWRITTEN: Sequence[tuple[re.Pattern[str], str]] = tuple(
    (re.compile(pattern), new)
    for pattern, new in (
        (r"<sup>(.*?)</sup>", r"^\1"),
        (r"(?<=\d)\{,\}(?=\d)", ","),
        (r"\\[dt]?frac\{(\d+)\}\{(\d+)\}", r" \1⁄\2"),
        (r"\^\s*[{(]([^{}()]*)[)}]", r"^\1"),
        (r"\\(?:text|mathrm|mathbf|mathit|textbf|operatorname)\b", ""),
        (r"\\([,;:! %])", r" \1"),
        (r"(?<=\d) [,;:!](?=\s*[\da-z])", " "),
        (r"(?<=\d)\s*[x×*·]\s*10\s*(?:\^|\*\*)\s*([-+−]?)(\d{1,4})(?!\d)", r"e\1\2"),
        (r"(?<=[\da-z)])\s*[x×]\s*(?=\d)|(?<=[\dm])\s*\*\s*(?=\d)", " × "),
        (r"(?<=\d)(w|h|min|ft)(?=\d)", r"\1 "),
        (r"[{}$]|\*\*(?!\d)|(?<!\d)\*+|(?<![a-z\d])_+|_+(?![a-z\d])|^\s*#+", " "),
        (
            r"\b(?:approx\.?|ca\.|circa|etwa|ungefahr|rund|environ|aproximadamente|unos|around|approximately|"
            r"roughly|about)(?=\W)|[约大]约?(?=\d)",
            "about ",
        ),
        (r"(?<![\d.,])10\^(-?\d{1,3})(?!\d)", r"1e\1"),
        (r"(?<=\d)·(?=\d)", "."),
    )
)
_IN_BRACKETS = re.compile(r"(?<=\d)\s*\(([a-z -]+)\)")
_COUNTED = re.compile(r"\b1(?:\s*,\s*(?:and\s+)?\d{1,2}){2,}(?!\d|\.\d|\s*,\s*\d)")
"""What is counted aloud: "1, 2, 3"."""
_LABELLED = re.compile(rf"{_LABEL.pattern.removesuffix(_AT_END)}\d+(?![\d.,]*\d)")
_NO_COUNT = re.compile(
    r"\W*(?:none|zero|(?:(?:there (?:are|is)|i (?:can )?(?:see|find|count)) )?(?:no|not any|0) (?:\w+ ){0,2}(?:\w+)"
    r"(?: (?:(?:are|is|were|can be) )?(?:seen|visible|present|identified|detected|found))?"
    r"(?: (?:in|on) (?:this|the) (?:image|picture|slice|scan|view|frame|radiograph|film|x-ray|ct|mri))?|"
    r"none (?:(?:are|is) )?(?:seen|visible|present|identified|detected|found)[a-z ]{0,40})\W*"
)
_DOZENS_OF = {"half a": "6", "half": "6", "a": "12", "one": "12", "": "12", "two": "24", "three": "36"}
_DOZENS = re.compile(r"\b(?:(half a|half|a|one|two|three) )dozen\b")
_LENGTH = re.compile(r"\b\d+(?:\.\d+)?(?:\s*(?:-|x|×|to)\s*\d+(?:\.\d+)?)*[ -]*(?:mm|cm)\b")
_ORDINALS = re.compile(r"\b\d{1,2}(?:st|nd|rd|th)\b")
_COUNTER = r"つ|个|個|枚|处|處|か所|箇所|颗|本|条"
_PER_CENT = re.compile(r"百分之\s*([\d.]+|[一二两三四五六七八九十百零点]+)")
_PARTS_OF_ALL = {
    "half": "50",
    "three quarters": "75",
    "a quarter": "25",
    "one quarter": "25",
    "a fifth": "20",
    "one fifth": "20",
    "three-quarters": "75",
    "one half": "50",
    "a tenth": "10",
    "one tenth": "10",
    "two fifths": "40",
    "three fifths": "60",
}
_PART_OF_ALL = re.compile(rf"\b({'|'.join(sorted(_PARTS_OF_ALL, key=len, reverse=True))})(?= (?:of|is|the)\b|[.,]|\Z)")
"""Parts that are a decimal number of percent; thirds are not."""
_BELOW_ZERO = ("density", "celsius", "fahrenheit")
_AS_WELL = re.compile(
    r"\s*(?:[(\[=≈/~]|,?\s*(?:or|i\.?e\.?|that is|equals?|equivalent|corresponding|d\.?h\.?|soit|oder|ou|o)\b)"
)
_CROSS = re.compile(r"[×x]|by|mal|por|per|乘以?")
_SIDES = re.compile(r"\s*(?:[×x/+]|by|mal|por|per|sur|von|of|out of|乘以?)")
_EXTREME = re.compile(
    r"\b(?:(?P<most>greatest|largest|longest|biggest|widest|maxim(?:um|al)|long axis|major axis)|"
    r"smallest|shortest|narrowest|minim(?:um|al)|short axis|minor axis)\b"
)
"""Which of the sides of an area a question asks for."""
_COUNTS = re.compile(r"\b(?:how many|number of|count)\b")
_COUNT = r"(?<![\d.,])(\d{1,3})(?![\d.,]*\d)"
_IN_A_PLACE = (
    r"(?:\s+(?!(?:in|on|at)\b)[^\W\d]+){0,3}\s+(?:(?:in|on|at|within)\s+(?:the\s+)?[^\d.;:]+|(?:is|are)\s+[^\d.;:]+)"
)
_PARTS = re.compile(rf"{_COUNT}{_IN_A_PLACE}")
_RATIO = re.compile(r"\b(?:ratio|fraction|proportion|index|ctr|l?v?ef)\b")
_IN_PERCENT = re.compile(r"%|\bper ?cent(?:age)?\b")


@dataclass(frozen=True, slots=True)
class _Quantity:
    value: Fraction | None
    last_digit: Fraction
    unit: Unit | None
    start: int
    end: int
    counts: bool


def read_measure(reply: str, unit: str | None = None, *, asked: str = "") -> float | None:
    """Returns the one number that a reply states, in the unit of the question, by the rules of this module; else None.

    Args:
        unit: The unit of the true answer, in any of the languages; None where numbers of anything count.
        asked: The question. Of the sides of an area, the greatest or the smallest counts where it asks for that; a
            word such as "grade" is no label where it asks for one.

    >>> [read_measure(reply, "mm") for reply in ("5 cm", "about 12,5mm", "5 kg", "7", "two centimetres", "4-5 mm")]
    [50.0, 12.5, None, 7.0, 20.0, None]
    >>> read_measure("3 lesions", None), read_measure("−12 ± 3 HU", "HU"), read_measure("10.000,5 mm³", "ml")
    (3.0, -12.0, 10.0005)
    """
    if _PLAIN_NUMBER.fullmatch(reply) and not _asks_for_percent_of_ratio(asked.casefold()):
        return _finite(float(reply))
    text = _UNIT_FIELD.sub(r"\1 \2", html.unescape(after_thoughts(reply)))
    text = _UNIT_FIRST.sub(r"\2 \1", text)
    wanted = None if unit is None else asked_unit(_plain(unit))
    parts = dict.fromkeys(part for marked in marked_answers(text) or [text] for part in _answers(_plain(marked)))
    question = _plain(asked)
    if _COUNTS.search(question) and wanted is None:
        parts = dict.fromkeys(map(_only_counts, parts))
    found = {_one(_with_digits(part, wanted), wanted, question) for part in parts}
    value = found.pop() if len(found) == 1 else None
    try:
        return None if value is None else float(value)
    except OverflowError:
        return None


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None


_LATEX |= {"gt": ">", "cdot": "·", "mu": "μ", "circ": "°", "degree": "°"}
_LIKE |= {
    "٫": ".",
    "٬": ",",
    "，": ", ",
    "～": "~",
    "〜": "~",
    "∼": "~",
    "½": " 1⁄2",
    "¼": " 1⁄4",
    "¾": " 3⁄4",
    "·": "·",
}


def _plain(text: str) -> str:
    raised = _RAISED.sub(lambda found: "^" + unicodedata.normalize("NFKC", found[0]).replace("−", "-"), text)
    said = unicodedata.normalize("NFKC", "".join(_LIKE.get(character, character) for character in raised))
    said = "".join(str(unicodedata.decimal(each)) if each.isdecimal() else each for each in said)
    said = re.sub(r"(?<=\d)(\s?)([MKGTB])(?![A-Za-z])", r"\1\2\2\2", said)
    said = re.sub(r"\\([A-Za-z]+)", lambda found: _LATEX.get(found[1], found[0]), said)
    folded = unicodedata.normalize("NFKD", said.casefold())
    said = "".join(each for each in folded if unicodedata.category(each) not in ("Mn", "Cf"))
    for pattern, new in _REWRITTEN:
        said = pattern.sub(new, said)
    return _IN_BRACKETS.sub(lambda found: " " if with_digits(found[1]).isdigit() else found[0], said).strip()


def _answers(text: str) -> list[str]:
    text = _PART_OF.sub("", text)
    last_digit = _last_digit(text)
    corrected = [each.end() for each in _CORRECTED.finditer(text) if each.end() <= last_digit]
    text = text[corrected[-1] :] if corrected else text
    last_digit = _last_digit(text)
    ends = [statement.end() for statement in _ANSWER.finditer(text)]
    # A reply that repeats itself is read at its beginning and at its end.
    ends = ends if len(ends) <= MOST_STATEMENTS else [*ends[: MOST_STATEMENTS // 2], *ends[-MOST_STATEMENTS // 2 :]]
    direct = []
    for end in ends:
        if (found := _DIRECT.match(text, end)) is not None:
            stop = _SENTENCE_END.search(text, found.end())
            direct.append(text[end : stop.start() if stop else len(text)][:LONGEST_SENTENCE])
    with_any = [text[end:] for end in ends if end <= last_digit][:1]
    return direct or with_any or [text if last_digit >= 0 or not ends else text[ends[-1] :] or text]


def _last_digit(text: str) -> int:
    return next((place for place in range(len(text) - 1, -1, -1) if text[place].isdigit()), -1)


def _only_counts(text: str) -> str:
    """Returns a text without lengths, and with the number of ordinals in their place: "the 3rd and 4th ribs" are 2."""
    said = text if re.search(r"\bthan\b", text) else _LENGTH.sub(" ", text)
    said = foreign_with_digits(said, before=_COUNTER)
    ordinals = _ORDINALS.findall(said)
    if len(ordinals) > 1 and not any(map(str.isdigit, _ORDINALS.sub(" ", said))) and not re.search(r"\bto\b|-", said):
        return str(len({*ordinals}))
    return said


def _with_digits(text: str, unit: Unit | None) -> str:
    if (counted := _COUNTED.search(text)) and (numbers := [int(each) for each in re.findall(r"\d+", counted[0])]) == [
        *range(1, len(numbers) + 1)
    ]:
        text = f"{text[: counted.start()]}{numbers[-1]}{text[counted.end() :]}"
    if unit is not None and unit[0][0][0] == "share":
        text = _PER_CENT.sub(lambda found: foreign_with_digits(f"{found[1]}%", before="%"), text)
        if not any(map(str.isdigit, text)):
            text = _PART_OF_ALL.sub(lambda found: f"{_PARTS_OF_ALL[found[1]]}%", text)
    unlabelled = _LABELLED.sub(lambda found: found[0] if found["scale"] else " ", text)
    if any(map(str.isdigit, unlabelled)):
        return text
    text = _DOZENS.sub(lambda found: _DOZENS_OF[found[1] or ""], unlabelled)
    if unit is None or is_word_unit(unit):
        if _NO_COUNT.fullmatch(text):
            return "0"
        text = re.sub(r"\b(?:single|solitary)\b", "1", text)
        if alone := re.fullmatch(r"\W*([^\W\d]+?)个?\W*", text):
            text = foreign_with_digits(f"{alone[1]} ", before=r"\s*\Z")
    text = with_digits(re.sub(r"\bnone\b", " ", foreign_with_digits(text, before=NAME)))
    text = re.sub(r"(\d+) and (?:a|1) half\b", r"\1.5", re.sub(r"(\d+) point (\d+)", r"\1.\2", text))
    return re.sub(r"\bhalf (?:an?|1)\b", "0.5", text)


class _InFront(NamedTuple):
    """What stands in front of a number."""

    unit: re.Match[str] | None
    bound: re.Match[str] | None
    denied: re.Match[str] | None
    label: re.Match[str] | None


@cache
def _before() -> re.Pattern[str]:
    return re.compile(_BEFORE)


@lru_cache(maxsize=256)
def _in_front(before: str) -> _InFront:
    # A reply that is long repeats itself.
    return _InFront(_before().search(before), _BOUND.search(before), _DENIED.search(before), _LABEL.search(before))


def _quantities(text: str, asked: str) -> list[_Quantity]:
    found = []
    for number in _NUMBER.finditer(text):
        start, end = number.span()
        place = end
        unit, behind = unit_at(text, place)
        if unit is None and (gap := _TO_UNIT.match(text, end)) is not None:
            place = gap.end() if "(" not in gap[0] else end
            unit, behind = unit_at(text, gap.end())
        before = text[max(0, start - 60) : start]
        in_front = _in_front(before)
        word = None if unit else _WORD.match(text, place)
        if unit is None and (named := in_front.unit):
            unit, _ = unit_at((named["unit"] or named["boxed"]) + (named["digit"] or ""), 0)
            behind = end
        elif word and word[0] not in _LINKING:
            unit, behind = word_unit(word[0]), word.end()
        value, last_digit = _value(number, unit)
        if unit is not None and unit[0][0][0] in _BELOW_ZERO and re.search(r"(?:^|[:=])\s*-\s+\Z", before):
            value = None  # A minus or a dash.
        is_attached = word is not None and word.start() == end and word[0][0].isascii()
        is_listed = re.search(r"(?:^|\n)\s*\Z", before) and re.match(r"[.)]\s+[a-z]", text[end:])
        label = in_front.label
        is_label = label is not None and not (label["scale"] and label["scale"] in asked)
        skipped = (in_front.bound, in_front.denied, is_label, is_listed)
        counts = not any(skipped) and not is_attached and not _BOUND_AFTER.match(text, behind if unit else end)
        found.append(_Quantity(value, last_digit, unit, start, behind if unit else end, counts))
    return found


def _value(number: re.Match[str], unit: Unit | None) -> tuple[Fraction | None, Fraction]:
    sign = (
        -1 if (number["sign"] or "+").strip() in ("-", "−", "minus", "negative", "moins", "menos", "meno", "负") else 1
    )
    if number["top"]:
        whole, top, bottom = (int((number[name] or "0").strip(" -")[:9]) for name in ("whole", "top", "bottom"))
        is_clear = (
            number["slash"] == "⁄" or whole or (top == 1 and bottom in (2, 4, 8)) or unit == unit_at("inch", 0)[0]
        )
        if not is_clear or unit is None or not 0 < top < bottom:
            return None, Fraction(0)
        return sign * (whole + Fraction(top, bottom)), Fraction(1, 1000)
    value, last_digit = _written(number["digits"], number["exponent"] or "0")
    return None if value is None else sign * value, last_digit


@lru_cache(maxsize=256)
def _written(number: str, power: str) -> tuple[Fraction | None, Fraction]:
    """Returns the value of a number without its sign, and that of its last digit."""
    digits, exponent = _decimal(number), int(power[:6])
    if digits is None or len(digits) > 40 or abs(exponent) > 300:
        return None, Fraction(0)
    ten = Fraction(10)
    return Fraction(digits) * ten**exponent, ten ** (exponent - len(digits.partition(".")[2]))


def _decimal(digits: str) -> str | None:
    plain = re.sub("[ ']", "", digits)
    marks = re.sub(r"\d", "", plain)
    if len(set(marks)) == 2:
        mark, other = marks[-1], marks[0]
        if marks.count(mark) > 1 or not re.fullmatch(rf"[1-9]\d{{0,2}}(?:\{other}\d{{3}})+\{mark}\d+", plain):
            return None
        return plain.replace(other, "").replace(mark, ".")
    if len(marks) > 1 or (marks == "," and plain == digits and re.fullmatch(r"[1-9]\d{0,2},\d{3}", plain)):
        return re.sub(r"\D", "", plain) if re.fullmatch(r"[1-9]\d{0,2}(?:[.,]\d{3})+", plain) else None
    return plain.replace(",", ".")


def _counted_in_parts(text: str) -> str:
    """Returns a text with the sum in the place of what is counted in parts: "4 in the right lobe and 3 in the left"."""
    parts = [*_PARTS.finditer(text)]
    if len(parts) < 2:
        return text
    numbers = [int(each) for each in re.findall(_COUNT, text)]
    counts = [int(each[1]) for each in parts]
    if any(map(str.isdigit, re.sub(_COUNT, " ", text))):
        return text
    total = sum(counts)
    return str(total) if numbers in (counts, [total, *counts], [*counts, total]) else text


def _one(text: str, wanted: Unit | None, asked: str) -> Fraction | None:
    said = _SPREAD.sub(" ", text)
    if _COUNTS.search(asked) and (wanted is None or is_word_unit(wanted)):
        said = _counted_in_parts(said)
    found, joined = _joined(_sums(_quantities(said, asked), said, wanted), said)
    found = [each for each in found if each.counts]
    if wanted is None:
        pool = [each for each in found if _is_plain(each)] or found
    else:
        pool = [each for each in found if each.unit is not None and each.unit[0] == wanted[0]]
        if not pool and all(map(_is_plain, found)):
            pool = [each for each in found if each.unit is None]
    unclear = [each for each in pool if each in joined]
    if any(joined[each] for each in unclear):
        extreme = _EXTREME.search(asked)
        if (
            extreme is None
            or unclear != pool
            or not all(joined[each] and _CROSS.fullmatch(joined[each]) for each in pool)
        ):
            return None
        sizes = [_size(each, wanted) for each in pool if each.value is not None]
        return (max(sizes) if extreme["most"] else min(sizes)) if len(sizes) == len(pool) else None
    if unclear and _agreed(unclear, said, wanted) is None:
        sizes = [_size(each, wanted) for each in unclear]
        pool = [each for each in pool if each not in joined]
        if not all(min(sizes) <= _size(each, wanted) <= max(sizes) for each in pool):
            return None
    agreed = _agreed(pool, said, wanted)
    if agreed is None and len(pool) > 1:
        stated = [each for each in pool if _STATED.search(said[max(0, each.start - 40) : each.start])]
        agreed = _agreed(stated, said, wanted)
    if agreed is not None and wanted is not None and _is_ratio(agreed, pool, wanted, asked):
        return 100 * agreed
    return agreed


def _asks_for_percent_of_ratio(asked: str) -> bool:
    return _RATIO.search(asked) is not None and _IN_PERCENT.search(asked) is not None


def _is_ratio(value: Fraction, pool: Sequence[_Quantity], wanted: Unit, asked: str) -> bool:
    """Returns whether a number without a unit is a ratio of which the percentage is asked: "0.54" is 54 %."""
    is_share = wanted[0][0][0] == "share" and _asks_for_percent_of_ratio(asked)
    return is_share and 0 < value < 1 and all(each.unit is None for each in pool)


def _is_plain(quantity: _Quantity) -> bool:
    return quantity.unit is None or is_word_unit(quantity.unit)


def _sums(found: Sequence[_Quantity], text: str, wanted: Unit | None) -> list[_Quantity]:
    """Returns the quantities, with one in the place of two such as "2 cm 3 mm"."""
    kept: list[_Quantity] = []
    for each in found:
        last = kept[-1] if kept else None
        if (
            last is None or last.value is None or last.unit is None or each.value is None or each.unit is None
            or last.unit[0] != each.unit[0] or is_word_unit(each.unit)
        ):  # fmt: skip
            kept.append(each)
            continue
        gap, is_time = text[last.end : each.start].strip(), each.unit[0][0][0] in ("time", "calendar")
        total = last.value * last.unit[1] + each.value * each.unit[1]
        is_one = not gap or (is_time and gap in (",", "and", "und", "et", "y", "e"))
        if is_one and 0 <= each.value * each.unit[1] < last.unit[1]:
            is_decimal = 10**12 % (total / (wanted or last.unit)[1]).denominator == 0
            kept[-1] = replace(each, value=total / each.unit[1] if is_decimal else None, start=last.start)
        else:
            kept.append(each)
    return kept


def _joined(found: Sequence[_Quantity], text: str) -> tuple[list[_Quantity], dict[_Quantity, str]]:
    """Returns the quantities, and those that are joined, with what stands between sides or parts; "" in a range."""
    kept, pairs = list(found), list[tuple[int, str]]()
    # The unit of "5 x 4 x 3 cm" stands behind the last one.
    for place, (one, other) in reversed([*enumerate(pairwise(found))]):
        gap = text[one.end : other.start]
        is_list = not gap.strip(" ,") and other.value is not None and text[other.start] not in "-−+"
        of_other = one.unit is not None and other.unit is not None and one.unit[0] != other.unit[0]
        other = kept[place + 1]
        if of_other or not _JOINT.fullmatch(gap) or (is_list and (one.unit is not None or not one.counts)):
            continue
        one = kept[place]
        counts = one.counts and other.counts
        kept[place] = replace(one, unit=one.unit or other.unit, counts=counts)
        kept[place + 1] = replace(other, counts=counts)
        pairs.append((place, gap.strip() if _SIDES.match(gap) else ""))
    return kept, {kept[place + more]: gap for place, gap in pairs for more in (0, 1)}


def _size(quantity: _Quantity, wanted: Unit | None) -> Fraction:
    value = quantity.value or Fraction(0)
    return value if quantity.unit is None or wanted is None else value * quantity.unit[1] / wanted[1]


def _agreed(found: Sequence[_Quantity], text: str, wanted: Unit | None) -> Fraction | None:
    if not found or any(each.value is None for each in found):
        return None
    for one, other in pairwise(found):
        difference = abs(_size(one, wanted) - _size(other, wanted))
        rounding = max(_rounding(one, wanted), _rounding(other, wanted))
        is_again = one.unit != other.unit and _AS_WELL.match(text, one.end) is not None
        if difference > (rounding if is_again else 0):
            return None
    own = [each for each in found if wanted is None or each.unit is None or each.unit[1] == wanted[1]]
    return _size((own or sorted(found, key=lambda each: _rounding(each, wanted)))[0], wanted)


def _rounding(quantity: _Quantity, wanted: Unit | None) -> Fraction:
    return _size(replace(quantity, value=quantity.last_digit), wanted) / 2
