"""Tests tables of public image sets in their own layouts: which column names the files, and how it names them."""

import re
import shutil
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import pytest

from medtune.data.raw.source import SourceTable, TableOptions
from tests.benchmarks.vqa.own_data import pictures, read
from tests.data.media.videos.synthetic_videos import mp4

NIH = (
    "Image Index,Finding Labels,Follow-up #,Patient ID,Patient Age,Patient Gender,View Position,"
    "OriginalImage[Width,Height],OriginalImagePixelSpacing[x,y],\n"
    "00000001_000.png,Cardiomegaly,0,1,58,M,PA,2682,2749,0.143,0.143,\n"
    "00000001_001.png,Cardiomegaly|Emphysema,1,1,58,M,PA,2894,2729,0.143,0.143,\n"
    "00000002_000.png,No Finding,0,2,81,M,PA,2500,2048,0.171,0.171,\n"
)
CHEXPERT = (
    "Path,Sex,Age,Frontal/Lateral,AP/PA,No Finding,Cardiomegaly,Edema\n"
    "CheXpert-v1.0-small/train/patient00001/study1/view1_frontal.jpg,Female,68,Frontal,AP,1.0,,\n"
    "CheXpert-v1.0-small/train/patient00002/study2/view1_frontal.jpg,Female,87,Frontal,AP,,1.0,-1.0\n"
    "CheXpert-v1.0-small/train/patient00002/study1/view1_frontal.jpg,Female,83,Frontal,AP,,,0.0\n"
)
HAM10000 = (
    "lesion_id,image_id,dx,dx_type,age,sex,localization\n"
    "HAM_0000118,ISIC_0027419,bkl,histo,80.0,male,scalp\n"
    "HAM_0000118,ISIC_0025030,bkl,histo,80.0,male,scalp\n"
    "HAM_0002730,ISIC_0026769,nv,histo,80.0,male,scalp\n"
    "HAM_0002731,ISIC_0026770,nv,histo,80.0,male,scalp\n"
)
FETAL_PLANES = (
    "Image_name;Patient_num;Plane;Brain_plane;Operator;US_Machine;Train \n"
    "Patient00001_Plane1_1_of_2;1;Other;Not A Brain;Other;Aloka;1\n"
    "Patient00001_Plane1_2_of_2;1;Other;Not A Brain;Other;Aloka;1\n"
    "Patient00002_Plane5_1_of_1;2;Maternal cervix;Not A Brain;Op. 1;Voluson E6;0\n"
    "Patient00003_Plane5_1_of_1;3;Maternal cervix;Not A Brain;Op. 1;Voluson E6;0\n"
)
ROCO = (
    "ID,Caption\nROCOv2_2023_train_000001,Head CT demonstrating left parotiditis.\n"
    "ROCOv2_2023_train_000002,Acquired renal cysts in end-stage renal failure.\n"
)
RSNA = (
    "patientId,x,y,width,height,Target\n"
    "0004cfab-14fd-4e49-80ba-63a80b6bddd6,,,,,0\n"
    "00436515-870c-4b36-a041-de91049b9ab4,264.0,152.0,213.0,379.0,1\n"
    "000db696-cf54-4385-b10b-6b16fbb3f985,316.0,318.0,170.0,478.0,1\n"
    "00322d4d-1c29-4943-afc9-b6754be640eb,,,,,0\n"
)
VINDR = (
    "image_id,rad_ID,Aortic enlargement,Atelectasis,No finding\n"
    "000434271f63a053c4128a0ba6352c7f,R6,0,0,1\n"
    "00053190460d56c53cc3e57321387478,R7,1,0,0\n"
    "0005e8e3701dfb1dd93d53e2ff537b6e,R10,0,1,0\n"
)
ECHONET = (
    "FileName,EF,ESV,EDV,FrameHeight,FrameWidth,FPS,NumberOfFrames,Split\n"
    "0X100009310A3BD7FC,78.49,14.88,69.21,112,112,50,174,TRAIN\n"
    "0X1002E8FBACD08477,59.10,40.38,98.74,112,112,50,215,VAL\n"
    "0X1005D03EED19C65B,62.36,14.27,37.91,112,112,30,104,TEST\n"
)
ISIC = "image,MEL,NV,BCC\nISIC_0000000,0.0,1.0,0.0\nISIC_0000001,1.0,0.0,0.0\nISIC_0000002,0.0,0.0,1.0\n"
BUSBRA = (
    "ID,Case,Histology,Pathology,BIRADS,Device,Width,Height,Side\n"
    "bus_0001-l,1,Fibroadenoma,benign,2,GE Logiq,368,344,left\n"
    "bus_0001-r,1,Fibroadenoma,benign,2,GE Logiq,368,344,right\n"
    "bus_0002-l,2,Carcinoma,malignant,5,GE Logiq,368,344,left\n"
    "bus_0003-l,3,Carcinoma,malignant,5,GE Logiq,368,344,left\n"
)
PADCHEST = (
    "ImageID,ImageDir,StudyDate_DICOM,StudyID,PatientID,Projection,Labels\n"
    "20536686640136348236148679891455886468_k6ga29.png,0,20140915,S1,839860488694,PA,\"['normal']\"\n"
    "135803415504923515076821959678074435083_fzis7b.png,0,20150914,S2,313572750430,PA,\"['nodule', 'scoliosis']\"\n"
    "113855343774216031107737439268243531979_3k951l.png,0,20150914,S3,313572750431,PA,\"['scoliosis']\"\n"
)
BRSET = (
    "image_id,patient_id,camera,patient_age,patient_sex,DR_ICDR,macular_edema,amd\n"
    "img00001,1,Canon CR,48,1,0,0,0\nimg00002,1,Canon CR,48,1,0,0,1\nimg00003,2,NIKON NF5050,18,2,1,1,0\n"
)
MIMIC = (
    "dicom_id,subject_id,study_id,ViewPosition,Pneumonia,Edema\n"
    "02aa804e-bde0afdd-112c0b34-7bc16630-4e384014,10000032,50414267,PA,0.0,1.0\n"
    "174413ec-4ec4c1f7-34ea26b7-c5f994f8-79ef1962,10000032,50414268,LATERAL,1.0,0.0\n"
    "2a2277a9-b0ded155-c0de8eb9-c124d10e-82c5caab,10000764,53189527,AP,,-1.0\n"
)
"""Two of the set's tables joined, as people do for training; its files lie three folders below."""


