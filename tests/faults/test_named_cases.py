"""The faults that users met, one by one, and the table (README.md) that says where each sentence of theirs is held."""

import ast
import copy
import json
import re
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from medtune.data.media.volumes.read import read_volume
from medtune.models.endpoint.replies import Reply, UnreadableReplyError, read_completion, read_stream
from medtune.trainer.commands.cli import main
from medtune.trainer.recipe.read import read_recipe
from tests.data.media.volumes.synthetic_volumes import nifti
from tests.faults.server_replies import PIECES, WHOLE
from tests.faults.volume_files import NUMBERLESS

ROOT = Path(__file__).resolve().parents[2]

RECIPE_TEXTS: dict[str, tuple[str, str]] = {
    "a key twice": ("train:\n  max_steps: 2\n  max_steps: 3\n", r"max_steps is given twice, in line 3 and in line 4"),
    "a block twice": ("train: {}\nmodel: {}\ntrain: {}\n", r"train is given twice, in line 2 and in line 4"),
    "1:30": ("train: {max_steps: 1:30}\n", r"train\.max_steps"),
    "NaN": ("train: {clip_norm: .nan}\n", r"train\.clip_norm is nan"),
    "infinity": ("train: {weight_decay: .inf}\n", r"train\.weight_decay is inf"),
    "20 digits": (f"train: {{max_steps: {'9' * 20}}}\n", r"train\.max_steps"),
    "5,000 digits": (f"train: {{max_steps: {'9' * 5000}}}\n", "Exceeds the limit"),
    "Latin-1": ("log: {project: Größe}\n", "no UTF-8 text"),
    "deep nesting": ("train: " + "[" * 4000, "recipe"),
}


@pytest.mark.parametrize("fault", RECIPE_TEXTS)
def test_a_recipe_that_misleads_is_refused_with_its_file(
    fault: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text, wanted = RECIPE_TEXTS[fault]
    path = tmp_path / "recipe.yaml"
    path.write_bytes(f"extends: nano_busi_lora\n{text}".encode("latin-1" if fault == "Latin-1" else "utf-8"))
    assert main(["show", str(path)]) == 1
    (line,) = [each for each in capsys.readouterr().err.splitlines() if each.startswith("medtune: ")]
    assert str(path) in line
    assert re.search(wanted, line)


@pytest.mark.parametrize("odd", [".nan", ".inf", "-1", "1e400"])
@pytest.mark.parametrize("field", ["usd_per_million_input_tokens", "usd_per_million_output_tokens", "max_usd"])
def test_a_price_or_cap_that_is_no_amount_is_refused(field: str, odd: str) -> None:
    with pytest.raises(ValueError, match=rf"model\.endpoint\.{field}\b.* must be"):
        read_recipe("endpoint_fetal_gauge", [f"model.endpoint.{field}={odd}"])


ODD_REPLIES: dict[str, Callable[[dict[str, Any]], object]] = {
    "a usage of 400 digits": lambda reply: reply["usage"].update(prompt_tokens=10**400),
    "words as ids of prompt_logprobs": lambda reply: reply["prompt_logprobs"][1].update(words=3),
    "choices that are a text": lambda reply: reply.update(choices="b"),
    "a choice that is none": lambda reply: reply.update(choices=[None]),
    "a message that is a text": lambda reply: reply["choices"][0].update(message="a"),
    "a logprob that is a list": lambda reply: reply["prompt_logprobs"][1]["12"].update(logprob=[]),
}


def _told(read: Callable[[], Reply]) -> str:
    """Returns what a reply says, or why it cannot be read; any other error is a fault."""
    try:
        return read().text
    except UnreadableReplyError as error:
        return str(error)


@pytest.mark.parametrize("fault", ODD_REPLIES)
def test_an_odd_reply_is_refused_in_words_or_read(fault: str) -> None:
    reply = copy.deepcopy(WHOLE)
    ODD_REPLIES[fault](reply)
    assert _told(partial(read_completion, json.dumps(reply)))


@pytest.mark.parametrize("odd", [3, "a", None, [], {"content": ["a"]}])
def test_an_odd_delta_of_a_stream_is_refused_in_words_or_left_out(odd: object) -> None:
    pieces: list[dict[str, Any]] = copy.deepcopy(PIECES)
    pieces[0]["choices"][0]["delta"] = odd
    assert _told(partial(read_stream, pieces))


@pytest.mark.parametrize(
    "dims", [(3, 32767, 32767, 32767), (3, 0, 5, 6), (3, -4, 5, 6)], ids=["32767^3", "a dim of 0", "a dim below 0"]
)
def test_dims_of_no_volume_are_refused(dims: tuple[int, ...], tmp_path: Path) -> None:
    path = nifti(tmp_path / "ct.nii")
    content = bytearray(path.read_bytes())
    content[40:56] = np.array([*dims, *[1] * (8 - len(dims))], "<i2").tobytes()
    path.write_bytes(content)
    with pytest.raises(ValueError, match=r"ct\.nii"):
        read_volume(path)


@pytest.mark.parametrize("kind", NUMBERLESS)
def test_voxels_that_are_no_numbers_are_refused(kind: str, tmp_path: Path) -> None:
    code, bits = NUMBERLESS[kind]
    path = nifti(tmp_path / "ct.nii")
    content = bytearray(path.read_bytes() + bytes(10_000))
    content[70:74] = np.array([code, bits], "<i2").tobytes()
    path.write_bytes(content)
    with pytest.raises(ValueError, match=r"ct\.nii"):
        read_volume(path)


CASE = re.compile(r"`(tests/[\w/.]+)::([^`\[]+)(?:\[([^`]+)\])?`")


def test_every_case_of_the_table_exists() -> None:
    """A case is a test, or a generator's name; behind it may stand an entry of it in brackets."""
    lines = [line for line in (ROOT / "tests/faults/README.md").read_text("utf-8").splitlines() if line[:2] == "| "]
    assert len(lines) > 40
    for line in lines[1:]:
        cases = CASE.findall(line)
        assert cases, line
        for file, name, entry in cases:
            text = (ROOT / file).read_text("utf-8")
            tree = ast.parse(text)
            named = {node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)}
            named |= {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}
            assert name in named, f"{file}::{name}"
            assert entry in text, f"{file}::{name}[{entry}]"
