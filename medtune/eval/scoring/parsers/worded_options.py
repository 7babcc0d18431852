"""Finds the options whose words stand in the sentences of a reply that neither negate, ask nor leave them open.

What a sentence says of an option in passing does not count beside another option: what such a thing would look like or
usually does, what this one is unlike, what cannot be excluded, what else comes into question.
"""

import re
from bisect import bisect_left
from collections.abc import Sequence
from functools import lru_cache
from itertools import pairwise
from string import ascii_lowercase

from medtune.eval.scoring.parsers.answer_words import NEGATION
from medtune.eval.scoring.parsers.choice_statements import plain_characters, without_emphasis
from medtune.eval.scoring.parsers.option_names import UNDECIDED, stems

_EDGE = " …\t\r\n\"'`´‘’“”«»「」『』【】《》〈〉*_#.,:;!?()[]{}<>|~$\\/→⇒➡✅✓✔☑👉\ufe0f。，：！？、"
_SENTENCE = re.compile(r"(?:[^\n.!?\u3002]|[.!?](?!\s|\Z))+[.!?\u3002]*")
UNABLE = re.compile(
    r"\b(?:(?:i|we|one)\s+(?:do not|don['’]t|can['’]t|cannot|can not)|(?:nobody|no one) can|unable|not able|"
    r"not possible|impossible|insufficient|unclear|not (?:clear|sure|certain|enough)|more information|"
    r"(?:cannot|can not|can['’]t) (?:\w+ )?(?:be )?(?:determin|tell|say|answer|see|assess|identif|diagnos|judg)\w*)\b"
)
# In a text to be searched, these characters for private use stand for the words of the options.
_FIRST_PLACE = 0xF0000
_PLACE = re.compile("[\U000f0000-\U000ffffd]")
_WORD_BEFORE = r"(?:(?:the|a|an|in|at|on|of|to)\s+)*"
_CLAUSE = re.compile(
    rf"(?<={_PLACE.pattern})\s*:\s+(?={_WORD_BEFORE}{_PLACE.pattern})|"
    r"\s*;\s*|\s*:\s+(?=(?:no|not|there|it|this)\b)|"
    r",?\s+(?:but|however|although|though|(?<!not )yet|whereas|while)\b,?|"
    r",\s+(?=(?:it|this|that|there|i|instead|rather|the (?:others?|rest))\b|no\s+[a-z]+\s+[a-z]+)|"
    r",\s+(?:so|therefore|thus|hence)\b,?(?!\s+not\b)"
)
_CONTRASTS = (
    re.compile(
        rf"(?P<kept>{_PLACE.pattern})(?:\s*\([a-z]\)|(?:\s+(?!(?:is|are|was|were|it|or|not?|n?or|and|but|rather|"
        rf"instead)\b)[a-z]+){{1,4}}?)?\s*[,(]?\s*(?:and\s+|but\s+|with\s+)?"
        rf"(?:not(?:\s+yet)?|no|nicht|pas|non|не|rather than|instead of|(?:is\s+)?more \w+ than|>)\s+(?:any\s+)?"
        rf"(?:(?:signs?|features?|evidence|hint|suspicion)\s+of\s+)?{_WORD_BEFORE}"
        rf"(?:(?:(?<=\ba\s)|(?<=\ban\s)|(?<=\bthe\s))(?!only|just|sure|certain)[a-z]+\s+)?"
        rf"(?P<denied>{_PLACE.pattern}(?:\s*(?:,|n?or|>)\s+{_WORD_BEFORE}{_PLACE.pattern})*)"
    ),
    re.compile(
        rf"\b(?:rather|sooner|more \w+)\s+(?:say\s+)?{_WORD_BEFORE}(?P<kept>{_PLACE.pattern})\s+than\s+{_WORD_BEFORE}"
        rf"(?P<denied>{_PLACE.pattern})"
    ),
    re.compile(
        rf"\bnot\s+{_WORD_BEFORE}(?P<denied>{_PLACE.pattern})(?:\s+[a-z]+)?\s*(?:,?\s*but\s+(?:rather\s+)?|"
        rf",\s+(?=(?:an?|the)\s)){_WORD_BEFORE}"
        rf"(?P<kept>{_PLACE.pattern})"
    ),
)
_FAVOURED = re.compile(
    rf"(?P<kept>{_PLACE.pattern})(?:\s+(?:is|are))?(?:\s+(?:favou?red|preferred))?\s+(?:over|more than)\s+"
    rf"{_WORD_BEFORE}(?P<denied>{_PLACE.pattern})"
)
_LESS = re.compile(
    rf"(?P<kept>{_PLACE.pattern})\s*[,(]\s*(?:and\s+)?less (?:likely|probably):?\s+{_WORD_BEFORE}"
    rf"(?P<denied>{_PLACE.pattern})"
)
_THING = r"(?:\s+(?!(?:and|or|but|with|which|that|it|i|is|are)\b)[a-z]+){0,2}?"
_LESS_LIKELY = re.compile(
    rf"(?P<kept>{_PLACE.pattern}){_THING}\s*[,;]\s*(?:(?:with|and|"
    rf"but)\s+)?{_WORD_BEFORE}(?P<denied>{_PLACE.pattern}){_THING}"
    r"\s+(?:(?:being|is|are|seems|appears)\s+(?:[a-z]+\s+){0,3}?)?"
    r"(?:less (?:likely|probable)|unlikely|improbable|remote possibility|absent|missing|lacking)\b"
)
_IN_PASSING = (
    # What such a thing would look like, or usually does.
    re.compile(
        rf"{_WORD_BEFORE}{_PLACE.pattern}{_THING}(?:\s+(?:is|are))?\s+(?:would(?!\s+(?:be\s+(?:my|the|most|best|"
        rf"more)|fit)\b)|usually|"
        r"typically|generally|often|tends?|normally|commonly|classically|(?:can|could|may|"
        r"might)\s+(?:also\s+)?look)\b"
        r"(?:(?!,\s+(?:i|it|this|so|therefore|hence|but)\b)[^.;\n]){0,200}"
    ),
    re.compile(rf"\bif\b[^,.;\n]{{0,100}}{_PLACE.pattern}[^,.;\n]{{0,100}}"),
    re.compile(
        r"\b(?:unlike|in contrast (?:to|with)|compared (?:to|with)|as opposed to|contrary to|different from|"
        r"\w{0,20}echoic (?:to|than)|relative to|(?:larg|small|bright|dark|deep|low|high)er than|"
        rf"differs? from|beside|next to|adjacent to|close to|near)\s+{_WORD_BEFORE}{_PLACE.pattern}"
    ),
    re.compile(
        rf"{_WORD_BEFORE}{_PLACE.pattern}(?:(?:,\s+|,?\s+(?:and|or)\s+){_WORD_BEFORE}{_PLACE.pattern})*"
        r"\s+(?:is|are|remains?)\s+(?:an?\s+|the\s+|in the\s+|on the\s+|another\s+|other\s+|possible\s+){0,2}"
        r"(?:differentials?|alternatives?)\b"
    ),
    re.compile(r"\(?\b(?:dd|ddx|differential(?: diagnos[ie]s)?)\b[^.;\n)]{0,200}\)?"),
    re.compile(rf"\b(?:to|should|must) (?:exclude|rule out)\s+{_WORD_BEFORE}{_PLACE.pattern}"),
    # What is to be done next.
    re.compile(
        rf"{_WORD_BEFORE}{_PLACE.pattern}{_THING}\s+(?:is|are|may be|should be|can be)\s+"
        r"(?:recommended|advised|advisable|needed|required|useful|helpful)\b[^.;\n]{0,100}"
    ),
    re.compile(
        rf"\b(?:mimic(?:s|king)|resembl(?:es|ing)|simulat(?:es|ing)|looks like|similar to)\s+{_WORD_BEFORE}"
        rf"{_PLACE.pattern}(?=[^.;\n]{{0,60}}\bbut\b)"
    ),
)
_WITHOUT = re.compile(rf"(?<={_PLACE.pattern})([^.,;:\n]{{0,60}}?),?\s+without\s[^.;:\n]*")
"""What a thing lacks is of no other option."""
_AT_FIRST = re.compile(
    r"\b(?:at first|initially|first (?:sight|glance|thought)|superficially|was (?:going|about|tempted) to say|"
    r"would have said|thought (?:it was|of))\b"
)
_OFFERED = re.compile(r"\b(?:options|choices|possibilities)\b")
_GOES_ON = re.compile(
    r",?\s+\(?(?:even (?:though|if)|though|although|whereas|while|which|because|since|"
    rf"as (?=(?:it|this|the|an?)\b|{_PLACE.pattern})|"
    r"free of\b|lacking\b|with no\b|"
    r"with (?:(?:an?|only|some|very)\s+){0,3}(?:small|low|slight|minimal|little|remote))\b"
)
"""Where a sentence that has named an option goes on with what does not change it."""
_CONCEDED = re.compile(r"\b(?:(?:even )?though|although|while|despite)\b[^,.;]*,")
_LACKS = re.compile(rf"(?<={_PLACE.pattern} )\s*\((?:no|without) [^()]*\)")
_JOINED = re.compile(
    rf"(?<!\w)(?P<before>\w{{1,40}})(?:\s*/\s*|\s+(?:and|or|to)\s+){_WORD_BEFORE}(?P<place>{_PLACE.pattern})|"
    rf"(?P<first>{_PLACE.pattern})(?:\s*/\s*|\s+(?:and|or|to)\s+){_WORD_BEFORE}(?P<behind>\w{{1,40}})"
)
SURELY = re.compile(
    r"\b(?:there(?:['’]s| is) )?(?:no (?:doubt|question)|without (?:a |any )?doubt)(?: (?:that|about it))?,?"
)
_OR = re.compile(rf"\w\s+or\s+{_WORD_BEFORE}{_PLACE.pattern}|{_PLACE.pattern}\s+or\s+\w")
_SUSPECTED = re.compile(
    r"\b(?:history of|rule out|exclude|at (?:least|most)|up to|beyond|(?:more|less|other|higher|lower) than)\s+"
    rf"{_WORD_BEFORE}{_PLACE.pattern}"
)
SUPPOSED = re.compile(r"\s*if\s+(?!(?:i|we|one|you|forced|asked|pressed)\b)")
_ASIDE = re.compile(
    r",?\s+(?:which|who|whose|because|since|as (?:it|this|the)|that (?:may|might|could|can))\b|,\s+\w+ing\b"
)
"""Where a sentence goes on about what it has named."""
_MOST_BETWEEN = 5
"""Words that leave open which option it is stand at most so many words before or behind one (our own choice)."""
_LONGEST_GAP = 200
_KEPT_TEXTS = 10_000
_PREFIX = re.compile(
    r"\b(pre|post|trans|peri|sub|semi|pseudo|infra|supra|intra|extra|retro|non|hypo|hyper)[-‐‑– ](?=\w)"
)
"""What makes another word of the one behind it: "pre-malignant" is not "malignant"."""


