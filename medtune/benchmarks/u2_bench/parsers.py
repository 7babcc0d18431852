"""Parsers that read a reply in the ways of the official scripts, in the form that `Benchmark` expects.

Finds an option inside a free reply as the official pre-pass does.

It takes the first option that it finds, so a negated one counts ("It is not X" gives X), and so does the first of two.

Source: gurenolun/Dolphin-ai-bench, scripts/extract_model_responses_final.py.

Sorts replies into the kinds that the paper counts in its error analysis.

Errors in the content of a report (a structure mistaken, a finding made up) need a human reader and are not counted.

Source: U2-Bench (arXiv 2505.17779), appendix C.4, which names the kinds without rules; the rules are ours.
"""

import re
from collections.abc import Sequence
from string import ascii_lowercase

from medtune.benchmarks.u2_bench.official.labels import (
    Mode,
    OfficialFailureError,
    extract_number,
    predicted_value,
    read_position,
    read_row,
)
from medtune.benchmarks.u2_bench.tasks_and_sets import (
    CLASSIFICATION,
    DETECTION,
    INTEGER_SETS,
    TEXT,
    VALUE,
    options_seen,
)
from medtune.data.media.masks import LOCATIONS
from medtune.data.types import Question
from medtune.eval.scoring.parsers.choice_parsers import parse_choice
from medtune.eval.scoring.parsers.measures import read_measure

_EDGE = ".,;:!?'\""
_ARTICLE = "(?:a |an |the )?"
_LEADS = (
    r"is {article}(?:typical for |indicative of |suggestive of |consistent with |compatible with |showing |"
    r"demonstrates |revealing )?",
    r"(?:appears to be|(?:identifi|classifi|recogniz|interpret|diagnos|confirm)ed as|representing|shows|demonstrates) "
    r"{article}",
    r"(?:image|ultrasound|scan|examination|visualization|assessment|analysis|interpretation|finding|result|picture|"
    r"sonogram|sonographic features) (?:is |shows |demonstrates |reveals |indicates |suggests |points to |confirms |"
    r"indicate )?{article}",
)
_KEYWORDS = (
    ("maternal", "maternal cervix"), ("cervix", "maternal cervix"), ("fetal", "fetal brain"),
    ("abdomen", "fetal abdomen"), ("femur", "fetal femur"), ("thorax", "fetal thorax"), ("brain", "fetal brain"),
)  # fmt: skip

VALID, EMPTY = "valid", "empty"
FORMAT, EXPLANATORY = "format_violation", "explanatory"
INVALID_TERM, DEVIATION = "invalid_term", "deviation"
DESCRIPTIVE = "descriptive"
KINDS = {
    "classification": (VALID, EXPLANATORY, FORMAT),
    "localisation": (VALID, INVALID_TERM, DEVIATION),
    "values": (VALID, DESCRIPTIVE, FORMAT),
    "reports": (VALID, EMPTY),
}
_WHERE = re.compile(
    r"\b(?:upper|lower|middle|cent(?:er|re|ral)|left|right|top|bottom|quadrant|visible|superior|inferior|lateral|medial)\b"
)
_BLANKS_AND_QUOTES = " \t\r\n\"'"


def extract_option(reply: str, options: Sequence[str]) -> str:
    """Returns the first option that the script finds in the reply, spelled as in `options`; "" if it finds none.

    The script looks, in this order, for an option that is the whole reply; for options of several words, at word
    boundaries or after a phrase such as "shows a"; for options of one word, at word boundaries; for any option as a
    part of the text; for options word by word without punctuation; and for keywords of fetal planes.

    >>> extract_option("It is not benign.", ["normal", " benign"]), extract_option("Hm.", ["normal"])
    (' benign', '')
    """
    if not reply:
        return ""
    text = _normal(reply)
    plain = {option: _normal(option) for option in options}
    whole = [option for option in options if option.lower() == reply.lower().strip()]
    several = [option for option in options if " " in plain[option] and _has_phrase(plain[option], text)]
    single = [option for option in options if " " not in plain[option] and _at_bounds(plain[option], text)]
    inside = [option for option in options if plain[option] in text]
    found = whole or several or single or inside
    return found[0] if found else _word_by_word(reply, options) or _keyword(text, options)


def _normal(text: str) -> str:
    return re.sub(r"^['\"]+|['\"]+$", "", re.sub(r"\s+", " ", text.lower()).strip())


def _at_bounds(words: str, text: str) -> bool:
    return re.search(rf"\b{re.escape(words)}\b", text) is not None


def _has_phrase(words: str, text: str) -> bool:
    quoted = rf"['\"]?{re.escape(words)}"
    patterns = [rf"['\"]{re.escape(words)}['\"]", *(lead.format(article=_ARTICLE) + quoted for lead in _LEADS)]
    return _at_bounds(words, text) or any(re.search(pattern, text) for pattern in patterns)


def _word_by_word(reply: str, options: Sequence[str]) -> str:
    words = reply.split()
    bare = [word.lower().strip(_EDGE) for word in words]
    for word in words:
        # For a word that occurs several times, the script always starts at its first place.
        start = words.index(word)
        for option in options:
            parts = option.lower().split()
            if parts and bare[start : start + len(parts)] == parts:
                return option
    return ""


