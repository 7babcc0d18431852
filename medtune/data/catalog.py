"""Extensions are found by name: the file (or folder) name is the public name."""

from __future__ import annotations

import ast
import difflib
from collections.abc import Iterable
from importlib import import_module, resources
from importlib.resources.abc import Traversable


def nearest(name: str, known: Iterable[str]) -> str:
    """Returns " Did you mean 'x'?" for the closest of `known`, or "" where none is close."""
    close = difflib.get_close_matches(name, list(known), n=1, cutoff=0.5)
    return f" Did you mean {close[0]!r}?" if close else ""


def _folder(package: str) -> Traversable:
    root, _, rest = package.partition(".")
    return resources.files(root).joinpath(*rest.split("."))


def names(package: str, suffix: str = ".py", *, defining: str | None = None) -> list[str]:
    """Returns the sorted extension names of `package`, e.g. "medtune.benchmarks"; imports none of them.

    With `defining`, only modules that define a function of that name at their top level are extensions.
    """
    found = []
    for entry in _folder(package).iterdir():
        if entry.name.startswith(("_", ".")):
            continue
        file = entry.joinpath("__init__.py") if entry.is_dir() else entry
        if not file.name.endswith(suffix) or not file.is_file():
            continue
        if defining is None or f"\ndef {defining}(" in file.read_text("utf-8"):
            found.append(entry.name.removesuffix(suffix))
    return sorted(found)


def first_line(package: str, name: str, suffix: str = ".py") -> str:
    """Returns the first line of an extension's docstring (a recipe's first comment), read without importing it."""
    file = _folder(package).joinpath(f"{name}{suffix}")
    if not file.is_file():
        file = _folder(package).joinpath(name, "__init__.py")
    text = file.read_text("utf-8")
    said = (ast.get_docstring(ast.parse(text)) or "") if suffix == ".py" else text.lstrip("# ")
    return said.partition("\n")[0]


def load(package: str, name: str, attribute: str) -> object:
    """Returns `attribute` of the extension `name`; imports that one module only.

    Raises:
        ValueError: There is no such extension; the message offers the nearest name.
    """
    known = names(package, defining=attribute)
    if name not in known:
        kind = package.rpartition(".")[2]
        raise ValueError(f"no {name!r} among the {kind}.{nearest(name, known)} There are: {', '.join(known)}")
    return getattr(import_module(f"{package}.{name}"), attribute)