APTOS = "id_code,diagnosis\n000c1434d8d7,2\n001639a390f0,4\n0024cdab0c1e,1\n002c21358ce6,2\n005b95c28852,1\n"
PAD_UFES = (
    "patient_id,lesion_id,age,region,diagnostic,img_id\n"
    "PAT_1516,1765,8,ARM,NEV,PAT_1516_1765_530.png\nPAT_46,881,55,NECK,BCC,PAT_46_881_939.png\n"
    "PAT_1545,1867,77,FACE,BCC,PAT_1545_1867_547.png\nPAT_1989,4061,75,HAND,NEV,PAT_1989_4061_934.png\n"
)


class Public(NamedTuple):
    """A public set: its table, where its files lie, and what is said about its columns."""

    table: str
    files: tuple[str, ...]  # The paths under the folder that --images names, in the table's order.
    said: TableOptions
    patients: str = "patient"  # What stands for a patient.
    questions: int = 0  # The number of questions; 0 for one a row.


def _public(
    table: str, place: str, said: TableOptions, patients: str = "patient", column: int = 0, questions: int = 0
) -> Public:
    comma = ";" if ";" in table.partition("\n")[0] else ","
    names = [line.split(comma)[column] for line in table.splitlines()[1:]]
    return Public(table, tuple(place.format(name) for name in names), said, patients, questions)


def _labels(*names: str, **more: str) -> TableOptions:
    return TableOptions(columns={"labels": ",".join(names), **more})


SETS = {
    "NIH ChestX-ray14": _public(NIH, "{}", _labels("Finding Labels"), questions=6),
    "NIH in twelve folders": _public(NIH, "images_001/images/{}", _labels("Finding Labels"), questions=6),
    "CheXpert": Public(
        CHEXPERT,
        tuple(f"{line.split(',')[0]}".removeprefix("CheXpert-v1.0-small/") for line in CHEXPERT.splitlines()[1:]),
        TableOptions(columns={"labels": "No Finding,Cardiomegaly,Edema"}, patient=re.compile(r"patient(\d+)")),
        questions=8,
    ),
    "HAM10000": _public(HAM10000, "HAM10000_images_part_1/{}.jpg", TableOptions(columns={"answer": "dx"}), "lesion", 1),
    "FETAL_PLANES_DB": _public(
        FETAL_PLANES, "{}.png", TableOptions(columns={"answer": "Plane", "split": ""}), "patient"
    ),
    "ROCOv2": _public(
        ROCO, "{}.jpg", TableOptions(columns={"answer": "Caption"}, question="Describe the picture."), "image"
    ),
    "RSNA pneumonia": _public(RSNA, "{}.dcm", TableOptions(columns={"answer": "Target"})),
    "VinDr-CXR": _public(
        VINDR, "{}.dicom", _labels("Aortic enlargement", "Atelectasis", "No finding"), "image", questions=9
    ),
    "EchoNet": _public(
        ECHONET, "Videos/{}.avi", TableOptions(columns={"answer": "EF"}, question="How large is the EF?"), "film"
    ),
    "ISIC": _public(ISIC, "{}.jpg", _labels("MEL", "NV", "BCC"), "image", questions=9),
    "BUS-BRA": _public(BUSBRA, "Images/{}.png", TableOptions(columns={"answer": "Pathology", "patient": "Case"})),
    "PadChest": _public(PADCHEST, "{}", _labels("Labels"), questions=9),
    "BRSET": _public(BRSET, "{}.jpg", _labels("macular_edema", "amd"), questions=6),
    "APTOS": _public(APTOS, "{}.png", TableOptions(options=("0", "1", "2", "3", "4")), "image"),
    "PAD-UFES-20": _public(PAD_UFES, "{}", TableOptions(columns={"answer": "diagnostic"}), column=5),
    "MIMIC-CXR": _public(MIMIC, "files/p10/p1/{}.jpg", _labels("Pneumonia", "Edema"), questions=5),
}


