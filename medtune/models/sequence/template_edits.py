"""Says in a checkpoint's chat template which day it is and whether replies begin with a thought.

Everything else reads the changed template, and an export writes it. A template that asks for the day (`strftime_now`,
`date_string`) would ask otherwise in a run that goes on tomorrow, so that every run has the same day, `PROMPT_DATE`.

Some templates open a thought where a reply begins, e.g. with <think>. An answer without a thought is then learnt behind
`</think>`, and a reply of a few tokens is cut within its thought. With "off", the prompt ends with the empty thought
that the template itself writes in front of an answer: asking, likelihoods and labels are then about the answer alone.
"""

import datetime
import re
from collections.abc import Mapping
from typing import Any

from jinja2 import TemplateError

from medtune.models.weights.loading_options import Thinking

PROMPT_DATE = datetime.date(2024, 7, 26)
"""The day of all prompts that name one.

Source: the default of Llama 3.2's own template.
"""
_DIRECTIVES = ("-d", "-m", "-e", "-j", "-H", "-I", "-M", "-S", *"aAbBcdDeFgGhHIjmMpRSTuUVwWxXyYZz")
_DATED = re.compile(r"\b(?:strftime_now|date_string)\b")
_ASKED, _ANSWER = "\ue000asked\ue000", "\ue000answer\ue000"
_OPEN = re.compile(r"(?:<(think(?:ing)?|thought)>|\[(THINK)\]|◁(think)▷)\s*\Z")
_EMPTY = re.compile(r"[<\[◁](think(?:ing)?|thought|THINK)[>\]▷]\s*[<\[◁]/\1[>\]▷]\s*")
_CLOSED = {"[THINK]": "[/THINK]", "◁think▷": "◁/think▷"}
_SWITCH = re.compile(r"\benable_thinking\b")


def set_date(processor: Any) -> dict[str, str]:
    """Changes the chat template of a processor or tokenizer, so that it names the same day whenever it is used.

    Returns:
        What weights.json says of it; nothing where the template names no day.
    """
    template = _template(processor)
    if template is None or not _DATED.search(template):
        return {}
    day = datetime.datetime.combine(PROMPT_DATE, datetime.time())
    # What a template defines hides what transformers gives it under the same name.
    said = "".join(f"|replace('%{each}', {day.strftime(f'%{each}')!r})" for each in _DIRECTIVES)
    fixed = f"{{% macro strftime_now(format) %}}{{{{ format{said} }}}}{{% endmacro %}}"
    fixed += f"{{% set date_string = {day.strftime('%d %b %Y')!r} +%}}"
    if fixed not in template:
        _put(processor, fixed + template)
    return {"day in prompts": f"{PROMPT_DATE.isoformat()}, whenever the model is asked"}


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
