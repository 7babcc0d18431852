"""The question types of ReXSonoVQA, and which of its questions are scored."""

from collections.abc import Mapping

TYPES = ("Type1_ActionGoalReasoning", "Type2_ArtifactResolutionOptimization", "Type3_ProcedureContextPlanning")
_OLDER_TYPES = {
    "Type4_DisambiguationSafetyDecision": TYPES[1],
    "Type2_OptimizationTroubleshooting": TYPES[1],
}


def question_type(name: str) -> str:
    """Returns the present name of a question type, which had other names before; an unknown type is returned unchanged.

    Source:
        rajpurkarlab/RexSonoVQA@c2b931f, evaluate_results.py (normalize_question_type).
    """
    return _OLDER_TYPES.get(name, name)


def is_kept(row: Mapping[str, object]) -> bool:
    """Returns whether a row is scored: its "keep" is missing or the boolean true (the text "true" and 1 do not count).

    Source:
        rajpurkarlab/RexSonoVQA@c2b931f, evaluate_results.py (print_statistics).
    """
    return row.get("keep", True) is True
