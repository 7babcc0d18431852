"""Counts generations that did not end with an answer: refusals, and replies that were cut at their length."""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from medtune.data.grouping import grouped
from medtune.data.types import Prediction
from medtune.eval.scoring.parsers.choice_statements import after_thoughts

_OPENING = r"(?:(?:i(?:'|’)?m|i am|we(?:'|’)?re) (?:very )?sorry|sorry|i apologi[sz]e|unfortunately|as an ai\b[^.,]*)"
_CANNOT = (
    r"i(?:'|’)?m (?:not able|unable)|i am (?:not able|unable)|i (?:can(?:not|(?:'|’)t| not)|won(?:'|’)t|must decline)"
)
_DOING = (
    r"(?:help|assist|answer|provide|give|offer|comply|fulfil|respond|diagnos|interpret|analy[sz]e|identify|comment|"
    r"make (?:a|any) (?:medical )?diagnos)"
)
_IN_WORDS = re.compile(
    rf"^\W*(?:{_OPENING}[,.;:!]*\s*(?:but\s+)?)?(?:{_CANNOT})(?:\s+(?:to|be able to))?(?:\s+\w+)?\s+{_DOING}",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True)
class Refusals:
    """Counts of generations in which the model or its server declined to answer.

    Attributes:
        n: Number of all generations.
        filtered: Number withheld by the server's content filter (finish reason "content_filter").
        refused: Number marked as a refusal by the server (finish reason "refusal").
        in_words: Number of others that begin like a refusal. They are found by a pattern, which may miss some and
            may count some that are no refusal.
    """

    n: int
    filtered: int
    refused: int
    in_words: int

    @property
    def total(self) -> int:
        """The number of refusals of all kinds."""
        return self.filtered + self.refused + self.in_words


def count_refusals(predictions: Iterable[Prediction]) -> Refusals:
    """Returns the refusals among all generations, under every condition."""
    said = [prediction for prediction in predictions if prediction.key.reading == "generation"]
    filtered = sum(each.finish_reason == "content_filter" for each in said)
    refused = sum(each.finish_reason == "refusal" for each in said)
    marked = ("content_filter", "refusal")
    in_words = sum(each.finish_reason not in marked and is_refusal(each.text or "") for each in said)
    return Refusals(len(said), filtered, refused, in_words)


def refusals_text(found: Refusals) -> str:
    return (
        f"Refusals among {found.n} generations, each counted as the answer that it is: {found.filtered} withheld by a "
        f"content filter, {found.refused} marked by the server, {found.in_words} in plain words."
    )


def is_refusal(text: str) -> bool:
    """Returns whether a reply begins with the words of a refusal; what comes after is not looked at.

    >>> is_refusal("I'm sorry, but I can't assist with that."), is_refusal("I cannot see a femur: B")
    (True, False)
    """
    return _IN_WORDS.match(text) is not None


@dataclass(frozen=True, slots=True)
class Cut:
    """Counts of generations that were cut at the largest length of a reply.

    Attributes:
        n: Number of generations of which it is known how they ended.
        cut: Number that were cut.
        in_thought: Number of these that hold nothing behind the model's thought.
    """

    n: int
    cut: int
    in_thought: int


def count_cut(predictions: Iterable[Prediction]) -> dict[str, Cut]:
    """Returns the generations that were cut, by condition; without conditions of which no end is known."""
    known = grouped(
        (each for each in predictions if each.key.reading == "generation" and each.finish_reason is not None),
        lambda each: each.key.condition,
    )
    cut = {condition: [each for each in said if each.finish_reason == "length"] for condition, said in known.items()}
    return {
        condition: Cut(
            len(said),
            len(cut[condition]),
            sum(bool(each.text) and not after_thoughts(each.text or "") for each in cut[condition]),
        )
        for condition, said in known.items()
    }


def cut_text(phases: Mapping[str, Mapping[str, Cut]]) -> str:
    """Returns the generations of each phase that were cut as a sentence; "" if none was.

    >>> cut_text({"final": {"image": Cut(40, 3, 2), "text_only": Cut(40, 0, 0)}})
    'Replies that were cut at eval.max_new_tokens: final 3 of 40, 2 of them within their thoughts.'
    """
    parts = [
        f"{phase.replace('_', '-')}{'' if condition == 'image' else f' under {condition}'} {each.cut:,} of {each.n:,}"
        + (f", {each.in_thought:,} of them within their thoughts" if each.in_thought else "")
        for phase, conditions in phases.items()
        for condition, each in conditions.items()
        if each.cut
    ]
    return f"Replies that were cut at eval.max_new_tokens: {'; '.join(parts)}." if parts else ""
