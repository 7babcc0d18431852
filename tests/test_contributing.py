"""CONTRIBUTING's listings, written into an empty folder outside the checkout, are found, listed, checked and run."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.ranks import Forked, medtune_forked

ROOT = Path(__file__).resolve().parents[1]
LISTINGS = dict(
    re.findall(
        r"^\*\*(my_plugin/[\w/]+\.(?:py|yaml))\*\*\n\n```\w+\n(.*?)^```$",
        (ROOT / "CONTRIBUTING.md").read_text("utf-8"),
        re.MULTILINE | re.DOTALL,
    )
)
MADE = [
    ("benchmarks", "skin_marks"),
    ("sources", "skin_marks"),
    ("sources", "ward_list"),
    ("recipes", "skin_marks_lora"),
    ("metrics", "balanced_accuracy"),
    ("projectors", "average"),
    ("towers", "patches"),
    ("losses", "focal"),
    ("families", "vip_llava"),
    ("models", "nano_vip_llava"),
    ("models", "vip_llava_7b"),
]
WRITE_RAW = "from medtune.benchmarks import find_source; from medtune.data.plugins import name_folders; \
from pathlib import Path; name_folders([Path('my_plugin')]); find_source('skin_marks').write_example(Path('raw'))"


@pytest.fixture(scope="module")
def outside(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder that holds the listings alone, and the raw files that the source's own example writes."""
    folder = tmp_path_factory.mktemp("outside")
    for name, text in LISTINGS.items():
        file = folder / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, "utf-8")
    python(folder, "-c", WRITE_RAW)
    return folder


def around(folder: Path) -> dict[str, str]:
    """Returns the variables with which the package comes from this checkout."""
    return {"PYTHONPATH": str(ROOT), "XDG_CONFIG_HOME": str(folder / "config")}


def python(folder: Path, *arguments: str) -> str:
    """Returns what a new Python in the folder prints."""
    command, variables = [sys.executable, *arguments], {**os.environ, **around(folder)}
    done = subprocess.run(command, cwd=folder, env=variables, capture_output=True, text=True, check=False, timeout=500)
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]
    return done.stdout


def medtune(folder: Path, *arguments: str) -> str:
    """Returns what a command in the folder prints; its process is forked from one that knows nothing of plugins."""
    return medtune_forked(*arguments, folder=folder, environment=around(folder))


def assert_listed(said: str, name: str, plugin: Path) -> None:
    (line,) = [line for line in said.splitlines() if line.split()[:1] == [name]]
    assert line.endswith(f"[{plugin}]")


def test_each_extension_is_listed_with_its_folder(outside: Path) -> None:
    for kind in sorted({kind for kind, _ in MADE}):
        said = medtune(outside, "--plugins", "my_plugin", "list", kind, "--all")
        for name in [name for of_kind, name in MADE if of_kind == kind]:
            assert_listed(said, name, outside / "my_plugin")


def test_a_new_python_finds_the_plugin_too(outside: Path) -> None:
    said = python(outside, "-m", "medtune", "--plugins", "my_plugin", "list", "metrics", "--all")
    assert_listed(said, "balanced_accuracy", outside / "my_plugin")
    assert "balanced_accuracy" not in python(outside, "-m", "medtune", "list", "metrics", "--all")


def test_every_listing_keeps_its_contract(outside: Path) -> None:
    said = medtune(outside, "check", "my_plugin")
    assert f"{len(MADE)} extensions checked, 0 failed" in said
    assert {tuple(line.split()[1:3]) for line in said.splitlines() if line.startswith("ok")} == set(MADE)


def test_benchmark_metric_recipe_and_family_run_from_end_to_end(outside: Path) -> None:
    medtune(outside, "--plugins", "my_plugin", "prepare", "skin_marks", "--from", "raw", "--out", "prepared/skin_marks")
    medtune(
        outside,
        "run",
        "skin_marks_lora",
        "--plugins",
        "my_plugin",
        "--out",
        "run",
        "--set",
        "model.name=nano_vip_llava",
        "train.loss.name=focal",
        "train.loss.settings.gamma=1",
    )
    results = json.loads((outside / "run" / "results.json").read_text("utf-8"))
    assert results["benchmark"] == "skin_marks"
    assert results["model"] == "nano_vip_llava"
    assert set(results["phases"]["final"]["metrics"]["image"]["robust"]) >= {"accuracy", "dark_missed"}
    # A run that is read brings no code, also where it lies beside the plugin that it was made with.
    refused = Forked(["report", "run"], folder=outside, environment=around(outside))
    assert "asks for code in the folder" in refused.communicate(60)[0]
    assert refused.returncode == 1
    assert "report.html" in medtune(outside, "--plugins", "my_plugin", "report", "run")
    assert "audit.json" in medtune(outside, "--plugins", "my_plugin", "audit", "run")


@pytest.mark.slow
def test_benchmark_runs_on_two_processes_with_the_recipe_of_the_page(outside: Path) -> None:
    medtune(outside, "--plugins", "my_plugin", "prepare", "skin_marks", "--from", "raw", "--out", "prepared/again")
    settings = ["data.root=prepared/again", "train.devices=2", "train.micro_batch_size=2"]
    medtune(outside, "--plugins", "my_plugin", "run", "skin_marks_lora", "--out", "two", "--set", *settings)
    assert (outside / "two" / "results.json").is_file()


def test_a_source_is_added_to_a_benchmark_of_medtunes(outside: Path) -> None:
    python(outside, "-c", WRITE_RAW.replace("skin_marks", "ward_list").replace("'raw'", "'ward'"))
    made = ["--source", "ward_list", "--from", "ward", "--out", "prepared/ward"]
    said = medtune(outside, "--plugins", "my_plugin", "prepare", "vqa", *made)
    assert "ward_list (released)" in said
    assert sum(int(count) for count in re.findall(r"(\d+) questions", said)) == 12


def test_projector_and_tower_run_from_end_to_end(outside: Path, prepared_ct: Path) -> None:
    settings = [f"data.root={prepared_ct}", "model.vision=patches", "model.projector=average", "train.max_steps=2"]
    medtune(
        outside, "--plugins", "my_plugin", "run", "nano_ct_lora", "--out", "run_ct",
        "--set", *settings, "log.wandb=disabled", "eval.conditions=[image]",
    )  # fmt: skip
    results = json.loads((outside / "run_ct" / "results.json").read_text("utf-8"))
    assert set(results["phases"]) == {"zero_shot", "final"}
