"""Tests that bad tables are refused with a message that names the file, the field and what to do."""

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from medtune.data.raw.source import TableOptions
from medtune.trainer.commands.cli import main
from tests.benchmarks.vqa.own_data import pictures, read, read_text

Capture = pytest.CaptureFixture[str]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", r"data\.csv: the file is empty"),
        (
            "image,q,answer\nus_0.png,what?,a\n",
            r"wanted a column with the question.*The columns are: image, q, answer\.",
        ),
        ("image,question,antw\nus_0.png,what?,a\n", r"wanted a column with the answer.* image, question, antw\..*"),
        ("image,question,answer,answer\na,b,c,d\n", "the column 'answer' comes 2 times"),
        ("id,question,answer\n7,q,a\n8,q,a\n7.0,q,b\n", r"row 4: its id stands in data\.csv, row 2 too"),
        (
            "image,question,answer,patient\nus_0.png,q,a,1\nus_0.png,q,b,2\n",
            r"row 3: .*belongs to another patient in .*2",
        ),
        ("image,question,answer\n", r"^\S*data\.csv: no row gives a question"),
        (
            "image,instruction,input,output\nus_0.png,Answer.,What is it?,a cyst\n",
            "'instruction' and 'input' are the two halves of a question in the Alpaca form",
        ),
    ],
)
def test_a_table_that_cannot_be_read(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        read_text(tmp_path, text.replace("7.0,", "7,"))


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ("us_0.png,q,F", "field 'answer': the answer is none of the 2 options, and no letter from A to B"),
        ("us_0.png,q,", "field 'answer': the answer is empty"),
        ("us_0.png,,B", "field 'question': the question is empty"),
        ("us_0.png,q,nan", "field 'answer': the answer is empty"),
    ],
)
def test_a_row_that_cannot_be_asked_is_rejected_alone(tmp_path: Path, row: str, message: str) -> None:
    table = read_text(tmp_path, f"image,question,answer,A,B\n{row},liver,colon\nus_1.png,q,b,liver,colon\n")
    (reject,) = table.rejects
    assert message in str(reject)
    assert str(reject).startswith("data.csv, line 2")
    assert [question.answer for question in table.questions] == ["colon"]


def test_mixed_types_in_a_column_are_what_they_are(tmp_path: Path) -> None:
    rows = [
        f"us_0.png,q{n},{answer},{n if n % 2 else f'p{n}'}" for n, answer in enumerate(["3", "yes", "a cyst", "2.5"])
    ]
    rows = [row.replace("us_0", f"us_{n}") for n, row in enumerate(rows)]
    table = read_text(tmp_path, "\n".join(["image,question,answer,patient", *rows]))
    assert [question.answer_kind for question in table.questions] == ["number", "yes_no", "text", "number"]
    assert [question.patient_id for question in table.questions] == ["p0", "1", "p2", "3"]


def test_cells_that_hold_a_mapping_or_a_list_are_no_answers(tmp_path: Path) -> None:
    rows = [{"question": "q", "answer": answer} for answer in ({"en": "a"}, [["a"]], "a", 3, True, ["a"])]
    (tmp_path / "rows.json").write_text(json.dumps([*rows, {"question": ["q"], "answer": "a"}]))
    table = read(tmp_path / "rows.json")
    assert [question.answer for question in table.questions] == ["a", "3", "yes", "a"]
    assert [str(reject) for reject in table.rejects] == [
        f"rows.json, number {row}, field '{field}': wanted a text or a number, got {got}."
        for row, field, got in ((1, "answer", "dict"), (2, "answer", "list"), (7, "question", "list"))
    ]


def test_images_that_no_column_names_are_missed(tmp_path: Path) -> None:
    text = "pic,question,answer\nus_0.png,q,a\nus_1.png,q,b\n"
    notes = read_text(tmp_path, text).notes
    assert any("no column holds images, films or volumes" in note for note in notes)
    with pytest.raises(ValueError, match=r"--images names a folder, and no column .* are: pic, question, answer\. Say"):
        read_text(tmp_path, text, TableOptions(media_folder=tmp_path))
    notes = read_text(tmp_path, text, TableOptions(media_folder=tmp_path, columns={"image": "pic"})).notes
    assert not any("no column holds" in note for note in notes)


