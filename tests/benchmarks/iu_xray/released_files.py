"""Writes annotation.json and test.json as they were released: the real ids in their order, with invented reports."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

NEW_TEXTS = 82
"""The number of different texts among the test reports that stand in train, so that 192 repeat another test report."""


def splits(shared_real: Path) -> dict[str, Any]:
    """Returns the ids of R2Gen's parts, and MedEvalKit's studies with their image names."""
    found: dict[str, Any] = json.loads((shared_real / "iu_xray_ids" / "splits.json").read_text("utf-8"))
    return found


def annotation(shared_real: Path) -> dict[str, list[dict[str, object]]]:
    """Returns R2Gen's annotation.json, whose test reports stand in train where the real ones do."""
    said = json.loads((shared_real / "iu_xray_ids" / "verbatim_in_train.json").read_text("utf-8"))
    (in_train,) = said.values()
    parts: dict[str, list[dict[str, object]]] = {}
    number = 0
    for split, ids in splits(shared_real)["r2gen_split"].items():
        for study in ids:
            number += 1
            text = f"Invented report number {number}. The lungs are clear."
            if study in in_train:
                text = f"Invented report number {1 + in_train.index(study) % NEW_TEXTS}. The lungs are clear."
            paths = [f"{study}/0.png", f"{study}/1.png"]
            row = {"id": study, "report": text, "image_path": paths, "split": split}
            parts.setdefault(split, []).append(row)
    return parts


def medevalkit(shared_real: Path) -> list[dict[str, object]]:
    """Returns MedEvalKit's test.json."""
    return [
        {"id": row["id"], "image": row["image"], "findings": f"Invented findings {n}.", "impression": f"Invented {n}."}
        for n, row in enumerate(splits(shared_real)["medevalkit_test"])
    ]


def written(folder: Path, name: str, content: Mapping[str, object] | Sequence[object]) -> Path:
    """Returns the folder after writing a JSON file into it."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / name).write_text(json.dumps(content), "utf-8")
    return folder
