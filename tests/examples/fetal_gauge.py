"""A small synthetic table with Fetal-Gauge's columns, which the source `table` reads."""

import json
from pathlib import Path

import numpy as np
import PIL.Image

from medtune.data.types import SPLITS


def write_fetal_gauge(root: Path) -> None:
    """Writes questions of all five tasks about twelve patients, with images of grey noise and a stated split."""
    answers = {
        "plane_identification": ("head plane", "abdomen plane", "femur plane", "heart plane"),
        "view_completeness": ("complete", "incomplete"),
        "fetal_orientation": ("hdvb", "hdvf", "huvb", "huvf"),
        "clinical_diagnosis": ("normal", "benign", "malignant"),
        "visual_grounding": ("head", "abdomen", "stomach bubble", "spine"),
    }
    (root / "images").mkdir(parents=True, exist_ok=True)
    rng, rows = np.random.default_rng(0), []
    for patient in range(12):
        image = f"images/scan{patient:02d}.png"
        grey_HW = rng.integers(0, 256, size=(48, 64), dtype=np.uint8)
        PIL.Image.fromarray(grey_HW).save(root / image)
        for number, (task, options) in enumerate(answers.items()):
            row: dict[str, object] = {
                "id": f"q{patient:02d}{number}",
                "image": image,
                "prompt": f"What is the answer in {task.replace('_', ' ')}?",
                "options": options,
                "answer": options[(patient + number) % len(options)],
                "task": task,
                "split": SPLITS[patient % 3],
                "patient": f"volunteer{patient:02d}",
                "phantom": "yes" if patient % 2 == 0 else "no",
            }
            if task == "visual_grounding":
                row |= {"boxes": [[5, 5, 15 + patient, 20]], "box_size": ("small", "medium")[patient % 2]}
            rows.append(json.dumps(row))
    (root / "questions.jsonl").write_text("\n".join(rows) + "\n", "utf-8")
