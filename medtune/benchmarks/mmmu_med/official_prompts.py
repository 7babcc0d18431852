"""Reads the prompts of MMMU's code from its configuration file: one for questions with options, one for open ones.

The places of images stay as medtune has them. MMMU's code sends the first image alone, in front of the prompt.

Source: MMMU-Benchmark/MMMU@bb0b95a, mmmu/configs/llava1.5.yaml, mmmu/run_llava.py:68-71 and
mmmu/utils/data_utils.py:136-175.
"""

from collections.abc import Mapping
from pathlib import Path

import yaml

from medtune.benchmarks.mmmu_med.release import FORM
from medtune.data.types import Question
from medtune.eval.asking.choice_prompt import letters_for
from medtune.eval.asking.official_prompts import OfficialPrompts

_FILE = "llava1.5.yaml"
_KNOWN = "medtune reads https://github.com/MMMU-Benchmark/MMMU at bb0b95a: take that, or write the prompts yourself."
_INSTRUCTIONS = "task_instructions"
_FORMATS = {
    "choice": ("multi_choice_example_format", ("{question}", "{options}")),
    "open": ("short_ans_example_format", ("{question}",)),
}
"""The key of the file for each form of question, and the gaps in the order in which they are filled."""


def official_prompts() -> OfficialPrompts:
    """Returns how the prompts are filled."""
    return OfficialPrompts(
        names={form: tuple(gap.strip("{}") for gap in gaps) for form, (_, gaps) in _FORMATS.items()},
        scenario=lambda question: question.facets[FORM],
        gaps=_gaps,
        answer_format="letter",
        answer=_answer,
        of="MMMU's",
        from_texts=read,
        needed=False,
    )


def read(folder: Path) -> Mapping[str, str]:
    """Returns the templates by the forms of questions."""
    places = ("mmmu/configs", "configs", ".")
    path = next((file for place in places if (file := folder / place / _FILE).is_file()), None)
    if path is None:
        raise FileNotFoundError(
            f"{folder}: wanted {_FILE} of MMMU's code: give a clone of https://github.com/MMMU-Benchmark/MMMU, or its "
            "folder mmmu/configs; check --from"
        )
    try:
        said = yaml.safe_load(path.read_text("utf-8"))
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise ValueError(f"{path}: broken YAML ({type(error).__name__}). {_KNOWN}") from None
    instructions = _text(path, said, _INSTRUCTIONS).strip()
    opening = f"{instructions}\n\n" if instructions else ""
    return {form: opening + _template(path, said, key, gaps) for form, (key, gaps) in _FORMATS.items()}


def _template(path: Path, said: object, key: str, gaps: tuple[str, ...]) -> str:
    first, *others = _text(path, said, key).split("{}")
    if len(others) != len(gaps) or any("{" in part or "}" in part for part in (first, *others)):
        raise ValueError(f"{path}: wanted {key} to have {len(gaps)} gaps {{}} and no other braces. {_KNOWN}")
    return first + "".join(gap + part for gap, part in zip(gaps, others, strict=True))


def _text(path: Path, said: object, key: str) -> str:
    match said.get(key) if isinstance(said, dict) else None:
        case [str(text)]:
            return text
    raise ValueError(f"{path}: wanted {key} to be a list of one text. {_KNOWN}")


def _gaps(question: Question) -> Mapping[str, str | None]:
    lettered = zip(letters_for(question), question.options, strict=True)
    options = "".join(f"({letter}) {option}\n" for letter, option in lettered)
    return {"question": question.text, "options": options or None}


def _answer(question: Question, said: str) -> str:
    return letters_for(question)[question.options.index(said)] if question.options else said
