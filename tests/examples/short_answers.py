"""Small synthetic releases of SLAKE, PathVQA and VQA-RAD."""

import json
from pathlib import Path

from medtune.benchmarks import path_vqa, slake
from medtune.benchmarks.vqa_rad import PAIR
from medtune.data.types import Split
from tests.examples.drawn_images import write_drawn_images


def write_slake(folder: Path) -> None:
    """Writes a release of 14 invented images with English and Chinese questions.

    As in the release, a language's questions about one image are in one split, and the languages are split differently.
    """
    names = [f"xmlab{number}/pic.jpg" for number in range(14)]
    write_drawn_images(folder / slake.IMAGES, names)
    rows: dict[Split, list[dict[str, object]]] = {split: [] for _, split in slake.FILES}
    for number, name in enumerate(names):
        is_square = number % 2 == 1
        english = [("Is a square shown?", "Yes" if is_square else "No", "CLOSED")]
        english += [("Which shape is shown?", "Square" if is_square else "Disc", "OPEN")]
        chinese = [("图中有正方形吗?", "有" if is_square else "没有", "CLOSED")]
        chinese += [("图中是什么形状?", "正方形" if is_square else "圆形", "OPEN")]
        for language, listed, split in (("en", english, _part(number)), ("zh", chinese, _part(number + 1))):
            rows[split] += [
                {
                    "img_id": number, "img_name": name, "question": text, "answer": answer, "q_lang": language,
                    "location": "Brain_Tissue", "modality": "MRI", "answer_type": kind, "base_type": "vqa",
                    "content_type": "Shape", "triple": ["vhead", "_", "_"], "qid": 100 * number + place,
                }
                for place, (text, answer, kind) in enumerate(listed)
            ]  # fmt: skip
    for files, split in slake.FILES:
        (folder / files[0]).write_text(json.dumps(rows[split], ensure_ascii=False), "utf-8")


def _part(number: int) -> Split:
    place = number % 7
    return "test" if place in (0, 1) else "val" if place in (2, 3) else "train"


def write_path_vqa(folder: Path) -> None:
    """Writes a release of 14 invented images."""
    for start, (name, _) in zip((0, 8, 11), path_vqa.FILES, strict=True):
        part = name.removeprefix("pvqa_").removesuffix(".json")
        number_of = range(start, {0: 8, 8: 11, 11: 14}[start])
        ids = [f"{part}_{number:04}" for number in number_of]
        write_drawn_images(folder / path_vqa.IMAGES / part, [f"{each}{path_vqa.SUFFIX}" for each in ids], first=start)
        rows = []
        for number, image in zip(number_of, ids, strict=True):
            shape = "square" if number % 2 else "disc"
            texts = ["What is shown?", "Is a square shown?", "Where is the shape?"]
            answers = [shape, "yes" if number % 2 else "no", "in the dark "]
            rows.append(
                {
                    "img_id": image,
                    "sentf": {path_vqa.KEY: texts},
                    "labelf": {path_vqa.KEY: [{each: 1} for each in answers]},
                }
            )
        (folder / name).write_text(json.dumps(rows), "utf-8")


def write_vqa_rad(folder: Path) -> None:
    """Writes a release of 14 invented images in the layout of two files; its test questions share images with train."""
    write_drawn_images(folder / "images", [f"synpic{number}.jpg" for number in range(14)])
    rows: dict[str, list[dict[str, object]]] = {name: [] for name, _ in PAIR}
    for number in range(14):
        said: list[tuple[str, object, str, str]] = [
            ("Is a square shown?", "Yes" if number % 2 else "no", "CLOSED", "PRES")
        ]
        said.append(("Which shape is shown?", "square \t" if number % 2 else "disc", "OPEN", "ATRIB, POS"))
        said.append(("How many shapes are shown?", 1, "OPEN", "COUNT"))
        said.append(("Is it a square or a disc?", "Square" if number % 2 else "Disc", "CLOSED ", "ORGAN"))
        for place, (text, answer, kind, types) in enumerate(said):
            split = PAIR[number % 5 == 0 and place < 2][0]
            rows[split].append(
                {
                    "qid": 4 * number + place,
                    "image_name": f"synpic{number}.jpg",
                    "image_organ": ("HEAD", "CHEST", "ABD")[number % 3],
                    "answer": answer,
                    "answer_type": kind,
                    "question_type": types,
                    "question": text,
                    "phrase_type": "freeform" if split == PAIR[0][0] else "test_freeform",
                }
            )
    for name, listed in rows.items():
        (folder / name).write_text(json.dumps(listed), "utf-8")
