"""U2-Bench: the released tables, a folder for each of eight tasks, with images inside of the cells.

    disease_diagnosis/23.tsv            any file name that says the data set: its number, or a name such as BUSI
    lesion_localisation/04_DDTI.tsv     "4" and "04" are one; knee grades and views are told apart by their task
    an_explanation_of_the_columns.tsv   and other tables outside of the eight folders are not read

Columns are known by several spellings, as the release and its two evaluation kits disagree: see `COLUMNS`. An image
cell is base64, or the index of the row whose image it shares. Everything is test, whatever the column "split" says.

Source: DolphinAI/u2-bench (an_explanation_of_the_columns.tsv, README.md); dolphin-sound/u2-bench-evalkit,
vlmeval/eval_func and vlmeval/dataset; gurenolun/Dolphin-ai-bench; U2-Bench, arXiv 2505.17779.
"""

import base64
import binascii
import csv
import hashlib
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from medtune.benchmarks.u2_bench import tasks_and_sets as released
from medtune.benchmarks.u2_bench.sources.u2_bench import parse_cells
from medtune.data.media.masks import LOCATIONS, size_of_share
from medtune.data.raw.folder import raw_folder
from medtune.data.raw.source import Reject, RowError, Source, SourceTable
from medtune.data.types import MediaRef, Question

_BREAST = "Is the lesion in this ultrasound image of the breast benign or malignant?"
_ASKED: Mapping[tuple[str, str], str] = {
    ("DD", "21"): _BREAST,
    ("DD", "23"): "Is this breast normal, or does it have a benign or a malignant lesion?",
    ("DD", "25"): "Is the lesion in this ultrasound image of the skin benign or malignant?",
    ("DD", "28_1"): "How severe is the osteoarthritis (OA) of this knee?",
    ("DD", "32"): "Is the nodule in this ultrasound image of the thyroid benign or malignant?",
    ("DD", "40"): "Which BI-RADS category does the lesion in this ultrasound image of the breast have?",
    ("DD", "42"): "Does this ultrasound image show cancer of the pancreas or another finding?",
    ("DD", "44"): "How severe are the changes of this lung, from 0 (none) to 3 (most severe)?",
    ("DD", "57"): "Is this liver fatty? 1 says that it is, 0 that it is not.",
    ("DD", "66"): _BREAST,
    ("DD", "70"): "Is this thyroid normal, or does it have a benign or a malignant nodule?",
    ("DD", "74is_normal"): "Do the organs in this ultrasound image of the pelvis appear normal or abnormal?",
    ("DD", "75"): "Does this ultrasound image of the ovary show polycystic ovary syndrome ('infected') or not?",
    ("VRA", "03"): "What does this image of an obstetric examination show?",
    ("VRA", "10"): "Is the fetus's head down (hd) or up (hu), and is it seen from its back (vb) or its front (vf)?",
    ("VRA", "18"): "Is this apical view of the heart a two-chamber (2CH) or a four-chamber view (4CH)?",
    ("VRA", "28"): "Which view of which knee is this?",
    ("VRA", "37"): "In which plane is the thyroid shown?",
    ("VRA", "50"): "Is this plane fit for measuring the fetal abdominal circumference: optimal, suboptimal or none?",
    ("VRA", "53"): "Which of fetal head and pubic symphysis does this frame show?",
    ("VRA", "69"): "Which carotid artery is this?",
    ("VRA", "74is_visible"): "Is a polycystic ovary visible?",
    ("VRA", "anatomy"): "Which part of the body does this ultrasound image show?",
    ("CVE", "18"): "What is the ejection fraction of the left ventricle?",
    ("CVE", "27"): "How thick are intima and media of this carotid artery?",
    ("CVE", "31"): "How long is the circumference of the fetal head?",
    ("CVE", "50"): "How long is the circumference of the fetal abdomen?",
    ("CVE", "57"): "What share of this liver is fat?",
}

