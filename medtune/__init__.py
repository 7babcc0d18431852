"""medtune fine-tunes medical vision-language models on the benchmarks that judge them.

The names below are the public Python API. A name's module is imported when the name is first used, so that
`import medtune` loads neither torch nor transformers.
"""

from importlib import import_module
from typing import TYPE_CHECKING

from medtune.version import __version__

__all__ = [
    "BenchmarkEvaluation",
    "BenchmarkMetric",
    "Comparison",
    "Dataset",
    "Evaluation",
    "FineTuning",
    "QuestionData",
    "Questions",
    "Report",
    "Vlm",
    "__version__",
    "compare",
    "evaluate",
    "from_datasets",
    "load",
    "predict",
    "score",
    "to_datasets",
]

if TYPE_CHECKING:
    from medtune.api.compare import Comparison, compare
    from medtune.api.dataset import Dataset, Questions, load
    from medtune.api.evaluate import evaluate
    from medtune.api.evaluation import Evaluation
    from medtune.api.hugging_face import from_datasets, to_datasets
    from medtune.api.report import Report
    from medtune.api.score import score
    from medtune.models.transformers_vlm.generic.in_memory import Vlm
    from medtune.trainer.experiment.predict import predict
    from medtune.trainer.training.data_module import QuestionData
    from medtune.trainer.training.lightning_module import FineTuning
    from medtune.trainer.training.validation.benchmark_evaluation import BenchmarkEvaluation
    from medtune.trainer.training.validation.benchmark_metric import BenchmarkMetric
else:
    _HOMES = {
        "BenchmarkEvaluation": "medtune.trainer.training.validation.benchmark_evaluation",
        "BenchmarkMetric": "medtune.trainer.training.validation.benchmark_metric",
        "Comparison": "medtune.api.compare",
        "Dataset": "medtune.api.dataset",
        "Evaluation": "medtune.api.evaluation",
        "FineTuning": "medtune.trainer.training.lightning_module",
        "QuestionData": "medtune.trainer.training.data_module",
        "Questions": "medtune.api.dataset",
        "Report": "medtune.api.report",
        "Vlm": "medtune.models.transformers_vlm.generic.in_memory",
        "compare": "medtune.api.compare",
        "evaluate": "medtune.api.evaluate",
        "from_datasets": "medtune.api.hugging_face",
        "load": "medtune.api.dataset",
        "predict": "medtune.trainer.experiment.predict",
        "score": "medtune.api.score",
        "to_datasets": "medtune.api.hugging_face",
    }

    def __getattr__(name):
        if name not in _HOMES:
            raise AttributeError(f"module 'medtune' has no attribute {name!r}")
        found = globals()[name] = getattr(import_module(_HOMES[name]), name)
        return found

    def __dir__():
        return sorted({*globals(), *__all__})
