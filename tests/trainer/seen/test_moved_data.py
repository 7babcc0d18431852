"""A run whose folder and whose data were moved is still read, and no report loses its pictures in silence."""

import json
import re
import shutil
from pathlib import Path

import pytest

from medtune.data.prepared.find import found_data
from medtune.trainer.commands.cli import main
from tests.trainer.conftest import Capture, Told


def prepared(folder: Path, data_hash: str) -> Path:
    folder.mkdir(parents=True)
    (folder / "manifest.json").write_text(json.dumps({"data_hash": data_hash}), encoding="utf-8")
    return folder


def test_data_are_found_as_named_above_the_run_and_beside_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    run = tmp_path / "project" / "runs" / "one"
    run.mkdir(parents=True)
    assert found_data(Path("prepared/x"), run=run, data_hash="a") == Path("prepared/x")
    beside = prepared(tmp_path / "project" / "prepared" / "renamed", "a")
    prepared(tmp_path / "project" / "prepared" / "other", "b")
    assert found_data(Path("prepared/x"), run=run, data_hash="a") == beside
    above = prepared(tmp_path / "project" / "prepared" / "x", "a")
    assert found_data(Path("prepared/x"), run=run, data_hash="a") == above
    # Other data of the same name do not count while those of the run are there.
    (above / "manifest.json").write_text('{"data_hash": "c"}', encoding="utf-8")
    assert found_data(Path("prepared/x"), run=run, data_hash="a") == beside
    assert found_data(Path("prepared/x"), run=run, data_hash="a", questions=above) == above
    shutil.rmtree(beside)
    assert found_data(Path("prepared/x"), run=run, data_hash="a") == above


@pytest.fixture
def moved(nano_run: Path, tmp_path: Path, prepared_tiny: Path) -> tuple[Path, Path]:
    run, data = tmp_path / "deep" / "there" / "run", tmp_path / "elsewhere" / "data"
    shutil.copytree(nano_run, run)
    shutil.copytree(prepared_tiny, data)
    recipe = run / "recipe.yaml"
    recipe.write_text(recipe.read_text("utf-8").replace(str(prepared_tiny), "gone/data"), encoding="utf-8")
    return run, data


def test_a_report_is_not_replaced_by_a_poorer_one(moved: tuple[Path, Path], refused: Told, shown: Told) -> None:
    run, data = moved
    before = (run / "report.html").read_bytes()
    assert before.count(b"data:image/jpeg") > 0
    assert "Give the folder by --questions DIR" in refused(main(["report", str(run)]))
    assert (run / "report.html").read_bytes() == before
    shown(main(["report", str(run), "--questions", str(data)]))
    after = (run / "report.html").read_bytes()
    assert after.count(b"data:image/jpeg") == before.count(b"data:image/jpeg")
    shutil.move(data, run.parent / "mine")
    shown(main(["report", str(run)]))
    assert (run / "report.html").read_bytes() == after


def test_verbs_that_read_a_run_say_how_its_data_are_named(moved: tuple[Path, Path], refused: Told, shown: Told) -> None:
    run, data = moved
    for verb in (["explain"], ["power", "--gain", "0.1", "--run"], ["audit"]):
        assert "Name it: --questions DIR" in refused(main([*verb, str(run)])), verb
    assert "counts" in shown(main(["explain", str(run), "--questions", str(data)]))


def test_predict_refuses_data_that_were_prepared_anew_in_the_same_place(
    moved: tuple[Path, Path], tmp_path: Path, refused: Told
) -> None:
    run, data = moved
    shutil.move(data, run.parent / "gone" / "data")
    manifest = run.parent / "gone" / "data" / "manifest.json"
    manifest.write_text(re.sub(r'("data_hash": ")\w{4}', r"\1beef", manifest.read_text("utf-8")), encoding="utf-8")
    said = refused(main(["predict", str(run), "--from", str(manifest.parent), "--out", str(tmp_path / "a.csv")]))
    assert f"{manifest.parent}: it holds other data (hash beef" in said
    assert "name the folder whose questions count: --set data.root=DIR" in said
    assert not (tmp_path / "a.csv").exists()


def test_a_run_folder_in_the_place_of_a_recipe_says_how_the_run_goes_on(nano_run: Path, refused: Told) -> None:
    assert f"`medtune run RECIPE --out {nano_run} --resume`" in refused(main(["run", str(nano_run)]))


def test_a_missing_folder_names_where_it_was_looked_for_and_the_one_beside_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, refused: Told, capsys: Capture
) -> None:
    prepared(tmp_path / "prepared" / "mine", "a")
    monkeypatch.chdir(tmp_path)
    said = f"below {tmp_path}, where paths begin. Did you mean 'mine'?"
    assert main(["validate", "nano_busi_lora", "--no-weights", "--set", "data.root=prepared/mien"]) == 1
    assert said in capsys.readouterr().out
    assert said in refused(main(["audit", "vqa", "--questions", "prepared/mien"]))
