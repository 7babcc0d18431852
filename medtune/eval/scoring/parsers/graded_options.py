"""Writes a grade, a place or a denial in a reply as its options do: "category III" is "BI-RADS 3".

1. Where all options are grades of one scale, the scale's name may be written otherwise, have a noun such as "category"
   between it and the grade, stand behind it, or be left out behind such a noun. Roman numerals are numbers.
2. "The second option" is the option with that letter.
3. Where an option is "No ..." or "Without ...", a denial of the same thing in other words or in another language is it.
"""

import re
from functools import lru_cache, partial
from string import ascii_uppercase

_ROMAN = {"i": "1", "ii": "2", "iii": "3", "iv": "4", "v": "5", "vi": "6", "vii": "7", "viii": "8"}
_IN_WORDS = {word: str(number) for number, word in enumerate(("zero", "one", "two", "three", "four", "five", "six"))}
_CODE = (
    r"(?P<number>\d{1,2}|[IVX]{1,4}|(?i:zero|one|two|three|four|five|six)(?!\w))"
    r"(?P<letter>(?:(?<=[IVX\d])[A-Fa-f]|(?<=[IVX])\sF)(?!\w)|)"
)
_GRADED = re.compile(rf"(?:(?P<name>\D*?[^\W\d])(?:[\s:-]+|(?=\d)))?{_CODE}")
_NOUN = (
    r"(?:categor(?:y|ía|ia)|catégorie|kategorie|score|grade|grado|grau|stage|stadium|stade|estadio|class(?:e|"
    r"ification)?|"
    r"klasse|level|type|assessment|final assessment|rating|степень|стадия|категория)"
)
_IN_BETWEEN = rf"(?:[\s:=-]|\b(?:of|is|as|{_NOUN})\b)*"
_NO_RANGE = r"(?!\w|\s*(?:[-–/~+]|to|and|or|bis|und|oder|et|ou|y|o)\s*(?:[\dIVX]))(?![.,]\d)"
_PRONOUN = re.compile(
    r"\bI(?:['’](?:d|m|ll|ve))?(?=\s+(?:would|will|think|thought|say|pick|choose|chose|select|see|believe|count|"
    r"am|have|can|favou?r|go|guess|"
    r"estimate|cannot|do|was|had|lean|assume|suspect|prefer|opt|read|call|grade|classify)\b)"
)
"""The pronoun, where an option is the Roman numeral."""
_ORDINALS = ("first", "second", "third", "fourth", "fifth", "sixth")
_PLACED = re.compile(
    rf"\bthe (?:(?P<word>{'|'.join(_ORDINALS)})|(?P<digit>[1-6])(?:st|nd|rd|th)|(?P<last>last)) (?:answer |listed )?"
    r"(?:option|alternative|answer|choice(?! would))\b",
    re.I,
)
_NO = (
    r"(?:no|not an?|not any|without|absence of|absent|negative for|free of|kein\w*|ohne|aucun\w*|pas (?:de|d['’])|"
    r"sans|"
    r"não h[áa]|no hay|non c['’]è|il n['’]y a (?:pas|aucun\w*)|es gibt kein\w*|sin|ning[uú]n\w*|sem|nenhum\w*|"
    r"senza|nessun\w*|без|нет|未见到?|没有|无|無)"
)
_SIGNS = (
    r"(?:\s*(?:any|clear|definite|obvious|visible|evidence|signs?|features?|hint|suspicion|anzeichen|zeichen|hinweis|"
    r"signes?|signos?|evidencia|sinais|sinal|evidência|segni|признак\w*|明显的?|of|for|de|d['’]|von|für|auf|"
    r"eine[rsnm]?|一|个))*"
)


def graded_as_options(text: str, options: tuple[str, ...]) -> str:
    """Returns a reply with the options' own words for a grade, a place or a denial.

    >>> graded_as_options("Kategorie III nach BI-RADS", ("BI-RADS 2", "BI-RADS 3"))
    'BI-RADS 3'
    >>> graded_as_options("I take the second option.", ("CT", "MRI"))
    'I take option B.'
    >>> graded_as_options("sem sinais de edema", ("Edema", "No edema"))
    'No edema'
    """
    if "I" in options:
        text = _PRONOUN.sub("", text)
    for pattern, by_code in _scales(options):
        text = pattern.sub(partial(_as_option, by_code=by_code), text)
    for pattern, option in _denials(options):
        text = pattern.sub(option.replace("\\", r"\\"), text)
    return _PLACED.sub(lambda found: _lettered(found, len(options)), text)


