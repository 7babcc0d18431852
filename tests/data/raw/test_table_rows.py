"""Tests reading tables with Hugging Face `datasets`."""

import json
import socket
import subprocess
import sys
from pathlib import Path

import datasets
import pytest
from huggingface_hub import errors

from medtune.data.raw.rows import RowSet
from medtune.data.raw.source import HubId
from medtune.data.raw.stored_files import hub_folder
from medtune.data.raw.table_rows import file_rows, hub_rows, parsed_hub_id

PNG = b"\x89PNG\r\n\x1a\n and so on"


def rows(found: RowSet) -> list[dict[str, object]]:
    return [dict(row.values) for row in found.rows()]


def data_set() -> datasets.Dataset:
    features = datasets.Features(
        {
            "image": datasets.Image(),
            "pages": datasets.List(datasets.Image()),
            "label": datasets.ClassLabel(names=["benign", "malignant"]),
            "question": datasets.Value("string"),
        }
    )
    stored = {"bytes": PNG, "path": None}
    columns = {"image": [stored] * 3, "pages": [[stored] * 2] * 3, "label": [1, 0, 1], "question": list("abc")}
    return datasets.Dataset.from_dict(columns, features=features)


@pytest.mark.parametrize(
    "text",
    [
        "image,question\na.png,what?\nb.png,3\n",
        "\ufeffimage,question\r\na.png,what?\r\nb.png,3\r\n",
        "image;question\na.png;what?\nb.png;3\n\n",
        "sep=;\r\nimage;question\r\na.png;what?\r\n\r\nb.png;3\r\n",
        "image\t question \na.png\twhat?\n\t\nb.png\t3",
    ],
)
def test_a_csv_file_in_the_dialects_that_people_save(tmp_path: Path, text: str) -> None:
    (tmp_path / "a.csv").write_bytes(text.encode())
    found = file_rows(tmp_path / "a.csv", name="a.csv")
    assert found.columns == ("image", "question")
    assert rows(found) == [{"image": "a.png", "question": "what?"}, {"image": "b.png", "question": "3"}]


def test_a_row_of_a_csv_file_knows_its_line(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text('q,a\n"two\nlines",1\n\nnan,None\nlast\n')
    found = file_rows(tmp_path / "a.csv", name="a.csv")
    assert [row.place.row for row in found.rows()] == [2, 5, 6]
    assert rows(found)[1:] == [{"q": "nan", "a": "None"}, {"q": "last", "a": ""}]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "the file is empty"),
        (b"a;b\n\xe4\xc3\xa4;1\n", 'no table of UTF-8 text.*save it as "CSV UTF-8"'),
        (b"a,b,a \n1,2,3\n", "the column 'a' comes 2 times"),
        (b"a,b\n1,2,3\n", "the header has 2 cells, the first row 3"),
        (b"a,b\n1,2\n1,2,3\n", "line 3 has 3 cells, the header 2\\. Quote the cell"),
    ],
)
def test_a_csv_file_that_is_none(tmp_path: Path, content: bytes, message: str) -> None:
    (tmp_path / "a.csv").write_bytes(content)
    with pytest.raises(ValueError, match=rf"a\.csv: .*{message}"):
        rows(file_rows(tmp_path / "a.csv", name="a.csv"))


def test_other_files_and_broken_ones(tmp_path: Path) -> None:
    data_set().to_parquet(tmp_path / "a.parquet")
    (first, *_) = rows(file_rows(tmp_path / "a.parquet", name="a.parquet"))
    stored = {"bytes": PNG, "path": None}
    assert first == {"image": stored, "pages": [stored, stored], "label": "malignant", "question": "a"}
    (tmp_path / "b.parquet").write_bytes(b"PAR1")
    for name, message in (("b.parquet", "cannot be read as a table"), ("c.csv", "no such file"), ("d.xls", "no such")):
        with pytest.raises((ValueError, FileNotFoundError), match=message):
            file_rows(tmp_path / name, name=name)


