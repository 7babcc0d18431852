"""The contract of a reward: a finite number for any reply, right, wrong or empty, and not the same for all of them."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import NamedTuple

from medtune.data.catalog import REWARDS as KIND
from medtune.data.catalog import find
from medtune.data.types import Question
from medtune.trainer.contracts import Contract
from medtune.trainer.rewards import DrawnReply, Reward, find_reward, number_of

QUESTION = Question("q", "m", "Is there a mass?", ("yes", "no"), "yes", "yes_no", "p")
REPLIES = (
    DrawnReply("yes", "yes", 1.0, num_tokens=2, max_new_tokens=8, has_ended=True),
    DrawnReply("There is none, so no.", "no", 0.0, num_tokens=7, max_new_tokens=8, has_ended=True),
    DrawnReply("", None, 0.0, num_tokens=1, max_new_tokens=8, has_ended=True),
    DrawnReply("yes or no or yes or", None, 0.0, num_tokens=8, max_new_tokens=8, has_ended=False),
)
"""A right reply, a wrong one, an empty one, and one that was cut and names both options."""


class TriedReward(NamedTuple):
    name: str
    reward: Reward


@contextmanager
def opened_reward(name: str) -> Iterator[TriedReward]:
    yield TriedReward(name, find_reward(name))


def it_pays_any_reply_a_finite_number_and_not_all_alike(tried: TriedReward) -> Iterator[str]:
    """Complains about what is no number too, of which `number_of` raises an error."""
    paid = [number_of(tried.name, QUESTION, reply) for reply in REPLIES]
    if len(set(paid)) == 1:
        yield (
            f"{find(KIND, tried.name).file}: it pays {paid[0]:g} for a right, a wrong, an empty and a cut reply alike, "
            "so that nothing could be learnt from it"
        )


def it_pays_the_same_reply_the_same_each_time(tried: TriedReward) -> Iterator[str]:
    if any(tried.reward(QUESTION, reply) != tried.reward(QUESTION, reply) for reply in REPLIES):
        yield "it paid one reply differently the second time; a run that goes on would not learn the same"


REWARDS = Contract(
    opened_reward, (it_pays_any_reply_a_finite_number_and_not_all_alike, it_pays_the_same_reply_the_same_each_time)
)
