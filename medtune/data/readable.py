"""Words a question for a reader, a person or a judge: with the earlier turns of its conversation, without marks."""

import re

from medtune.data.types import MEDIA_MARK, Question

_MARK = re.compile(rf"{MEDIA_MARK}(?P<joined>(?=\w))?")

_PATH = re.compile(r"(?<![\w:/.])(?:~?/|[A-Za-z]:\\)(?:[^\s'\",\[\]]*[/\\])?(?P<name>[^\s'\",\[\]/\\]+)")


def readable_text(text: str) -> str:
    """Returns a text with "[image]" in the place of each `MEDIA_MARK`, whatever kind of item is shown there.

    >>> readable_text(f"Is {MEDIA_MARK} older than {MEDIA_MARK}?"), readable_text(f"{MEDIA_MARK}Which plane?")
    ('Is [image] older than [image]?', '[image] Which plane?')
    """
    return _MARK.sub(lambda found: "[image]" if found["joined"] is None else "[image] ", text)


def readable_question(question: Question, *, longest: int | None = None) -> str:
    r"""Returns the question behind its last earlier turns, as many as `longest` characters hold; None is all.

    >>> from medtune.data.types import Turn
    >>> asked = Question("q", "m", "And here?", (), "no", "text", "p", turns=(Turn("Is it a cyst?", "Yes."),))
    >>> readable_question(asked)
    'User: Is it a cyst?\nAssistant: Yes.\nUser: And here?'
    >>> readable_question(asked, longest=5)
    '... Yes.\nUser: And here?'
    """
    asked = readable_text(question.text)
    if not question.turns:
        return asked
    earlier = "\n".join(f"User: {readable_text(turn.asked)}\nAssistant: {turn.answer}" for turn in question.turns)
    if longest is not None and len(earlier) > longest:
        earlier = f"... {earlier[-longest:].lstrip()}"
    return f"{earlier}\nUser: {asked}"


def without_paths(text: str) -> str:
    """Returns a text in which each absolute path is replaced by its last name.

    >>> without_paths("root: /home/ann/data/busi, weights: Qwen/Qwen2.5-VL-7B-Instruct")
    'root: busi, weights: Qwen/Qwen2.5-VL-7B-Instruct'
    """
    return _PATH.sub(lambda found: found["name"], text)


def spoken(name: str) -> str:
    """Returns the name of a file or field as words.

    >>> spoken("plane_identification")
    'plane identification'
    """
    return name.replace("_", " ")


def capital(text: str) -> str:
    return text[:1].upper() + text[1:]


def folded(text: str) -> str:
    """Returns a text in which case and the number of blanks do not count."""
    return " ".join(text.casefold().split())
