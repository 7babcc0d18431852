"""A part of a split by its facets: what is asked, counted and left as it is."""

from pathlib import Path

import pytest

from medtune.data.prepared.read import open_prepared
from medtune.data.types import SPLITS
from medtune.eval.results.schema import ResultsFile
from medtune.eval.results.typed_json import read_json
from medtune.trainer.commands.cli import main
from medtune.trainer.runs.finished_run import open_finished
from tests.trainer.conftest import Told, refused, shown

__all__ = ["refused", "shown"]


def tasks(root: Path) -> list[str]:
    return sorted({question.facets["task"] for question in open_prepared(root).questions("test")})


def test_only_questions_with_the_values_are_asked_and_counted(prepared_tiny: Path) -> None:
    whole, (first, *_) = open_prepared(prepared_tiny), tasks(prepared_tiny)
    part = whole.asking("test", {"task": [first]}, named_by="eval.only")
    asked = part.questions("test")
    assert asked == tuple(each for each in whole.questions("test") if each.facets["task"] == first)
    assert 0 < part.num_questions("test") == len(asked) < whole.num_questions("test")
    assert [question for group in part.groups("test") for question in group.questions] == list(asked)
    for split in SPLITS[:2]:
        assert part.questions(split) == whole.questions(split)
    assert part.data_hash == whole.data_hash
    assert whole.asking("test", {}, named_by="eval.only") is whole


def test_values_that_no_question_has_are_refused_with_those_that_there_are(prepared_tiny: Path) -> None:
    with pytest.raises(ValueError, match=r"eval\.only: no question of the split 'test' has task x; there are .*task: "):
        open_prepared(prepared_tiny).asking("test", {"task": ["x"]}, named_by="eval.only")


def test_a_run_measures_the_part_and_is_read_again(
    prepared_tiny: Path, tmp_path: Path, shown: Told, refused: Told
) -> None:
    first, *_ = tasks(prepared_tiny)
    settings = [f"data.root={prepared_tiny}", "log.wandb=disabled", f"eval.only={{task: [{first}]}}"]
    words = ["eval", "nano_busi_lora", "--out", str(tmp_path / "run"), "--set", *settings]
    shown(main(words))
    number = open_prepared(prepared_tiny).asking("test", {"task": [first]}, named_by="x").num_questions("test")
    found = read_json(tmp_path / "run" / "results.json", ResultsFile).phases["zero_shot"]
    assert found.overall.n == number
    assert {*found.by["task"]} == {first}
    assert open_finished(tmp_path / "run").prepared.num_questions("test") == number
    assert "eval.only is set and eval.split is train" in refused(
        main([*words[:3], "x", *words[4:], "eval.split=train"])
    )
