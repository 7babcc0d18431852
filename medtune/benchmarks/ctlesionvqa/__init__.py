"""CTLesionVQA (DeepTumorVQA): lesions in abdominal CT, as multiple choice and free text, versions 1 and 2.

A number in free text scores its mean relative accuracy; every other answer scores 1 if it is right and 0 otherwise.
"subtype_mean" is the average of version 1, unweighted over subtypes; "question_mean" weighs questions, as version 2
does. Mean relative accuracy follows the paper's strict definition; a table shows the other definitions too.
The official prompts of version 2 are read from its evaluation kit and ask for a letter (`model.answer_format: letter`).
Version 1 has no published prompts, so its questions are asked in our words.

Source: CTLesionVQA = DeepTumorVQA, arXiv 2505.18915 (v1) and 2605.09679 (v2);
https://github.com/Schuture/DeepTumorVQA at 1df7460 (branch v2).
"""

from medtune.benchmarks.ctlesionvqa import reply_parsers, scoring
from medtune.benchmarks.ctlesionvqa.allowed_changes import allowed_changes
from medtune.benchmarks.ctlesionvqa.examples import EXAMPLES
from medtune.benchmarks.ctlesionvqa.judge_task import judge_task
from medtune.benchmarks.ctlesionvqa.official_prompts import official_prompts
from medtune.benchmarks.ctlesionvqa.paper_tables import missing, references
from medtune.benchmarks.ctlesionvqa.sources.ctlesionvqa.result_files import result_rows
from medtune.benchmarks.ctlesionvqa.tables import LESION_FACETS, SUBGROUPS, repeat_tables, tables
from medtune.data.types import AnswerFormat, Prompt, Question
from medtune.eval.asking.answer_protocol import AnswerProtocol
from medtune.eval.asking.choice_prompt import render_choice
from medtune.eval.benchmark import Benchmark


def benchmark() -> Benchmark:
    return Benchmark(
        title="CTLesionVQA (DeepTumorVQA)",
        version="1.1",
        licence="v1 CC BY-NC-ND 4.0, v2 CC BY 4.0",
        url="https://github.com/Schuture/DeepTumorVQA",
        citation="DeepTumorVQA. arXiv:2505.18915 (2025); version 2: arXiv:2605.09679 (2026).",
        sources=("ctlesionvqa", "ct_phantom"),
        facets=("task", "subtype", "format", "organ", *LESION_FACETS, *SUBGROUPS),
        class_facet="subtype",
        render=render,
        parsers={
            "robust": reply_parsers.robust,
            "official": reply_parsers.official,
            "vsi": reply_parsers.vsi,
            "vsi_original": reply_parsers.vsi_original,
        },
        metrics={
            "subtype_mean": scoring.subtype_mean(),
            "question_mean": scoring.question_mean(),
            "multi_choice": scoring.subtype_mean().only(scoring.is_multiple_choice),
            "free_text": scoring.subtype_mean().only(scoring.is_free_text),
            "mra": scoring.question_mean().only(scoring.is_number),
            "sensitivity": scoring.right_share().only(scoring.is_positive),
            "specificity": scoring.right_share().only(scoring.is_negative),
            "youden": scoring.youden(),
        },
        # The paper does not say whether training or answering was repeated; an evaluation can repeat only answering.
        protocol=AnswerProtocol(
            None, repeats=5, max_new_tokens=None, source='arXiv 2505.18915, appendix F: "5 repeated experiments"'
        ),
        examples=EXAMPLES,
        tables=tables,
        repeat_tables=repeat_tables,
        references=references,
        missing=missing,
        allowed_changes=allowed_changes,
        judging=judge_task(),
        official=official_prompts(),
        result_rows=result_rows,
    )


def render(question: Question, answer_format: AnswerFormat) -> Prompt:
    """Returns the prompt: the question with its lettered options, or with the form that a free answer should have."""
    match question.answer_kind:
        case "choice":
            return render_choice(question, answer_format)
        case "yes_no":
            how = f"Answer {' or '.join(question.options)}."
            return Prompt(f"{question.text}\n{how}", question.options, question.answer)
        case "number":
            unit = f", in {question.unit}" if question.unit else ""
            return Prompt(f"{question.text}\nAnswer with one number{unit}.", (), question.answer)
        case _:
            return Prompt(f"{question.text}\nAnswer with a short phrase.", (), question.answer)
