"""Every benchmark's README has the same sections, commands that medtune takes, and numbers that its paper prints."""

import json
import re
import shlex
from pathlib import Path

import pytest

from medtune.benchmarks import find_benchmark, names
from medtune.data import catalog
from medtune.trainer.commands.cli import parser
from medtune.trainer.recipe.read import read_recipe

ROOM = Path(__file__).resolve().parents[2] / "medtune" / "benchmarks"
SECTIONS = [
    "What it asks", "Licence", "Where to get it", "Prepare and score", "What the paper reports", "Ours and official",
    "Traps",
]  # fmt: skip
REPORTED = SECTIONS[4]
LONGEST = 110
BENCHMARKS = [name for name in names() if (ROOM / name).is_dir()]
FOLDERS = [*BENCHMARKS, "public_sets", "simulators"]
COMMANDS = [
    pytest.param(folder, command, id=f"{folder}: {command}")
    for folder in FOLDERS
    for command in re.findall(r"^ {4}(medtune .*)$", (ROOM / folder / "README.md").read_text("utf-8"), re.MULTILINE)
]
CITED = re.compile(r"arXiv \d+\.\d+|doi:\S+|Tables? A?\d+(, A\d+)*|section \d+|`[^`]*`")


def read(folder: str) -> str:
    return (ROOM / folder / "README.md").read_text("utf-8")


def sections(text: str) -> dict[str, str]:
    parts = re.split(r"^## (.*)$", text, flags=re.MULTILINE)
    return dict(zip(parts[1::2], parts[2::2], strict=True))


def quoted_numbers(text: str) -> list[float]:
    """Returns the numbers of a section but for those in citations and in a table's first column, which names models."""
    lines = (re.sub(r"^\|[^|]*\|", "|", line) for line in text.splitlines())
    plain = CITED.sub(" ", "\n".join(lines))
    plain = re.sub(r"\b(Gemini|GPT|Seed|M3D|3D)[ -]?\d[\w.]*", " ", plain)
    plain = re.sub(r"\b(M3D-LaMed|Med3DVLM|m3d_vqa)\b", " ", plain)
    return [float(number.replace(",", "")) for number in re.findall(r"\d[\d,]*(?:\.\d+)?", plain)]


def numbers_within(value: object) -> set[float]:
    if isinstance(value, dict):
        return set().union(*map(numbers_within, value.values()))
    if isinstance(value, list):
        return set().union(*map(numbers_within, value))
    return {float(value)} if isinstance(value, int | float) else set()


@pytest.mark.parametrize("name", BENCHMARKS)
def test_a_benchmark_has_a_page_with_the_same_sections_as_the_others(name: str) -> None:
    text = read(name)
    assert text.startswith(f"# {name}: ")
    found = sections(text)
    assert list(found) == SECTIONS
    assert all(body.strip() for body in found.values())
    assert len(text.splitlines()) <= LONGEST
    assert any(f"medtune prepare {name} " in line for line in text.splitlines())
    assert f"medtune score {name} " in found["Prepare and score"]


@pytest.mark.parametrize(("folder", "command"), COMMANDS)
def test_a_command_is_one_that_medtune_takes(folder: str, command: str) -> None:
    options = parser().parse_args(shlex.split(command)[1:])
    verb = command.split()[1]
    if verb in ("prepare", "score"):
        benchmark = find_benchmark(options.benchmark)
        assert verb == "score" or (options.source or benchmark.sources[0]) in benchmark.sources
        assert verb == "prepare" or (options.parser or "likelihood") in (*benchmark.parsers, "likelihood")
    if verb in ("run", "eval"):
        assert options.recipe in catalog.names(catalog.RECIPES)
        find_benchmark(read_recipe(options.recipe, options.overrides).data.benchmark)


@pytest.mark.parametrize("name", BENCHMARKS)
def test_a_number_quoted_from_the_paper_is_one_that_it_prints(name: str) -> None:
    quoted = quoted_numbers(sections(read(name))[REPORTED])
    file = ROOM / name / "published.json"
    if not file.is_file():
        assert not quoted
        return
    assert quoted
    printed = numbers_within(json.loads(file.read_text("utf-8")))
    assert sorted(set(quoted) - printed) == []


def test_a_number_that_no_paper_prints_would_be_found() -> None:
    text = "From Table 1 (arXiv 2505.17779):\n\n| Qwen2.5-VL-7B | 0.2235 |\nand 1,234 questions, GPT-5"
    assert quoted_numbers(text) == [0.2235, 1234.0]


def test_a_simulated_or_public_folder_has_a_short_page() -> None:
    for folder in ("public_sets", "simulators"):
        assert read(folder).startswith(f"# {folder}: ")
        assert len(read(folder).splitlines()) <= 50
    sets = catalog.names(catalog.PUBLIC_SETS)
    assert all(f"| `{name}` |" in read("public_sets") for name in sets)
