"""Distributes the questions of a validation or a test over batches and ranks, each question once."""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

from torch.utils.data import DataLoader, Dataset
from torch.utils.data.distributed import DistributedSampler

from medtune.data.grouping import grouped
from medtune.data.types import AnswerFormat, MediaGroup, PredictionKey, Question, Reading
from medtune.eval.asking.plan import Visit, plan_visits
from medtune.eval.benchmark import Benchmark
from medtune.eval.scoring.answer_classes import shared_classes, task_name
from medtune.models.answering import shown_by
from medtune.models.media_reader import MediaReader

CLOSED = ("choice", "yes_no")
"""The kinds of answers that are chosen from a list."""


class WatchedTask(NamedTuple):
    """A task whose questions choose among the same answers."""

    level: str  # The beginning of the names of its metrics, e.g. "task=plane/".
    classes: tuple[str, ...]


@dataclass(frozen=True)
class EvaluatedSplit:
    """Everything that is known about a validation or a test before a question is answered, the same on all ranks."""

    benchmark: Benchmark
    groups: Sequence[MediaGroup]
    visits: Sequence[Visit]  # The requests that are made about each media group.
    readings: Sequence[Reading]
    parser: str  # The parser whose answers are counted.

    @property
    def questions(self) -> list[Question]:
        return [question for group in self.groups for question in group.questions]

    @cached_property
    def keys(self) -> frozenset[PredictionKey]:
        """The keys of all predictions that answer it."""
        return frozenset(request.key for visit in self.visits for request in visit.requests)

    @property
    def reading(self) -> Reading:
        return "generation" if self.parser in self.benchmark.parsers else "likelihood"

    def closed(self) -> list[Question]:
        """Returns the questions that choose from a list and that `parser` reads."""
        return [q for q in self.questions if q.answer_kind in CLOSED and (q.options or self.reading == "generation")]

    def labels(self) -> dict[str, int]:
        """Returns a number for each answer that a closed question has or offers, from 2 on."""
        found = sorted({answer for q in self.closed() for answer in (*q.options, q.answer)})
        return {answer: number for number, answer in enumerate(found, start=2)}

    def tasks(self) -> Mapping[str, WatchedTask]:
        """Returns the tasks whose questions share their answers, by the name that `task_name` gives them."""
        facet = self.benchmark.class_facet
        by_task = grouped(self.closed(), lambda question: task_name(question, facet))
        found = {}
        for name, questions in by_task.items():
            classes, task = shared_classes(questions), questions[0].facets.get("task", "all")
            if not isinstance(classes, str):
                level = f"task={task}/" if name == task else f"{facet}={questions[0].facets[facet]}/"
                found[name] = WatchedTask(level, tuple(classes))
        return found


def asked(
    groups: Sequence[MediaGroup],
    benchmark: Benchmark,
    *,
    answer_format: AnswerFormat,
    readings: Sequence[Reading],
    parser: str,
    seed: int,
) -> EvaluatedSplit:
    """Returns the plan of a validation: every question of the groups, shown with its media."""
    plan = plan_visits(
        groups, benchmark, answer_format=answer_format, readings=readings, conditions=("image",), seed=seed
    )
    return EvaluatedSplit(benchmark, groups, [visit for visits in plan for visit in visits], readings, parser)


class VisitBatch:
    """Several media groups with the requests about them, which are answered together.

    It is neither a dataclass nor a tuple, because Lightning looks for tensors in those, and refuses frozen dataclasses.

    Args:
        visits: The requests; none where a rank has fewer groups than another: all ranks run equally many batches.

    Attributes:
        reader: The reader that gives the media of these visits next; None where they are read as they are needed.
    """

    def __init__(self, asked: EvaluatedSplit, visits: tuple[Visit, ...]) -> None:
        self.asked = asked
        self.visits = visits
        self.reader: MediaReader | None = None


class VisitBatches(Dataset[VisitBatch]):
    """The batches of one rank.

    Args:
        world_size: The number of processes; rank r takes the groups r, r + world_size, ...
        reader: Returns a new reader of the media; None reads them as they are needed.

    Attributes:
        mine: The visits of this rank, in their order.
    """

    def __init__(
        self,
        asked: EvaluatedSplit,
        *,
        batch_size: int,
        rank: int,
        world_size: int,
        reader: Callable[[], MediaReader] | None = None,
    ) -> None:
        self.asked = asked
        self.reader = reader
        self.mine = asked.visits[rank::world_size]
        self._batch_size = batch_size
        self._length = math.ceil(math.ceil(len(asked.visits) / world_size) / batch_size)

    def __len__(self) -> int:
        return self._length

    def __getitem__(self, number: int) -> VisitBatch:
        first = number * self._batch_size
        return VisitBatch(self.asked, tuple(self.mine[first : first + self._batch_size]))


class AskedLoader(DataLoader[VisitBatch]):
    """Yields batches of VisitBatches, whose reader reads ahead meanwhile."""

    def __iter__(self) -> Iterator[VisitBatch]:  # type: ignore[override]
        batches = self.dataset
        if not isinstance(batches, VisitBatches) or batches.reader is None:
            yield from super().__iter__()
            return
        with batches.reader() as reader:
            reader.expect(shown_by([(visit.shown, visit.requests) for visit in batches.mine]))
            for batch in super().__iter__():
                batch.reader = reader
                yield batch


class InOrder(DistributedSampler[int]):
    """Yields the numbers of this rank's batches in their order.

    It is a DistributedSampler for Lightning, which puts one of its own in place of every other sampler.
    """

    def __init__(self, length: int) -> None:
        self._length = length

    def __iter__(self) -> Iterator[int]:
        return iter(range(self._length))

    def __len__(self) -> int:
        return self._length

    def set_epoch(self, epoch: int) -> None:
        """Does nothing, because every epoch has the same order."""
