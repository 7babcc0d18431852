"""Yields damaged prepared folders: a bit of a table or of a picture flipped, a file cut, emptied or gone."""

import json
import random
import shutil
from collections.abc import Iterator
from functools import partial
from pathlib import Path

from medtune.data.media.load import load_media
from medtune.data.prepared.manifest import (
    MANIFEST,
    MEDIA,
    PROMPTS,
    QUESTIONS,
    read_manifest,
    write_manifest,
    write_prompts,
)
from medtune.data.prepared.origins import ORIGINS, read_origins
from medtune.data.prepared.read import open_prepared
from medtune.data.types import SPLITS, Image
from tests.faults.harness import Broken

_OLDER = 0.3
"""The share of folders that were prepared before manifests held digests of the tables."""
CHANGES = ("a flipped bit", "a flipped bit", "a cut", "no content", "no file")
EXCHANGED = "the content of another picture"


def prepared_files(draw: random.Random, folder: Path, *, whole: Path) -> Iterator[Broken]:
    """Yields copies of a prepared folder with one file damaged, of which all is read, the media too."""
    mine = folder / "prepared"
    shutil.copytree(whole, mine)
    media = sorted(path for path in mine.rglob("*") if path.is_file() and path.suffix in (".png", ".jpg"))
    write_prompts(mine, {"busi": "What does it show?"})
    write_manifest(mine, read_manifest(whole))
    made = (mine / MANIFEST).read_bytes()
    older = json.dumps({name: value for name, value in json.loads(made).items() if name != "tables"}).encode()
    while True:
        is_older = draw.random() < _OLDER
        (mine / MANIFEST).write_bytes(older if is_older else made)
        named = (QUESTIONS, MEDIA, ORIGINS, PROMPTS, MANIFEST)
        path = draw.choice((*(mine / name for name in named), draw.choice(media)))
        change = draw.choice(CHANGES)
        content = path.read_bytes()
        damaged: bytes | None
        if path in media and draw.random() < 0.3:
            change, damaged = EXCHANGED, draw.choice([each for each in media if each != path]).read_bytes()
        else:
            damaged = damaged_content(draw, content, change)
        # Of a manifest and of a picture there are bytes that say nothing.
        is_needed = damaged is None and path.name not in (ORIGINS, PROMPTS)
        is_certain = (path.suffix == ".arrow" and not is_older) or is_needed or change == EXCHANGED
        yield Broken(
            f"{change} in {path.name}{' of an older folder' if is_older else ''}",
            partial(_read, mine, path, damaged),
            mine,
            is_certain,
        )
        path.write_bytes(content)


def damaged_content(draw: random.Random, content: bytes, change: str) -> bytes | None:
    if change == "a flipped bit":
        changed, place = bytearray(content), draw.randrange(len(content))
        changed[place] ^= 1 << draw.randrange(8)
        return bytes(changed)
    return {"a cut": content[: draw.randrange(len(content))], "no content": b"", "no file": None}[change]


def _read(folder: Path, path: Path, damaged: bytes | None) -> None:
    if damaged is None:
        path.unlink()
    else:
        path.write_bytes(damaged)
    prepared = open_prepared(folder)
    read_origins(folder, prepared.manifest.source)
    assert prepared.templates is None or isinstance(prepared.templates, dict)
    for split in SPLITS:
        len(prepared.questions(split))
        for group in prepared.groups(split):
            for ref in group.media:
                shown = load_media(ref)
                assert isinstance(shown, Image)
