"""Scores reply texts as the official code of version 2 does, with its rounding to 4 places."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from medtune.benchmarks.ctlesionvqa import yes_no_table
from medtune.benchmarks.ctlesionvqa.reply_parsers import normalised, official_letter, official_number, official_yes_no
from medtune.benchmarks.ctlesionvqa.scoring import v2_code
from medtune.benchmarks.ctlesionvqa.subtypes import answer_type, subtype
from medtune.data.grouping import grouped
from medtune.eval.scoring.parsers.choice_statements import without_thinking

TOLERANCES = (0.05, 0.1, 0.2, 0.5)
_PLACES = 4

Json = dict[str, object]


class ReplyAndTruth(NamedTuple):
    """A reply and the true answer, both as text."""

    reply: str
    truth: str


@dataclass(frozen=True, slots=True)
class SubtypeScore:
    value: float  # The number that enters the averages: the mean MRA of a numeric subtype, the accuracy of any other.
    n: int  # The number of questions. That of a numeric subtype includes questions whose true answer is not a number.
    details: Json  # The dictionary that the official code writes.


@dataclass(frozen=True, slots=True)
class V2Row:
    """A question of version 2 that was answered, with its subtype, the category of that, and the reply."""

    subtype: str
    super_type: str
    pair: ReplyAndTruth


def score_numeric(pairs: Sequence[ReplyAndTruth]) -> SubtypeScore:
    """Returns the mean relative accuracy by version 2's definition, and the shares within 5, 10, 20 and 50 %.

    A question whose true answer is not a number is left out of the mean but counted in `n`. A reply without a number
    scores 0.

    Source: Schuture/DeepTumorVQA@1df7460 (branch v2), src/deeptumorvqa/eval/metrics.py (score_numeric).
    """
    values, errors = [], []
    for reply, text in pairs:
        truth, said = official_number(text), official_number(without_thinking(reply))
        if truth is not None:
            values.append(0.0 if said is None else v2_code(said, truth))
            errors.append(float("inf") if said is None else _relative_error(said, truth))
    mean = _mean(values)
    within = {f"tol_{100 * bound:.0f}%": _mean([float(error <= bound) for error in errors]) for bound in TOLERANCES}
    return SubtypeScore(
        mean,
        len(pairs),
        {"metric": "MRA", "mean_mra": mean, "tolerance_acc": within, "n_total": len(pairs), "n_scored": len(values)},
    )


def score_binary(pairs: Sequence[ReplyAndTruth]) -> SubtypeScore:
    """Returns accuracy, sensitivity and specificity.

    An unreadable reply is never right in the accuracy, but it counts as a true negative in the specificity.

    Source: Schuture/DeepTumorVQA@1df7460 (branch v2), src/deeptumorvqa/eval/metrics.py (score_binary).
    """
    read = [(official_yes_no(without_thinking(reply)), official_yes_no(truth)) for reply, truth in pairs]
    found = yes_no_table.official(yes_no_table.yes_no_table(read))
    accuracy = _mean([float(said == truth and said != "") for said, truth in read])
    return SubtypeScore(
        accuracy,
        len(pairs),
        {
            "metric": "exact_match",
            "accuracy": accuracy,
            "sensitivity": round(found.sensitivity or 0.0, _PLACES),
            "specificity": round(found.specificity or 0.0, _PLACES),
            "n_total": len(pairs),
        },
    )


def score_categorical(pairs: Sequence[ReplyAndTruth]) -> SubtypeScore:
    """Returns the share of replies that equal the true phrase, and the share in which one phrase contains the other.

    Source: Schuture/DeepTumorVQA@1df7460 (branch v2), src/deeptumorvqa/eval/metrics.py (score_categorical).
    """
    read = [(normalised(without_thinking(reply)), normalised(truth)) for reply, truth in pairs]
    accuracy = _mean([float(said == truth) for said, truth in read])
    partial = [said == truth or (said != "" != truth and (said in truth or truth in said)) for said, truth in read]
    return SubtypeScore(
        accuracy,
        len(pairs),
        {
            "metric": "exact_match",
            "accuracy": accuracy,
            "partial_accuracy": _mean([float(is_partial) for is_partial in partial]),
            "n_total": len(pairs),
        },
    )


def score_letters(pairs: Sequence[ReplyAndTruth]) -> SubtypeScore:
    """Returns the share of right letters, and the number of replies from which a letter could be read.

    Source: Schuture/DeepTumorVQA@1df7460 (branch v2), src/deeptumorvqa/eval/metrics.py (score_mc).
    """
    read = [(official_letter(reply), key.strip().upper()) for reply, key in pairs]
    accuracy = _mean([float(said == key) for said, key in read])
    parsed = sum(said != "" for said, _ in read)
    return SubtypeScore(
        accuracy, len(pairs), {"metric": "exact_match", "accuracy": accuracy, "n_parsed": parsed, "n_total": len(pairs)}
    )


_FREE_TEXT = {"numeric": score_numeric, "binary": score_binary, "categorical": score_categorical}


def score_free_text(name: str, pairs: Sequence[ReplyAndTruth]) -> SubtypeScore:
    """Returns the score of a subtype's free-text answers, by the rule for its kind of answer."""
    return _FREE_TEXT[answer_type(name)](pairs)


