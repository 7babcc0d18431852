"""The forms in which people bring their own data, each with the arguments of `prepare` and new rows to predict."""

import csv
import io
import json
import shutil
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import openpyxl
import PIL.Image
import pydicom
from pydicom.dataset import FileDataset, FileMetaDataset
from pydicom.uid import UID, ExplicitVRLittleEndian, generate_uid

from medtune.data.media.volumes.formats.nifti import write_nifti
from tests.data.media.volumes.synthetic_volumes import series
from tests.trainer.experiment.test_videos_and_scans import write_video

PATIENTS, EACH = 6, 2
NAMES = [f"us_{number:03d}.png" for number in range(PATIENTS * EACH)]
NEW = ["new_0.png", "new_1.png"]
UNKNOWN = "new_images_without_answers.csv"
"""The table that asks the class of the pictures of another table, labels_0_1.csv."""
VIDEO = ("nano_busi_lora", "model.name=nano_pocket_video")
CT = ("nano_ct_lora",)


@dataclass(frozen=True)
class Form:
    """A form of own data."""

    name: str
    write: Callable[[Path], Sequence[str]]  # Writes the data into a folder and returns the arguments of `prepare`.
    new: str = "image\nnew_0.png\nnew_1.png\n"  # The table of new rows.
    num_new: int = 2  # The number of questions about the new rows.
    predict: Sequence[str] = ()  # More arguments of `predict`.
    recipe: Sequence[str] = field(default=("nano_busi_lora",))  # The recipe, and its settings.


def picture(path: Path, seed: int) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    grey_HW = np.random.default_rng(seed).integers(0, 256, (24, 32), dtype=np.uint8)
    PIL.Image.fromarray(grey_HW).save(path)
    return path


def patient(number: int) -> str:
    return f"P{number // EACH}"


def _rows(header: str, row: Callable[[int, str], Iterable[object]], *, comma: str = ",") -> str:
    written = io.StringIO()
    table = csv.writer(written, delimiter=comma, lineterminator="\n")
    table.writerow(header.split(","))
    table.writerows([*row(number, name)] for number, name in enumerate(NAMES))
    return written.getvalue()


def table(
    name: str,
    header: str,
    row: Callable[[int, str], Iterable[object]],
    *arguments: str,
    file: str = "data.csv",
    encoding: str = "utf-8",
    comma: str = ",",
    new: str = "image\nnew_0.png\nnew_1.png\n",
    num_new: int = 2,
    predict: Sequence[str] = (),
) -> Form:
    """Returns the form of a text table with a row for each picture."""

    def write(folder: Path) -> Sequence[str]:
        _pictures(folder)
        (folder / file).write_bytes(_rows(header, row, comma=comma).encode(encoding))
        return ["--from", str(folder / file), *arguments]

    return Form(name, write, new, num_new, predict)


def case(path: Path) -> Form:
    """Returns the form of one of the tables that once failed, with pictures under the names that it has."""

    def write(folder: Path) -> Sequence[str]:
        text = path.read_text("utf-8")
        comma = ";" if ";" in text.partition("\n")[0] else ","
        for number, name in enumerate(
            dict.fromkeys(row[0] for row in [*csv.reader(text.splitlines(), delimiter=comma)][1:])
        ):
            picture(folder / name, number)
        shutil.copy(path, folder / "data.csv")
        more = {"multi_label": ["--labels", "answer"]}.get(path.stem, [])
        return ["--from", str(folder / "data.csv"), *more]

    if path.stem == "labels_0_1":
        unknown = (path.parent / UNKNOWN).read_text("utf-8")
        return Form(path.stem, write, unknown, unknown.count("\n") - 1, ("--columns", "question="))
    return Form(path.stem, write, num_new=8 if path.stem == "multi_label" else 2)


def _pictures(folder: Path) -> None:
    for number, name in enumerate(NAMES):
        picture(folder / name, number)


