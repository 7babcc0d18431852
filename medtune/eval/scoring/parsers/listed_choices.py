"""Finds the option that the form of a reply singles out: ticks or bold letters in a list, an arrow, a number before it.

1. Of a ranking, the first one. Of a list of options, or of a table with one in each row, the one with a tick, a filled
   box or circle, an arrow behind it, or "yes" where others have "no" or nothing: "[ ] normal [x] benign", "A: no, B:
   yes". Several ticks, or none, single out nothing.
2. Of a list of options and nothing else, the one in bold letters.
3. What an arrow points to at the end: "smooth margins → B". Where options stand before the arrow in its sentence, it
   tells a course.
4. What stands behind the number of the question: "1. B", "Q2: benign".
5. What stands behind a word for a result on a line of its own: "Diagnosis: B".

An item is an option's letter, its words, or both if they belong together.
"""

import re
from collections.abc import Callable
from itertools import groupby

from medtune.eval.scoring.parsers.answer_words import NEGATION

Named = Callable[[str], str | None]
"""A function that returns the option that an item is, or None."""

_TRUE, _FALSE = "\ue001", "\ue002"
_BOXES = (
    (re.compile(r"[\[(][xX✓✔][\])](?!\w)|[✓✔✅☑🗹🗸●◉🔘⦿]\ufe0f?"), _TRUE),
    (re.compile(r"\[[ _]?\]|\( \)|[✗✘❌✖☐○◯⭕]\ufe0f?"), _FALSE),
)
_CROSSED_BOX = "☒"
_POINTED_AT = re.compile(
    r"[ \t]*(?:<[-=]{1,3}|[←⟵⇐])[ \t]*(?:(?:the |my )?(?:correct|right|answer)(?: answer)?)?[ \t]*(?=\n|\Z)", re.I
)
_SAID_OF = re.compile(
    r"(?P<item>[^\n,;:=–—→(?]{1,120}?)[ \t]*(?:[:=–—→(?]|-(?=\s))[ \t]*(?:(?P<yes>yes|true|correct|right)|"
    r"(?P<no>no|false|incorrect|wrong|not correct))\)?[ \t]*[.,;]?[ \t]*(?=\n|\Z|(?<=[,;.])\s)",
    re.I,
)
_TABLE_HEAD = re.compile(r"^[ \t]*\|.*\n[ \t]*\|[ \t]*:?-[ \t:|-]*\n", re.M)
_ROW = re.compile(r"^[ \t]*\|([^\n]*)\|[ \t]*$", re.M)
_SAYS = frozenset(("yes", "no", "true", "false", "correct", "incorrect", "right", "wrong", "not correct"))
_BULLET = re.compile(r"\A[\s•–*|,;/-]+|[\s•–*|,;/.-]+\Z")
_NUMBER_IN_FRONT = re.compile(r"\(?\d{1,2}[.):]\s+")
_RANKED = re.compile(r"\b(?:rank(?:ing|ed)?|most (?:likely|probable) first|in (?:descending )?order|top[- ]\d)\b", re.I)
_FIRST_OF_MORE = re.compile(
    r"(?<!\w)1[.):]\s+(?P<first>[^\n]{1,200}?)[,;]?\s+2[.):]\s+(?P<second>[^\n]{1,200}?)(?=[,;]?\s+3[.):]|\n|\Z)"
)
_BOLD = re.compile(r"\*\*([^*\n]{1,200})\*\*|__([^_\n]{1,200})__|<(b|strong|mark|u)>([^<\n]{1,200})</\3>", re.I)
_LIST = re.compile(r"\n|[,;/|]|[ \t](?=\(?[A-Z][).][ \t])")
ARROW = re.compile(r"(?:[➔➜➞➡⟶⇒⟹▶►»]\ufe0f?|(?<![<\w])[-=]{1,3}>(?![\d\s]*\d)|(?<!>)>>)")
_NUMBERED = re.compile(
    r"\A\s*(?:q\.?\s*\d{1,3}(?=\s)|(?:(?:q|question|item|task)[. ]?\s*\d{0,3}|(?:#|no\.|nr\.)\s*1)\s*[.):-]|"
    r"\(?1(?:\s*[.):-]+|(?=\s)))\s*",
    re.I,
)
_RESULT = re.compile(
    r"(?:\A|\n)[ \t]*(?:my\s+|final\s+)?(?:diagnos[ie]s?|diagnose|result|output|response|label|class|ans|verdict|"
    r"impression|assessment|conclusion|ergebnis|beurteilung|заключение|диагноз|诊断|结论|ergebnis|seite|correct|resp|"
    r"rép|antw|odp|sol|r)[.]?\s*[:=-]\s*(?P<item>[^\n]{1,200})(?=\n|\Z)",
    re.I,
)
_TAG = re.compile(r"</?(?:b|strong|i|em|u|p|span|div|mark|code|li|ul|ol|br)(?:\s[^<>]{0,80})?/?>", re.I)
_JOINT = re.compile(r"[\s,;/&.]*(?:and|or|und|oder|et|ou|y|o)?[\s,;/&.]*", re.I)
_LETTER = re.compile(r"(?<![\w'’])[A-Z](?![\w'’])")


def listed(text: str, name: Named, options: tuple[str, ...]) -> set[str] | None:
    """Returns the options that a list ticks or has in bold letters; None where there is no such list."""
    ticked = _ticked(text, name, options)
    if ticked is None and _RANKED.search(text) and (ranked := _FIRST_OF_MORE.search(text)) is not None:
        first, second = (name(_BULLET.sub("", ranked[place])) for place in ("first", "second"))
        ticked = {first} if first is not None and second not in (None, first) else None
    return _in_bold(text, name, options) if ticked is None else ticked


