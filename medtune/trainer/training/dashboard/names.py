"""Gives each metric its name on W&B, and says how W&B shows it.

W&B makes one section of panels for each first part of a name. The facet therefore comes first there:
"final/task=diagnosis/accuracy" becomes "task=diagnosis/final/accuracy", and all phases of a task stand together without
being arranged by hand.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from medtune.eval.benchmark import Benchmark

STEP = "trainer/global_step"
PHASES = ("zero_shot", "val", "final")
OVERALL = "overall"
PUBLISHED = "published_other_model_other_data"
BAND = ("", "_ci95_low", "_ci95_high")


@dataclass(frozen=True, slots=True)
class Definition:
    """How W&B shows one metric.

    Attributes:
        summary: Which of its points the table of runs shows, for instance "min,last" or "max,last"; None shows only the
            last.
        hidden: Whether the metric has no panel of its own.
    """

    summary: str | None
    hidden: bool


def panel_name(name: str) -> str:
    """Returns the W&B name of a metric of metrics.csv.

    Example:
        >>> panel_name("final/task=diagnosis/accuracy_n"), panel_name("final/accuracy"), panel_name("train/loss")
        ('task=diagnosis/final/accuracy_n', 'final/accuracy', 'train/loss')
    """
    phase, _, rest = name.partition("/")
    if phase not in PHASES or "=" not in rest:
        return name
    level, _, metric = rest.rpartition("/")
    return f"{level}/{phase}/{metric}"


def definition(name: str, benchmark: Benchmark) -> Definition:
    """Returns how W&B shows a metric; `name` is its name on W&B, as `panel_name` returns it."""
    metric = name.rsplit("/", 1)[-1]
    if metric == "loss":
        return Definition("min,last", hidden=False)
    if "val" in name.split("/") and metric in benchmark.metrics:
        return Definition(f"{'max' if benchmark.metrics[metric].higher_is_better else 'min'},last", hidden=False)
    return Definition(None, hidden=metric.endswith("_n"))


def reference_metrics(names: Iterable[str], benchmark: Benchmark) -> Mapping[str, float]:
    """Returns the published numbers to be logged with an evaluation, whose metrics have `names` in metrics.csv.

    Logged with every evaluation, they become horizontal lines in the panels. Their names say that they belong to other
    models and other data.
    """
    levels = {rest.rpartition("/")[0] for phase, _, rest in (n.partition("/") for n in names) if phase in PHASES}
    found = {}
    for reference in benchmark.references():
        level = "" if reference.facet is None else f"{reference.facet}={reference.level}"
        if level in levels:
            found["/".join(part for part in (level, PUBLISHED, reference.model) if part)] = reference.value
    return found
