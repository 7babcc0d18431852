"""Refuses a chat template or a tokenizer that does not end, or that writes without end.

A template is a program. transformers lets it reach nothing of this machine, and lets it loop, multiply texts and take
powers as it likes; a tokenizer.json has regular expressions. Nothing in this process could stop them. So both are first
tried in a forked process, which the system ends.
"""

import contextlib
import hashlib
import os
import resource
import select
import signal
import time
import warnings
from typing import Any

from jinja2 import TemplateError

CPU_S = 2
WAIT_S = 9.0
"""The time in which a template writes a few conversations (our own choice; real ones take milliseconds)."""
_TRIES = 3
"""How often a process is tried that got no CPU time while it was waited for."""
MOST_CHARACTERS = 200_000
"""The length of a conversation of three short turns as a template writes it, at most (our own choice)."""
_LONGEST_TEMPLATE = 2_000_000
_MOST_BYTES = 2**30
_TOO_LONG, _NO_MEMORY, _NO_TOKENS = 3, 4, 5
_WRITTEN = b"w"
"""What the forked process tells once the template has ended."""
_KINDS = ("text", "image", "video", "audio")
_TEXTS = (
    "Is there a cyst in the left kidney (5.2 cm)?\nYes.",
    *(letter * 200 + end for letter, end in (("a", "!"), (" ", "!"), (".", "a"), ("1", "!"))),
)
"""A question, and runs of one letter, on which an expression that repeats what repeats tries without end."""
_ended: set[str] = set()
"""The marks of what has ended in this process."""

_TOKENS = "its regular expressions do not end on a short text"


def refuse_endless(processor: Any) -> None:
    """Tries the template and the tokenizer of a processor, or of a tokenizer, which were not tried before."""
    found = getattr(processor, "chat_template", None)
    templates = list(found.values()) if isinstance(found, dict) else [found]
    texts = [text for text in templates if isinstance(text, str)]
    tokenizer = getattr(processor, "tokenizer", processor)
    backend = getattr(tokenizer, "backend_tokenizer", None)
    rules = [str(getattr(backend, part, None)) for part in ("normalizer", "pre_tokenizer", "decoder")]
    mark = hashlib.sha256("\0".join([type(processor).__name__, *rules, *texts]).encode("utf-8", "replace")).hexdigest()
    if mark in _ended:
        return
    longest = max(map(len, texts), default=0)
    reason = _tried_apart(processor, backend) if longest <= _LONGEST_TEMPLATE else f"it has {longest:,} characters"
    if reason:
        of_tokenizer = reason == _TOKENS
        what = "tokenizer.json is" if of_tokenizer else "chat template is"
        file = "tokenizer.json" if of_tokenizer else "chat_template.jinja"
        raise ValueError(
            f"{getattr(tokenizer, 'name_or_path', '') or 'the processor'}: its {what} not to be used: {reason}. Copy "
            f"that of the model's publisher into the folder ({file}), or take the checkpoint from there"
        )
    _ended.add(mark)


def _tried_apart(processor: Any, backend: Any) -> str:
    """Returns why a template or a tokenizer may not be used, as a forked process found out; "" if it may."""
    for _ in range(_TRIES):
        status, ended, cpu_s, is_written = _one_try(processor, backend)
        # A process that waited for the machine, or for a lock that another thread held, says nothing of the template.
        if ended or cpu_s > CPU_S / 2:
            break
    if not ended or (os.WIFSIGNALED(status) and os.WTERMSIG(status) in (signal.SIGKILL, signal.SIGXCPU)):
        return _TOKENS if is_written else f"it does not end within {CPU_S} s on three short turns"
    if os.WIFSIGNALED(status):
        return f"the process that tried it on three short turns ended by {signal.Signals(os.WTERMSIG(status)).name}"
    if os.WEXITSTATUS(status) == _NO_TOKENS:
        return _TOKENS
    if os.WEXITSTATUS(status) == _TOO_LONG:
        return f"it writes more than {MOST_CHARACTERS:,} characters for three short turns"
    if os.WEXITSTATUS(status) == _NO_MEMORY:
        return f"it takes more than {_MOST_BYTES // 2**20} MB of memory for three short turns"
    return ""


def _one_try(processor: Any, backend: Any) -> tuple[int, bool, float, bool]:
    """Returns a forked process's status, whether it ended in time, its CPU seconds, and whether the template ended."""
    ended, told = os.pipe()
    with warnings.catch_warnings():
        # The child computes nothing but the template, and takes no lock of another thread.
        warnings.simplefilter("ignore", DeprecationWarning)
        child = os.fork()
    if not child:
        try:
            _limit()
            status = _write_all(processor)
            if not status:
                os.write(told, _WRITTEN)
                status = _encode(backend)
        except MemoryError:
            status = _NO_MEMORY
        except BaseException:
            status = 0  # What a template refuses is said where it is used.
        os._exit(status)
    os.close(told)
    try:
        # The pipe is closed when the process ends.
        until, said, is_written = time.monotonic() + WAIT_S, None, False
        while said != b"" and select.select([ended], [], [], max(until - time.monotonic(), 0))[0]:
            said = os.read(ended, 1)
            is_written = is_written or said == _WRITTEN
        if said != b"":
            os.kill(child, signal.SIGKILL)
        _, status, spent = os.wait4(child, 0)
    finally:
        os.close(ended)
    return status, said == b"", spent.ru_utime + spent.ru_stime, is_written


def _limit() -> None:
    # The library of tokenizers tells of an expression without end in a page on stderr.
    os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
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


def _encode(backend: Any) -> int:
    try:
        for text in _TEXTS if backend is not None else ():
            backend.decode(backend.encode(text, add_special_tokens=False).ids)
    except BaseException as error:
        return _NO_TOKENS if type(error).__name__ == "PanicException" else 0
    return 0


def _content(medium: str | None, text: str) -> object:
    if medium is None:
        return text
    return [*([{"type": medium}] if medium != "text" else []), {"type": "text", "text": text}]
