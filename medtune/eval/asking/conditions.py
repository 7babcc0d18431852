"""Lists the conditions under which questions are asked, and checks whether a benchmark and its media allow them.

Changes a benchmark's prompts for two conditions: the right answer is stated, or the organ shown is named.

The stated answer is the last line, so that the prompt shares everything before it with the plain question.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from medtune.data.media.load import shuffled_group
from medtune.data.types import AnswerFormat, Condition, MediaGroup, MediaKind, Prompt, Question, Reading
from medtune.eval.asking.official_prompts import OUR_WORDING
from medtune.eval.benchmark import Benchmark, Render

ORGAN_FACETS = ("anatomy", "organ")
"""The facets that name the organ of a question; the first one that the question has is used."""
_SHOWN: Mapping[MediaKind, str] = {"image": "image", "video": "video", "volume": "scan"}

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


def with_stated_answer(render: Render) -> Render:
    """Returns a renderer of the same prompts with the right answer stated in words: the condition "stated_answer".

    A model does not need the image for these prompts; it only has to find the stated option and to answer in the
    format that is asked for.

    >>> from medtune.eval.asking.choice_prompt import render_choice
    >>> asked = Question("q", "m", "What is shown?", ("benign", "normal"), "normal", "choice", "p")
    >>> print(with_stated_answer(render_choice)(asked, "letter").text)
    What is shown?
    A. benign
    B. normal
    Answer with its letter.
    The right answer is normal.
    """

    def stated(question: Question, answer_format: AnswerFormat) -> Prompt:
        prompt = render(question, answer_format)
        return replace(prompt, text=f"{prompt.text}\nThe right answer is {question.answer}.")

    return stated


def named_organ(question: Question) -> str | None:
    """Returns the organ that a prompt may name for a question, from its facets; None where they name none."""
    return next((question.facets[facet] for facet in ORGAN_FACETS if question.facets.get(facet)), None)


def with_named_organ(render: Render, kinds: Sequence[MediaKind]) -> Render:
    """Returns a renderer of the same prompts after a line that names the organ: the condition "with_anatomy".

    A question without a named organ or without media keeps its prompt.

    >>> from medtune.eval.asking.choice_prompt import render_choice
    >>> asked = Question("q", "m", "Is there a lesion?", ("yes", "no"), "no", "choice", "p", {"organ": "liver"})
    >>> print(with_named_organ(render_choice, ["volume"])(asked, "letter").text)
    The scan shows: liver.
    Is there a lesion?
    A. yes
    B. no
    Answer with its letter.

    Source: U2-Bench (arXiv 2505.17779), section 5, asks with and without the organ's name.
    """

    def named(question: Question, answer_format: AnswerFormat) -> Prompt:
        organ = named_organ(question)
        text = f"{_what_shows(kinds)}: {organ}.\n{question.text}" if organ and kinds else question.text
        return render(replace(question, text=text), answer_format)

    return named


def _what_shows(kinds: Sequence[MediaKind]) -> str:
    if len(kinds) == 1:
        return f"The {_SHOWN[kinds[0]]} shows"
    return f"The {' and '.join(f'{_SHOWN[kind]}s' for kind in dict.fromkeys(kinds))} show"


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
