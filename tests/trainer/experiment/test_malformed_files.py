"""A file of a run or of an export that is cut off, zeroed, edited or of another kind is refused by its name."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from medtune.trainer.commands.cli import main
from medtune.trainer.runs.run_folder import RunFolder
from tests.soak import in_suites
from tests.trainer.conftest import Nano, Told

SHORT = ("train.max_steps=2", "eval.every_steps=1", "eval.val_questions=2", "train.save_every_steps=1")


@pytest.fixture(scope="module")
def whole(prepared_tiny: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run, and its export beside it."""
    out = tmp_path_factory.mktemp("whole") / "run"
    assert Nano(prepared_tiny).here("run", out, *SHORT) == 0
    assert main(["export", str(out), "--out", str(out.with_name("export")), "--no-proof"]) == 0
    return out


MALFORMED: dict[str, bytes] = {
    "cut off": b'{"recipe": "nano_bu',
    "zeros": bytes(300),
    "empty": b"",
    "a list": b"[1, 2]",
    "a number": b"7",
    "null": b"null",
    "UTF-16": '{"recipe": "x"}'.encode("utf-16"),
    "Latin-1": '{"recipe": "Ö"}'.encode("latin-1"),
    "deep": b"[" * 100_000,
    "many digits": b'{"recipe": ' + b"7" * 5000 + b"}",
    "wrong types": b'{"recipe": 5, "data_hash": [], "commits": 3, "patients": 1, "about": 1, "shapes": 1, "model": {}}',
    "bad numbers": b'{"recipe": NaN, "model": NaN, "about": NaN}',
}
OFTEN_SEEN = ("cut off", "zeros", "wrong types", "deep")


@pytest.mark.parametrize("content", in_suites(MALFORMED, plain=OFTEN_SEEN))
@pytest.mark.parametrize("file", ["environment.json", "checkpoints/learnt.json"])
def test_a_run_says_which_of_its_files_cannot_be_read(
    nano: Nano, whole: Path, tmp_path: Path, refused: Told, file: str, content: str
) -> None:
    run = tmp_path / "run"
    shutil.copytree(whole, run)
    (run / file).write_bytes(MALFORMED[content])
    said = refused(nano.here("train", run, *SHORT, extra=("--resume",)))
    assert file.rpartition("/")[2] in said
    assert str(run) in said
    assert "again" in said
    assert len(said.strip().splitlines()[-1]) < 1500


@pytest.mark.parametrize("content", in_suites(MALFORMED, plain=OFTEN_SEEN))
def test_an_export_says_that_its_description_cannot_be_read(
    nano: Nano, whole: Path, tmp_path: Path, refused: Told, content: str
) -> None:
    export = tmp_path / "export"
    shutil.copytree(whole.with_name("export"), export)
    (export / "medtune.json").write_bytes(MALFORMED[content])
    said = refused(nano.here("eval", tmp_path / "run", f"model.weights={export}"))
    assert str(export / "medtune.json") in said
    assert "again" in said
    assert not (tmp_path / "run").exists()


ROWS: dict[str, Callable[[bytes], bytes]] = {
    "a tail of zeros": lambda table: table[: len(table) // 2] + bytes(400),
    "zeros alone": lambda table: bytes(400),
    "no step": lambda table: table.replace(b"step", b"steps", 1),
    "a word": lambda table: table.rstrip() + b"\nx,y,z\n",
    "Latin-1": lambda table: table.rstrip() + b"\n\xd6\n",
    "many digits": lambda table: table.rstrip() + b"\n" + b"7" * 5000 + b"\n",
}


@pytest.mark.parametrize("change", list(ROWS))
def test_damaged_curves_name_the_line(nano: Nano, whole: Path, tmp_path: Path, refused: Told, change: str) -> None:
    run = tmp_path / "run"
    shutil.copytree(whole, run)
    table = run / "metrics.csv"
    table.write_bytes(ROWS[change](table.read_bytes()))
    for words in ([*nano.arguments("run", run, *SHORT), "--resume"], ["report", str(run)]):
        said = refused(main(words))
        assert f"{table}: not the table of a run; line " in said
        assert "Remove the lines from this one on" in said


def test_notes_of_early_stops_are_read_with_care(tmp_path: Path) -> None:
    run = RunFolder(tmp_path)
    run.checkpoints.mkdir()
    for content in MALFORMED.values():
        (run.checkpoints / "early_stops.json").write_bytes(content)
        with pytest.raises(ValueError, match=r"early_stops\.json"):
            _ = run.early_stops


def test_facts_of_a_checkpoint_folder_name_the_field(tmp_path: Path) -> None:
    from medtune.models.weights.divided_files import TrainedFolder

    about = tmp_path / "about.json"
    for content in (*MALFORMED.values(), json.dumps({"about": {"step": 3}, "shapes": {}}).encode(),
                    json.dumps({"about": {}, "shapes": {"a": [1, -2]}}).encode(), b'{"about": {}}'):  # fmt: skip
        about.write_bytes(content)
        with pytest.raises(ValueError, match=r"about\.json") as refused:
            TrainedFolder(tmp_path)
        assert "again" in str(refused.value)


@pytest.mark.parametrize("content", OFTEN_SEEN)
def test_notes_of_a_launcher_are_read_with_care(nano: Nano, tmp_path: Path, refused: Told, content: str) -> None:
    run = RunFolder(tmp_path / "run")
    (run.root / "launch").mkdir(parents=True)
    (run.root / "launch" / "begun_by.json").write_bytes(MALFORMED[content])
    assert "begun_by.json" in refused(nano.here("train", run.root, *SHORT))
