"""Tests the release folders of the models over volumes: whole ones are read, others refused before weights are read."""

import shutil
import threading
import time
from collections.abc import Callable
from itertools import product
from pathlib import Path

import pytest
import torch
from peft import PeftModel
from safetensors.torch import save_file
from torch import nn

from medtune.models.weights.key_map import KeyMap, Rule, load_published, open_checkpoint
from medtune.models.weights.loading_options import DtypeName
from tests.models.releases.conftest import Made, read
from tests.models.releases.folders import MERLIN_FILE, WRITERS
from tests.models.sharding.test_unread import assert_same, read_later_and_at_once
from tests.ranks import run_ranks
from tests.soak import in_suites


@pytest.mark.parametrize("name", WRITERS)
def test_a_whole_folder_is_read_with_every_weight(name: str, releases: Made) -> None:
    folder, own = releases[name]
    assembled = read(name, folder)
    found = assembled.model.state_dict()
    assert found.keys() == own.keys()
    for key, value in own.items():
        torch.testing.assert_close(found[key], value, msg=key)
    sequence, stop = assembled.template.layout("Is there a lesion?", "no"), assembled.template.stop_ids[0]
    assert assembled.template.decode([i for i in sequence.labels if i >= 0 and i != stop]).strip() == "no"


@pytest.mark.parametrize("name", WRITERS)
def test_the_language_model_is_narrowed_and_the_tower_is_not(name: str, releases: Made) -> None:
    folder, own = releases[name]
    model = read(name, folder, dtype="bfloat16").model
    for key, tensor in model.state_dict().items():
        wanted = torch.bfloat16 if key.startswith("language.") else torch.float32
        if not tensor.is_floating_point():
            continue
        assert tensor.dtype == wanted, key
        if name != "ct_chat" or not key.startswith("language."):
            # CT-CHAT's adapter is merged by peft after its language model was narrowed.
            torch.testing.assert_close(tensor, own[key].to(wanted), msg=key)


def cut(folder: Path, file: str) -> None:
    """Damages a file: it loses its second half."""
    path = folder / file
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


def spoil(folder: Path, file: str) -> None:
    """Damages a file: it holds other bytes."""
    (folder / file).write_bytes(b"this is not the file" * 9)


def take_away(folder: Path, file: str) -> None:
    (folder / file).unlink()


NEEDED = {
    "radfm": ("Language_files/tokenizer.model", "pytorch_model.bin"),
    "m3d_llama2": (
        "tokenizer.model", "model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors",
    ),
    "merlin": ("RadLLaMA-7b/tokenizer.model", MERLIN_FILE),
    "ct_chat": (
        "language/tokenizer.json", "language/config.json", "language/model-00001-of-00002.safetensors",
        "language/model-00002-of-00002.safetensors", "CT-CLIP_v2.pt", "non_lora_trainables.bin",
        "adapter_model.safetensors", "adapter_config.json",
    ),
}  # fmt: skip
"""Files without which a release is refused."""
READABLE = {
    "radfm": ("Language_files/tokenizer_config.json", "Language_files/config.json"),
    "m3d_llama2": ("tokenizer_config.json", "config.json", "model.safetensors.index.json"),
    "merlin": ("RadLLaMA-7b/tokenizer_config.json", "RadLLaMA-7b/config.json"),
    "ct_chat": ("language/model.safetensors.index.json", "conversation.py"),
}
"""Files that may be missing, but not damaged."""
MERLIN_WIDE = ("merlin", "float32")
DAMAGED = [
    *((name, file, damage) for name, files in NEEDED.items() for file in files for damage in (take_away, cut, spoil)),
    *((name, file, spoil) for name, files in READABLE.items() for file in files),
]
IN_PLAIN = [
    *((name, file, take_away) for name, files in NEEDED.items() for file in files),
    *(("radfm", file, damage) for file in NEEDED["radfm"] for damage in (cut, spoil)),
    *(("ct_chat", file, cut) for file in NEEDED["ct_chat"]),
    ("m3d_llama2", NEEDED["m3d_llama2"][1], spoil),
    *((name, READABLE[name][0], spoil) for name in READABLE),
]
"""Every file is missing once, and every kind of file is damaged once in each way."""


