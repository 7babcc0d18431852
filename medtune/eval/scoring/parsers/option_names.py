"""Finds the option that a short reply names by other words than its own: by place, number, stem or without its noun.

These rules are for replies without an option's words, without a negation or a doubt, of at most `MOST_WORDS` words
that say something:

1. A place among the options: "the third option".
2. A number, where all options are numbers or intervals of them: "5" is the option "4 or more".
3. Words with the same stem or meaning: "malignancy" is "malignant", "top left" is "upper left", and "hepatic tissue" is
   "liver". A noun at the end of several options may be left out ("arterial" is "arterial phase"), and so may the words
   before an option's last one if no other option has it: "a kidney" is "right kidney", but "left kidney" is not. Where
   all options end with a number, so does the reply: "grade 2" is "Grade II".
"""

import math
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from functools import cache, lru_cache

from medtune.eval.scoring.parsers.measures import read_measure
from medtune.eval.scoring.parsers.units import NAME

MOST_WORDS, _LONGEST = 7, 200
_KEPT_WORDS = 10_000
_ORDINAL_WORDS = ("first", "second", "third", "fourth", "fifth", "sixth")
_ORDINAL = re.compile(r"\b([1-6])(?:st|nd|rd|th)\b")
_ORDINALS = {word: place for place, word in enumerate(_ORDINAL_WORDS)}
_ORDINALS |= {f"{place + 1}{end}": place for place, end in enumerate(("st", "nd", "rd", "th", "th", "th"))}
_PLACED = re.compile(
    rf"(?:(?:it(?: i|['’])s|this is|i(?: would)? choose) )?(?:the )?({'|'.join(_ORDINALS)}|last) "
    r"(?:option|one|answer)(?: is correct)?"
)
_INTERVAL = re.compile(
    r"(?:(?:at least|≥|>=) ?(?P<low>\d+)|(?:(?:more|larger|greater) than|over|above|>) ?(?P<above>\d+)|"
    r"(?:(?:less|fewer|smaller) than|under|below|<) ?(?P<below>\d+)|"
    r"(?:between )?(?P<first>\d+)(?: ?(?:-|–|to|and) ?(?P<last>\d+)|"
    r"(?P<open> or more| and more| or greater| and above|\+))?)(?: (?P<unit>\w+))?"
)
_HAS_UNIT = rf"\d\s*(?:{NAME})"
_DOUBT = re.compile(
    r"\b(?:not|no|non|never|neither|nor|none|without|cannot|unlikely|except|exclud\w+|absent|low|"
    r"history|rules?|wrong|incorrect|false|or|and|versus|vs|no|nicht|kein\w*|weder|pas|aucun\w*|ningun\w*)\b|n['’]t\b|"
    r"[?不没未非无]"
)
UNDECIDED = re.compile(
    r"\b(?:(?<!highest )(?<!greatest )(?:probabilit\w+|likelihood|chances?|(?:odds|risks?)(?! factor| ratio))|"
    r"probabilidad|riesgo|wahrscheinlichkeit|risiko|probabilité|risque|"
    r"(?:equally|just as|as) (?:likely|probable|possible|well)|fifty|coin|toss|(?:hard|difficult) to (?:say|tell)|"
    r"whether|either|could|may|might|perhaps|maybe|possibl[ey]|possibility|"
    r"entweder|vielleicht|könnten?|möglich\w*|"
    r"gleich \w+|podrían?|quizás?|tal vez|posible\w*|pourrai\w+|peut être|possibles?|soit|tant|tanto|aussi)\b|"
    r"\b50 ?[/:-] ?50\b|概率|几率|可能性(?!最|较?大|很大|较?高)|(?<!最)可能(?!性)|也许|或许|要么"
)
"""What leaves open which option it is: a stated probability, as likely as another, "could be", "either"."""
_BETWEEN = frozenset(
    re.findall(r"\w+", "a an the is are it s this that shown seen visible in on at of for to image shows i see there")
)
_SAME = {
    **{"top": "upper", "bottom": "lower", "centre": "center", "central": "center", "middle": "center"},
    **{"hepatic": "liver", "renal": "kidney", "splenic": "spleen", "pulmonary": "lung", "cardiac": "heart"},
    **{"cerebral": "brain", "gastric": "stomach", "thoracic": "chest", "thorax": "chest", "cancer": "malign"},
    **{"cancerous": "malign", "physiological": "norm", "ocular": "eye", "cutaneous": "skin", "osseous": "bone"},
    **{"bilateral": "both", "bilaterally": "both"},
}
_NUMBERS = {
    numeral: str(number)
    for number, each in enumerate(("i one", "ii two", "iii three", "iv four", "v five", "vi six"), 1)
    for numeral in each.split()
}
_GENERIC = frozenset(("mass", "lesion", "tumor", "nodul", "structur", "tissu"))
_WORD = re.compile(r"(?<![\ue000\d.,])(?:(?<!\w)-)?\d+(?:[.,]\d+)*|[^\W\d_]+")
_SUFFIX = re.compile(r"(?<=\w{4})(?:inal|ular|ancy|ency|atic|ant|ent|ous|al|ar|ic|um|us|en|le|e?s|as|is|e)\Z")