@pytest.mark.parametrize("stream", [False, True])
def test_a_copy_of_a_hub_repository(tmp_path: Path, stream: bool) -> None:
    for split in ("train", "test"):
        (tmp_path / "copy" / "data").mkdir(parents=True, exist_ok=True)
        data_set().to_parquet(tmp_path / "copy" / "data" / f"{split}-00000-of-00001.parquet")
    found = hub_rows(HubId(str(tmp_path / "copy")), stream=stream)
    assert [(each.split, each.columns[:1]) for each in found] == [("train", ("image",)), ("test", ("image",))]
    assert [row["label"] for row in rows(found[1])] == ["malignant", "benign", "malignant"]
    with pytest.raises(ValueError, match="BuilderConfig 'x' not found"):
        hub_rows(HubId(str(tmp_path / "copy"), "x"))


def test_a_data_set_that_was_saved_to_disk(tmp_path: Path) -> None:
    datasets.DatasetDict(train=data_set(), validation=data_set()).save_to_disk(tmp_path / "saved")
    assert [each.split for each in hub_rows(tmp_path / "saved")] == ["train", "validation"]
    data_set().save_to_disk(tmp_path / "one")
    (one,) = hub_rows(tmp_path / "one")
    assert rows(one)[0]["question"] == "a"
    with pytest.raises(ValueError, match="no configuration and no revision"):
        hub_rows(HubId(str(tmp_path / "one"), revision="main"))


@pytest.mark.parametrize("suffix", ["json", "jsonl"])
def test_mixed_types_of_a_json_copy_stay_what_they_are(tmp_path: Path, suffix: str) -> None:
    values: list[dict[str, object]] = [{"answer": "x"}, {"answer": 3}, {"answer": ["a"]}]
    said = json.dumps(values) if suffix == "json" else "\n".join(map(json.dumps, values))
    (tmp_path / "copy").mkdir()
    (tmp_path / "copy" / f"train.{suffix}").write_text(said)
    (found,) = hub_rows(HubId(str(tmp_path / "copy")), stream=True)
    assert rows(found) == values


def test_code_is_refused_and_never_run(tmp_path: Path) -> None:
    (tmp_path / "evil").mkdir()
    (tmp_path / "evil" / "evil.py").write_text(f"open({str(tmp_path / 'ran')!r}, 'w')")
    with pytest.raises(ValueError, match=r"evil: this data set wants to run its own code \(evil\.py\)"):
        hub_rows(HubId(str(tmp_path / "evil")))
    assert not (tmp_path / "ran").exists()


def test_a_hub_id_that_does_not_exist_without_network(tmp_path: Path) -> None:
    say = (
        "from medtune.data.raw.table_rows import hub_rows, HubId\n"
        "try: hub_rows(HubId('nobody/nothing'))\nexcept ValueError as error: print(error)"
    )
    environment = {"HF_HUB_OFFLINE": "1", "HF_HOME": str(tmp_path), "PYTHONPATH": ":".join(sys.path)}
    done = subprocess.run([sys.executable, "-c", say], env=environment, capture_output=True, text=True, check=True)
    assert done.stdout.startswith("hf:nobody/nothing: there is no such folder, the cache has no such data set, and the")
    assert "hub cannot be reached" in done.stdout
    assert len(done.stdout.splitlines()) == 1
    with pytest.raises(FileNotFoundError, match="hf:a/b/c: no path of a folder, and no id of the hub"):
        hub_rows(HubId("a/b/c"))


def test_the_name_of_a_hub_data_set() -> None:
    for text in ("hf:a/b", "hf:a/b:c", "hf:a/b@v1", "hf:a/b:c@v1"):
        assert str(parsed_hub_id(text)) == text
    with pytest.raises(ValueError, match="wanted hf:ID"):
        parsed_hub_id("hf:")


