"""CTLesionVQA (DeepTumorVQA) v1 and v2: the released tables of questions, with the scans of AbdomenAtlas.

    *.csv, *.parquet, *.json, *.jsonl       tables of questions: here, or in benchmark, train or data
    .../BDMAP_00000001/ct.nii.gz            scans in any folder, three levels down at most
    .../BDMAP_00000001/segmentations/*      masks beside them, or under the same name elsewhere (image_only, mask_only)
    .../videos/whole/BDMAP_00000001.mp4     optional: version 2's clip of a scan, shown where the scan is missing
    .../images_2d/whole/BDMAP_00000001.png  optional: its single slice, shown where scan and clip are missing
    .../BDMAP_00000001.npz                  optional: CT-CHAT's encoding of a scan, in any folder, or ct.npz beside it
    AbdomenAtlas3.0MiniWithMeta.csv         optional: size of the largest lesion by organ; sex, age, scanner, phase
    metadata/*.csv                          optional: the same of version 2

A row holds both formats and becomes two questions; each keeps the cells that the official prompts of version 2 print.
The splits are the release's; the "validation" split of version 1 is its test split.

Source: arXiv 2505.18915 (v1) and 2605.09679 (v2); Schuture/DeepTumorVQA, branches v1 (README.md) and v2 (HF_README.md).
"""

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path, PurePath
from sys import intern

from medtune.benchmarks.ctlesionvqa.sources.ctlesionvqa import tables
from medtune.benchmarks.ctlesionvqa.sources.ctlesionvqa.kit_results import row_id
from medtune.benchmarks.ctlesionvqa.sources.ctlesionvqa.released_pictures import MODES, find_pictures
from medtune.benchmarks.ctlesionvqa.sources.ctlesionvqa.scan_facts import PATIENT_CELLS, LesionSizes, Scans
from medtune.benchmarks.ctlesionvqa.sources.ctlesionvqa.tables import INPUT_MODE, cell, question_files, read_rows
from medtune.benchmarks.ctlesionvqa.subtypes import V2_TABLES, answer_type, category, subtype
from medtune.benchmarks.facets import age_decade, phase, scanner, sex
from medtune.data.media.volumes.formats.abdomen_atlas import Case, find_cases
from medtune.data.raw.folder import raw_folder
from medtune.data.raw.lettered_options import options_layout
from medtune.data.raw.rows import Row
from medtune.data.raw.source import Missing, Reject, RowError, Source, SourceTable
from medtune.data.types import AnswerKind, MediaRef, Question, Split

# The masks that a model may be shown: the organs that questions are about. Masks of lesions would reveal the answers.
ORGANS = ("colon", "kidney_left", "kidney_right", "liver", "pancreas", "spleen")
ATLAS = "https://huggingface.co/datasets/AbdomenAtlas/AbdomenAtlas3.0Mini"
_SPLITS: Mapping[str, Split] = {"train": "train", "val": "val", "validation": "val", "test": "test", "bench": "test"}
_FORMATS = {"free_text": "question", "multi_choice": "mc_question"}
_YES_NO = ("Yes", "No")
_AGE = re.compile(r"\d+(\.\d+)?")


def printed_cells(row: Row, column: str) -> dict[str, str]:
    """Returns the cells that fill the gaps of a prompt, by gap; empty cells are left out.

    The result is empty for a row that is not of version 2. The entry "layout" is the text of `column` with gaps in
    place of question and options. Spacing and shape are given only for questions that ask for a number.

    Source: Schuture/DeepTumorVQA@1df7460 (branch v2), src/deeptumorvqa/data/prompt.py.
    """
    if "qid" not in row.values and PurePath(row.place.file).stem not in V2_TABLES:
        return {}
    asked = str(row.values[column])
    bare = asked.strip()
    found = {"layout": options_layout(asked) if column == "mc_question" else asked.replace(bare, "{question}")}
    found |= {name: _untouched_cell(row, name) for name in PATIENT_CELLS}
    if answer_type(cell(row, "question_subtype")) == "numeric" and (spacing := _untouched_cell(row, "spacing")):
        found |= {"spacing": spacing, "shape": str(row.values.get("shape"))}
    return {name: intern(said) for name, said in found.items() if said is not None}


