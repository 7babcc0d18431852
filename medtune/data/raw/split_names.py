"""Reads the split of rows from the names that data give to it: in a column, a file's name or a hub data set."""

import re
from collections.abc import Iterable, Mapping

from medtune.data.catalog import nearest
from medtune.data.types import SPLITS, Split

_NAMES: Mapping[str, Split] = {
    **dict.fromkeys(("train", "training", "trainset"), "train"),
    **dict.fromkeys(("val", "valid", "validate", "validation", "dev", "development", "valset", "devset"), "val"),
    **dict.fromkeys(("test", "testing", "testset"), "test"),
}
LEFT_OUT = "none"
_MOST_SHOWN = 12
_WAY_OUT = f"Say what it stands for with --splits NAME=train|val|test, or leave its rows out: --splits NAME={LEFT_OUT}."


def split_named(name: str, meant: Mapping[str, str]) -> Split | None:
    """Returns the split that a name stands for; None where the user leaves its rows out.

    Args:
        name: The name, in any case, such as "validation".
        meant: What the user says that names stand for.

    Example:
        >>> split_named("Validation", {}), split_named("mini", {"mini": "test"}), split_named("x", {"x": "none"})
        ('val', 'test', None)
    """
    said = meant.get(name, _NAMES.get(name.strip().casefold(), name))
    if said == LEFT_OUT:
        return None
    for split in SPLITS:
        if said == split:
            return split
    if name in meant:
        raise ValueError(f"--splits {name}={said}: wanted {', '.join(SPLITS)} or {LEFT_OUT} behind the sign.")
    raise ValueError(f"{name!r} is no split that medtune knows. It knows {', '.join(_NAMES)}. {_WAY_OUT}")


def split_of_file(name: str, meant: Mapping[str, str]) -> Split | str | None:
    """Returns the split that the name of a file or of its folders states; None where it states none.

    Args:
        name: The path of the file relative to the data set's folder, such as "data/vqa_test-00000-of-00001.parquet".
        meant: What the user says that names of files stand for; such a name has no suffix, and `LEFT_OUT` is returned
            as it is.

    Example:
        >>> split_of_file("vqa/test_2.csv", {}), split_of_file("rows.csv", {}), split_of_file("a.csv", {"a": "val"})
        ('test', None, 'val')
    """
    if (stem := file_stem(name)) in meant:
        return split_named(stem, meant) or LEFT_OUT
    words = re.split(r"[^a-z]+", name.rpartition(".")[0].casefold())
    found = {_NAMES[word] for word in words if word in _NAMES}
    if len(found) > 1:
        raise ValueError(f"{name}: the name states the splits {' and '.join(sorted(found))}. Rename it. {_WAY_OUT}")
    return next(iter(found), None)


def file_stem(name: str) -> str:
    """Returns the name by which the user speaks of a file's split: that of the file without its suffixes."""
    return name.rpartition("/")[2].partition(".")[0]


def check_all_used(meant: Mapping[str, str], there: Iterable[str]) -> None:
    """Checks that the data have each of the names of which the user says what they stand for."""
    names = sorted(set(there))
    for name in meant:
        if name not in names:
            listed = ", ".join(map(repr, names[:_MOST_SHOWN])) + (", ..." if len(names) > _MOST_SHOWN else "")
            raise ValueError(
                f"--splits {name}={meant[name]}: the data have no such name, which is compared with its case."
                f"{nearest(name, names)} The names are: {listed or 'none'}."
            )


def splits_of_files(names: Iterable[str], meant: Mapping[str, str]) -> dict[str, Split | None]:
    """Returns the split of each file, without those that the user leaves out."""
    found = {name: split_of_file(name, meant) for name in names}
    kept: dict[str, Split | None] = {}
    for name, said in found.items():
        if said != LEFT_OUT:
            kept[name] = None if said is None else split_named(said, {})
    unnamed = [name for name, split in kept.items() if split is None]
    if unnamed and len(unnamed) < len(kept):
        named = next(name for name, split in kept.items() if split is not None)
        raise ValueError(
            f"{', '.join(unnamed)}: the name states no split, while that of {named} does. {_WAY_OUT} NAME is the "
            "file's name without its suffix."
        )
    return kept
