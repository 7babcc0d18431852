"""Finds the files that a table names otherwise than by their path from its folder.

Public sets name files without their suffix, by a path that begins with a folder of the author's machine, or by a name
alone while the files lie in folders below.
"""

import filecmp
import os
import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path, PurePosixPath

from medtune.data.media.images import IMAGE_SUFFIXES
from medtune.data.media.videos.container import VIDEO_SUFFIXES
from medtune.data.media.volumes.formats.nifti import NIFTI_SUFFIXES

MEDIA_SUFFIXES = (*NIFTI_SUFFIXES[::-1], *IMAGE_SUFFIXES, *VIDEO_SUFFIXES)
"""The suffixes of files with media, the longer one first where two end alike."""


@dataclass(slots=True)
class NamedFiles:
    """Finds files by their names, and counts how."""

    folders: tuple[Path, ...]  # The folders to which paths may be relative.
    below: Path | None = None  # The folder of them whose inner folders may hold the files, too; None for none.
    # The folders with which paths begin and which lie nowhere here; told from the first path that leads to a file
    # without them, so that no two paths lead to one file.
    left_out: tuple[str, ...] | None = None
    # The files below by name, once they were listed; copies for a trial share it.
    listed: list[Mapping[str, Sequence[str]]] = field(default_factory=list)
    _without_suffix: set[str] = field(default_factory=set)
    _left_out_of: set[str] = field(default_factory=set)
    _below: set[str] = field(default_factory=set)

    def find(self, written: str) -> list[Path]:
        """Returns the files that a path which leads to none may mean; several where they differ."""
        parts = PurePosixPath(written).parts
        if not parts:
            return []
        for number in range(len(parts)):
            before, rest = parts[:number], parts[number:]
            if before and self.left_out not in (None, before):
                continue
            if found := self._inside(rest):
                if before and len(found) == 1:
                    self.left_out = before
                    self._left_out_of.add(written)
                break
        else:
            found = _differing(self._below_all(parts))
            if len(found) == 1:
                self._below.add(written)
        if len(found) == 1 and not _has_suffix(parts[-1]) and found[0].is_file():
            self._without_suffix.add(written)
        return found

    def _below_all(self, parts: Sequence[str]) -> list[Path]:
        if self.below is None:
            return []
        if not self.listed:
            self.listed.append(_files_below(self.below))
        return _below(self.listed[0], parts)

    def _inside(self, parts: Sequence[str]) -> list[Path]:
        path = "/".join(parts)
        for folder in self.folders:
            if os.path.exists(exact := folder / path):
                return [exact]
        for folder in self.folders:
            if found := _files_named_alike(folder, parts):
                return found
        return []


def notes_on_names(named: Iterable[NamedFiles]) -> list[str]:
    """Returns notes that say how many files were found otherwise than by their path, and how."""
    sets = list({id(each): each for each in named}.values())
    without, below = (set().union(*found) for found in zip(*((s._without_suffix, s._below) for s in sets), strict=True))
    notes = [f"{len(without):,} names of files have no suffix: each is the one image, film or scan called so"] * bool(
        without
    )
    notes += [f"{len(below):,} files were found by their names in the folders below --images"] * bool(below)
    beginnings: dict[str, set[str]] = {}
    for each in sets:
        if each._left_out_of:
            beginnings.setdefault("/".join(each.left_out or ()), set()).update(each._left_out_of)
    for beginning, paths in beginnings.items():
        notes.append(
            f"{len(paths):,} paths begin with {beginning.lstrip('/')}/, which is left out: their files lie in the "
            "folder without it"
        )
    return notes


def why_several(found: Sequence[Path], written: str) -> str:
    """Returns in words why a path leads to none of the files that it may mean, without their names."""
    name = _folded_name(PurePosixPath(written).name)
    if all(_folded_name(path.name) == name for path in found) and len({path.parent for path in found}) == 1:
        return f"{len(found)} files are called so but for capitals and accents. Write the name as the file has it."
    suffixes = ", ".join(sorted({_suffix(path.name) for path in found}))
    return f"{len(found)} different files have this name ({suffixes}). Write the path and the suffix."


def _files_named_alike(folder: Path, parts: Sequence[str]) -> list[Path]:
    """Returns the files whose path is the written one but for capitals, the form of accents and the suffix.

    Windows takes names in any capitals, and macOS writes an accent as a character of its own.
    """
    found = [folder]
    for place, part in enumerate(parts, start=1):
        is_last, there = place == len(parts), [each for each in found if each.is_dir()]
        found = [each / name for each in there for name in _by_name(each).get(_folded_name(part), ())]
        if is_last and not found and not _has_suffix(part):
            found = _differing([each / name for each in there for name in _by_stem(each).get(_folded_name(part), ())])
    return found


def _below(index: Mapping[str, Sequence[str]], parts: Sequence[str]) -> list[Path]:
    name = _folded_name(parts[-1])
    names = index.get(name) or ([] if _has_suffix(name) else index.get(f"{name}."))
    tail = tuple(map(_folded_name, parts))[:-1]
    paths = [Path(path) for path in names or ()]
    return [path for path in paths if not tail or tuple(map(_folded_name, path.parts))[-1 - len(tail) : -1] == tail]


def _files_below(folder: Path) -> Mapping[str, Sequence[str]]:
    """Returns the paths of files in and below a folder by their names, and by their names without suffix and "."."""
    found: dict[str, list[str]] = {}
    for above, inner, files in os.walk(folder):
        inner[:] = sorted(name for name in inner if not name.startswith("."))
        for name in sorted(files):
            if (suffix := _suffix(name)) and not name.startswith("."):
                path, plain = os.path.join(above, name), _folded_name(name)
                found.setdefault(plain, []).append(path)
                found.setdefault(f"{plain.removesuffix(suffix)}.", []).append(path)
    return found


def _differing(files: Sequence[Path]) -> list[Path]:
    """Returns files without those whose bytes another one has."""
    kept: list[Path] = []
    for path in files:
        if not any(path.is_file() and each.is_file() and filecmp.cmp(path, each, shallow=False) for each in kept):
            kept.append(path)
    return kept


def _suffix(name: str) -> str:
    return next((suffix for suffix in MEDIA_SUFFIXES if name.lower().endswith(suffix)), "")


def _has_suffix(name: str) -> bool:
    return bool(_suffix(name))


@lru_cache(maxsize=64)
def _listed(folder: Path, _changed_ns: int) -> tuple[Mapping[str, Sequence[str]], Mapping[str, Sequence[str]]]:
    names: dict[str, list[str]] = {}
    stems: dict[str, list[str]] = {}
    for entry in sorted(folder.iterdir()):
        plain = _folded_name(entry.name)
        names.setdefault(plain, []).append(entry.name)
        if (suffix := _suffix(plain)) and not plain.startswith("."):
            stems.setdefault(plain.removesuffix(suffix), []).append(entry.name)
    return names, stems


def _by_name(folder: Path) -> Mapping[str, Sequence[str]]:
    return _listed(folder, folder.stat().st_mtime_ns)[0]


def _by_stem(folder: Path) -> Mapping[str, Sequence[str]]:
    return _listed(folder, folder.stat().st_mtime_ns)[1]


def _folded_name(name: str) -> str:
    return unicodedata.normalize("NFC", name).casefold()
