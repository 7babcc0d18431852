"""Small synthetic releases in the three layouts of IU X-Ray."""

import json
from pathlib import Path

import numpy as np
import PIL.Image

from medtune.benchmarks.iu_xray.sources import releases


def write_iu_xray(folder: Path) -> None:
    """Writes twelve studies of two drawn images; two test reports stand in train, and one of them twice in test."""
    reports = (*(f"The heart is of size {number}. The lungs are clear." for number in range(8)),)
    chosen = {"train": (0, 1, 2, 3, 0, 4), "val": (5, 0), "test": (6, 0, 0, 7)}
    parts: dict[str, list[dict[str, object]]] = {}
    draw, number = np.random.default_rng(0), 100
    for split, texts in chosen.items():
        for text in texts:
            number += 1
            name = f"CXR{number}_IM-{number:04}"
            paths = [f"{name}/{view}.png" for view in range(2)]
            for path in paths:
                (folder / "images" / name).mkdir(parents=True, exist_ok=True)
                grey_HW = draw.integers(0, 256, (32, 28), dtype=np.uint8)
                PIL.Image.fromarray(grey_HW).save(folder / "images" / path)
            row: dict[str, object] = {"id": name, "report": reports[text], "image_path": paths, "split": split}
            parts.setdefault(split, []).append(row)
    (folder / releases.ANNOTATION).write_text(json.dumps(parts), "utf-8")


def write_iu_xray_medevalkit(folder: Path) -> None:
    """Writes five studies of two to four drawn images."""
    (folder / "images").mkdir(parents=True)
    draw, rows = np.random.default_rng(1), []
    for number, views in enumerate((2, 2, 3, 4, 2), start=1101):
        names = [f"CXR{number}_IM-{number:04}-{1 + view}001.png" for view in range(views)]
        for name in names:
            PIL.Image.fromarray(draw.integers(0, 256, (32, 28), dtype=np.uint8)).save(folder / "images" / name)
        findings, impression = f"The heart is of size {number}. The lungs are clear.", "No acute disease."
        rows.append({"id": f"open_i_{number}", "image": names, "findings": findings, "impression": impression})
    (folder / releases.TEST).write_text(json.dumps(rows), "utf-8")


def write_iu_xray_open_i(folder: Path) -> None:
    """Writes ten studies of two drawn images, one report without images, and one without findings and impression."""
    reports = folder / releases._REPORTS[0]
    reports.mkdir(parents=True)
    (folder / releases._IMAGES).mkdir()
    draw = np.random.default_rng(2)
    for number in range(2101, 2113):
        names = [f"CXR{number}_IM-{number:04}-{view}001" for view in (1, 2)] if number != 2111 else []
        for name in names:
            grey_HW = draw.integers(0, 256, (32, 28), dtype=np.uint8)
            PIL.Image.fromarray(grey_HW).save(folder / releases._IMAGES / f"{name}.png")
        findings = f"The heart is of size {number}. The lungs are clear." if number != 2112 else ""
        impression = "No acute disease." if number % 2 and findings else ""
        term = "normal" if number % 3 else "Cardiomegaly/mild"
        (reports / f"{number - 2100}.xml").write_text(
            f'<eCitation><uId id="CXR{number}"/><MedlineCitation><Article><Abstract>'
            f'<AbstractText Label="FINDINGS">{findings}</AbstractText>'
            f'<AbstractText Label="IMPRESSION">{impression}</AbstractText>'
            f"</Abstract></Article></MedlineCitation><MeSH><major>{term}</major></MeSH>"
            + "".join(f'<parentImage id="{name}"/>' for name in names)
            + "</eCitation>",
            "utf-8",
        )
