"""Keeps the search for garbage away from what a command imports, which stays until the process ends.

Without this, Python looks through the objects of all libraries a dozen times in a run: a quarter of a small run's time.
"""

import atexit
import contextlib
import functools
import gc
from collections.abc import Iterator
from typing import TYPE_CHECKING

from medtune.data import catalog

if TYPE_CHECKING:
    from medtune.trainer.recipe.schema import LogBlock, Recipe


_of_one_command = False
"""Whether this process ends with its command. Python says it too, by counting what is frozen: for 0.1 to 0.3 CPU s."""


@contextlib.contextmanager
def importing() -> Iterator[None]:
    """Looks for no garbage among what is imported while the context lasts."""
    looks = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if looks:
            gc.enable()


@contextlib.contextmanager
def importing_for_good() -> Iterator[None]:
    """Does the same, and later searches pass over all that there is at the end; for the process of one command.

    What is garbage by then is never freed, so that nothing but imports belongs in here.
    """
    global _of_one_command
    _of_one_command = True
    with importing():
        yield
        gc.freeze()
    # At the end everything is let go: triton's library would complain of what is still there.
    atexit.register(gc.unfreeze)


@functools.cache
def keep_imported() -> None:
    """Lets later searches pass over what is there now, once, in a process that began with `importing_for_good`.

    It belongs inside of `importing`, behind which a search through all that is new comes at once.
    """
    if _of_one_command:
        gc.freeze()


def import_dashboard(block: "LogBlock") -> None:
    """Imports what W&B begins a run with, before torch and all else.

    Pydantic looks for the source of each of W&B's classes in all modules that there are: 0.7 CPU s behind torch,
    transformers and Lightning, 0.1 before them.
    """
    if block.wandb != "disabled":
        # What lacks W&B is refused where it is used, with the field of the recipe.
        with contextlib.suppress(ImportError):
            import wandb.sdk.launch  # noqa: F401


def import_parts(recipe: "Recipe") -> None:
    """Imports the modules of a recipe's benchmark and model, and the libraries that these take.

    What cannot be imported is refused where it is used, with the field of the recipe.
    """
    for kind, name in ((catalog.BENCHMARKS, recipe.data.benchmark), (catalog.MODELS, recipe.model.name)):
        with contextlib.suppress(ValueError):
            catalog.load(kind, name)
    if any(how.mode == "lora" for stage in recipe.stages for how in stage.tuning.parts().values()):
        from medtune.models.tuning.peft_import import import_peft

        packed = recipe.model.language_bits is not None or recipe.train.optimizer == "adamw_8bit"
        # What comes next in a process of several commands may use bitsandbytes.
        import_peft(uses_bitsandbytes=packed or not _of_one_command)
