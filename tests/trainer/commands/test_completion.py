"""What a shell is answered where somebody types half a command."""

import io

import pytest

from medtune.data import catalog
from medtune.trainer.commands.cli import COMMANDS, parser
from medtune.trainer.completion import complete


def _completed(line: str, monkeypatch: pytest.MonkeyPatch) -> set[str]:
    settings = {"_ARGCOMPLETE": "1", "COMP_LINE": line, "COMP_POINT": str(len(line)), "_ARGCOMPLETE_IFS": "\n"}
    for name, value in {**settings, "_ARGCOMPLETE_SHELL": "bash", "_ARGCOMPLETE_COMP_WORDBREAKS": " "}.items():
        monkeypatch.setenv(name, value)
    said = io.StringIO()
    with pytest.raises(SystemExit):
        complete(parser, COMMANDS, output=said, leave=_leave)
    return {each.strip() for each in said.getvalue().split("\n") if each}


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
def test_half_a_word_is_completed(line: str, expected: set[str], monkeypatch: pytest.MonkeyPatch) -> None:
    assert _completed(line, monkeypatch) == expected


def test_all_recipes_are_offered(monkeypatch: pytest.MonkeyPatch) -> None:
    assert {*catalog.names(catalog.RECIPES)} <= _completed("medtune run ", monkeypatch)
