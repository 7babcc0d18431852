"""Tests that `medtune check` finds the faults of a user's own extensions and says how to correct them."""

import argparse
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import pytest

from medtune.data import catalog
from medtune.trainer.commands.cli import COMMANDS, main, parser
from tests.trainer.conftest import Capture, Told

METRIC = '''"""Share of wrong answers."""

from medtune.eval.metric import Metric, mean_of_rows


def metric() -> Metric:
    """Returns the share of wrong answers.

    Example:
        >>> metric().bounds.high
        1.0
{source}    """
    return Metric(mean_of_rows(lambda row: {value}))
'''
SOURCE = "\n    Source:\n        Ours.\n"
PROJECTOR = '''"""Counts its tokens wrongly."""

from torch import nn

from medtune.models.projectors import Projector


def projector(over):
    """Returns the projector."""
    return Projector(lambda width: nn.Sequential(nn.Flatten(1, 3), nn.Linear(over.width, width)), num_tokens=5)
'''
WARD = '''"""A ward's list."""

from pathlib import Path

from medtune.data.raw.source import Reject, Source, SourceTable


def source():
    return Source("Our ward", "none", "none", "released", "a line", read, Path.mkdir, recognises=bool)


def read(root, seed, scratch):
    {does}
'''
BARE = "# Bare.\nmodel: {name: pockett}\ndata: {benchmark: busy, root: x}\ntrain: {max_steps: 1}\n"


def written(folder: Path, name: str, text: str) -> None:
    (folder / name).parent.mkdir(parents=True, exist_ok=True)
    (folder / name).write_text(text, "utf-8")


def test_one_line_for_each_extension_and_a_sentence_for_each_failure(tmp_path: Path, capsys: Capture) -> None:
    written(tmp_path, "metrics/good.py", METRIC.format(source=SOURCE, value="float(row.correct)"))
    written(tmp_path, "metrics/unnamed.py", METRIC.format(source="", value="float(row.correct)"))
    written(tmp_path, "metrics/too_large.py", METRIC.format(source=SOURCE, value="3.0"))
    written(tmp_path, "metrics/of_words.py", METRIC.format(source=SOURCE, value="float(row.parsed or 0)"))
    written(tmp_path, "metrics/broken.py", "import no_such\n\n\ndef metric():\n    ...\n")
    written(tmp_path, "metrics/mistyped.py", "def metrics():\n    ...\n")
    written(tmp_path, "metrics/worded.py", 'def metric():\n    return "accuracy"\n')
    written(tmp_path, "benchmarks/worded.py", 'def benchmark():\n    return "accuracy"\n')
    written(tmp_path, "projectors/miscounted.py", PROJECTOR)
    written(tmp_path, "recipes/bare.yaml", BARE)
    rejects = 'return SourceTable((), {}, rejects=(Reject("list.txt", 3, "mark", "no"),))'
    for name, does in (("unread", 'return b"W\\xe4rme".decode()'), ("rejecting", rejects)):
        written(tmp_path, f"benchmarks/vqa/sources/{name}.py", WARD.format(does=does))
    assert main(["check", str(tmp_path)]) == 1
    said = capsys.readouterr().out
    assert "ok      metrics good" in said
    for name, sentence in (
        ("metrics unnamed", "the docstring of `metric` has no section `Source:`"),
        ("metrics too_large", "by Metric.worst and Metric.best it has to be from 0.0 to 1.0"),
        ("metrics of_words", "of_words.py, line 16: the metric cannot be computed: ValueError: could not convert"),
        ("metrics broken", "line 1: ModuleNotFoundError: No module named 'no_such'"),
        ("metrics mistyped", "it has no function `def metric(...)` at its top level"),
        ("metrics worded", "`metric` returned 'accuracy', a str; it has to return a medtune.eval.metric.Metric"),
        ("benchmarks worded", "`benchmark` returned 'accuracy', a str; it has to return a medtune.eval.benchmark.Benc"),
        ("projectors miscounted", "tokens of the shape (2, 64, 40), wanted (batch, num_tokens, embedding width)"),
        ("sources unread", "unread.py, line 13: the source 'unread' cannot read "),
        ("sources rejecting", "a row of its example is rejected: list.txt, number 3, field 'mark': no; mend `read`"),
        ("recipes bare", "the header has no line `# Expected: ...`"),
    ):
        assert f"failed  {name}" in said
        assert sentence in said
    assert "11 extensions checked, 11 failed" in said


def test_a_source_that_is_added_to_no_benchmark_is_refused(tmp_path: Path, capsys: Capture) -> None:
    written(tmp_path, "benchmarks/vqaa/sources/ward.py", '"""A list."""\n\n\ndef source():\n    ...\n')
    assert main(["check", str(tmp_path)]) != 0
    said = capsys.readouterr().err
    assert "there is no benchmark 'vqaa' that its sources could be added to" in said
    assert "Did you mean 'vqa'?" in said


