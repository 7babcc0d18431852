"""The commands of docs/cluster.md are real: each is understood, and the one with --dry is run."""

import shlex
from pathlib import Path

import pytest

from medtune.trainer.commands.cli import main, parser

PAGE = Path(__file__).resolve().parents[3] / "docs" / "cluster.md"
LINES = [line.strip() for line in PAGE.read_text("utf-8").splitlines() if line.startswith("    ")]
COMMANDS = [line[line.index("medtune ") :] for line in LINES if "medtune " in line]


@pytest.mark.parametrize("command", COMMANDS)
def test_command_is_understood(command: str) -> None:
    words = shlex.split(command)[1:]
    assert parser([words[0]]).parse_args(words).command


def test_the_dry_command_prints_a_script(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    (command,) = [each for each in COMMANDS if each.endswith("--dry")]
    assert main(shlex.split(command)[1:]) == 0
    script = capsys.readouterr().out
    for line in [line for line in LINES if line.startswith("#SBATCH")]:
        for option in line.split()[1:]:
            assert f"#SBATCH {option}\n" in script
    assert "#SBATCH --account=mine\n" in script
    assert "srun --kill-on-bad-exit=1 --ntasks-per-node=1 " in script


def test_the_page_has_commands() -> None:
    assert len(COMMANDS) >= 9