@pytest.mark.parametrize(
    ("name", "file", "damage"),
    in_suites(DAMAGED, plain=IN_PLAIN),
    ids=[f"{name}-{file}-{damage.__name__}" for name, file, damage in DAMAGED],
)
def test_a_missing_or_damaged_file_is_named_before_weights_are_read(
    name: str, file: str, damage: Callable[[Path, str], None], releases: Made, tmp_path: Path, values_read: list[str]
) -> None:
    shutil.copytree(releases[name][0], tmp_path / "release")
    damage(tmp_path / "release", file)
    with pytest.raises((ValueError, FileNotFoundError)) as caught:
        read(name, tmp_path / "release")
    assert Path(file).stem in str(caught.value)
    assert str(tmp_path / "release") in str(caught.value)
    assert values_read == []


def test_reading_is_noticed(releases: Made, values_read: list[str]) -> None:
    """The check of the test above: whole releases do read values from files of each kind."""
    read("ct_chat", releases["ct_chat"][0])
    assert set(values_read) == {"torch", "transformers"}
    read("m3d_llama2", releases["m3d_llama2"][0])
    assert set(values_read) == {"torch", "transformers", "safetensors"}


# Merlin's folder takes 1 CPU s to read, nine tenths of it for its tokenizer.
@pytest.mark.parametrize(
    ("name", "dtype"),
    in_suites(
        product(WRITERS, ("float32", "bfloat16")),
        plain=[(name, dtype) for name in WRITERS for dtype in ("float32", "bfloat16") if (name, dtype) != MERLIN_WIDE],
    ),
)
def test_a_release_has_the_same_bits(name: str, dtype: DtypeName, releases: Made) -> None:
    folder, _ = releases[name]
    assert_same(*read_later_and_at_once(lambda: read(name, folder, dtype=dtype), "bf16-mixed"))


def test_the_adapter_of_ct_chat_is_merged_when_a_weight_is_read(
    releases: Made, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The control: without the merge, the weights are others."""
    folder, _ = releases["ct_chat"]
    later, at_once = read_later_and_at_once(lambda: read("ct_chat", folder), "32-true")
    assert_same(later, at_once)
    monkeypatch.setattr(PeftModel, "merge_and_unload", lambda adapted: adapted.unload(), raising=False)
    with pytest.raises(AssertionError, match="language"):
        assert_same(later, read_later_and_at_once(lambda: read("ct_chat", folder), "32-true")[1])


TENSORS, ROWS, WIDTH = 12, 2048, 2048


def held_mb() -> float:
    # Pages of a file that is mapped into memory are not counted: they can be dropped at any time.
    lines = Path("/proc/self/status").read_text("ascii").splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("RssAnon")) / 1024


def mb_of_reading(rank: int, world_size: int, path: Path) -> tuple[float, float]:
    """Returns how much memory is held at most while weights are read in bfloat16, and how much afterwards."""
    with torch.device("meta"):
        layers = [nn.Linear(WIDTH, ROWS, bias=False) for _ in range(TENSORS)]
        module = nn.ModuleDict({"language": nn.ModuleList(layers)})
    key_map = KeyMap("a checkpoint", (Rule(r"(.+)", (r"language.\1",)),))
    stored = open_checkpoint([path])
    before, peak, done = held_mb(), 0.0, threading.Event()

    def watch() -> None:
        nonlocal peak
        while not done.is_set():
            peak = max(peak, held_mb())
            time.sleep(0.001)

    watcher = threading.Thread(target=watch)
    watcher.start()
    load_published(module, stored.tensors, key_map, where="x", dtypes={"language": torch.bfloat16})
    done.set()
    watcher.join()
    assert all(p.dtype == torch.bfloat16 for p in module.parameters())
    return peak - before, held_mb() - before


@pytest.mark.slow
@pytest.mark.parametrize("suffix", [".bin", ".safetensors"])
def test_reading_in_16_bits_never_holds_the_32_bit_weights(suffix: str, tmp_path: Path) -> None:
    path = tmp_path / f"wide{suffix}"
    wide = {f"{number}.weight": torch.full((ROWS, WIDTH), float(number)) for number in range(TENSORS)}
    (torch.save if suffix == ".bin" else save_file)(wide, path)
    narrow_mb, one_mb = TENSORS * ROWS * WIDTH * 2 / 2**20, ROWS * WIDTH * 4 / 2**20
    assert path.stat().st_size > 2 * narrow_mb * 2**20
    ((peak_mb, kept_mb),) = run_ranks(1, mb_of_reading, path)
    assert kept_mb == pytest.approx(narrow_mb, rel=0.1)
    # The narrow weights, and two wide tensors at most: the one that is converted and what the allocator still holds.
    assert peak_mb < narrow_mb + 2 * one_mb + 16, (peak_mb, narrow_mb)