def _xlsx(folder: Path) -> Sequence[str]:
    _pictures(folder)
    book = openpyxl.Workbook()
    sheet = book.create_sheet("Liste", 0)
    sheet.append(["Bilddatei", "Etikett", "Patient"])
    for number, name in enumerate(NAMES):
        sheet.append([name, ("gesund", "krank")[number % 2], number // EACH])
    book.save(folder / "liste.xlsx")
    return ["--from", str(folder / "liste.xlsx")]


def _folders(place: str, *arguments: str) -> Callable[[Path], Sequence[str]]:
    def write(folder: Path) -> Sequence[str]:
        for number, name in enumerate(NAMES):
            label = ("benign", "malignant")[number % 2]
            picture(folder / "raw" / place.format(label=label, patient=patient(number), name=name), number)
        return ["--from", str(folder / "raw"), *arguments]

    return write


def _jsonl(folder: Path) -> Sequence[str]:
    _pictures(folder)
    rows = [
        {
            "image": name,
            "question": "Which organ is shown?",
            "options": ["liver", "kidney"],
            "answer": number % 2,
            "patient_id": patient(number),
            "task": "organ",
        }
        for number, name in enumerate(NAMES)
    ]
    (folder / "data.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return ["--from", str(folder / "data.jsonl")]


def _ms_swift(folder: Path) -> Sequence[str]:
    _pictures(folder)
    rows = [
        {
            "messages": [
                {"role": "user", "content": "<image>What is seen?"},
                {"role": "assistant", "content": f"an echo of size {number % 3}"},
            ],
            "images": [name],
            "patient_id": patient(number),
        }
        for number, name in enumerate(NAMES)
    ]
    (folder / "train.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return ["--from", str(folder)]


def _llava(folder: Path) -> Sequence[str]:
    _pictures(folder)
    rows = [
        {
            "id": str(number),
            "image": name,
            "patient": patient(number),
            "conversations": [
                {"from": "human", "value": "<image>\nWhat is seen?"},
                {"from": "gpt", "value": f"echo {number % 3}"},
                {"from": "human", "value": "Is it large?"},
                {"from": "gpt", "value": ("yes", "no")[number % 2]},
            ],
        }
        for number, name in enumerate(NAMES)
    ]
    (folder / "llava.json").write_text(json.dumps(rows))
    return ["--from", str(folder / "llava.json")]


def _dicom(folder: Path) -> Sequence[str]:
    for number, name in enumerate([*NAMES, *NEW]):
        pixels_HW = np.random.default_rng(number).integers(0, 4096, (24, 32), dtype=np.uint16)
        meta = FileMetaDataset()
        meta.TransferSyntaxUID, meta.MediaStorageSOPClassUID = ExplicitVRLittleEndian, UID("1.2.840.10008.5.1.4.1.1.7")
        meta.MediaStorageSOPInstanceUID = generate_uid()
        made = FileDataset("", {}, file_meta=meta, preamble=b"\0" * 128)
        made.SOPClassUID, made.SOPInstanceUID = meta.MediaStorageSOPClassUID, meta.MediaStorageSOPInstanceUID
        made.Rows, made.Columns, made.SamplesPerPixel = 24, 32, 1
        made.BitsAllocated, made.BitsStored, made.HighBit, made.PixelRepresentation = 16, 12, 11, 0
        made.PhotometricInterpretation, made.PixelData = "MONOCHROME2", pixels_HW.tobytes()
        pydicom.dcmwrite(folder / name.replace(".png", ".dcm"), made, enforce_file_format=True)
    text = _rows(
        "image,label,patient", lambda n, name: (name.replace("png", "dcm"), ("low", "high")[n % 2], patient(n))
    )
    (folder / "data.csv").write_text(text)
    return ["--from", str(folder / "data.csv")]


def _video(folder: Path) -> Sequence[str]:
    for seed, name in enumerate((*NAMES, *NEW)):
        write_video(folder / name.replace("png", "mp4"), 2.0, seed)
    text = _rows(
        "video,start_s,end_s,question,answer,patient",
        lambda n, name: (
            name.replace("png", "mp4"),
            0,
            1.5 + n / 50,
            "Does it move?",
            ("yes", "no")[n % 2],
            patient(n),
        ),
    )
    (folder / "data.csv").write_text(text)
    return ["--from", str(folder / "data.csv")]


def _ct(folder: Path) -> Sequence[str]:
    def scan(seed: int) -> np.ndarray:
        return np.random.default_rng(seed).integers(-1000, 1000, (16, 16, 12)).astype(np.int16)

    lines = ["volume,question,answer,patient"]
    for number in range(10):
        if number % 2:
            series(folder / f"series_{number}", scan(number))
        else:
            write_nifti(folder / f"ct_{number}.nii.gz", scan(number), np.diag([2.0, 2, 5, 1]))
        place = f"series_{number}" if number % 2 else f"ct_{number}.nii.gz"
        lines.append(f"{place},Is there a cyst?,{('yes', 'no')[number // 2 % 2]},P{number}")
    write_nifti(folder / "new.nii.gz", scan(99), np.diag([2.0, 2, 5, 1]))
    (folder / "data.csv").write_text("\n".join(lines) + "\n")
    return ["--from", str(folder / "data.csv")]


YES_NO = ("yes", "no")
FINDINGS = ("cyst; shadow", "none", "shadow", "cyst")
FORMS = (
    table("labels", "filename,label,patient_id", lambda n, name: (name, ("healthy", "ill")[n % 2], patient(n))),
    table(
        "labels_renamed", "image,label,patient", lambda n, name: (name, n % 2, patient(n)), "--answers", "0=no", "1=yes"
    ),
    table(
        "one_hot",
        "image,patient,cyst,shadow,mass",
        lambda n, name: (name, patient(n), n % 2, -1 if n == 3 else n % 3 == 0, n // 2 % 2),
        "--labels",
        "cyst",
        "shadow",
        "mass",
        num_new=6,
    ),
    table(
        "labels_at_once",
        "image,patient,cyst,shadow",
        lambda n, name: (name, patient(n), n % 2, n // 2 % 2),
        "--labels",
        "cyst",
        "shadow",
        "--ask-labels",
        "one",
    ),
    table(
        "list_of_labels",
        "image,patient,findings",
        lambda n, name: (name, patient(n), FINDINGS[n % 4]),
        "--labels",
        "findings",
        num_new=4,
    ),
    Form("class_folders", _folders("{label}/{patient}_{name}", "--patient", "(P[0-9]+)_"), new="", num_new=2),
    Form("class_and_patient_folders", _folders("{label}/{patient}/{name}")),
    table(
        "options_in_a_cell",
        "image,question,options,answer,patient",
        lambda n, name: (
            name,
            "Which organ is shown?",
            ("liver|kidney|spleen", "liver; kidney; spleen")[n % 2],
            ("liver", "kidney")[n % 2],
            patient(n),
        ),
    ),
    table(
        "index_answers",
        "image,question,A,B,C,answer,patient",
        lambda n, name: (name, "Which organ is shown?", "liver", "kidney", "spleen", n % 3, patient(n)),
    ),
    table(
        "truth_values",
        "image,question,answer,patient",
        lambda n, name: (name, "Is a cyst visible?", ("TRUE", "FALSE")[n % 2], patient(n)),
    ),
    table(
        "numbers",
        "image,question,answer,unit,patient",
        lambda n, name: (name, "How wide is the duct?", n + 1.5, "mm", patient(n)),
    ),
    table(
        "measurements",
        "image,question,answer,unit,tolerance,patient",
        lambda n, name: (name, "How wide is the duct?", n + 1.5, "mm", "1 mm", patient(n)),
    ),
    table(
        "free_text",
        "image,question,answer,patient",
        lambda n, name: (name, "What is seen?", f"a round shadow of size {n % 4} behind a stone", patient(n)),
    ),
    table(
        "reports",
        "image,report,patient",
        lambda n, name: (name, f"Normal size, {n % 3} cysts seen.", patient(n)),
        "--question",
        "Write the report.",
        "--columns",
        "answer=report",
    ),
    table(
        "several_images",
        "image_1,image_2,question,answer,patient",
        lambda n, name: (
            name,
            NAMES[n - 1 if n % 2 else n + 1],
            "Which one is later?",
            ("first", "second")[n % 2],
            patient(n),
        ),
        "--options",
        "first",
        "second",
        new="image_1,image_2\nnew_0.png,new_1.png\n",
        num_new=1,
    ),
    Form("video", _video, "video\nnew_0.mp4\nnew_1.mp4\n", recipe=VIDEO),
    Form("ct", _ct, "volume\nnew.nii.gz\n", num_new=1, recipe=CT),
    Form("dicom", _dicom, "image\nnew_0.dcm\nnew_1.dcm\n"),
    Form("xlsx", _xlsx, "Bilddatei\nnew_0.png\nnew_1.png\n"),
    table(
        "cp1252",
        "Bild,Frage,Antwort,Patient",
        lambda n, name: (name, "Ist eine Läsion zu sehen?", ("ja", "nein")[n % 2], patient(n)),
        encoding="cp1252",
        comma=";",
    ),
    table(
        "utf16",
        "image,question,answer,patient",
        lambda n, name: (name, "Is a cyst visible?", YES_NO[n % 2], patient(n)),
        file="data.tsv",
        encoding="utf-16",
        comma="\t",
    ),
    Form("jsonl", _jsonl),
    Form("ms_swift", _ms_swift),
    Form("llava", _llava, "image,question\nnew_0.png,What is seen?\nnew_1.png,Is it large?\n"),
    table("patients_in_names", "image,label", lambda n, name: (name, "ab"[n % 2]), "--patient", r"us_0(\d\d)"),
    table(
        "chinese",
        "图像,问题,答案,患者",
        lambda n, name: (name, "有囊肿吗？", "是否"[n % 2], patient(n)),
        new="图像\nnew_0.png\nnew_1.png\n",
    ),
)
