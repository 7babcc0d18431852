r"""Finds the answer in a reply as MedEvalKit does: \boxed{}, <answer> tags, and what follows the last answer phrase.

Source: alibaba-damo-academy/MedEvalKit@9b12e3b, utils/utils.py (parse_response, extract) and the `cal_metrics` of its
sets; mathruler 0.1.0, grader.py (extract_boxed_content).
"""

import re

_BOX = "\\boxed{"
_NO_BOX = "None"
_TAGGED = re.compile(r"<answer>(.*?)</answer>", re.S)
_PHRASES = (
    "**answer**:", "**answer**", "*answer*:", "**answer:**", "answer is", "answer:", "答案:", "final answer",
    "final answer is",
)  # fmt: skip
"""The phrases in the order in which the kit cuts the reply at them; some can never occur once an earlier one was cut.

Source: MedEvalKit@9b12e3b, utils/utils.py (parse_response).
"""


def answer_part(reply: str) -> str:
    r"""Returns the part of a reply that the kit compares, in lower case; a blank after the phrase stays in front.

    A reply with the word "boxed" but without a closed \boxed{} becomes the text "None", whatever it says.

    >>> answer_part("The Answer is Liver."), answer_part(r"\boxed{Liver}"), answer_part("It is boxed: liver")
    (' liver.', 'liver', 'None')
    """
    said = reply.lower()
    if "boxed" in said:
        said = boxed(said)
    elif "<answer>" in said:
        said = tagged(said)
    for phrase in _PHRASES:
        # Not rpartition: of two phrases that share their stars, the first counts.
        said = said.split(phrase)[-1]
    return said


def handed_over(reply: str) -> str:
    """Returns the part of a reply that the kit's sets hand on: what is in the box or in the tags, or all of it."""
    found = boxed(reply)
    if found != _NO_BOX:
        return found
    return tagged(reply) if "<answer>" in reply else reply


def boxed(text: str) -> str:
    r"""Returns the content of the last \boxed{}, or the word "None" if there is none or its brace is not closed."""
    if _BOX not in text:
        return _NO_BOX
    depth, content = 0, text.rpartition(_BOX)[2]
    for place, character in enumerate(content):
        depth += {"{": 1, "}": -1}.get(character, 0)
        if depth < 0:
            return content[:place].strip()
    return _NO_BOX


def tagged(text: str) -> str:
    """Returns the texts inside of all <answer> tags, joined by blanks; the whole text if they hold nothing."""
    return "".join(f"{part} " for part in _TAGGED.findall(text)).strip() or text
