"""Counts what a run writes: into its folder, into the cache, and what an export of it takes afterwards."""

from medtune.trainer.recipe.schema import Recipe

_WIDE_BYTES, _NARROW_BYTES = 4, 2
"""Bytes of a weight in float32, in which everything that learns is written, and in 16 bits."""
_MOMENTS_BYTES = {"adamw": 8, "adamw_8bit": 2}


def on_disk(recipe: Recipe, learnt: int, adapters: int, *, cached: float) -> dict[str, float]:
    """Returns the bytes that a run writes, by what they are for.

    Args:
        recipe: The recipe.
        learnt: The number of weights that any stage trains, which every file of trained weights holds.
        adapters: The number of those that are adapters.
        cached: Bytes of the volumes that are kept prepared.
    """
    trained = float(_WIDE_BYTES * learnt)
    average = trained if recipe.train.ema_decay is not None else 0.0
    state = trained + _MOMENTS_BYTES[recipe.train.optimizer] * learnt + average
    starts = {how.lora.init for stage in recipe.stages for how in stage.tuning.parts().values() if how.mode == "lora"}
    pissa = float(_WIDE_BYTES * adapters) if "pissa" in starts else 0.0
    # The best and the last ones, those after each earlier stage, and one while it is written.
    files = len(recipe.stages) + 2
    return {
        "trained weights (one while it is written)": files * (trained + pissa) + pissa,
        "adapter in PEFT's format (two while it is written)": 2 * trained if _has_peft_adapter(recipe, pissa) else 0.0,
        "states (two while one is written)": 2.0 * state,
        "cache of volumes": cached,
    }


def exported(recipe: Recipe, parameters: int, learnt: int) -> dict[str, float]:
    """Returns the bytes that `medtune export` writes after the run, by how it is asked.

    Args:
        recipe: The recipe.
        parameters: The number of weights of the model without adapters.
        learnt: The number of weights that any stage trains.
    """
    merged = {
        "merged in 16 bits": float(_NARROW_BYTES * parameters),
        "in float32": float(_WIDE_BYTES * parameters),
    }
    return merged | ({"--adapter": float(_WIDE_BYTES * learnt)} if _has_peft_adapter(recipe, 0.0) else {})


def _has_peft_adapter(recipe: Recipe, pissa: float) -> bool:
    adapted = any(stage.tuning.language.mode == "lora" for stage in recipe.stages)
    return adapted and not pissa and recipe.model.adapter is None
