"""Holds rows of which a number is computed once, however many metrics, facets and levels ask for it."""

from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from typing import Any, Generic, TypeVar, overload

import numpy as np
from numpy.typing import NDArray

from medtune.eval.statistics import Floats, Numbers

_Row = TypeVar("_Row")
_MOST_COLUMNS = 24


class Rows(Sequence[_Row], Generic[_Row]):
    """Rows, or a part of them with its own order; what is computed of a row is kept for all parts.

    >>> rows = Rows(["b", "a", "b"])
    >>> rows.part([2, 1]).column(ord).tolist(), rows.part([2, 1]).codes(str).tolist()
    ([98.0, 97.0], [0, 1])
    """

    def __init__(self, rows: Sequence[_Row]) -> None:
        self._all, self.places = rows, np.arange(len(rows))
        self._columns: dict[int, _Column] = {}

    def part(self, places: Sequence[int] | Numbers) -> "Rows[_Row]":
        """Returns the rows with these numbers, in the order given."""
        found: Rows[_Row] = object.__new__(Rows)
        found._all, found._columns = self._all, self._columns
        found.places = self.places[np.asarray(places, dtype=np.intp)]
        return found

    def where(self, is_kept: NDArray[np.bool_]) -> "Rows[_Row]":
        return self.part(np.flatnonzero(is_kept))

    def column(self, of: Callable[[_Row], float], *, known_by: object = None) -> Floats:
        """Returns the number that a function has for each row.

        Args:
            known_by: What tells the function from others, if it is made anew for every call.
        """
        column = self._column(of if known_by is None else known_by, np.float64)
        found: Floats = column.at(self.places, lambda rows: [of(row) for row in rows], self._all)
        return found

    def codes(self, of: Callable[[_Row], Hashable]) -> Numbers:
        """Returns a number for each row, the same for rows for which a function has the same."""
        column = self._column(of, np.intp)
        names = column.names
        found: Numbers = column.at(
            self.places, lambda rows: [names.setdefault(of(row), len(names)) for row in rows], self._all
        )
        return found

    def names(self, of: Callable[[_Row], Hashable]) -> list[Any]:
        """Returns what the numbers of `codes` stand for."""
        return [*self._column(of, np.intp).names]

    def _column(self, known_by: object, kind: type) -> "_Column":
        if id(known_by) not in self._columns:
            if len(self._columns) == _MOST_COLUMNS:
                del self._columns[next(iter(self._columns))]
            self._columns[id(known_by)] = _Column(known_by, len(self._all), kind)
        return self._columns[id(known_by)]

    def __len__(self) -> int:
        return self.places.size

    @overload
    def __getitem__(self, place: int) -> _Row: ...
    @overload
    def __getitem__(self, place: slice) -> "Rows[_Row]": ...
    def __getitem__(self, place: int | slice) -> "_Row | Rows[_Row]":
        return self.part(self.places[place]) if isinstance(place, slice) else self._all[self.places[place]]

    def __iter__(self) -> Iterator[_Row]:
        return map(self._all.__getitem__, self.places.tolist())


class _Column:
    def __init__(self, known_by: object, number: int, kind: type) -> None:
        self._known_by = known_by  # Held, so that nothing else gets its id.
        self._values: NDArray[Any] = np.empty(number, kind)
        self._is_known = np.zeros(number, np.bool_)
        self._is_whole = False
        self.names: dict[Hashable, int] = {}

    def at(self, places: Numbers, of: Callable[[Iterable[_Row]], Sequence[float]], every: Sequence[_Row]) -> Any:
        if not self._is_whole:
            missing = places[~self._is_known[places]]
            self._values[missing] = of(map(every.__getitem__, missing.tolist()))
            self._is_known[missing] = True
            self._is_whole = bool(self._is_known.all())
        return self._values[places]


def as_rows(rows: Sequence[_Row]) -> Rows[_Row]:
    return rows if isinstance(rows, Rows) else Rows(rows)
