"""Writes a small copy of MMMU's medical subjects, with invented questions and drawn images in Parquet, for tests."""

import io
import json
from pathlib import Path

import numpy as np
import PIL.Image
import pyarrow as pa
import pyarrow.parquet as pq
import yaml

from medtune.benchmarks.mmmu_med.sources.mmmu_med import SUBJECTS, TEST_ANSWERS, Part

IMAGE_COLUMNS = tuple(f"image_{number}" for number in range(1, 8))
_ROWS: tuple[tuple[str, list[str], str, int], ...] = (
    ("<image 1> Which organ is shown?", ["liver", "spleen", "kidney"], "B", 1),
    ("Does <image 1> show the same as <image 2>?", ["yes", "no"], "A", 2),
    ("Which picture shows a stone?", ["<image 1>", "<image 2>", "neither of them", "both"], "D", 2),
    ("How many marks are in <image 1>?", [], "2", 1),
    ("<image 1> Which letter marks the duct?", [], "C", 1),
)
_IMAGE = pa.struct([("bytes", pa.binary()), ("path", pa.string())])


def write_rows(file: Path, rows: list[dict[str, object]]) -> None:
    """Writes rows in MMMU's columns as a Parquet file; an image is its content as bytes, or None."""
    cells = [
        {name: {"bytes": value, "path": None} if isinstance(value, bytes) else value for name, value in row.items()}
        for row in rows
    ]
    images = [(name, _IMAGE) for name in IMAGE_COLUMNS]
    texts = [(name, pa.string()) for name in rows[0] if name not in IMAGE_COLUMNS]
    table = pa.Table.from_pylist(cells, schema=pa.schema([*texts, *images]))
    features = {name: {"_type": "Image"} for name in IMAGE_COLUMNS}
    features |= {name: {"dtype": "string", "_type": "Value"} for name, _ in texts}
    file.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(table.replace_schema_metadata({"huggingface": json.dumps({"info": {"features": features}})}), file)


def drawn_png(draw: np.random.Generator) -> bytes:
    """Returns a small image of noise as the bytes of a PNG file."""
    content = io.BytesIO()
    PIL.Image.fromarray(draw.integers(0, 256, (32, 40, 3), dtype=np.uint8)).save(content, "PNG")
    return content.getvalue()


def write(part: Part, folder: Path) -> None:
    draw, answers = np.random.default_rng(0), {}
    for subject in SUBJECTS:
        rows = []
        for number, (question, options, answer, images) in enumerate(_ROWS, start=1):
            kind = "multiple-choice" if options else "open"
            row: dict[str, object] = {"id": f"{part}_{subject}_{number}", "question": question, "options": str(options)}
            row |= {"explanation": "", "img_type": "['Drawings']", "topic_difficulty": "Easy", "question_type": kind}
            row |= {"subfield": "Invented", "answer": answer if part == "validation" else "?"}
            row |= {name: drawn_png(draw) if place < images else None for place, name in enumerate(IMAGE_COLUMNS)}
            rows.append(row)
            answers[row["id"]] = {"question_type": kind, "ground_truth": answer}
        write_rows(folder / subject / f"{part}-00000-of-00001.parquet", rows)
    # The card of the data set names its configurations, by which a copy is read like the hub's own.
    configs = [
        {"config_name": subject, "data_files": [{"split": part, "path": f"{subject}/{part}-*"}]} for subject in SUBJECTS
    ]
    (folder / "README.md").write_text(f"---\n{yaml.safe_dump({'configs': configs})}---\n", "utf-8")
    if part == "test":
        (folder / TEST_ANSWERS).write_text(json.dumps(answers, indent=1), "utf-8")
