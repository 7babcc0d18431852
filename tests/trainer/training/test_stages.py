"""Tests of stages: one run with two stages equals two runs, and a stopped run continues in its stage."""

from pathlib import Path

import pytest
import torch
import yaml
from safetensors.torch import load_file

from medtune.data.prepared.read import open_prepared
from medtune.eval.results.metrics_file import read_metrics
from medtune.trainer.recipe.read import read_recipe, recipe_to_yaml
from medtune.trainer.training.stages import planned_stages, training_groups, with_counted_epochs
from tests.trainer.conftest import Capture, Curve, Nano, Told

ALIGNMENT = {"name": "alignment", "max_steps": 4, "warmup_ratio": 0.25, "tuning": {"language": {"mode": "frozen"}}}
INSTRUCTION = {
    "name": "instruction", "max_steps": 6, "batch_size": 2,
    "tuning": {"projector": {"lr": 2e-5}, "language": {"lr": 1e-3}},
}  # fmt: skip
STAGED = ("train.max_steps=null", f"train.stages={yaml.safe_dump([ALIGNMENT, INSTRUCTION], default_flow_style=True)}",
          "model.tuning.language.lora.dropout=0.1")  # fmt: skip
FIRST = ("train.max_steps=4", "train.warmup_ratio=0.25", "model.tuning.language.mode=frozen")
SECOND = ("train.max_steps=6", "train.batch_size=2", "model.tuning.projector.lr=2e-5",
          "model.tuning.language.lr=1e-3", "model.tuning.language.lora.dropout=0.1")  # fmt: skip


