"""Tests of the table of commands and of the help text of every argument."""

import argparse
import subprocess
import sys
from importlib import import_module

import pytest

from medtune.trainer.commands.cli import COMMANDS, main, parser


def _arguments(command: str) -> list[argparse.Action]:
    made = argparse.ArgumentParser()
    import_module(f"medtune.trainer.commands.{COMMANDS[command].module}").COMMANDS[command][0](made)
    return [action for action in made._actions if not isinstance(action, argparse._HelpAction)]


def _help(action: argparse.Action) -> str:
    return (action.help or "") % {"default": action.default}


@pytest.mark.parametrize("command", COMMANDS)
def test_every_argument_has_a_help_text_that_is_a_sentence(command: str) -> None:
    for action in _arguments(command):
        text = _help(action)
        assert len(text.split()) >= 3, action.dest
        assert text[0].isupper(), text
        assert text.endswith("."), text


@pytest.mark.parametrize("command", COMMANDS)
def test_every_value_that_may_be_left_out_says_its_default(command: str) -> None:
    for action in _arguments(command):
        needed = action.required or (not action.option_strings and action.nargs not in ("?", "*"))
        if needed or action.nargs == 0:
            assert "default:" not in _help(action), action.dest
            continue
        assert "(default: " in _help(action), action.dest
        if action.default not in (None, []):
            assert f"(default: {action.default})" in _help(action), action.dest


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_of_the_table_says_in_one_line_what_it_does(command: str) -> None:
    text = COMMANDS[command].help
    assert text[0].islower()
    assert not text.endswith(".")
    assert command in parser([command]).format_help()
    assert command in import_module(f"medtune.trainer.commands.{COMMANDS[command].module}").COMMANDS


def test_only_the_chosen_command_is_imported() -> None:
    code = (
        "import sys; from medtune.trainer.commands.cli import main; main(['list', 'models']); "
        "print(sorted(name for name in sys.modules if name.startswith('medtune.trainer.commands.')))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == str(
        [f"medtune.trainer.commands.{name}" for name in ("arguments", "cli", "extensions")]
    )


def test_help_needs_no_command_and_names_all() -> None:
    done = subprocess.run([sys.executable, "-m", "medtune", "--help"], capture_output=True, text=True, check=True)
    assert all(f"\n    {command} " in done.stdout for command in COMMANDS)


def test_a_shortened_argument_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit, match="2"):
        main(["prepare", "busi", "--from", "raw", "--out", "out", "--slurm-arr", "8"])
    assert "unrecognized arguments: --slurm-arr" in capsys.readouterr().err
