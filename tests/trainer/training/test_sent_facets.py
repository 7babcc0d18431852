"""Columns of a user's table stay on his machine, unless the recipe names them."""

from pathlib import Path

import pytest
import wandb

from medtune.benchmarks import find_benchmark
from medtune.data.types import Provenance
from medtune.trainer.commands.cli import main
from medtune.trainer.recipe.schema import LogBlock
from medtune.trainer.training.dashboard.sent_facets import sent_facets
from tests.benchmarks.vqa.own_data import pictures
from tests.trainer.conftest import QUICK, Capture
from tests.trainer.training.wandb_file import OfflineRun

PHYSICIANS, REMARKS, WARDS = (
    ("Dr. Meier", "Dr. Sahin"),
    ("mother insists, task=choice/x", "none"),
    ("ward 3/B", "ward 4"),
)


@pytest.mark.parametrize(
    ("benchmark", "provenance", "named", "kept", "dropped"),
    [
        ("vqa", "synthetic", (), ["comment=a/b", "task=Dr. M"], []),
        (
            "vqa",
            "released",
            (),
            ["task=choice", "task=labels", "look_alike_in_train=no"],
            ["comment=a/b", "task=Dr. M"],
        ),
        ("vqa", "released", ("ward",), ["ward=3/B", "task=text"], ["comment=ward", "wards=1", "task=choice/x"]),
        ("vqa", "reconstruction", ("task",), ["task=Dr. M"], ["ward=3"]),
        ("u2_bench", "released", (), ["task=OD", "cross_validation_fold=1"], ["comment=a"]),
    ],
)
def test_a_metric_is_sent_by_the_facet_in_its_name(
    benchmark: str, provenance: Provenance, named: tuple[str, ...], kept: list[str], dropped: list[str]
) -> None:
    facets = sent_facets(find_benchmark(benchmark), LogBlock(facets=named), provenance)
    assert all(facets.keeps(f"{phase}/{level}/accuracy_n") for level in kept for phase in ("final", "val"))
    assert not any(facets.keeps(f"{phase}/{level}/accuracy_n") for level in dropped for phase in ("final", "val"))
    assert [facets.takes(*level.split("=", 1)) for level in (*kept, *dropped)] == (
        [True] * len(kept) + [False] * len(dropped)
    )
    assert facets.keeps("train/loss")
    assert facets.keeps("final/image/robust/accuracy")


@pytest.fixture(scope="module")
def own(tmp_path_factory: pytest.TempPathFactory) -> Path:
    raw = tmp_path_factory.mktemp("ward") / "raw"
    rows = ["image,question,answer,patient,split,task,Zuweisung,seen,ward"]
    for number, picture in enumerate(pictures(raw, 30)):
        split = "train" if number < 15 else "val" if number < 20 else "test"
        asked = ("Is it a cyst?", ("yes", "no")[number % 3 // 2])
        about = (
            PHYSICIANS[number % 2],
            PHYSICIANS[number % 2],
            REMARKS[number % 2].replace(",", ";"),
            WARDS[number % 2],
        )
        rows.append(",".join([picture, *asked, f"p{number}", split, *about]))
    (raw / "data.csv").write_text("\n".join(rows))
    out = raw.parent / "prepared"
    assert main(["prepare", "vqa", "--from", str(raw), "--out", str(out)]) == 0
    return out


@pytest.mark.slow
@pytest.mark.parametrize("named", [(), ("ward",)])
def test_free_text_and_physicians_do_not_reach_wandb(
    own: Path, named: tuple[str, ...], tmp_path: Path, capsys: Capture
) -> None:
    settings = ["data.benchmark=vqa", f"data.root={own}", *QUICK, "log.wandb=offline", "log.images=never"]
    settings += [f"log.facets=[{','.join(named)}]"]
    assert main(["run", "nano_busi_lora", "--out", str(tmp_path / "run"), "--set", *settings]) == 0, capsys.readouterr()
    here = (tmp_path / "run" / "results.json").read_text()
    assert all(text in here for text in (*PHYSICIANS, "mother insists", *WARDS))
    assert "Zuweisung" not in here
    # W&B's own process writes the file; when it has ended, the file is whole.
    wandb.teardown()
    offline = OfflineRun(tmp_path / "run")
    files = [path for path in (offline.folder / "files").rglob("*") if path.is_file()]
    sent = b"".join([offline.bytes, *(each.read_bytes() for each in (*files, *offline.artifact_files().values()))])
    assert [text for text in (*PHYSICIANS, "mother insists", "Zuweisung", "seen=") if text.encode() in sent] == []
    assert [text for text in WARDS if text.encode() in sent] == (list(WARDS) if named else [])
    assert b"test, before and after" in sent


def test_a_facet_that_there_is_not_is_refused(own: Path, tmp_path: Path, capsys: Capture) -> None:
    settings = ["data.benchmark=vqa", f"data.root={own}", *QUICK, "log.facets=[wrad]"]
    assert main(["run", "nano_busi_lora", "--out", str(tmp_path / "run"), "--set", *settings]) == 1
    assert "log.facets names 'wrad', by which there are no scores; there are: task, " in capsys.readouterr().err
