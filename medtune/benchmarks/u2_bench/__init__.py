"""U2-Bench: diagnosis, views, positions, values, reports and captions of ultrasound images, in one score.

Source: arXiv 2505.17779; its code: dolphin-sound/u2-bench-evalkit, gurenolun/Dolphin-ai-bench. The prompts are ours.

Reads the replies that the benchmark's own kit writes: JSON lines with `id` and `response`, for one set at a time. `id`
is the index of a row in the set's released table, or its number from 0 where the table has no indices.

Source: dolphin-sound/u2-bench-evalkit, vlmeval/silicon_test/batch_test.py and vlmeval/eval_func/cla_eval.py (names of
fields, and what `id` names).
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from medtune.benchmarks import example
from medtune.benchmarks.u2_bench.metrics import METRICS, judge_task, missing, reply_score
from medtune.benchmarks.u2_bench.official.prompts import official_prompts
from medtune.benchmarks.u2_bench.parsers import parse, parse_extracted, parse_lenient, parse_strict
from medtune.benchmarks.u2_bench.published_tables import published_tables
from medtune.benchmarks.u2_bench.sources.u2_bench import row_id
from medtune.benchmarks.u2_bench.tables import references, repeat_tables, tables
from medtune.data.json_text import json_value
from medtune.data.media.augment import ALL_CHANGES, NO_CHANGES, Change
from medtune.data.media.masks import LOCATIONS
from medtune.data.types import AnswerFormat, Prompt, Question
from medtune.eval.asking.answerer import AnswerProtocol
from medtune.eval.asking.choice_prompt import render_choice
from medtune.eval.benchmark import Benchmark
from medtune.eval.predictions.tool_files import ToolRow, ToolRows, cell_text, utf8_text

_GREY: frozenset[Change] = frozenset({"grey"})
_STILL: frozenset[Change] = frozenset({"mirror", "grey"})
_TASKS: Mapping[str, frozenset[Change]] = {
    "DD": ALL_CHANGES, "VRA": ALL_CHANGES, "LL": _GREY, "OD": _GREY, "KD": _GREY, "RG": _GREY, "CG": _GREY,
}  # fmt: skip
_SETS: Mapping[tuple[str, str], frozenset[Change]] = {
    # These questions ask how the fetus lies, or on which side a carotid artery or knee is.
    ("VRA", "10"): _GREY,
    ("VRA", "28"): _GREY,
    ("VRA", "69"): _GREY,
    # Echocardiographic views have a fixed orientation.
    ("VRA", "18"): frozenset({"move", "grey"}),
    # If a view is cut or a landmark leaves the image, the answer changes.
    ("VRA", "50"): _STILL,
    ("VRA", "53"): _STILL,
    # The amount of fat is judged by the grey values.
    ("DD", "57"): frozenset({"mirror", "move"}),
    # Lengths do not change if nothing is scaled.
    ("CVE", "27"): _STILL,
    ("CVE", "31"): _STILL,
    ("CVE", "50"): _STILL,
}

_ROLE = "You are a physician who reads ultrasound images."
_REPLY = "response"
_BOX, _PATIENT = {"box_size": "large", "scanner": "Voluson E6"}, {"sex": "F", "age": "50-59"}
_LEVELS, _CUT, _PLANE = ("benign", "normal", "malignant"), ("4CH", "2CH"), "A plane of the abdomen of a fetal phantom."
_EXAMPLES = tuple(
    example(
        task, text, answer, *options, kind=kind, unit="%" if kind == "number" else None,
        task=task, scenario=f"{task} {dataset}", dataset=dataset, anatomy=anatomy, **facets,
    )
    for task, dataset, anatomy, text, answer, options, kind, facets in (
        ("DD", "23", "breast", "What is the diagnosis?", "malignant", _LEVELS, "choice", {}),
        ("VRA", "18", "heart", "Which view of the heart is this?", "2CH", _CUT, "choice", {}),
        ("LL", "04", "thyroid", "Where is the lesion?", "upper right", LOCATIONS, "choice", {}),
        ("OD", "31", "fetal head", "Where is the head?", "center", LOCATIONS, "choice", _BOX),
        ("KD", "48", "heart", "Where is the mitral valve's middle?", "not visible", LOCATIONS, "choice", {}),
        ("CVE", "18", "heart", "What is the ejection fraction?", "57.5", (), "number", _PATIENT),
        ("RG", "39", "liver", "Write the findings.", "The liver is of normal size and even texture.", (), "text", {}),
        ("CG", "10", "fetal abdomen", "Describe the image in one sentence.", _PLANE, (), "text", {"phantom": "yes"}),
    )
)  # fmt: skip


def allowed_changes(question: Question) -> frozenset[Change]:
    """Returns the changes that the question's scenario (task and data set) allows.

    `medtune.data.media.augment` further excludes the changes that the words of a question forbid.
    """
    task, dataset = question.facets["task"], question.facets["dataset"]
    return _SETS.get((task, dataset), _TASKS.get(task, NO_CHANGES))


def render(question: Question, answer_format: AnswerFormat) -> Prompt:
    """Returns the prompt: role and question, then the options, or the form of an answer with a number or a text."""
    task = f"{_ROLE}\n{question.text}"
    if question.options:
        return render_choice(replace(question, text=task), answer_format)
    if question.answer_kind == "number":
        unit = f" in {question.unit}" if question.unit else ""
        how = f"Answer with one number{unit}, without a unit and without words."
    else:
        how = "Answer with the text alone."
    return Prompt(text=f"{task}\n{how}", choices=(), target=question.answer)


def render_with_anatomy(question: Question, answer_format: AnswerFormat) -> Prompt:
    """Returns the same prompt with a line after the role that names the organ, if the question states one."""
    organ = question.facets.get("anatomy")
    named = f"The ultrasound image shows: {organ}.\n{question.text}" if organ else question.text
    return render(replace(question, text=named), answer_format)


def result_rows(path: Path, questions: Sequence[Question]) -> ToolRows | None:
    """Returns the rows of a file of replies to one set; None for another file."""
    if path.suffix != ".jsonl" or not path.is_file():
        return None
    lines = [line for line in utf8_text(path).split("\n") if line.strip()]
    if not lines or f'"{_REPLY}"' not in lines[0]:
        return None
    sets = sorted({(question.facets["task"], question.facets["dataset"]) for question in questions})
    if len(sets) > 1:
        task, dataset = sets[0]
        raise ValueError(
            f"{path}: the file does not say which set its replies answer. Give the set, such as --only task={task} "
            f"dataset={dataset}."
        )
    return ToolRows([_row(line, *sets[0], f"{path}, line {number}") for number, line in enumerate(lines, start=1)], {})


def _row(line: str, task: str, dataset: str, where: str) -> ToolRow:
    try:
        said = json_value(line)
    except ValueError as error:
        raise ValueError(f"{where}: broken or cut-off JSON. Copy the file again.") from error
    if not isinstance(said, dict) or _REPLY not in said or "id" not in said:
        raise ValueError(f"{where}: wanted an object with id and {_REPLY}, got {line:.80}.")
    fields = {name: cell_text(value) for name, value in said.items() if not isinstance(value, list | dict)}
    return ToolRow(fields | {"id": row_id(task, dataset, fields["id"])}, (fields[_REPLY],), (), where)


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
        published_tables=published_tables,
        allowed_changes=allowed_changes,
        judging=judge_task(),
        official=official_prompts(),
        missing=missing,
        reply_score=reply_score,
        result_rows=result_rows,
        # Comparing texts is slow, so the bench scores no more predictions than the benchmark has cases.
        protocol=AnswerProtocol(
            0.7,
            repeats=1,
            max_new_tokens=800,
            source="arXiv 2505.17779, appendix C.2; the passes of the anatomy ablation: section 5",
            condition_repeats={"with_anatomy": 5, "without_anatomy": 5},
        ),
    )