COLUMNS: Mapping[str, tuple[str, ...]] = {
    "index": ("index", "id"),
    "image": ("img_data", "image", "img", "image_data"),
    "patient": ("patient_id", "patient"),
    "anatomy": ("anatomy_location", "anatomy"),
    "options": ("options", "option"),
    "label": ("class_label", "classes", "class", "label"),
    "box": ("gt_bbox", "bbox"),
    "keypoints": ("keypoints", "keypoint"),
    "structure": ("seg_channel_name",),
    "value": ("measurement", "measurements"),
    "pixel_size_mm": ("pixelsizemm", "pixel_size_mm", "pixel size(mm)", "pixel_size"),
    "report": ("gt_report", "report", "caption"),
    "caption": ("caption", "gt_report", "report"),
    "dataset": ("dataset_name", "dataset"),
    "split": ("split",),
    "demographic": ("demographic", "demographics"),
}
"""The spellings of each column by our name of it; the first of them whose cell is filled counts."""
_LONGEST_INDEX = 64
_LARGEST_CELL = 1 << 30


def question_text(task: str, dataset: str, *, structure: str | None, anatomy: str | None) -> str:
    """Returns the text of a question; structure and anatomy (the organ shown) are None where the table names none."""
    if (task, dataset) in _ASKED:
        return _ASKED[task, dataset]
    of_organ = f" of the {anatomy}" if anatomy else ""
    if task in ("LL", "OD", "KD"):
        sought = structure or ("lesion" if task == "LL" else anatomy or "organ")
        return f"Where in this ultrasound image{of_organ} is the {sought}?"
    asked = "Write the findings of" if task == "RG" else "Describe in one sentence"
    return f"{asked} this ultrasound image{of_organ}."


def source() -> Source:
    return Source(
        title="U2-Bench",
        licence="CC-BY-NC-ND-4.0",
        url="https://huggingface.co/datasets/DolphinAI/u2-bench",
        provenance="released",
        patient_unit="the column patient_id within a source data set; without it one image stands for one patient",
        test_only=True,
        read=_read,
    )


@dataclass(frozen=True, slots=True)
class _TableRow:
    """One row of a table, without its image and masks."""

    file: str  # The table's path relative to the folder.
    line: int  # The number of the row's last line in the file.
    task: str  # The task, for example "DD".
    dataset: str  # The id of the data set.
    cells: Mapping[str, str]  # The cells by the table's own column names, in small letters.

    def column(self, name: str) -> str | None:
        there = [spelling for spelling in COLUMNS[name] if spelling in self.cells]
        return next((spelling for spelling in there if self.cells[spelling].strip()), there[0] if there else None)

    def get(self, name: str) -> str:
        column = self.column(name)
        return self.cells[column].strip() if column else ""

    def error(self, name: str, message: str) -> RowError:
        return RowError(Reject(self.file, self.line, self.column(name) or COLUMNS[name][0], message))


