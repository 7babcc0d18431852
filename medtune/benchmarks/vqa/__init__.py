"""The user's own questions: free questions about a picture or video, with written answers.

The data sets are in the formats of other training tools. Nothing is known about their pictures, so training never
augments them (`allowed_changes` keeps its default, which allows no change).

Source: the formats of ms-swift and LLaMA-Factory; see the modules of `sources`. This is no published benchmark.
"""

from __future__ import annotations

from medtune.data.types import AnswerFormat, Prompt, Question
from medtune.eval.benchmark import Benchmark
from medtune.eval.metrics.bleu4 import metric as bleu4
from medtune.eval.metrics.rouge_l import metric as rouge_l


def benchmark() -> Benchmark:
    """Returns the benchmark, whose prompts are the questions as they were written."""
    return Benchmark(
        title="Your own questions",
        version="1.0",
        licence="of the data set's owner",
        url="https://github.com/modelscope/ms-swift",
        citation="None: the user's own data.",
        sources=("ms_swift", "llama_factory"),
        facets=("task",),
        render=_render,
        parsers={"reply": _parse},
        metrics={"rouge_l": rouge_l(), "bleu4": bleu4()},
        examples=_EXAMPLES,
    )


def _render(question: Question, answer_format: AnswerFormat) -> Prompt:
    return Prompt(text=question.text, choices=(), target=question.answer)


def _parse(reply: str, question: Question) -> str | None:
    return reply.strip() or None


def _example(number: int, text: str, answer: str) -> Question:
    facets = {"task": "conversation"}
    return Question(f"example-{number}", f"image-{number}", text, (), answer, "text", f"patient-{number}", facets)


_EXAMPLES = (
    _example(1, "Describe the image in one sentence.", "A transverse view of the liver without a focal lesion."),
    _example(2, "Which plane of the fetus is this?", "The four-chamber view of the fetal heart."),
)