def _untouched_cell(row: Row, name: str) -> str | None:
    value = row.values.get(name)
    return str(value) if value else None


def source() -> Source:
    return Source(
        title="CTLesionVQA (DeepTumorVQA)",
        licence="v1 CC BY-NC-ND 4.0, v2 CC BY 4.0; scans as AbdomenAtlas states",
        url="https://github.com/Schuture/DeepTumorVQA",
        provenance="released",
        patient_unit="the scan: the release does not say which scans are one patient's",
        read=_read,
        read_questions=partial(_read, needs_media=False),
    )


@dataclass(slots=True)
class _Reader:
    """Collects the questions, media and rejects while the tables are read.

    To save memory, equal facets, printed cells and lists of options are stored once and shared by questions.
    """

    root: Path
    needs_media: bool  # Whether a question whose scan is not in the folder is rejected.
    cases: Mapping[str, Case]  # The files of each scan, by the scan's name.
    # The released clip or slice of each scan, by the scan's name; shown only if the scan is missing.
    pictures: Mapping[str, MediaRef]
    sizes: LesionSizes  # The sizes of the largest lesions.
    scans: Scans
    qids: Counter[str]  # The number of rows with each qid, which version 2 gives its rows.
    questions: list[Question] = field(default_factory=list)
    # The scans that questions ask about, by media id.
    media: dict[str, tuple[MediaRef, ...]] = field(default_factory=dict)
    rejects: list[Reject] = field(default_factory=list)  # The rows that could not be used.
    missing: dict[str, Missing] = field(default_factory=dict)  # The scans that are not in the folder, by name.
    # Each combination of facets; 800,000 questions have a few ten thousand combinations.
    facets: dict[tuple[tuple[str, str], ...], dict[str, str]] = field(default_factory=dict)
    # Each combination of the cells that official prompts print.
    printed: dict[tuple[tuple[str, str], ...], dict[str, str]] = field(default_factory=dict)
    options: dict[tuple[str, ...], tuple[str, ...]] = field(default_factory=dict)
    unknown: Counter[str] = field(default_factory=Counter)

    def read(self, row: Row, split: Split | None) -> None:
        formats = [name for name, column in _FORMATS.items() if cell(row, column)]
        if not formats:
            self.rejects.append(row.place.error("wanted a question, the row has none", field="question").reject)
        facets = self._facets(row) if formats else {}
        for name in formats:
            try:
                self.questions.append(self._question(row, name, facets, split))
            except RowError as error:
                self.rejects.append(error.reject)

    def _question(self, row: Row, kind: str, facets: dict[str, str], split: Split | None) -> Question:
        scan = intern(cell(row, "image_id"))
        if scan not in self.media:
            self.media[scan] = (self._media(row, scan),)
        asked = subtype(cell(row, "question_subtype"))
        if not asked:
            raise row.place.error("wanted a subtype, the cell is empty", field="question_subtype")
        text, options, answer, unit = cell(row, "question"), tuple[str, ...](), cell(row, "answer"), None
        answer_kind: AnswerKind = "text"
        if kind == "multi_choice":
            answer_kind = "choice"
            text, options, answer = tables.choice(row)
        elif not answer:
            raise row.place.error("wanted an answer, the cell is empty", field="answer")
        elif answer.lower() in ("yes", "no"):
            answer_kind, options, answer = "yes_no", _YES_NO, answer.capitalize()
        elif answer_type(asked) == "numeric":
            answer_kind = "number"
            _, answer, unit = tables.number(row)
        known, cells = facets | {"format": kind}, printed_cells(row, _FORMATS[kind])
        if (mode := MODES.get(self.media[scan][0].kind)) is not None:
            cells = {**cells, INPUT_MODE: mode}
        return Question(
            id=self._id(row, kind),
            media_id=scan,
            text=intern(text),
            options=self.options.setdefault(options, options),
            answer=intern(answer),
            answer_kind=answer_kind,
            patient_id=scan,
            facets=self.facets.setdefault(tuple(known.items()), known),
            unit=unit,
            split=split,
            printed=self.printed.setdefault(tuple(cells.items()), cells),
        )

    def _id(self, row: Row, kind: str) -> str:
        qid = cell(row, "qid")
        return row_id(qid, kind) if qid and self.qids[qid] == 1 else f"{row.place.file} {row.place.row} {kind}"

    def _media(self, row: Row, scan: str) -> MediaRef:
        case = self.cases.get(scan)
        if case is None and scan in self.pictures:
            return self.pictures[scan]
        if case is None:
            if not re.fullmatch(r"\w+", scan):
                raise row.place.error("wanted a scan's name", field="image_id")
            if not self.needs_media:
                return MediaRef(self.root / scan / "ct.nii.gz", kind="volume")
            self.missing.setdefault(scan, Missing(f"{scan}/ct.nii.gz", ATLAS))
            raise row.place.error(
                "its scan is not in the folder (list what to fetch with --list-missing)", field="image_id"
            )
        masks = tuple((organ, case.masks[organ]) for organ in ORGANS if organ in case.masks)
        return MediaRef(case.scan, kind="volume", masks=masks, encoding=case.encoding)

    def _facets(self, row: Row) -> dict[str, str]:
        asked, organ = subtype(cell(row, "question_subtype")), _organ(row)
        task = category(asked)
        if task is None:
            self.unknown[asked] += 1
            task = cell(row, "question_type").replace("_", " ").lower() or "other"
        age, made_by, contrast = (self.scans.get(row, column) for column in ("age", "scanner", "contrast"))
        found = {
            "task": task,
            "subtype": asked,
            "organ": organ,
            **self.sizes.bins(cell(row, "image_id"), organ),
            "sex": sex(self.scans.get(row, "sex")) or "",
            "age": (age_decade(float(age)) if _AGE.fullmatch(age) else None) or "",
            "scanner": scanner(made_by) if made_by else "",
            "phase": phase(contrast) if contrast else "",
        }
        return {name: value for name, value in found.items() if value}


