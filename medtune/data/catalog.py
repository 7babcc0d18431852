"""Extensions of every kind are found by name: the name of the file, or of the folder, is the public name."""

from __future__ import annotations

import ast
import difflib
import functools
import re
import reprlib
import traceback
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from types import UnionType
from typing import TypeVar, cast, get_args

from medtune.data.plugins import Plugin, plugins

T = TypeVar("T")

MEDTUNE = "medtune"
"""The origin of medtune's own extensions."""
_HOME = Path(__file__).resolve().parents[1]


@dataclass(frozen=True, slots=True)
class Kind:
    name: str  # The name in `medtune list`, and of the sub-folder in a plugin.
    package: str  # The package inside medtune that holds its own extensions of this kind.
    defines: str  # The function that a module of this kind defines at its top level; "" where the kind is a YAML file.
    # What a function returns that is an extension by its own name, as several in one file are; "" for none.
    rows: str = ""

    @property
    def suffix(self) -> str:
        """The end of a file's name: ".py", or ".yaml"."""
        return ".py" if self.defines else ".yaml"


BENCHMARKS = Kind("benchmarks", "medtune.benchmarks", "benchmark")
SOURCES = Kind("sources", "medtune.benchmarks", "source", "Source")
"""Sources lie in their benchmark: beside `def benchmark()`, or in its folder `sources`.

A plugin adds a source to another's benchmark in `benchmarks/NAME/sources`, without a benchmark of that name.
"""
PUBLIC_SETS = Kind("public_sets", "medtune.benchmarks.public_sets", "public_set")
"""Image sets that benchmarks are rebuilt from; they are medtune's own alone."""
MODELS = Kind("models", "medtune.models.zoo", "entry", "ZooEntry|ServedEntry|CheckpointEntry")
FAMILIES = Kind("families", "medtune.models.transformers_vlm.families", "family", "Family")
TOWERS = Kind("towers", "medtune.models.towers", "tower")
PROJECTORS = Kind("projectors", "medtune.models.projectors", "projector")
LOSSES = Kind("losses", "medtune.trainer.losses", "loss")
REWARDS = Kind("rewards", "medtune.trainer.rewards", "reward")
METRICS = Kind("metrics", "medtune.eval.metrics", "metric", "Metric")
RECIPES = Kind("recipes", "medtune.recipes", "")
STUDIES = Kind("studies", "medtune.studies", "")
KINDS = {
    kind.name: kind
    for kind in (RECIPES, STUDIES, MODELS, BENCHMARKS, SOURCES, METRICS, FAMILIES, TOWERS, PROJECTORS, LOSSES, REWARDS)
}
"""The kinds that plugins may hold, by name."""


@dataclass(frozen=True, slots=True)
class Extension:
    """One extension, found and not yet imported."""

    kind: Kind
    name: str
    file: Path  # The file that defines it; `__init__.py` where the extension is a folder.
    module: str  # The module to import; a recipe has none that could be imported.
    origin: str  # Where it comes from: "medtune", the name of an installed distribution, or a plugin's folder.
    function: str  # The function of the module that defines it; "" for a recipe.

    @property
    def folder(self) -> Path | None:
        """The folder of an extension that is one; None where it is a single file."""
        return self.file.parent if self.file.name == "__init__.py" else None

    def first_line(self) -> str:
        """Returns the first line of the docstring (a recipe's first comment), read without importing anything.

        A function that is an extension by its own name has a docstring of its own.
        """
        text = self.file.read_text("utf-8")
        if self.kind.suffix == ".yaml":
            return text.lstrip("# ").partition("\n")[0]
        try:
            module = ast.parse(text)
        except SyntaxError as error:
            raise ValueError(f"{self.file}, line {error.lineno}: {error.msg}") from error
        rows = [node for node in module.body if isinstance(node, ast.FunctionDef) and node.name == self.name]
        said = ast.get_docstring(rows[0] if self.function == self.name else module)
        return (said or "").partition("\n")[0]

    def load(self) -> object:
        """Imports the module and returns the function that defines the extension."""
        if self.origin == MEDTUNE:
            return getattr(import_module(self.module), self.function)
        try:
            return getattr(import_module(self.module), self.function)
        except Exception as error:  # Any error can come out of somebody else's module, and none of them names it.
            raise ValueError(f"{place_of(error, self.file)}: {type(error).__name__}: {error}") from error


def place_of(error: Exception, file: Path) -> str:
    """Returns the file, with the last of its lines that the error went through."""
    if isinstance(error, SyntaxError) and error.filename:
        return f"{error.filename}, line {error.lineno}"
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if Path(frame.filename) == file]
    return f"{file}, line {frames[-1].lineno}" if frames else str(file)


def nearest(name: str, known: Iterable[str], *, cutoff: float = 0.5) -> str:
    """Returns " Did you mean 'x'?" for the closest of `known`, or "" where none is close."""
    close = difflib.get_close_matches(name, list(known), n=1, cutoff=cutoff)
    return f" Did you mean {close[0]!r}?" if close else ""


