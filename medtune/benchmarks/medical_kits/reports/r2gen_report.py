r"""R2Gen's scores of chest X-ray reports: its cleaning of IU X-ray's texts, then BLEU-1 to 4 and ROUGE-L of the corpus.

The cleaning is odd in places, and kept as it is: hyphens stay, a punctuation mark before the end of a sentence leaves
two blanks, and enumerations are only removed up to 5.

Source: cuhksz-nlp/R2Gen@5a2e63f, modules/tokenizers.py (clean_report_iu_xray) and modules/metrics.py; its copy of
pycocoevalcap computes what version 1.2 of the package does.
"""

import re
from collections.abc import Sequence

from pycocoevalcap.bleu.bleu import Bleu
from pycocoevalcap.rouge.rouge import Rouge

COLUMNS = ("BLEU_1", "BLEU_2", "BLEU_3", "BLEU_4", "ROUGE_L")

# Each step replaces every occurrence, from left to right, before the next step begins.
_STEPS = (
    *[("..", ".")] * 3,
    ("1. ", ""),
    *[(f". {number}. ", ". ") for number in (2, 3, 4, 5)],
    *[(f" {number}. ", ". ") for number in (2, 3, 4, 5)],
)
_QUOTES = str.maketrans("", "", "\"'/\\")
_MARKS = re.compile(r"[.,?;*!%^&_+():<=>@\[\]{}]")


def cleaned(text: str) -> str:
    """Returns a report as R2Gen compares it: lower case, without punctuation, with " . " between sentences.

    Example:
        >>> cleaned("1. The HEART is normal.. 2. No effusion/edema, well-inflated lungs.")
        'the heart is normal . no effusionedema well-inflated lungs .'
    """
    for old, new in _STEPS:
        text = text.replace(old, new)
    sentences = text.strip().lower().split(". ")
    return " . ".join(_MARKS.sub("", sentence.translate(_QUOTES).strip()) for sentence in sentences) + " ."


def corpus_scores(pairs: Sequence[tuple[str, str]]) -> dict[str, float]:
    """Returns BLEU-1 to 4 and ROUGE-L of the cleaned texts, 0 to 1, in the order of `COLUMNS`.

    BLEU is counted over all texts together; ROUGE-L is the mean of the texts. An empty reply counts as an empty text.

    Args:
        pairs: The truth and the reply of each report, at least one.
    """
    true = {number: [cleaned(truth)] for number, (truth, _) in enumerate(pairs)}
    said = {number: [cleaned(reply) if reply.strip() else ""] for number, (_, reply) in enumerate(pairs)}
    bleu, _ = Bleu(4).compute_score(true, said, verbose=0)
    longest, _ = Rouge().compute_score(true, said)
    return dict(zip(COLUMNS, (*map(float, bleu), float(longest)), strict=True))


def rouge_l(truth: str, reply: str) -> float:
    """Returns ROUGE-L of one cleaned reply, 0 to 1."""
    return float(Rouge().calc_score([cleaned(reply)], [cleaned(truth)]))