_SIZE = re.compile(r"\b\d+(?:[.,]\d+)?(?:\s*(?:-|x|to)\s*\d+(?:[.,]\d+)?)?[\s-]*(?:mm|cm)\b")
_MEASURED = re.compile(r"\d\s*(?:mm|cm|ml|l|hu|kg|g|mg|%|weeks?|years?|months?|days?)\b|\d\s*%")
_DENIAL = re.compile(
    r"\b(?:not|no|non|never|neither|n?or|none|without|cannot|unlikely|except|exclud\w+|absent|low|history|rule|"
    r"wrong|incorrect|false|versus|vs|"
    r"at (?:least|most)|up to|beyond|(?:more|less|other|higher|lower|rather) than)\b|n['’]t\b|[?不没未非无]"
)
_SIDES = frozenset(("left", "right", "upper", "lower", "center"))


def named(reply: str, options: tuple[str, ...]) -> str | None:
    """Returns the option that a reply names by these rules, else None; all in small letters with single blanks.

    >>> planes = ("thalamic plane", "abdominal plane", "right kidney")
    >>> [named(reply, planes) for reply in ("abdomen", "the thalamus", "a kidney", "left kidney", "second option")]
    ['abdominal plane', 'thalamic plane', 'right kidney', None, 'abdominal plane']
    >>> named("there are 5 lesions", ("1", "2-3", "4 or more")), named("5", ("liver", "spleen"))
    ('4 or more', None)
    """
    if (placed := _PLACED.fullmatch(reply)) is not None:
        place = _ORDINALS.get(placed[1], len(options) - 1)
        return options[place] if place < len(options) else None
    is_doubtful = _DOUBT.search(reply) and not _INTERVAL.fullmatch(reply)
    words = [word for word in reply.split() if word not in _BETWEEN]
    if len(words) > MOST_WORDS or len(reply) > _LONGEST or is_doubtful or UNDECIDED.search(reply):
        return None
    found = _by_number(reply, options) or _by_words(reply, options)
    return found.pop() if len(found) == 1 else None


@cache
def _has_unit() -> re.Pattern[str]:
    return re.compile(_HAS_UNIT)


def _by_number(reply: str, options: tuple[str, ...]) -> set[str]:
    intervals = {option: found for option in options if (found := _INTERVAL.fullmatch(option))}
    if len(intervals) < len(options):
        return set()
    unit = next((each["unit"] for each in intervals.values() if each["unit"]), None)
    told = _INTERVAL.fullmatch(reply)
    if told and told["unit"] == unit:
        low, high = _bounds(told)
    else:
        number = None if unit is None and _has_unit().search(reply) else read_measure(reply, unit)
        if number is None:
            return set()
        low, high = number, number
    bounds = {option: _bounds(each) for option, each in intervals.items()}
    return {option for option, (least, most) in bounds.items() if least <= low and high <= most}


def are_counts(options: tuple[str, ...]) -> bool:
    """Returns whether all options are numbers of things: "1", "2", "3 or more"."""
    intervals = [_INTERVAL.fullmatch(option.strip().casefold()) for option in options]
    return len(options) > 1 and all(each is not None and not each["unit"] for each in intervals)


def without_sizes(text: str) -> str:
    """Returns a text without lengths, which are no numbers of things."""
    return _SIZE.sub(" ", text)


def counted_option(reply: str, options: tuple[str, ...]) -> str | None:
    """Returns the option that a reply of any length counts, where all options are numbers of things; else None.

    >>> counted_option("a single 3 mm nodule in segment 2", ("1", "2", "3 or more"))
    '1'
    """
    intervals = {option: _INTERVAL.fullmatch(option.strip().casefold()) for option in options}
    if len(options) < 2 or not all(intervals.values()):
        return None
    unit = next((each["unit"] for each in intervals.values() if each and each["unit"]), None)
    bounds = {option: _bounds(each) for option, each in intervals.items() if each}
    if unit is not None:
        number = read_measure(reply, unit)
        found = [option for option, (least, most) in bounds.items() if number is not None and least <= number <= most]
        return found[0] if len(found) == 1 else None
    said = without_sizes(reply)
    number = None if _MEASURED.search(said) else read_measure(said, None, asked="how many")
    found = [option for option, (least, most) in bounds.items() if number is not None and least <= number <= most]
    return found[0] if len(found) == 1 else None


