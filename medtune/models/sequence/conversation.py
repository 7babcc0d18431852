"""Divides the user's turns of a conversation into texts and the media items that stand between them."""

from collections.abc import Sequence as Many

from medtune.data.types import MEDIA_MARK, Turn

Piece = str | int
"""A text, or the number of a media item among those that are shown together."""


def user_turns(prompt: str, turns: Many[Turn], *, num_items: int, between: str = "") -> list[list[Piece]]:
    """Returns the pieces of each user's turn: those of the earlier turns, and at the end those of the prompt.

    Each `MEDIA_MARK` is the place of the next item. Without marks all items stand in front of the first turn. Where no
    item is shown, marks are left out, with the white space behind them.

    Args:
        prompt: The text of the last user's turn.
        turns: The earlier turns.
        num_items: The number of media items that are shown.
        between: The text that is written behind each item where there are no marks.

    Example:
        >>> user_turns("Larger?", [Turn("Which side?", "left")], num_items=2)
        [[0, 1, 'Which side?'], ['Larger?']]
        >>> user_turns(f"Is {MEDIA_MARK} older than {MEDIA_MARK}?", [], num_items=2)
        [['Is ', 0, ' older than ', 1, '?']]
    """
    texts = [*(turn.asked for turn in turns), prompt]
    marks = sum(text.count(MEDIA_MARK) for text in texts)
    if num_items == 0:
        return [[without_marks(text)] for text in texts]
    if marks == 0:
        shown: list[Piece] = [piece for item in range(num_items) for piece in (item, between) if piece != ""]
        first: list[Piece] = [*shown[: -1 if between else None], f"{between}{texts[0]}"]
        return [first, *(list[Piece]([text]) for text in texts[1:])]
    if marks != num_items:
        raise ValueError(f"the text has {marks} places for media (U+FFFC), and {num_items} items are shown")
    numbers = iter(range(num_items))
    return [_pieces(text, [next(numbers) for _ in range(text.count(MEDIA_MARK))]) for text in texts]


def without_marks(text: str) -> str:
    """Returns a text without the marks of media items and the white space behind each of them."""
    first, *others = text.split(MEDIA_MARK)
    return "".join([first, *(other.lstrip() for other in others)])


def refuse_several(num_items: int) -> None:
    """Refuses several items, for families that are shown one item at a time."""
    if num_items > 1:
        raise ValueError(
            f"{num_items} media items are shown together, and this family is shown one at a time; choose another "
            "model.name, or leave such questions out"
        )


def refuse_conversation(turns: Many[Turn], *, num_items: int) -> None:
    """Refuses several items and earlier turns, for families that are asked one question about one item at a time."""
    refuse_several(num_items)
    if turns:
        raise ValueError(
            f"the question has {len(turns)} earlier turns, and this family is asked one question by itself; choose "
            "another model.name, or leave such questions out"
        )


def _pieces(text: str, items: Many[int]) -> list[Piece]:
    found: list[Piece] = []
    for part, item in zip(text.split(MEDIA_MARK), [*items, None], strict=True):
        found += [part] if part else []
        found += [] if item is None else [item]
    return found
