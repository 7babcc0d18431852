"""The block `train.early_stopping` of a recipe."""

from dataclasses import dataclass

from medtune.data.bounds import Count, NotNegative


@dataclass(frozen=True)
class EarlyStopping:
    """When a stage ends before its last step: when its validations no longer improve.

    Attributes:
        metric: What has to improve: a metric of the benchmark, or loss, token_accuracy, choice_accuracy, f1, ece or
            brier, as they stand behind "val/" in metrics.csv. Whether higher or lower is better follows from the
            metric. None is the benchmark's primary metric, which also chooses the best weights.
        patience: Number of validations one after another without an improvement, after which the stage ends.
        min_delta: The smallest change that counts as an improvement.
    """

    metric: str | None = None
    patience: Count = 3
    min_delta: NotNegative = 0.0