@pytest.fixture(scope="module")
def staged(prepared_tiny: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of two stages; screen.txt beside it holds what it said."""
    out = tmp_path_factory.mktemp("staged") / "run"
    out.with_name("screen.txt").write_text(Nano(prepared_tiny).said("run", out, *STAGED), "utf-8")
    return out


def _weights(run: Path, name: str) -> dict[str, torch.Tensor]:
    return load_file(run / "checkpoints" / name)


def _equal(one: dict[str, torch.Tensor], two: dict[str, torch.Tensor]) -> bool:
    return one.keys() == two.keys() and all(torch.equal(one[name], two[name]) for name in one)


@pytest.mark.slow
def test_two_stages_equal_two_runs(nano: Nano, staged: Path, tmp_path: Path, curve: Curve) -> None:
    first, second = tmp_path / "first", tmp_path / "second"
    assert nano.here("train", first, *FIRST) == 0
    handed_on = _weights(staged, "stage_1.safetensors")
    alone = _weights(first, "last.safetensors")
    assert _equal(alone, {name: value for name, value in handed_on.items() if ".lora_" not in name})
    # A run that begins from a checkpoint wants all that it learns; the stage's file holds the adapters as drawn.
    assert all(not value.any() for name, value in handed_on.items() if ".lora_B" in name)
    start = staged / "checkpoints" / "stage_1.safetensors"
    assert nano.here("train", second, *SECOND, f"model.checkpoint={start}") == 0
    for file in ("best.safetensors", "last.safetensors"):
        assert _equal(_weights(second, file), _weights(staged, file))
    assert curve(staged, "train/loss") == [*curve(first, "train/loss"), *curve(second, "train/loss")]
    both = [*curve(first, "val/accuracy"), *curve(second, "val/accuracy")]
    assert curve(staged, "val/accuracy") == both
    assert not _equal(_weights(staged, "last.safetensors"), handed_on)


def test_each_stage_has_its_curve_and_its_rates(staged: Path, curve: Curve) -> None:
    rows = read_metrics(staged / "metrics.csv")
    steps = {name: {row.step: row.value for row in rows if row.name == name} for name in {row.name for row in rows}}
    assert list(steps["train/loss"]) == list(range(1, 11))
    assert list(steps["train/stage"].values()) == [1.0] * 4 + [2.0] * 6
    assert min(steps["train/lr_language"]) == 5
    assert max(rate for step, rate in steps["train/lr_projector"].items() if step > 4) < 2.1e-5
    assert max(steps["train/lr_language"].values()) == pytest.approx(1e-3, rel=0.6)
    assert sorted(path.name for path in (staged / "validation").iterdir())[0] == "step_000002"
    assert len(curve(staged, "val/accuracy")) == 2 + 3


def test_group_table_of_each_stage_is_printed(staged: Path) -> None:
    said = staged.with_name("screen.txt").read_text("utf-8")
    first, second = said.index("stage 1, alignment: steps 1 to 4"), said.index("stage 2, instruction: steps 5 to 10")
    assert "language    frozen" in said[first:second]
    assert "language    lora" in said[second:]


def test_a_group_that_learns_in_the_first_stage_alone_is_in_the_last_checkpoint(nano: Nano, tmp_path: Path) -> None:
    out = tmp_path / "run"
    frozen = {"name": "language", "max_steps": 2, "tuning": {"projector": {"mode": "frozen"}}}
    stages = yaml.safe_dump([{**ALIGNMENT, "max_steps": 2}, frozen], default_flow_style=True)
    assert nano.here("run", out, "train.max_steps=null", f"train.stages={stages}") == 0
    first, last = _weights(out, "stage_1.safetensors"), _weights(out, "last.safetensors")
    projector = [name for name in last if name.startswith("projector.")]
    assert projector
    assert all(torch.equal(first[name], last[name]) for name in projector)
    assert any(value.any() for name, value in last.items() if ".lora_B" in name)


def test_stages_take_what_they_leave_out_from_the_recipe() -> None:
    recipe = read_recipe("nano_busi_lora", [*STAGED, "train.micro_batch_size=1", "train.stages.1.max_steps=7"])
    first, second = recipe.stages
    assert (first.batch_size, second.batch_size, first.micro_batch_size) == (4, 2, 1)
    assert (first.warmup_ratio, second.warmup_ratio) == (0.25, 0.1)
    assert first.tuning.language.mode == "frozen"
    assert first.tuning.projector == recipe.model.tuning.projector
    assert (second.tuning.language.lr, second.tuning.language.lora.r, second.tuning.language.mode) == (1e-3, 16, "lora")
    assert [(planned.first_step, planned.last_step, planned.is_last) for planned in planned_stages(recipe)] == [
        (0, 4, False),
        (4, 11, True),
    ]
    assert recipe.total_steps == 11


def test_a_recipe_with_stages_reads_back(tmp_path: Path) -> None:
    recipe = read_recipe("nano_busi_lora", STAGED)
    path = tmp_path / "again.yaml"
    path.write_text(recipe_to_yaml(recipe))
    assert read_recipe(str(path)) == recipe


def test_only_and_epochs_are_counted_on_the_data(prepared_tiny: Path) -> None:
    prepared = open_prepared(prepared_tiny)
    task = prepared.questions("train")[0].facets["task"]
    stages = [
        {"name": "one task", "epochs": 2, "batch_size": 3, "only": {"task": [task]}},
        {"name": "all", "epochs": 0.5, "batch_size": 3},
    ]
    settings = ["train.max_steps=null", "train.group_questions=1", f"train.stages={yaml.safe_dump(stages)}"]
    recipe = with_counted_epochs(read_recipe("nano_busi_lora", settings), [prepared], limit=None)
    groups = training_groups(recipe, prepared, recipe.stages[0], limit=None)
    questions = prepared.questions("train")
    mine = [question for question in questions if question.facets["task"] == task]
    assert [question for group in groups for question in group.questions] == mine
    assert {len(group.questions) for group in groups} == {1}
    assert 0 < len(mine) < len(questions)
    assert [stage.steps for stage in recipe.stages] == [-(-2 * len(mine) // 3), -(-len(questions) // 6)]


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        (["train.max_steps=4"], "train.max_steps and train.epochs are for recipes without train.stages"),
        (["train.stages.0.max_stepz=4"], r"no key 'train\.stages\.0\.max_stepz'\. Did you mean 'max_steps'"),
        (["train.stages.0.epochs=1"], r"train\.stages\.0\.max_steps, train\.stages\.0\.epochs: both are given"),
        (["train.stages.1.tuning.projector.lr=0"], r"train\.stages\.1\.tuning\.projector\.lr is 0"),
        (["train.stages.2.max_steps=1"], "stages has the elements 0 to 1"),
        (["train.stages=[7]"], r"train\.stages\.0 is 7; it must be a block of keys"),
        (["model.language_bits=4", "train.stages.1.tuning.language.mode=full"], "weights in 4 bits cannot learn"),
    ],
)
def test_mistakes_are_named(settings: list[str], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        read_recipe("nano_busi_lora", [*STAGED, *settings])


def test_what_only_the_run_can_know_is_named(nano: Nano, tmp_path: Path, capsys: Capture, refused: Told) -> None:
    said = refused(nano.here("train", tmp_path / "a", *STAGED, "train.stages.0.only={task: [nothing]}"))
    assert "the stage 'alignment': no train question has task nothing; there are" in said
    assert nano.here("train", tmp_path / "b", *STAGED, "train.stages.1.tuning.language.lora.r=4",
                     "train.stages.0.tuning.language.mode=lora") == 1  # fmt: skip
    assert "two stages give model.tuning.language.lora different values" in capsys.readouterr().err
