"""The metrics of short answers: closed questions, which the release calls so, apart from open ones."""

from collections.abc import Mapping

from medtune.benchmarks.short_answers.released_answers import is_closed, is_open
from medtune.eval.metric import Metric
from medtune.eval.metrics.closed_accuracy import metric as closed_accuracy
from medtune.eval.metrics.exact_match import metric as exact_match
from medtune.eval.metrics.open_recall import metric as open_recall
from medtune.eval.metrics.token_f1 import metric as token_f1


def metrics() -> Mapping[str, Metric]:
    """Returns the metrics by name, the accuracy of closed questions first.

    A closed question without listed answers ("left or right?") counts as closed here, as in the printed numbers.
    """
    return {
        "closed_accuracy": closed_accuracy().only(is_closed),
        "exact_match": exact_match().only(is_open),
        "token_f1": token_f1().only(is_open),
        "open_recall": open_recall().only(is_open),
    }