def _written(folder: Path, public: Public, *, table: str = "") -> Path:
    """Writes the set's files, each with another picture, and its table beside the folder of files."""
    names = pictures(folder / "drawn", len(public.files))
    for name, file in zip(names, public.files, strict=True):
        (path := folder / "files" / file).parent.mkdir(parents=True, exist_ok=True)
        if path.suffix == ".avi":
            mp4(path, [0.0, 0.04])
        else:
            shutil.copy(folder / "drawn" / name, path)
    shutil.rmtree(folder / "drawn")
    (folder / "tables").mkdir()
    (folder / "tables" / "table.csv").write_text(table or public.table, "utf-8")
    return folder / "tables" / "table.csv"


def _shown(table: SourceTable) -> list[str]:
    return [ref.path.name for items in table.media.values() for ref in items]


def _read(file: Path, said: TableOptions) -> SourceTable:
    return read(file, replace(said, media_folder=file.parent.parent / "files"))


@pytest.mark.parametrize("name", SETS)
def test_a_public_table_is_read_with_its_pictures_and_patients(tmp_path: Path, name: str) -> None:
    public = SETS[name]
    table = _read(_written(tmp_path, public), public.said)
    assert not table.rejects
    assert table.stands_for_patient == public.patients
    assert len(table.questions) == (public.questions or len(public.files))
    shown = [ref.path for items in table.media.values() for ref in items]
    assert shown == [tmp_path / "files" / file for file in public.files]
    assert all(table.media[question.media_id] for question in table.questions)


@pytest.mark.parametrize("name", ["HAM10000", "ROCOv2", "ISIC"])
def test_a_note_counts_the_names_without_a_suffix(tmp_path: Path, name: str) -> None:
    table = _read(_written(tmp_path, SETS[name]), SETS[name].said)
    number = len(SETS[name].files)
    assert f"{number} names of files have no suffix: each is the one image, film or scan called so" in table.notes


def test_boxes_of_width_and_height_are_not_drawn_as_corners(tmp_path: Path) -> None:
    header, *rows = BUSBRA.splitlines()
    boxes = ("[160, 28, 129, 62]", "[12, 42, 145, 62]", "[148, 22, 167, 61]", "[9, 9, 20, 20]")
    lines = [f"{header},BBOX", *(f'{row},"{box}"' for row, box in zip(rows, boxes, strict=True))]
    public = SETS["BUS-BRA"]
    file = _written(tmp_path, public, table="\n".join(lines))
    with pytest.raises(ValueError, match=r"1 of 4 boxes in the column 'BBOX' end before they begin.*--columns box="):
        _read(file, public.said)
    table = _read(file, replace(public.said, columns={**public.said.columns, "box": ""}))
    assert len(table.questions) == 4
    assert not any(ref.boxes for items in table.media.values() for ref in items)


def test_a_name_that_two_different_files_have_is_refused(tmp_path: Path) -> None:
    public = SETS["ISIC"]
    file = _written(tmp_path, public)
    files = tmp_path / "files"
    (files / "ISIC_0000000.txt").write_text("no picture")
    shutil.copy(files / "ISIC_0000001.jpg", files / "ISIC_0000001.png")
    shutil.copy(files / "ISIC_0000000.jpg", files / "ISIC_0000002.png")
    table = _read(file, public.said)
    (reject,) = table.rejects
    assert reject.row == 4
    assert "2 different files have this name (.jpg, .png). Write the path and the suffix" in reject.reason
    assert [ref.path.name for items in table.media.values() for ref in items] == [
        "ISIC_0000000.jpg",
        "ISIC_0000001.jpg",
    ]


