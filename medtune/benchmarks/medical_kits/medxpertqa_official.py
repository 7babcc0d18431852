r"""MedXpertQA's own rule: the first capital letter of an option that stands alone in a reply is the answer.

Source: TsinghuaC3I/MedXpertQA@f21247d, eval/utils.py:33-102 (method zero_shot) and eval/main.py:165-185. Its README
warns that the rule does not fit models that reason at length, such as QVQ and R1.
"""

import re
from string import ascii_uppercase

_ANSWER_IS = " answer is "
_RANGES = ("A through J", "A through E", "A through D")
_UNDERSTOOD = "I understand"


def letters(reply: str, num_options: int) -> list[str]:
    """Returns a list with the letter that the official code reads from a reply; an empty list where it reads none.

    What stands before the request for the answer, or else before the words "answer is", does not count.

    Args:
        reply: The reply, which may repeat the request "Therefore, among A through E, the answer is".
        num_options: The number of options.

    Example:
        >>> [letters(reply, 5) for reply in ("(B)", "A lung is seen, so C", "The answer is D.", "b")]
        [['B'], ['A'], ['D'], []]
    """
    signs = ascii_uppercase[:num_options]
    said = _behind(reply, f"Therefore, among {signs[0]} through {signs[-1]}, the answer is")
    if said is None:
        said = _behind(reply, _ANSWER_IS)
    text = reply if said is None else said
    for phrase in (_UNDERSTOOD, *_RANGES):
        text = text.replace(phrase, "")
    found = re.search(rf"\b[{signs}]\b", text)
    return [found[0]] if found else []


def _behind(text: str, words: str) -> str | None:
    pieces = text.split(words)
    return pieces[1].strip() if len(pieces) > 1 else None
