"""The rules of R2Gen and MedEvalKit for reports, which stand beside our scores.

R2Gen cleans IU X-ray's texts, then counts BLEU-1 to 4 and ROUGE-L of the corpus. The cleaning is odd in places,
and kept as it is: hyphens stay, a punctuation mark before the end of a sentence leaves two blanks, and enumerations are
only removed up to 5.

MedEvalKit averages sentence BLEU and ROUGE against findings and impression. Its METEOR, CIDEr, RaTEScore and GREEN are
not computed here: they need data or models that it downloads.

Source: cuhksz-nlp/R2Gen@5a2e63f, modules/tokenizers.py (clean_report_iu_xray) and modules/metrics.py; its copy of
pycocoevalcap computes what version 1.2 of the package does. MedEvalKit's are of
alibaba-damo-academy/MedEvalKit@9b12e3b, utils/Metrics_Compute/cal_report_metrics.py and utils/IU_XRAY.
"""

import re
from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from medtune.benchmarks.iu_xray.reports import FINDINGS, REPORT
from medtune.benchmarks.medical_kits.sentence_bleu import sentence_bleu, word_set_rouge
from medtune.data.types import Question
from medtune.eval.metrics.bleu import bleu_counts, bleu_of_counts
from medtune.eval.metrics.rouge_l import rouge_l as rouge_l_of
from medtune.eval.scoring.reply_rules import ReplyRule

R2GEN_COLUMNS = ("BLEU_1", "BLEU_2", "BLEU_3", "BLEU_4", "ROUGE_L")
# Each step replaces every occurrence, from left to right, before the next step begins.
_STEPS = (
    *[("..", ".")] * 3,
    ("1. ", ""),
    *[(f". {number}. ", ". ") for number in (2, 3, 4, 5)],
    *[(f" {number}. ", ". ") for number in (2, 3, 4, 5)],
)
_QUOTES = str.maketrans("", "", "\"'/\\")
_MARKS = re.compile(r"[.,?;*!%^&_+():<=>@\[\]{}]")
COLUMNS = ("bleu1", "bleu2", "bleu3", "bleu4", "rouge1", "rouge2", "rougeL")
_NAMES = {"BLEU_1": "bleu1", "BLEU_2": "bleu2", "BLEU_3": "bleu3", "BLEU_4": "bleu4", "ROUGE_L": "rouge_l"}
TASK_OF: Mapping[str, str] = {"r2gen": FINDINGS, "medevalkit": REPORT}
"""The part of a report that each rule is about."""


def cleaned(text: str) -> str:
    """Returns a report as R2Gen compares it: lower case, without punctuation, with " . " between sentences.

    >>> cleaned("1. The HEART is normal.. 2. No effusion/edema, well-inflated lungs.")
    'the heart is normal . no effusionedema well-inflated lungs .'
    """
    for old, new in _STEPS:
        text = text.replace(old, new)
    sentences = text.strip().lower().split(". ")
    return " . ".join(_MARKS.sub("", sentence.translate(_QUOTES).strip()) for sentence in sentences) + " ."


def corpus_scores(pairs: Sequence[tuple[str, str]]) -> dict[str, float]:
    """Returns BLEU-1 to 4 and ROUGE-L of the cleaned texts, 0 to 1, in the order of `R2GEN_COLUMNS`.

    BLEU is counted over all texts together; ROUGE-L is the mean of the texts. An empty reply counts as an empty text.
    """
    texts = [(cleaned(reply) if reply.strip() else "", cleaned(truth)) for truth, reply in pairs]
    counts = np.sum([bleu_counts(*each) for each in texts], axis=0)
    bleu = [float(bleu_of_counts(counts, order=order)) for order in (1, 2, 3, 4)]
    longest = float(np.mean([rouge_l_of(*each) for each in texts]))
    return dict(zip(R2GEN_COLUMNS, (*bleu, longest), strict=True))


def rouge_l(truth: str, reply: str) -> float:
    """Returns ROUGE-L of one cleaned reply, 0 to 1."""
    return rouge_l_of(cleaned(reply), cleaned(truth))


def reference(findings: str, impression: str) -> str:
    """Returns the text that a reply is compared with; a full stop follows even where the impression ends with one."""
    return f"Findings: {findings} Impression: {impression}."


def report_scores(truth: str, reply: str) -> dict[str, float]:
    """Returns the seven scores of one reply, 0 to 1, in the order of `COLUMNS`; an empty reply has zeros.

    A reply of white space or full stops alone stops the original's run; here it has zeros as well.

    Args:
        truth: The text that `reference` returns.

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
    found = [report_scores(truth, reply) for truth, reply in pairs]
    return {column: sum(row[column] for row in found) / len(found) for column in COLUMNS}


def _tokens(text: str) -> list[str]:
    return [word for word in text.lower().replace(".", " .").split(" ") if word]


def by_r2gen(replies: Sequence[tuple[Question, str]]) -> Mapping[str, float]:
    """Returns R2Gen's BLEU-1 to 4 and ROUGE-L of the questions that ask for findings alone; nothing without any."""
    pairs = [(question.answer, reply) for question, reply in replies if question.facets["task"] == FINDINGS]
    return {_NAMES[name]: value for name, value in corpus_scores(pairs).items()} if pairs else {}


def by_medevalkit(replies: Sequence[tuple[Question, str]]) -> Mapping[str, float]:
    """Returns MedEvalKit's mean BLEU and ROUGE of the questions that ask for both parts; nothing without any."""
    # The kit puts a full stop behind findings and impression, even if the impression ends with one.
    pairs = [(f"{question.answer}.", reply) for question, reply in replies if question.facets["task"] == REPORT]
    if not pairs:
        return {}
    found = mean_scores(pairs)
    return {**{name: found[name] for name in found if name != "rougeL"}, "rouge_l": found["rougeL"]}


RULES: Mapping[str, ReplyRule] = {
    "r2gen": ReplyRule(
        title="R2Gen, findings",
        source="cuhksz-nlp/R2Gen@5a2e63f, modules/tokenizers.py and modules/metrics.py",
        differs="It counts full stops as words and XXXX as a word to be guessed; R2Gen's own runs also read rare words "
        "as <unk> and cut reports at 59 words, which is not done here.",
        score=by_r2gen,
    ),
    "medevalkit": ReplyRule(
        title="MedEvalKit, findings and impression",
        source="alibaba-damo-academy/MedEvalKit@9b12e3b, utils/Metrics_Compute/cal_report_metrics.py",
        differs="It averages BLEU of single reports without smoothing, counts headings and full stops as words and "
        "repeated words once in ROUGE; a reply of blanks or full stops, which stops its run, has 0 here.",
        score=by_medevalkit,
    ),
}
"""The rules by name."""
