"""MedEvalKit's scores of chest X-ray reports: sentence BLEU and ROUGE against findings and impression, averaged.

Its METEOR, CIDEr, RaTEScore and GREEN are not computed here: they need data or models that it downloads.

Source: alibaba-damo-academy/MedEvalKit@9b12e3b, utils/Metrics_Compute/cal_report_metrics.py and utils/IU_XRAY.
"""

from collections.abc import Iterable

from medtune.benchmarks.medical_kits.sentence_bleu import sentence_bleu
from medtune.benchmarks.medical_kits.word_set_rouge import word_set_rouge

COLUMNS = ("bleu1", "bleu2", "bleu3", "bleu4", "rouge1", "rouge2", "rougeL")


def reference(findings: str, impression: str) -> str:
    """Returns the text that a reply is compared with; a full stop follows even where the impression ends with one."""
    return f"Findings: {findings} Impression: {impression}."


def report_scores(truth: str, reply: str) -> dict[str, float]:
    """Returns the seven scores of one reply, 0 to 1, in the order of `COLUMNS`; an empty reply has zeros.

    A reply of white space or full stops alone stops the original's run; here it has zeros as well.

    Args:
        truth: The text that `reference` returns.
        reply: The reply as it came.

    Example:
        >>> found = report_scores(reference("The heart is large.", "No change"), "The heart is large.")
        >>> round(found["bleu1"], 6), round(found["rouge1"], 6)
        (0.367879, 0.666667)
    """
    if not reply.replace(".", " ").split():
        return dict.fromkeys(COLUMNS, 0.0)
    said, true = _tokens(reply), _tokens(truth)
    overlap = word_set_rouge(reply.lower(), truth.lower())
    bleu = [sentence_bleu(said, true, [1 / order] * order) for order in range(1, 5)]
    return dict(zip(COLUMNS, (*bleu, *overlap), strict=True))


def mean_scores(pairs: Iterable[tuple[str, str]]) -> dict[str, float]:
    """Returns the mean of each score over all pairs of a truth and a reply, at least one pair."""
    found = [report_scores(truth, reply) for truth, reply in pairs]
    return {column: sum(row[column] for row in found) / len(found) for column in COLUMNS}


def _tokens(text: str) -> list[str]:
    return [word for word in text.lower().replace(".", " .").split(" ") if word]