_BRITISH = re.compile(r"(?<=[a-z]{3})our(?=s?\b)|ae(?=[a-z])|\boe(?=[ds])|(?<=\bf)oe(?=t)|(?<=rrh)oe")
"""What American spelling writes otherwise: tumour, haemorrhage, oedema, foetal, diarrhoea."""
_DEGREES = re.compile(r"(?<=\d)\s*°(?!\s*[cf]\b)")

_ALSO_DENIED = re.compile(rf"(?P<no>{_PLACE.pattern})(?:\s*,\s*\w+){{0,3}},?\s+n?or\s+\w+")
"""What an option that denies is said with: "no fracture or dislocation"."""
_JUDGED = re.compile(
    r"\b(?:(?:most|best|rather)\b|favou?rs?\b|consistent with\b|compatible with\b|suggests?\b|i (?:would|lean)\b|"
    r"i['’]d\b|likely\b|in keeping with\b)"
)
"""What a reply concludes in spite of its doubt: "I cannot be sure, but it is most consistent with ..."."""
_DESCRIBED = re.compile(
    rf"\W*(?:an?\s+)?{_PLACE.pattern}(?:\s+(?:and|or)\s+{_PLACE.pattern})*\s+(?:ha(?:s|ve)(?!\s+(?:been|\w+ed)\b)|"
    rf"shows?|"
    r"lacks?|contains?|causes?|produces?|looks?|tends?)\b"
)
"""What is said of a kind of thing, beside what the picture shows."""
_LATTER = re.compile(
    rf"\b(?:between\s+)?{_WORD_BEFORE}(?P<first>{_PLACE.pattern})\s+(?:and|or|vs\.?|"
    rf"versus)\s+{_WORD_BEFORE}(?P<last>{_PLACE.pattern})"
    r"[^.;\n]{0,60}?\bthe (?P<which>latter|former|first|second)\b(?: one)?"
)
_EXCLUDED = re.compile(
    r"(?:,?\s*\b(?:and|thus|thereby|which|so it)\s+)*(?:\b(?:excludes?|excluding|rules? out|ruling out|argues? "
    r"against|speaks? against)\s+"
    rf"{_WORD_BEFORE}(?P<denied>{_PLACE.pattern}(?:(?:\s*,\s*|\s+(?:and|or)\s+){_WORD_BEFORE}{_PLACE.pattern})*))"
)
"""What the picture excludes, beside what it shows."""
_DENIED_OF_PART = re.compile(
    rf"(?P<no>{_PLACE.pattern})\s+(?:(?:is|was)\s+)?(?:(?:seen|visible|present)\s+)?(?:on|in|"
    rf"at)\s+(?:the\s+)?{_PLACE.pattern}(?:\s+side)?"
)
"""What is absent from a part that is itself an option: "no effusion on the left"."""
_LETTER_BEHIND = re.compile(
    rf"(?P<place>{_PLACE.pattern})[ \t]*[(\[][ \t]*(?:(?:the\s+)?(?:option|choice|answer|letter|opci[oó]n|antwort|"
    rf"réponse|вариант|选项)\s*)?"
    r"(?P<letter>[a-z])\s*[)\]]"
)
_NO_KIND_OF = re.compile(
    r"\bno (?:(?:signs?|evidence) of (?:an? )?|"
    r"(?!large|big|signif|massive|further|other|more|addition|longer|second|only)(?P<kind>[a-z]+) )"
    r"(?=(?P<thing>[a-z]+)\b)"
)
"""What is said to be absent with a word more than in an option: "no diabetic retinopathy", "no sign of a tumor"."""


