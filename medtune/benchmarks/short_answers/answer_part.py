r"""Finds the words of a short answer in a reply, whatever surrounds them, by fixed rules that never guess.

Thoughts before the answer do not count. Marked answers (<answer>, \boxed{}, a JSON field) come before statements ("the
answer is ...", "答案是..."), and these before the reply as a whole. Of each, three readings are tried: the text
itself, its first sentence, and what is left without a frame such as "It is ... in this image". Contradicting marks or
statements give nothing.
"""

from __future__ import annotations

import re

from medtune.eval.scoring.normalised_text import normalised
from medtune.eval.scoring.parsers.answer_marks import marked_answers, plain_characters, without_emphasis
from medtune.eval.scoring.parsers.think_blocks import after_thoughts

_STATEMENT = re.compile(
    r"(?:\b(?:final|correct|right|best|short|my|the)\s+)*\b(?:answer|response|conclusion)\b"
    r"(?:\s+(?:to|for)\s+(?:the|this|your)\s+question)?\s*(?:\b(?:is|was|would be|should be)\b|[:=])\s*[:=]?\s*|"
    r"(?:最终|正确|我的)?(?:答案|回答|结论)\s*(?:应该是|应为|是|为|:)\s*:?\s*",
    re.I,
)
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
_NEGATED = re.compile(r"\b(?:not|no|never|without|neither|nor|except)\b|n['’]t\b|不|没", re.I)


def answer_parts(reply: str) -> list[str]:
    r"""Returns the parts of a reply that state its answer; several only if all of them are the same text.

    Example:
        >>> answer_parts("<think>spleen?</think> The answer is **liver**."), answer_parts(r"\boxed{a} \boxed{b}")
        (['liver.'], [])
        >>> answer_parts("答案：肝脏。")
        ['肝脏。']
    """
    text = after_thoughts(plain_characters(reply))
    marked = [without_emphasis(each).strip() for each in marked_answers(text)]
    if not marked:
        plain = without_emphasis(text).strip()
        stated = list(_STATEMENT.finditer(plain))
        ends = [*(each.start() for each in stated[1:]), len(plain)]
        marked = [plain[each.end() : end].strip() for each, end in zip(stated, ends, strict=False)]
        marked = [each for each in marked if normalised(each)] or [plain]
    kept = [each for each in marked if normalised(each)]
    return kept if len({normalised(_first_sentence(each)) for each in kept}) == 1 else []


def readings(part: str) -> set[str]:
    """Returns the normalised texts that a part of a reply can be read as.

    Example:
        >>> sorted(readings("It is in the left lung."))
        ['in left lung', 'it is in left lung', 'left lung']
        >>> sorted(readings("Not the liver")), "liver" in readings("It is not the liver")
        (['not liver'], False)
    """
    texts = [part]
    first = _first_sentence(part)
    if not _TAKEN_BACK.match(part[len(first) :].lstrip(" .!?;。；\n")):
        texts.append(first)
    found = set[str]()
    for text in texts:
        found |= {normalised(each) for each in _unframed(text)}
    return found - {""}


def is_same_answer(reply: str, truth: str) -> bool:
    """Returns whether a reply states the true answer, apart from normalisation and a frame of words around it.

    Example:
        >>> said = ("LEFT LUNG.", "The answer is: left lung", "It is in the left lung.", "left lung, I think not")
        >>> [is_same_answer(reply, "Left lung") for reply in said]
        [True, True, True, False]
        >>> is_same_answer("该图像是横断面。", "横断面"), is_same_answer("abnormal", "normal")
        (True, False)
    """
    parts = answer_parts(reply)
    wanted = {normalised(each) for each in _unframed(truth)} - {""}
    if not wanted:
        return reply.strip() == truth.strip()
    return bool(parts) and all(readings(part) & wanted for part in parts)


def _first_sentence(text: str) -> str:
    end = _SENTENCE_END.search(text.lstrip())
    return text.lstrip()[: end.start()] if end and end.start() else text


def _unframed(text: str) -> list[str]:
    """Returns a text, and what is left of it each time that a frame at its beginning or end is taken off."""
    found, said = [text], text.strip().rstrip(".。!！;；\"'“”’ ").lstrip("\"'“”‘ ")
    found.append(said)
    for frame in _FRAMES:
        match = frame.match(said)
        if match and not _NEGATED.search(match[0]) and normalised(said[match.end() :]):
            said = said[match.end() :]
            found.append(said)
    return found + [short for each in found if (short := _AFTER.sub("", each)) and short != each]