def test_other_formats_of_spreadsheets_and_folders_without_data(tmp_path: Path, capsys: Capture) -> None:
    (tmp_path / "raw" / "empty").mkdir(parents=True)
    (tmp_path / "raw" / "notes.xls").write_bytes(b"PK")
    (tmp_path / "broken.xlsx").write_bytes(b"PK")
    out = ["--out", str(tmp_path / "out")]
    for origin, message in (
        ("raw", "none of the sources hf, llama_factory, ms_swift, table, image_folder knows this layout; found empty"),
        ("raw/notes.xls", 'Save a spreadsheet as .xlsx or "CSV UTF-8"'),
        ("broken.xlsx", "no readable .xlsx table (BadZipFile). Save it again."),
        ("nowhere.csv", "there is no such file or folder. Check --from"),
        ("hf:nobody/no thing", "no path of a folder, and no id of the hub"),
    ):
        said = origin if origin.startswith("hf:") else str(tmp_path / origin)
        assert main(["prepare", "vqa", "--from", said, *out]) == 1
        assert message in capsys.readouterr().err
    assert main(["prepare", "vqa", *out]) == 1
    assert "prepare vqa needs --from" in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


def test_too_many_rejects_leave_nothing_behind(tmp_path: Path, capsys: Capture) -> None:
    pictures(tmp_path / "raw", 6)
    rows = [f"us_{n}.png,q,{'no such option' if n < 2 else 'A'},liver,colon" for n in range(6)]
    (tmp_path / "raw" / "data.csv").write_text("\n".join(["image,question,answer,A,B", *rows]))
    command = ["prepare", "vqa", "--from", str(tmp_path / "raw"), "--out", str(tmp_path / "out")]
    assert main(command) == 1
    said = capsys.readouterr().err
    assert "rejected 2 of 6 questions (33.3%)" in said
    assert "allow more with --max-rejected" in said
    assert main([*command, "--max-rejected", "0.5"]) == 0


def test_a_data_set_that_wants_to_run_code_is_refused(tmp_path: Path, capsys: Capture) -> None:
    (tmp_path / "evil").mkdir()
    (tmp_path / "evil" / "evil.py").write_text("raise SystemExit(3)")
    assert main(["prepare", "vqa", "--from", f"hf:{tmp_path / 'evil'}", "--out", str(tmp_path / "out")]) == 1
    assert "wants to run its own code (evil.py), and medtune runs no code" in capsys.readouterr().err


def test_folders_of_classes_need_two_and_have_no_columns(tmp_path: Path) -> None:
    pictures(tmp_path / "raw" / "benign", 2)
    with pytest.raises(ValueError, match="wanted at least two folders of media named after classes, found benign"):
        read(tmp_path / "raw", name="image_folder")
    with pytest.raises(ValueError, match="folders of classes have no columns"):
        read(tmp_path / "raw", TableOptions(columns={"question": "q"}), name="image_folder")
    pictures(tmp_path / "raw" / "malignant", 1)
    for name in ("notes.txt", "list.xyz"):
        (tmp_path / "raw" / "malignant" / name).write_text("x")
    for name in ("us_0_mask.png", "us_0_mask_1.png"):
        shutil.copy(tmp_path / "raw" / "malignant" / "us_0.png", tmp_path / "raw" / "malignant" / name)
    table = read(tmp_path / "raw", TableOptions(question="What is it?"), name="image_folder")
    assert [(q.text, q.answer) for q in table.questions] == [("What is it?", "benign")] * 2 + [
        ("What is it?", "malignant")
    ]
    assert "skipped 1 files that are no media: hidden, of the system, or texts" in table.notes
    assert "rows left out, a file that is no image, film or scan: 1" in table.notes
    assert "rows left out, a mask beside its image: 2" in table.notes


@pytest.mark.slow
def test_a_large_table_takes_little_memory(tmp_path: Path) -> None:
    """Reads 150 MB of long cells, which a reader of whole files would keep, in a process that may hold far less."""
    with (tmp_path / "large.csv").open("w") as file:
        file.write("question,answer,report\n")
        for number in range(15_000):
            file.write(f"question {number},yes,{'word ' * 2000}\n")
    say = (
        "import resource, sys; from pathlib import Path; from medtune.data.raw.table_rows import file_rows\n"
        "rows = file_rows(Path(sys.argv[1]), name='large.csv').rows(); next(rows)\n"
        "before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss\n"
        "print(sum(1 for _ in rows), (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) // 1024)"
    )
    command = [sys.executable, "-c", say, str(tmp_path / "large.csv")]
    count, megabytes = map(int, subprocess.run(command, capture_output=True, text=True, check=True).stdout.split())
    assert count == 14_999
    assert megabytes < 100
