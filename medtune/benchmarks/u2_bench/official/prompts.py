"""U2-Bench's official prompts, and how those in plain text are read from its evaluation kit or from its paper.

The kit holds cla_prompt.json and mea_prompt.json. Its prompts for places, captions and reports are code (`build_prompt`
in image_seg.py and image_report.py), which is read where it lies beside them (`kit_code`). A folder with the paper's
prompts holds index.json, with a list "prompts" of objects with file, task, dataset_id and options, and the text files
that it names. The paper
prints only the beginning of the ablation's prompts; the rest is taken to be the official prompt after its role.

Source: dolphin-sound/u2-bench-evalkit, vlmeval/dataset; U2-Bench (arXiv 2505.17779), Appendix D.
"""

from collections.abc import Iterable, Mapping
from pathlib import Path

from medtune.benchmarks.u2_bench.official.kit_code import prompts_in_code
from medtune.benchmarks.u2_bench.tasks_and_sets import CLASSIFICATION, DETECTION, TASKS, TEXT, VALUE
from medtune.data.files import json_file
from medtune.data.types import Question
from medtune.eval.asking.official_prompts import OfficialPrompts

_KIT = ("cla_prompt.json", "mea_prompt.json")
_KIT_CODE: Mapping[str, tuple[str, ...]] = {"image_seg.py": DETECTION, "image_report.py": TEXT}
_CODE_GAPS = ("anatomy", "seg_channel_name", "kp")
# The names that the kit gives to two sets with the same number.
_KIT_KEYS = {("DD", "28_1"): "28", ("VRA", "28"): "28_class"}
# A prompt that the paper prints without the number of a set is for several sets, which its options identify. An option
# in brackets is not in all of these sets.
_BY_OPTIONS: Mapping[tuple[str, ...], tuple[str, ...]] = {
    ("(normal)", "benign", "malignant"): ("DD 21", "DD 23", "DD 66"),
    ("(normal thyroid)", "benign", "malignant"): ("DD 32", "DD 70"),
    ("Appears abnormal", "Appears normal"): ("DD 74is_normal",),
    ("Not-visible", "Visible"): ("VRA 74is_visible",),
}
_BY_FIRST_OPTION = {"fetal": ("VRA anatomy",), "left anterior suprapatellar longitudinal": ("VRA 28",)}
_WITH_ANATOMY, _WITHOUT_ANATOMY = "stem with anatomy", "stem without anatomy"
_STEM_LABELS = {"With anatomy:": _WITH_ANATOMY, "No anatomy:": _WITHOUT_ANATOMY}
_TEXT_SETS = {"CG": ("CG 10", "CG 44"), "RG": ("RG 39",)}


def official_prompts() -> OfficialPrompts:
    return OfficialPrompts(
        names=dict.fromkeys(
            (*(f"{task} {each}" for task, sets in TASKS.items() for each in sets), *_STEM_LABELS.values()), ()
        ),
        scenario=scenario,
        gaps=_gaps,
        answer_format="text",
        from_texts=read,
        stems={"with_anatomy": (_WITH_ANATOMY, _WITHOUT_ANATOMY), "without_anatomy": (_WITHOUT_ANATOMY,)},
    )


def scenario(question: Question) -> str:
    """Returns the task and the data set of a question, e.g. "DD 23"."""
    return f"{question.facets['task']} {question.facets['dataset']}"


def read(folder: Path) -> Mapping[str, str]:
    for place in (folder, folder / "vlmeval" / "dataset"):
        if (place / _KIT[0]).is_file():
            return _kit(place)
    if (folder / "index.json").is_file():
        return _paper(folder)
    raise FileNotFoundError(
        f"{folder}: wanted {' and '.join(_KIT)} of U2-Bench's evaluation kit (vlmeval/dataset), or index.json with the "
        "paper's prompts; check --from"
    )


def _kit(folder: Path) -> Mapping[str, str]:
    classes, values = (_json(folder / name) for name in _KIT)
    found = {}
    for task in (*CLASSIFICATION, VALUE):
        for dataset in TASKS[task]:
            prompts = values if task == VALUE else classes
            text = prompts.get(_KIT_KEYS.get((task, dataset), dataset))
            if isinstance(text, str):
                found[f"{task} {dataset}"] = text
    for name, tasks in _KIT_CODE.items():
        if (folder / name).is_file():
            scenarios = [(task, dataset) for task in tasks for dataset in TASKS[task]]
            texts = prompts_in_code(folder / name, [dataset for _, dataset in scenarios], gaps=_CODE_GAPS)
            found |= {f"{task} {dataset}": texts[dataset] for task, dataset in scenarios}
    return {key: text for key, text in found.items() if text}


def _paper(folder: Path) -> Mapping[str, str]:
    listed = _json(folder / "index.json").get("prompts")
    if not isinstance(listed, list):
        raise ValueError(f"{folder / 'index.json'}: wanted an object with a list 'prompts'.")
    found: dict[str, str] = {}
    for entry in listed:
        if entry.get("kind") == "ablation" and (folder / entry["file"]).is_file():
            found |= _stems(folder / entry["file"])
        if entry.get("kind") != "appendix_d":
            continue
        text = (folder / entry["file"]).read_text("utf-8").strip()
        found |= dict.fromkeys(_paper_scenarios(entry), text)
    return found


def _stems(path: Path) -> Mapping[str, str]:
    lines = path.read_text("utf-8").splitlines()
    found = {
        name: line.removeprefix(label).strip().removesuffix("...").replace("{anatomy}", "{organ}")
        for line in lines
        for label, name in _STEM_LABELS.items()
        if line.startswith(label)
    }
    if len(found) < len(_STEM_LABELS):
        raise ValueError(f"{path}: wanted lines that begin with {' and '.join(_STEM_LABELS)}. Copy it again.")
    return found


def _paper_scenarios(entry: Mapping[str, object]) -> Iterable[str]:
    task, dataset = str(entry["task"]), entry.get("dataset_id")
    options = entry.get("options")
    shown = tuple(map(str, options)) if isinstance(options, list) else ()
    if shown in _BY_OPTIONS:
        return _BY_OPTIONS[shown]
    if shown and shown[0] in _BY_FIRST_OPTION:
        return _BY_FIRST_OPTION[shown[0]]
    if task in _TEXT_SETS:
        return _TEXT_SETS[task]
    # A printed prompt for a place names one organ and has no gap for another, so it is not used for other sets.
    if dataset is None or task in DETECTION:
        return ()
    return (f"{task} {'28_1' if (task, dataset) == ('DD', '28') else dataset}",)


def _gaps(question: Question) -> Mapping[str, str | None]:
    facets, printed = question.facets, question.printed
    organ = printed.get("anatomy_location") or facets.get("anatomy")
    return {
        "organ": facets.get("anatomy"),
        "anatomy": organ,
        "anatomy_location": organ,
        "seg_channel_name": printed.get("seg_channel_name") or facets.get("structure"),
        "kp": printed.get("kp"),
        # The kit never fills this gap of the prompt for set 31 (HC18), and sends it as it stands.
        "pixelSizeMm": "{pixelSizeMm}",
    }


def _json(path: Path) -> dict[str, object]:
    return json_file(path, dict, "a JSON object of prompts", todo="Copy it from the benchmark.")
