"""Lists the conditions under which questions are asked, and checks whether a benchmark and its media allow them."""

from collections.abc import Sequence

from medtune.data.media.load import shuffled_group
from medtune.data.types import Condition, MediaGroup, Reading
from medtune.eval.asking.changed_prompts import ORGAN_FACETS, named_organ
from medtune.eval.asking.official_prompts import OUR_WORDING
from medtune.eval.benchmark import Benchmark

READINGS: tuple[Reading, ...] = ("likelihood", "generation")
CONDITIONS: tuple[Condition, ...] = ("image", "text_only", "other_image")
AUDIT_CONDITIONS: tuple[Condition, ...] = (
    "text_only",
    "other_image",
    "blank_image",
    "permuted_options",
    "shuffled_frames",
    "stated_answer",
)
"""The conditions that an audit asks under, beside the condition "image"."""
ANATOMY_NAMED: tuple[Condition, ...] = ("with_anatomy", "without_anatomy")


def check_conditions(groups: Sequence[MediaGroup], benchmark: Benchmark, conditions: Sequence[Condition]) -> None:
    """Checks that at least one media group can be asked under each of the conditions."""
    if "shuffled_frames" in conditions and "shuffled_frames" not in audit_conditions(groups):
        kinds = sorted({f"{ref.kind}s" for group in groups for ref in group.media}) or ["questions without media"]
        raise ValueError(
            f"the condition 'shuffled_frames' is not for {' and '.join(kinds)}; leave it out of eval.conditions"
        )
    _check_anatomy(groups, benchmark, [condition for condition in conditions if condition in ANATOMY_NAMED])


def _check_anatomy(groups: Sequence[MediaGroup], benchmark: Benchmark, ablation: Sequence[Condition]) -> None:
    unworded = [condition for condition in ablation if condition not in benchmark.renders]
    if benchmark.wording == OUR_WORDING and "without_anatomy" in unworded:
        raise ValueError(
            "the condition 'without_anatomy' takes the organ out of official prompts; our wording names it under "
            "'with_anatomy' alone: compare that with 'image', and leave 'without_anatomy' out of eval.conditions"
        )
    if benchmark.wording != OUR_WORDING and unworded:
        raise ValueError(
            f"{benchmark.title} has no official prompt for the condition {unworded[0]!r}; leave it out of "
            "eval.conditions, or prepare without --prompts"
        )
    if benchmark.wording != OUR_WORDING and len(ablation) == 1:
        raise ValueError(
            f"under official prompts, which may name the organ, the condition {ablation[0]!r} has to be compared with "
            f"its other half; wanted {' and '.join(ANATOMY_NAMED)} in eval.conditions"
        )
    if unworded and not any(named_organ(question) for group in groups for question in group.questions):
        raise ValueError(
            f"the condition 'with_anatomy' names the organ, and no question of {benchmark.title} says which it is "
            f"(facet {' or '.join(ORGAN_FACETS)}); leave it out of eval.conditions"
        )


def audit_conditions(groups: Sequence[MediaGroup]) -> list[Condition]:
    """Returns the conditions of an audit that the media of these groups allow."""
    impossible: set[Condition] = set()
    if not any(shuffled_group(group, seed=0) for group in groups):
        impossible.add("shuffled_frames")
    return [condition for condition in AUDIT_CONDITIONS if condition not in impossible]