def test_reading_loads_no_torch(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("q,a\nwhat?,yes\n")
    (tmp_path / "copy").mkdir()
    datasets.Dataset.from_dict({"q": ["what?"]}).to_parquet(tmp_path / "copy" / "a.parquet")
    say = (
        "import sys; from pathlib import Path; from medtune.data.raw.table_rows import file_rows, hub_rows\n"
        "from medtune.data.raw.table_rows import HubId; from datasets import config\n"
        "folder = Path(sys.argv[1]); there = config.TORCH_AVAILABLE; hub = HubId(str(folder / 'copy'))\n"
        "sets = [file_rows(folder / 'a.csv', name='a'), *hub_rows(hub), *hub_rows(hub, stream=True)]\n"
        "print(sum(1 for each in sets for _ in each.rows()), 'torch' in sys.modules, config.TORCH_AVAILABLE == there)"
    )
    ran = subprocess.run([sys.executable, "-c", say, str(tmp_path)], capture_output=True, text=True, check=True)
    assert ran.stdout.split() == ["3", "False", "True"]


def test_no_server_is_told_that_a_table_of_this_machine_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[object] = []

    def nobody(host: object, *_: object, **__: object) -> object:
        asked.append(host)
        raise OSError("no network")

    monkeypatch.setattr(socket, "getaddrinfo", nobody)
    (tmp_path / "a.csv").write_text("q,a\nwhat?,yes\n")
    (tmp_path / "copy").mkdir()
    datasets.Dataset.from_dict({"q": ["what?"]}).to_parquet(tmp_path / "copy" / "a.parquet")
    (tmp_path / "of_json").mkdir()
    (tmp_path / "of_json" / "a.json").write_text('[{"q": "what?"}]')
    copies = [HubId(str(tmp_path / name)) for name in ("copy", "of_json")]
    files = [file_rows(tmp_path / name, name="a") for name in ("a.csv", "copy/a.parquet")]
    for found in (
        *files,
        *(each for copy in copies for stream in (True, False) for each in hub_rows(copy, stream=stream)),
    ):
        assert len(rows(found)) == 1
    assert asked == []


@pytest.mark.parametrize(
    ("raised", "shown", "said"),
    [
        (errors.HFValidationError("bad id"), FileNotFoundError, "hf:a/b: the hub shows no such data set"),
        (errors.LocalEntryNotFoundError("offline"), ValueError, r"hf:a/b: x\.csv cannot be downloaded.*hf:FOLDER"),
        (OSError("no route"), ValueError, r"not in the cache\. Check the network"),
    ],
)
def test_what_the_hub_refuses_is_said(
    raised: Exception, shown: type[Exception], said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object, **__: object) -> str:
        raise raised

    monkeypatch.setattr("huggingface_hub.snapshot_download", refuse)
    with pytest.raises(shown, match=said):
        hub_folder(HubId("a/b"), ["x.csv"])


def test_only_the_files_that_are_needed_are_fetched(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    asked = []

    def fetch(*names: object, **settings: object) -> str:
        asked.append((*names, settings["allow_patterns"], settings["repo_type"], settings["revision"]))
        return str(tmp_path)

    monkeypatch.setattr("huggingface_hub.snapshot_download", fetch)
    (tmp_path / "x.csv").write_text("a\n")
    assert hub_folder(HubId("a/b", revision="v1"), ["x.csv", "x.zip"]) == tmp_path
    assert asked == [("a/b", ["x.csv", "x.zip"], "dataset", "v1")]


def test_a_data_set_with_none_of_the_files_is_another_one(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr("huggingface_hub.snapshot_download", lambda *_, **__: str(tmp_path / "snapshot"))
    with pytest.raises(FileNotFoundError, match=r"hf:a/b: this data set holds none of x\.csv, x\.zip"):
        hub_folder(HubId("a/b"), ["x.csv", "x.zip"])


def test_a_folder_is_a_copy_and_a_configuration_is_refused(tmp_path: Path) -> None:
    assert hub_folder(HubId(str(tmp_path)), ["x.csv"]) == tmp_path
    with pytest.raises(ValueError, match="have no configuration"):
        hub_folder(HubId("a/b", config="c"), ["x.csv"])
