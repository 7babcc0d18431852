"""The contract of a recipe: it can be read, its header is complete, and everything that it names exists."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import yaml

from medtune import benchmarks
from medtune.data import catalog
from medtune.models.assemble import ServedEntry, any_entry, zoo_entry
from medtune.models.towers.timm_tower import PREFIX
from medtune.models.tuning.apply import apply_tuning
from medtune.trainer.contracts.contract import Contract
from medtune.trainer.recipe.read import find_recipe, read_recipe, recipe_from_tree, recipe_to_yaml
from medtune.trainer.recipe.schema import Recipe

HEADER = ("Source:", "Command:", "Hardware:", "Expected:")


@dataclass(frozen=True, slots=True)
class Opened:
    """A recipe that is checked.

    Attributes:
        name: The name of the recipe.
        file: Its YAML file.
        recipe: The recipe as it was read.
    """

    name: str
    file: Path
    recipe: Recipe


@contextmanager
def opened(name: str) -> Iterator[Opened]:
    """Reads the recipe of a name and gives it."""
    yield Opened(name, find_recipe(name), read_recipe(name))


def its_header_says_source_command_hardware_and_result(found: Opened) -> Iterator[str]:
    """Complains about a header that does not begin with a sentence, or that lacks one of the lines of `HEADER`."""
    head = [line for line in found.file.read_text("utf-8").splitlines() if line.startswith("#")]
    if not catalog.find(catalog.RECIPES, found.name).first_line().endswith("."):
        yield "the first line has to be a comment that says in one sentence what the recipe does, with a full stop"
    for word in HEADER:
        if not any(line.startswith(f"# {word}") for line in head):
            yield f"the header has no line `# {word} ...`"


def everything_it_names_exists(found: Opened) -> Iterator[str]:
    """Complains about a benchmark, tower or projector that does not exist, and about a served model without a server.

    A model that does not exist, and parameters that the tuning names and the model lacks, raise errors of their own.
    """
    model = found.recipe.model
    named = [("data.benchmark", found.recipe.data.benchmark, benchmarks.names())]
    named += [("data.mixture", part.benchmark, benchmarks.names()) for part in found.recipe.data.mixture]
    if model.vision is not None and not model.vision.startswith(PREFIX):
        named.append(("model.vision", model.vision, catalog.names(catalog.TOWERS)))
    if model.projector is not None:
        named.append(("model.projector", model.projector, catalog.names(catalog.PROJECTORS)))
    for field, name, known in named:
        if name not in known:
            yield f"{field} is {name!r}, which is not there.{catalog.nearest(name, known)}"
    if not isinstance(any_entry(model.name), ServedEntry):
        apply_tuning(zoo_entry(model.name, model.weights).skeleton(model), model.tuning, seed=0)
    elif model.endpoint is None:
        yield f"model.name is {model.name!r} and model.endpoint is missing; name the server there"


def what_it_resolves_to_reads_back_the_same(found: Opened) -> Iterator[str]:
    """Complains if the resolved recipe, written as YAML and read again, is not the same recipe."""
    if recipe_from_tree(yaml.safe_load(recipe_to_yaml(found.recipe)), where=found.name) != found.recipe:
        yield "the resolved recipe reads back as another one; this is a fault of medtune, please report it"


CONTRACT = Contract(
    opened,
    (
        its_header_says_source_command_hardware_and_result,
        everything_it_names_exists,
        what_it_resolves_to_reads_back_the_same,
    ),
)
