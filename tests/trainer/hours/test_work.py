"""Tests that a plan of hours counts what the code that runs does."""

from dataclasses import replace
from pathlib import Path

import pytest

from medtune.data.media.volumes.cache import VolumeCache
from medtune.data.types import MediaGroup, Prompt, Question, Request
from medtune.eval.asking.plan import Visit
from medtune.models.volumes.volume_parts import VolumeInput
from medtune.models.weights.export import assemble_model
from medtune.trainer.experiment.open_data import open_data
from medtune.trainer.hours.steps import of_one_device
from medtune.trainer.hours.work import asking_of, num_further_states, num_validations, volumes_from_files
from medtune.trainer.recipe.read import read_recipe
from medtune.trainer.recipe.schema import Stage
from medtune.trainer.training.batches import stage_batches
from medtune.trainer.training.mixture import stage_mixture
from medtune.trainer.training.sampling import AllGroups, EndlessRow, StepOrder
from medtune.trainer.training.stages import PlannedStage


def stage(steps: int, *, first_step: int = 0) -> PlannedStage:
    return PlannedStage(Stage("training", max_steps=steps), 1, first_step, is_last=True)


@pytest.mark.parametrize(("steps", "validations"), [(1, 1), (19, 1), (20, 1), (21, 2), (40, 2), (45, 3)])
def test_a_stage_is_validated_at_its_steps_and_its_end(steps: int, validations: int) -> None:
    assert num_validations(stage(steps), every_steps=20) == validations


def test_states_behind_validations_are_not_saved_twice() -> None:
    """Steps of the run are counted: 5 + 5 = 10, 15 and 20 are steps 5, 10 and 15 of the stage."""
    assert num_further_states(stage(16, first_step=5), every_steps=10, saved_every=5) == 2
    assert num_further_states(stage(16), every_steps=10, saved_every=None) == 0


@pytest.mark.parametrize(("batch", "micro", "world"), [(8, 8, 1), (8, 2, 3), (128, 4, 16), (6, 4, 2), (2, 8, 4)])
def test_one_device_does_what_rank_0_does(batch: int, micro: int, world: int) -> None:
    row = EndlessRow([AllGroups(50)], seed=0)
    order = StepOrder(row, batch, micro, world)
    run = Stage("training", max_steps=1, batch_size=batch, micro_batch_size=micro)
    mine = [len(order.micro_batch(0, number, rank=0)) for number in range(order.accumulate)]
    one = of_one_device(run, world_size=world)
    alone = StepOrder(row, one.batch_size, one.micro_batch_size, 1)
    assert [len(alone.micro_batch(0, number, rank=0)) for number in range(alone.accumulate)] == mine


def visit(group: MediaGroup, *conditions: str) -> Visit:
    return Visit(
        group,
        tuple(
            Request(question, Prompt(question.text, ("a", "b"), "a"), "likelihood", condition)  # type: ignore[arg-type]
            for condition in conditions
            for question in group.questions
        ),
    )


def test_a_text_without_media_is_read_once_and_a_device_has_its_share() -> None:
    """Five images are asked the same two questions, with the image and without it."""
    groups = [
        MediaGroup(
            f"m{number}",
            (None,),  # type: ignore[arg-type]
            tuple(Question(f"q{number}{text}", f"m{number}", text, ("a", "b"), "a", "choice", "p") for text in "xy"),
        )
        for number in range(5)
    ]
    plan = [(visit(group, "image", "text_only"),) for group in groups]
    whole = asking_of(plan, world_size=1)
    assert (whole.questions, len(whole.requests), len(whole.mine), len(whole.texts)) == (10, 20, 5, 2)
    assert {request.condition for visits in whole.mine for each in visits for request in each.requests} == {"image"}
    half = asking_of(plan, world_size=2)
    assert (half.questions, len(half.requests), len(half.mine), len(half.texts)) == (10, 20, 3, 2)


def test_volumes_are_read_from_files_as_often_as_the_cache_gets_entries(prepared_ct: Path, tmp_path: Path) -> None:
    fields = [f"data.root={prepared_ct}", "train.batch_size=2", "train.micro_batch_size=2", "train.group_questions=3"]
    recipe = read_recipe("nano_ct_lora", fields)
    data = open_data(recipe, training=True)
    assembled = assemble_model(recipe.model.name, recipe.train.seed, recipe.model)
    assert isinstance(assembled.transform, VolumeInput)
    cached = replace(assembled, transform=replace(assembled.transform, cache=VolumeCache(tmp_path / "cache")))
    mixture = stage_mixture(recipe, recipe.stages[0], data.training_sets, limit=None)
    batches = stage_batches(mixture, recipe.stages[0], cached, rank=0, world_size=1)
    entries = []
    for step in range(5):
        _ = batches[step]
        entries.append(len(list((tmp_path / "cache").iterdir())))
    assert [volumes_from_files(batches, range(end)) for end in range(1, 6)] == entries
    assert volumes_from_files(batches, range(2, 5)) == entries[4] - entries[1]
    assert entries[4] < 10, "groups of one volume come again"
    plain = stage_batches(mixture, recipe.stages[0], assembled, rank=0, world_size=1)
    assert volumes_from_files(plain, range(5)) == 0
