"""IU X-ray, chest X-ray images with their reports: a model writes the findings, the impression or both.

The prompts, the parser and the scores are ours; the rules of R2Gen and of MedEvalKit stand beside them.

Source: Demner-Fushman et al. 2016, doi:10.1093/jamia/ocv080; the split: Chen et al. 2020, arXiv 2010.16056.
"""

from medtune.benchmarks.iu_xray.rules import FINDINGS, IMPRESSION, REPORT, RULES, metrics, parse_report
from medtune.benchmarks.iu_xray.studies import IN_TRAIN, LICENCE, MEDEVALKIT, OPEN_I, OPEN_I_FILES, R2GEN, TEXTS
from medtune.benchmarks.iu_xray.tables import missing, tables
from medtune.benchmarks.medical_kits import medevalkit_prompts
from medtune.data.media.augment import Change
from medtune.data.types import AnswerFormat, Prompt, Question
from medtune.eval.benchmark import Benchmark

_FORMS = {
    FINDINGS: "Answer with the findings section of the radiology report alone, in plain sentences.",
    IMPRESSION: "Answer with the impression of the radiology report alone, in plain sentences.",
    REPORT: 'Answer with the radiology report in plain sentences: first "Findings:", then "Impression:".',
}
_ALLOWED: frozenset[Change] = frozenset({"move", "grey"})


def benchmark() -> Benchmark:
    """Returns the benchmark, whose primary metric is ROUGE-L of the words of the asked part."""
    return Benchmark(
        title="IU X-ray",
        version="1.0",
        licence=LICENCE,
        url=OPEN_I,
        citation="Demner-Fushman et al. Preparing a collection of radiology examinations. JAMIA 23 (2016), 304-310.",
        sources=("iu_xray", "iu_xray_medevalkit", "iu_xray_open_i"),
        facets=("task", "release", IN_TRAIN, "finding"),
        render=_render,
        parsers={"report": parse_report},
        metrics=metrics(),
        examples=_EXAMPLES,
        official=medevalkit_prompts.medevalkit_prompts((medevalkit_prompts.REPORT,), _kit_form),
        tables=tables,
        missing=missing,
        rules=RULES,
        allowed_changes=_allowed_changes,
    )


def _render(question: Question, answer_format: AnswerFormat) -> Prompt:
    return Prompt(f"{question.text}\n{_FORMS[question.facets['task']]}", (), question.answer)


def _kit_form(question: Question) -> str:
    task = question.facets["task"]
    return medevalkit_prompts.REPORT.name if task == REPORT else f"{task} alone"


def _allowed_changes(question: Question) -> frozenset[Change]:
    return _ALLOWED


def _example(number: int, task: str, answer: str, **facets: str) -> Question:
    return Question(
        id=f"example-{number}",
        media_id=f"example-study-{number}",
        text=TEXTS[task],
        options=(),
        answer=answer,
        answer_kind="text",
        patient_id=f"example-patient-{number}",
        facets={"task": task, **facets},
    )


_EXAMPLES = (
    _example(1, FINDINGS, "The heart is enlarged. There is no pleural effusion.", release=R2GEN, **{IN_TRAIN: "no"}),
    _example(
        2,
        REPORT,
        "Findings: The left costophrenic angle is blunted. Impression: Small pleural effusion on the left.",
        release=MEDEVALKIT,
    ),
    _example(3, IMPRESSION, "There is no acute disease of the chest.", release=OPEN_I_FILES, finding="normal"),
)
