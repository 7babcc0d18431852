"""Yields commands over a run of which a file is damaged, gone, or has odd values: each ends well or in one line."""

import io
import json
import random
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import redirect_stderr, redirect_stdout
from functools import partial
from pathlib import Path
from typing import Any

from medtune.trainer.commands.cli import main
from tests.faults.harness import PLANTED, Broken
from tests.faults.prepared_files import CHANGES, damaged_content

ODD: tuple[Any, ...] = (
    None,
    True,
    0,
    -1,
    10**400,
    0.5,
    float("nan"),
    "",
    "words",
    [],
    {},
    [None],
    {"a": 1},
    "\x1b[31m",
)
RUN_VERBS: Mapping[str, Sequence[str]] = {
    "report": ("report", "{run}", "--out", "{out}/report.html"),
    "report of two": ("report", "{run}", "{whole}", "--out", "{out}"),
    "compare": ("compare", "{run}", "{whole}"),
    "compare the other way": ("compare", "{whole}", "{run}"),
    "audit": ("audit", "{run}"),
    "explain": ("explain", "{run}"),
    "explain numbers": ("explain", "{run}", "--numbers"),
    "export": ("export", "{run}", "--out", "{out}/exported", "--no-proof"),
    "predict": ("predict", "{run}", "--from", "{table}", "--out", "{out}/answers.csv"),
    "eval": ("eval", "{run}", "--limit", "2", "--out", "{out}/eval"),
    "resume": ("run", "nano_busi_lora", "--out", "{run}", "--resume", "--set", "{settings}"),
    "power": ("power", "--gain", "0.2", "--run", "{run}"),
    "score": ("score", "busi", "--predictions", "{run}/final", "--questions", "{prepared}"),
}  # fmt: skip

EXPORT_VERBS: Mapping[str, Sequence[str]] = {
    "predict": ("predict", "{run}", "--from", "{table}", "--out", "{out}/answers.csv"),
    "chat": ("chat", "{run}", "--media", "{table}", "--question", "What?"),
    "eval": ("eval", "{run}", "--limit", "2", "--out", "{out}/eval", "--set", "data.root={prepared}"),
}
_NANO = ("nano_busi_lora", "--set", "{settings}", "model.name=nano_qwen25vl")
WEIGHTS_VERBS: Mapping[str, Sequence[str]] = {
    "validate": ("validate", *_NANO, "model.weights={run}"),
    "eval": ("eval", *_NANO[:1], "--limit", "2", "--out", "{out}/eval", *_NANO[1:], "model.weights={run}"),
}


def run_files(
    draw: random.Random,
    folder: Path,
    *,
    whole: Path,
    prepared: Path,
    table: Path,
    settings: Sequence[str],
    verbs: Mapping[str, Sequence[str]],
) -> Iterator[Broken]:
    """Yields all verbs that read a run, or a folder of another kind, over copies of a whole one."""
    files = sorted(path.relative_to(whole) for path in whole.rglob("*") if path.is_file() and path.suffix != ".lock")
    while True:
        name = f"{draw.getrandbits(32):08x}"
        run, out = folder / f"run_{name}", folder / f"out_{name}"
        shutil.copytree(whole, run)
        out.mkdir()
        path, verb = run / draw.choice(files), draw.choice(list(verbs))
        change = draw.choice((*CHANGES, *ODD_CONTENT))
        content = path.read_bytes()
        changed = (
            ODD_CONTENT[change](draw, content) if change in ODD_CONTENT else damaged_content(draw, content, change)
        )
        if changed is None:
            path.unlink()
        else:
            path.write_bytes(changed)
        places = {"run": run, "whole": whole, "out": out, "table": table, "prepared": prepared}
        words = [
            each for word in verbs[verb] for each in (settings if word == "{settings}" else [word.format(**places)])
        ]
        yield Broken(f"{verb}: {change} in {path.relative_to(run)}", partial(_refused, words))
        for place in (run, out):
            shutil.rmtree(place, ignore_errors=True)


def _refused(words: Sequence[str]) -> None:
    said, listed = io.StringIO(), io.StringIO()
    with redirect_stderr(said), redirect_stdout(listed):
        status = main(list(words))
    # What validate finds missing, it lists.
    if status == 0 or (words[0] == "validate" and "missing" in listed.getvalue()):
        return
    lines = [line for line in said.getvalue().splitlines() if line.startswith("medtune: ")]
    assert len(lines) == 1, said.getvalue()
    assert "[Errno" not in lines[0], lines[0]
    raise ValueError(lines[0])


def _value(draw: random.Random, content: bytes) -> bytes:
    """Replaces a value anywhere in a JSON document or in a line of one; other files get an odd line."""
    text = content.decode("utf-8", "replace")
    lines = text.splitlines() if "\n{" in text.strip() else [text]
    place = draw.randrange(len(lines)) if lines else 0
    try:
        whole = json.loads(lines[place])
    except (ValueError, IndexError):
        return content + b"\n" + str(draw.choice(ODD)).encode()
    at: Any = whole
    while isinstance(at, dict | list) and at:
        key = draw.choice(list(at) if isinstance(at, dict) else range(len(at)))
        if isinstance(at[key], dict | list) and at[key] and draw.random() < 0.8:
            at = at[key]
            continue
        if isinstance(at, dict) and draw.random() < 0.2:
            at[draw.choice(("", "words", PLANTED[:5]))] = at.pop(key)
        else:
            at[key] = draw.choice(ODD)
        break
    lines[place] = json.dumps(whole if whole not in ({}, []) else draw.choice(ODD))
    return "\n".join(lines).encode("utf-8", "replace")


def _line(draw: random.Random, content: bytes) -> bytes:
    lines = content.split(b"\n")
    place = draw.randrange(len(lines))
    return b"\n".join([*lines[: place + 1], lines[place], *lines[place + 1 :]])


ODD_CONTENT: Mapping[str, Callable[[random.Random, bytes], bytes]] = {
    "an odd value": _value, "another odd value": _value, "a third odd value": _value, "a line twice": _line,
}  # fmt: skip
