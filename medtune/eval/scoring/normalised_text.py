"""Brings free text into the form in which answers are compared, so that only its wording counts.

These steps are taken in this order:

1. Characters that mean the same become one (Unicode NFKC; every dash is "-"), and capitals become small letters.
2. Numbers in English words become digits: "twenty-one" is "21", and "none" is "0".
3. Equal numbers are written alike: "1,000" is "1000", "2.50" is "2.5", ".5" is "0.5". A range is "10 to 12".
4. A unit behind a number has its short name: "5cm" and "5 centimetres" are "5 cm".
5. The articles "a", "an" and "the" are left out. An "a" that is a name is kept: at the end of the text, behind words
   such as "hepatitis" or "type", and in front of another letter, of punctuation or of a word such as "and" or "is".
6. Punctuation becomes a blank, and blanks are single. Signs that change the meaning are kept: a point, a slash or a
   colon between digits, a minus in front of a number, a plus, a minus at the end of a word ("HER2-"), "%" and "°", and
   "<", ">", "≤", "≥", "=" and "±" in front of a number. An apostrophe inside a word is left out. "X-ray" is "xray".
7. Characters of Chinese and Japanese stand apart, so that each is a word of its own.

Source: SQuAD (Rajpurkar et al. 2016, https://arxiv.org/abs/1606.05250): lower case, without punctuation and articles.
VQA (Antol et al. 2015, https://arxiv.org/abs/1505.00468; https://visualqa.org/evaluation.html): number words, too. The
exceptions are ours and keep different answers apart: by SQuAD's rule "1.5" is "15", "HER2+" is "HER2-", and "vitamin A"
is "vitamin".
"""

import re
import unicodedata
from functools import lru_cache

from medtune.eval.scoring.parsers.number_words import with_digits

_KEPT_TEXTS = 10_000
_DASHES, _APOSTROPHES = "‐‑‒–—―−﹣", "’‘`´"
_LIKE = str.maketrans(
    {**dict.fromkeys(_DASHES, "-"), **dict.fromkeys(_APOSTROPHES, "'"), "⁄": "/", "_": " ", "&": " and "}
)
_NUMBER = re.compile(r"(?<![\w.,:/])(\d{1,3}(?:,\d{3})+|\d+|(?=\.\d))(\.\d+)?(?!\d|[.,:/]\d)")
_RANGE = re.compile(r"(?<=\d)\s*-\s*(?=\.?\d)")
_TIMES = re.compile(r"(?<=\d)\s*[x×*]\s*(?=\.?\d)")
_UNITS = {
    "mm": "millimet(?:re|er)s?",
    "cm": "centimet(?:re|er)s?",
    "μm": "micromet(?:re|er)s?|microns?|um",
    "ml": "millilit(?:re|er)s?|cc",
    "mg": "milligram(?:me)?s?",
    "kg": "kilogram(?:me)?s?",
    "g": "gram(?:me)?s?",
    "%": "percent|per cent",
    "°": "degrees?",
}
_UNIT = re.compile(rf"(?<=\d)\s*(?:{'|'.join(f'({names})' for names in _UNITS.values())})(?!\w)")
_SHORT = [f" {short}" for short in _UNITS]
_NAMED_BY_LETTERS = (
    "apolipoprotein|area|arrow|blood|category|class|factor|figure|grade|group|h(?:a)?emophilia|hepatitis|image|"
    "immunoglobulin|influenza|label|letter|level|lipoprotein|option|panel|point|protein|region|serotype|stage|strain|"
    "structure|subtype|type|variant|vitamin|zone"
)
_ARTICLE = re.compile(
    rf"\b(?P<kept>(?:{_NAMED_BY_LETTERS})\s+a)\b|(?<![\w'-])(?:an|the)(?![\w'-])|"
    r"(?<![\w'/-])a(?=\s+(?!(?:and|or|to|is|are|was|were|but)\b)(?:-?\d|[^\W\d_](?:\w|-\w)))"
)
_X_RAY = re.compile(r"\bx[\s-]*(?=rays?\b)")
_IN_WORD = re.compile(r"(?<=\w)'(?=\w)")
_TOKEN = re.compile(
    r"(?<![^\s(\[])-?\d+(?:[./:]\d+)*|\d+(?:[./:]\d+)*|[぀-ヿ㐀-䶿一-鿿豈-﫿]|(?:(?![぀-ヿ㐀-䶿一-鿿豈-﫿])[^\W_])+|"
    r"[+%°]|[<>≤≥=±](?=\s*[-.]?\d)|(?<=\w)-(?!\w)(?!\s+(?:and|or|to)\b)"
)


@lru_cache(maxsize=_KEPT_TEXTS)
def normalised(text: str) -> str:
    """Returns a text as it is compared, by the steps of this module; "" where nothing but punctuation is left.

    >>> [normalised(text) for text in ("The LEFT lung.", "Twenty-one lesions", "a 2.50cm mass", "X-Ray")]
    ['left lung', '21 lesions', '2.5 cm mass', 'xray']
    >>> [normalised(text) for text in ("hepatitis A", "1.5", "HER2+", "not normal", "A")]
    ['hepatitis a', '1.5', 'her2 +', 'not normal', 'a']
    """
    said = unicodedata.normalize("NFKC", text).casefold().translate(_LIKE)
    said = _NUMBER.sub(_as_written, with_digits(said))
    said = _TIMES.sub(" x ", _RANGE.sub(" to ", said))
    said = _UNIT.sub(lambda found: _SHORT[(found.lastindex or 1) - 1], said)
    said = _ARTICLE.sub(lambda found: found["kept"] or " ", said)
    return " ".join(_TOKEN.findall(_IN_WORD.sub("", _X_RAY.sub("x", said))))


def same_text(said: str, truth: str) -> bool:
    """Returns whether two texts are the same after normalisation; without any words, whether their characters are.

    >>> same_text("It is the liver.", "It is liver"), same_text("abnormal", "normal"), same_text("?", "!")
    (True, False, False)
    """
    plain = normalised(said)
    return plain == normalised(truth) and (plain != "" or said.strip() == truth.strip())


def _as_written(found: re.Match[str]) -> str:
    return (found[1].replace(",", "") or "0") + (found[2] or "").rstrip("0").rstrip(".")
