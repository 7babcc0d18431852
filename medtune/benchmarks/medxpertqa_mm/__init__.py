"""MedXpertQA MM, expert-level multiple-choice questions about patients with one to six images each.

It is for evaluation alone. The release's questions hold their options, which are taken off; the prompt lists them once.

Source: Zuo et al., MedXpertQA, arXiv 2501.18362; TsinghuaC3I/MedXpertQA@f21247d.
"""

from __future__ import annotations

from collections.abc import Sequence

from medtune.benchmarks import published
from medtune.benchmarks.medical_kits.choice_rules import lettered, medevalkit_rule, medxpertqa_rule
from medtune.benchmarks.medical_kits.letters_as_options import parse, render
from medtune.benchmarks.medical_kits.printed_rows import printed_references, printed_table
from medtune.benchmarks.medxpertqa_mm.sources.medxpertqa_mm import URL
from medtune.data.types import Question
from medtune.eval.asking.answer_protocol import AnswerProtocol
from medtune.eval.benchmark import Benchmark, Evidence
from medtune.eval.metrics.accuracy import metric as accuracy
from medtune.eval.published_numbers import Reference
from medtune.eval.scoring.tables import Table

TYPES = ("Reasoning", "Understanding")
_NAME, _TITLE = "medxpertqa_mm", "MedXpertQA MM"
_RELEASE = "MM test"
_QUESTIONS = 2000
_REJECTED_SHARE = 0.01


def benchmark() -> Benchmark:
    """Returns the benchmark."""
    return Benchmark(
        title=_TITLE,
        version="1.0",
        licence="MIT",
        url=URL,
        citation="Zuo Y, Qu S, Li Y, et al. MedXpertQA. ICML 2025, arXiv:2501.18362.",
        sources=("medxpertqa_mm",),
        facets=("task", "question_type", "body_system", "images"),
        render=render,
        parsers={"robust": parse},
        metrics={"accuracy": accuracy()},
        examples=_EXAMPLES,
        tables=_tables,
        rules={
            "medxpertqa": medxpertqa_rule(),
            "medevalkit": medevalkit_rule("utils/MedXpertQA/MedXpertQA.py", lettered, takes_tags=True),
        },
        references=_references,
        missing=_missing,
        protocol=AnswerProtocol(
            0.0, repeats=1, max_new_tokens=2048, source="TsinghuaC3I/MedXpertQA@f21247d, eval/model/api_agent.py"
        ),
    )


def _tables(evidence: Evidence) -> Sequence[Table]:
    """Returns the printed accuracies with ours, and the authors' table by type of question."""
    printed = published(_NAME)["by_type"]
    by_type = Table(
        title=f"{_TITLE}: the authors' accuracies in % by type of question, as printed",
        columns=tuple(printed["columns"]),
        rows=tuple(tuple(row) for row in printed["rows"]),
        notes=("o1 answered a sample of the questions.",),
        digits=2,
    )
    return (*printed_table(_NAME, _TITLE, evidence), by_type)


def _references() -> Sequence[Reference]:
    """Returns the printed accuracies over the whole test, and the authors' by type of question without the sample."""
    overall = printed_references(_NAME, {_RELEASE: (None, None)})
    known = {reference.model for reference in overall}
    by_type = [
        Reference(name, value / 100, "question_type", level)
        for model, *values, _ in published(_NAME)["by_type"]["rows"]
        for level, value in zip(TYPES, values, strict=True)
        if (name := f"{model} (MedXpertQA)") in known
    ]
    return [*overall, *by_type]


def _missing(questions: Sequence[Question]) -> str:
    """Returns how many of the test questions these are; "" if all, but for one in a hundred."""
    if len(questions) >= (1 - _REJECTED_SHARE) * _QUESTIONS:
        return ""
    return f"{len(questions):,} of its {_QUESTIONS:,} test questions"


def _example(number: int, task: str, kind: str, images: int, text: str, answer: str) -> Question:
    return Question(
        id=f"example-{number}",
        media_id=f"example-images-{number}",
        text=text,
        options=("a cyst", "a stone", "a clip", "a vessel", "a suture"),
        answer=answer,
        answer_kind="choice",
        patient_id=f"example-{number}",
        facets={"task": task, "question_type": kind, "body_system": "Digestive", "images": str(images)},
    )


_EXAMPLES = (
    _example(1, "Diagnosis", "Reasoning", 2, "A man of 40 has pain after meals. What do both images show?", "a stone"),
    _example(2, "Basic Science", "Understanding", 1, "What does the arrow point to?", "a vessel"),
)
