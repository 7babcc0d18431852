"""Knows the names of units in English, German, French, Spanish, Italian and Chinese, and finds them in a text.

Texts are in small letters without accents, as `measures` makes them.

Source: the SI brochure (9th edition), and the exact definitions of the inch (25.4 mm) and the pound (453.59237 g).
"""

import re
from collections.abc import Mapping, Sequence
from fractions import Fraction
from functools import cache

_PREFIXES = {"n": -9, "μ": -6, "u": -6, "mc": -6, "m": -3, "c": -2, "d": -1, "": 0, "k": 3}
_LONG_PREFIXES = {
    **{"nano": -9, "micro": -6, "mikro": -6, "milli": -3, "mili": -3, "centi": -2, "zenti": -2, "deci": -1, "dezi": -1},
    **{"": 0, "kilo": 3, "chilo": 3, "微": -6, "毫": -3, "厘": -2, "分": -1, "千": 3, "ミリ": -3, "センチ": -2},
}
_METRIC: Mapping[str, tuple[str, int, str, str]] = {
    "m": ("length", 1, "1e3", "metre meter metern metro metri 米 メートル"),
    "l": ("length", 3, "1e6", "litre liter litern litro litri 升"),
    "g": ("mass", 1, "1", "gram gramm gramme gramo grama grammo grammi 克"),
    "s": ("time", 1, "1", "second seconde sekunde sekunden segundo secondo secondi 秒"),
    "hz": ("frequency", 1, "1", "hertz 赫兹"),
    "gy": ("dose", 1, "1", ""),
    "sv": ("equivalent dose", 1, "1", "sievert"),
    "v": ("voltage", 1, "1", "volt vp"),
    "mol": ("amount", 1, "1", ""),
}
"""Units that take prefixes: what they measure, to which power, their size, and their names."""
_OTHERS: Sequence[tuple[str, int, str, str]] = (
    ("length", 1, "25.4", 'in in. inch inches zoll pouce pulgada polegada pollice pollici 英寸 吋 "'),
    ("length", 1, "304.8", "ft foot feet fuss pied pie piede piedi 英尺"),
    ("length", 1, "1e-3", "micron micra"),
    ("length", 1, "10", "公分 センチ"),
    ("length", 1, "1e3", "公尺"),
    ("length", 1, "1", "ミリ"),
    ("length", 2, "100", "qcm"),
    ("length", 2, "1", "qmm"),
    ("length", 3, "1e3", "cc c.c. ccm"),
    ("mass", 1, "453.59237", "lb lbs pound"),
    ("mass", 1, "28.349523125", "oz ounce"),
    ("mass", 1, "1e3", "公斤"),
    ("time", 1, "1", "sec"),
    ("time", 1, "60", "min minute minuten minuto minuti 分钟 分鐘"),
    ("time", 1, "3600", "h hr hrs hour std stunde stunden heure hora ora ore 小时 小時"),
    ("time", 1, "86400", "d day tag tage tagen jour dia giorno giorni 天 日"),
    ("time", 1, "604800", "w wk wks week woche wochen semaine semana settimana settimane ssw gw 周 週 星期"),
    ("calendar", 1, "1", "mo mth month monat monate monaten mois mes meses mese mesi 个月 個月"),
    ("calendar", 1, "12", "yr yrs year jahr jahre jahren ans annee ano anno anni 年 岁 歲"),
    ("share", 1, "1", "% pct percent per~cent prozent pour~cent por~ciento per~cento"),
    ("share", 1, "0.1", "‰ permille promille"),
    ("density", 1, "1", "hu h.u. uh he hounsfield hounsfield~unit hounsfield-einheit hounsfield-einheiten 亨氏单位"),
    ("density", 1, "1", "unidades~hounsfield unites~hounsfield unita~hounsfield"),
    ("angle", 1, "1", "° deg degree grad degre grado gradi 度"),
    ("celsius", 1, "1", "°c degrees~celsius grad~celsius celsius 摄氏度"),
    ("fahrenheit", 1, "1", "°f degrees~fahrenheit fahrenheit"),
    ("frequency", 1, "1e6", "mhz megahertz"),
    ("heart rate", 1, "1", "bpm beats~per~minute beats/min /min schlage~pro~minute 次/分"),
    ("pressure", 1, "1", "mmhg mm~hg"),
    ("pixels", 1, "1", "px pixel 像素"),
    ("level", 1, "1", "db decibel dezibel"),
)
Unit = tuple[tuple[tuple[str, int], ...], Fraction]
"""What a unit measures, as pairs of a quantity and its power, and its size."""

