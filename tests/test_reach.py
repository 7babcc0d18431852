"""Code that nothing reaches is not kept: every function, class and constant of the package is used somewhere in it."""

import ast
import re
from collections import Counter
from collections.abc import Iterator
from graphlib import TopologicalSorter
from pathlib import Path
from typing import NamedTuple

import grimp

from medtune.data import catalog

ROOT = Path(__file__).resolve().parents[1]
FILES = sorted((ROOT / "medtune").rglob("*.py"))
TEXTS = [ROOT / "pyproject.toml", *sorted((ROOT / "medtune").rglob("*.j2"))]
EXTENSIONS = {"benchmark", "entry", "family", "metric", "projector", "public_set", "source", "tower"} | {
    name
    for kind in (catalog.MODELS, catalog.FAMILIES, catalog.SOURCES, catalog.METRICS)
    for name in catalog.names(kind)
}
"""Functions that are found by name in a file of an extension: that of its kind, or rows by their own names."""
_WORD = re.compile(r"[A-Za-z_]\w+")
_LONGEST_NAME = 80


class Defined(NamedTuple):
    """A top-level name of a module, or a method of a class that nothing outside the package calls."""

    file: Path
    line: int
    name: str


def test_everything_is_reached() -> None:
    used = _used()
    lost = [
        f"{each.file.relative_to(ROOT)}:{each.line} {each.name}"
        for each in _defined()
        if each.name not in EXTENSIONS and used[each.name] == 0
    ]
    assert lost == []


def test_no_modules_import_each_other_in_a_circle() -> None:
    graph = grimp.build_graph("medtune")
    # Raises CycleError, which names the circle.
    TopologicalSorter(
        {module: graph.find_modules_directly_imported_by(module) for module in sorted(graph.modules)}
    ).prepare()


def _defined() -> Iterator[Defined]:
    for file in FILES:
        for node in ast.parse(file.read_text("utf-8")).body:
            if isinstance(node, ast.FunctionDef | ast.ClassDef):
                yield Defined(file, node.lineno, node.name)
            elif isinstance(node, ast.Assign | ast.AnnAssign):
                targets = node.targets if isinstance(node, ast.Assign) else [node.target]
                for target in targets:
                    if isinstance(target, ast.Name) and not target.id.startswith("__"):
                        yield Defined(file, node.lineno, target.id)


def _used() -> Counter[str]:
    """Returns how often each name is read in the package: in code, in short strings that name things, in templates."""
    found: Counter[str] = Counter()
    for file in FILES:
        for node in ast.walk(ast.parse(file.read_text("utf-8"))):
            if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load):
                found[node.id] += 1
            elif isinstance(node, ast.Attribute):
                found[node.attr] += 1
            elif isinstance(node, ast.Constant) and isinstance(node.value, str) and len(node.value) < _LONGEST_NAME:
                found.update(_WORD.findall(node.value))
    for text in TEXTS:
        found.update(_WORD.findall(text.read_text("utf-8")))
    return found