def extensions(kind: Kind) -> dict[str, Extension]:
    """Returns all extensions of a kind by name, sorted: medtune's own, then those of plugins. None is imported."""
    found: dict[str, Extension] = {}
    outside = plugins() if kind.name in KINDS else ()
    places = [_own(kind), *(in_plugin(plugin, kind) for plugin in outside)]
    for extension in (extension for place in places for extension in place):
        other = found.setdefault(extension.name, extension)
        if other is not extension:
            raise ValueError(
                f"{kind.name}: the name {extension.name!r} exists twice, in {other.file} ({other.origin}) and in "
                f"{extension.file} ({extension.origin}). Rename one of them, or leave that plugin out"
            )
    return dict(sorted(found.items()))


def names(kind: Kind) -> list[str]:
    """Returns the names of all extensions of a kind, sorted; imports none of them."""
    return list(extensions(kind))


def find(kind: Kind, name: str) -> Extension:
    """Returns the extension of that name without importing it."""
    known = extensions(kind)
    if name not in known:
        raise ValueError(f"no {name!r} among the {kind.name}.{nearest(name, known)} There are: {', '.join(known)}")
    return known[name]


def load(kind: Kind, name: str) -> object:
    """Returns the function that defines the extension of that name; imports that one module alone."""
    return find(kind, name).load()


def made(kind: Kind, name: str, wanted: type[T] | UnionType, *arguments: object) -> T:
    """Returns what the function that defines the extension of that name returns, which has to be of a type."""
    function = cast("Callable[..., T]", load(kind, name))
    found = function(*arguments)
    if not isinstance(found, wanted):
        types = get_args(wanted) or (wanted,)
        here, got = find(kind, name), f"{reprlib.repr(found)}, a {type(found).__name__}"
        named = " or a ".join(f"{each.__module__}.{each.__qualname__}" for each in types)
        raise ValueError(f"{here.file}: `{here.function}` returned {got}; it has to return a {named}")
    return found


def in_plugin(plugin: Plugin, kind: Kind) -> Iterator[Extension]:
    within = BENCHMARKS if kind is SOURCES else kind
    yield from _in_folder(kind, plugin.root / within.name, f"{plugin.package}.{within.name}", plugin.origin)


@functools.cache
def _own(kind: Kind) -> tuple[Extension, ...]:
    return tuple(_in_folder(kind, _HOME.joinpath(*kind.package.split(".")[1:]), kind.package, MEDTUNE))


def _in_folder(kind: Kind, folder: Path, package: str, origin: str) -> Iterator[Extension]:
    if kind is not SOURCES:
        yield from _defining(kind, folder, package, origin)
        return
    for benchmark in _defining(BENCHMARKS, folder, package, origin):
        yield from _in_file(SOURCES, benchmark.name, benchmark.file, benchmark.module, origin)
        if benchmark.folder is not None:
            yield from _defining(SOURCES, benchmark.folder / "sources", f"{benchmark.module}.sources", origin)
    for name, sources in _added_sources(folder) if origin != MEDTUNE else ():
        if name not in names(BENCHMARKS):
            raise ValueError(
                f"{sources}: there is no benchmark {name!r} that its sources could be added to."
                f"{nearest(name, names(BENCHMARKS))} Give the folder the name of one, or define it in its __init__.py"
            )
        yield from _defining(SOURCES, sources, f"{package}.{name}.sources", origin)


def added_sources(benchmark: str) -> tuple[str, ...]:
    """Returns the names of the sources that plugins add to a benchmark of somebody else's."""
    folders = [
        sources
        for plugin in plugins()
        for name, sources in _added_sources(plugin.root / BENCHMARKS.name)
        if name == benchmark
    ]
    return tuple(found.name for folder in folders for found in _defining(SOURCES, folder, package="", origin=""))


def _added_sources(folder: Path) -> Iterator[tuple[str, Path]]:
    for entry in sorted(folder.iterdir()) if folder.is_dir() else ():
        own = entry / "__init__.py"
        is_benchmark = own.is_file() and _defines(BENCHMARKS, own.read_text("utf-8"))
        if not is_benchmark and any(_defining(SOURCES, entry / "sources", package="", origin="")):
            yield entry.name, entry / "sources"


def _defining(kind: Kind, folder: Path, package: str, origin: str) -> Iterator[Extension]:
    for name, file in candidates(kind, folder):
        yield from _in_file(kind, name, file, f"{package}.{name}", origin)


def _in_file(kind: Kind, name: str, file: Path, module: str, origin: str) -> Iterator[Extension]:
    text = file.read_text("utf-8") if kind.defines else ""
    if _defines(kind, text):
        yield Extension(kind, name, file, module, origin, kind.defines)
    elif kind.rows:
        for row in re.findall(rf"^def ([a-z]\w*)\(\) -> (?:{kind.rows}):", text, re.MULTILINE):
            yield Extension(kind, row, file, module, origin, row)


def candidates(kind: Kind, folder: Path) -> Iterator[tuple[str, Path]]:
    """Yields the name and the file of everything in a folder that could be an extension of the kind."""
    for entry in sorted(folder.iterdir()) if folder.is_dir() else ():
        if entry.name.startswith(("_", ".")):
            continue
        file = entry / "__init__.py" if entry.is_dir() else entry
        if file.suffix == kind.suffix and file.is_file():
            yield entry.name.removesuffix(kind.suffix), file


def _defines(kind: Kind, text: str) -> bool:
    return not kind.defines or f"\ndef {kind.defines}(" in f"\n{text}"
