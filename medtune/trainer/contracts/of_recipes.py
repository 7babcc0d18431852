"""The contract of a recipe: it can be read, its header is complete, and everything that it names exists."""

import doctest
import random
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType

import yaml

from medtune import benchmarks
from medtune.data import catalog
from medtune.data.types import Prediction, PredictionKey, Question
from medtune.eval.metric import Metric, ParsedReply
from medtune.models.assemble import ServedEntry, any_entry, zoo_entry
from medtune.models.towers.timm_tower import PREFIX
from medtune.models.tuning.apply import apply_tuning
from medtune.trainer.contracts import Contract
from medtune.trainer.recipe.read import find_recipe, read_recipe, recipe_from_tree, recipe_to_yaml
from medtune.trainer.recipe.schema import Recipe
from medtune.trainer.studies.study import OpenedStudy, open_study

HEADER = ("Source:", "Command:", "Hardware:", "Expected:")

OPTIONS = ("a", "b", "c")
NUMBERS = ("2", "3.5", "40")
_DRAWS = 60
_MOST_ROWS = 20


@dataclass(frozen=True, slots=True)
class OpenedRecipe:
    name: str  # The name of the recipe.
    file: Path  # Its YAML file.
    recipe: Recipe  # The recipe as it was read.


@contextmanager
def opened_recipe(name: str) -> Iterator[OpenedRecipe]:
    yield OpenedRecipe(name, find_recipe(name), read_recipe(name))


def its_header_says_source_command_hardware_and_result(found: OpenedRecipe) -> Iterator[str]:
    head = [line for line in found.file.read_text("utf-8").splitlines() if line.startswith("#")]
    if not catalog.find(catalog.RECIPES, found.name).first_line().endswith("."):
        yield "the first line has to be a comment that says in one sentence what the recipe does, with a full stop"
    for word in HEADER:
        if not any(line.startswith(f"# {word}") for line in head):
            yield f"the header has no line `# {word} ...`"


def everything_it_names_exists(found: OpenedRecipe) -> Iterator[str]:
    """Complains about a benchmark, tower or projector that does not exist, and about a served model without a server.

    A model that does not exist, and parameters that the tuning names and the model lacks, raise errors of their own.
    """
    model = found.recipe.model
    named = [("data.benchmark", found.recipe.data.benchmark, benchmarks.names())]
    named += [("data.mixture", part.benchmark, benchmarks.names()) for part in found.recipe.data.mixture]
    named += [("train.loss.name", stage.loss.name, catalog.names(catalog.LOSSES)) for stage in found.recipe.stages]
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


def what_it_resolves_to_reads_back_the_same(found: OpenedRecipe) -> Iterator[str]:
    if recipe_from_tree(yaml.safe_load(recipe_to_yaml(found.recipe)), where=found.name) != found.recipe:
        yield "the resolved recipe reads back as another one; this is a fault of medtune, please report it"


RECIPES = Contract(
    opened_recipe,
    (
        its_header_says_source_command_hardware_and_result,
        everything_it_names_exists,
        what_it_resolves_to_reads_back_the_same,
    ),
)


@contextmanager
def opened_study(name: str) -> Iterator[OpenedStudy]:
    yield open_study(name)


def its_header_says_source_and_command(found: OpenedStudy) -> Iterator[str]:
    head = [line for line in found.file.read_text("utf-8").splitlines() if line.startswith("#")]
    if not found.title.endswith("."):
        yield "the first line has to be a comment that says in one sentence what the study fills, with a full stop"
    for word in ("Source:", "Command:"):
        if not any(line.startswith(f"# {word}") for line in head):
            yield f"the header has no line `# {word} ...`"


def every_scale_of_it_can_be_opened(found: OpenedStudy) -> Iterator[str]:
    """Complains about a scale whose rows or source do not exist; most faults of rows raise errors of their own."""
    for scale, held in found.study.scales.items():
        for of in found.sets:
            if held.data is not None and held.data.source not in of.benchmark.sources:
                yield f"scales.{scale}.data.source: {of.name} has no source {held.data.source!r}"
        open_study(str(found.file), scale=scale)


STUDIES = Contract(opened_study, (its_header_says_source_and_command, every_scale_of_it_can_be_opened))


@dataclass(frozen=True, slots=True)
class OpenedMetric:
    metric: Metric  # The metric itself.
    module: ModuleType  # The module that defines it.
    said: str  # The docstring of the function that returns it.


@contextmanager
def opened_metric(name: str) -> Iterator[OpenedMetric]:
    metric = catalog.made(catalog.METRICS, name, Metric)
    found = catalog.find(catalog.METRICS, name)
    module = sys.modules[found.module]
    yield OpenedMetric(metric, module, getattr(module, found.function).__doc__ or "")


def reply(number: int, true: str, said: str | None, is_answered: bool) -> ParsedReply:
    """Returns a parsed reply to a made-up question; the right answer is one of `OPTIONS`, or else a number."""
    options: tuple[str, ...] = OPTIONS if true in OPTIONS else ()
    asked = Question(f"q{number}", "m", "Which?", options, true, "choice" if options else "number", "p")
    prediction = Prediction(PredictionKey(asked.id, "image", "generation", 0), text=said or "")
    return ParsedReply(asked, prediction if is_answered else None, said if is_answered else None)


def its_docstring_has_a_source_and_an_example_that_holds(found: OpenedMetric) -> Iterator[str]:
    if "Source:" not in found.said:
        yield "the docstring of `metric` has no section `Source:`; say which paper or library defines the metric"
    tried = doctest.testmod(found.module, verbose=False)
    if not tried.attempted or ">>>" not in found.said:
        yield "the docstring has no example; write one with `>>>` whose answer you worked out by hand"
    if tried.failed:
        yield f"{tried.failed} of the {tried.attempted} examples in the docstring give another answer (printed above)"


def its_value_stays_in_its_range(found: OpenedMetric) -> Iterator[str]:
    """Complains if the metric of random replies is not between `Metric.worst` and `Metric.best`.

    Half of the tries are made with multiple-choice questions, the other half with questions for a number. The metric
    gets the replies that it covers.
    """
    draw = random.Random(0)
    for answers in (OPTIONS, NUMBERS):
        for _ in range(_DRAWS):
            rows = [
                reply(number, draw.choice(answers), draw.choice([*answers, None]), draw.random() < 0.5)
                for number in range(draw.randint(1, _MOST_ROWS))
            ]
            yield from out_of_range(found.metric, rows)


def out_of_range(metric: Metric, rows: Sequence[ParsedReply]) -> Iterator[str]:
    chosen, bounds = metric.covered(rows), metric.bounds
    value = metric.value(chosen) if chosen else bounds.low
    if not bounds.low <= value <= bounds.high:
        yield (
            f"the value of {len(chosen)} replies is {value}; by Metric.worst and Metric.best it has to be from "
            f"{bounds.low} to {bounds.high}"
        )


def no_questions_are_an_error(found: OpenedMetric) -> Iterator[str]:
    try:
        value = found.metric.value([])
    except ValueError as error:
        if "at least one question" not in str(error):
            yield f"the message for no replies is {str(error)!r}; say that the metric needs at least one question"
    else:
        yield f"the metric of no replies is {value}; raise a ValueError: it needs at least one question"


METRICS = Contract(
    opened_metric,
    (its_docstring_has_a_source_and_an_example_that_holds, its_value_stays_in_its_range, no_questions_are_an_error),
)