def worded(text: str, options: tuple[str, ...], *, beside_another: bool = False) -> set[str] | None:
    """Returns the options whose words stand in sentences that neither negate nor ask; None if there are none.

    Of a contrast ("benign, not malignant", "not benign but malignant") the option that is kept counts.

    If another sentence denies such an option, or says that the question cannot be answered, the result is None too.

    Args:
        beside_another: Whether another option was told, so that what only describes a kind of thing does not count.
    """
    found = _worded(text, options, beside_another)
    return None if found is None else set(found)


# A reply that repeats itself has the same sentences behind each of its statements.
@lru_cache(maxsize=_KEPT_TEXTS)
def _worded(text: str, options: tuple[str, ...], beside_another: bool) -> frozenset[str] | None:
    told, denied, described = set[int](), set[int](), set[int]()
    said = _with_places(text, options)
    if not _PLACE.search(said):
        return None
    said = _DENIED_OF_PART.sub(lambda found: " " if _denies(found["no"], options) else found[0], said)
    said = _LATTER.sub(lambda found: f" {found['last' if found['which'] in ('latter', 'second') else 'first']} ", said)
    said = _WITHOUT.sub(r"\1", _without_asides(said))
    for excluded in _EXCLUDED.finditer(said):
        denied |= _places(excluded["denied"])
    said = _EXCLUDED.sub(" ", said)
    said = _ALSO_DENIED.sub(lambda found: found["no"] if _denies(found["no"], options) else found[0], said)
    for contrast in (_LESS_LIKELY, _LESS, _FAVOURED, *_CONTRASTS):
        denied |= {place for found in contrast.finditer(said) for place in _places(found["denied"])}
        said = contrast.sub(r"\g<kept>", said)
    conceded = _CONCEDED.sub(" ", said)
    said = SURELY.sub(" ", _LACKS.sub("", conceded if _PLACE.search(conceded) else said))
    if any(_is_joined_to_another(found, options) for found in _JOINED.finditer(said)):
        return None
    clauses = [each for whole in _SENTENCE.findall(said) for each in pairwise([*_CLAUSE.split(_main_part(whole)), ""])]
    for sentence, behind in clauses:
        places = _places(sentence)
        is_denied = NEGATION.search(sentence) is not None
        if not places and UNABLE.search(sentence) and not (_JUDGED.search(behind) and _places(behind)):
            return None
        lacks_what_it_needs = re.search(r"\bwould\b", sentence) and not _places(behind) and NEGATION.search(behind)
        is_passing = (
            lacks_what_it_needs
            or _AT_FIRST.search(sentence)
            or (len(places) == len(options) and _OFFERED.search(sentence))
        )
        if places and (is_passing or _leaves_open(sentence)):
            continue
        if not sentence.rstrip().endswith("?"):
            (denied if is_denied else described if _DESCRIBED.match(sentence) else told).update(places)
    told = told or (set() if beside_another else described)
    words = [plain_words(option) for option in options]
    if not told and len(denied) == len(set(words)) - 1 > 1:
        told = set(range(len(words))) - denied
    found = {option for option in options if words.index(plain_words(option)) in told}
    return frozenset(found) if found and not told & denied else None


