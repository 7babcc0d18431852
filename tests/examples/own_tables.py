"""Small synthetic folders and tables in the layouts that the benchmark vqa reads."""

import io
import json
from pathlib import Path

import numpy as np
import PIL.Image

from medtune.benchmarks.vqa.sources.chat_formats import INFO


def write_table(folder: Path) -> None:
    """Writes a table with questions of every kind about 24 drawn images of 12 patients."""
    (folder / "pictures").mkdir(parents=True, exist_ok=True)
    lines = ["image,question,A,B,C,answer,unit,patient,ward"]
    for number in range(24):
        draw = np.random.default_rng(number)
        grey_HW = draw.integers(0, 256, (24, 32), dtype=np.uint8)
        PIL.Image.fromarray(grey_HW).save(folder / "pictures" / f"us_{number:02}.png")
        start = f"pictures/us_{number:02}.png"
        end = f"patient_{number // 2:02},{'east' if number % 3 else 'west'}"
        lines.append(f"{start},Which organ is shown?,liver,spleen,kidney,{'ABC'[number % 3]},,{end}")
        lines.append(f"{start},Is a cyst visible?,,,,{'yes' if number % 2 else 'No'},,{end}")
        lines.append(f"{start},How wide is it?,,,,{number + 1}.5,mm,{end}")
        lines.append(f"{start},What is seen?,,,,an echo of size {number % 4},,{end}")
    (folder / "data.csv").write_text("\n".join(lines) + "\n", encoding="utf-8")


def write_image_folder(folder: Path) -> None:
    """Writes eight drawn images for each of three classes."""
    for number in range(24):
        of_class = folder / ("normal", "benign", "malignant")[number % 3]
        of_class.mkdir(parents=True, exist_ok=True)
        grey_HW = np.random.default_rng(number).integers(0, 256, (24, 32), dtype=np.uint8)
        PIL.Image.fromarray(grey_HW).save(of_class / f"us_{number:02}.png")


def write_hf(folder: Path) -> None:
    """Writes a saved data set with train and test about 16 drawn images, which stand in it as bytes."""
    import datasets

    def part(first: int) -> datasets.Dataset:
        numbers = range(first, first + 8)
        columns = {
            "image": [{"bytes": _png(number), "path": None} for number in numbers],
            "question": [f"Which organ is shown, number {number}?" for number in numbers],
            "options": [["liver", "spleen", "kidney"] for _ in numbers],
            "answer": ["ABC"[number % 3] for number in numbers],
            "patient_id": [f"patient_{number:02}" for number in numbers],
        }
        features = {
            "image": datasets.Image(),
            "options": datasets.List(datasets.Value("string")),
            **{name: datasets.Value("string") for name in ("question", "answer", "patient_id")},
        }
        return datasets.Dataset.from_dict(columns, features=datasets.Features(features))

    datasets.DatasetDict(train=part(0), test=part(8)).save_to_disk(folder)


def _png(number: int) -> bytes:
    grey_HW = np.random.default_rng(number).integers(0, 256, (24, 32), dtype=np.uint8)
    stored = io.BytesIO()
    PIL.Image.fromarray(grey_HW).save(stored, "PNG")
    return stored.getvalue()


def write_llama_factory(folder: Path) -> None:
    """Writes a ShareGPT data set and an Alpaca one about eight pictures, with changed and with default column names."""
    (folder / "images").mkdir(parents=True, exist_ok=True)
    for number in range(8):
        grey_HW = np.random.default_rng(number).integers(0, 256, (24, 32), dtype=np.uint8)
        PIL.Image.fromarray(grey_HW).save(folder / "images" / f"us_{number}.png")
    shared = [
        {
            "messages": [
                {"role": "user", "content": f"<image>Which organ is shown, number {number}?"},
                {"role": "assistant", "content": f"organ {number % 3}"},
            ],
            "pictures": [f"images/us_{number}.png"],
        }
        for number in range(8)
    ]
    alpaca = [
        {
            "instruction": f"<image>Describe plane {number}.",
            "input": "In one word.",
            "output": f"plane {number % 2}",
            "images": [f"images/us_{number}.png"],
        }
        for number in range(8)
    ]
    (folder / "shared.json").write_text(json.dumps(shared), "utf-8")
    (folder / "alpaca.jsonl").write_text("\n".join(map(json.dumps, alpaca)), "utf-8")
    tags = {"role_tag": "role", "content_tag": "content", "user_tag": "user", "assistant_tag": "assistant"}
    info = {
        "organs": {
            "file_name": "shared.json",
            "formatting": "sharegpt",
            "columns": {"messages": "messages", "images": "pictures"},
            "tags": tags,
        },
        "planes": {"file_name": "alpaca.jsonl"},
        "elsewhere": {"hf_hub_url": "someone/something"},
    }
    (folder / INFO).write_text(json.dumps(info), "utf-8")


def write_ms_swift(folder: Path) -> None:
    """Writes twelve rows about eight pictures in both forms (messages, query and response), and one with two turns."""
    (folder / "images").mkdir(parents=True, exist_ok=True)
    rows: list[dict[str, object]] = []
    for number in range(12):
        image = f"images/us_{number % 8}.png"
        grey_HW = np.random.default_rng(number % 8).integers(0, 256, (24, 32), dtype=np.uint8)
        PIL.Image.fromarray(grey_HW).save(folder / image)
        asked, answer = f"<image>Which organ is shown, number {number}?", f"organ {number % 3}"
        if number % 2:
            rows.append({"query": asked, "response": answer, "images": [image]})
        else:
            turns = [{"role": "user", "content": asked}, {"role": "assistant", "content": answer}]
            rows.append({"messages": [{"role": "system", "content": "Answer briefly."}, *turns], "images": [image]})
    more = [{"role": "user", "content": "Is it enlarged?"}, {"role": "assistant", "content": "no"}]
    rows.append({"messages": [*turns, *more], "images": [image]})
    (folder / "data.jsonl").write_text("\n".join(map(json.dumps, rows)) + "\n", "utf-8")