def answered(
    questions: Iterable[Mapping[str, str]], predictions: Iterable[Mapping[str, str]], truth: str
) -> list[V2Row]:
    """Returns the rows of the official files that have both a question and a prediction.

    Args:
        questions: Rows with the keys "qid", "question_subtype", "question_type" and the one that `truth` names.
        predictions: Rows with the key "qid" and with "pred_answer" or, if that is empty or missing, "raw_output".
        truth: The key of the true answer: "correct_option" for multiple choice, "answer" for free text.

    Source: Schuture/DeepTumorVQA@1df7460 (branch v2), src/deeptumorvqa/eval/metrics.py (aggregate).
    """
    by_id = {question["qid"]: question for question in questions}
    super_types: dict[str, str] = {}
    for question in by_id.values():
        super_types.setdefault(question["question_subtype"], question["question_type"])
    rows = []
    for prediction in predictions:
        asked = by_id.get(prediction["qid"])
        if asked is not None:
            reply = prediction.get("pred_answer") or prediction.get("raw_output") or ""
            name = asked["question_subtype"]
            rows.append(V2Row(name, super_types[name], ReplyAndTruth(reply, asked[truth])))
    return rows


def aggregate_letters(rows: Sequence[V2Row]) -> Json:
    """Returns the official result of multiple choice; without rows its accuracy is 0."""
    return _aggregate({name: score_letters(pairs) for name, pairs in _by_subtype(rows).items()}, rows)


def aggregate_free_text(rows: Sequence[V2Row]) -> Json:
    """Returns the official result of free text; without rows its accuracy is 0."""
    return _aggregate({name: score_free_text(name, pairs) for name, pairs in _by_subtype(rows).items()}, rows)


def _by_subtype(rows: Iterable[V2Row]) -> dict[str, list[ReplyAndTruth]]:
    by_name = grouped(rows, lambda row: subtype(row.subtype))
    return {name: [row.pair for row in same] for name, same in by_name.items()}


def _aggregate(scores: Mapping[str, SubtypeScore], rows: Iterable[V2Row]) -> Json:
    """Returns the averages of the subtypes' rounded scores, weighted by their numbers of questions.

    Source: Schuture/DeepTumorVQA@1df7460 (branch v2), src/deeptumorvqa/eval/metrics.py (aggregate).
    """
    super_types = {subtype(row.subtype): row.super_type for row in rows}
    by_super_type = {
        name: _weighted([score for each, score in scores.items() if super_types[each] == name])
        for name in dict.fromkeys(super_types.values())
    }
    return {
        "overall": {**_weighted(list(scores.values())), "n_subtypes": len(scores)},
        "by_super_type": by_super_type,
        "by_subtype": {name: score.details for name, score in scores.items()},
    }


def _weighted(scores: Sequence[SubtypeScore]) -> Json:
    n = sum(score.n for score in scores)
    return {"accuracy": round(sum(score.value * score.n for score in scores) / max(n, 1), _PLACES), "n_total": n}


def _relative_error(said: float, truth: float) -> float:
    if truth == 0:
        return 0.0 if said == 0 else float("inf")
    return abs(said - truth) / abs(truth)


def _mean(values: Sequence[float]) -> float:
    return round(sum(values) / max(len(values), 1), _PLACES)