def _as_option(found: re.Match[str], by_code: dict[str, str]) -> str:
    option = by_code.get(_code(found))
    return found[0] if option is None else found.groupdict().get("kept", "") + option


def _code(found: re.Match[str]) -> str:
    number = found["number"].casefold()
    return _ROMAN.get(number, _IN_WORDS.get(number, number)) + found["letter"].strip().casefold()


def _lettered(found: re.Match[str], n: int) -> str:
    place = (
        n - 1 if found["last"] else _ORDINALS.index(found["word"].lower()) if found["word"] else int(found["digit"]) - 1
    )
    return f"option {ascii_uppercase[place]}" if place < n else found[0]


@lru_cache(maxsize=10_000)
def _scales(options: tuple[str, ...]) -> tuple[tuple[re.Pattern[str], dict[str, str]], ...]:
    grades = [found for option in options if (found := _GRADED.fullmatch(option.strip()))]
    names = {"".join(re.findall(r"\w", found["name"] or "")).casefold() for found in grades}
    if len(grades) < max(2, len(options) - 1) or len(names) > 1:
        return ()
    by_code = {_code(found): found[0] for found in grades}
    letters = re.findall(r"[^\W_]", names.pop())
    if not letters:
        return _bare_scale(by_code) if all(found["number"].isalpha() for found in grades) else ()
    spelled = r"[\W_]{0,2}".join(map(re.escape, letters))
    name = rf"(?i:(?<!\w){spelled}(?![^\W\d_]))"
    noun = rf"(?i:\b{_NOUN}\b[\s:]*)"
    by = r"(?i:\(?(?:nach|according\s+to|by|of|on|in|selon|según|de|do)?\s*(?:the\s+)?)"
    patterns = [
        (rf"{noun}{_CODE}{_NO_RANGE}\s*{by}{name}\)?", by_code),
        (rf"(?:{name}(?i:{_IN_BETWEEN})){_CODE}{_NO_RANGE}", by_code),
        (rf"(?<!\w)(?i:\b{_NOUN}\b(?:\s+(?:of|is))?[\s:]*){_CODE}{_NO_RANGE}", by_code),
    ]
    lettered = {code: each for code, each in by_code.items() if not code.isdigit()}
    patterns.append((rf"\A\W*(?i:(?:it(?:['’]s|\s+is)\s+)?(?:an?\s+)?){_CODE}\W*\Z", lettered))
    if len(letters) <= 2 or re.fullmatch(_NOUN, "".join(letters)):
        # Another name of the scale: "KL 3" where options are "Grade 3", "TI-RADS 3" where they are "TR3".
        patterns.append(
            (
                rf"(?<!\w)(?:[A-Z]{{1,2}}-?RADS|(?!{name})(?![IVX]{{1,4}}(?!\w))[A-Z]{{2,3}}(?=[\s:-]|"
                rf"\d))(?i:{_IN_BETWEEN}){_CODE}{_NO_RANGE}",
                by_code,
            )
        )
    return tuple((re.compile(pattern), codes) for pattern, codes in patterns)


def _bare_scale(by_code: dict[str, str]) -> tuple[tuple[re.Pattern[str], dict[str, str]], ...]:
    """Returns the pattern of a grade behind the scale's name, a noun or a verb, where options are Roman numerals."""
    verb = r"(?i:\b(?:say|pick|choose|select|with|favou?r|is|be|as)\s)"
    behind = rf"(?:\b(?!Option|Answer|The|Image|Figure)[A-Z][a-z]{{2,}}\s|\b{_NOUN}\s|{verb})"
    return ((re.compile(rf"(?P<kept>{behind})(?i:{_IN_BETWEEN}){_CODE}{_NO_RANGE}"), by_code),)


@lru_cache(maxsize=10_000)
def _denials(options: tuple[str, ...]) -> tuple[tuple[re.Pattern[str], str], ...]:
    found = []
    for option in options:
        if denied := re.fullmatch(r"(?:no|without)\s+(.+)", option.strip(), re.I):
            thing = r"\s+".join(map(re.escape, denied[1].split()))
            found.append((re.compile(rf"(?<![\w-])(?i:{_NO}{_SIGNS}\s*{thing}(?!\w))"), option))
    return tuple(found)