@pytest.mark.parametrize("unnamed", ["Bildnr", "Untersuchung"])
@pytest.mark.parametrize(
    "said",
    [
        _labels("cyst", "shadow"),
        TableOptions(columns={"answer": "cyst"}),
        TableOptions(columns={"answer": "cyst"}, question="Is there a cyst?"),
        TableOptions(columns={"answer": "cyst", "question": "shadow"}),
    ],
)
def test_pictures_that_no_column_names_are_never_left_out_in_silence(
    tmp_path: Path, said: TableOptions, unnamed: str
) -> None:
    pictures(tmp_path / "files", 3)
    (tmp_path / "tables").mkdir()
    file = tmp_path / "tables" / "data.csv"
    file.write_text(f"{unnamed},cyst,shadow\n7,1,0\n8,0,1\n9,1,1\n")
    with pytest.raises(ValueError, match=rf"--images names a folder.*{unnamed}, cyst, shadow.*--columns image=NAME"):
        _read(file, said)


def test_a_conversation_without_pictures_beside_a_folder_of_them_is_refused(tmp_path: Path) -> None:
    pictures(tmp_path / "files", 1)
    (tmp_path / "tables").mkdir()
    file = tmp_path / "tables" / "data.jsonl"
    file.write_text('{"messages": [{"role": "user", "content": "q"}, {"role": "assistant", "content": "a"}]}\n')
    for name in ("table", "ms_swift"):
        with pytest.raises(ValueError, match="--images names a folder"):
            read(file, TableOptions(media_folder=tmp_path / "files"), name=name)


def test_the_findings_of_a_picture_that_is_nowhere_are_not_asked(tmp_path: Path) -> None:
    (tmp_path / "data.csv").write_text("case,cyst,shadow\nA,1,0\nB,0,1\n")
    with pytest.raises(ValueError, match=r"wanted a column with the image.*case, cyst, shadow.*--columns image=NAME"):
        read(tmp_path / "data.csv", _labels("cyst", "shadow"))
    pictures(tmp_path, 1)
    (tmp_path / "data.csv").write_text("image,cyst,shadow\nus_0.png,1,0\n,0,1\n")
    table = read(tmp_path / "data.csv", _labels("cyst", "shadow"))
    assert [str(reject) for reject in table.rejects] == [
        "data.csv, line 3, field 'image': the image is empty. Fill it in, or remove the row."
    ]


def test_a_column_of_any_name_whose_cells_lead_to_files_is_named(tmp_path: Path) -> None:
    names = pictures(tmp_path / "files", 4)
    (tmp_path / "tables").mkdir()
    rows = "".join(f"x{n},{name.removesuffix('.png')},{n % 2}\n" for n, name in enumerate(names))
    (file := tmp_path / "tables" / "data.csv").write_text(f"nr,Aufnahme,label\n{rows}")
    with pytest.raises(ValueError, match=r"--columns image=Aufnahme; the cells of 'Aufnahme' lead to files"):
        _read(file, TableOptions())
    assert _shown(_read(file, TableOptions(columns={"image": "Aufnahme"}))) == names


def test_a_leading_folder_that_all_paths_share_is_left_out_and_no_other(tmp_path: Path) -> None:
    for patient in ("p1", "p2"):
        pictures(tmp_path / "files" / patient, 1)
    (tmp_path / "tables").mkdir()
    file = tmp_path / "tables" / "data.csv"
    file.write_text("image,label\nset/train/p1/us_0.png,0\nset/train/p2/us_0.png,1\nset/test/p1/us_0.png,1\n")
    table = _read(file, TableOptions())
    assert [ref.path.parent.name for items in table.media.values() for ref in items] == ["p1", "p2"]
    assert [reject.row for reject in table.rejects] == [4]
    assert "2 paths begin with set/train/, which is left out: their files lie in the folder without it" in table.notes


def test_a_name_in_two_folders_below_is_refused(tmp_path: Path) -> None:
    for folder in ("a", "b"):
        pictures(tmp_path / "files" / folder, 3)
    shutil.copy(tmp_path / "files" / "a" / "us_1.png", tmp_path / "files" / "a" / "us_0.png")
    (tmp_path / "tables").mkdir()
    (file := tmp_path / "tables" / "data.csv").write_text("image,label\nus_0.png,0\nus_1.png,1\nus_2.png,0\n")
    table = _read(file, TableOptions())
    (reject,) = table.rejects
    assert "2 different files have this name" in reject.reason
