"""Says which metrics early stopping may watch, and refuses settings with which no stage could end early."""

from collections.abc import Mapping

from medtune.data.catalog import nearest
from medtune.eval.benchmark import Benchmark
from medtune.trainer.recipe.schema import Recipe, Stage

MEASURED: Mapping[str, bool] = {
    "loss": False,
    "token_accuracy": True,
    "choice_accuracy": True,
    "f1": True,
    "ece": False,
    "brier": False,
}
"""The metrics that the Lightning module measures over all questions, and whether a higher value is better."""


def higher_is_better(metric: str, benchmark: Benchmark) -> bool:
    """Returns whether a higher value of a validation's metric is better."""
    return benchmark.metrics[metric].higher_is_better if metric in benchmark.metrics else MEASURED[metric]


def can_stop_early(stage: Stage, recipe: Recipe) -> bool:
    """Returns whether a stage has enough validations to end before its last step.

    The first validation is the best one so far, and `patience` more have to pass without an improvement. A stage whose
    length is given in epochs is taken to be long enough until its steps are counted.
    """
    settings = recipe.train.early_stopping
    if settings is None:
        return False
    return stage.max_steps is None or stage.max_steps > recipe.eval.every_steps * (settings.patience + 1)


def check_early_stopping(recipe: Recipe, benchmark: Benchmark) -> None:
    """Refuses early stopping that could never end a stage, or by a metric that validations do not have."""
    settings = recipe.train.early_stopping
    if settings is None:
        return
    known = sorted({*benchmark.metrics, *MEASURED})
    metric = settings.metric or benchmark.primary
    if metric not in known:
        raise ValueError(
            f"train.early_stopping.metric is {metric!r}.{nearest(metric, known)} There are: {', '.join(known)}"
        )
    judged = benchmark.judging is not None and not benchmark.judging.is_extra
    if judged and metric in benchmark.metrics:
        raise ValueError(
            f"train.early_stopping.metric is {metric!r}, whose answers wait for a judge while the model trains; set "
            "train.early_stopping.metric=loss"
        )
    if not any(can_stop_early(stage, recipe) for stage in recipe.stages):
        longest = max(stage.steps for stage in recipe.stages)
        raise ValueError(
            f"train.early_stopping.patience is {settings.patience}, and no stage is longer than {longest} steps, which "
            f"are validated every {recipe.eval.every_steps} steps (eval.every_steps): training could never stop "
            "early. Validate more often, or leave train.early_stopping out"
        )
