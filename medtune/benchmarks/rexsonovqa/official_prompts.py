"""ReXSonoVQA's own prompts: with the video, with its frames as pictures, and in the blind setting.

All are system prompts; the user's turn is the clip and the question as released. The repository's script that asks a
server sends the frames as pictures and a text of its own behind them, which begins at the gap {user} of the template
`frames`; that text names the number of pictures. The condition "text_only" uses the template `blind`. The paper prints
one prompt and no other for frames or for the blind setting, so that these are then asked with that one.

Source: rajpurkarlab/RexSonoVQA@c2b931f, inference_qa_youtube.py (SYSTEM_PROMPT_VIDEO, SYSTEM_PROMPT_FRAMES) and
inference_qa_check.py; arXiv 2604.10916, Figure A4.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from medtune.benchmarks.rexsonovqa.official_letter import LETTERS
from medtune.data.json_text import json_value
from medtune.data.types import Question
from medtune.eval.asking.official_prompts import PICTURES_GAP, OfficialPrompts

VIDEO, FRAMES, BLIND = "video", "frames", "blind"
_QUESTION, _BEFORE = "question", "user"
_FRAMES_PER_S = 5.0


def official_prompts() -> OfficialPrompts:
    return OfficialPrompts(
        names={VIDEO: (_QUESTION,), FRAMES: (_BEFORE, PICTURES_GAP, _QUESTION), BLIND: (_QUESTION,)},
        from_texts=read,
        scenario=lambda question: VIDEO,
        gaps=lambda question: {_QUESTION: as_released(question), _BEFORE: ""},
        answer_format="letter",
        answer=_answer,
        system_until=(_BEFORE, _QUESTION),
        blind=BLIND,
        template=lambda shown, scenario: FRAMES if shown.videos_as_pictures else scenario,
        pictures_per_s=_FRAMES_PER_S,
    )


def as_released(question: Question) -> str:
    """Returns the question with its lettered options in the style of its release, which is either "A." or "A)"."""
    mark = question.printed.get("option_mark", ".")
    lettered = [f"{letter}{mark} {option}" for letter, option in zip(LETTERS, question.options, strict=False)]
    return "\n".join([question.text, *lettered])


def read(folder: Path) -> Mapping[str, str]:
    """Returns the template for the video, from a folder that holds the prompts of the paper."""
    path = folder / "index.json"
    if not path.is_file():
        raise FileNotFoundError(f"{folder}: wanted index.json with the paper's prompts; check --from")
    try:
        listed = json_value(path.read_text("utf-8"))["prompts"]
        (entry,) = [each for each in listed if each["kind"] == "inference"]
        said = (folder / str(entry["file"])).read_text("utf-8")
    except (ValueError, KeyError, TypeError) as error:
        raise ValueError(
            f"{path}: wanted an object with a list 'prompts' that holds one of kind 'inference' "
            f"({type(error).__name__}). Copy it again."
        ) from None
    return {VIDEO: f"{said.strip()}\n\n{{{_QUESTION}}}"}


def _answer(question: Question, said: str) -> str:
    if said not in question.options:
        return said
    return f"Answer: {LETTERS[question.options.index(said)]}"
