r"""Finds the parts of a reply that are marked as the answer: <answer> tags, \boxed{}, and fields of JSON objects."""

import re
import unicodedata

_TAGGED = re.compile(r"<answer>(.*?)(?:</answer>|\Z)|<\|begin_of_box\|>(.*?)(?:<\|end_of_box\|>|\Z)", re.S | re.I)
_BOX = re.compile(r"\\f?box(?:ed)?\s*\{", re.I)
_NAME = (
    r"(?:(?:final|correct|predicted|chosen|selected|best)[_ ]?)?(?:answer|choice|option|letter|prediction)"
    r"(?:[_ ]?(?:letter|choice|option|value))?"
)
_FIELD = re.compile(
    rf"(?P<quote>[\"']){_NAME}(?P=quote)\s*:\s*"
    r"(?:\"(?P<double>(?:[^\"\\]|\\.)*)(?:\"|\Z)|'(?P<single>[^']*)'|(?P<list>\[[^\]]*\])|(?P<bare>[^,}\n\"']+))",
    re.I,
)
_LATEX = re.compile(r"\\(?:text|textbf|textit|textrm|mathbf|mathrm|mathit|rm|bf)\s*\{([^{}]*)\}", re.I)
_LATEX_BLANK = re.compile(r"\\[,;:! ]|~")
_EMPHASIS = re.compile(r"[*`]+|(?<![^\W_])_+|_+(?![^\W_])|^[ \t]*#+[ \t]*", re.M)


def marked_answers(text: str) -> list[str]:
    r"""Returns the parts of a reply that are marked as its answer, in the order of the kinds of mark; often none.

    The marks are <answer> tags (the closing one may be missing), the box tags of GLM, LaTeX's \boxed{}, and the fields
    of a JSON object that are named answer, choice, option, letter or prediction, with or without "final" and the like.

    Example:
        >>> marked_answers(r"<answer> B </answer> \boxed{\text{C}}"), marked_answers('{"final_answer": "D. low"}')
        (['B', 'C'], ['D. low'])
        >>> marked_answers("Answer: B")
        []
    """
    found = [tagged[1] if tagged[1] is not None else tagged[2] for tagged in _TAGGED.finditer(text)]
    place = 0
    while box := _BOX.search(text, place):
        found.append(_braced(text, box.end()))
        place = box.end() + len(found[-1])
    found += [next(value for value in field.groups()[1:] if value is not None) for field in _FIELD.finditer(text)]
    return [said for each in found if (said := _without_latex(each).strip())]


def plain_characters(text: str) -> str:
    """Returns a text in compatible characters (a full-width B is a B), without invisible ones and carriage returns."""
    folded = unicodedata.normalize("NFKC", text).replace("\r\n", "\n").replace("\r", "\n")
    return "".join(character for character in folded if unicodedata.category(character) != "Cf")


def without_emphasis(text: str) -> str:
    """Returns a text without the marks of markdown for emphasis, code and headings, and without LaTeX's text commands.

    Example:
        >>> without_emphasis("**Answer:** `B`"), without_emphasis("# _C_"), without_emphasis("no_fat")
        ('Answer: B', 'C', 'no_fat')
    """
    return _EMPHASIS.sub("", _without_latex(text))


def _braced(text: str, start: int) -> str:
    depth = 1
    for place in range(start, len(text)):
        depth += {"{": 1, "}": -1}.get(text[place], 0)
        if not depth:
            return text[start:place]
    return text[start:]


def _without_latex(text: str) -> str:
    if "\\" not in text:
        return text
    return _LATEX_BLANK.sub(" ", _LATEX.sub(r"\1", text))


_CLOSED = re.compile(r"<think>.*?</think>", re.S)
_OPEN = re.compile(r"<think>.*\Z", re.S)

_NAMES = r"(?:think(?:ing)?|thought|reason(?:ing)?|analysis|scratchpad)"
_BEGIN = rf"(?:[<\[◁]{_NAMES}[>\]▷]|<\|begin_of_thought\|>)"
_END = rf"(?:[<\[◁]/{_NAMES}[>\]▷]|<\|end_of_thought\|>)"
_THOUGHT = re.compile(rf"{_BEGIN}.*?(?:{_END}|\Z)", re.S | re.I)
_UP_TO_LAST_END = re.compile(rf"\A.*{_END}", re.S | re.I)


def without_thinking(reply: str) -> str:
    """Returns the reply without its <think> blocks, an unclosed one included, and without blanks at its ends.

    Example:
        >>> without_thinking("<think>B or C?</think> C"), without_thinking("<think>B")
        ('C', '')

    Source:
        Schuture/DeepTumorVQA@1df7460, src/deeptumorvqa/eval/metrics.py (strip_think), the same behaviour.
    """
    return _OPEN.sub("", _CLOSED.sub("", reply)).strip()


def after_thoughts(reply: str) -> str:
    """Returns the part of a reply that follows the model's thoughts, without blanks at its ends.

    The names that reasoning models give their blocks are known (<think>, <thinking>, [THINK], ◁think▷ and others). The
    opening tag may be missing, because some chat templates end with it and the reply then begins with thoughts.
    Thoughts that were cut off are followed by nothing.

    Example:
        >>> [after_thoughts(reply) for reply in ("<thinking>B?</thinking> C", "B? No.</think>C", "<think>B", "C")]
        ['C', 'C', '', 'C']
    """
    return _UP_TO_LAST_END.sub("", _THOUGHT.sub("", reply)).strip()
