"""Reads the prompts that U2-Bench's evaluation kit puts together in code, from the user's copy; the code never runs.

The kit's `build_prompt` begins with an empty text and adds to it, by the number of the data set. A name in braces of an
f-string is a gap of the template; where the code has a text for rows that do not fill it, so has the template. A row's
hint, which no released table has, is left out.

Source: dolphin-sound/u2-bench-evalkit@4ab2465, vlmeval/dataset/image_seg.py and image_report.py.
"""

import ast
from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path

_FUNCTION, _TEXT, _DATASET, _HINT = "build_prompt", "prompt", "dataset_name", "hint"


def prompts_in_code(path: Path, datasets: Sequence[str], *, gaps: Collection[str]) -> Mapping[str, str]:
    """Returns the template of each data set.

    Args:
        gaps: The names of the gaps that questions can fill.
    """
    try:
        tree = ast.parse(path.read_text("utf-8"))
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        raise ValueError(f"{path}: no Python file ({type(error).__name__}); copy it from the kit again") from error
    built = [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef) and node.name == _FUNCTION]
    if len(built) != 1:
        raise ValueError(f"{path}: wanted one function {_FUNCTION}, found {len(built)}; copy it from the kit again")
    written = {name: f"{{{name}}}" for name in gaps} | {
        target.id: f"{{{target.id}||{node.value.value}}}"
        for node in ast.walk(built[0])
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)
        for target in node.targets
        if isinstance(target, ast.Name) and target.id in gaps
    }
    found = {dataset: "".join(_pieces_of_prompt(built[0].body, dataset, path, written)) for dataset in datasets}
    if empty := [dataset for dataset, text in found.items() if not text.strip()]:
        raise ValueError(f"{path}: its {_FUNCTION} writes nothing for the data set {empty[0]}; copy it again")
    return found


def _pieces_of_prompt(body: Sequence[ast.stmt], dataset: str, path: Path, gaps: Mapping[str, str]) -> Iterator[str]:
    """Yields the pieces that statements add to the prompt of a data set, in order."""
    for statement in body:
        if isinstance(statement, ast.AugAssign) and _is_prompt(statement.target):
            yield _text(statement.value, path, gaps)
        elif isinstance(statement, ast.If) and _writes(statement):
            taken = _holds(statement.test, dataset, path)
            yield from _pieces_of_prompt(statement.body if taken else statement.orelse, dataset, path, gaps)
        elif _writes(statement) and not _is_empty_start(statement):
            raise ValueError(
                f"{path}, line {statement.lineno}: {_FUNCTION} is not the kit's; write the prompts by hand"
            )


def _is_prompt(target: ast.expr) -> bool:
    return isinstance(target, ast.Name) and target.id == _TEXT


def _writes(statement: ast.stmt) -> bool:
    changed = (node for node in ast.walk(statement) if isinstance(node, ast.Assign | ast.AugAssign))
    return any(
        _is_prompt(target)
        for node in changed
        for target in (node.targets if isinstance(node, ast.Assign) else [node.target])
    )


def _is_empty_start(statement: ast.stmt) -> bool:
    return isinstance(statement, ast.Assign) and isinstance(statement.value, ast.Constant) and not statement.value.value


def _holds(test: ast.expr, dataset: str, path: Path) -> bool:
    if isinstance(test, ast.Compare) and isinstance(test.left, ast.Name) and test.left.id == _HINT:
        return False
    if isinstance(test, ast.Compare) and isinstance(test.left, ast.Attribute) and test.left.attr == _DATASET:
        known = _constants(test.comparators[0])
        if known and isinstance(test.ops[0], ast.Eq | ast.In):
            return dataset in known
    raise ValueError(
        f"{path}, line {test.lineno}: {_FUNCTION} decides by {ast.unparse(test)[:60]!r}, which the kit's does not; "
        "write the prompts by hand"
    )


def _constants(node: ast.expr) -> list[object]:
    members = node.elts if isinstance(node, ast.List | ast.Tuple | ast.Set) else [node]
    return [each.value for each in members if isinstance(each, ast.Constant)]


def _text(value: ast.expr, path: Path, gaps: Mapping[str, str]) -> str:
    parts = value.values if isinstance(value, ast.JoinedStr) else [value]
    found = ""
    for part in parts:
        if isinstance(part, ast.Constant) and isinstance(part.value, str):
            found += part.value
        elif isinstance(part, ast.FormattedValue) and isinstance(part.value, ast.Name) and part.value.id in gaps:
            found += gaps[part.value.id]
        else:
            raise ValueError(
                f"{path}, line {value.lineno}: the prompt holds {ast.unparse(part)[:60]}, which no question knows; "
                "write the prompts by hand"
            )
    return found
