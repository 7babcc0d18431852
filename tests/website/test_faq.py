"""Each message that docs/faq.md quotes is one that the code can say."""

import ast
import re

import pytest

from tests.packages.installed import ROOT

QUOTED = re.findall(r"^### \"(.+)\"$", (ROOT / "docs" / "faq.md").read_text("utf-8"), re.MULTILINE)
VARIES = "\x00"


@pytest.fixture(scope="module")
def said() -> list[str]:
    """All texts in the code, with a mark in the place of what varies."""
    texts = []
    for file in (ROOT / "medtune").rglob("*.py"):
        for node in ast.walk(ast.parse(file.read_text("utf-8"))):
            if isinstance(node, ast.JoinedStr):
                texts.append("".join(str(p.value) if isinstance(p, ast.Constant) else VARIES for p in node.values))
            elif isinstance(node, ast.Constant) and isinstance(node.value, str):
                texts.append(node.value)
    return texts


def is_said(quoted: str, texts: list[str]) -> bool:
    parts = [re.escape(part.strip()) for part in quoted.split("...")]
    pattern = re.compile(r"[^\n]*".join(part for part in parts))
    return any(pattern.search(text) for text in texts)


@pytest.mark.parametrize("quoted", QUOTED)
def test_the_message_is_in_the_code(quoted: str, said: list[str]) -> None:
    assert is_said(quoted, said)


def test_another_message_would_be_found(said: list[str]) -> None:
    assert len(QUOTED) > 12
    assert not is_said("is not empty; choose another folder", said)
    assert is_said("a ... c", [f"a {VARIES} c"])
