"""Says which of MedEvalKit's prompts asks a question of VQA-RAD, SLAKE and PathVQA.

The kit looks at the true answer, or at its type, to choose the prompt.

Source: alibaba-damo-academy/MedEvalKit@9b12e3b, utils/VQA_RAD/VQA_RAD.py:40-45, utils/PATH_VQA/PATH_VQA.py:40-44,
utils/SLAKE/SLAKE.py:53-57.
"""

from medtune.benchmarks.medical_kits.choice_rules import CLOSED, CLOSED_ZH, OPEN, OPEN_ZH, YES_NO, medevalkit_prompts
from medtune.benchmarks.short_answers.released_answers import is_released_as_open
from medtune.data.types import Question
from medtune.eval.asking.official_prompts import OfficialPrompts

_ENGLISH = "en"


def prompts_by_words() -> OfficialPrompts:
    """Returns the prompts of a set whose questions are yes/no questions where the answer is one of the two words."""
    return medevalkit_prompts((YES_NO, OPEN), _by_words)


def prompts_by_type() -> OfficialPrompts:
    """Returns the prompts of a set in two languages, whose release says which questions are closed."""
    return medevalkit_prompts((CLOSED, OPEN, CLOSED_ZH, OPEN_ZH), _by_type)


def _by_words(question: Question) -> str:
    return (YES_NO if question.answer.lower() in ("yes", "no") else OPEN).name


def _by_type(question: Question) -> str:
    english, chinese = (OPEN, OPEN_ZH) if is_released_as_open(question) else (CLOSED, CLOSED_ZH)
    return (english if question.facets["language"] == _ENGLISH else chinese).name
