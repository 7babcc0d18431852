"""Says in a checkpoint's chat template whether replies begin with a thought; everything else reads that template.

Some templates open a thought where a reply begins, e.g. with <think>. An answer without a thought is then learnt behind
`</think>`, and a reply of a few tokens is cut within its thought. With "off", the prompt ends with the empty thought
that the template itself writes in front of an answer: asking, likelihoods and labels are then about the answer alone.
"""

import re
from collections.abc import Mapping
from typing import Any

from jinja2 import TemplateError

from medtune.models.weights.loading_options import Thinking

_ASKED, _ANSWER = "\ue000asked\ue000", "\ue000answer\ue000"
_OPEN = re.compile(r"(?:<(think(?:ing)?|thought)>|\[(THINK)\]|◁(think)▷)\s*\Z")
_EMPTY = re.compile(r"[<\[◁](think(?:ing)?|thought|THINK)[>\]▷]\s*[<\[◁]/\1[>\]▷]\s*")
_CLOSED = {"[THINK]": "[/THINK]", "◁think▷": "◁/think▷"}
_SWITCH = re.compile(r"\benable_thinking\b")


def set_thinking(processor: Any, mode: Thinking) -> None:
    """Changes the chat template of a processor, so that its prompts for a reply ask with or without a thought.

    A template with the usual switch (`enable_thinking`) has it set. With "off", a thought that is still open at the end
    of the prompt is closed there. "keep" changes nothing.
    """
    template = _template(processor)
    if mode == "keep" or template is None:
        return
    if _SWITCH.search(template):
        template = f"{{% set enable_thinking = {str(mode == 'on').lower()} %}}{template}"
        _put(processor, template)
    if mode == "off" and (opened := opened_thought(processor)):
        asked, answered = (_rendered(processor, answered=each) or "" for each in (False, True))
        lead = answered.removeprefix(asked).partition(_ANSWER)[0] if answered.startswith(asked) else ""
        tag = opened.strip()
        closing = lead or f"\n{_CLOSED.get(tag, tag.replace('<', '</'))}\n\n"
        close = f"{{% if add_generation_prompt %}}{{{{ {closing!r} }}}}{{% endif %}}"
        _put(processor, template.removesuffix("\n") + close)


def is_empty_thought(text: str) -> bool:
    r"""Returns whether a text is a thought without words, with its tags.

    Example:
        >>> is_empty_thought("<think>\n\n</think>\n\n"), is_empty_thought("<think>\nB?</think>")
        (True, False)
    """
    return _EMPTY.fullmatch(text) is not None


def opened_thought(processor: Any) -> str:
    """Returns the text with which the prompt for a reply opens a thought; "" if it opens none."""
    found = _OPEN.search(_rendered(processor, answered=False) or "")
    return found.group() if found else ""


def _rendered(processor: Any, *, answered: bool) -> str | None:
    """Returns a conversation as the template writes it; None where it takes no question without an image."""
    for wrapped in (True, False):
        said = [("user", _ASKED), *([("assistant", _ANSWER)] if answered else [])]
        turns = [{"role": r, "content": [{"type": "text", "text": t}] if wrapped else t} for r, t in said]
        try:
            return str(processor.apply_chat_template(turns, tokenize=False, add_generation_prompt=not answered))
        except (TemplateError, TypeError, ValueError):
            continue
    return None


def _template(processor: Any) -> str | None:
    found = getattr(processor, "chat_template", None)
    return found.get("default") if isinstance(found, Mapping) else found


def _put(processor: Any, template: str) -> None:
    found = processor.chat_template
    processor.chat_template = {**found, "default": template} if isinstance(found, Mapping) else template