def _places(text: str) -> set[int]:
    return {ord(character) - _FIRST_PLACE for character in _PLACE.findall(text)}


def _denies(place: str, options: tuple[str, ...]) -> bool:
    return options[ord(place) - _FIRST_PLACE].casefold().startswith(("no ", "without "))


def only_in_passing(text: str, options: tuple[str, ...]) -> bool:
    """Returns whether a text names options, and only says what such a thing would look like or the like."""
    said = _with_places(text, options)
    return _PLACE.search(said) is not None and not _PLACE.search(_without_asides(said))


def _without_asides(said: str) -> str:
    for passing in _IN_PASSING:
        said = passing.sub(" ", said)
    return said


def _main_part(sentence: str) -> str:
    behind = _GOES_ON.search(sentence)
    return sentence[: behind.start()] if behind and _PLACE.search(sentence, 0, behind.start()) else sentence


def _is_joined_to_another(found: re.Match[str], options: tuple[str, ...]) -> bool:
    """Returns whether a word joined to an option by "and", "or" or "to" is, by its stem, one of another option only."""
    own = set(stems(plain_words(options[_places(found["place"] or found["first"]).pop()])))
    word = stems(found["before"] or found["behind"])
    others = {stem for option in options for stem in stems(plain_words(option))} - own
    return bool(word) and set(word) <= others


