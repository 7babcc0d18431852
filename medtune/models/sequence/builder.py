"""Builds one sequence piece by piece from ids of text and places for visual tokens."""

from collections.abc import Sequence as Many

from medtune.models.sequence.layout import IGNORED, Sequence, Span


class SequenceBuilder:
    """Collects the ids and media spans of one sequence in order."""

    def __init__(self, placeholder: int) -> None:
        self._placeholder = placeholder
        self._ids: list[int] = []
        self._spans: list[Span] = []

    def __len__(self) -> int:
        return len(self._ids)

    def text(self, ids: Many[int]) -> None:
        """Adds the ids of a text."""
        self._ids += ids

    def media(self, num_tokens: int, *, item: int = 0) -> None:
        """Adds places for the visual tokens of a media item, by its number among those that are shown together."""
        self._spans.append(Span(len(self._ids), len(self._ids) + num_tokens, item))
        self._ids += [self._placeholder] * num_tokens

    def sequence(self, *, learnt_from: int | None) -> Sequence:
        """Returns the sequence; labels begin at the position `learnt_from`, and there are none where it is None.

        The places of visual tokens are never learnt.
        """
        first = len(self._ids) if learnt_from is None else learnt_from
        labels = [*((IGNORED,) * first), *self._ids[first:]]
        for span in self._spans:
            labels[span.start : span.stop] = [IGNORED] * (span.stop - span.start)
        return Sequence(
            ids=tuple(self._ids),
            labels=tuple(labels),
            positions=tuple(range(len(self._ids))),
            media_spans=tuple(self._spans),
        )
