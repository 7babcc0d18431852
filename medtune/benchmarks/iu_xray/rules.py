"""The rules of R2Gen and MedEvalKit for reports, which stand beside our scores."""

from collections.abc import Mapping, Sequence

from medtune.benchmarks.iu_xray.report_text import FINDINGS, REPORT
from medtune.benchmarks.medical_kits.reports import medevalkit_report, r2gen_report
from medtune.data.types import Question
from medtune.eval.scoring.reply_rules import ReplyRule

_NAMES = {"BLEU_1": "bleu1", "BLEU_2": "bleu2", "BLEU_3": "bleu3", "BLEU_4": "bleu4", "ROUGE_L": "rouge_l"}


def by_r2gen(replies: Sequence[tuple[Question, str]]) -> Mapping[str, float]:
    """Returns R2Gen's BLEU-1 to 4 and ROUGE-L of the questions that ask for findings alone; nothing without any."""
    pairs = [(question.answer, reply) for question, reply in replies if question.facets["task"] == FINDINGS]
    return {_NAMES[name]: value for name, value in r2gen_report.corpus_scores(pairs).items()} if pairs else {}


def by_medevalkit(replies: Sequence[tuple[Question, str]]) -> Mapping[str, float]:
    """Returns MedEvalKit's mean BLEU and ROUGE of the questions that ask for both parts; nothing without any."""
    # The kit puts a full stop behind findings and impression, even if the impression ends with one.
    pairs = [(f"{question.answer}.", reply) for question, reply in replies if question.facets["task"] == REPORT]
    if not pairs:
        return {}
    found = medevalkit_report.mean_scores(pairs)
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
TASK_OF: Mapping[str, str] = {"r2gen": FINDINGS, "medevalkit": REPORT}
"""The part of a report that each rule is about."""