def _leaves_open(sentence: str) -> bool:
    if (
        SUPPOSED.match(sentence)
        or _SUSPECTED.search(sentence)
        or (_OR.search(sentence) and not NEGATION.search(sentence))
    ):
        return True
    main = _ASIDE.split(sentence)[0]
    main = main if _PLACE.search(main) else sentence
    places = [each.start() for each in _PLACE.finditer(main)]
    return any(_stands_near(found, places) for found in UNDECIDED.finditer(main))


def _stands_near(found: re.Match[str], places: Sequence[int]) -> bool:
    """Returns whether one of several places, in their order, is few words away from what was found."""
    behind = bisect_left(places, found.end())
    gaps = [found.string[found.end() : place] for place in places[behind : behind + 1]]
    gaps += [found.string[place + 1 : found.start()] for place in places[max(0, behind - 1) : behind]]
    return any(len(gap) <= _LONGEST_GAP and len(gap.split()) <= _MOST_BETWEEN for gap in gaps)


@lru_cache(maxsize=_KEPT_TEXTS)
def _turned(options: tuple[str, ...]) -> tuple[tuple[re.Pattern[str], str], ...]:
    """Returns patterns of options with what they have behind another one's words in front: "post-contrast T1"."""
    found = []
    for option in options:
        for other in options:
            words, own = plain_words(option), plain_words(other)
            if own and words.startswith(f"{own} ") and not words[len(own) + 1 :].isdigit():
                parts = [r"\s+".join(map(re.escape, each.split())) for each in (words[len(own) + 1 :], own)]
                found.append((re.compile(rf"(?<!\w){parts[0]}\s+{parts[1]}(?!\w)"), words))
    return tuple(found)


def other_letter_behind(text: str, options: tuple[str, ...]) -> bool:
    """Returns whether the words of an option have another one's letter in brackets behind them: "the liver (B)"."""
    for found in _LETTER_BEHIND.finditer(_with_places(text, options)):
        place, letter = ord(found["place"]) - _FIRST_PLACE, ascii_lowercase.index(found["letter"])
        if letter < len(options) and plain_words(options[letter]) != plain_words(options[place]):
            return True
    return False


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
    words = [plain_words(option) for option in options]
    own = {word for each in words for word in each.split()}
    said = _NO_KIND_OF.sub(lambda no: "no " if no["kind"] not in own and f"no {no['thing']}" in words else no[0], said)
    for pattern, option in _turned(options):
        said = pattern.sub(option.replace("\\", r"\\"), said)
    on_one_line = " ".join(said.split())
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
    ranged = _DEGREES.sub(" degrees", _BRITISH.sub(lambda found: "or" if found[0] == "our" else "e", ranged))
    return re.sub(r"(?<=[^\W\d])[-‐‑–](?=\w)|(?<=\d)[-‐‑–](?=[^\W\d])", " ", ranged)


@lru_cache(maxsize=_KEPT_TEXTS)
def _pattern(words: str) -> re.Pattern[str]:
    blanks_of_any_kind = re.escape(words).replace("\\ ", r"\s+")
    unsigned = "(?<![-−])" if words[:1].isdigit() else ""
    ranged = "|[-–]\\d" if words[-1:].isdigit() else ""
    return re.compile(rf"(?<!\w)(?<!\d[.,]){unsigned}{blanks_of_any_kind}(?!\w|[.,]\d{ranged})")
