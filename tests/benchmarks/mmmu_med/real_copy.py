"""Makes a copy of MMMU's medical validation part: real options and answers, invented questions and images.

The real files hold neither the texts of the questions nor the images.
"""

import json
from pathlib import Path

import numpy as np

from medtune.benchmarks.mmmu_med.sources.mmmu_med import SUBJECTS
from tests.examples.mmmu_med import IMAGE_COLUMNS, drawn_png, write_rows

MODELS = ("llava1.5_13b", "qwen_vl")


def real_replies(real: Path, model: str, subject: str) -> list[dict[str, object]]:
    """Returns the rows of a model's result file for a subject."""
    rows: list[dict[str, object]] = json.loads((real / "mmmu_med" / model / f"{subject}.json").read_text("utf-8"))
    return rows


def write_copy(real: Path, folder: Path) -> None:
    """Writes the five Parquet files of the validation part with 150 rows."""
    draw = np.random.default_rng(0)
    for subject in SUBJECTS:
        rows: list[dict[str, object]] = []
        for number, reply in enumerate(real_replies(real, MODELS[0], subject), start=1):
            listed = reply.get("index2ans")
            options = list(listed.values()) if isinstance(listed, dict) else []
            row: dict[str, object] = {"id": reply["id"], "question": f"<image 1> What does picture {number} show?"}
            row |= {"options": repr(options), "explanation": "", "img_type": "['Photographs']"}
            row["answer"] = reply["answer"]
            row |= {"topic_difficulty": "Medium", "question_type": "multiple-choice" if options else "open"}
            row |= {name: drawn_png(draw) if name == IMAGE_COLUMNS[0] else None for name in IMAGE_COLUMNS}
            rows.append(row)
        write_rows(folder / subject / "validation-00000-of-00001.parquet", rows)
