"""Reads JSON files as dataclasses and writes them; errors name the file, the broken field and the remedy."""

import json
from collections.abc import Callable, Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any, TypeVar

from pydantic import TypeAdapter, ValidationError

from medtune.data.files import replace_file

AGAIN = "Was the file edited or cut off? Copy the run folder again, or run again."

Kind = TypeVar("Kind")
_adapter: Callable[[Any], TypeAdapter[Any]] = cache(TypeAdapter)
"""Pydantic's reader and writer of a type, which takes longer to make than a file takes to read."""

_WANTED: Mapping[str, str] = {
    "dataclass_type": "wanted an object",
    "model_type": "wanted an object",
    "dict_type": "wanted an object",
    "mapping_type": "wanted an object",
    "list_type": "wanted a list",
    "tuple_type": "wanted a list",
    "string_type": "wanted a string",
    "bool_type": "wanted true or false",
    "int_type": "wanted a whole number",
    "int_from_float": "wanted a whole number",
    "float_type": "wanted a number",
    "finite_number": "wanted a number",
    "greater_than_equal": "wanted a number of {ge} or more",
    "literal_error": "wanted {expected}",
    "too_long": "wanted at most {max_length} items",
}
"""Our words for each kind of error. For the other kinds, which our types cannot cause, pydantic's words are used."""
_NAME = "[key]"
"""The ending that pydantic gives to the path of a value if its key is wrong."""
_MEMBERS = ("str", "float", "int")
"""The endings that pydantic gives to the path of a value that may be a string or a number, with one error for each."""


def read_json(path: Path, kind: type[Kind]) -> Kind:
    document: Kind = _parsed(path.read_bytes(), _adapter(kind), where=str(path))
    return document


def read_json_lines(path: Path, kind: type[Kind]) -> Iterator[Kind]:
    adapter = _adapter(kind)
    for number, line in enumerate(path.read_bytes().split(b"\n"), start=1):
        if line.strip():
            yield _parsed(line, adapter, where=f"{path}, line {number}")


def write_document(path: Path, document: object, kind: type[object] | None = None) -> None:
    """Writes a dataclass as a JSON file, which appears only when it is complete.

    Args:
        kind: The type of the file, where the document holds more than that; None is its own.
    """
    replace_file(path, [json_bytes(document, kind)])


def json_bytes(document: object, kind: type[object] | None = None) -> bytes:
    content = _adapter(kind or type(document)).dump_python(document, mode="json")
    return json.dumps(content, indent=1).encode() + b"\n"


def _parsed(content: bytes, adapter: TypeAdapter[Kind], *, where: str) -> Kind:
    try:
        return adapter.validate_json(content, strict=True)
    except ValidationError as error:
        raise ValueError(_message(error, where)) from error


def _message(error: ValidationError, where: str) -> str:
    found = error.errors(include_url=False)
    first, paths = found[0], {each["loc"] for each in found}
    kind, path, facts = first["type"], first["loc"], first.get("ctx", {})
    if kind == "json_invalid":
        return f"{where}: not valid JSON ({facts['error']}). {AGAIN}"
    if path and path[-1] == _NAME:
        path = path[:-1]
    if path and paths.issuperset((*path[:-1], member) for member in _MEMBERS):
        path, said = path[:-1], "wanted a string, a number or null"
    elif kind == "value_error":
        said = str(facts["error"])
    else:
        said = _WANTED[kind].format(**facts) if kind in _WANTED else first["msg"]
    field = f", field {_dotted(path)}" if path else ""
    if kind == "missing":
        return f"{where}{field} is missing. {AGAIN}"
    return f"{where}{field}: {said}, got {first['input']!r:.60}. {AGAIN}"


def _dotted(path: tuple[int | str, ...]) -> str:
    said = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in path)
    return said.removeprefix(".")