@dataclass(slots=True)
class _Reader:
    scratch: Path
    questions: list[Question] = field(default_factory=list)
    rows: list[str] = field(default_factory=list)  # For each question the row of its set, as the kit names it.
    media: dict[str, tuple[MediaRef, ...]] = field(default_factory=dict)
    rejects: list[Reject] = field(default_factory=list)
    splits: Counter[str] = field(default_factory=Counter)
    units: set[str] = field(default_factory=set)
    unscored: Counter[str] = field(default_factory=Counter)

    def read_file(self, folder: Path, file: Path, task: str) -> None:
        images: dict[str, str] = {}
        waiting: list[tuple[_TableRow, str, str]] = []
        for number, (line, found) in enumerate(_cells(file)):
            dataset = released.set_of_name(task, file.stem) or _by_column(task, found)
            if dataset is None:
                self.unscored[f"{task} {file.stem}"] += 1
                continue
            image = next((found.pop(name) for name in COLUMNS["image"] if found.get(name)), "").strip()
            found.pop("seg_data", None)
            row = _TableRow(str(file.relative_to(folder)), line, task, dataset, found)
            self.splits[row.get("split").lower() or "no split"] += 1
            own = _index(row.get("index")) or str(number)
            if len(image) <= _LONGEST_INDEX:
                waiting.append((row, own, image))
                continue
            try:
                digest = self._stored(row, image)
            except RowError as error:
                self.rejects.append(error.reject)
                continue
            images[own] = digest
            self._add(row, own, digest)
        for row, own, index in waiting:
            if _index(index) in images:
                self._add(row, own, images[_index(index)])
            else:
                said = f"wanted an image in base64, or the index of a row that has one, got {index!r}"
                self.rejects.append(row.error("image", said).reject)

    def _stored(self, row: _TableRow, image: str) -> str:
        try:
            content = base64.b64decode(image.partition(",")[2] if image.startswith("data:") else image, validate=True)
        except (binascii.Error, ValueError):
            raise row.error("image", "wanted an image in base64, this is none") from None
        digest = hashlib.sha256(content).hexdigest()
        (self.scratch / digest).write_bytes(content)
        return digest

    def _add(self, row: _TableRow, index: str, digest: str) -> None:
        number = released.number_of_set(row.dataset)
        patient = row.get("patient")
        is_known = not parse_cells.is_nothing(patient)
        patient = f"{number} {patient}" if is_known else f"image {digest}"
        media_id = f"{patient} {digest}"
        try:
            self.questions.append(_question(row, media_id, patient))
        except RowError as error:
            self.rejects.append(error.reject)
        else:
            self.media[media_id] = (MediaRef(self.scratch / digest),)
            self.units.add("patient" if is_known else "image")
            self.rows.append(row_id(row.task, row.dataset, index))

    def named_questions(self) -> list[Question]:
        """Returns the questions, named as the kit names rows where a set has one row of the name."""
        times = Counter(self.rows)
        pairs = zip(self.questions, self.rows, strict=True)
        return [replace(question, id=name) if times[name] == 1 else question for question, name in pairs]


def _read(root: Path | None, seed: int, scratch: Path) -> SourceTable:
    folder = raw_folder(root, holds="U2-Bench's eight folders with .tsv files")
    reader = _Reader(scratch)
    files = [(file, _task(folder, file)) for file in sorted(folder.rglob("*.tsv"))]
    for file, task in files:
        if task is not None:
            reader.read_file(folder, file, task)
    if not any(task for _, task in files):
        raise ValueError(f"{folder}: wanted .tsv files in folders such as disease_diagnosis, found none.")
    notes = [f"{count} rows of {name}, which the benchmark does not score" for name, count in reader.unscored.items()]
    if set(reader.splits) - {"test"}:
        said = ", ".join(f"{name} {count}" for name, count in sorted(reader.splits.items()))
        notes.append(f"the column 'split' is not followed, as the benchmark is for evaluation alone: {said}")
    unit = " or ".join(sorted(reader.units))
    return SourceTable(
        reader.named_questions(),
        reader.media,
        tuple(notes),
        tuple(reader.rejects),
        stands_for_patient=unit or "patient",
    )


def _task(folder: Path, file: Path) -> str | None:
    parts = (*file.relative_to(folder).parts[:-1], file.stem)
    return next((task for part in reversed(parts) if (task := released.task_of_folder(part))), None)


def _cells(file: Path) -> Iterator[tuple[int, dict[str, str]]]:
    csv.field_size_limit(_LARGEST_CELL)
    with file.open(encoding="utf-8-sig", newline="") as opened:
        reader = csv.reader(opened, delimiter="\t")
        try:
            names = [name.strip().lower() for name in next(reader, [])]
            for row in reader:
                yield reader.line_num, dict(zip(names, row, strict=False))
        except (csv.Error, UnicodeDecodeError) as error:
            raise ValueError(f"{file}: not a table of UTF-8 text ({error}). Download it again.") from error


def _by_column(task: str, found: Mapping[str, str]) -> str | None:
    said = next((found[name] for name in COLUMNS["dataset"] if found.get(name)), "")
    return released.set_of_name(task, said)


def row_id(task: str, dataset: str, index: str) -> str:
    """Returns the id of the question that a row of a set's table asks, by its index there or its number from 0."""
    return f"{task} {dataset} {_index(index)}"


