"""The user's own questions: with options, with yes or no, with a number, or with an answer in free words.

Which metrics there are, and which is primary, follows from the questions of the split (`Benchmark.for_part`). Nothing
is known about the pictures, so training never changes them (`allowed_changes` keeps its default, which allows no
change). docs/scores.md says how answers are read and compared.

Source: the formats of ms-swift and LLaMA-Factory; see the modules of `sources`. This is no published benchmark.
"""

from medtune.benchmarks.vqa.judge_task import judge_task
from medtune.benchmarks.vqa.metrics import metrics
from medtune.benchmarks.vqa.parsers import parse, parse_verbatim
from medtune.benchmarks.vqa.tables import tables
from medtune.data.types import AnswerFormat, AnswerKind, Prompt, Question
from medtune.eval.asking.choice_prompt import render_choice
from medtune.eval.benchmark import Benchmark


def benchmark() -> Benchmark:
    """Returns the benchmark, whose prompts are the questions as they were written, with their options."""
    return Benchmark(
        title="Your own questions",
        version="2.0",
        licence="of the data set's owner",
        url="https://github.com/modelscope/ms-swift",
        citation="None: the user's own data.",
        sources=("hf", "llama_factory", "ms_swift", "table", "image_folder"),
        facets=("task",),
        any_facet=True,
        render=render,
        parsers={"reply": parse, "verbatim": parse_verbatim},
        metrics=metrics(),
        examples=_EXAMPLES,
        tables=tables,
        judging=judge_task(),
    )


def render(question: Question, answer_format: AnswerFormat) -> Prompt:
    r"""Returns the question as it was written, with its options or with the unit of the number that it asks for.

    Example:
        >>> render(_EXAMPLES[2], "text").text
        'How long is the femur?\nAnswer with a number in mm.'
    """
    if question.options:
        return render_choice(question, answer_format)
    text = question.text
    if question.answer_kind == "number":
        text += f"\nAnswer with a number{f' in {question.unit}' if question.unit else ''}."
    return Prompt(text=text, choices=(), target=question.answer)


def _example(
    number: int, text: str, answer: str, kind: AnswerKind, options: tuple[str, ...] = (), unit: str | None = None
) -> Question:
    facets = {"task": kind}
    patient = f"patient-{number}"
    return Question(f"example-{number}", f"image-{number}", text, options, answer, kind, patient, facets, unit)


_EXAMPLES = (
    _example(1, "Which plane of the fetus is this?", "thorax", "choice", ("abdomen", "thorax", "femur")),
    _example(2, "Is a nodule visible?", "no", "yes_no", ("yes", "no")),
    _example(3, "How long is the femur?", "41.5", "number", unit="mm"),
    _example(4, "Where does the catheter end?", "The right atrium of the heart", "text"),
    _example(5, "Describe the image.", "A transverse view of the liver without a focal lesion. No fluid.", "text"),
)
