"""The metrics of anybody's own questions; which of them are there, and which is primary, follows the questions.

The primary metric is the first one that is about any question of the split:

1. `closed_accuracy`, where there are questions with options or with yes and no;
2. `exact_match`, where most true answers are short;
3. `rouge_l`, where they are longer texts.

Closed and open questions are never mixed in one number.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from medtune.data.types import Question
from medtune.eval.metric import Metric
from medtune.eval.metrics.bleu4 import corpus_bleu
from medtune.eval.metrics.closed_accuracy import metric as closed_accuracy
from medtune.eval.metrics.exact_match import metric as exact_match
from medtune.eval.metrics.exact_match import verbatim
from medtune.eval.metrics.open_recall import metric as open_recall
from medtune.eval.metrics.rouge_l import mean_rouge_l
from medtune.eval.metrics.token_f1 import metric as token_f1
from medtune.eval.scoring.answer_kinds import is_open, is_short, num_words
from medtune.eval.scoring.normalised_text import normalised


def metrics() -> Mapping[str, Metric]:
    """Returns the metrics by name; all of open answers but `verbatim_match` are of texts after normalisation."""
    return {
        "closed_accuracy": closed_accuracy(),
        "exact_match": replace(exact_match(), is_defined_on=_are_mostly_short),
        "rouge_l": mean_rouge_l(form=normalised).only(_is_text_of(1)),
        "token_f1": token_f1(),
        "open_recall": open_recall(),
        **{f"bleu{order}": corpus_bleu(order, form=normalised).only(_is_text_of(order)) for order in (1, 2, 3, 4)},
        "verbatim_match": verbatim(),
    }


def _are_mostly_short(questions: Sequence[Question]) -> bool:
    asked = [question for question in questions if is_open(question)]
    return 2 * sum(map(is_short, asked)) >= len(asked)


def _is_text_of(words: int) -> Callable[[Question], bool]:
    return lambda question: is_open(question) and question.answer_kind != "number" and num_words(question) >= words
