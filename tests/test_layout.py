"""The house: links at the front door, unique import names, files of a readable size."""

import ast
import functools
import re
import subprocess
import sys
from collections.abc import Callable, Iterable
from pathlib import Path

import pytest

from medtune.data import catalog
from tests.soak import PARTS

ROOT = Path(__file__).resolve().parents[1]
ROOMS = ("trainer", "models", "data", "benchmarks", "recipes", "eval")
PYTHON_FILES = sorted(
    file for room in ("medtune", "bench", "examples", "tests", "website") for file in (ROOT / room).rglob("*.py")
)


@pytest.fixture(scope="module")
def tree_of() -> Callable[[Path], ast.Module]:
    """Parses a file once for all tests here, which takes 3 s for all of the package."""
    return functools.cache(lambda file: ast.parse(file.read_text("utf-8")))


@pytest.mark.parametrize("room", ROOMS)
def test_room_stands_at_the_front_door(room: str) -> None:
    link = ROOT / room
    if not link.is_symlink():
        pytest.skip("this copy of the tree has no links")
    assert link.readlink() == Path("medtune") / room
    assert link.resolve() == ROOT / "medtune" / room


def test_the_door_opens_without_torch() -> None:
    code = (
        "import sys; from medtune.trainer.commands.cli import main; main(['list', 'recipes']); "
        "print([name for name in ('torch', 'numpy', 'transformers', 'yaml') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "[]"


NAMES_THAT_SAY_NOTHING = {"utils", "helpers", "common", "base", "manager"}


def badly_named(files: Iterable[Path]) -> list[str]:
    return [str(file) for file in files if NAMES_THAT_SAY_NOTHING & {file.stem, file.parent.name}]


def test_every_name_of_a_file_says_what_is_in_it() -> None:
    assert len(PYTHON_FILES) > 500
    assert badly_named(PYTHON_FILES) == []


def test_all_wrong_files_are_named_at_once(tmp_path: Path) -> None:
    files = [tmp_path / name for name in ("right.py", "utils.py", "base/right.py")]
    assert badly_named(files) == [str(files[1]), str(files[2])]


def test_no_registry_host_or_download_address_is_pinned() -> None:
    for file in ("constraints.txt", "hashes.txt", "pyproject.toml", "Makefile"):
        assert "://" not in (ROOT / file).read_text("utf-8")


ORDINARY_WORDS = {"table", "hf"}
"""Names of sources that the other rooms use as words: any table, and the prefix of a hub id."""
NAMED_BY_BENCHMARKS = {*catalog.names(catalog.BENCHMARKS), *catalog.names(catalog.SOURCES)} - ORDINARY_WORDS
ROOMS_THAT_NAME_NO_BENCHMARK = ("data", "eval", "models", "trainer", "api")


def strings_outside_docstrings(tree: ast.Module) -> list[str]:
    lone = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    constants = (node for node in ast.walk(tree) if isinstance(node, ast.Constant) and id(node) not in lone)
    return [node.value for node in constants if isinstance(node.value, str)]


def modules_imported(tree: ast.Module) -> list[str]:
    found = []
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module:
            found += [node.module, *(f"{node.module}.{alias.name}" for alias in node.names)]
        elif isinstance(node, ast.Import):
            found += [alias.name for alias in node.names]
    return found


def names_in(text: str) -> set[str]:
    return NAMED_BY_BENCHMARKS & set(re.findall(r"\w+", text))


@pytest.mark.parametrize("room", ROOMS_THAT_NAME_NO_BENCHMARK)
def test_nothing_outside_benchmarks_names_a_benchmark_or_a_source(
    room: str, tree_of: Callable[[Path], ast.Module]
) -> None:
    named = []
    for file in sorted((ROOT / "medtune" / room).rglob("*.py")):
        tree = tree_of(file)
        texts = strings_outside_docstrings(tree) + modules_imported(tree)
        named += [f"{file.relative_to(ROOT)}: {name} in {text!r}" for text in texts for name in names_in(text)]
    assert not named


def test_a_named_benchmark_would_be_found() -> None:
    code = [
        '"""About busi."""',
        "from medtune.benchmarks.u2_bench import tasks_and_sets",
        'DEFAULT = "ct_phantom, small"',
    ]
    tree = ast.parse("\n".join(code))
    texts = strings_outside_docstrings(tree) + modules_imported(tree)
    assert {name for text in texts for name in names_in(text)} == {"u2_bench", "ct_phantom"}


def test_every_test_of_the_soak_belongs_to_one_of_its_parts() -> None:
    folders = [f"tests/{folder}/" for of_part in PARTS.values() for folder in of_part]
    soaked = [str(file.relative_to(ROOT)) for file in (ROOT / "tests").rglob("test_*.py")]
    soaked = [
        name for name in soaked if "mark.soak" in (ROOT / name).read_text("utf-8") and name != "tests/test_layout.py"
    ]
    assert soaked
    assert [name for name in soaked if not name.startswith(tuple(folders))] == []
    assert len(folders) == len(set(folders))
    assert all((ROOT / folder).is_dir() for folder in folders)


MOST_FILES = 15
MAY_HOLD_MORE = {"medtune/models/sequence", "medtune/recipes"}


def test_a_folder_holds_at_most_fifteen_files() -> None:
    count: dict[str, int] = {}
    for file in PYTHON_FILES:
        folder = str(file.parent.relative_to(ROOT))
        count[folder] = count.get(folder, 0) + (file.name != "__init__.py")
    full = {folder for folder, files in count.items() if files > MOST_FILES} - MAY_HOLD_MORE
    # A benchmark's own folder may hold more.
    assert {folder for folder in full if Path(folder).parent != Path("medtune/benchmarks")} == set()


NAMED_TWICE = {"_Reader"}
"""The names of classes that stand for several things: what reads the tables of a source, inside each source."""


def test_a_class_has_a_name_of_its_own(tree_of: Callable[[Path], ast.Module]) -> None:
    found: dict[str, set[Path]] = {}
    for file in (ROOT / "medtune").rglob("*.py"):
        for node in ast.walk(tree_of(file)):
            if isinstance(node, ast.ClassDef):
                found.setdefault(node.name, set()).add(file)
    assert {name for name, files in found.items() if len(files) > 1} - NAMED_TWICE == set()


def constants_behind(tree: ast.Module) -> list[str]:
    """The constants that stand behind the first function or class, though they need nothing that the module defines."""
    needed: set[str] = set()
    behind: list[str] = []
    for statement in tree.body:
        match statement:
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
                needed.add(name)
            case ast.Assign() | ast.AnnAssign() if needed:
                names = [node for node in ast.walk(statement) if isinstance(node, ast.Name)]
                own = {node.id for node in names if isinstance(node.ctx, ast.Store)}
                if needed & {node.id for node in names}:
                    needed |= own
                else:
                    behind += sorted(own)
            case ast.If() | ast.Try() | ast.For() | ast.With() if needed:
                needed |= {node.id for node in ast.walk(statement) if isinstance(node, ast.Name)}
            case _:
                pass
    return behind


def test_constants_stand_on_top(tree_of: Callable[[Path], ast.Module]) -> None:
    behind = {
        str(file.relative_to(ROOT)): found
        for room in ("medtune", "bench")
        for file in (ROOT / room).rglob("*.py")
        if (found := constants_behind(tree_of(file)))
    }
    assert behind == {}


def test_a_constant_behind_a_function_would_be_found() -> None:
    tree = ast.parse("A = 1\ndef f(): ...\nB: int = 2\nC = f()\nD = C + A\nE, F = A, B\n")
    assert constants_behind(tree) == ["B", "E", "F"]