_END = r"(?![a-zμ])"
_PER = re.compile(r"\s?(?:/|per\b|pro\b)\s?")
_OF_WORD = "word: "


def _table() -> dict[str, tuple[str, int, Fraction]]:
    found = {
        name.replace("~", " "): (what, power, Fraction(size))
        for what, power, size, names in _OTHERS
        for name in names.split()
    }
    for symbol, (what, power, size, names) in _METRIC.items():
        forms = [(prefix + symbol, tens) for prefix, tens in _PREFIXES.items()]
        forms += [(prefix + name, tens) for prefix, tens in _LONG_PREFIXES.items() for name in names.split()]
        for form, tens in forms:
            found.setdefault(form, (what, power, Fraction(size) * Fraction(10) ** tens))
    return found


_SIZES = _table()


def _pattern(name: str) -> str:
    if not name[-1].isascii() or not name[-1].isalpha():
        return re.escape(name)
    return re.escape(name) + ("(?:e?s)?" if len(name) > 2 else "") + _END


NAME = "|".join(map(_pattern, sorted(_SIZES, key=len, reverse=True)))
_FACTOR = (
    rf"(?:(?P<square>square|sq\.?|quadrat|平方)|(?P<cubic>cubic|cu\.?|kubik|立方))?\s?(?P<name>{NAME})"
    r"(?:(?:\s?(?:\^|\*\*)\s?)?(?P<digit>[23])(?![.,]?\d)|"
    r"\s(?:(?P<squared>squared|carres?|cuadrados?|quadrat[oi])|(?P<cubed>cubed|cubes?|cubicos?|cub[oi]|cubic[oi]))\b)?"
)


@cache
def _factor() -> re.Pattern[str]:
    # What holds `NAME` takes a tenth of a second to compile, and most benchmarks measure nothing.
    return re.compile(_FACTOR)


def unit_at(text: str, start: int) -> tuple[Unit | None, int]:
    """Returns the unit that stands at a place of a text ("mm", "ml/min", "square cm"), and where it ends; else None."""
    measured: dict[str, int] = {}
    size, sign, end, place = Fraction(1), 1, start, start
    factor = _factor()
    while found := factor.match(text, place):
        name = found["name"]
        if name in ("in", '"') and not _is_inch(text, found):
            break
        name = next(each for each in (name, name.removesuffix("s"), name.removesuffix("es")) if each in _SIZES)
        what, own, one = _SIZES[name]
        power = int(found["digit"] or (2 if found["square"] or found["squared"] else 0) or 1)
        power = 3 if found["cubic"] or found["cubed"] else power
        measured[what] = measured.get(what, 0) + sign * own * power
        size, sign, end = size * one ** (sign * power), -1, found.end()
        per = _PER.match(text, end)
        if per is None:
            break
        place = per.end()
    return ((tuple(sorted(measured.items())), size), end) if measured else (None, start)


def _is_inch(text: str, found: re.Match[str]) -> bool:
    if found["name"] == '"':
        return text.count('"', 0, found.start("name")) % 2 == 0
    return re.match(r"\s*(?:[.,;:!?)\]x×=]|\Z|\n|[23^])", text[found.end("name") :]) is not None


def asked_unit(unit: str) -> Unit:
    """Returns a unit from its whole name; one that is not known measures what its own word says, as lesions do."""
    found, end = unit_at(f"{unit}\n", 0)
    return found if found is not None and end == len(unit) else word_unit(unit)


def word_unit(word: str) -> Unit:
    """Returns the unit of a word that is no known unit."""
    return (((_OF_WORD + word.removesuffix("s"), 1),), Fraction(1))


def is_word_unit(unit: Unit) -> bool:
    """Returns whether a unit is that of a word that is no known unit."""
    return unit[0][0][0].startswith(_OF_WORD)
