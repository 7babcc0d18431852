"""Tests reading a user's own table: columns, kinds of answers, facets and splits."""

import json
from pathlib import Path

import datasets
import pytest

from medtune.benchmarks import find_source
from medtune.benchmarks.vqa.columns import columns_of
from medtune.benchmarks.vqa.media_cells import media_reader
from medtune.benchmarks.vqa.sources.table import mapped
from medtune.data.prepared.read import Prepared
from medtune.data.prepared.write import prepare
from medtune.data.raw.source import SourceTable, TableOptions
from medtune.data.types import SPLITS, Turn
from tests.benchmarks.vqa.own_data import pictures, read, read_text


@pytest.mark.parametrize(
    ("names", "found"),
    [
        ("Image,Question,Answer", {"image": "Image", "question": "Question", "answer": "Answer"}),
        ("file_name,query,response", {"image": "file_name", "question": "query", "answer": "response"}),
        ("Figure_path,Question,Choice A,Choice B,Answer_label,answers", {"image": "Figure_path", "answer": "answers"}),
        ("video,question,answer,Start,end_s,bbox", {"video": "video", "start": "Start", "end": "end_s", "box": "bbox"}),
        ("volume,question,label,mask,Patient-ID", {"volume": "volume", "masks": "mask", "patient": "Patient-ID"}),
        ("messages,images,Subject ID,SPLIT,Task", {"turns": "messages", "patient": "Subject ID", "split": "SPLIT"}),
        ("image,question,answer,subject_id,study_id", {"patient": "subject_id"}),
        ("image,question,answer,study_id", {"patient": "study_id"}),
    ],
)
def test_columns_are_found_by_their_usual_names(names: str, found: dict[str, str]) -> None:
    columns = columns_of(names.split(","), {}, where="x.csv")
    assert found.items() <= {role: columns.of(role) for role in columns.found}.items()


@pytest.mark.parametrize("names", [("volume",), ("video", "patient"), ("image",)])
def test_new_rows_need_no_more_than_their_media(names: tuple[str, ...]) -> None:
    said = TableOptions(unanswered=True)
    assert mapped(names, said, list, media_reader((), said, Path()), where="new.csv").of(names[0]) == names[0]


def test_lettered_and_numbered_columns_keep_their_order() -> None:
    names = ["question", "answer", "image_2", "image_10", "image_1", "opb", "opa", "opc"]
    found = columns_of(names, {}, where="x.csv").found
    assert found["image"] == ("image_1", "image_2", "image_10")
    assert found["letters"] == ("opa", "opb", "opc")


