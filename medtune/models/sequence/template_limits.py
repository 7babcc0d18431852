"""Refuses a chat template that does not end, or that writes without end.

A template is a program. transformers lets it reach nothing of this machine, and lets it loop, multiply texts and take
powers as it likes; nothing in this process could stop that. So a template is first tried in a forked process, which the
system ends.
"""

import contextlib
import hashlib
import os
import resource
import select
import signal
import warnings
from typing import Any

from jinja2 import TemplateError

CPU_S = 2
WAIT_S = 9.0
"""The time in which a template writes a few conversations (our own choice; real ones take milliseconds)."""
MOST_CHARACTERS = 200_000
"""The length of a conversation of three short turns as a template writes it, at most (our own choice)."""
_LONGEST_TEMPLATE = 2_000_000
_MOST_BYTES = 2**30
_TOO_LONG, _NO_MEMORY = 3, 4
_KINDS = ("text", "image", "video", "audio")
_ended: set[str] = set()
"""The marks of the templates that have ended in this process."""


def refuse_endless_template(processor: Any) -> None:
    """Tries the template of a processor or tokenizer, where it has one that was not tried before."""
    found = getattr(processor, "chat_template", None)
    templates = list(found.values()) if isinstance(found, dict) else [found]
    texts = [text for text in templates if isinstance(text, str)]
    mark = hashlib.sha256("\0".join([type(processor).__name__, *texts]).encode("utf-8", "replace")).hexdigest()
    if not texts or mark in _ended:
        return
    reason = (
        f"it has {max(map(len, texts)):,} characters"
        if max(map(len, texts)) > _LONGEST_TEMPLATE
        else _tried_apart(processor)
    )
    if reason:
        name = getattr(getattr(processor, "tokenizer", processor), "name_or_path", "") or "the processor"
        raise ValueError(
            f"{name}: its chat template is not to be used: {reason}. Copy the template of the model's publisher into "
            "the folder (chat_template.jinja), or take the checkpoint from there"
        )
    _ended.add(mark)


def _tried_apart(processor: Any) -> str:
    """Returns why a template may not be used, as a forked process found out; "" if it may."""
    ended, told = os.pipe()
    with warnings.catch_warnings():
        # The child computes nothing but the template, and takes no lock of another thread.
        warnings.simplefilter("ignore", DeprecationWarning)
        child = os.fork()
    if not child:
        try:
            _limit()
            status = _write_all(processor)
        except MemoryError:
            status = _NO_MEMORY
        except BaseException:
            status = 0  # What a template refuses is said where it is used.
        os._exit(status)
    os.close(told)
    try:
        # The pipe is closed when the process ends.
        in_time = bool(select.select([ended], [], [], WAIT_S)[0])
        if not in_time:
            os.kill(child, signal.SIGKILL)
        status = os.waitpid(child, 0)[1]
    finally:
        os.close(ended)
    if not in_time or os.WIFSIGNALED(status):
        return f"it does not end within {CPU_S} s on three short turns"
    if os.WEXITSTATUS(status) == _TOO_LONG:
        return f"it writes more than {MOST_CHARACTERS:,} characters for three short turns"
    if os.WEXITSTATUS(status) == _NO_MEMORY:
        return f"it takes more than {_MOST_BYTES // 2**20} MB of memory for three short turns"
    return ""


def _limit() -> None:
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    resource.setrlimit(resource.RLIMIT_CPU, (CPU_S, CPU_S))
    signal.signal(signal.SIGXCPU, signal.SIG_DFL)
    with contextlib.suppress(OSError, ValueError), open("/proc/self/statm", encoding="ascii") as file:
        own_bytes = int(file.read().split()[0]) * resource.getpagesize()
        resource.setrlimit(resource.RLIMIT_AS, (own_bytes + _MOST_BYTES,) * 2)


def _write_all(processor: Any) -> int:
    for medium in (None, *_KINDS):
        asked = {"role": "user", "content": _content(medium, "Is it a cyst?")}
        answered = {"role": "assistant", "content": _content(medium and "text", "Yes.")}
        system = {"role": "system", "content": _content(medium and "text", "You are a radiologist.")}
        for turns in ([asked], [asked, answered], [system, asked, answered, asked]):
            with contextlib.suppress(TemplateError, TypeError, ValueError, KeyError, AttributeError):
                written = processor.apply_chat_template(turns, tokenize=False, add_generation_prompt=turns[-1] is asked)
                if len(written) > MOST_CHARACTERS:
                    return _TOO_LONG
    return 0


def _content(medium: str | None, text: str) -> object:
    if medium is None:
        return text
    return [*([{"type": medium}] if medium != "text" else []), {"type": "text", "text": text}]