def with_words_for_boxes(text: str, yes: str, no: str) -> str:
    """Returns a text with words in the place of ticks and boxes; a crossed box is a "yes" where no other box is."""
    for pattern, mark in _BOXES:
        text = pattern.sub(mark, text)
    text = text.replace(_CROSSED_BOX, _FALSE if _TRUE in text else _TRUE)
    return text.replace(_TRUE, yes).replace(_FALSE, no)


def pointed_at(text: str, name: Named, names_any: Callable[[str], bool]) -> set[str] | None:
    """Returns the option to which an arrow points at the end of a text whose arrows are all "→", else None."""
    head, arrow, item = text.rstrip().rpartition("→")
    if not arrow or len(item) > 300 or (option := name(_BULLET.sub("", item))) is None:
        return None
    sentence = re.split(r"[.!?:]\s|\n", f"{head[-300:]}\n"[:-1] + " ")[-1].strip()
    if _LETTER.search(sentence) or names_any(sentence) or NEGATION.fullmatch(sentence):
        return None
    return None if "→" in head and any(name(_BULLET.sub("", each)) for each in head.split("→")[1:]) else {option}


def unnumbered(text: str, name: Named) -> str:
    """Returns a text without the number of its question, where an option follows it and no other line has a number."""
    numbered = _NUMBERED.match(text)
    if numbered is None or re.search(r"\n\s*\d+\s*[.)]", text):
        return text
    rest = text[numbered.end() :]
    is_letter = re.match(r"[(\[]?[A-Z](?:[)\].:,\s]|\Z)", rest)
    return rest if is_letter or (name(rest) is not None and not rest[:1].isdigit()) else text


def result(text: str, name: Named) -> set[str] | None:
    """Returns the options that stand behind a word for a result, each on a line of its own; None without one."""
    found = {option for each in _RESULT.finditer(text) if (option := name(_BULLET.sub("", each["item"])))}
    return found or None


def without_tags(text: str) -> str:
    """Returns a text without the tags of HTML that only say how it looks."""
    return _TAG.sub(" ", text) if "<" in text else text


def _ticked(text: str, name: Named, options: tuple[str, ...]) -> set[str] | None:
    marked = _POINTED_AT.sub(_TRUE, rows_as_lines(text))
    marked = with_words_for_boxes(marked, _TRUE, _FALSE)
    if _TRUE not in marked and _FALSE not in marked and not {option.casefold() for option in options} & _SAYS:
        said = _SAID_OF.sub(lambda said: f"{said['item']}{_TRUE if said['yes'] else _FALSE}\n", marked)
        marked = said if _TRUE in said else marked
    if _TRUE not in marked and _FALSE not in marked:
        return None
    lines = [line for line in marked.split("\n") if line.strip()]
    if len(lines) == 1:
        lines = _parts(lines[0])
    plain = [_BULLET.sub("", re.sub(f"[{_TRUE}{_FALSE}]", "", line)) for line in lines]
    if all(map(_NUMBER_IN_FRONT.match, plain)):
        plain = [_NUMBER_IN_FRONT.sub("", each) for each in plain]
    items = [(name(each), line) for each, line in zip(plain, lines, strict=True)]
    if any(option is None and (_TRUE in line or _FALSE in line) for option, line in items):
        return None
    if len({option for option, _ in items if option is not None}) < 2:
        return None
    ticked = {option for option, line in items if option is not None and _TRUE in line}
    return ticked if len(ticked) == 1 else set()


def rows_as_lines(text: str) -> str:
    """Returns a text with the rows of tables as lines, the last cell behind a colon, and without the tables' heads."""
    return _ROW.sub(_cells, _TABLE_HEAD.sub("", text))


def _cells(row: re.Match[str]) -> str:
    *cells, last = (cell.strip() for cell in row[1].split("|"))
    return f"{' '.join(cells)}: {last}" if cells else row[0]


def _parts(line: str) -> list[str]:
    mark = f"[{_TRUE}{_FALSE}]"
    if re.match(rf"[\s•–*-]*{mark}", line):
        return re.findall(rf"{mark}[^{_TRUE}{_FALSE}]*", line)
    return [part for part in re.findall(rf"[^{_TRUE}{_FALSE}]*{mark}|[^{_TRUE}{_FALSE}]+\Z", line) if part.strip()]


def _in_bold(text: str, name: Named, options: tuple[str, ...]) -> set[str] | None:
    bold = [next(part for part in (each[1], each[2], each[4]) if part is not None) for each in _BOLD.finditer(text)]
    if not bold:
        return None
    told = {option for each in bold if (option := name(_BULLET.sub("", each))) is not None}
    if len(told) > 1 and _JOINT.fullmatch(_BOLD.sub("", text)):
        return set()
    # In a list of all options bold letters may be what divides it.
    for edge, fewest in (("", 2), ("\n", len(options))):
        plain = _BOLD.sub(rf"{edge}\1\2\4{edge}", text)
        named = [name(item) for part in _LIST.split(plain) if (item := _BULLET.sub("", part))]
        # "B. **benign**" is one item in two parts.
        items = [item for item, _ in groupby(named)]
        if len(items) >= fewest and None not in items:
            break
    if len(items) < fewest or None in items or len({*items}) < len(items):
        return None
    found = {name(_BULLET.sub("", each)) for each in bold}
    return {option for option in found if option is not None} if len(found) == 1 else set()
