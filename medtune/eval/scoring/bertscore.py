"""Computes the BERTScore of free text with a model of the Hugging Face hub or in a local folder."""

import os
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

PAPER_MODEL = "bert-base-multilingual-cased"


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
    import bert_score

    found = bert_score.score(
        list(texts), list(references), model_type=model.name, num_layers=model.layer, lang="en", batch_size=8
    )
    return [BertScore(*map(float, row)) for row in zip(*found, strict=True)]
