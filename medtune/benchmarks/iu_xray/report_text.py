"""Reads the asked part of a report from a reply, and compares reports word by word, whatever their layout.

Two reports are compared after these steps, which both undergo:

1. Only the part that is asked for counts: a headed part that was not asked for is left out, and so are headings.
2. The text is normalised (`medtune/eval/scoring/normalised_text.py`): no case, punctuation or articles.
3. "XXXX" is left out. It stands for a word that the release has removed, which no model can know from an image.

BLEU is counted over all reports together and ROUGE-L is the mean of the reports, both with the formulas of
pycocoevalcap.
"""

from __future__ import annotations

import re
from functools import partial

from medtune.data.types import Question
from medtune.eval.metric import Metric, mean_of_rows, sums_of_rows
from medtune.eval.metrics.bleu4 import bleu_counts, bleu_of_counts
from medtune.eval.metrics.rouge_l import rouge_l
from medtune.eval.parsed_reply import ParsedReply
from medtune.eval.scoring.normalised_text import normalised
from medtune.eval.scoring.parsers.think_blocks import after_thoughts

FINDINGS, IMPRESSION, REPORT = "findings", "impression", "report"
REMOVED = "xxxx"
"""What stands for a removed word. Source: Demner-Fushman et al. 2016, doi:10.1093/jamia/ocv080."""
_PART = "(findings?|impressions?)"
# A heading ends with a colon, or it is a line of its own.
_HEADING = re.compile(rf"^[#*_ ]*{_PART}[ *_]*$|[#*_ ]*\b{_PART}\b[ *_]*:[*_]*", re.IGNORECASE | re.MULTILINE)


def asked_part(text: str, task: str) -> str:
    """Returns the part of a report that a task asks for, without headings; what has no heading counts as asked for.

    Example:
        >>> asked_part("**Findings:** Clear lungs. **Impression:** Normal chest.", FINDINGS)
        'Clear lungs.'
        >>> asked_part("Findings: Clear lungs. Impression: Normal chest.", REPORT)
        'Clear lungs. Normal chest.'
    """
    first, *pieces = _HEADING.split(text)
    headed = zip(pieces[::3], pieces[1::3], pieces[2::3], strict=True)
    wanted = [first, *(part for alone, inline, part in headed if task in (REPORT, _task_of(alone or inline)))]
    return " ".join(part.strip() for part in wanted if part.strip())


def _task_of(heading: str) -> str:
    return IMPRESSION if heading.lower().startswith(IMPRESSION) else FINDINGS


def parse_report(reply: str, question: Question) -> str | None:
    """Returns the part of a reply that the question asks for; None where it holds no word."""
    said = asked_part(after_thoughts(reply), question.facets["task"])
    return said if normalised(said) else None


def compared(text: str, question: Question) -> str:
    """Returns the words of a report in the form in which they are compared, with single blanks.

    Example:
        >>> asked = Question("q", "m", "?", (), "", "text", "p", {"task": "findings"})
        >>> compared("Findings: The heart is XXXX; lungs are clear.", asked)
        'heart is lungs are clear'
    """
    plain = normalised(asked_part(text, question.facets["task"]))
    return " ".join(word for word in plain.split() if word != REMOVED)


def report_rouge_l() -> Metric:
    """Returns the mean ROUGE-L of the compared words, 0 to 1; an unparsable reply is an empty text.

    Source:
        Lin 2004, https://aclanthology.org/W04-1013; pycocoevalcap 1.2, rouge.py.
    """
    return Metric(mean_of_rows(lambda row: rouge_l(*_both(row))))


def report_bleu(order: int) -> Metric:
    """Returns BLEU with n-grams up to `order` of the compared words, 0 to 1; an unparsable reply is an empty text.

    Source:
        Papineni et al. 2002, doi:10.3115/1073083.1073135; pycocoevalcap 1.2, bleu_scorer.py.
    """
    return Metric(sums_of_rows(lambda row: bleu_counts(*_both(row)), partial(bleu_of_counts, order=order)))


def _both(row: ParsedReply) -> tuple[str, str]:
    return compared(row.parsed or "", row.question), compared(row.question.answer, row.question)
