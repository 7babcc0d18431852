"""What stands on the pages: commands, listings of Python, and what is only shown (tables, outputs, files)."""

import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from tests.packages.installed import ROOT

PROGRAMS = (
    "medtune", "make", "torchrun", "python", "pip", "pytest", "export", "eval", "ray", "tensorboard", "mlflow",
    "wandb", "hf", "ssh", "cd", "mkdir", "vllm-env/bin/vllm", "sglang-env/bin/python",
)  # fmt: skip
# Written from the parser itself, and the tables of others.
WRITTEN = ("docs/reference/arguments.md", "docs/licences.md")
_STARTS_PYTHON = re.compile(r"(?:from|import|def|LEARNS_FROM)\b")
_FENCED = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_INDENTED = re.compile(r"(?:(?<=\n\n)|\A)(?: {4}.*\n(?:\n(?= {4}))?)+")


@dataclass(frozen=True, slots=True)
class Block:
    """A part of a page that is set as code."""

    page: str
    kind: Literal["commands", "python", "yaml", "shown"]
    text: str

    @property
    def commands(self) -> list[str]:
        """The commands of a block, each in a line, without what is said beside them."""
        lines = re.sub(r"\\\n *", "", self.text).splitlines()
        return [re.split(r" {2,}", line)[0] for line in lines if self.kind == "commands" and _is_command(line)]


def pages() -> list[str]:
    """Returns the pages, by their paths in the repository."""
    found = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
    return [name for page in found if (name := page.relative_to(ROOT).as_posix()) not in WRITTEN]


def blocks(page: str) -> list[Block]:
    """Returns the blocks of a page, in their order."""
    return list(of_text(page, (ROOT / page).read_text("utf-8")))


def of_text(page: str, text: str) -> Iterator[Block]:
    """Yields the blocks of a text.

    >>> [block.kind for block in of_text("p", "See:\\n\\n    medtune list models\\n\\n    a,b\\n    1,2\\n")]
    ['commands', 'shown']
    """
    found = [(match.start(), _fenced(page, match[1], match[2])) for match in _FENCED.finditer(text)]
    plain = _FENCED.sub(lambda match: re.sub(r"[^\n]", "x", match[0]), text)
    for match in _INDENTED.finditer(plain):
        whole = re.sub(r"^ {4}", "", match[0].rstrip("\n"), flags=re.MULTILINE)
        parts = [whole] if _STARTS_PYTHON.match(whole) else whole.split("\n\n")
        found += [(match.start(), _indented(page, part)) for part in parts]
    yield from (block for _, block in sorted(found, key=lambda each: each[0]))


def inline(page: str) -> list[str]:
    """Returns the commands of medtune that stand in the sentences and tables of a page."""
    text = _FENCED.sub("", (ROOT / page).read_text("utf-8"))
    return re.findall(r"`(medtune [a-z]+ [^`]+)`", text)


def words(command: str) -> list[str]:
    """Returns the words of a command.

    >>> words("medtune run R --set 'a=[b, c]'")
    ['medtune', 'run', 'R', '--set', 'a=[b, c]']
    """
    return shlex.split(command)


def is_synopsis(command: str) -> bool:
    """Returns whether a command says what it takes, and not what to type.

    >>> [is_synopsis(each) for each in ("medtune run|eval RECIPE [--resume]", "medtune run R --set a=[b]")]
    [True, False]
    """
    bare = re.sub(r"'[^']*'|\"[^\"]*\"", "", command).split()
    return any(word.startswith(("[", "{")) or "|" in word or word == "..." for word in bare)


def _fenced(page: str, language: str, text: str) -> Block:
    return Block(page, "python" if language == "python" else "yaml" if language == "yaml" else "shown", text)


def _indented(page: str, text: str) -> Block:
    kind: Literal["commands", "python", "shown"] = "commands" if _is_command(text) else "shown"
    return Block(page, "python" if _STARTS_PYTHON.match(text) else kind, text + "\n")


def _is_command(line: str) -> bool:
    first = line.split(maxsplit=1)[0] if line.strip() else ""
    return first in PROGRAMS and not line.startswith(" ")