def _keyword(text: str, options: Sequence[str]) -> str:
    return next((plane for word, plane in _KEYWORDS if word in text and plane in options), "")


def parse_strict(reply: str, question: Question) -> str | None:
    """Returns the answer that the evalkit's strict scripts read: the reply itself, in small letters."""
    return _parse(reply, question, mode="strict")


def parse_lenient(reply: str, question: Question) -> str | None:
    """Returns the answer that the lenient post-processing reads.

    It ignores blanks and quotes around a label, and words around a position.
    """
    return _parse(reply, question, mode="lenient")


def parse_extracted(reply: str, question: Question) -> str | None:
    """Returns the answer that the lenient post-processing reads after its pre-pass, which picks an option or number."""
    return _parse(prepared_reply(reply, question), question, mode="lenient")


def prepared_reply(reply: str, question: Question) -> str:
    """Returns the reply after the official pre-pass, which leaves replies about positions and texts as they are."""
    task, dataset = task_of(question), question.facets["dataset"]
    if task in CLASSIFICATION:
        return extract_option(reply, options_seen(task, dataset, question.options))
    return extract_number(reply, dataset=dataset) if task == VALUE else reply


def truth_cell(question: Question) -> str | int:
    """Returns the true answer as the official tables hold it: a whole number in two data sets, a text in all others."""
    is_whole = task_of(question) == "DD" and question.facets["dataset"] in INTEGER_SETS
    return int(question.answer) if is_whole else question.answer


def task_of(question: Question) -> str:
    """Returns the question's task, e.g. "DD"."""
    return question.facets["task"]


def _parse(reply: str, question: Question, *, mode: Mode) -> str | None:
    task = task_of(question)
    if task in DETECTION:
        label = read_position(reply, mode=mode).label
        return None if label is None else _as_option(label, question)
    if task == VALUE:
        number = predicted_value(reply, mode=mode)
        return None if number is None else repr(number)
    if task not in CLASSIFICATION:
        return (reply.strip() if mode == "lenient" else reply) or None
    try:
        said = read_row(truth_cell(question), reply, dataset=question.facets["dataset"], mode=mode).label
    except OfficialFailureError:
        return None
    return None if said is None else _as_option(str(said), question)


def _as_option(label: str, question: Question) -> str:
    return next((option for option in question.options if option.lower() == label.lower()), label)


def parse(reply: str, question: Question) -> str | None:
    """Returns the answer in the reply (an option, a number as plain text, or a text); None if no answer is clear."""
    if question.answer_kind == "number":
        return parse_number(reply, question)
    if question.answer_kind == "text":
        return reply.strip() or None
    return parse_choice(reply, question) or _class_of_number(reply, question)


def parse_number(reply: str, question: Question) -> str | None:
    """Returns the number that the reply gives as its answer, or None if none is clear; see `eval.scoring`.

    >>> asked = Question("q", "m", "How wide?", (), "5", "number", "p", unit="mm")
    >>> [parse_number(reply, asked) for reply in ("about 1,200.0", "-3 mm in image 2", "50 to 60", "12 +/- 2")]
    ['1200', '-3', None, '12']
    """
    value = read_measure(reply, question.unit, asked=question.text)
    return None if value is None else f"{value:.12g}"


def _class_of_number(reply: str, question: Question) -> str | None:
    if re.fullmatch(r"\+?[0-9]{1,9}", reply.strip()) is None:
        return None
    return next((each for each in question.options if each.strip().isdecimal() and int(each) == int(reply)), None)


def family(question: Question) -> str:
    """Returns the name of the one of the paper's four analyses that a question belongs to."""
    task = task_of(question)
    if task == VALUE:
        return "values"
    return "localisation" if task in DETECTION else "reports" if task in TEXT else "classification"


def reply_type(reply: str, question: Question) -> str:
    """Returns the kind of a reply, one of `KINDS` for the question's family.

    The letter of an option is as valid as its words, because a prompt may ask for either.

    >>> asked = Question("q", "m", "?", ("benign", "malignant"), "benign", "choice", "p", {"task": "DD"})
    >>> [reply_type(reply, asked) for reply in ("Benign", "It is benign.", "A round lesion.")]
    ['valid', 'format_violation', 'explanatory']
    """
    said = reply.strip(_BLANKS_AND_QUOTES).lower()
    kind = family(question)
    if kind == "reports":
        return VALID if said else EMPTY
    is_letter = len(said) == 1 and said in ascii_lowercase[: len(question.options)]
    if kind == "values":
        if re.fullmatch(r"[-+]?(?:\d+\.?\d*|\.\d+)", said):
            return VALID
        return DESCRIPTIVE if parse_number(reply, question) is None else FORMAT
    if said in {option.lower() for option in question.options} or is_letter:
        return VALID
    if kind == "localisation":
        named = any(location in said for location in LOCATIONS) or _WHERE.search(said)
        return INVALID_TERM if named else DEVIATION
    return EXPLANATORY if parse_choice(reply, question) is None else FORMAT
