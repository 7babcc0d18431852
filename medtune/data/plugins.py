"""The places outside the package that hold extensions: installed packages and folders that a user names."""

import hashlib
import importlib.util
import re
import sys
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from importlib.machinery import ModuleSpec
from importlib.metadata import entry_points
from itertools import islice
from pathlib import Path
from types import ModuleType

GROUP = "medtune.plugins"
"""The entry-point group of installed packages; the value of an entry names the package that holds the sub-folders."""
ROOT_PACKAGE = "medtune_plugins"
"""The package under which the modules of named folders are imported, each folder under a name of its own."""

_named: list[Path] = []
"""The folders that the command line named."""
_of_recipes: list[Path] = []
"""The folders that recipes and `medtune check` named since then."""


@dataclass(frozen=True, slots=True)
class Plugin:
    """One place outside the package that holds extensions."""

    origin: str  # The name that users see: the distribution of an installed package, or the folder.
    root: Path  # The folder that holds the sub-folders benchmarks, models and so on.
    package: str  # The name under which its modules are imported.


def plugins() -> tuple[Plugin, ...]:
    """Returns the installed plugins, then those that the command line and recipes named, each once."""
    folders = dict.fromkeys((*_named, *_of_recipes))
    return (*_installed(), *map(folder_plugin, folders))


def name_folders(folders: Iterable[Path]) -> None:
    """Takes the plugin folders of a command, instead of those of the command before and of its recipes."""
    _named[:] = [_folder(path, named_by="--plugins") for path in folders]
    _of_recipes.clear()


def add_folders(folders: Iterable[Path], *, named_by: str) -> tuple[Path, ...]:
    """Takes further plugin folders into use, such as a recipe's, and returns their absolute paths."""
    found = tuple(_folder(path, named_by=named_by) for path in folders)
    _of_recipes.extend(path for path in found if path not in _of_recipes)
    return found


def folders_in_use(folders: Iterable[Path], *, named_by: str) -> tuple[Path, ...]:
    """Returns plugin folders that a folder asks for which is only read, such as a run, an export or a checkpoint.

    Its code never runs because it asks for it. A folder in use that bears the same name counts as the one that is asked
    for, because both may have been moved since.

    Raises:
        ValueError: A folder is not in use; says which code it holds, and how it is taken into use.
    """
    used = {path.name: path for path in reversed((*_named, *_of_recipes))} | {
        path: path for path in (*_named, *_of_recipes)
    }
    found = []
    for asked in (path.expanduser().resolve() for path in folders):
        taken = used.get(asked, used.get(asked.name))
        if taken is None:
            raise ValueError(
                f"{named_by}: it asks for code in the folder {asked} ({_code_in(asked)}). A run, an export or a "
                "checkpoint never brings code by itself. If you know that code and trust it, name its folder: "
                f"--plugins {asked}"
            )
        found.append(taken)
    return tuple(found)


def _code_in(root: Path) -> str:
    if not root.is_dir():
        return "which is not here; if it was moved, name it where it is now"
    files = sorted(str(path.relative_to(root)) for path in islice(root.glob("*/*.py"), 1000))
    more = f" and {len(files) - 3} more" if len(files) > 3 else ""
    return (", ".join(files[:3]) + more) or "it holds no extension now"


def named_folders() -> tuple[Path, ...]:
    return tuple(dict.fromkeys(_named))


def plugin_arguments() -> list[str]:
    """Returns the arguments with which another medtune process finds the same plugin folders."""
    return [word for path in named_folders() for word in ("--plugins", str(path))]


def folder_plugin(root: Path) -> Plugin:
    """Returns the plugin in a folder; its modules are imported under a package name that no other folder has."""
    mark = hashlib.sha256(str(root).encode()).hexdigest()[:8]
    package = f"{ROOT_PACKAGE}.{re.sub(r'[^A-Za-z0-9_]', '_', root.name)}_{mark}"
    _make_package(ROOT_PACKAGE, [])
    _make_package(package, [str(root)])
    return Plugin(str(root), root, package)


def _folder(path: Path, *, named_by: str) -> Path:
    root = path.expanduser().resolve()
    if not root.is_dir():
        raise FileNotFoundError(
            f"{named_by}: there is no plugin folder {root}. Name the folder that holds benchmarks, models, recipes "
            "and so on; if it was moved, change its path there"
        )
    return root


def _make_package(name: str, path: list[str]) -> None:
    if name in sys.modules:
        return
    module = ModuleType(name)
    module.__path__ = path
    module.__spec__ = ModuleSpec(name, None, is_package=True)
    sys.modules[name] = module


@cache
def _installed() -> tuple[Plugin, ...]:
    found = []
    for entry in entry_points(group=GROUP):
        origin = entry.dist.name if entry.dist else entry.name
        try:
            spec = importlib.util.find_spec(entry.value)
        except ModuleNotFoundError:  # The parent of a dotted name is missing.
            spec = None
        if spec is None or not spec.submodule_search_locations:
            raise ValueError(
                f"the installed package {origin} names {entry.value!r} in the entry-point group {GROUP}, and there is "
                "no such package. Install it again, or remove it"
            )
        found.append(Plugin(origin, Path(next(iter(spec.submodule_search_locations))), entry.value))
    return tuple(found)