@pytest.mark.parametrize(
    ("names", "said", "message"),
    [
        ("image,question,answer,label", {}, "'answer' and 'label' may both hold the answer.*--columns answer='answer'"),
        ("image,img_path,question,answer", {}, "'image' and 'img_path' may both hold the image"),
        ("image,question,answer,patient,subject_id", {}, "'patient' and 'subject_id' may both hold the patient"),
        ("image,question,messages", {}, "'question' and 'messages' may both hold the question"),
        ("image,question,answer", {"answr": "answer"}, r"there is no such role\. Did you mean 'answer'\?"),
        (
            "image,question,answer",
            {"patient": "pateint"},
            "no column 'pateint' for the patient.* columns are: image, q",
        ),
        ("image,q,answer", {"question": "q,answer"}, "the question takes one column"),
    ],
)
def test_an_ambiguous_or_wrong_mapping_is_refused(names: str, said: dict[str, str], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        columns_of(names.split(","), said, where="x.csv")


def test_what_the_user_says_comes_first() -> None:
    columns = columns_of(
        ["image", "Q", "answer", "label", "id"], {"question": "q", "answer": "label", "id": ""}, where="x"
    )
    assert (columns.of("question"), columns.of("answer"), columns.of("id")) == ("Q", "label", None)
    assert columns.others == ("answer", "id")


@pytest.mark.parametrize(
    ("header", "cells", "wanted"),
    [
        ("options", '"[""liver"", ""colon""]",B', ("choice", ("liver", "colon"), "colon", None)),
        ("options", "\"['liver', 'colon']\",Liver.", ("choice", ("liver", "colon"), "liver", None)),
        ("options", "liver|colon|skin,(C)", ("choice", ("liver", "colon", "skin"), "skin", None)),
        ("options", "A. liver B. colon,B. colon", ("choice", ("liver", "colon"), "colon", None)),
        ("options", "no;yes,Yes", ("yes_no", ("no", "yes"), "yes", None)),
        ("options", ",Yes.", ("yes_no", ("yes", "no"), "yes", None)),
        ("options", "nan,TRUE or so", ("text", (), "TRUE or so", None)),
        ("unit", "mm,12.5", ("number", (), "12.5", "mm")),
        ("unit", 'mm,"3,5"', ("number", (), "3.5", "mm")),
        ("unit", ',"1,000"', ("text", (), "1,000", None)),
        ("answer_type", "OPEN,3", ("text", (), "3", None)),
        ("answer_type", "CLOSED,no", ("yes_no", ("yes", "no"), "no", None)),
        ("answer_type", "CLOSED,left", ("text", (), "left", None)),
        ("answer_type", ",None", ("text", (), "None", None)),
    ],
)
def test_the_kind_of_an_answer(
    tmp_path: Path, header: str, cells: str, wanted: tuple[str, tuple[str, ...], str, str | None]
) -> None:
    table = read_text(tmp_path, f"image,question,{header},answer\nus_0.png,What?,{cells}\n")
    assert not table.rejects
    (question,) = table.questions
    assert (question.answer_kind, question.options, question.answer, question.unit) == wanted


def test_letters_in_columns_may_end_early(tmp_path: Path) -> None:
    header = "image,question,Choice A,Choice B,Choice C,Choice D,answer"
    table = read_text(
        tmp_path, f"{header}\nus_0.png,?,A: liver,B: colon,,,B\nus_1.png,?,a,b,c,d,d\nus_2.png,?,a,,c,,a\n"
    )
    assert [question.options for question in table.questions] == [("liver", "colon"), ("a", "b", "c", "d")]
    assert [question.answer for question in table.questions] == ["colon", "d"]
    assert "an option between others is empty" in str(table.rejects[0])


NULLS = (
    ("iodine,gadolinium,null,none,null", ("iodine", "gadolinium", "null", "none"), "null"),
    ("iodine,gadolinium,null,none,D", ("iodine", "gadolinium", "null", "none"), "none"),
    ("iodine,gadolinium,none,null,D", ("iodine", "gadolinium", "none", "null"), "null"),
    ("nan,iodine,NULL,none,A", ("nan", "iodine", "NULL", "none"), "nan"),
    ("iodine,gadolinium,NULL,NaN,B", ("iodine", "gadolinium"), "gadolinium"),
    ("iodine,gadolinium,none,,C", ("iodine", "gadolinium", "none"), "none"),
)


@pytest.mark.parametrize("listed", [False, True])
@pytest.mark.parametrize(("cells", "options", "answer"), NULLS)
def test_null_is_a_word_where_an_option_stands(
    tmp_path: Path, cells: str, options: tuple[str, ...], answer: str, listed: bool
) -> None:
    header = "image,question,options,answer" if listed else "image,question,A,B,C,D,answer"
    row = cells.replace(",", "|", 3) if listed else cells
    table = read_text(tmp_path, f"{header}\nus_0.png,Which contrast?,{row}\n")
    assert [(question.options, question.answer) for question in table.questions] == [(options, answer)]


def test_facets_come_from_columns_with_few_values(tmp_path: Path) -> None:
    rows = [f"us_{n % 6}.png,q,text {n},{n % 2},{n},same,{'x' * 61 if n else 'y'}" for n in range(30)]
    text = "\n".join(["image,question,answer,ward,number,constant,long", *rows])
    table = read_text(tmp_path, text)
    assert {tuple(question.facets) for question in table.questions} == {("ward", "task")}
    assert "facets: ward" in table.notes
    assert "ignored columns: number, constant, long" in table.notes
    named = read_text(tmp_path, text, TableOptions(facets=("number",)))
    assert named.questions[7].facets == {"number": "7", "task": "text"}
    with pytest.raises(ValueError, match=r"--facets wards: no such column\. Did you mean 'ward'\?"):
        read_text(tmp_path, text, TableOptions(facets=("wards",)))


@pytest.mark.parametrize(
    ("column", "is_facet"),
    [
        *(
            (name, False)
            for name in (
                "Name", "last name", "Nachname", "Geburtsdatum", "Fall-Nr", "Prénom", "DOB", "姓名", "StudyDate",
                "Datum",
            )
        ),
        *((name, True) for name in ("organ name", "scanner", "birads", "Station", "hospital")),
    ],
)  # fmt: skip
def test_a_column_called_like_a_person_is_no_facet(tmp_path: Path, column: str, is_facet: bool) -> None:
    rows = [f"us_{n}.png,q,text {n},{'AB'[n % 2]}" for n in range(6)]
    table = read_text(tmp_path, "\n".join([f"image,question,answer,{column}", *rows]))
    assert all((column in question.facets) == is_facet for question in table.questions)


def test_a_patient_is_a_patient_a_study_or_else_the_image(tmp_path: Path) -> None:
    assert read_text(tmp_path, "image,question,answer,pid\nus_0.png,q,a,1\n").stands_for_patient == "image"
    said = TableOptions(columns={"patient": "pid"})
    table = read_text(tmp_path, "image,question,answer,pid\nus_0.png,q,a,1\nus_1.png,q,b,1.0\n", said)
    assert table.stands_for_patient == "patient"
    assert read_text(tmp_path, "image,question,answer,study\nus_0.png,q,a,1\n").stands_for_patient == "study"
    assert read_text(tmp_path, "question,answer\nq,a\nr,b\n").stands_for_patient == "row"


@pytest.mark.parametrize(
    "text",
    [
        "\ufeffIMAGE;FRAGE;ANSWER\r\npics\\us_0.png;Was?;Ja; nein\r\n",
        "sep=;\r\nimage;frage;answer\r\npics\\us_0.png;Was?;Ja\r\n;;\r\n",
        "image\tfrage\tanswer\npics/us_0.png\tWas?\tJa\n",
    ],
)
def test_a_table_out_of_excel(tmp_path: Path, text: str) -> None:
    pictures(tmp_path / "pics", 1)
    text = text.replace("Ja; nein", '"Ja; nein"')
    table = read_text(tmp_path, text, TableOptions(columns={"question": "Frage"}))
    (question,) = table.questions
    assert question.text == "Was?"
    assert question.answer.startswith("Ja")
    assert table.media[question.media_id][0].path == tmp_path / "pics" / "us_0.png"


def test_json_rows_keep_types_turns_and_a_question_for_all(tmp_path: Path) -> None:
    rows: list[dict[str, object]] = [
        {"image": "us_0.png", "messages": [{"from": "human", "value": "<image>?"}, {"from": "gpt", "value": "3"}]},
        {"image": ["us_0.png", "us_1.png"], "question": "Which?", "answer": True},
        {"image": None, "question": "Which?", "answer": 7.0, "options": None},
        {"question": "Which?", "answer": ["x", "x"], "options": None, "turns": None},
    ]
    pictures(tmp_path, 2)
    (tmp_path / "a.json").write_text(json.dumps(rows[:1]))
    (tmp_path / "b.jsonl").write_text("\n".join(map(json.dumps, rows[1:])))
    first = read(tmp_path / "a.json").questions[0]
    assert (first.text, first.answer, first.answer_kind) == ("?", "3", "number")
    table = read(tmp_path / "b.jsonl", TableOptions(columns={"turns": ""}))
    assert [question.answer for question in table.questions] == ["yes", "7", "x"]
    assert [len(table.media[question.media_id]) for question in table.questions] == [2, 0, 0]
    reported = read_text(
        tmp_path,
        "image,report\nus_0.png,Clear lungs.\n",
        TableOptions(question="Describe it.", columns={"answer": "report"}),
    )
    assert [(q.text, q.answer) for q in reported.questions] == [("Describe it.", "Clear lungs.")]


def test_a_history_of_turns_as_text_in_a_csv(tmp_path: Path) -> None:
    turns = [("user", "<image>What?"), ("assistant", "a cyst"), ("user", "Where?"), ("assistant", "left")]
    cell = json.dumps([{"role": role, "content": text} for role, text in turns]).replace('"', '""')
    table = read_text(tmp_path, f'image,conversation\nus_0.png,"{cell}"\n')
    assert [(q.text, q.answer, q.turns) for q in table.questions] == [
        ("What?", "a cyst", ()),
        ("Where?", "left", (Turn("What?", "a cyst"),)),
    ]


def test_columns_that_may_tell_who_a_patient_is_become_no_facets_by_themselves(tmp_path: Path) -> None:
    lines = [f"us_{n}.png,q{n},a,{n % 3},John {n % 3},{n}.png,{'east' if n % 2 else 'west'}" for n in range(6)]
    text = "\n".join(["image,question,answer,PID,Patient Name,scan_file,ward", *lines])
    table = read_text(tmp_path, text)
    assert {*table.questions[0].facets} == {"task", "ward"}
    assert "ignored columns: PID, Patient Name, scan_file" in table.notes
    named = read_text(tmp_path, text, TableOptions(facets=("PID",)))
    assert named.questions[1].facets["PID"] == "1"


def test_a_patient_whose_number_pandas_wrote_with_a_point_is_the_same_patient(tmp_path: Path) -> None:
    table = read_text(tmp_path, "question,answer,patient\nq,a,7\nr,a,7.0\ns,a,P1.0\nt,a,1.5\n")
    assert [question.patient_id for question in table.questions] == ["7", "7", "P1.0", "1.5"]


_ASKED = TableOptions(question="What is it?")


def _read(folder: Path, names: list[str], *, source: str, more: dict[str, list[object]] | None = None) -> SourceTable:
    features = {"label": datasets.ClassLabel(names=names)}
    rows = datasets.Dataset.from_dict({"label": [0, 1]}, features=datasets.Features(features))
    for name, cells in (more or {}).items():
        rows = rows.add_column(name, cells)
    if source == "hf":
        rows.save_to_disk(folder / "saved")
        return read(folder / "saved", _ASKED, name="hf")
    rows.to_parquet(folder / "rows.parquet")
    return read(folder / "rows.parquet", _ASKED)


@pytest.mark.parametrize("source", ["hf", "table"])
def test_class_names_are_the_options(tmp_path: Path, source: str) -> None:
    first, second = _read(tmp_path, ["benign", "malignant", "normal"], source=source).questions
    assert (first.answer, second.answer) == ("benign", "malignant")
    assert {first.answer_kind, second.answer_kind} == {"choice"}
    assert sorted(first.options) == sorted(second.options) == ["benign", "malignant", "normal"]
    assert first.text == "What is it?"


def test_classes_called_yes_and_no_stay_yes_and_no(tmp_path: Path) -> None:
    found = _read(tmp_path, ["No", "Yes"], source="hf").questions
    assert [(q.answer, q.answer_kind, q.options) for q in found] == [
        ("no", "yes_no", ("yes", "no")),
        ("yes", "yes_no", ("yes", "no")),
    ]


def test_options_of_the_row_come_first(tmp_path: Path) -> None:
    own: dict[str, list[object]] = {"options": [["benign", "cyst"], ["malignant", "cyst"]]}
    found = _read(tmp_path, ["benign", "malignant", "normal"], source="hf", more=own).questions
    assert [q.options for q in found] == [("benign", "cyst"), ("malignant", "cyst")]


def _prepared(raw: Path, *, name: str = "table") -> Prepared:
    return prepare(find_source(name), benchmark="vqa", root=raw, out=raw.parent / "out")


def _splits(prepared: Prepared) -> dict[str, set[str]]:
    found: dict[str, set[str]] = {}
    for split in SPLITS:
        for question in prepared.questions(split):
            found.setdefault(" ".join(question.text.casefold().split()), set()).add(split)
    return found


def test_the_same_question_is_drawn_into_one_split(tmp_path: Path) -> None:
    (tmp_path / "raw").mkdir()
    rows = [f"{'What' if n % 3 else 'what '} is sign {n % 20}?,answer {n},liver {n % 20},colon" for n in range(80)]
    rows = [row.replace(f"answer {n}", "AB"[n // 20 % 2]) for n, row in enumerate(rows)]
    (tmp_path / "raw" / "data.csv").write_text("\n".join(["question,answer,A,B", *rows]))
    splits = _splits(_prepared(tmp_path / "raw"))
    assert {split for of in splits.values() for split in of} == set(SPLITS)
    assert [len(of) for of in splits.values()] == [1] * 20


def test_the_same_question_with_other_options_or_of_patients_is_drawn_apart(tmp_path: Path) -> None:
    for name, header, end in (("options", "A,B", "liver {n},colon"), ("patients", "patient,ward", "p{n},w")):
        raw = tmp_path / name / "raw"
        raw.mkdir(parents=True)
        rows = [f"What is it?,{'A' if name == 'options' else 'yes'},{end.format(n=n)}" for n in range(20)]
        (raw / "data.csv").write_text("\n".join([f"question,answer,{header}", *rows]))
        assert _splits(_prepared(raw)) == {"what is it?": set(SPLITS)}


def test_a_split_of_the_data_is_kept_where_questions_repeat(tmp_path: Path) -> None:
    (tmp_path / "raw").mkdir()
    rows = [f"What is it?,yes,{split}" for split in SPLITS]
    (tmp_path / "raw" / "data.csv").write_text("\n".join(["question,answer,split", *rows]))
    prepared = _prepared(tmp_path / "raw")
    assert [prepared.num_questions(split) for split in SPLITS] == [1, 1, 1]


def test_the_turns_of_a_conversation_without_media_are_drawn_into_one_split(tmp_path: Path) -> None:
    (tmp_path / "raw").mkdir()
    rows = [{"query": f"And now {n}?", "response": "a", "history": [[f"What is {n}?", "b"]]} for n in range(20)]
    (tmp_path / "raw" / "rows.jsonl").write_text("\n".join(map(json.dumps, rows)))
    splits = _splits(_prepared(tmp_path / "raw", name="ms_swift"))
    assert len(splits) == 40
    assert all(splits[f"and now {n}?"] == splits[f"what is {n}?"] for n in range(20))


_NOTE = "the answers are TRUE or FALSE, and are read as yes or no"


@pytest.mark.parametrize("cells", [("TRUE", "FALSE"), ("true", "False"), ("False", "False")])
def test_a_column_of_truth_values_is_yes_or_no(tmp_path: Path, cells: tuple[str, str]) -> None:
    table = read_text(tmp_path, f"question,answer\nq,{cells[0]}\nr,{cells[1]}\n")
    (tmp_path / "rows.json").write_text(
        f'[{{"question": "q", "answer": {cells[0].lower()}}}, {{"question": "r", "answer": {cells[1].lower()}}}]'
    )
    same = read(tmp_path / "rows.json")
    said, wanted = ([(q.answer, q.options, q.answer_kind, q.facets) for q in each.questions] for each in (table, same))
    assert said == wanted
    assert _NOTE in table.notes


@pytest.mark.parametrize(
    "text",
    [
        "question,answer\nq,TRUE\nr,liver\n",
        "question,answer\nq,TRUE\nr,yes\n",
        "question,answer,answer_type\nq,TRUE,open\n",
        "question,answer,A,B\nq,TRUE,TRUE,FALSE\n",
    ],
)
def test_other_answers_stay_what_they_are(tmp_path: Path, text: str) -> None:
    table = read_text(tmp_path, text)
    assert table.questions[0].answer == "TRUE"
    assert _NOTE not in table.notes


def test_a_truth_value_that_is_said_to_be_yes_or_no(tmp_path: Path) -> None:
    table = read_text(tmp_path, "question,answer,answer_type\nq,TRUE,yes/no\nr,liver,open\n")
    assert [(q.answer, q.answer_kind) for q in table.questions] == [("yes", "yes_no"), ("liver", "text")]
