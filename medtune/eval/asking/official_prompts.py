"""Describes a benchmark's official prompts: the templates that there are, and how their gaps are filled.

Official prompts are not part of medtune. The user writes them once into a YAML file, a line for each template, or has
`medtune prompts` make it where the benchmark's own files are plain text. `medtune prepare --prompts FILE` stores them
in the prepared folder, so that every run on that folder uses the same prompts; outputs name them. Where a benchmark
publishes no prompts, those of a kit that asks it take their place, and outputs name the kit.
"""

import hashlib
import json
from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from medtune.data.types import AnswerFormat, Condition, Question, VolumesAs

OUR_WORDING = "ours"
FOREIGN_WORDING = "those of the tool that answered"
SHOWN_GAP = "shown"
"""The name of the gap in official prompts for the kind of media that the model is shown."""
PICTURES_GAP = "pictures"
"""The name of the gap in official prompts for the number of pictures that a video is sent as."""
_MOST_LISTED = 60


class ShownAs(NamedTuple):
    """The form in which a model is shown media, and whether it is an agent, as far as official prompts speak of it."""

    volumes: VolumesAs | None = None  # How a CT is shown; None for as a volume.
    videos_as_pictures: bool = False  # Whether the frames of a video are sent as pictures one by one.
    # The number of frames of each second that are shown; None spreads them over the whole clip.
    pictures_per_s: float | None = None
    agent: bool = False


class OfficialPrompts(NamedTuple):
    """The functions that use a benchmark's own prompts, or those of a kit."""

    # The names that templates may have, each with the gaps that its text has to hold.
    names: Mapping[str, Sequence[str]]
    scenario: Callable[[Question], str]  # A function that returns the name of the template that asks a question.
    # A function that returns the texts for the gaps of a question's template, by the names of the gaps; None for a gap
    # that the question cannot fill.
    gaps: Callable[[Question], Mapping[str, str | None]]
    answer_format: AnswerFormat  # The form of answer that the templates ask for.
    # A function of (question, option or answer) that returns the reply in the form that is asked for.
    answer: Callable[[Question, str], str] = lambda question, said: said
    # The gaps before the first of which a template belongs into a system turn; empty if all of it is the user's.
    system_until: Sequence[str] = ()
    blind: str | None = None  # The name of the template that asks without media; None if there is none.
    # A function of (how media are shown, question) that returns the name of the template that says so and fills the gap
    # `SHOWN_GAP`; None if the templates have no such gap.
    shown: Callable[[ShownAs, Question], str] | None = None
    # A function of (how media are shown, scenario) that returns the name of the template that asks the scenario then.
    # If there is no template of that name, the scenario's own is used.
    template: Callable[[ShownAs, str], str] = lambda shown, scenario: scenario
    # The number of frames of each second that the templates for pictures speak of; None if they do not.
    pictures_per_s: float | None = None
    # For each condition the names of the templates that replace the official role at the start of its prompts; the
    # first one whose gaps the question can fill is used.
    stems: Mapping[Condition, Sequence[str]] = {}
    # Whose prompts they are, as outputs name them: "official" for the benchmark's own, or e.g. "MedEvalKit's".
    of: str = "official"
    # A function that reads the templates by name from a folder with the benchmark's own files of plain text; None where
    # it has none.
    from_texts: Callable[[Path], Mapping[str, str]] | None = None
    # Whether the number of a question may stand among published ones only under these prompts. It may without them
    # where the published numbers were made with several kits, each with prompts of its own, or with prompts that were
    # not published.
    needed: Callable[[Question], bool] = lambda question: True

    @property
    def whose(self) -> str:
        """Whose prompts they are, in front of "prompts" in a sentence: "the official", or e.g. "MedEvalKit's"."""
        return f"the {self.of}" if self.of == "official" else self.of

    @property
    def listed(self) -> str:
        """The names of the templates in a sentence; of very many the first ones."""
        names = list(self.names)
        if len(names) <= _MOST_LISTED:
            return ", ".join(names)
        return f"{', '.join(names[:9])} and {len(names) - 9} more, which the benchmark's README describes"


def wording_name(
    templates: Mapping[str, str], *, asked: int = 0, ours: Collection[str] = (), of: str = "official"
) -> str:
    """Returns the name of prompts in outputs: whose they are, with the beginning of a SHA-256 over all templates.

    >>> wording_name({"DD 23": "What is it?"})
    'official, sha256 85e51137cb669a57'
    >>> wording_name({"DD 23": "What is it?"}, asked=1, ours=["KD 48", "CVE 18"])
    'official for 1 scenario, ours for 2: CVE 18, KD 48; sha256 85e51137cb669a57'
    >>> wording_name({"DD 23": "What is it?"}, of="MedEvalKit's")
    "MedEvalKit's, sha256 85e51137cb669a57"
    """
    said = json.dumps(sorted(templates.items())).encode()
    digest = f"sha256 {hashlib.sha256(said).hexdigest()[:16]}"
    if not ours:
        return f"{of}, {digest}"
    many = "scenario" if asked == 1 else "scenarios"
    return f"{of} for {asked} {many}, ours for {len(ours)}: {', '.join(sorted(ours))}; {digest}"
