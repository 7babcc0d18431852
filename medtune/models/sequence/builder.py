"""Builds one sequence from its pieces: text ids, room for media, and where learning begins."""

from __future__ import annotations

from collections.abc import Sequence as Many

from medtune.models.sequence.layout import IGNORED, Sequence, Span


class SequenceBuilder:
    """Collects ids and media spans in order."""

    def __init__(self, placeholder: int) -> None:
        self._placeholder = placeholder
        self._ids: list[int] = []
        self._spans: list[Span] = []

    def __len__(self) -> int:
        """Returns the number of positions so far."""
        return len(self._ids)

    def text(self, ids: Many[int]) -> None:
        """Adds ids that are embedded."""
        self._ids += ids

    def media(self, num_tokens: int) -> None:
        """Adds room for the visual tokens of one media item."""
        self._spans.append(Span(len(self._ids), len(self._ids) + num_tokens))
        self._ids += [self._placeholder] * num_tokens

    def sequence(self, *, learnt_from: int | None) -> Sequence:
        """Returns the sequence; its labels begin at a position, or there are none."""
        first = len(self._ids) if learnt_from is None else learnt_from
        return Sequence(
            ids=tuple(self._ids),
            labels=(*((IGNORED,) * first), *self._ids[first:]),
            positions=tuple(range(len(self._ids))),
            media_spans=tuple(self._spans),
        )
