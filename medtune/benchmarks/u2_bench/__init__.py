"""U2-Bench: diagnosis, views, positions, values, reports and captions of ultrasound images, in one score.

Source: arXiv 2505.17779; its code: dolphin-sound/u2-bench-evalkit, gurenolun/Dolphin-ai-bench. The prompts are ours.
"""

from medtune.benchmarks.u2_bench.allowed_changes import allowed_changes
from medtune.benchmarks.u2_bench.judge_task import judge_task
from medtune.benchmarks.u2_bench.metrics import METRICS
from medtune.benchmarks.u2_bench.official.prompts import official_prompts
from medtune.benchmarks.u2_bench.parsers import parse_extracted, parse_lenient, parse_strict
from medtune.benchmarks.u2_bench.prompts import render, render_with_anatomy
from medtune.benchmarks.u2_bench.robust_parser import parse
from medtune.benchmarks.u2_bench.sources.u2_bench.result_files import result_rows
from medtune.benchmarks.u2_bench.tables import references, repeat_tables, tables
from medtune.benchmarks.u2_bench.whole import missing
from medtune.data.media.masks import LOCATIONS
from medtune.data.types import Question
from medtune.eval.asking.answer_protocol import AnswerProtocol
from medtune.eval.benchmark import Benchmark


def benchmark() -> Benchmark:
    """Returns the benchmark. Its default parser is `robust`; the official parsers are there for comparison."""
    return Benchmark(
        title="U2-Bench",
        version="1.2",
        licence="CC-BY-NC-ND-4.0",
        url="https://arxiv.org/abs/2505.17779",
        citation="U2-Bench: benchmarking large vision-language models on ultrasound understanding. arXiv:2505.17779.",
        sources=("u2_bench", "u2_bench_rebuilt"),
        facets=("task", "scenario", "dataset", "anatomy", "box_size", "phantom", "sex", "age", "scanner"),
        class_facet="dataset",
        render=render,
        renders={"with_anatomy": render_with_anatomy},
        parsers={
            "robust": parse,
            "official_strict": parse_strict,
            "official_lenient": parse_lenient,
            "official_extracted": parse_extracted,
        },
        metrics=METRICS,
        examples=_EXAMPLES,
        tables=tables,
        repeat_tables=repeat_tables,
        references=references,
        allowed_changes=allowed_changes,
        judging=judge_task(),
        official=official_prompts(),
        missing=missing,
        result_rows=result_rows,
        # Comparing texts is slow, so the bench scores no more predictions than the benchmark has cases.
        protocol=AnswerProtocol(
            0.7,
            repeats=1,
            max_new_tokens=800,
            source="arXiv 2505.17779, appendix C.2; the passes of the anatomy ablation: section 5",
            condition_repeats={"with_anatomy": 5},
        ),
    )


def _choice(
    task: str, dataset: str, text: str, options: tuple[str, ...], answer: str, anatomy: str, **facets: str
) -> Question:
    return Question(
        id=f"example-{task}",
        media_id=f"example-image-{task}",
        text=text,
        options=options,
        answer=answer,
        answer_kind="choice",
        patient_id=f"example-patient-{task}",
        facets={"task": task, "scenario": f"{task} {dataset}", "dataset": dataset, "anatomy": anatomy, **facets},
    )


def _report(task: str, dataset: str, text: str, answer: str, anatomy: str, **facets: str) -> Question:
    return Question(
        id=f"example-{task}",
        media_id=f"example-image-{task}",
        text=text,
        options=(),
        answer=answer,
        answer_kind="text",
        patient_id=f"example-patient-{task}",
        facets={"task": task, "scenario": f"{task} {dataset}", "dataset": dataset, "anatomy": anatomy, **facets},
    )


_EXAMPLES = (
    _choice("DD", "23", "What is the diagnosis?", ("benign", "normal", "malignant"), "malignant", "breast"),
    _choice("VRA", "18", "Which view of the heart is this?", ("4CH", "2CH"), "2CH", "heart"),
    _choice("LL", "04", "Where is the lesion?", LOCATIONS, "upper right", "thyroid"),
    _choice(
        "OD", "31", "Where is the head?", LOCATIONS, "center", "fetal head", box_size="large", scanner="Voluson E6"
    ),
    _choice("KD", "48", "Where is the mitral valve's middle?", LOCATIONS, "not visible", "heart"),
    Question(
        id="example-CVE",
        media_id="example-image-CVE",
        text="What is the ejection fraction?",
        options=(),
        answer="57.5",
        answer_kind="number",
        unit="%",
        patient_id="example-patient-CVE",
        facets={"task": "CVE", "scenario": "CVE 18", "dataset": "18", "anatomy": "heart", "sex": "F", "age": "50-59"},
    ),
    _report("RG", "39", "Write the findings.", "The liver is of normal size and even in texture.", "liver"),
    _report(
        "CG",
        "10",
        "Describe the image in one sentence.",
        "A plane of the abdomen of a fetal phantom.",
        "fetal abdomen",
        phantom="yes",
    ),
)
