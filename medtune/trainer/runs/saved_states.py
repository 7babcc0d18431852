"""Seals the saved states of a run with digests of their contents, and puts those aside that do not hold what they say.

A state that is damaged, or whose step was changed, would be learnt from without a word. The last two states are kept,
so that a run whose last one is damaged goes on with the one before.
"""

import hashlib
import json
import shutil
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from medtune.data.files import file_digest, json_file
from medtune.data.json_text import json_value
from medtune.trainer.runs.run_folder import STATE_FILE, RunFolder, step_of

KEPT = 2
"""The number of states that a run keeps, the last ones."""
DAMAGED = "damaged_"
"""Begins the name of a state that was put aside."""
_THREADS = 4
_FILES, _SEAL = "files", "seal"
_DEFAULT = {"auto": "ddp"}

_OLD = (
    "{state} was saved by an earlier version of medtune, in a format that this one does not read (it may hold code, "
    "and has no digests). Resume the run with that version, or start a new folder; the trained weights beside it can "
    "be used: --set model.checkpoint=.../best.safetensors"
)


def sealed(said: Mapping[str, Any], tensors: Path) -> str:
    """Returns the content of a state's `state.json`: what it says, with digests of its files and of itself."""
    whole = {**said, _FILES: _digests(tensors, sorted(each.name for each in tensors.iterdir()))}
    return json.dumps({**whole, _SEAL: _seal(whole)})


def read_sealed(state: Path) -> dict[str, Any]:
    """Returns what a state's `state.json` says; refuses one that was changed after it was saved."""
    path = state / STATE_FILE
    said = json_file(path, dict, "the facts of a saved state", todo="Resume from the state before, or copy it again.")
    if _SEAL not in said:
        raise ValueError(_OLD.format(state=state))
    if said.pop(_SEAL) != _seal(said):
        raise ValueError(f"{path}: it was changed after it was saved (the digest of its values is another one)")
    return said


def refuse_old_state(folder: RunFolder) -> None:
    """Refuses a newest state that another version of medtune has saved."""
    state = folder.saved_state()
    if state is None:
        return
    if not (state / STATE_FILE).is_file() and not (state / "tensors").is_dir():
        raise ValueError(_OLD.format(state=state))
    try:
        said = json_value((state / STATE_FILE).read_bytes())
    except (OSError, ValueError, RecursionError):
        return
    if isinstance(said, dict) and "step" in said and _SEAL not in said:
        raise ValueError(_OLD.format(state=state))


def refuse_other_strategy(folder: RunFolder, strategy: str) -> None:
    """Refuses to go on at the newest state under another strategy than that which saved it.

    Args:
        strategy: The recipe's `train.strategy`.
    """
    state = folder.saved_state()
    if state is None:
        return
    saved = str(read_sealed(state)["made_with"]["strategy"])
    if _DEFAULT.get(saved, saved) != _DEFAULT.get(strategy, strategy):
        raise ValueError(
            f"{state}: this state was saved under train.strategy {saved}, and the recipe has {strategy}. The number of "
            "devices may change when a run goes on, the strategy may not: resume with --set "
            f"train.strategy={saved}, or start a new folder"
        )


def put_damaged_aside(folder: RunFolder) -> Iterator[str]:
    """Renames the newest states of a run as long as they are damaged, and yields a sentence for each."""
    while (state := folder.saved_state()) is not None and (wrong := _damage(state)):
        aside = folder.checkpoints / f"{DAMAGED}{state.name}"
        if aside.exists():
            shutil.rmtree(aside)
        state.rename(aside)
        before = folder.saved_state()
        goes_on = "from its beginning" if before is None else f"from step {folder.saved_step()}"
        yield f"WARNING: {wrong}. This state is kept as {aside.name}, and the training goes on {goes_on}"


def _damage(state: Path) -> str | None:
    """Returns what is wrong with a state, as a sentence without its end; None if it is as it was saved."""
    try:
        said = read_sealed(state)
    except (OSError, ValueError) as error:
        return str(error).rstrip(".")
    if said.get("step") != step_of(state):
        return f"{state / STATE_FILE}: it is the state of step {said.get('step')}, and the folder is named otherwise"
    tensors = state / "tensors"
    missing = [name for name in said[_FILES] if not (tensors / name).is_file()]
    if missing:
        return f"{tensors / missing[0]}: this file of the saved state is missing"
    now = _digests(tensors, list(said[_FILES]))
    changed = [name for name, digest in said[_FILES].items() if now[name] != digest]
    if changed:
        return (
            f"{tensors / changed[0]}: the file was changed or damaged after it was saved (its SHA-256 is another one)"
        )
    return None


def drop_older(folder: RunFolder, newest: Path, removed: Path) -> None:
    """Removes all states but the newest and the one before; each is renamed first, so that none is left in half."""
    others = [state for state in folder.states() if state != newest]
    for state in others[: max(0, len(others) - (KEPT - 1))]:
        _drop(state, removed)


def make_room(folder: RunFolder, removed: Path) -> None:
    """Removes the older of two states where the disk has no room for a third one while it is written."""
    states = folder.states()
    size = sum(file.stat().st_size for file in states[-1].rglob("*") if file.is_file()) if states else 0
    if len(states) > 1 and shutil.disk_usage(folder.checkpoints).free < size:
        _drop(states[0], removed)


def _drop(state: Path, removed: Path) -> None:
    state.rename(removed)
    shutil.rmtree(removed)


def _digests(folder: Path, names: list[str]) -> dict[str, str]:
    # Digests are computed outside of Python's lock.
    with ThreadPoolExecutor(_THREADS) as pool:
        return dict(zip(names, pool.map(file_digest, (folder / name for name in names)), strict=True))


def _seal(said: Mapping[str, Any]) -> str:
    return hashlib.sha256(json.dumps(said, sort_keys=True).encode()).hexdigest()
