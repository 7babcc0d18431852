"""MMMU's medical subjects: college-level questions about images, nearly all with options and a few open ones.

The validation part (150 questions) has answers; those of the test part (1,752) are withheld by the authors. The two are
separate sources, because their numbers cannot be compared. Both are for evaluation alone.

Source: Yue et al., MMMU, arXiv 2311.16502; MMMU-Benchmark/MMMU@bb0b95a.
"""

from collections import Counter
from collections.abc import Sequence

from medtune.benchmarks.choice_sets import letters_as_options
from medtune.benchmarks.mmmu_med.official_prompts import official_prompts
from medtune.benchmarks.mmmu_med.open_answers import parse_open
from medtune.benchmarks.mmmu_med.release import FORM, LICENCE, PART, SUBJECTS, URL
from medtune.benchmarks.mmmu_med.result_files import result_rows
from medtune.benchmarks.mmmu_med.rules import rules
from medtune.benchmarks.short_answers.published_tables import printed_tables
from medtune.data.types import AnswerFormat, Prompt, Question
from medtune.eval.asking.answer_protocol import AnswerProtocol
from medtune.eval.benchmark import Benchmark
from medtune.eval.metrics.accuracy import metric as accuracy

_QUESTIONS = {"validation": 150, "test": 1752}


def benchmark() -> Benchmark:
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
        tables=printed_tables("mmmu_med", rules(), facet=PART),
        rules=rules(),
        missing=_missing,
        result_rows=result_rows,
        # Beam search with 5 beams, which no engine here does, on top of sampling.
        protocol=AnswerProtocol(1.0, repeats=1, max_new_tokens=128, source="MMMU@bb0b95a, mmmu/utils/model_utils.py"),
    )


def render(question: Question, answer_format: AnswerFormat) -> Prompt:
    r"""Returns the prompt of a question with options, or of an open one.

    Example:
        >>> print(render(_EXAMPLES[1], "letter").text)
        How many marks are drawn?
        Answer with a number, a letter or a few words.
    """
    if question.options:
        return letters_as_options.render(question, answer_format)
    return Prompt(f"{question.text}\nAnswer with a number, a letter or a few words.", (), question.answer)


def parse(reply: str, question: Question) -> str | None:
    """Returns the option that a reply chooses, or the answer that it gives to an open question."""
    return letters_as_options.parse(reply, question) if question.options else parse_open(reply, question)


def _missing(questions: Sequence[Question]) -> str:
    for part, count in Counter(question.facets.get(PART, "") for question in questions).items():
        if count < _QUESTIONS.get(part, 0):
            there = {question.facets["task"] for question in questions if question.facets.get(PART) == part}
            lacking = [subject for subject in SUBJECTS if subject not in there]
            without = f", without {', '.join(lacking)}" if lacking else ""
            return f"{count:,} of the {_QUESTIONS[part]:,} of the {part} part{without}"
    return ""


def _example(number: int, subject: str, part: str, text: str, options: tuple[str, ...], answer: str) -> Question:
    return Question(
        id=f"example-{number}",
        media_id=f"example-image-{number}",
        text=text,
        options=options,
        answer=answer,
        answer_kind="choice" if options else "text",
        patient_id=f"example-{number}",
        facets={
            "task": subject,
            PART: part,
            FORM: "choice" if options else "open",
            "difficulty": "Easy",
            "images": "1",
        },
    )


_EXAMPLES = (
    _example(1, "Public_Health", "validation", "Which group is larger?", ("treated", "untreated", "equal"), "equal"),
    _example(2, "Pharmacy", "validation", "How many marks are drawn?", (), "2"),
    _example(3, "Clinical_Medicine", "test", "Which letter marks the duct?", (), "C"),
)
