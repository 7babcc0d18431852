"""MMMU's medical subjects: college-level questions about images, nearly all with options and a few open ones.

The validation part (150 questions) has answers; those of the test part (1,752) are withheld by the authors. The two are
separate sources, because their numbers cannot be compared. Both are for evaluation alone.

Source: Yue et al., MMMU, arXiv 2311.16502; MMMU-Benchmark/MMMU@bb0b95a.

Reads the prompts of MMMU's code from its configuration file: one for questions with options, one for open ones.

The places of images stay as medtune has them. MMMU's code sends the first image alone, in front of the prompt.

Source: MMMU-Benchmark/MMMU@bb0b95a, mmmu/configs/llava1.5.yaml, mmmu/run_llava.py:68-71 and
mmmu/utils/data_utils.py:136-175.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path

from medtune.benchmarks import example
from medtune.benchmarks.medical_kits import choice_rules
from medtune.benchmarks.mmmu_med.result_files import result_rows
from medtune.benchmarks.mmmu_med.rules import parse_open, rules
from medtune.benchmarks.mmmu_med.sources.mmmu_med import FORM, LICENCE, PART, SUBJECTS, URL
from medtune.benchmarks.short_answers.published_tables import printed_numbers
from medtune.data.types import AnswerFormat, Prompt, Question
from medtune.data.yaml_text import yaml_file
from medtune.eval.asking.answerer import AnswerProtocol
from medtune.eval.asking.choice_prompt import letters_for
from medtune.eval.asking.official_prompts import OfficialPrompts
from medtune.eval.benchmark import Benchmark
from medtune.eval.metrics.accuracy import metric as accuracy

_FILE = "llava1.5.yaml"
_KNOWN = "medtune reads https://github.com/MMMU-Benchmark/MMMU at bb0b95a: take that, or write the prompts yourself."
_INSTRUCTIONS = "task_instructions"
_FORMATS = {
    "choice": ("multi_choice_example_format", ("{question}", "{options}")),
    "open": ("short_ans_example_format", ("{question}",)),
}
"""The key of the file for each form of question, and the gaps in the order in which they are filled."""

_QUESTIONS = {"validation": 150, "test": 1752}
_ABOUT = {"difficulty": "Easy", "images": "1"}
_CHOICE, _OPEN = {FORM: "choice", **_ABOUT}, {FORM: "open", **_ABOUT}
_GROUPS = ("treated", "untreated", "equal")
_EXAMPLES = (
    example(1, "Which group is larger?", "equal", *_GROUPS, task="Public_Health", part="validation", **_CHOICE),
    example(2, "How many marks are drawn?", "2", task="Pharmacy", part="validation", **_OPEN),
    example(3, "Which letter marks the duct?", "C", task="Clinical_Medicine", part="test", **_OPEN),
)


def official_prompts() -> OfficialPrompts:
    return OfficialPrompts(
        names={form: tuple(gap.strip("{}") for gap in gaps) for form, (_, gaps) in _FORMATS.items()},
        scenario=lambda question: question.facets[FORM],
        gaps=_gaps,
        answer_format="letter",
        answer=_answer,
        of="MMMU's",
        from_texts=read,
        needed=lambda question: False,
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
        said = yaml_file(path)
    except ValueError as error:
        raise ValueError(f"{path}: broken YAML ({type(error.__cause__ or error).__name__}). {_KNOWN}") from None
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


def benchmark() -> Benchmark:
    printed = printed_numbers("mmmu_med", rules(), {"accuracy": accuracy()}, facet=PART)
    return Benchmark(
        title="MMMU, medical subjects",
        version="1.0",
        licence=LICENCE,
        url=URL,
        citation="Yue X, Ni Y, Zhang K, et al. MMMU. CVPR 2024, arXiv:2311.16502.",
        sources=("mmmu_med", "mmmu_med_test"),
        facets=("task", PART, FORM, "difficulty", "images"),
        render=render,
        parsers={"robust": parse},
        metrics={"accuracy": accuracy()},
        examples=_EXAMPLES,
        official=official_prompts(),
        tables=printed.tables,
        published_tables=printed.published_tables,
        rules=rules(),
        missing=_missing,
        result_rows=result_rows,
        # Beam search with 5 beams, which no engine here does, on top of sampling.
        protocol=AnswerProtocol(1.0, repeats=1, max_new_tokens=128, source="MMMU@bb0b95a, mmmu/utils/model_utils.py"),
    )


def render(question: Question, answer_format: AnswerFormat) -> Prompt:
    r"""Returns the prompt of a question with options, or of an open one.

    >>> print(render(_EXAMPLES[1], "letter").text)
    How many marks are drawn?
    Answer with a number, a letter or a few words.
    """
    if question.options:
        return choice_rules.render(question, answer_format)
    return Prompt(f"{question.text}\nAnswer with a number, a letter or a few words.", (), question.answer)


def parse(reply: str, question: Question) -> str | None:
    """Returns the option that a reply chooses, or the answer that it gives to an open question."""
    return choice_rules.parse(reply, question) if question.options else parse_open(reply, question)


def _missing(questions: Sequence[Question]) -> str:
    for part, count in Counter(question.facets.get(PART, "") for question in questions).items():
        if count < _QUESTIONS.get(part, 0):
            there = {question.facets["task"] for question in questions if question.facets.get(PART) == part}
            lacking = [subject for subject in SUBJECTS if subject not in there]
            without = f", without {', '.join(lacking)}" if lacking else ""
            return f"{count:,} of the {_QUESTIONS[part]:,} of the {part} part{without}"
    return ""
