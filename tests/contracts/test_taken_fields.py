"""Tests that every model refuses the same fields of the block `model` with its weights and without them."""

from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import pytest

from medtune.models.weights.export import assemble_model
from medtune.models.weights.loading_options import DEFAULT, Loading
from medtune.trainer.commands.validate import validate
from medtune.trainer.recipe.read import read_recipe
from tests.models.twins import MODELS, kinds_then_all

VALUES: dict[str, Any] = {
    "weights": "nowhere", "revision": "v1", "adapter": "nowhere", "video_max_pixels": 200704,
    "dtype": "bfloat16", "image_max_pixels": 200704, "video_frames": 4, "video_frames_per_s": 2.0,
    "variant": "codes", "volumes_as": "slices", "vision": "resnet3d", "projector": "vocabulary", "language": "nowhere",
    "crop_organs": ("liver",), "crop_margin_mm": 5.0, "system_prompt": "Be brief.", "time_sentence": "{seconds} s",
    "thinking": "keep", "reader": "generic",
}  # fmt: skip
"""For each field of Loading a value that differs from its default."""
assert VALUES.keys() == {field.name for field in fields(Loading)}


def value_of(name: str, field: str) -> Any:
    """Returns a value that the model can have; variants differ from model to model."""
    if field == "variant" and (variants := MODELS[name].variants):
        return list(variants)[-1]
    return VALUES[field]


@pytest.mark.parametrize("name", MODELS)
def test_fields_that_a_model_takes_are_fields_of_a_recipe(name: str) -> None:
    assert set(MODELS[name].takes) <= VALUES.keys()


@pytest.mark.parametrize("name", MODELS)
def test_other_fields_are_refused_with_and_without_weights(name: str, tmp_path: Path) -> None:
    recipe = read_recipe("nano_busi_lora", [f"data.root={tmp_path}"])
    # Whether an adapter fits a model is known when the two are read.
    for field in sorted(VALUES.keys() - {*MODELS[name].takes, "adapter"}):
        block = replace(recipe.model, name=name, **{field: value_of(name, field)})
        said = rf"model\.name {name} does not take model\.{field};"
        with pytest.raises(ValueError, match=said):
            assemble_model(name, 0, block)
        with pytest.raises(ValueError, match=said):
            validate(replace(recipe, model=block), weights=False)


@kinds_then_all
def test_a_twin_is_assembled_with_every_field_that_it_takes(name: str) -> None:
    for field in sorted(set(MODELS[name].takes) - {"weights", "language", "revision"}):
        loading = Loading(**{field: value_of(name, field)})
        assert loading != DEFAULT
        assembled = assemble_model(name, 0, loading)
        if field == "dtype":
            assert next(assembled.model.of_transformers.parameters()).dtype.itemsize == 2
