"""Reads YAML, as recipes and prompts are written: a key counts once, and a text means what it shows.

YAML 1.1 would read 1:30 as 90, keep the last of two equal keys, and let a page of aliases stand for more values than a
machine holds.
"""

import copy
import functools
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml
from yaml.nodes import MappingNode, Node, ScalarNode, SequenceNode

MOST_VALUES = 100_000
"""The number of values in a text, those behind aliases counted each time (our own choice)."""
_DEEPEST = 100
_INT, _FLOAT = "tag:yaml.org,2002:int", "tag:yaml.org,2002:float"


class _Loader(yaml.SafeLoader):
    """PyYAML's safe loader, in which numbers to the base 60 or 8 (1:30, 010) are text."""


_Loader.yaml_implicit_resolvers = {
    letter: [(tag, rule) for tag, rule in rules if tag not in (_INT, _FLOAT)]
    for letter, rules in yaml.SafeLoader.yaml_implicit_resolvers.items()
}
_Loader.add_implicit_resolver(
    _INT, re.compile(r"[-+]?(?:0b[01_]+|0x[0-9a-fA-F_]+|0|[1-9][0-9_]*)\Z"), list("-+0123456789")
)
_Loader.add_implicit_resolver(
    _FLOAT,
    re.compile(
        r"[-+]?(?:(?:[0-9][0-9_]*\.[0-9_]*|\.[0-9][0-9_]*)(?:[eE][-+][0-9]+)?|\.(?:inf|Inf|INF))\Z|\.(?:nan|NaN|NAN)\Z"
    ),
    list("-+0123456789."),
)
"""Source: yaml/resolver.py of PyYAML 6, without its forms to the base 60 and 8."""


def yaml_file(path: Path) -> Any:
    """Returns what a YAML file holds."""
    try:
        text = path.read_text("utf-8-sig")
    except UnicodeDecodeError as error:
        raise ValueError(f"{path}: no UTF-8 text (byte {error.start + 1}); save the file as UTF-8") from error
    return yaml_text(text, where=str(path))


def yaml_text(text: str, *, where: str) -> Any:
    """Returns what a YAML text holds.

    Args:
        where: The file, or the option, that the text is from, for errors.

    Raises:
        ValueError: No YAML, a key that is given twice in one block, or more than `MOST_VALUES` values.
    """
    return copy.deepcopy(_read(text, where))


@functools.lru_cache(256)
def _read(text: str, where: str) -> Any:
    """Returns what a text holds, kept: rows of a study are read from the same few files, at 2 ms each."""
    try:
        loader = _Loader(text)
        try:
            node = loader.get_single_node()
            if node is None:
                return None
            _check(node, where)
            return loader.construct_document(node)
        finally:
            loader.dispose()
    except yaml.YAMLError as error:
        raise ValueError(f"{where}: not YAML: {error}") from error
    except (RecursionError, ValueError, OverflowError) as error:
        if str(error).startswith(where):
            raise
        raise ValueError(f"{where}: not YAML: {str(error) or 'blocks within blocks without end'}") from error


def _check(node: Node, where: str) -> None:
    sizes: dict[int, int] = {}

    def size(each: Node, depth: int) -> int:
        if depth > _DEEPEST:
            raise ValueError(
                f"{where}, line {each.start_mark.line + 1}: blocks lie in blocks more than {_DEEPEST} deep"
            )
        if id(each) not in sizes:
            if isinstance(each, MappingNode):
                _refuse_twice(each, where)
            sizes[id(each)] = 1 + sum(size(child, depth + 1) for child in _children(each))
        if sizes[id(each)] > MOST_VALUES:
            raise ValueError(
                f"{where}, line {each.start_mark.line + 1}: aliases (*) stand for more than {MOST_VALUES:,} values"
            )
        return sizes[id(each)]

    size(node, 0)


def _children(node: Node) -> Iterator[Node]:
    if isinstance(node, MappingNode):
        for key, value in node.value:
            yield key
            yield value
    elif isinstance(node, SequenceNode):
        yield from node.value


def _refuse_twice(node: MappingNode, where: str) -> None:
    seen: dict[str, int] = {}
    for key, _ in node.value:
        if isinstance(key, ScalarNode):
            line = key.start_mark.line + 1
            if key.value in seen:
                raise ValueError(
                    f"{where}: {key.value} is given twice, in line {seen[key.value]} and in line {line}; leave one out"
                )
            seen[key.value] = line
