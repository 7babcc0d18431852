"""Reads and writes the one setting of a simulation, the number of patients, as a small JSON file."""

import json
from pathlib import Path

from medtune.data.catalog import nearest

_WANTED = 'an object like {"num_patients": 24}, with a whole number of at least 1'


def num_patients(file: Path, *, default: int) -> int:
    """Returns the number of patients that a settings file states, or the default if it states none."""
    if not file.is_file():
        raise FileNotFoundError(f"{file}: there is no such file. Write it, or give no folder: the default then holds.")
    try:
        settings = json.loads(file.read_text("utf-8"))
    except ValueError as error:
        raise ValueError(f"{file}: broken JSON ({error}), wanted {_WANTED}.") from None
    if not isinstance(settings, dict):
        raise ValueError(f"{file}: wanted {_WANTED}.")
    for name in settings:
        if name != "num_patients":
            raise ValueError(f"{file}: unknown setting {name!r}.{nearest(name, ['num_patients'])} Wanted {_WANTED}.")
    count = settings.get("num_patients", default)
    if type(count) is not int or count < 1:
        raise ValueError(f"{file}: num_patients is {count!r}, wanted {_WANTED}.")
    return count


def write_num_patients(file: Path, count: int) -> None:
    """Writes a settings file, and creates its folder if that is missing."""
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(json.dumps({"num_patients": count}) + "\n", "utf-8")
