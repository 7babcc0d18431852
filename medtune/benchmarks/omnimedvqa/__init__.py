"""OmniMedVQA, multiple-choice questions about medical images of 12 modalities, made from 73 classification sets.

The open-access part, whose images can be downloaded, is the one that is asked. It is for evaluation alone.

Source: Hu et al., OmniMedVQA, arXiv 2402.09181; hub data set foreverbeliever/OmniMedVQA.
"""

from string import ascii_uppercase

from medtune.benchmarks import example
from medtune.benchmarks.medical_kits.choice_rules import (
    Printed,
    medevalkit_choice_prompts,
    medevalkit_rule,
    parse,
    render,
)
from medtune.benchmarks.omnimedvqa.sources.omnimedvqa import STATED, URL
from medtune.benchmarks.short_answers.published_tables import part_of, printed_tables
from medtune.data.types import Question
from medtune.eval.asking.answerer import AnswerProtocol
from medtune.eval.benchmark import Benchmark
from medtune.eval.metrics.accuracy import metric as accuracy

TEST_QUESTIONS = (88_996,)
"""The number of questions of the open-access part, as two other repositories state it."""


def benchmark() -> Benchmark:
    rules = {"medevalkit": medevalkit_rule("utils/OmniMedVQA/OmniMedVQA.py", _as_printed, takes_tags=True)}
    return Benchmark(
        title="OmniMedVQA",
        version="1.0",
        licence="of each of its source sets; the release states none of its own",
        url=URL,
        citation="Hu Y, Li T, Lu Q, et al. OmniMedVQA. CVPR 2024, arXiv:2402.09181.",
        sources=("omnimedvqa",),
        facets=("task", "modality", "set"),
        render=render,
        parsers={"robust": parse},
        metrics={"accuracy": accuracy()},
        examples=_EXAMPLES,
        official=medevalkit_choice_prompts(_as_printed),
        tables=printed_tables("omnimedvqa", rules),
        rules=rules,
        missing=part_of(TEST_QUESTIONS),
        protocol=AnswerProtocol(0.0, repeats=1, max_new_tokens=8192, source="MedEvalKit@9b12e3b, eval.sh"),
    )


def _as_printed(question: Question) -> Printed:
    """Returns the choices as MedEvalKit prints them, and the letter of the last option that equals the stated answer.

    Where no option equals it character by character, the stated answer itself is the truth, which the kit's letters
    never reach.
    """
    letters = ascii_uppercase[: len(question.options)]
    stated = question.printed.get(STATED, question.answer)
    equal = [letter for letter, option in zip(letters, question.options, strict=True) if option == stated]
    choices = tuple(f"{letter}. {option}" for letter, option in zip(letters, question.options, strict=True))
    return Printed(choices, equal[-1] if equal else stated)


_EXAMPLES = tuple(
    example(number, text, answer, *options, task=task, modality=modality, set="Invented set")
    for number, (task, modality, text, answer, options) in enumerate(
        (
            ("Modality Recognition", "X-Ray", "What kind of image is this?", "X-ray", ("CT", "X-ray", "MRI", "PET")),
            ("Disease Diagnosis", "Dermoscopy", "Is the spot malignant?", "No", ("No", "Yes")),
            ("Lesion Grading", "Fundus Photography", "Which grade is it?", "mild", ("none", "mild", "severe")),
        )
    )
)
