"""Finds an option inside a free reply as the official pre-pass does.

It takes the first option that it finds, so a negated one counts ("It is not X" gives X), and so does the first of two.

Source: gurenolun/Dolphin-ai-bench, scripts/extract_model_responses_final.py.
"""

import re
from collections.abc import Sequence

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
