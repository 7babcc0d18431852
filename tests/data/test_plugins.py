"""Extensions outside the package: in folders, in installed packages, twice under one name, and broken."""

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from medtune.data import catalog
from medtune.data.catalog import METRICS, MODELS, PROJECTORS, RECIPES, SOURCES, TOWERS
from medtune.data.plugins import ROOT_PACKAGE, add_folders, name_folders, plugin_arguments, plugins

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(autouse=True)
def no_plugins_left() -> Iterator[None]:
    yield
    name_folders([])


def written(folder: Path, name: str, text: str) -> Path:
    file = folder / name
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text, "utf-8")
    return folder


def made(name: str) -> object:
    """Returns what the function of a metric's module gives."""
    make = catalog.load(METRICS, name)
    assert callable(make)
    return make()


def test_names_of_a_folder_are_found_and_bear_its_path(tmp_path: Path) -> None:
    written(tmp_path, "metrics/mine.py", '"""Mine."""\n\n\ndef metric():\n    return 7\n')
    written(tmp_path, "metrics/_shared.py", "def metric():\n    return 8\n")
    written(tmp_path, "metrics/words.py", "NUMBER = 1\n")
    written(tmp_path, "recipes/my_recipe.yaml", "# My recipe.\n")
    name_folders([tmp_path])
    found = catalog.find(METRICS, "mine")
    assert (found.origin, found.first_line(), made("mine")) == (str(tmp_path), "Mine.", 7)
    assert not {"_shared", "words"} & set(catalog.names(METRICS))
    assert catalog.find(RECIPES, "my_recipe").first_line() == "My recipe."
    assert catalog.find(METRICS, "accuracy").origin == catalog.MEDTUNE


def test_a_file_may_hold_several_models_each_a_function_by_its_name(tmp_path: Path) -> None:
    rows = "".join(
        f'def {name}() -> ZooEntry:\n    """Says {name}."""\n    return "{name}"\n\n\n' for name in ("a1", "b2")
    )
    hidden = "def _c() -> ZooEntry:\n    return 3\n\n\ndef d() -> int:\n    return 4\n"
    written(tmp_path, "models/several.py", f"ZooEntry = str\n\n\n{rows}{hidden}")
    written(tmp_path, "towers/several.py", f"ZooEntry = str\n\n\n{rows}")
    name_folders([tmp_path])
    there = {name: each for name, each in catalog.extensions(MODELS).items() if each.origin == str(tmp_path)}
    assert {name: each.first_line() for name, each in there.items()} == {"a1": "Says a1.", "b2": "Says b2."}
    assert [each.load()() for each in there.values()] == ["a1", "b2"]  # type: ignore[operator]
    assert not {"a1", "several"} & set(catalog.names(TOWERS))


def test_two_folders_of_one_name_do_not_clash_and_no_bare_name_is_imported(tmp_path: Path) -> None:
    for number in (1, 2):
        folder = written(tmp_path / str(number) / "mine", "metrics/_shared.py", f"NUMBER = {number}\n")
        written(folder, f"metrics/m{number}.py", "from ._shared import NUMBER\n\n\ndef metric():\n    return NUMBER\n")
    name_folders([tmp_path / "1" / "mine", tmp_path / "2" / "mine"])
    assert [made(f"m{number}") for number in (1, 2)] == [1, 2]
    assert "metrics" not in sys.modules
    assert sum(name.startswith(f"{ROOT_PACKAGE}.mine_") and name.endswith("._shared") for name in sys.modules) == 2


def test_a_source_lies_beside_its_benchmark_or_in_its_folder(tmp_path: Path) -> None:
    both = "def benchmark():\n    ...\n\n\ndef source():\n    ...\n"
    written(tmp_path, "benchmarks/one_file.py", both)
    written(tmp_path, "benchmarks/large/__init__.py", "def benchmark():\n    ...\n")
    written(tmp_path, "benchmarks/large/sources/inside.py", "def source():\n    ...\n")
    written(tmp_path, "benchmarks/no_benchmark.py", "def source():\n    ...\n")
    name_folders([tmp_path])
    assert {"one_file", "inside"} <= set(catalog.names(SOURCES))
    assert not {"large", "no_benchmark"} & set(catalog.names(SOURCES))


def test_a_name_that_exists_twice_names_both_places(tmp_path: Path) -> None:
    written(tmp_path, "metrics/accuracy.py", "def metric():\n    ...\n")
    name_folders([tmp_path])
    with pytest.raises(ValueError, match=r"'accuracy' exists twice, in .*metrics/accuracy\.py \(medtune\) and in "):
        catalog.names(METRICS)
    assert catalog.names(PROJECTORS)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("def metric(:\n    ...\n", r"mine\.py, line 1: SyntaxError"),
        ("import math\nimport no_such\n\n\ndef metric():\n    ...\n", r"mine\.py, line 2: ModuleNotFoundError: No mod"),
        ("def metric():\n    ...\n\n\n1 / 0\n", r"mine\.py, line 5: ZeroDivisionError"),
    ],
)
def test_a_broken_module_is_named_with_the_line(tmp_path: Path, text: str, message: str) -> None:
    written(tmp_path, "metrics/mine.py", text)
    name_folders([tmp_path])
    with pytest.raises(ValueError, match=message):
        catalog.load(METRICS, "mine")
    assert catalog.load(METRICS, "accuracy")


def test_a_folder_that_is_missing_is_named(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match=r"^--plugins: there is no plugin folder .*nowhere\. Name the folder"):
        name_folders([tmp_path / "nowhere"])
    with pytest.raises(FileNotFoundError, match=r"^a\.yaml, plugins: there is no plugin folder"):
        add_folders([tmp_path / "nowhere"], named_by="a.yaml, plugins")


def test_folders_of_recipes_are_left_out_of_the_next_command(tmp_path: Path) -> None:
    (tmp_path / "one").mkdir()
    (tmp_path / "two").mkdir()
    name_folders([tmp_path / "one"])
    add_folders([tmp_path / "two"], named_by="a recipe")
    assert plugin_arguments() == ["--plugins", str(tmp_path / "one")]
    assert [plugin.root.name for plugin in plugins()] == ["one", "two"]
    name_folders([])
    assert plugins() == ()


def test_an_installed_package_is_found_by_its_entry_point(tmp_path: Path) -> None:
    written(tmp_path, "acme_tune/__init__.py", "")
    written(tmp_path, "acme_tune/metrics/acme.py", '"""Acme\'s."""\n\n\ndef metric():\n    ...\n')
    about = "Metadata-Version: 2.1\nName: acme-tune\nVersion: 1.0\n"
    written(tmp_path, "acme_tune-1.0.dist-info/METADATA", about)
    written(tmp_path, "acme_tune-1.0.dist-info/entry_points.txt", "[medtune.plugins]\nacme = acme_tune\n")
    command = [sys.executable, "-m", "medtune", "list", "metrics"]
    around = {**os.environ, "PYTHONPATH": f"{ROOT}{os.pathsep}{tmp_path}"}
    done = subprocess.run(command, env=around, capture_output=True, text=True, check=True, cwd=tmp_path)
    assert "Acme's.  [acme-tune]" in done.stdout
    (tmp_path / "acme_tune").rename(tmp_path / "gone")
    done = subprocess.run(command, env=around, capture_output=True, text=True, check=False, cwd=tmp_path)
    assert done.returncode == 1
    assert "acme-tune names 'acme_tune' in the entry-point group medtune.plugins" in done.stderr
