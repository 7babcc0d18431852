"""Takes escape sequences and control characters out of texts of strangers, before they reach a terminal or a page."""

import re

_SEQUENCE = re.compile(
    r"(?:\x1b\[|\x9b)[0-?]*[ -/]*[@-~]"  # Colours, and moves of the cursor.
    r"|(?:\x1b[\]PX^_]|[\x9d\x90\x98\x9e\x9f])[^\x07\x1b\x9c]*(?:\x07|\x1b\\|\x9c)?"  # Titles, links, the clipboard.
    r"|\x1b[ -/]*[0-~]?"
)
"""A terminal's escape sequences. Source: ECMA-48, sections 5.3 to 5.6."""
_CONTROL = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u202a-\u202e]")
"""Control characters but tab and line breaks, and those that turn the direction in which text is read."""


def without_controls(text: str) -> str:
    r"""Returns a text without escape sequences, in which every other control character is shown as U+FFFD.

    >>> without_controls("\x1b[31mred\x1b[0m \x1b]0;title\x07\tone\x00two")
    'red \tone\ufffdtwo'
    """
    # Every escape sequence begins with a control character, and most texts hold none.
    if not _CONTROL.search(text):
        return text
    return _CONTROL.sub("\N{REPLACEMENT CHARACTER}", _SEQUENCE.sub("", text))
