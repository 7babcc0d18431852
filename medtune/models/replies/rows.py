"""Lays prompts out as rows of trees, behind which their replies grow."""

from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import NamedTuple

from medtune.models.sequence.layout import Sequence as Layout
from medtune.models.sequence.packing import Shown
from medtune.models.sequence.tree import grow_within


class Prompted(NamedTuple):
    """A prompt with the media that it shows.

    Attributes:
        layout: The sequence of the prompt, without an answer.
        media: Number of the first media item that it shows; None where it shows none.
    """

    layout: Layout
    media: int | None


class ReplyRow(NamedTuple):
    """A row of prompts.

    Attributes:
        trees: The trees of the row.
        numbers: The numbers of its prompts among all that were given.
        leaves: The place in the row at which each of them ends.
    """

    trees: list[Shown]
    numbers: list[int]
    leaves: list[int]


def reply_rows(prompts: Sequence[Prompted], *, new_tokens: int, batch_tokens: int) -> Iterator[ReplyRow]:
    """Yields rows that hold all prompts, each once, with as many trees in a row as fit.

    Prompts with media and prompts without are in different rows. What counts are the nodes of the trees and the tokens
    of the replies.

    Args:
        prompts: The prompts.
        new_tokens: Largest length of a reply, in tokens.
        batch_tokens: Largest number of tokens of a row; a tree may have more by what its prompts share
            (`grow_within`), and then has the row for itself.
    """
    order = sorted(range(len(prompts)), key=lambda number: _order(prompts[number].media))
    row, taken = ReplyRow([], [], []), 0
    is_blind = False
    for media, same in groupby(order, key=lambda number: prompts[number].media):
        numbers = list(same)
        layouts = [prompts[number].layout for number in numbers]
        for tree in grow_within(layouts, numbers, max_tokens=batch_tokens, room=new_tokens):
            held, numbers = numbers[: len(tree.leaves)], numbers[len(tree.leaves) :]
            size = len(tree.ids) + new_tokens * len(held)
            if row.trees and (taken + size > batch_tokens or (media is None) != is_blind):
                yield row
                row, taken = ReplyRow([], [], []), 0
            first = sum(len(shown.tree.ids) for shown in row.trees)
            row.trees.append(Shown(tree, media))
            row.numbers.extend(held)
            row.leaves.extend(first + leaf for leaf in tree.leaves)
            taken, is_blind = taken + size, media is None
    if row.trees:
        yield row


def _order(media: int | None) -> tuple[bool, int]:
    return media is None, media or 0
