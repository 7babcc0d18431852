"""Runs the commands of docs/your_data.md on its tables, each completed and saved under the name that they read."""

import re
import shlex
from pathlib import Path

import numpy as np
import pytest

from medtune.data.media.volumes.formats.nifti import write_nifti
from medtune.trainer.commands.cli import main
from tests.trainer.experiment.test_videos_and_scans import write_video
from tests.trainer.own_data.forms import picture
from tests.trainer.own_data.test_forms import QUICK

PAGE = Path(__file__).resolve().parents[3] / "docs" / "your_data.md"
BLOCKS = [
    [line.strip() for line in block.splitlines()]
    for block in re.findall(r"(?:^ {4}\S.*\n)+", PAGE.read_text("utf-8"), re.MULTILINE)
]
COMMANDS = [shlex.split(line)[1:] for block in BLOCKS for line in block if line.startswith("medtune ")]
_FILE = re.compile(r"([\w/]+?)(\d{3,4})(\.png|\.mp4|\.nii\.gz)")


def tables() -> dict[str, list[str]]:
    """Returns the lines of each table by the name that the command below it gives it; the first is step 2's."""
    found: dict[str, list[str]] = {}
    waiting: list[list[str]] = []
    for block in BLOCKS:
        if not block[0].startswith("medtune "):
            waiting.append(block)
        elif waiting and "--from" in block[0]:
            words = shlex.split(block[0])
            found[words[words.index("--from") + 1]] = waiting.pop()
    return found


def completed(lines: list[str]) -> list[str]:
    """Returns the table with three copies of its rows more, about other files and patients."""

    def moved(row: str, by: int) -> str:
        other = _FILE.sub(lambda file: f"{file[1]}{int(file[2]) + 10 * by:0{len(file[2])}}{file[3]}", row)
        return re.sub(r"\bP(\d+)", lambda patient: f"P{int(patient[1]) + 3 * by}", other)

    header, *rows = lines
    return [header, *(moved(row, by) for by in range(4) for row in rows)]


def write_media(text: str, folder: Path) -> None:
    for seed, (start, number, suffix) in enumerate(dict.fromkeys(_FILE.findall(text))):
        path = folder / f"{start}{number}{suffix}"
        path.parent.mkdir(parents=True, exist_ok=True)
        if suffix == ".png":
            picture(path, seed)
        elif suffix == ".mp4":
            write_video(path, 0.5, seed)
        else:
            scan_IJK = np.random.default_rng(seed).integers(-1000, 1000, (16, 16, 12)).astype(np.int16)
            write_nifti(path, scan_IJK, np.diag([2.0, 2, 5, 1]))


def follow(folder: Path, names: tuple[str, ...], patch: pytest.MonkeyPatch) -> int:
    """Writes the page's tables into a folder, runs its commands of these names there, and returns their number."""
    patch.chdir(folder)
    for name, lines in tables().items():
        text = "\n".join(completed(lines)) + "\n"
        Path(name).write_text(text, "utf-8")
        write_media(text, folder)
    followed = [command for command in COMMANDS if command[0] in names]
    for command in followed:
        words = ["nano_busi_lora" if word == "pocket_busi_lora" else word for word in command]
        quick = [*QUICK, "train.max_steps=1"] if command[0] in ("validate", "run") else []
        assert main([*words, *quick]) == 0, " ".join(command)
    return len(followed)


def test_the_page_shows_a_table_for_each_form() -> None:
    assert {*tables()} == {
        "data.csv", "labels.csv", "measurements.csv", "columns.csv", "lists.csv", "pairs.csv", "films.csv",
        "volumes.csv", "new.csv", "nih.csv",
    }  # fmt: skip
    assert all(len(lines) >= 4 for lines in tables().values())
    assert len(COMMANDS) == sum(line.startswith("medtune ") for block in BLOCKS for line in block)


@pytest.mark.soak
def test_all_commands_of_the_page_run_one_after_another(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert follow(tmp_path, ("prepare", "validate", "run", "predict"), monkeypatch) == len(COMMANDS)
    assert Path("answers.csv").is_file()
