"""Makes MedEvalKit's prompts of questions with options, whose lines each set writes in its own way.

Source: alibaba-damo-academy/MedEvalKit@9b12e3b, utils/PMC_VQA/PMC_VQA.py:45-47, utils/OmniMedVQA/OmniMedVQA.py:93-102,
utils/MedXpertQA/MedXpertQA.py:52-57.
"""

from collections.abc import Callable

from medtune.benchmarks.choice_sets.choice_rules import Printed
from medtune.benchmarks.medical_kits.medevalkit_prompts import CHOICES, medevalkit_prompts
from medtune.data.types import Question
from medtune.eval.asking.official_prompts import OfficialPrompts


def medevalkit_choice_prompts(printed: Callable[[Question], Printed]) -> OfficialPrompts:
    """Returns the prompts of a set of questions with options.

    Args:
        printed: Returns the lines of the options as the kit prints them for this set.
    """
    return medevalkit_prompts((CHOICES,), lambda question: CHOICES.name, lines=lambda each: printed(each).choices)
