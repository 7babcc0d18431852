"""Groups of questions as a training set of their own."""

from collections.abc import Callable, Sequence

from medtune.data.types import MediaGroup, Prompt, Question
from medtune.trainer.training.mixture import Member, Mixture


def unmixed(groups: Sequence[MediaGroup], render: Callable[[Question], Prompt], *, seed: int) -> Mixture:
    """Returns a mixture with one member that holds all questions of the groups; media are not changed."""
    return Mixture([Member(groups, render)], (1.0,), seed)
