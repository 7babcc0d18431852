"""`medtune reproduce` makes the rows that are not there, goes on, takes equal runs, and writes the paper's table."""

import contextlib
import csv
import json
import os
import random
import shutil
import signal
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from medtune.data import catalog
from medtune.trainer.commands.cli import main
from medtune.trainer.runs.run_folder import RunFolder
from medtune.trainer.studies.report import study_report
from medtune.trainer.studies.study import open_study
from tests.ranks import Forked
from tests.soak import in_suites
from tests.trainer.conftest import Told
from tests.trainer.training.wandb_file import OfflineRun

STUDY = "fetal_gauge_tuning"
NANO = ("reproduce", STUDY, "--scale", "nano", "--wandb", "disabled", "--reuse", "nowhere")


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("study") / "nano"
    done = Forked([*NANO, "--out", str(out)])
    said, _ = done.communicate(timeout=300)
    assert done.returncode == 0, said
    return out


def study(out: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((out / "study.json").read_text("utf-8"))
    return found


def test_cells_are_those_of_the_runs(made: Path) -> None:
    found = study(made)
    assert {(cell["row"], cell["column"]) for cell in found["cells"]} == {
        (row, column) for row in ("nano", "nano 2") for column in ("before", "after", "gain")
    }
    for row in ("nano", "nano 2"):
        results = json.loads((made / "rows" / row / "results.json").read_text("utf-8"))
        ours = {cell["column"]: cell for cell in found["cells"] if cell["row"] == row}
        assert ours["before"]["ours"] == results["phases"]["zero_shot"]["overall"]["value"]
        assert ours["after"]["ci95"] == results["phases"]["final"]["overall"]["ci95"]
        assert ours["gain"]["ours"] == pytest.approx(results["gain"]["value"])
        # Of simulated data there is no difference, and the page says why.
        assert {cell["difference"] for cell in ours.values()} == {None}
        assert {cell["why"] for cell in ours.values()} == {"the data are synthetic, not the released ones"}
    assert [banner[0] for banner in found["banners"]] == ["Synthetic data"]


def test_every_file_says_that_the_data_are_synthetic(made: Path) -> None:
    for ending in ("html", "md", "tex", "csv"):
        text = (made / f"study.{ending}").read_text("utf-8")
        assert "Synthetic data" in text, ending
        assert "0.85" in text, ending
    with (made / "study.csv").open(encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    assert [float(row["published"]) for row in rows if row["row"] == "nano"] == [0.33, 0.85, 0.52]


def written(out: Path) -> dict[str, int]:
    return {str(path.relative_to(out)): path.stat().st_mtime_ns for path in sorted(out.glob("rows/*/results.json"))}


def test_finished_rows_are_kept_and_a_missing_one_is_made(
    made: Path, tmp_path: Path, shown: Told, refused: Told
) -> None:
    out = tmp_path / "nano"
    shutil.copytree(made, out)
    before = written(out)
    assert "go on with --resume" in refused(main([*NANO, "--out", str(out)]))
    cells = study(out)["cells"]
    (out / "study.json").unlink()
    said = shown(main([*NANO, "--out", str(out), "--resume"]))
    assert said.count("taken from") == 2
    assert written(out) == before
    assert study(out)["cells"] == cells


def test_an_equal_run_is_taken_whoever_made_it(made: Path, tmp_path: Path, shown: Told) -> None:
    out = tmp_path / "other"
    said = shown(main([*NANO[:-1], str(made / "rows"), "--out", str(out), "--data", str(made / "data")]))
    assert said.count("taken from") == 2
    assert not (out / "rows").exists()
    assert study(out)["cells"] == study(made)["cells"]


def test_a_study_that_was_moved_is_read_from_elsewhere(
    made: Path, tmp_path: Path, shown: Told, monkeypatch: pytest.MonkeyPatch
) -> None:
    old, new = tmp_path / "old", tmp_path / "deep" / "new"
    shutil.copytree(made, old)
    for run in old.glob("rows/*/recipe.yaml"):
        run.write_text(run.read_text("utf-8").replace(str(made), str(old)), encoding="utf-8")
    new.parent.mkdir()
    old.rename(new)
    monkeypatch.chdir(tmp_path / "deep")
    monkeypatch.setenv("SLURM_NTASKS", "1")
    (new / "study.json").unlink()
    assert shown(main([*NANO, "--out", "new", "--resume"])).count("taken from") == 2
    assert study(new)["cells"] == study(made)["cells"]


def test_rows_that_are_not_there_are_named(made: Path, tmp_path: Path, shown: Told) -> None:
    out = tmp_path / "nano"
    shutil.copytree(made, out)
    shutil.rmtree(out / "rows" / "nano 2")
    shown(main([*NANO, "--out", str(out), "--collect"]))
    found = study(out)
    assert found["missing"] == ["nano 2"]
    assert {cell["why"] for cell in found["cells"] if cell["row"] == "nano 2"} == {"no answers of ours"}


def test_another_study_other_settings_and_other_data_are_refused(made: Path, tmp_path: Path, refused: Told) -> None:
    out = tmp_path / "nano"
    shutil.copytree(made, out)
    other = ("reproduce", "fetal_gauge_main", "--scale", "pocket", "--wandb", "disabled", "--out", str(out), "--resume")
    assert f"holds the study {STUDY} at the scale nano, not fetal_gauge_main" in refused(main(other))
    longer = [*NANO, "--out", str(out), "--resume", "--set", "scales.nano.set={train.max_steps: 5}"]
    said = refused(main(longer))
    assert "row 'nano'" in said
    assert "train.max_steps is 2 there and 5 here" in said
    run = RunFolder(out / "rows" / "nano")
    recorded = run.recorded()
    run.environment.write_text(json.dumps({**recorded, "data_hash": "0" * 64}), encoding="utf-8")
    said = refused(main([*NANO, "--out", str(out), "--resume"]))
    assert "row 'nano'" in said
    assert "data.root" in said
    assert "was asked 000000000000" in said


def test_each_row_is_a_task_of_an_array_job(tmp_path: Path, made: Path, shown: Told) -> None:
    words = [*NANO, "--out", str(tmp_path / "n"), "--data", str(made / "data"), "--slurm", "time=60", "--dry"]
    said = shown(main(words))
    assert "#SBATCH --array=1-2" in said
    assert f"--out '{tmp_path / 'n' / 'rows' / 'nano 2'}'" in said
    last = said.strip().splitlines()[-1]
    assert last.endswith("--resume")
    assert "--slurm" not in last


OF_EACH_KIND = ("llava_med_tuning", "u2_bench_table2", "u2_bench_table3")
"""Several benchmarks whose rows learn, served and local rows with some left out, and a condition of its own."""


# test_study.py opens every study, and docs/reference/sizes.md is made of what every model needs.
@pytest.mark.parametrize("name", in_suites(catalog.names(catalog.STUDIES), slow=OF_EACH_KIND))
def test_what_a_study_needs_is_said_without_weights(name: str, shown: Told) -> None:
    said = shown(main(["reproduce", name, "--dry"]))
    sets = open_study(name).sets
    for each in sets:
        of = f" of {each.benchmark.title}" if len(sets) > 1 else ""
        assert f"licence of the questions and media{of}: {each.benchmark.licence}" in said
    assert "to fetch:" in said


def test_wandb_has_the_tables_and_a_row_for_each_run(made: Path, tmp_path: Path) -> None:
    out = tmp_path / "nano"
    shutil.copytree(made, out)
    done = Forked([*NANO, "--wandb", "offline", "--out", str(out), "--collect"])
    said, _ = done.communicate(timeout=120)
    assert done.returncode == 0, said
    run = OfflineRun(out)
    assert run.config()["study"] == STUDY
    assert run.config()["scale"] == "nano"
    assert run.config()["banners"][0][0] == "Synthetic data"
    runs = run.table("study/runs")
    assert [row[runs["columns"].index("row")] for row in runs["data"]] == ["nano", "nano 2"]
    # No folder of this machine is sent, nor the command, nor its name.
    sent = [run.bytes, *(path.read_bytes() for path in (run.folder / "files").rglob("*") if path.is_file())]
    assert not [word for word in (str(out), "--collect") if word.encode() in b"".join(sent)]
    assert run.run.host == ""
    paper = run.table("study/fine_tuning")
    assert [row[1] for row in paper["data"]] == ["published", "ours", "published", "ours"]
    assert len(run.table("study/cells")["data"]) == 6
    ours = {cell["column"]: cell["ours"] for cell in study(out)["cells"] if cell["row"] == "nano"}
    assert run.points()[-1]["study/fine_tuning/nano/after"] == ours["after"]


KILLS = 5


@pytest.mark.soak
def test_a_study_that_is_killed_at_seeded_moments_has_equal_cells(made: Path, tmp_path: Path) -> None:
    out, moments = tmp_path / "nano", random.Random(0)
    begun = time.monotonic()
    whole = Forked([*NANO, "--out", str(tmp_path / "timed")])
    said, _ = whole.communicate(timeout=300)
    assert whole.returncode == 0, said
    took_s = time.monotonic() - begun
    for _ in range(KILLS):
        done = Forked([*NANO, "--out", str(out), "--resume"])
        time.sleep(moments.uniform(0.05, 0.95) * took_s)
        with contextlib.suppress(ProcessLookupError):
            os.killpg(done.pid, signal.SIGKILL)
        done.communicate(timeout=60)
    last = Forked([*NANO, "--out", str(out), "--resume"])
    said, _ = last.communicate(timeout=300)
    assert last.returncode == 0, said
    assert study(out)["cells"] == study(made)["cells"]


def test_a_row_that_fills_no_cell_is_refused(made: Path) -> None:
    opened = open_study(STUDY, scale="nano")
    (table,) = opened.tables
    empty = replace(table, columns=tuple(replace(each, measure=lambda _: None) for each in table.columns))
    with pytest.raises(ValueError, match="row 'nano': its answers fill no cell of fine_tuning"):
        study_report(replace(opened, tables=(empty,)), made, data=made / "data")
