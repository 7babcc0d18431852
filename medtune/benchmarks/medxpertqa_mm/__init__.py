"""MedXpertQA MM, expert-level multiple-choice questions about patients with one to six images each.

It is for evaluation alone. The release's questions hold their options, which are taken off; the prompt lists them once.

Source: Zuo et al., MedXpertQA, arXiv 2501.18362; TsinghuaC3I/MedXpertQA@f21247d.
"""

from medtune.benchmarks.medical_kits.choice_rules import (
    lettered,
    medevalkit_choice_prompts,
    medevalkit_rule,
    medxpertqa_rule,
    parse,
    render,
)
from medtune.benchmarks.medxpertqa_mm.sources.medxpertqa_mm import URL
from medtune.benchmarks.short_answers.published_tables import part_of, printed_tables
from medtune.data.types import Question
from medtune.eval.asking.answerer import AnswerProtocol
from medtune.eval.benchmark import Benchmark
from medtune.eval.metrics.accuracy import metric as accuracy

TEST_QUESTIONS = (2000,)


def benchmark() -> Benchmark:
    rules = {
        "medxpertqa": medxpertqa_rule(),
        "medevalkit": medevalkit_rule("utils/MedXpertQA/MedXpertQA.py", lettered, takes_tags=True),
    }
    return Benchmark(
        title="MedXpertQA MM",
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
        official=medevalkit_choice_prompts(lettered),
        tables=printed_tables("medxpertqa_mm", rules),
        rules=rules,
        missing=part_of(TEST_QUESTIONS),
        protocol=AnswerProtocol(
            0.0, repeats=1, max_new_tokens=2048, source="TsinghuaC3I/MedXpertQA@f21247d, eval/model/api_agent.py"
        ),
    )


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
