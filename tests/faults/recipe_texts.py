"""Yields broken recipes: texts of medtune's own recipes with bytes, values, keys and lines changed."""

import random
import re
from collections.abc import Callable, Iterator
from pathlib import Path

from medtune.trainer.recipe.read import read_recipe
from tests.faults.harness import Broken

RECIPES = Path(__file__).resolve().parents[2] / "medtune" / "recipes"
ODD = (
    ".nan", ".inf", "-.inf", "1e400", "9" * 5000, "-1", "1:30", "0x10", "010", "~", "[]", "{}", "''", "yes",
    "!!python/object/apply:os.system [echo]", "!!binary aGk=", "[" * 3000, "{a: " * 500, "&a [*a]", "*nobody", "\t",
    "2026-11-29", "|", "? a", "a: b: c", "%", "@", "- - -", "\\x00", "'unclosed", '"\\q"', "<<: {a: 1}",
    "é" * 300, "/" * 5000,
)  # fmt: skip


def recipe_texts(draw: random.Random, folder: Path) -> Iterator[Broken]:
    """Yields recipes that are read; those with a line twice, bytes of Latin-1 or code are broken for sure."""
    texts = [path.read_text("utf-8") for path in sorted(RECIPES.glob("nano_*.yaml"))]
    while True:
        change = draw.choice(list(CHANGES))
        content, is_certain = CHANGES[change](draw, draw.choice(texts))
        path = folder / f"recipe_{draw.getrandbits(32):08x}.yaml"
        path.write_bytes(content)

        def read(path: Path = path) -> None:
            read_recipe(str(path))

        yield Broken(f"{change} in {path.name}", read, path, is_certain)


def _lines(text: str) -> list[int]:
    return [number for number, line in enumerate(text.split("\n")) if re.match(r" *\w+: +[^#\s]", line)]


def _value(draw: random.Random, text: str) -> tuple[bytes, bool]:
    lines, odd = text.split("\n"), draw.choice(ODD)
    place = draw.choice(_lines(text))
    lines[place] = re.sub(r"(: +).*", lambda found: found[1] + odd, lines[place])
    return "\n".join(lines).encode(), "python" in odd


def _twice(draw: random.Random, text: str) -> tuple[bytes, bool]:
    lines = text.split("\n")
    place = draw.choice(_lines(text))
    return "\n".join([*lines[: place + 1], lines[place], *lines[place + 1 :]]).encode(), True


def _latin(draw: random.Random, text: str) -> tuple[bytes, bool]:
    place = draw.randrange(len(text))
    return text[:place].encode() + "é".encode("latin-1") + text[place:].encode(), True


def _bytes(draw: random.Random, text: str) -> tuple[bytes, bool]:
    content = bytearray(text.encode())
    for _ in range(draw.randrange(1, 6)):
        content[draw.randrange(len(content))] = draw.randrange(256)
    return bytes(content), False


def _cut(draw: random.Random, text: str) -> tuple[bytes, bool]:
    return text.encode()[: draw.randrange(len(text))], False


def _key(draw: random.Random, text: str) -> tuple[bytes, bool]:
    lines = text.split("\n")
    place = draw.choice(_lines(text))
    odd = draw.choice(("nobody", "1", "~", "[a]", "{}", "''", "x" * 5000))
    lines[place] = re.sub(r"\w+:", f"{odd}:", lines[place], count=1)
    return "\n".join(lines).encode(), True


CHANGES: dict[str, Callable[[random.Random, str], tuple[bytes, bool]]] = {
    "an odd value": _value, "a line twice": _twice, "a byte of Latin-1": _latin, "odd bytes": _bytes, "a cut": _cut,
    "another key": _key,
}  # fmt: skip
