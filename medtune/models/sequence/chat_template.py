"""Lays out media items and a conversation with a chat template of text, or as plain text where there is none.

A template is rendered once, with stand-ins in place of the question and the answer. Every later question and answer is
encoded as plain text and put in their place. A tokenizer without a template gets the bare question, with the answer on
the next line. The media items stand before the first question, each on a line of its own, so that all questions about
them share one prefix; where the text says their places, they stand there.

A checkpoint's template is changed first, and an export writes the changed one. A template that asks for the day
(`strftime_now`, `date_string`) would ask otherwise in a run that goes on tomorrow, so that every run has the same day,
`PROMPT_DATE`. Some templates open a thought where a reply begins, e.g. with <think>. An answer without a thought is
then learnt behind `</think>`, and a reply of a few tokens is cut within its thought. With "off", the prompt ends with
the empty thought that the template itself writes in front of an answer: asking, likelihoods and labels are then about
the answer alone.
"""

import datetime
import re
from collections.abc import Mapping
from collections.abc import Sequence as Many
from typing import Any, NamedTuple

from jinja2 import TemplateError
from transformers import PreTrainedTokenizerFast

from medtune.data.media.load import Shape
from medtune.data.types import Turn
from medtune.models.sequence.builder import Sequence, SequenceBuilder, user_turns
from medtune.models.sequence.template_limits import refuse_endless
from medtune.models.sequence.text_template import TextTemplate
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
_LAST_EMPTY = re.compile(_EMPTY.pattern + r"\Z")
_CLOSED = {"[THINK]": "[/THINK]", "◁think▷": "◁/think▷"}
_SWITCH = re.compile(r"\benable_thinking\b")

QUESTION, ANSWER = "\ue000question\ue000", "\ue000answer\ue000"
"""Stand-ins with characters for private use, which occur in no template and no question."""


def set_date(processor: Any) -> dict[str, str]:
    """Changes the chat template of a processor or tokenizer, so that it names the same day whenever it is used.

    Returns:
        What weights.json says of it; nothing where the template names no day.
    """
    refuse_endless(processor)
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
    refuse_endless(processor)
    template = _template(processor)
    if mode == "keep" or template is None:
        return
    if _SWITCH.search(template):
        template = f"{{% set enable_thinking = {str(mode == 'on').lower()} %}}{template}"
        _put(processor, template)
    if mode == "off" and (opened := opened_thought(processor)):
        asked, answered = (_tried(processor, answered=each) or "" for each in (False, True))
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


def without_empty_thought(text: str) -> str:
    r"""Returns a text without the thought without words at its end, if there is one.

    >>> without_empty_thought("assistant\n<think>\n\n</think>\n\n")
    'assistant\n'
    """
    return _LAST_EMPTY.sub("", text)


def opened_thought(processor: Any) -> str:
    """Returns the text with which the prompt for a reply opens a thought; "" if it opens none."""
    return thought_begun(_tried(processor, answered=False) or "")


def thought_begun(text: str) -> str:
    r"""Returns the opening of the thought in which a text ends; "" if it ends in none.

    >>> thought_begun("assistant\n<think>\n"), thought_begun("<think>\n\n</think>\n")
    ('<think>\n', '')
    """
    found = _OPEN.search(text)
    return found.group() if found else ""


def _tried(processor: Any, *, answered: bool) -> str | None:
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


class _AroundAnswer(NamedTuple):
    """The ids that a template puts around the answer of an earlier turn."""

    between: tuple[int, ...]  # Ids from the end of the user's words to the answer.
    behind: tuple[int, ...]  # Ids from the end of the answer to the next words of the user.


class _AroundWords(NamedTuple):
    """The ids that a template puts around the user's words and the answer."""

    before: tuple[int, ...]  # Ids before the user's words.
    between: tuple[int, ...]  # Ids from the end of the user's words to the end of the reply's header.
    lead: tuple[int, ...]  # Ids that the template writes between the header of a reply and the reply itself.
    stop_id: int  # Id of the token that ends an answer.
    # The ids around the answer of an earlier turn; None where the template takes no earlier turns.
    earlier: _AroundAnswer | None


