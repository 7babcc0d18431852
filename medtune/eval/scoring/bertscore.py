"""Computes the BERTScore of free text with a model of the Hugging Face hub or in a local folder."""

import os
from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

from medtune.eval.metric import Metric, ParsedReply
from medtune.eval.statistics.column_sums import Statistic, mean_of

BERTSCORE = "bertscore_f1"
"""The name of the metric where an evaluation names a text model."""
PAPER_MODEL = "bert-base-multilingual-cased"
_ENDS = 2
"""The positions that models such as RoBERTa keep for other purposes."""


class BertScore(NamedTuple):
    """The BERTScore of one text; each number lies between about -1 and 1."""

    precision: float
    recall: float
    f1: float


class BertModel(NamedTuple):
    """The language model whose embeddings of words are compared."""

    name: str  # Its name on the hub, or a folder with its files.
    # The layer whose embeddings are compared; None for the one that bert-score recommends, which it knows for models of
    # the hub alone.
    layer: int | None = None


def named_model(text: str) -> BertModel:
    """Returns the model that a user names as NAME, NAME:LAYER or FOLDER:LAYER."""
    name, colon, layer = text.rpartition(":")
    if not colon:
        return BertModel(text)
    if not layer.isdigit():
        raise ValueError(f"--bertscore {text}: expected NAME, NAME:LAYER or FOLDER:LAYER, e.g. {PAPER_MODEL}:9")
    return BertModel(name, int(layer))


def check_model(model: BertModel, *, named_by: str = "--bertscore") -> None:
    """Refuses a folder that is not there, or one without its layer; a name with one slash may be one of the hub."""
    is_folder = os.sep in model.name
    if is_folder and not Path(model.name).is_dir():
        raise ValueError(f"{named_by}: there is no folder {model.name}; name one, or a model of the hub")
    if is_folder and model.layer is None:
        raise ValueError(f"{named_by}: a folder needs its layer, e.g. {model.name}:6")


def bert_scores(texts: Sequence[str], references: Sequence[str], model: BertModel) -> list[BertScore]:
    """Returns the score of each text against its reference, without idf and without rescaling; none for no texts.

    Source: Zhang et al. 2020, https://arxiv.org/abs/1904.09675; U2-Bench's use of it: gurenolun/Dolphin-ai-bench,
    new_results/qwen_report_eval.py.
    """
    check_model(model)
    if not texts:
        return []
    pairs = list(zip(texts, references, strict=True))
    known = _scores_so_far(model)
    if new := [pair for pair in dict.fromkeys(pairs) if pair not in known]:
        found = load_text_model(model).score(*map(list, zip(*new, strict=True)), batch_size=8)
        known |= {pair: BertScore(*map(float, row)) for pair, *row in zip(new, *found, strict=True)}
    return [known[pair] for pair in pairs]


@lru_cache(maxsize=1)
def _scores_so_far(model: BertModel) -> dict[tuple[str, str], BertScore]:
    """Returns the scores of texts and references so far, which tables, metrics and their intervals ask for in turn."""
    return {}


def mean_f1(model: BertModel) -> Metric:
    """Returns the mean BERTScore F1 of free texts; a reply that no parser read is an empty text."""

    def of_rows(rows: Sequence[ParsedReply]) -> Statistic:
        scores = bert_scores([row.parsed or "" for row in rows], [row.question.answer for row in rows], model)
        return mean_of([score.f1 for score in scores])

    return Metric(of_rows, worst=-1.0, best=1.0, silent=0.0, covers=lambda question: question.answer_kind == "text")


@lru_cache(maxsize=1)
def load_text_model(model: BertModel) -> Any:
    """Returns bert-score's scorer of a model, after one text was scored: what it lacks is said before a model answers.

    Raises:
        ValueError: The model is not here and the hub did not give it, or bert-score does not read it.
    """
    try:
        from bert_score import BERTScorer
    except ImportError as error:
        raise ValueError("--bertscore (eval.bertscore) needs bert-score: pip install 'bert-score>=0.3.13'") from error
    try:
        scorer = BERTScorer(model_type=model.name, num_layers=model.layer, lang="en")
        # A tokenizer that states no length has one of 1e30, to which no text can be cut.
        tokenizer, most = scorer._tokenizer, scorer._model.config.max_position_embeddings
        if tokenizer.model_max_length > most:
            tokenizer.model_max_length = most - _ENDS
        scorer.score(["a cyst"], ["a cyst"])
    except (OSError, KeyError, ValueError, RuntimeError, AttributeError, IndexError) as error:
        raise ValueError(
            f"--bertscore (eval.bertscore) {model.name}: bert-score cannot use this model: "
            f"{str(error).strip().partition(chr(10))[0]}. Name a model of the hub, or FOLDER:LAYER"
        ) from error
    return scorer
