"""Finds the files that a bench measures, and remembers what was in them.

These are the bench's own files and the modules of medtune that they import by name, with what the bench names in
`MEASURES`. A record holds a hash of each: a commit would be another one after a rebase, would not say which files
counted, and would be the same for what lay in the folder uncommitted.
"""

import ast
import hashlib
from collections.abc import Iterator, Mapping
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
ALSO = "MEASURES"
"""The constant of a bench that names further files, as paths from the checkout's root."""
_ROOMS = ("bench", "medtune")
_DIGITS = 16


def code_of(name: str, *, root: Path = ROOT) -> dict[str, str]:
    """Returns the files that the bench of a name measures, each with a hash of its content."""
    return {
        file: hashlib.sha256((root / file).read_bytes()).hexdigest()[:_DIGITS] for file in measured_files(name, root)
    }


def changed(recorded: Mapping[str, str], name: str, *, root: Path = ROOT) -> list[str]:
    """Returns the files of a bench that are not as they were recorded, those that came or went included."""
    now = code_of(name, root=root)
    return sorted(file for file in {*recorded, *now} if recorded.get(file) != now.get(file))


def measured_files(name: str, root: Path = ROOT) -> list[str]:
    """Returns the files that the bench of a name measures, as paths from the root."""
    found: set[str] = set()
    waiting = [file for file in (f"bench/{name}.py", f"bench/{name}/__init__.py") if (root / file).is_file()]
    if not waiting:
        raise ValueError(f"bench: there is no bench/{name}.py")
    while waiting:
        file = waiting.pop()
        if file in found:
            continue
        found.add(file)
        if file.startswith("bench/"):
            waiting += _named_in(ast.parse((root / file).read_text("utf-8")), root)
    return sorted(found)


def _named_in(module: ast.Module, root: Path) -> Iterator[str]:
    for node in ast.walk(module):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module:
            names = [node.module, *(f"{node.module}.{alias.name}" for alias in node.names)]
        elif isinstance(node, ast.Assign) and any(isinstance(to, ast.Name) and to.id == ALSO for to in node.targets):
            yield from ast.literal_eval(node.value)
            continue
        else:
            continue
        for name in names:
            if name.partition(".")[0] in _ROOMS and (file := _file_of(name, root)):
                yield file


def _file_of(module: str, root: Path) -> str | None:
    place = module.replace(".", "/")
    return next((file for file in (f"{place}.py", f"{place}/__init__.py") if (root / file).is_file()), None)