class ChatTemplate(TextTemplate):
    """Lays out one question for a language model that was made for text alone."""

    def __init__(self, tokenizer: PreTrainedTokenizerFast, *, num_media_tokens: int) -> None:
        set_date(tokenizer)
        # The frame has to come first: `TextTemplate` makes the tokenizer read the template's control tokens as text.
        self._frame = _frame(tokenizer)
        super().__init__(tokenizer, num_media_tokens)
        self.stop_ids = (self._frame.stop_id,)

    def layout(
        self, prompt: str, answer: str | None, *, shapes: Many[Shape | None] = (None,), turns: Many[Turn] = ()
    ) -> Sequence:
        frame, row = self._frame, SequenceBuilder(self._frame.stop_id)
        *earlier, last = user_turns(prompt, turns, num_items=len(shapes), between="\n")
        row.text(frame.before)
        for pieces, turn in zip(earlier, turns, strict=True):
            if frame.earlier is None:
                raise ValueError("model.language: its chat template takes no conversation of several turns")
            self.shown(row, pieces)
            row.text((*frame.earlier.between, *self.encode(turn.answer), *frame.earlier.behind))
        self.shown(row, last)
        row.text((*frame.between, *frame.lead))
        return self.answered(row, answer)


def _frame(tokenizer: PreTrainedTokenizerFast) -> _AroundWords:
    if not tokenizer.chat_template:
        if tokenizer.eos_token_id is None:
            raise ValueError("model.language: its tokenizer has neither a chat template nor an end-of-sequence token")
        line = _ids(tokenizer, "\n")
        return _AroundWords(_opening(tokenizer, ""), line, (), int(tokenizer.eos_token_id), _AroundAnswer(line, line))
    asked, answered = (_rendered(tokenizer, with_answer=with_answer) for with_answer in (False, True))
    if asked.count(QUESTION) != 1 or answered.count(ANSWER) != 1:
        raise ValueError("model.language: its chat template drops or repeats the question or the answer")
    before, _, between = asked.partition(QUESTION)
    lead = answered.removeprefix(asked).partition(ANSWER)[0] if answered.startswith(asked) else ""
    tail = _ids(tokenizer, answered.partition(ANSWER)[2].strip())
    control = {*tokenizer.get_added_vocab().values(), *tokenizer.all_special_ids}
    stop = tail[0] if tail and tail[0] in control else tokenizer.eos_token_id
    if stop is None:
        raise ValueError("model.language: nothing ends an answer, neither its chat template nor its tokenizer")
    return _AroundWords(
        _opening(tokenizer, before),
        _ids(tokenizer, between),
        _ids(tokenizer, lead),
        int(stop),
        _ids_around_answer(tokenizer, asked),
    )


def _ids_around_answer(tokenizer: PreTrainedTokenizerFast, asked: str) -> _AroundAnswer | None:
    """Returns the ids around the answer of an earlier turn; None where the template does not keep such turns apart."""
    names = [f"\ue000{number}\ue000" for number in range(5)]
    turns = [{"role": ("user", "assistant")[number % 2], "content": name} for number, name in enumerate(names)]
    try:
        whole = _applied(tokenizer, turns, answered=False)
    except ValueError:
        return None
    parts = re.split("|".join(names), whole)
    before, _, last = asked.partition(QUESTION)
    if len(parts) != 6 or (parts[0], parts[5]) != (before, last) or parts[1:3] != parts[3:5]:
        return None
    return _AroundAnswer(_ids(tokenizer, parts[1]), _ids(tokenizer, parts[2]))


def _rendered(tokenizer: PreTrainedTokenizerFast, *, with_answer: bool) -> str:
    turns: list[dict[str, Any]] = [{"role": "user", "content": QUESTION}]
    if with_answer:
        turns.append({"role": "assistant", "content": ANSWER})
    return _applied(tokenizer, turns, answered=with_answer)


def _applied(tokenizer: PreTrainedTokenizerFast, turns: list[dict[str, Any]], *, answered: bool) -> str:
    try:
        return str(tokenizer.apply_chat_template(turns, tokenize=False, add_generation_prompt=not answered))
    except TemplateError as error:
        raise ValueError(f"model.language: its chat template refuses a question: {error}") from error


def _opening(tokenizer: PreTrainedTokenizerFast, text: str) -> tuple[int, ...]:
    ids = _ids(tokenizer, text)
    bos = tokenizer.bos_token_id
    opens = bool(tokenizer("x").input_ids[:1] == [bos]) and bos is not None
    return ids if not opens or ids[:1] == (bos,) else (int(bos), *ids)


def _ids(tokenizer: PreTrainedTokenizerFast, text: str) -> tuple[int, ...]:
    return tuple(tokenizer(text, add_special_tokens=False).input_ids) if text else ()
