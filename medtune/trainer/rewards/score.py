"""Pays a reply what the benchmark's own metric gives for it, read by the benchmark's own parser."""

from medtune.data.types import Question
from medtune.trainer.rewards import DrawnReply


def reward(question: Question, reply: DrawnReply) -> float:
    """Returns the score, 0 to 1; 0 where no answer could be read."""
    return reply.score