def test_a_source_of_a_plugin_that_recognises_the_files_reads_them(tmp_path: Path, capsys: Capture) -> None:
    written(tmp_path, "mine/benchmarks/vqa/sources/ward.py", WARD.format(does="root.ward"))
    written(tmp_path, "raw/befunde.csv", "Bild;Befund\na.png;ja\n")
    command = ["prepare", "vqa", "--from", str(tmp_path / "raw"), "--out", str(tmp_path / "out")]
    assert main(["--plugins", str(tmp_path / "mine"), *command]) != 0
    said = capsys.readouterr()
    assert "is read by the source ward (Our ward)" in said.out
    assert "ward.py, line 13: the source 'ward' cannot read" in said.err


def test_a_recipe_that_names_what_is_not_there_is_told_the_nearest(tmp_path: Path, capsys: Capture) -> None:
    written(tmp_path, "recipes/bare.yaml", BARE)
    assert main(["check", str(tmp_path)]) == 1
    said = capsys.readouterr().out
    assert "data.benchmark is 'busy', which is not there. Did you mean 'busi'?" in said
    assert "Did you mean 'pocket'?" in said


@pytest.mark.parametrize(
    ("made", "message"),
    [
        (None, "there is no plugin folder"),
        ("", "no extension is here. Write one in a sub-folder named recipes, studies, models, benchmarks"),
        ("benchmark", "there is no such kind of extension. Did you mean 'benchmarks'?"),
        (
            "sources",
            "there is no such kind of extension. There are: recipes, studies, models, benchmarks (with sources in",
        ),
        ("metrics", "no extension is here"),
    ],
)
def test_a_folder_without_extensions_is_refused(made: str | None, message: str, tmp_path: Path, refused: Told) -> None:
    folder = tmp_path / "mine"
    if made is not None:
        (folder / made).mkdir(parents=True)
    assert message in refused(main(["check", str(folder)]))


def test_a_name_of_medtunes_own_is_refused(tmp_path: Path, refused: Told) -> None:
    written(tmp_path, "metrics/accuracy.py", METRIC.format(source=SOURCE, value="float(row.correct)"))
    assert "the name 'accuracy' exists twice" in refused(main(["check", str(tmp_path)]))


@pytest.mark.parametrize("kind", list(catalog.KINDS))
def test_every_extension_says_what_it_is(kind: str, capsys: Capture) -> None:
    assert main(["list", kind, "--all"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines] == catalog.names(catalog.KINDS[kind])
    assert all(len(line.split()) > 2 for line in lines)


def test_encoders_of_timm_are_listed_as_a_recipe_names_them(capsys: Capture) -> None:
    assert main(["list", "encoders"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert "timm:vit_small_patch16_dinov3.lvd1689m" in lines
    assert lines == sorted(lines, key=str.lower) or len(set(lines)) == len(lines)
    assert main(["list", "towers"]) == 0
    assert "timm:ENCODER" in capsys.readouterr().err


@pytest.mark.parametrize(("kind", "name"), [
    ("recipes", "pocket_busi_lora"), ("models", "pocket"), ("benchmarks", "busi"), ("metrics", "accuracy"),
    ("sources", "vqa_rad"),
])  # fmt: skip
def test_list_shows_names_with_their_first_line(kind: str, name: str, capsys: Capture) -> None:
    assert main(["list", kind]) == 0
    (line,) = [line for line in capsys.readouterr().out.splitlines() if line.split()[0] == name]
    assert len(line.split()) > 3


def test_a_reader_that_stops_early_sees_no_traceback() -> None:
    command = f"{sys.executable} -u -m medtune list benchmarks | true"
    done = subprocess.run(["bash", "-c", command], capture_output=True, text=True, check=True)
    assert done.stderr == ""


@pytest.mark.parametrize("kind", ["models", "recipes"])
def test_twins_and_their_recipes_are_hidden_without_all(kind: str, shown: Told) -> None:
    assert "nano_" not in {line[:5] for line in shown(main(["list", kind])).splitlines()}
    assert "nano_" in {line[:5] for line in shown(main(["list", kind, "--all"])).splitlines()}


@pytest.mark.parametrize("behind", [False, True])
def test_the_plugin_is_named_before_or_behind_the_command(behind: bool, tmp_path: Path, shown: Told) -> None:
    (tmp_path / "metrics").mkdir()
    (tmp_path / "metrics" / "mine.py").write_text('"""A metric of mine."""\n\n\ndef metric():\n    ...\n')
    named, listed = [f"--plugins={tmp_path}"], ["list", "metrics"]
    assert f"A metric of mine.  [{tmp_path}]" in shown(main([*listed, *named] if behind else [*named, *listed]))
    assert "mine" not in shown(main(listed))


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
