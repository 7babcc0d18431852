"""Completes what is typed in a shell: commands, arguments, names of recipes, benchmarks and models, keys of --set."""

import argparse
import os
from collections.abc import Callable, Iterable, Sequence
from typing import Any, TextIO

import argcomplete

from medtune.data import catalog
from medtune.trainer.recipe.other_words import paths_of
from medtune.trainer.recipe.schema import Recipe

ASKED = "_ARGCOMPLETE"
"""The variable by which the shell asks. Source: argcomplete 3.7, `argcomplete/finders.py`."""
_KINDS = {
    "recipe": catalog.RECIPES,
    "cache": catalog.RECIPES,
    "benchmark": catalog.BENCHMARKS,
    "source": catalog.SOURCES,
    "study": catalog.STUDIES,
}


def complete(
    parser: Callable[[Sequence[str]], argparse.ArgumentParser],
    commands: Iterable[str],
    *,
    output: TextIO | None = None,
    leave: Callable[[int], object] = os._exit,
) -> None:
    """Answers the shell, and ends the process; of all commands only the one that is typed is imported.

    Args:
        parser: Returns the parser in which the named commands have their arguments.
        output: Where the completions are written; None takes the pipe that the shell opened.
    """
    words = os.environ.get("COMP_LINE", "").split()
    whole = parser([each for each in words[1:] if each in set(commands)][:1])
    for action in _actions(whole):
        named: Any = action
        if action.dest in _KINDS and action.choices is None:
            named.completer = _offering(catalog.names(_KINDS[action.dest]))
        elif action.dest == "overrides":
            named.completer = _offering([f"{path}=" for path in paths_of(Recipe)])
    argcomplete.autocomplete(whole, always_complete_options="long", output_stream=output, exit_method=leave)


def _offering(words: Iterable[str]) -> Callable[..., list[str]]:
    return lambda **_: list(words)


def _actions(parser: argparse.ArgumentParser) -> list[argparse.Action]:
    found = []
    for action in parser._actions:
        inner = action.choices.values() if isinstance(action, argparse._SubParsersAction) else ()
        found += [action, *(each for below in inner for each in _actions(below))]
    return found
