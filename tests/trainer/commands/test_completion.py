"""What a shell is answered where somebody types half a command."""

import contextlib
import io

import pytest

from medtune.data import catalog
from medtune.trainer.commands.cli import COMMANDS, parser
from medtune.trainer.completion import complete
from tests.ranks import run_ranks


def _completed(line: str) -> set[str]:
    """Returns what is offered; argcomplete takes file 9 of its process, so that it needs one of its own."""
    settings = {"_ARGCOMPLETE": "1", "COMP_LINE": line, "COMP_POINT": str(len(line)), "_ARGCOMPLETE_IFS": "\n"}
    shell = {"_ARGCOMPLETE_SHELL": "bash", "_ARGCOMPLETE_COMP_WORDBREAKS": " "}
    (said,) = run_ranks(1, _answer, environment=lambda _: {**settings, **shell})
    return {each.strip() for each in said.split("\n") if each}


def _answer(rank: int, world_size: int) -> str:
    said = io.StringIO()
    with contextlib.suppress(SystemExit):
        complete(parser, COMMANDS, output=said, leave=_leave)
    return said.getvalue()


def _leave(status: int) -> None:
    raise SystemExit(status)


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("medtune val", {"validate"}),
        ("medtune run nano_b", {"nano_busi_lora"}),
        ("medtune prepare fetal_", {"fetal_gauge", "fetal_sweep"}),
        ("medtune prepare fetal_gauge --source fetal_ph", {"fetal_phantom"}),
        ("medtune run nano_busi_lora --resu", {"--resume"}),
        ("medtune run nano_busi_lora --set train.max_", {"train.max_steps="}),
        ("medtune reproduce rexso", {"rexsonovqa_appendix"}),
    ],
)
def test_half_a_word_is_completed(line: str, expected: set[str]) -> None:
    assert _completed(line) == expected


def test_all_recipes_are_offered() -> None:
    assert {*catalog.names(catalog.RECIPES)} <= _completed("medtune run ")
