"""ReXSonoVQA: what a sonographer does and why, asked about video clips; multiple choice and judged free responses.

Only questions that the authors kept are scored. Multiple choice always asks for a letter, whatever the answer format,
because the official extractor reads nothing else. Free responses are scored from a judge's verdicts: see `rubric`.
The prompts are ours; the official ones are read from the benchmark's own files.

Source: ReXSonoVQA, arXiv 2604.10916; https://github.com/rajpurkarlab/RexSonoVQA at c2b931f.
"""

from dataclasses import replace

from medtune.benchmarks import example
from medtune.benchmarks.facets import DURATION_BINS
from medtune.benchmarks.rexsonovqa import rubric as free_response
from medtune.benchmarks.rexsonovqa.judging import judge_task
from medtune.benchmarks.rexsonovqa.official_letter import official_option
from medtune.benchmarks.rexsonovqa.official_prompts import official_prompts
from medtune.benchmarks.rexsonovqa.published_tables import published_tables
from medtune.benchmarks.rexsonovqa.result_files import result_rows
from medtune.benchmarks.rexsonovqa.rubric import TYPES, is_rubric, rubric
from medtune.benchmarks.rexsonovqa.tables import missing, references, tables
from medtune.data.media.augment import NO_CHANGES, Change
from medtune.data.types import AnswerFormat, Prompt, Question
from medtune.eval.asking.answerer import AnswerProtocol
from medtune.eval.asking.choice_prompt import render_choice
from medtune.eval.benchmark import Benchmark
from medtune.eval.metrics.accuracy import metric as accuracy
from medtune.eval.scoring.parsers.choice_parsers import parse_choice

_ROLE = "You are a sonographer who explains videos of ultrasound examinations."
_WHY = ("to bring the vessel into the plane", "to lower the gain", "to measure it", "to end the scan")
_REMEDIES = ("more gain", "a lower frame rate", "better contact of the probe", "less depth")
_CROSS = "The probe is turned by 90 degrees to see the same vessel in cross section."
_EXAMPLES = tuple(
    example(number, text, answer, *options, kind=kind, task=TYPES[number], format=form, duration=DURATION_BINS[place])
    for number, (text, answer, options, kind, form, place) in enumerate(
        (
            ("Why does the operator tilt the probe here?", _WHY[0], _WHY, "choice", "mcq", 0),
            ("What would reduce the shadow at the left edge?", _REMEDIES[2], _REMEDIES, "choice", "mcq", 2),
            ("Which step of the examination comes next?", _CROSS, (), "rubric", "free", 3),
        )
    )
)


def benchmark() -> Benchmark:
    return Benchmark(
        title="ReXSonoVQA",
        version="1.2",
        licence="none stated with the questions; the paper is CC BY 4.0",
        url="https://github.com/rajpurkarlab/RexSonoVQA",
        citation="ReXSonoVQA. arXiv:2604.10916 (2026).",
        sources=("rexsonovqa",),
        facets=("task", "format", "duration"),
        render=render,
        parsers={"robust": parse_robust, "official": parse_official, "recoded": parse_recoded},
        metrics={"accuracy": accuracy().only(is_multiple_choice), "rubric": rubric()},
        protocol=AnswerProtocol(
            1.0, repeats=1, max_new_tokens=None, source="rajpurkarlab/RexSonoVQA, inference_qa_youtube.py"
        ),
        examples=_EXAMPLES,
        tables=tables,
        references=references,
        judging=judge_task(),
        official=official_prompts(),
        missing=missing,
        allowed_changes=allowed_changes,
        result_rows=result_rows,
        published_tables=published_tables,
    )


def render(question: Question, answer_format: AnswerFormat) -> Prompt:
    """Returns the prompt: role, question and options with a request for a letter, or for one to three sentences."""
    task = f"{_ROLE}\n{question.text}"
    if not is_rubric(question):
        return render_choice(replace(question, text=task), "letter")
    return Prompt(text=f"{task}\nAnswer in one to three sentences.", choices=(), target=question.answer)


def allowed_changes(question: Question) -> frozenset[Change]:
    """Returns which random changes of a training clip leave the answer to the question true.

    The benchmark has no training split, so this matters only to users who make a split of their own. No clip is
    mirrored, because the probe's marker, the writing on the screen and the direction of a movement depend on left and
    right. Brightness and position are not changed in questions about artifacts, gain and depth, which are judged by
    them. The purpose of an action may be to bring something into the middle of the picture, so such a clip is not moved
    either; a workflow does not depend on the position of the picture.
    """
    type_allows: dict[str, frozenset[Change]] = {TYPES[0]: frozenset({"grey"}), TYPES[2]: frozenset({"move", "grey"})}
    return type_allows.get(question.facets["task"], NO_CHANGES)


def parse_robust(reply: str, question: Question) -> str | None:
    """Returns the option that a reply clearly states, or the judge's verdict on a free response; else None."""
    return free_response.robust(reply, question) if is_rubric(question) else parse_choice(reply, question)


def parse_official(reply: str, question: Question) -> str | None:
    """Returns the answer that the official code reads, its errors included, or None."""
    return free_response.official(reply, question) if is_rubric(question) else official_option(reply, question)


def parse_recoded(reply: str, question: Question) -> str | None:
    """Returns what the official code reads, with free responses recoded as the paper's are of Gemini 3 Pro alone."""
    return free_response.recoded(reply, question) if is_rubric(question) else official_option(reply, question)


def is_multiple_choice(question: Question) -> bool:
    """Returns whether the question has options to choose from."""
    return not is_rubric(question)
