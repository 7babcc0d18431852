"""Scores predictions about a prepared folder, with the label that the numbers carry."""

from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

from medtune.data.prepared.read import Prepared
from medtune.data.types import Prediction, Question
from medtune.eval.asking.official_prompts import FOREIGN_WORDING
from medtune.eval.benchmark import Benchmark
from medtune.eval.data_label import DataLabel, label_of
from medtune.eval.evidence import ParsedReplies
from medtune.eval.learnt import NOT_TRAINED, SeenBefore
from medtune.eval.scoring.baselines import TrainSplit
from medtune.eval.scoring.bertscore import BertModel
from medtune.eval.scoring.parse_replies import LIKELIHOOD, primary_parser
from medtune.eval.scoring.score import PhaseScores, score_phase
from medtune.eval.scoring.standing import why_unlike_published


class ScoredPredictions(NamedTuple):
    scores: PhaseScores
    label: DataLabel
    benchmark: Benchmark  # The benchmark; where the prompts of the predictions are not known, its wording says so.


def score_prepared(
    prepared: Prepared,
    asked: Sequence[Question],
    predictions: Sequence[Prediction],
    benchmark: Benchmark,
    *,
    parser: str | None = None,
    text_model: BertModel | None = None,
    seen: SeenBefore = NOT_TRAINED,
    parsed: ParsedReplies | None = None,
) -> ScoredPredictions:
    """Returns the scores of predictions, with the train split's answers as baselines."""
    if any(prediction.prompt_hash is None for prediction in predictions):
        benchmark = replace(benchmark, wording=FOREIGN_WORDING)
    label = label_of(
        prepared.manifest,
        prompts=benchmark.wording,
        unofficial_training=seen.unofficial,
        learnt_lookalikes=seen.alike,
        seen_in_training=seen.again,
    )
    if parser is None:
        is_likely = any(prediction.key[1:3] == ("image", LIKELIHOOD) for prediction in predictions)
        parser = primary_parser(("likelihood",) if is_likely else (), benchmark)
    scores = score_phase(
        asked,
        predictions,
        benchmark,
        train=TrainSplit(lambda: prepared.each_question("train")),
        parser=parser,
        text_model=text_model,
        unlike_published=why_unlike_published(label, benchmark, asked, parser=parser),
        parsed=parsed,
    )
    return ScoredPredictions(scores, label, benchmark)
