"""Which facets of the questions may be sent to W&B, whose levels are in names of metrics, in tables and in charts.

The facets of a published benchmark are its own terms. Those of a user's own data are columns of his table, which may
hold remarks or the names of physicians.
"""

from dataclasses import dataclass
from typing import get_args

from medtune.data.types import AnswerKind, Provenance
from medtune.eval.benchmark import Benchmark
from medtune.eval.published import MARKS
from medtune.trainer.recipe.schema import LogBlock

_KINDS = frozenset({*get_args(AnswerKind), "labels"})
"""The tasks of own questions whose table names none: the kinds of their answers."""
TASK, WITHHELD_TASK = "task", "(withheld: log.facets)"


@dataclass(frozen=True, slots=True)
class SentFacets:
    """The facets that leave this machine."""

    # None: all.
    names: frozenset[str] | None = None
    # Of the facet "task", which is not in `names`, these levels leave all the same.
    tasks: frozenset[str] = frozenset()

    def takes(self, facet: str, level: str) -> bool:
        return self.names is None or facet in self.names or (facet == TASK and level in self.tasks)

    def keeps(self, metric: str) -> bool:
        """Returns whether a metric may be sent by its name, for instance "final/ward=3 B/accuracy"."""
        place = metric.partition("/")[2]
        if self.names is None or "=" not in place:
            return True
        level = place.rpartition("/")[0].removeprefix(f"{TASK}=")
        return any(place.startswith(f"{name}=") for name in self.names) or (
            place.startswith(f"{TASK}=") and level in self.tasks
        )


EVERY_FACET = SentFacets()


def sent_facets(benchmark: Benchmark, block: LogBlock, provenance: Provenance) -> SentFacets:
    """Returns all facets of simulated data; of others the benchmark's own terms, and what `log.facets` names."""
    if provenance == "synthetic":
        return EVERY_FACET
    named = frozenset((*MARKS, *block.facets))
    if benchmark.any_facet:
        return SentFacets(named, frozenset() if TASK in named else _KINDS)
    return SentFacets(named | {*benchmark.facets, benchmark.class_facet})
