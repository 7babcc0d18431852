"""Pays a reply that ends by itself and from which an answer can be read, whether it is right or wrong."""

from medtune.data.types import Question
from medtune.trainer.rewards import DrawnReply


def reward(question: Question, reply: DrawnReply) -> float:
    """Returns 1 for such a reply, 0 for any other."""
    return float(reply.has_ended and reply.read is not None)
