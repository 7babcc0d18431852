"""MedEvalKit's rule for multiple-choice questions, of PMC-VQA, OmniMedVQA and MedXpertQA alike.

It never leaves a reply unread: what is neither a letter nor an option's words counts as the option whose words are most
like the reply, and as option A where nothing is alike.

Source: alibaba-damo-academy/MedEvalKit@9b12e3b, utils/utils.py:68-132; utils/PMC_VQA/PMC_VQA.py,
utils/OmniMedVQA/OmniMedVQA.py and utils/MedXpertQA/MedXpertQA.py (cal_metrics). Three forks have the same rule.
"""

import difflib
from collections.abc import Sequence
from string import ascii_lowercase

from medtune.benchmarks.medical_kits.medevalkit_sets import answer_part

_PARAGRAPHS = "\n\n"


def is_right(choices: Sequence[str], answer: str, reply: str) -> bool:
    """Returns whether the kit counts a reply as right.

    Args:
        choices: The options as the kit prints them, with their letters where it prints them.
        answer: The letter of the true option, or its text as printed.
        reply: The reply; without what is outside of its answer tags where the kit first takes these.

    Example:
        >>> printed = ["A. cyst", "B. tumour"]
        >>> [is_right(printed, "A", reply) for reply in ("A", "a. cyst", "The answer is A.", "cyst", "", "tumour")]
        [True, True, True, True, True, False]
    """
    listed, truth = [choice.lower() for choice in choices], answer.strip().lower()
    letters = ascii_lowercase[: len(listed)]
    text = answer_part(_letter_of_paragraph(reply.lower(), letters)).strip().lower().replace("\n", "")
    said = text.partition(".")[0].rpartition(":")[2]
    if said == truth:
        return True
    if len(said) == 1 and said in letters:
        return listed[letters.index(said)] == truth
    if said in listed:
        return len(truth) == 1 and truth in letters and said == listed[letters.index(truth)]
    nearest = _most_similar(listed, text)
    return truth in (letters[nearest], listed[nearest])


def _letter_of_paragraph(reply: str, letters: str) -> str:
    # Three line breaks end a paragraph after two, so that the next one begins with the third.
    paragraphs = reply.split(_PARAGRAPHS)
    said = (paragraphs[0], paragraphs[-1].partition(".")[0])
    return next((each for each in said if len(each) == 1 and each in letters), reply)


def _most_similar(choices: Sequence[str], text: str) -> int:
    ratios = [difflib.SequenceMatcher(None, choice, text).ratio() for choice in choices]
    return ratios.index(max(ratios))