def _index(cell: str) -> str:
    return cell.strip().removesuffix(".0")


def _question(row: _TableRow, media_id: str, patient: str) -> Question:
    task, dataset = row.task, row.dataset
    organ = (
        None
        if parse_cells.is_nothing(row.get("anatomy"))
        else parse_cells.label(row.get("anatomy")).replace("_", " ").lower()
    )
    structure, share, unit, text_more = None, None, None, ""
    options: tuple[str, ...] = ()
    if task in released.CLASSIFICATION:
        options, answer = _classes(row)
    elif task in released.DETECTION:
        options = LOCATIONS
        structure, answer, share = _place(row)
    elif task == released.VALUE:
        answer, unit, text_more = _value(row)
    else:
        name = "report" if row.task == "RG" else "caption"
        if parse_cells.is_nothing(row.get(name)):
            raise row.error(name, "wanted a text, the cell is empty")
        answer = row.get(name)
    facets = {"task": task, "scenario": f"{task} {dataset}", "dataset": dataset}
    if structure:
        facets["structure"] = structure
    if share is not None:
        facets["box_size"] = size_of_share(share)
    if phantom := released.phantom(dataset):
        facets["phantom"] = phantom
    # In this data set the organ is the answer, so it must not be a facet.
    if organ and dataset != released.ANATOMY:
        facets["anatomy"] = organ
    facets |= parse_cells.facets(row.get("demographic"))
    asked_about = organ if dataset != released.ANATOMY else None
    return Question(
        id=f"{row.file} {row.line}",
        media_id=media_id,
        text=question_text(task, dataset, structure=structure, anatomy=asked_about) + text_more,
        options=options,
        answer=answer,
        answer_kind="choice" if options else "number" if task == released.VALUE else "text",
        patient_id=patient,
        facets=facets,
        unit=unit,
        printed=_prompt_cells(row),
    )


def _classes(row: _TableRow) -> tuple[tuple[str, ...], str]:
    own = parse_cells.options(row.get("options"))
    options = own if len(set(own)) == len(own) > 1 else released.OPTIONS[row.task, row.dataset]
    said = parse_cells.label(row.get("label"))
    alike = [option for option in options if option.casefold() == said.casefold()]
    if not alike:
        raise row.error("label", f"{said!r} is not among the options {list(options)}")
    return options, alike[0]


def _place(row: _TableRow) -> parse_cells.StructurePlace:
    ordered = ("keypoints", "box") if row.task == "KD" else ("box", "keypoints")
    name = next((name for name in ordered if not parse_cells.is_nothing(row.get(name))), ordered[0])
    try:
        found = parse_cells.place(row.get(name))
    except ValueError as error:
        raise row.error(name, str(error)) from None
    named = found.structure or next((part for part in parse_cells.options(row.get("structure"))), None)
    share = found.share if name == "box" else None
    return parse_cells.StructurePlace(named.replace("_", " ") if named else None, found.position, share)


def _prompt_cells(row: _TableRow) -> dict[str, str]:
    found = {}
    wanted = {"anatomy_location": "anatomy"} if row.dataset != released.ANATOMY else {}
    if row.task in released.DETECTION:
        wanted["seg_channel_name"] = "structure"
    for gap, name in wanted.items():
        if column := row.column(name):
            found[gap] = parse_cells.printed(row.cells[column])
    keypoints = row.column("keypoints") if row.task == "KD" else None
    keypoint = parse_cells.printed_keypoint(row.cells[keypoints]) if keypoints else None
    return found | {"kp": keypoint} if keypoint else found


def _value(row: _TableRow) -> tuple[str, str | None, str]:
    cell = row.get("value")
    try:
        value = parse_cells.value(cell, row.dataset)
    except ValueError as error:
        raise row.error("value", str(error)) from None
    size = parse_cells.pixel_size_mm(cell) or parse_cells.pixel_size_mm(f'{{"pixel": "{row.get("pixel_size_mm")}"}}')
    more = f" One pixel is {size:g} mm wide and high." if size else ""
    return f"{value:.12g}", released.UNITS.get(row.dataset), more