def _read(root: Path | None, seed: int, scratch: Path, *, needs_media: bool = True) -> SourceTable:
    folder = raw_folder(root, holds="CTLesionVQA's tables and the scans of AbdomenAtlas")
    files, others = question_files(folder)
    if not files:
        raise ValueError(
            f"{folder}: wanted a .csv, .parquet, .json or .jsonl table with columns image_id and question, found none."
        )
    sizes, scans, said, qids = LesionSizes(), Scans(), set[Split | None](), Counter[str]()
    for row, split in _rows(folder, files):
        said.add(split)
        qids[cell(row, "qid")] += 1
        sizes.add_answer(
            cell(row, "image_id"), _organ(row), subtype(cell(row, "question_subtype")), cell(row, "answer")
        )
    for file in (*others, *(folder / "metadata").glob("*.csv")):
        if file.suffix == ".csv":
            sizes.add_table(file)
            scans.add(read_rows(folder, file))
    cases, pictures = (find_cases(folder), find_pictures(folder)) if needs_media else ({}, {})
    reader = _Reader(folder, needs_media, cases, pictures, sizes, scans, qids)
    # Version 1 calls its test split "validation".
    is_v1 = "val" in said and "test" not in said
    for row, split in _rows(folder, files):
        reader.read(row, "test" if is_v1 and split == "val" else split)
    notes = [f"{count} questions of the unknown subtype {name!r}" for name, count in reader.unknown.most_common()]
    kinds = Counter(ref.kind for items in reader.media.values() for ref in items)
    if kinds["video"] or kinds["image"]:
        notes.append(
            f"scans whose CT is not in the folder: {kinds['video']} shown as the released clip, {kinds['image']} as "
            "the released slice"
        )
    if is_v1:
        notes.append("the release's validation questions are its test, and are test here")
    if None in said and len(said) > 1:
        raise ValueError(f"{folder}: some tables state a split and some do not. Move those apart that do not.")
    missing = tuple(reader.missing.values())
    rejects = tuple(reader.rejects)
    return SourceTable(reader.questions, reader.media, tuple(notes), rejects, missing, stands_for_patient="scan")


def _rows(folder: Path, files: Sequence[Path]) -> Iterator[tuple[Row, Split | None]]:
    for file in files:
        words = re.split(r"[^a-z]+", file.stem.lower())
        of_file = next((_SPLITS[word] for word in words if word in _SPLITS), None)
        for row in read_rows(folder, file):
            yield row, _SPLITS.get(cell(row, "split").lower(), of_file)


def _organ(row: Row) -> str:
    return cell(row, "organ").replace("_", " ").lower()
