"""Tests that `medtune check` finds the faults of a user's own extensions and says how to correct them."""

from pathlib import Path

import pytest

from medtune.trainer.commands.cli import main

Capture = pytest.CaptureFixture[str]
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
    written(tmp_path, "projectors/miscounted.py", PROJECTOR)
    written(tmp_path, "recipes/bare.yaml", BARE)
    assert main(["check", str(tmp_path)]) == 1
    said = capsys.readouterr().out
    assert "ok      metrics good" in said
    for name, sentence in (
        ("metrics unnamed", "the docstring of `metric` has no section `Source:`"),
        ("metrics too_large", "by Metric.worst and Metric.best it has to be from 0.0 to 1.0"),
        ("metrics of_words", "of_words.py, line 16: the metric cannot be computed: ValueError: could not convert"),
        ("metrics broken", "line 1: ModuleNotFoundError: No module named 'no_such'"),
        ("metrics mistyped", "it has no function `def metric(...)` at its top level"),
        (
            "projectors miscounted",
            "tokens of the shape (2, 64, 40), wanted (batch, num_tokens, embedding width)",
        ),
        ("recipes bare", "the header has no line `# Expected: ...`"),
    ):
        assert f"failed  {name}" in said
        assert sentence in said
    assert "7 extensions checked, 7 failed" in said


def test_a_source_that_is_added_to_no_benchmark_is_refused(tmp_path: Path, capsys: Capture) -> None:
    written(tmp_path, "benchmarks/vqaa/sources/ward.py", '"""A list."""\n\n\ndef source():\n    ...\n')
    assert main(["check", str(tmp_path)]) != 0
    said = capsys.readouterr().err
    assert "there is no benchmark 'vqaa' that its sources could be added to" in said
    assert "Did you mean 'vqa'?" in said


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
        ("", "no extension is here. Write one in a sub-folder named recipes, models, benchmarks"),
        ("benchmark", "there is no such kind of extension. Did you mean 'benchmarks'?"),
        ("metrics", "no extension is here"),
    ],
)
def test_a_folder_without_extensions_is_refused(
    made: str | None, message: str, tmp_path: Path, capsys: Capture
) -> None:
    folder = tmp_path / "mine"
    if made is not None:
        (folder / made).mkdir(parents=True)
    assert main(["check", str(folder)]) == 1
    assert message in capsys.readouterr().err


def test_a_name_of_medtunes_own_is_refused(tmp_path: Path, capsys: Capture) -> None:
    written(tmp_path, "metrics/accuracy.py", METRIC.format(source=SOURCE, value="float(row.correct)"))
    assert main(["check", str(tmp_path)]) == 1
    assert "the name 'accuracy' exists twice" in capsys.readouterr().err
