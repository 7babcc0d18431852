"""Writes a small synthetic U2-Bench release for tests: all eight tasks, in the different spellings of its columns."""

import base64
import csv
import io
import json
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import PIL.Image

from medtune.benchmarks.u2_bench.tasks_and_sets import OPTIONS


def write(root: Path) -> None:
    """Writes a table of six patients for each data set of the example; their images are grey noise."""
    rng = np.random.default_rng(0)
    _write(root / "disease_diagnosis" / "23.tsv", [_class_row(rng, "DD", "23", n, "class_label") for n in range(6)])
    _write(root / "disease_diagnosis" / "28.tsv", [_class_row(rng, "DD", "28_1", n, "class") for n in range(6)])
    _write(root / "disease_diagnosis" / "44.tsv", [_class_row(rng, "DD", "44", n, "classes") for n in range(4)])
    _write(
        root / "view_recognition_and_assessment" / "28_class.tsv",
        [_class_row(rng, "VRA", "28", n, "classes") for n in range(6)],
    )
    _write(root / "lesion_localisation" / "4.tsv", [_box_row(rng, n, "gt_bbox", "nodule") for n in range(6)])
    _write(root / "organ_detection" / "31_HC18.tsv", [_box_row(rng, n, "gt_bbox", "fetal_head") for n in range(6)])
    _write(root / "keypoint_detection" / "48.tsv", [_box_row(rng, n, "keypoints", "mv-inner") for n in range(6)])
    values = [_row(rng, n) | {"measurement": json.dumps({"EF": 40.5 + n})} for n in range(6)]
    _write(root / "clinical_value_estimation" / "18.tsv", values)
    reports = [_row(rng, n) | {"report": f"The liver of case {n} is even."} for n in range(6)]
    _write(root / "report_generation" / "39.tsv", reports)
    captions = [_row(rng, n) | {"caption": f"A phantom in plane {n}."} for n in range(6)]
    _write(root / "caption_generation" / "10.tsv", captions)
    (root / "an_explanation_of_the_columns.tsv").write_text("column\tmeaning\nimg_data\tan image\n", "utf-8")


def image_cell(rng: np.random.Generator) -> str:
    """Returns an image of grey noise as the base64 text of a PNG file."""
    buffer = io.BytesIO()
    PIL.Image.fromarray(rng.integers(0, 256, (24, 32), dtype=np.uint8)).save(buffer, "PNG")
    return base64.b64encode(buffer.getvalue()).decode()


def _row(rng: np.random.Generator, number: int) -> dict[str, str]:
    return {"img_data": image_cell(rng), "anatomy_location": "organ", "patient_id": f"volunteer{number}"}


def _class_row(rng: np.random.Generator, task: str, dataset: str, number: int, column: str) -> dict[str, str]:
    options = OPTIONS[task, dataset]
    return _row(rng, number) | {column: options[number % len(options)], "options": str(list(options)), "split": "test"}


def _box_row(rng: np.random.Generator, number: int, column: str, structure: str) -> dict[str, str]:
    point = [0.1 + 0.15 * number, 0.5]
    return _row(rng, number) | {column: json.dumps({structure: point if column == "keypoints" else [*point, 0.2, 0.2]})}


def _write(file: Path, rows: Sequence[Mapping[str, str]]) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    with file.open("w", encoding="utf-8", newline="") as opened:
        writer = csv.DictWriter(opened, fieldnames=list(rows[0]), delimiter="\t")
        writer.writeheader()
        writer.writerows(rows)
