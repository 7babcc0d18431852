"""Whose words a benchmark asks in: ours, or the official ones, read from the benchmark's own files and sent verbatim.

Official prompts are not part of medtune. `medtune prepare --prompts DIR` reads them where the user has them and keeps
them in the prepared folder, so that every run on that folder uses the same ones; outputs say which they were.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from medtune.data.types import AnswerFormat, Condition, Prompt, Question

if TYPE_CHECKING:
    from medtune.data.prepared import Prepared
    from medtune.eval.benchmark import Benchmark, Render

OURS = "ours"
FOREIGN = "those of the tool that answered"
_GAP = re.compile(r"\{(\w+)\}")


class OfficialPrompts(NamedTuple):
    """How a benchmark's own prompts are read and used.

    Attributes:
        read: A folder with the benchmark's own files -> templates by scenario.
        scenario: Which template asks a question.
        gaps: What fills the gaps of its template, by name; None where the question does not know.
        answer_format: What the templates ask for.
        answer: What the model should say, given the option or answer in that format.
        system_until: The gap before which a template belongs into a system turn; None where all of it is the user's.
        blind: Name of the template that asks without media, where there is one of its own.
    """

    read: Callable[[Path], Mapping[str, str]]
    scenario: Callable[[Question], str]
    gaps: Callable[[Question], Mapping[str, str | None]]
    answer_format: AnswerFormat
    answer: Callable[[Question, str], str] = lambda question, said: said
    system_until: str | None = None
    blind: str | None = None


def read_official(judged_by: Benchmark, folder: Path) -> Mapping[str, str]:
    """Returns the official templates of a benchmark, by scenario.

    Raises:
        FileNotFoundError: There is no such folder, or its files are not there.
        ValueError: The benchmark has no official prompts that could be read, or a file is broken.
    """
    if judged_by.official is None:
        raise ValueError(f"{judged_by.title} has no official prompts that medtune reads; leave --prompts out")
    if not folder.is_dir():
        raise FileNotFoundError(f"{folder}: there is no such folder of prompts; check --prompts")
    return judged_by.official.read(folder)


def name_of(templates: Mapping[str, str] | None) -> str:
    """Returns how outputs name the wording: "ours", or "official" with the beginning of a SHA-256 over all templates.

    Example:
        >>> name_of(None), name_of({"DD 23": "What is it?"})
        ('ours', 'official, sha256 85e51137cb669a57')
    """
    if templates is None:
        return OURS
    said = json.dumps(sorted(templates.items())).encode()
    return f"official, sha256 {hashlib.sha256(said).hexdigest()[:16]}"


def check_official(judged_by: Benchmark, templates: Mapping[str, str], questions: Iterable[Question]) -> None:
    """Refuses templates that cannot ask all the questions.

    Raises:
        ValueError: A scenario has no template, or a template has a gap that a question cannot fill.
    """
    official = judged_by.official
    if official is None:
        raise ValueError(f"{judged_by.title} has no official prompts")
    lacking: Counter[str] = Counter()
    for question in questions:
        scenario = official.scenario(question)
        if scenario not in templates:
            lacking[f"{scenario} (no template)"] += 1
            continue
        empty = [gap for gap in _gaps_in(templates[scenario]) if not official.gaps(question).get(gap)]
        lacking.update(f"{scenario} (nothing for {{{gap}}})" for gap in empty)
    if lacking:
        said = "; ".join(f"{why}: {count} questions" for why, count in sorted(lacking.items()))
        raise ValueError(
            f"the official prompts in --prompts do not fit: {said}. Give the benchmark's own files of these scenarios, "
            "prepare without them, or leave --prompts out: our wording then asks all questions"
        )


def worded(judged_by: Benchmark, prepared: Prepared) -> Benchmark:
    """Returns the benchmark in the words that the folder was prepared with.

    Under official prompts there is no other wording than theirs: the condition "with_anatomy" is not asked, and
    "text_only" in the words of the blind setting, where they have some.

    Raises:
        ValueError: The folder has official prompts that this version cannot use.
    """
    templates = prepared.templates
    if templates is None:
        return judged_by
    official = judged_by.official
    if official is None:
        raise ValueError(
            f"{prepared.root}: it holds official prompts, and {judged_by.title} has none. Prepare it again"
        )

    def render(question: Question, answer_format: AnswerFormat) -> Prompt:
        return _render(official, templates[official.scenario(question)], question, answer_format)

    def render_blind(question: Question, answer_format: AnswerFormat) -> Prompt:
        return _render(official, templates[official.blind or ""], question, answer_format)

    renders: Mapping[Condition, Render] = {"text_only": render_blind} if official.blind in templates else {}
    return replace(judged_by, render=render, renders=renders, wording=name_of(templates))


def _render(official: OfficialPrompts, template: str, question: Question, answer_format: AnswerFormat) -> Prompt:
    if question.options and answer_format != official.answer_format:
        raise ValueError(
            f"the official prompts ask for an answer as {official.answer_format}; "
            f"model.answer_format is {answer_format}"
        )
    gaps = official.gaps(question)

    def filled(part: str) -> str:
        return _GAP.sub(lambda gap: gaps.get(gap[1]) or gap[0], part)

    system = template.partition(f"{{{official.system_until}}}")[0].rstrip() if official.system_until else ""
    return Prompt(
        text=filled(template),
        choices=tuple(official.answer(question, option) for option in question.options),
        target=official.answer(question, question.answer),
        system=filled(system),
    )


def _gaps_in(template: str) -> set[str]:
    return set(_GAP.findall(template))
