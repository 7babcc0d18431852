"""Compares the answers of a server with those of the model in this process, before any score of it is believed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from medtune.data.types import Prediction, PredictionKey
from medtune.eval.predictions.files import describe_key
from medtune.models.server.engines import ServedDtype

COMPARED_QUESTIONS = 50


@dataclass(frozen=True, slots=True)
class Tolerance:
    """How far a server may be from the model in this process.

    Attributes:
        mean: Largest mean difference of an option's log-probability for each of its tokens.
        largest: Largest difference of one option's log-probability for each of its tokens.
        replies: Least share of replies that are the same to the letter.
    """

    mean: float
    largest: float
    replies: float


TOLERANCES: Mapping[ServedDtype, Tolerance] = {
    "float32": Tolerance(mean=1e-3, largest=1e-2, replies=0.9),
    "float16": Tolerance(mean=2e-2, largest=0.25, replies=0.5),
    "bfloat16": Tolerance(mean=0.125, largest=1.0, replies=0.5),
}
"""The tolerances by the number format that the server computes in.

They were chosen, not measured: a logit between 16 and 32 has neighbours 2**-3 away in bfloat16 and 2**-6 in float16,
and every layer rounds. A greedy reply goes on differently after the first token that rounding has changed.
"""


@dataclass(frozen=True, slots=True)
class Agreement:
    """How far a server and the model in this process agree.

    Attributes:
        questions: Number of questions that both were asked.
        options: Number of options whose log-probabilities were compared.
        mean: Mean difference of an option's log-probability for each of its tokens; 0 without options.
        largest: Largest of these differences.
        worst: The option with the largest difference, in words.
        choices: Number of questions whose most likely option was compared.
        same_choices: Number of those with the same most likely option.
        replies: Number of replies that were compared.
        same_replies: Number of those that are the same to the letter.
    """

    questions: int
    options: int
    mean: float
    largest: float
    worst: str
    choices: int
    same_choices: int
    replies: int
    same_replies: int

    def text(self, dtype: ServedDtype) -> str:
        """Returns the figures and what is allowed, as a clause."""
        allowed, parts = TOLERANCES[dtype], []
        if self.choices:
            parts.append(
                f"{self.same_choices} of {self.choices} choices are the same; the log-probability of an option differs "
                f"by {self.mean:.2g} for each of its tokens on average and by {self.largest:.2g} at most (allowed in "
                f"{dtype}: {allowed.mean:g} and {allowed.largest:g})"
            )
        if self.replies:
            parts.append(
                f"{self.same_replies} of {self.replies} replies are the same to the letter (at least "
                f"{allowed.replies:.0%} are wanted)"
            )
        return "; ".join(parts)

    def refuse(self, dtype: ServedDtype) -> None:
        """Refuses a server that does not agree with the model in this process.

        Raises:
            ValueError: A difference is larger than the number format explains; the message has all figures.
        """
        allowed = TOLERANCES[dtype]
        too_far = self.mean > allowed.mean or self.largest > allowed.largest
        if too_far or self.same_replies < allowed.replies * self.replies:
            raise ValueError(
                f"the server does not answer like the model in this process: {self.text(dtype)}. The largest "
                f"difference is at {self.worst}. Nothing was evaluated. Does the server hold other weights, or "
                "compute in another number format or with a quantised cache? Evaluate without --engine otherwise"
            )


def agreement(local: Sequence[Prediction], served: Sequence[Prediction]) -> Agreement:
    """Returns how far two lists of predictions about the same questions agree.

    Raises:
        ValueError: They are not about the same questions and options, or there are none.
    """
    theirs: dict[PredictionKey, Prediction] = {each.key: each for each in served}
    if not local or theirs.keys() != {each.key for each in local}:
        raise ValueError("the server and the model in this process were not asked the same questions")
    differences: list[tuple[float, str]] = []
    choices, replies = [], []
    for ours in local:
        other = theirs[ours.key]
        if ours.option_logprobs is None:
            replies.append(ours.text == other.text)
            continue
        if other.option_logprobs is None or other.option_tokens != ours.option_tokens:
            raise ValueError(f"{describe_key(ours.key)}: the server was asked about other options")
        a, b, tokens = (np.asarray(each) for each in (ours.option_logprobs, other.option_logprobs, ours.option_tokens))
        choices.append(bool(a.argmax() == b.argmax()))
        differences += [
            (float(gap), f"{describe_key(ours.key)}, option {number + 1}: {b[number]:.4f} there, {a[number]:.4f} here")
            for number, gap in enumerate(np.abs(a - b) / tokens)
        ]
    largest, worst = max(differences, default=(0.0, "a reply"))
    return Agreement(
        questions=len({each.key.question_id for each in local}),
        options=len(differences),
        mean=float(np.mean([gap for gap, _ in differences])) if differences else 0.0,
        largest=largest,
        worst=worst,
        choices=len(choices),
        same_choices=sum(choices),
        replies=len(replies),
        same_replies=sum(replies),
    )
