"""Lists where ReXSonoVQA's paper and its published score files disagree."""

from __future__ import annotations

from medtune.benchmarks import published
from medtune.benchmarks.rexsonovqa.blind_against_video import FREE_OUTCOMES
from medtune.eval.scoring.tables import Table

# The number of responses with 2, 1 and 0 points in the score files that the paper's authors published.
_GEMINI_FILE_POINTS = (99, 42, 124)
_GEMINI_RECODED = 11


def contradictions() -> Table:
    """Returns the list of contradictions: the number that the paper prints, and the one that the score files give.

    Source:
        ReXSonoVQA (arXiv 2604.10916), Appendix C; rajpurkarlab/RexSonoVQA@c2b931f, final_scores_all_free.
    """
    numbers = published("rexsonovqa")
    full, half, zero = _GEMINI_FILE_POINTS
    from_files = (2 * full + half) / (full + half + zero)
    recoded = (2 * full + half + _GEMINI_RECODED) / (full + half + zero)
    totals = numbers["free"]["Gemini 3 Pro"][-1]
    blind = {tuple(row[-1] for row in cells[:-1]) for cells in numbers["mcq"].values()}
    blind_free = {tuple(row[-1] for row in cells[:-1]) for cells in numbers["free"].values()}
    rows = (
        (
            "Gemini 3 Pro, free response with video",
            f"mean {numbers['text']['fr_video_overall']}, {totals[FREE_OUTCOMES.index('0')]} with 0 points",
            f"score files: mean {from_files:.4f}, {zero} with 0 points; equal ({recoded:.4f}) once {_GEMINI_RECODED} "
            "zeros with a single error count 1, as for no other model",
        ),
        (
            "blind runs of the four models, Tables A1 to A8",
            "each model's own",
            f"{len(blind)} multiple-choice and {len(blind_free)} free-response row of totals in all: one run for all",
        ),
        (
            "random multiple choice",
            f"{numbers['text']['random_mcq']} %",
            "always A is right for 110 of 249 (44.2 %) in the published order, above the blind run (42.2 %)",
        ),
    )
    return Table("Contradictions in the published numbers", ("where", "printed", "against"), rows)
