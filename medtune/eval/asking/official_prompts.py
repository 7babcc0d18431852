"""Whose words a benchmark asks in: ours, or the official ones, read from the benchmark's own files and sent verbatim.

Official prompts are not part of medtune. `medtune prepare --prompts DIR` reads them where the user has them and keeps
them in the prepared folder, so that every run on that folder uses the same ones; outputs say which they were.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from medtune.data.types import AnswerFormat, Condition, Question, VolumesAs

OUR_WORDING = "ours"
FOREIGN_WORDING = "those of the tool that answered"
SHOWN_GAP = "shown"
"""The gap for what a model is shown, where official prompts say that."""


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
        shown: A function from how a CT is shown (None: as a volume) to the name of the template that says so and fills
            the gap `SHOWN_GAP`; None where the templates have no such gap.
        stems: Condition -> names of the templates that open its prompts in place of the official role; the first one
            counts whose gaps the question can fill.
    """

    read: Callable[[Path], Mapping[str, str]]
    scenario: Callable[[Question], str]
    gaps: Callable[[Question], Mapping[str, str | None]]
    answer_format: AnswerFormat
    answer: Callable[[Question, str], str] = lambda question, said: said
    system_until: str | None = None
    blind: str | None = None
    shown: Callable[[VolumesAs | None], str] | None = None
    stems: Mapping[Condition, Sequence[str]] = {}


def wording_name(templates: Mapping[str, str], *, asked: int = 0, ours: Collection[str] = ()) -> str:
    """Returns how outputs name the wording: "official" with the beginning of a SHA-256 over all templates.

    Args:
        templates: By scenario.
        asked: How many scenarios they ask; of interest where they do not ask all.
        ours: The scenarios that are asked in our words.

    Example:
        >>> wording_name({"DD 23": "What is it?"})
        'official, sha256 85e51137cb669a57'
        >>> wording_name({"DD 23": "What is it?"}, asked=1, ours=["KD 48", "CVE 18"])
        'official for 1 scenario, ours for 2: CVE 18, KD 48; sha256 85e51137cb669a57'
    """
    said = json.dumps(sorted(templates.items())).encode()
    digest = f"sha256 {hashlib.sha256(said).hexdigest()[:16]}"
    if not ours:
        return f"official, {digest}"
    many = "scenario" if asked == 1 else "scenarios"
    return f"official for {asked} {many}, ours for {len(ours)}: {', '.join(sorted(ours))}; {digest}"
