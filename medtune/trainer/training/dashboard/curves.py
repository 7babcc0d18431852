"""Reads the scores over the steps from a run's folder and gives chart lines for each task, with published numbers."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from medtune.eval.published_numbers import Reference
from medtune.eval.results.schema import ScoresFile
from medtune.eval.results.typed_json import read_json
from medtune.trainer.experiment.run_folder import RunFolder
from medtune.trainer.training.dashboard.names import OVERALL

LOW, HIGH = "95 % low", "95 % high"


@dataclass(frozen=True, slots=True)
class Line:
    """One line of a chart.

    Attributes:
        name: The name in the legend.
        steps: Optimizer steps of the run.
        values: The score at each step.
    """

    name: str
    steps: tuple[int, ...]
    values: tuple[float, ...]


def task_curves(
    folder: RunFolder, references: Sequence[Reference], *, last_step: int, split: str
) -> Mapping[str, tuple[Line, ...]]:
    """Returns the chart lines of "overall" and of each task (for instance "task=diagnosis").

    The validation questions and the questions of `split` differ, so each of the two has lines of its own: the score and
    both ends of its interval. A published number is a horizontal line whose name says that it belongs to another model
    and other data.
    """
    measured = {
        "validation": list(_validation(folder)),
        f"{split}, before and after": [
            (step, _scores(path)) for step, path in ((0, folder.zero_shot), (last_step, folder.final)) if _has(path)
        ],
    }
    tasks = {name for phases in measured.values() for _, scores in phases for name in scores.by.get("task", {})}
    found = {}
    for task in (None, *sorted(tasks)):
        lines = [line for name, phases in measured.items() for line in _band(name, phases, task)]
        for reference in references:
            if (reference.facet, reference.level) == (task and "task", task):
                name = f"published, other model, other data: {reference.model}"
                lines.append(Line(name, (0, last_step), (reference.value, reference.value)))
        found[f"task={task}" if task else OVERALL] = tuple(lines)
    return found


def _band(name: str, phases: Sequence[tuple[int, ScoresFile]], task: str | None) -> Iterator[Line]:
    points = []
    for step, scores in phases:
        level = scores.overall if task is None else scores.by.get("task", {}).get(task)
        if level and level.value is not None:
            points.append((step, level.value, level.ci95))
    if not points:
        return
    yield Line(name, tuple(step for step, _, _ in points), tuple(value for _, value, _ in points))
    ends = [(step, ci95) for step, _, ci95 in points if ci95]
    for place, end in enumerate((LOW, HIGH)):
        if ends:
            yield Line(f"{name}, {end}", tuple(step for step, _ in ends), tuple(ci95[place] for _, ci95 in ends))


def _validation(folder: RunFolder) -> Iterator[tuple[int, ScoresFile]]:
    for path in sorted(folder.validation(0).parent.glob("step_*")):
        if _has(path):
            yield int(path.name.removeprefix("step_")), _scores(path)


def _has(phase: Path) -> bool:
    return (phase / "scores.json").is_file()


def _scores(phase: Path) -> ScoresFile:
    return read_json(phase / "scores.json", ScoresFile)
