"""MedEvalKit's rules for closed questions: yes or no as substrings, and equality for everything else.

Source: alibaba-damo-academy/MedEvalKit@9b12e3b, utils/utils.py (judge_judgement, judge_close_end_vqa).
"""

from medtune.benchmarks.medical_kits.medevalkit_reply import answer_part


def is_right_yes_no(truth: str, reply: str) -> bool:
    """Returns whether the kit counts a reply to a yes/no question as right.

    Exactly one of "yes" and "no" has to stand somewhere in the reply, even inside of another word ("normal", "know").

    Example:
        >>> [is_right_yes_no("no", reply) for reply in ("No.", "abnormal", "I do not know", "yes and no", "false")]
        [True, True, True, False, False]
    """
    said = _plain(reply)
    return ("yes" in said) != ("no" in said) and truth.lower() in said


def is_right_word(truth: str, reply: str) -> bool:
    """Returns whether the kit counts a reply to another closed question as right: it has to equal the truth.

    Full stops and line breaks are ignored, blanks at the ends are not.

    Example:
        >>> [is_right_word("Yes", reply) for reply in ("yes.", "Yes, there is.", "The answer is yes")]
        [True, False, False]
    """
    return _plain(reply) == truth.lower()


def _plain(reply: str) -> str:
    return answer_part(reply).replace("\n", "").replace(".", "")