def _bounds(interval: re.Match[str]) -> tuple[float, float]:
    """Returns the least and the largest number of an interval; sizes and counts are not negative."""
    if interval["first"]:
        first, last = float(interval["first"]), float(interval["last"] or interval["first"])
        return first, math.inf if interval["open"] else last
    if interval["low"]:
        return float(interval["low"]), math.inf
    if interval["above"]:
        return math.nextafter(float(interval["above"]), math.inf), math.inf
    return 0.0, math.nextafter(float(interval["below"]), -math.inf)


def _by_words(reply: str, options: tuple[str, ...]) -> set[str]:
    if re.search(r"\d\s*[-–/]\s*\d", reply):
        return set()
    said, words = stems(reply), {option: stems(option) for option in options}
    if all(each and each[-1] in {*_NUMBERS, *_NUMBERS.values()} for each in words.values()):
        return _by_last_number(said, words)
    last = Counter(each[-1] for each in words.values() if each)
    in_one = Counter(word for each in words.values() for word in set(each))
    keys = {
        option: {word for word in _telling(each) if (len(each) == 1 or last[word] < 2 or word in _SIDES)}
        for option, each in words.items()
        if not _DOUBT.search(option)
    }
    keys = {option: key - _GENERIC or key for option, key in keys.items()}
    keys = {option: key for option, key in keys.items() if any(in_one[word] < len(options) for word in key)}
    found = {option for option, key in keys.items() if 0 < len(key) <= 3 and key <= set(said)}
    if found:
        return {option for option in found if not any(keys[option] < keys[other] for other in found)}
    return {
        option
        for option in keys
        if len(words[option]) == 2 and in_one[words[option][-1]] == 1 and _stands_alone(words[option][-1], said)
    }


def described(reply: str, options: tuple[str, ...]) -> str | None:
    """Returns the one option all of whose words a sentence has in any order, where no word of it is another's alone.

    >>> described("the left artery, a middle cerebral one", ("left cerebral artery", "right cerebral artery"))
    'left cerebral artery'
    """
    said = {*stems(reply)}
    words = {option: {*_telling(stems(option))} for option in options if not _DOUBT.search(option)}
    full = [option for option, own in words.items() if len(own) > 1 and own <= said]
    full = [option for option in full if not any(words[option] < words[other] for other in full)]
    if len(full) != 1 or _DENIAL.search(reply) or UNDECIDED.search(reply) or re.search(r"\d\s*[-–/]\s*\d", reply):
        return None
    in_all = [own for option, own in words.items() if option != full[0]]
    return None if any(said & own - words[full[0]] for own in in_all) else full[0]


def _telling(words: Sequence[str]) -> list[str]:
    """Returns the words without small ones; the letter behind a number is none ("grade 4 a")."""
    return [
        word
        for place, word in enumerate(words)
        if word not in _BETWEEN or (place > 0 and len(word) == 1 and words[place - 1].isdigit())
    ]


def _by_last_number(said: list[str], words: Mapping[str, list[str]]) -> set[str]:
    """Returns the options like "grade II" that a reply with one number names: "grade 2", "2", "a grade II lesion"."""
    numbers = {_NUMBERS.get(word, word) for word in said if word in {*_NUMBERS, *_NUMBERS.values()}}
    nouns = {word for each in words.values() for word in each[:-1]}
    known = (
        nouns
        | {_stem("".join(each[:-1])) for each in words.values()}
        | {*stems("category grade score class type stage")}
    )
    known |= _BETWEEN | _GENERIC | {*_NUMBERS, *_NUMBERS.values()}
    if len(numbers) != 1 or not nouns or not {*said} <= known:
        return set()
    return {option for option, each in words.items() if _NUMBERS.get(each[-1], each[-1]) in numbers}


def _stands_alone(word: str, said: list[str]) -> bool:
    return word in said and not word.isdigit() and all(each in _BETWEEN for each in said if each != word)


def stems(text: str) -> list[str]:
    """Returns the stems of a text's words, which are alike for words of one meaning: "hepatic" and "liver"."""
    spelled = _ORDINAL.sub(lambda found: _ORDINAL_WORDS[int(found[1]) - 1], text)
    return [_stem(word) for word in _WORD.findall(spelled)]


@lru_cache(maxsize=_KEPT_WORDS)
def _stem(word: str) -> str:
    american = re.sub(r"our\Z", "or", re.sub("[ao]e", "e", word))
    return _SUFFIX.sub("", _SAME.get(word, american))
