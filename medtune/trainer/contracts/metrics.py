"""The contract of a metric: it names its source, has an example worked out by hand, and stays in its range."""

import doctest
import random
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from types import ModuleType
from typing import cast

from medtune.data import catalog
from medtune.data.types import Prediction, PredictionKey, Question
from medtune.eval.metric import Metric
from medtune.eval.parsed_reply import ParsedReply
from medtune.trainer.contracts.contract import Contract

OPTIONS = ("a", "b", "c")
NUMBERS = ("2", "3.5", "40")
_DRAWS = 60
_MOST_ROWS = 20


@dataclass(frozen=True, slots=True)
class Opened:
    """A metric that is checked.

    Attributes:
        metric: The metric itself.
        module: The module that defines it.
        said: The docstring of the function that returns it.
    """

    metric: Metric
    module: ModuleType
    said: str


@contextmanager
def opened(name: str) -> Iterator[Opened]:
    """Gives the metric of a name, with its module and docstring."""
    make = cast("Callable[[], Metric]", catalog.load(catalog.METRICS, name))
    yield Opened(make(), sys.modules[catalog.find(catalog.METRICS, name).module], make.__doc__ or "")


def reply(number: int, true: str, said: str | None, is_answered: bool) -> ParsedReply:
    """Returns a parsed reply to a question made up for a test.

    Args:
        number: The number of the question among the others.
        true: The right answer: one of `OPTIONS`, or else a number.
        said: The answer that the parser read; None if it could read none.
        is_answered: Whether there is a reply at all.
    """
    options: tuple[str, ...] = OPTIONS if true in OPTIONS else ()
    asked = Question(f"q{number}", "m", "Which?", options, true, "choice" if options else "number", "p")
    prediction = Prediction(PredictionKey(asked.id, "image", "generation", 0), text=said or "")
    return ParsedReply(asked, prediction if is_answered else None, said if is_answered else None)


def its_docstring_has_a_source_and_an_example_that_holds(found: Opened) -> Iterator[str]:
    """Complains about a docstring without a section `Source:`, and about missing or wrong examples."""
    if "Source:" not in found.said:
        yield "the docstring of `metric` has no section `Source:`; say which paper or library defines the metric"
    tried = doctest.testmod(found.module)
    if not tried.attempted:
        yield "the docstring has no example; write one with `>>>` whose answer you worked out by hand"
    if tried.failed:
        yield f"{tried.failed} of the {tried.attempted} examples in the docstring give another answer (printed above)"


def its_value_stays_in_its_range(found: Opened) -> Iterator[str]:
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
    """Complains if the metric of these replies is outside the metric's range."""
    chosen, bounds = metric.covered(rows), metric.bounds
    value = metric.value(chosen) if chosen else bounds.low
    if not bounds.low <= value <= bounds.high:
        yield (
            f"the value of {len(chosen)} replies is {value}; by Metric.worst and Metric.best it has to be from "
            f"{bounds.low} to {bounds.high}"
        )


def no_questions_are_an_error(found: Opened) -> Iterator[str]:
    """Complains if the metric of an empty list of replies is a number, or raises an error with another message."""
    try:
        value = found.metric.value([])
    except ValueError as error:
        if "at least one question" not in str(error):
            yield f"the message for no replies is {str(error)!r}; say that the metric needs at least one question"
    else:
        yield f"the metric of no replies is {value}; raise a ValueError: it needs at least one question"


CONTRACT = Contract(
    opened,
    (
        its_docstring_has_a_source_and_an_example_that_holds,
        its_value_stays_in_its_range,
        no_questions_are_an_error,
    ),
)
