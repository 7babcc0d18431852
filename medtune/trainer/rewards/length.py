"""Pays a reply for its length, as a share of the largest; a negative weight pays short replies."""

from medtune.data.types import Question
from medtune.trainer.rewards import DrawnReply


def reward(question: Question, reply: DrawnReply) -> float:
    """Returns the share of the allowed tokens that the reply has, 0 to 1."""
    return reply.num_tokens / reply.max_new_tokens
