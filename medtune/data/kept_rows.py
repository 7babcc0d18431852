"""Holds any number of rows in a file without a name, so that memory does not grow with them, and finds equal ones."""

import hashlib
import os
import pickle
import tempfile
from array import array
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from typing import IO, Generic, NamedTuple, TypeVar, overload

from medtune.data.files import no_room

_Row = TypeVar("_Row")
_BUFFER_BYTES = 1 << 20
_AT_ONCE = 256


class KeptRows(Sequence[_Row], Generic[_Row]):
    """Rows of which each is read when it is asked for; 12 bytes of memory for each.

    The file lies in the folder of the system for such files (TMPDIR names another one), and is gone when nobody holds
    the rows any more. Rows may be added at the end; what they hold is copied, and has to be picklable.
    """

    def __init__(self, rows: Iterable[_Row] = ()) -> None:
        self._file = tempfile.TemporaryFile(buffering=_BUFFER_BYTES)  # noqa: SIM115
        self._starts, self._sizes = array("q"), array("I")
        self._end = self._flushed = 0
        self._is_whole = True  # Whether the rows lie behind one another, so that many are read at once.
        for row in rows:
            self.append(row)

    def append(self, row: _Row) -> None:
        """Adds a row at the end."""
        packed = pickle.dumps(row, pickle.HIGHEST_PROTOCOL)
        try:
            self._file.write(packed)
        except OSError as error:
            raise _no_room(error) from error
        self._starts.append(self._end)
        self._sizes.append(len(packed))
        self._end += len(packed)

    def chosen(self, places: Iterable[int]) -> "KeptRows[_Row]":
        """Returns some of the rows in the given order, without a copy of them; no more can be added to these."""
        found: KeptRows[_Row] = object.__new__(KeptRows)
        places = array("q", places)
        found._file, found._end, found._flushed, found._is_whole = self._flushed_file(), self._end, self._end, False
        found._starts = array("q", map(self._starts.__getitem__, places))
        found._sizes = array("I", map(self._sizes.__getitem__, places))
        return found

    def __len__(self) -> int:
        return len(self._starts)

    @overload
    def __getitem__(self, place: int) -> _Row: ...
    @overload
    def __getitem__(self, place: slice) -> "KeptRows[_Row]": ...
    def __getitem__(self, place: int | slice) -> "_Row | KeptRows[_Row]":
        if isinstance(place, slice):
            return self.chosen(range(len(self))[place])
        packed = os.pread(self._flushed_file().fileno(), self._sizes[place], self._starts[place])
        row: _Row = pickle.loads(packed)
        return row

    def __iter__(self) -> Iterator[_Row]:
        file = self._flushed_file().fileno()
        for first in range(0, len(self), _AT_ONCE):
            starts, sizes = self._starts[first : first + _AT_ONCE], self._sizes[first : first + _AT_ONCE]
            if self._is_whole:
                packed = memoryview(os.pread(file, sum(sizes), starts[0]))
                for start, size in zip(starts, sizes, strict=True):
                    yield pickle.loads(packed[start - starts[0] : start - starts[0] + size])
            else:
                for start, size in zip(starts, sizes, strict=True):
                    yield pickle.loads(os.pread(file, size, start))

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Sequence):
            return NotImplemented
        return len(self) == len(other) and all(mine == theirs for mine, theirs in zip(self, other, strict=True))

    __hash__ = None  # type: ignore[assignment]

    def _flushed_file(self) -> IO[bytes]:
        if self._flushed < self._end:
            try:
                self._file.flush()
            except OSError as error:
                raise _no_room(error) from error
            self._flushed = self._end
        return self._file


class NoRoomForRowsError(OSError):
    """The disk is full on which rows lie that do not fit into memory."""


def _no_room(error: OSError) -> OSError:
    if (full := no_room(error)) is None:
        return error
    what = "rows that are kept out of memory lie there. Free some space, or name another folder in the variable TMPDIR"
    return NoRoomForRowsError(error.errno, f"{tempfile.gettempdir()}: {full}; {what}.")


class Digests:
    """Eight bytes for each of many texts, by which those that come again are found."""

    def __init__(self, texts: Iterable[str] = ()) -> None:
        self._found = array("Q", map(digest, texts))

    def append(self, text: str) -> None:
        """Adds a text at the end."""
        self._found.append(digest(text))

    def __len__(self) -> int:
        return len(self._found)

    def first(self) -> Iterator["Seen"]:
        """Yields each different text, in the order in which they come first."""
        import numpy as np

        found = np.unique(np.frombuffer(self._found, np.uint64), return_index=True, return_counts=True)
        order = np.argsort(found[1])
        for every, place, number in zip(*(column[order] for column in found), strict=True):
            yield Seen(int(every), int(place), int(number))

    def repeated(self) -> set[int]:
        """Returns the digests of texts that come more than once; two texts have one by a chance of 1 in 10^19."""
        import numpy as np

        every, counts = np.unique(np.frombuffer(self._found, np.uint64), return_counts=True)
        return set(every[counts > 1].tolist())


class Seen(NamedTuple):
    """A text among many."""

    digest: int
    place: int  # Its first place.
    number: int  # How often it comes.


def digest(text: str) -> int:
    """Returns the digest of a text, of 64 bits."""
    return int.from_bytes(hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=8).digest(), "little")


def repeated(rows: Collection[_Row], text_of: Callable[[_Row], str]) -> dict[str, tuple[int, int]]:
    """Returns for each text that comes more than once its first two places, in the order of the second ones.

    >>> repeated(["a", "b", "a", "b", "a"], str)
    {'a': (0, 2), 'b': (1, 3)}
    """
    again = Digests(map(text_of, rows)).repeated()
    first: dict[str, int] = {}
    found: dict[str, tuple[int, int]] = {}
    for place, row in enumerate(rows if again else ()):
        if digest(text := text_of(row)) in again and (earlier := first.setdefault(text, place)) != place:
            found.setdefault(text, (earlier, place))
    return found
