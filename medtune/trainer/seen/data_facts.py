"""Records which data a run began with, and says what has changed when it goes on with others."""

from collections.abc import Iterable, Mapping
from typing import Any

from medtune.data.prepared.read import Prepared
from medtune.data.prepared.tables import computed_hash, table_digests
from medtune.data.types import SPLITS

DATA = "data"
"""The entry of environment.json with these facts."""
_HASH, _TABLES = "hash", "tables"
_SHOWN = 12


def data_facts(
    evaluated: Prepared, learnt: Iterable[Prepared], *, before: Mapping[str, Mapping[str, Any]]
) -> dict[str, dict[str, Any]]:
    """Returns the facts about the evaluated prepared folder and the folders that are trained on, by their field.

    Folders of a mixture stand in the recipe's order, without the evaluated folder, which stands first. Where the bytes
    of a folder's tables are others than before, the hash is computed from its rows, and not believed: the bytes also
    differ where another user has prepared the same data.

    Args:
        evaluated: The folder that is evaluated on.
        learnt: The folders that are trained on.
        before: The facts that were recorded before; empty if there are none.
    """
    others = [each for each in learnt if each.root.resolve() != evaluated.root.resolve()]
    named = {"data.root": evaluated, **{f"data.mixture.{number}": each for number, each in enumerate(others)}}
    return {name: _facts(prepared, before.get(name, {})) for name, prepared in named.items()}


def _facts(prepared: Prepared, before: Mapping[str, Any]) -> dict[str, Any]:
    made, tables = prepared.manifest, table_digests(prepared.root)
    is_known = before.get(_TABLES, tables) == tables
    return {
        _HASH: prepared.data_hash if is_known else computed_hash(prepared.root),
        _TABLES: tables,
        "source": made.source,
        "seed": made.seed,
        "limit": made.limit,
        "prompts": made.prompts,
        "format": made.format_version,
        **{f"{split} questions": prepared.num_questions(split) for split in SPLITS},
        **{f"{split} patients": made.num_patients.get(split, 0) for split in SPLITS},
    }


def changes(before: Mapping[str, Mapping[str, Any]], now: Mapping[str, Mapping[str, Any]]) -> list[str]:
    """Returns, for each prepared folder of now whose data are others than before, what is different, in words.

    Folders that were not recorded before, as in runs of earlier versions, are not compared.
    """
    there = {name: before[name] for name in now if name in before}
    return [f"{name}: {_differences(was, now[name])}" for name, was in there.items() if was[_HASH] != now[name][_HASH]]


def _differences(was: Mapping[str, Any], is_: Mapping[str, Any]) -> str:
    hashes = f"data hash {was[_HASH][:_SHOWN]} before and {is_[_HASH][:_SHOWN]} now"
    other = [
        f"{name} {was.get(name)} before and {value} now"
        for name, value in is_.items()
        if name not in (_HASH, _TABLES) and name in was and was[name] != value
    ]
    return "; ".join([hashes, *other]) if other else f"{hashes}; the questions, answers, splits or media differ"
