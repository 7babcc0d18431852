"""Tells whether a reply states a short answer, whatever words surround it, by fixed rules that never guess.

What the reply gives as its answer is read as everywhere (`read_answer`). Of that, three readings are tried: the text
itself, its first sentence, and what is left without a frame such as "The image shows ..." or "... in this image".
"""

import re

from medtune.eval.scoring.normalised_text import normalised
from medtune.eval.scoring.parsers.free_answer import read_answer

_SENTENCE_END = re.compile(r"\n|[.!?;](?=\s|$)|[。；]")
_TAKEN_BACK = re.compile(r"\W*(?:no|not|actually|wait|sorry|rather|correction|or|but|however|不对|不是|或)\b", re.I)
_PICTURE = r"(?:image|picture|scan|x-?ray|radiograph|film|ct|mri|figure|photo(?:graph)?|view|study|slide|section)"
_FRAMES = (
    re.compile(
        rf"(?:(?:based on|according to|from|in|on|looking at|as (?:seen|shown) (?:in|on))\s+(?:the|this)\s+"
        rf"(?:[\w-]+\s+)?{_PICTURE}\s*,?\s*)",
        re.I,
    ),
    re.compile(r"(?:i\s+(?:would\s+)?(?:think|believe|say|see|guess)\s*(?:that\s+|,\s*)?)", re.I),
    re.compile(
        r"(?:(?:it|this|that|there|here|these|they|he|she)(?:['’]s|\s+(?:is|are|was|were|shows?|depicts?|looks?\s+like|"
        r"(?:appears?|seems?)\s+to\s+be|would\s+be|must\s+be|has|have))\s+)",
        re.I,
    ),
    re.compile(
        r"(?:(?:the|this|these|its|their)\s+(?:[\w'/-]+\s+){0,7}?[\w'/-]+\s+(?:is|are|was|were|shows?|depicts?|"
        r"demonstrates?|(?:appears?|seems?)\s+to\s+be|would\s+be|must\s+be)\s+)",
        re.I,
    ),
    re.compile(r"(?:(?:most\s+likely|likely|probably|clearly|mainly|best\s+described\s+as|called)\s+)", re.I),
    re.compile(
        r"(?:(?:located|seen|found|visible|situated|present|shown|visuali[sz]ed)\s+(?=(?:in|on|at|near|within|to)\b))",
        re.I,
    ),
    re.compile(r"(?:(?:in|on|at|within|near|to|with|of|by|an?|the)\s+)", re.I),
    re.compile(
        r"(?:(?:这|那|该|此)?(?:张)?(?:图片|图像|图|影像)?(?:中|里|上)?(?:的)?[^,。;不没]{0,12}?(?:显示的是|显示|位于|是|为|在))"
    ),
)
_AFTER = re.compile(
    rf"(?:\s+(?:is|are|was|were)(?:\s+(?:the\s+(?:correct\s+)?answer|correct|shown|seen|visible|present|depicted))?)?"
    rf"(?:\s+(?:shown|seen|visible|present))?(?:\s+(?:in|on)\s+(?:the|this)\s+(?:[\w-]+\s+)?{_PICTURE})?\s*$|的\s*$",
    re.I,
)
_LIST_MARK = re.compile(r"[,，、;；]|\band\b|和")
_NEGATED = re.compile(r"\b(?:not|no|never|without|neither|nor|except)\b|n['’]t\b|不|没", re.I)


def readings(answer: str) -> set[str]:
    """Returns the normalised texts that an answer can be read as.

    Example:
        >>> sorted(readings("It is in the left lung."))
        ['in left lung', 'it is in left lung', 'left lung']
        >>> sorted(readings("Not the liver")), "liver" in readings("It is not the liver")
        (['not liver'], False)
    """
    texts = [answer]
    first = _first_sentence(answer)
    if not _TAKEN_BACK.match(answer[len(first) :].lstrip(" .!?;。；\n")):
        texts.append(first)
    found = set[str]()
    for text in texts:
        found |= _forms(text)
    return found


def is_same_answer(reply: str, truth: str) -> bool:
    """Returns whether a reply states the true answer, apart from normalisation and a frame of words around it.

    Example:
        >>> said = ("LEFT LUNG.", "The answer is: left lung", "It is in the left lung.", "left lung, I think not")
        >>> [is_same_answer(reply, "Left lung") for reply in said]
        [True, True, True, False]
        >>> is_same_answer("该图像是横断面。", "横断面"), is_same_answer("abnormal", "normal")
        (True, False)
        >>> is_same_answer("The liver and the left lung.", "Left Lung, Liver"), is_same_answer("2, 5", "5, 2")
        (True, False)
    """
    wanted = _forms(truth)
    if not wanted:
        return reply.strip() == truth.strip()
    answer = read_answer(reply)
    return answer is not None and not wanted.isdisjoint(readings(answer))


def _forms(text: str) -> set[str]:
    texts = _unframed(text)
    return {form for each in texts for form in (normalised(each), _in_order(each))} - {""}


def _in_order(text: str) -> str:
    items = sorted({normalised(item) for item in _LIST_MARK.split(text)} - {""})
    are_words = all(any(character.isalpha() for character in item) for item in items)
    return " + ".join(items) if len(items) > 1 and are_words else ""


def _first_sentence(text: str) -> str:
    end = _SENTENCE_END.search(text.lstrip())
    return text.lstrip()[: end.start()] if end and end.start() else text


def _unframed(text: str) -> list[str]:
    found, said = [text], text.strip().rstrip(".。!！;；\"'“”’ ").lstrip("\"'“”‘ ")
    found.append(said)
    for frame in _FRAMES:
        match = frame.match(said)
        if match and not _NEGATED.search(match[0]) and normalised(said[match.end() :]):
            said = said[match.end() :]
            found.append(said)
    return found + [short for each in found if (short := _AFTER.sub("", each)) and short != each]
