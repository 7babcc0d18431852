"""PMC-VQA, multiple-choice questions about figures of open-access medical articles, made by a language model.

Two versions of the release exist, whose questions, figures and columns differ; each question says which it is from.

Source: Zhang et al., PMC-VQA, arXiv 2305.10415; hub data set RadGenome/PMC-VQA.
"""

from collections import Counter
from collections.abc import Sequence

from medtune.benchmarks import example
from medtune.benchmarks.medical_kits.choice_rules import (
    Printed,
    medevalkit_choice_prompts,
    medevalkit_rule,
    parse,
    render,
)
from medtune.benchmarks.pmc_vqa.sources.pmc_vqa import CHOICES, LETTER, LETTERS, LICENCE, TASK, URL, V1, V1_CLEAN, V2
from medtune.benchmarks.short_answers.published_tables import MISSING_SHARE, printed_tables
from medtune.data.types import Question
from medtune.eval.asking.answerer import AnswerProtocol
from medtune.eval.benchmark import Benchmark
from medtune.eval.metrics.accuracy import metric as accuracy

RELEASE = "release"
_TEST_QUESTIONS = {V1_CLEAN.release: 2000, V2.release: 33_430}
"""The number of test questions. Source: the card (test_clean); one other repository (test_2)."""


def benchmark() -> Benchmark:
    rules = {"medevalkit": medevalkit_rule("utils/PMC_VQA/PMC_VQA.py", _as_printed, takes_tags=False)}
    return Benchmark(
        title="PMC-VQA",
        version="1.0",
        licence=LICENCE,
        url=URL,
        citation="Zhang X, Wu C, Zhao Z, et al. PMC-VQA: Visual Instruction Tuning for Medical VQA. arXiv:2305.10415.",
        sources=("pmc_vqa_2", "pmc_vqa", "pmc_vqa_clean"),
        facets=("task", RELEASE),
        render=render,
        parsers={"robust": parse},
        metrics={"accuracy": accuracy()},
        examples=_EXAMPLES,
        official=medevalkit_choice_prompts(_as_printed),
        tables=printed_tables("pmc_vqa", rules, facet=RELEASE),
        rules=rules,
        missing=_missing,
        protocol=AnswerProtocol(0.0, repeats=1, max_new_tokens=8192, source="MedEvalKit@9b12e3b, eval.sh"),
    )


def _as_printed(question: Question) -> Printed:
    if not question.printed:
        letter = LETTERS[question.options.index(question.answer)]
        return Printed(tuple(f" {x}:{y} " for x, y in zip(LETTERS, question.options, strict=False)), letter)
    choices = tuple(question.printed[column] for column in CHOICES if column in question.printed)
    return Printed(choices, question.printed[LETTER])


def _missing(questions: Sequence[Question]) -> str:
    for release, count in Counter(question.facets.get(RELEASE, "") for question in questions).items():
        wanted = _TEST_QUESTIONS.get(release, 0)
        if count < (1 - MISSING_SHARE) * wanted:
            return f"{count:,} of the {wanted:,} of {release}"
    return ""


_EXAMPLES = tuple(
    example(version.release, text, answer, *options, task=TASK, release=version.release)
    for version, text, answer, options in (
        (V1, "Which organ does the figure show?", "spleen", ("liver", "spleen", "kidney", "colon")),
        (V1_CLEAN, "Which stain was used?", "PAS", ("H&E", "Gram", "PAS", "Giemsa")),
        (V2, "What does the arrow mark?", "a cyst", ("a cyst", "a stone", "a clip", "a vessel")),
    )
)
