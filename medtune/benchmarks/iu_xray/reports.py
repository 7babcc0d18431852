"""Reads the asked part of a report from a reply, and compares reports word by word, whatever their layout.

A reply and the true report are compared after these steps:

1. Of the reply, only the part that is asked for counts: a headed part that was not asked for is left out. Headings are
   left out of both.
2. The texts are normalised (`medtune/eval/scoring/parse_replies.py`): no case, punctuation or articles.
3. "XXXX" is left out. It stands for a word that the release has removed, which no model can know from an image.

BLEU is counted over all reports together and ROUGE-L is the mean of the reports, both with the formulas of
pycocoevalcap.
"""

import re
from collections.abc import Mapping

from medtune.data.types import Question
from medtune.eval.metric import Metric
from medtune.eval.metrics.bleu import corpus_bleu
from medtune.eval.metrics.rouge_l import mean_rouge_l
from medtune.eval.scoring.normalised_text import normalised
from medtune.eval.scoring.parsers.choice_statements import after_thoughts

FINDINGS, IMPRESSION, REPORT = "findings", "impression", "report"
REMOVED = "xxxx"
"""What stands for a removed word. Source: Demner-Fushman et al. 2016, doi:10.1093/jamia/ocv080."""
_PART = "(findings?|impressions?)"
# A heading ends with a colon, or it is a line of its own.
_HEADING = re.compile(rf"^[#*_ ]*{_PART}[ *_]*$|[#*_ ]*\b{_PART}\b[ *_]*:[*_]*", re.IGNORECASE | re.MULTILINE)


def asked_part(text: str, task: str) -> str:
    """Returns the part of a report that a task asks for, without headings; what has no heading counts as asked for.

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


def compared(text: str) -> str:
    """Returns the words of a report in the form in which they are compared, with single blanks.

    >>> compared("Findings: The heart is XXXX; lungs are clear.")
    'heart is lungs are clear'
    """
    return " ".join(word for word in normalised(asked_part(text, REPORT)).split() if word != REMOVED)


def metrics() -> Mapping[str, Metric]:
    """Returns ROUGE-L and BLEU-1 to 4 of the compared words, by name; an unparsable reply is an empty text."""
    bleu = {f"bleu{order}": corpus_bleu(order, form=compared) for order in range(1, 5)}
    return {"rouge_l": mean_rouge_l(form=compared), **bleu}
